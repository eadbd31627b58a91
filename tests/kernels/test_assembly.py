"""What the compiler makes of the kernels, as far as this shows without a GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.cases import CASES

ROOT = Path(__file__).parents[2]
STATE = [name for name, case in CASES.items() if case.kind == "state"]
MATRICES = ["cayley_rank2", "cayley_skew4", "sinkhorn"]
JOINED = [name for name in STATE if "_join" in name]
FEW_OUTPUTS = ("constrained_join, H = I", "constrained_join, corners")  # up to 16
# whose 16-bit halves of the gradients of y don't lie side by side in a tile, as every sixth of a
# table's row, or begin at odd places, in rows of 49; these aren't the state
NARROW = {("hyper_join", "_enter_backward"), ("jpmhc_join", "_enter_backward"),
          ("jpmhc_join", "_backward"), ("jpmhc_join, exact", "_enter_backward"),
          ("jpmhc_join, exact", "_backward")}
MULTIPLIED = ("rms_linear", *JOINED)  # the operators that multiply by W


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """The results of the real compiler (`benchmarks.assembly`).

    It runs in a process of its own, since kernels belong to the interpreter in this one. Triton
    keeps what it compiled, and compiles a kernel again after a change of its code.
    """
    folder = tmp_path_factory.mktemp("assembly")
    outside = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    arguments = [["--features", "768", *STATE, *MATRICES],
                 ["--features", "768", "--capability", "80", "stream_read"],
                 ["--features", "768", "--dtype", "float32", *MULTIPLIED]]
    paths = [folder / f"{number}.json" for number in range(len(arguments))]
    both = [[*given, "--out", str(path)] for given, path in zip(arguments, paths, strict=True)]
    script = f"from benchmarks.assembly import main\nfor given in {both!r}: main(given)"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True,
                   env=outside | {"TRITON_CACHE_DIR": str(ROOT / "_build/triton"),
                                  "CUDA_VISIBLE_DEVICES": ""})
    found = [json.loads(path.read_text()) for path in paths]
    return [row | {"capability": kept["capability"], "dtype": kept["dtype"]}
            for kept in found for row in kept["rows"]]


def test_every_kernel_compiles_forward_and_backward(rows):
    found = {(row["operator"], row["capability"]) for row in rows}
    assert found == {*((name, 90) for name in STATE + MATRICES), ("stream_read", 80)}
    for name in STATE + MATRICES:
        kernels = [row for row in rows if (row["operator"], row["capability"]) == (name, 90)]
        assert len(kernels) >= 2, name


def test_no_kernel_spills_but_the_backward_pass_between_sublayers(rows):
    """It spills six registers. Of the layouts that an H100 tried, the fastest one spilled ten."""
    spilled = {(row["operator"], row["kernel"]) for row in rows if row["stack"]}
    assert spilled <= {(name, "_backward") for name in JOINED}
    assert max(row["stack"] for row in rows) <= 24


def test_the_state_moves_16_bytes_at_a_time(rows):
    for row in rows:
        if row["operator"] in STATE and row["kernel"] != "_pack":  # which moves W alone
            # the threads of a joined backward pass share few features each
            wide = {"8", "16"} if (row["operator"], row["kernel"]) in NARROW else {"16"}
            assert wide & set(row["loads"]), row
            narrow = {width: count for side in ("loads", "stores")
                      for width, count in row[side].items() if width in ("1", "2")}
            # a tile of the outputs' gradient, in halves, has a number per thread
            few = row["operator"].startswith(FEW_OUTPUTS) and row["kernel"] == "_backward"
            assert (not narrow or (row["operator"], row["kernel"]) in NARROW
                    or (few and narrow == {"2": 2})), row


def test_a_product_in_tf32_has_rounded_operands(rows):
    """Matrix units cut off what tf32 can't hold, and that shifts a sum by 7e-4."""
    formats = {}
    for row in rows:
        assert not row["products"].get("tf32") or row["rounded"], row
        for found in row["products"]:
            formats.setdefault(row["operator"], {})[row["dtype"]] = found
    wanted = {"bfloat16": "bf16", "float32": "tf32"}
    assert formats == dict.fromkeys(MULTIPLIED, wanted)


def test_all_programs_of_rms_linear_run_at_once_where_tokens_are_few(rows):
    for row in rows:
        if row["operator"] == "rms_linear" and row["dtype"] == "bfloat16":
            assert row["resident"] >= 2 and (row["waves"] <= 1 or row["N"] > 8192), row
