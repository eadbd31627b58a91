"""An answer counts in whatever form it comes, and a check and the grading say the same of it."""

import json
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO

import pytest

import grade
from class_checks import check_answer, check_code
from class_questions import ROOT, Check, session
from grade_run import answer, plain, unpacked

NUMBERS = Check("mine", "", "", "mine = [1.5, -2.0, 0.25]", [], step=0.01)
LETTERS = Check("mine", "", "", "mine = ['b', 'a', 'c']", [])
VECTOR = Check("mine", "", "", "", [], test="import torch\n"
               "x = torch.tensor([1.0, 2.0, float(seed % 7)], dtype=torch.float64)\n"
               "y = mine(x)\nassert torch.allclose(y, 3 * x, atol=1e-4)")
PAIR = Check("mine", "", "", "", [], test="k, beta = mine(0.5)\n"
             "assert k.shape == (2,) and abs(k.norm() - 1) < 1e-4 and beta == 2")
JACOBIAN, CONVOLUTION = (next(of for of in session(name).checks if of.name == own)
                         for name, own in (("01_residual_stream", "my_jacobian"),
                                           ("19_audit", "my_convolution")))
CHECKS = {"numbers": NUMBERS, "letters": LETTERS, "vector": VECTOR, "pair": PAIR,
          "jacobian": JACOBIAN, "convolution": CONVOLUTION}
IMPORTS = "import numpy as np, torch, sympy\nfrom fractions import Fraction as F\n"
RIGHT = {
    "numbers": ["(1.5, -2, 0.25)", "[[1.5, -2], 0.25]", "np.array([[1.5], [-2], [0.25]])",
              "[torch.tensor(1.5), torch.tensor([-2.0]), 0.25]", "[F(3, 2), F(-2), F(1, 4)]",
              "np.array([1.5, -2, 0.25], dtype=np.longdouble)", "['1.5', '-2', ' 0.25 ']",
              "np.array([F(3, 2), F(-2), F(1, 4)])", "torch.tensor([[1.5, -2, 0.25]]).bfloat16()",
              "sympy.Matrix([1.5, -2, 0.25])", "[np.array([1.5]), np.array(-2), np.float16(0.25)]",
              "torch.tensor([1.5, 0, -2, 0, 0.25], requires_grad=True)[::2]"],
    "letters": ["('B', ' a', 'c ')", "['b)', '(a)', 'c.']", "np.array(['b', 'a', 'c'])"],
    "vector": ["lambda x: 3 * x.float()", "lambda x: (3 * x)[:, None]", "lambda x: x.mul_(3)",
             "lambda x: (3 * x).tolist()", "lambda x: 3 * np.asarray(x)",
             "lambda x: [3 * one for one in x]", "lambda x: (3 * x).requires_grad_()"],
    "pair": ["lambda x: ([0.6, 0.8], 2)", "lambda x: [torch.tensor([0.6, 0.8]), torch.tensor([2])]",
           "lambda x: (np.array([[0.6], [0.8]]), np.float32(2))"],
}
WRONG = {  # and what the check says
    "numbers": {"[1.5, -2, '0,25']": "must be a number, as 0.5, not '0,25'",
              "[1,5, -2,0, 0,25]": "needs 3 entries, not 6. A number has a point",
              "[1.5, -2, None]": "not None", "[1.5, -2, float('nan')]": "not nan",
              "[1.5, -2, 10**400]": "must be a number", "None": "needs 3 entries, not 1",
              "np.array([1.5, -2, 0.25], dtype=complex)": "must be a number",
              "torch.zeros(1_000_000)": "not 1000000", "[1.5, -2, ' ']": "isn't complete",
              "[1.5, -2, print]": "must be a number", "[1.5, -2, 0.3]": "2 of 3 are"},
    "letters": {"[2, 1, 3]": 'must be a letter, as "a", not 2', "'bac'": "needs 3 entries, not 1",
              "['b', 'a', ' ']": "isn't complete", "['b', 'a', 'b']": "2 of 3 are"},
    "vector": {"lambda x: None": "must be made of numbers, not None", "lambda x: 'x'": "not 'x'",
             "lambda x: torch.zeros(0, 3)": "it is empty", "lambda x: 2 * x": "isn't right yet",
             "lambda: 3": "TypeError", "3": "TypeError", "lambda x: x @ 3": "TypeError"},
    "pair": {"lambda x: ([0.6, 0.8], torch.zeros(0))": "it is empty"},
    "jacobian": {"lambda x: torch.empty(0, len(x), len(x))": "it is empty"},
    "convolution": {"lambda x, w: torch.nn.functional.pad(x, (0, 0, 2, 0)).unfold(1, 3, 1).sum(-1)":
                  "these aren't its weights"},
}


def carried(value):
    """A value, as it comes through the walls."""
    return unpacked(json.loads(json.dumps(plain(value))))


def said(of: Check, given: str) -> tuple[str, str]:
    """What the check says of an answer, and the grading."""
    space = {"check_answer": check_answer, "check_code": check_code}
    exec(f"{IMPORTS}{of.name} = {given}", space)
    heard = StringIO()
    try:
        with redirect_stdout(heard):
            exec(of.code(), space)
    except AssertionError as wrong:  # anything else is a fault of the check
        heard.write(str(wrong))

    class Process:
        def call(self, name, *inputs):
            return carried(space[name](*map(carried, inputs)))

    found = json.loads(json.dumps(answer(space, of.name)))
    return heard.getvalue().strip(), grade.judged(of, found, Process())


@pytest.mark.parametrize("of, given", [(of, given) for of in RIGHT for given in RIGHT[of]])
def test_a_right_answer_counts_in_every_form(of, given):
    assert said(CHECKS[of], given) == ("mine is right.", "")


@pytest.mark.parametrize("of, given", [(of, given) for of in WRONG for given in WRONG[of]])
def test_a_wrong_answer_is_told_why_and_earns_nothing(of, given):
    heard, graded = said(CHECKS[of], given)
    assert WRONG[of][given] in heard and "is right" not in heard and graded


def test_a_check_tells_right_from_wrong_however_python_runs():
    """`python -O` takes asserts out of what it compiles."""
    code = ("from class_checks import check_answer, check_code\n"
            "for check, *more in (check_code, 'assert mine == 2'), (check_answer, [1], [''], ''):\n"
            "    try:\n        check('mine', 1, *more)\n"
            "    except AssertionError:\n        print('wrong')\n")
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True,
                          check=True, cwd=ROOT / "tools")
    assert done.stdout == "wrong\nwrong\n"
