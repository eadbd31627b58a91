"""The margins of the notebooks' proved assertions, over many draws.

  python tools/margins.py                          every notebook under fifty shifts of all seeds
  python tools/margins.py --only 02 05 --shifts 3  two chapters under three shifts

The command runs only the statements that a proved assertion needs: no figure, no training, no
stored run. The margin of |x| < tolerance, of allclose and of a rank is error / tolerance. A
tolerance is tight if this exceeds one tenth, unless a comment on the assertion's lines gives a
reason: `# exact: ...`. The command ends with status 1 if a tolerance is tight or an assertion
fails.
"""

import argparse
import ast
import copy
import math
import operator
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

import standin
from machines import notebooks
from proved import Chapter, Place, keep_apart, torch

SHIFT = 777       # from one draw to the next, added to every seed
ROUNDING = 1e-5   # a literal number up to this is a tolerance; a larger one is a bound
TIGHT = 0.1       # of the tolerance
REASON = "# exact:"
ORDER: dict[type, Callable] = {ast.Lt: operator.lt, ast.LtE: operator.le,
                               ast.Gt: operator.gt, ast.GtE: operator.ge}


def is_tolerance(node: ast.AST) -> bool:
    """Return whether the node is a small number, or a sum or product with one."""
    if isinstance(node, ast.BinOp):
        return is_tolerance(node.left) or is_tolerance(node.right)
    if isinstance(node, ast.UnaryOp):
        return is_tolerance(node.operand)
    return isinstance(node, ast.Constant) and isinstance(node.value, float) \
        and 0 < node.value <= ROUNDING


def is_chosen(node: ast.AST) -> bool:
    """Return whether a bound has a chosen, decimal number; the numbers of theorems are whole."""
    return any(isinstance(part, ast.Constant) and isinstance(part.value, float)
               and not part.value.is_integer() for part in ast.walk(node))


class Instrument(ast.NodeTransformer):
    """Writes `a < b + 1e-12` in an assertion as a call of `_compare_` with its parts."""

    def __init__(self):
        self.inside = False

    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        self.inside = True
        node.test = self.visit(node.test)
        self.inside = False
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        sides = [node.left, *node.comparators]
        if not self.inside or not all(type(op) in ORDER for op in node.ops):
            return node
        call = ast.Call(ast.Name("_compare_", ast.Load()), [
            ast.Constant(tuple(type(op).__name__ for op in node.ops)), *map(self.parts, sides)], [])
        return ast.copy_location(call, node)

    def parts(self, side: ast.expr) -> ast.Tuple:
        """(kind, value, tolerance) of a side of a comparison.

        The value is the side with 0 for the small number, and the tolerance is what this changes:
        b + 1e-12 gives ("tolerance", b, 1e-12) and 1e-12 / n gives ("tolerance", 0, 1e-12 / n).
        """
        kind, value, tolerance = "chosen" if is_chosen(side) else "plain", side, ast.Constant(0)
        if is_tolerance(side):
            kind, value = "tolerance", WithoutTolerance().visit(copy.deepcopy(side))
            tolerance = ast.BinOp(side, ast.Sub(), value)
        return ast.Tuple([ast.Constant(kind), value, tolerance], ast.Load())


