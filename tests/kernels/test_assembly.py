"""What the compiler makes of the kernels, as far as this shows without a GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.assembly import main
from benchmarks.cases import CASES

ROOT = Path(__file__).parents[2]
STATE = [name for name, case in CASES.items() if case.kind == "state"]
MATRICES = ["cayley_rank2", "cayley_skew4", "sinkhorn"]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """The results of the real compiler (`benchmarks.assembly`).

    It runs in a process of its own, since kernels belong to the interpreter in this one.
    """
    folder = tmp_path_factory.mktemp("assembly")
    outside = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    arguments = [["--features", "768", *STATE, *MATRICES],
                 ["--features", "768", "--capability", "80", "stream_read"]]
    paths = [folder / f"{number}.json" for number in range(len(arguments))]
    both = [[*given, "--out", str(path)] for given, path in zip(arguments, paths, strict=True)]
    script = f"from benchmarks.assembly import main\nfor given in {both!r}: main(given)"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True,
                   env=outside | {"TRITON_CACHE_DIR": str(folder), "CUDA_VISIBLE_DEVICES": ""})
    found = [json.loads(path.read_text()) for path in paths]
    return [row | {"capability": kept["capability"]} for kept in found for row in kept["rows"]]


def test_every_kernel_compiles_forward_and_backward(rows):
    found = {(row["operator"], row["capability"]) for row in rows}
    assert found == {*((name, 90) for name in STATE + MATRICES), ("stream_read", 80)}
    for name in STATE + MATRICES:
        kernels = [row for row in rows if (row["operator"], row["capability"]) == (name, 90)]
        assert len(kernels) >= 2, name


def test_no_register_spills(rows):
    assert not [(row["operator"], row["kernel"], row["stack"]) for row in rows if row["stack"]]


def test_the_state_moves_16_bytes_at_a_time(rows):
    for row in rows:
        if row["operator"] in STATE:
            assert row["loads"].get("16"), row
            assert not {"1", "2"} & (set(row["loads"]) | set(row["stores"])), row


def test_it_refuses_to_write_over_a_result(tmp_path, capsys):
    path = tmp_path / "assembly.json"
    path.write_text("{}")
    with pytest.raises(SystemExit):
        main(["--out", str(path)])
    assert "--force" in capsys.readouterr().err
