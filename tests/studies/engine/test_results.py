"""A measurement keeps its provenance, is never overwritten silently, and is refused when edited."""

import json
import re
import statistics
from pathlib import Path

import pytest
import torch

from benchmarks.cases import CASES
from benchmarks.kernels import file_of
from studies.engine import results
from studies.engine.results import interval, read, record
from studies.experiments.registry import MEASUREMENTS, STUDIES

FILES = sorted(path for found in ("*.json", "incoming/*.json")
               for path in results.FOLDER.glob(found))
TOLD = (results.ROOT / "benchmarks/README.md").read_text()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.json"
    record(path, "what was asked", {"runs": [{"loss": 0.125}], "name": "Čech"})
    return path


def test_a_record_has_its_provenance_and_stays(file):
    kept = read(file)
    assert kept["experiment"] == "what was asked" and kept["runs"] == [{"loss": 0.125}]
    assert kept["versions"]["torch"] == torch.__version__ and kept["device"] in ("cpu", "cuda")
    assert {"commit", "uncommitted changes", "threads", "peak_bytes", "sources"} <= kept.keys()
    processor = kept["processor"]
    assert processor.keys() == {"name", "architecture", "cores", "instruction_set", "blas", "told"}
    assert processor["name"] and processor["blas"]
    assert processor["instruction_set"] == torch.backends.cpu.get_cpu_capability()
    with pytest.raises(FileExistsError):
        record(file, "again", {})
    assert read(file) == kept
    record(file, "again", {}, force="a wrong seed")
    assert read(file)["experiment"] == "again" and read(file)["replaced"] == "a wrong seed"


def test_a_file_may_be_laid_out_anew_and_not_edited(file):
    content = json.loads(file.read_text())
    file.write_text(json.dumps(dict(reversed(content.items())), indent=4))
    assert read(file) == content
    for edited in (content | {"runs": [{"loss": 0.124}]}, content | {"remark": ""},
                   {key.replace("runs", "run"): value for key, value in content.items()},
                   {key: value for key, value in content.items() if key != "sha256"}):
        file.write_text(json.dumps(edited))
        with pytest.raises(ValueError, match="run.json was edited after it was measured"):
            read(file)


# a table of Student's t at 0.975, by the number of values
@pytest.mark.parametrize("count, quantile", [(3, 4.302653), (16, 2.131450), (31, 2.042272)])
def test_an_interval_is_students(count, quantile):
    values = [0.0, 1.0] * (count // 2) + [0.5] * (count % 2)
    expected = quantile * statistics.stdev(values) / count**0.5
    assert interval(values) == pytest.approx((0.5, expected), abs=1e-6)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_stored_file_was_edited_and_each_has_the_command_that_makes_it(path):
    read(path)
    if path.name.startswith("kernels_"):
        whole = path.name.partition(".")[0] + ".json"
        assert path.name in {file_of(Path(whole), name).name for name in CASES}
        assert f"results/{whole}" in TOLD
    elif named := re.fullmatch(r"(\w+)\.(\w+)\.json", path.name):
        study = {**STUDIES, **MEASUREMENTS}[named[1]]
        assert named[2] in getattr(study, "sizes", ("cpu",))
    else:
        assert f"results/{path.name}" in TOLD