class WithoutTolerance(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant(0.0) if is_tolerance(node) else node


def array(x: Any) -> np.ndarray:
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu().numpy()
    return np.asarray(x, dtype=complex if np.iscomplexobj(x) else float)


def margin(lower: tuple, upper: tuple, holds: Any) -> float:
    """The margin of lower <= upper, each (kind, value, tolerance).

    Where the tolerance widens what is allowed it is error / tolerance, and where it asks for a
    distance, as in x > 1e-9 or x < 1 − 1e-9, tolerance / distance. Where the comparison is false,
    as in `assert (a < 1e-9) == b`, it is the reciprocal.
    """
    slack, error = array(upper[2]) - array(lower[2]), array(lower[1]) - array(upper[1])
    with np.errstate(all="ignore"):
        ratio = np.where(slack > 0, np.maximum(error, 0) / slack, slack / error)
        ratio = np.where(array(holds) > 0, ratio, 1 / ratio)
    return float(np.max(ratio, initial=0.0))


class Margins:
    """The worst margin of each assertion, and how often it was measured."""

    def __init__(self):
        self.worst: dict[Place, float] = {}
        self.gaps: dict[Place, dict[tuple[int, int], dict[int, float]]] = {}
        self.shift = 0
        self.places: dict[tuple[str, int], Place] = {}   # by file name and line

    def place(self) -> tuple[Place | None, int]:
        """Return the assertion that runs now, or None, and the position in its code."""
        frame = sys._getframe(2)
        while frame:
            place = self.places.get((frame.f_code.co_filename, frame.f_lineno))
            if place:
                return place, frame.f_lasti
            frame = frame.f_back
        return None, 0

    def note(self, ratio: float) -> None:
        """Charge the margin to the assertion."""
        place, _ = self.place()
        if place:
            self.worst[place] = max(self.worst.get(place, 0.0), ratio)

    def note_gap(self, at: int, low: np.ndarray, high: np.ndarray) -> None:
        """Keep this draw's smallest relative distance between a number and a chosen bound.

        A positive number and its bound that are a factor of ten apart are far.
        """
        place, code = self.place()
        size = np.maximum(np.abs(low), np.abs(high))
        gap = np.where((low > 0) & (high > 10 * low), np.inf, np.abs(high - low) / size)
        if place:
            draws = self.gaps.setdefault(place, {}).setdefault((at, code), {})
            draws[self.shift] = min(draws.get(self.shift, math.inf), np.min(gap, initial=math.inf))

    def compare(self, ops: tuple[str, ...], *sides: tuple) -> Any:
        """The value of a chain of comparisons, whose margins are noted."""
        values = [value + tolerance if kind == "tolerance" else value
                  for kind, value, tolerance in sides]
        result = True
        for at, name in enumerate(ops):
            holds = ORDER[getattr(ast, name)](values[at], values[at + 1])
            lower, upper = sides[at:at + 2] if name.startswith("Lt") else sides[at:at + 2][::-1]
            if "tolerance" in (lower[0], upper[0]):
                self.note(margin(lower, upper, holds))
            elif "chosen" in (lower[0], upper[0]):
                self.note_gap(at, array(lower[1]), array(upper[1]))
            result = result & holds if at else holds
        return result

    def close(self, function: Callable, rtol: str = "rtol", atol: str = "atol",
              default: tuple[float, float] = (1e-5, 1e-8)) -> Callable:
        """Wrap a function like allclose so that it notes the margin of its numbers."""
        def noting(a, b, *rest, **options):
            given = dict(zip((rtol, atol), rest, strict=False)) | options
            result = function(a, b, **given)
            relative, absolute = (array(given.get(name, usual))
                                  for name, usual in zip((rtol, atol), default, strict=True))
            first, second = array(a), array(b)
            error, allowed = np.abs(first - second), absolute + relative * np.abs(second)
            if max(relative.max(), absolute.max()) > ROUNDING:
                self.note_gap(0, error, allowed)
                return result
            with np.errstate(all="ignore"):
                ratio = np.where(first == second, 0.0, error / allowed)
            if result is not None and np.ndim(array(result)):
                ratio = np.where(array(result) > 0, ratio, 1 / ratio)
            worst = float(np.max(ratio, initial=0.0))
            self.note(worst if result is None or np.ndim(array(result)) or result else 1 / worst)
            return result
        return noting

    def rank(self, function: Callable) -> Callable:
        """Wrap matrix_rank so that it notes the margin of its singular values."""
        def noting(matrix, **options):
            sizes = array(torch.linalg.svdvals(matrix))
            largest = sizes.max(-1, initial=0, keepdims=True)
            eps = max(matrix.shape[-2:]) * torch.finfo(matrix.dtype).eps
            rtol = options.get("rtol", 0 if "atol" in options else eps)
            cut = np.maximum(array(options.get("atol", 0)), rtol * largest)
            with np.errstate(all="ignore"):
                ratio = np.where(sizes > cut, cut / sizes, sizes / cut)
            self.note(float(np.max(ratio, initial=0.0)))
            return function(matrix, **options)
        return noting

    def install(self) -> None:
        """Replace the functions that the cells call by ones that measure."""
        for library in (torch, np):
            for name in ("allclose", "isclose"):
                setattr(library, name, self.close(getattr(library, name)))
        torch.Tensor.allclose = lambda *given, **options: torch.allclose(*given, **options)
        math.isclose = self.close(math.isclose, "rel_tol", "abs_tol", (1e-9, 0.0))
        torch.testing.assert_close = self.close(torch.testing.assert_close)
        torch.linalg.matrix_rank = self.rank(torch.linalg.matrix_rank)


def report(chapter: Chapter, margins: Margins) -> int:
    """Print the chapter's row and its faults. Returns how many there are."""
    own = chapter.path.stem
    worst = {place: ratio for place, ratio in margins.worst.items() if place.chapter == own}
    lines = {}
    for place, ratio in worst.items():
        if ratio > TIGHT:
            lines[place] = f"error / tolerance {ratio:.1e}"
    for place, gaps in margins.gaps.items():
        for draws in gaps.values() if place.chapter == own else ():
            near = [gap for gap in draws.values() if math.isfinite(gap)]
            low, high = min(near, default=math.inf), max(near, default=math.inf)
            if high - low > low:
                lines[place] = f"by chance: {low:.1%} to {high:.1%} from a bound"
    lines = {place: said for place, said in lines.items() if REASON not in chapter.text(place)}
    for place, errors in chapter.failures.items():
        lines[place] = f"failed in {len(errors)} draws: {errors[0][:160]}"
    print(f"{chapter.path.stem:28} {len(worst):3} with a tolerance, worst "
          f"{max(worst.values(), default=0):7.1e}, {len(chapter.left_out):3} left out, "
          f"{len(lines)} at fault")
    for place, said in sorted(lines.items()):
        print(f"  cell {place.cell}, line {place.line}: {said}\n    {chapter.text(place)}")
    sys.stdout.flush()
    return len(lines)


def measure(paths: list[Path], shifts: int, first: int = 0) -> int:
    """Run the proved assertions of these notebooks under shifts `first`, `first` + 1, … of all
    seeds, print a row for each notebook, and return how many faults there are.

    It changes PyTorch and NumPy for the rest of the process.
    """
    warnings.simplefilter("ignore")
    matplotlib.use("agg")
    standin.move_seeds(0)
    margins, faults = Margins(), 0
    margins.install()
    keep_apart()
    for path in paths:
        os.chdir(path.parent)
        chapter = Chapter(path, Instrument())
        margins.places = chapter.places
        for margins.shift in range(first, first + shifts):
            standin.move_seeds(SHIFT * margins.shift)
            chapter.run({"__name__": "__main__", "_compare_": margins.compare})
        faults += report(chapter, margins)
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME",
                        help="how the names of the notebooks begin (default: all)")
    parser.add_argument("--shifts", type=int, default=50, help="how many draws (default 50)")
    parser.add_argument("--first", type=int, default=0, help="the first one's number (default 0)")
    given = parser.parse_args()
    return int(measure(notebooks(given.only), given.shifts, given.first) > 0)


if __name__ == "__main__":
    sys.exit(main())
