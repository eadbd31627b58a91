"""A release: one version everywhere, a workflow whose commands exist, a wheel that is whole."""

import datetime
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
import tomllib
import yaml
from setuptools import build_meta

import geolab
import release

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
TARGETS = set(re.findall(r"^([\w./-]+):", (ROOT / "Makefile").read_text(), re.M))
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def released() -> list[tuple[str, str]]:
    """The versions in the changelog and their dates, the newest first."""
    heads = re.findall(r"^## (.*)$", CHANGELOG, re.M)
    assert heads[0] == "[Unreleased]"
    return [re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)", head).groups()
            for head in heads[1:]]


# ---------------------------------------------------------------- the version

def test_there_is_one_version_and_one_date():
    assert release.version() == PROJECT["project"]["version"] == geolab.__version__
    version, date = released()[0]
    assert (CITATION["version"], CITATION["date-released"]) == (version, date)


def test_the_version_is_the_newest_release_or_the_next_ones_beginning():
    """What has changed since a release isn't called by its number."""
    version, last = release.version(), released()[0][0]
    unreleased = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## )", CHANGELOG, re.M | re.S)[1].strip()
    if unreleased:
        assert version.endswith(".dev0")
        assert tuple(map(int, version.split(".")[:3])) > tuple(map(int, last.split(".")))
    else:
        assert version == last


def test_the_changelog_goes_back_in_time_by_kinds():
    versions = [tuple(map(int, version.split("."))) for version, _ in released()]
    dates = [datetime.date.fromisoformat(date) for _, date in released()]
    assert versions == sorted(versions, reverse=True) and dates == sorted(dates, reverse=True)
    assert set(re.findall(r"^### (.*)$", CHANGELOG, re.M)) <= KINDS


@pytest.mark.parametrize("version, tag, refusal", [
    ("0.1.0", "v0.1.0", ""), ("0.1.0", "v99.0.0", "--tag must be v0.1.0"),
    ("0.2.0.dev0", "v0.2.0.dev0", "--tag must wait")])
def test_a_tag_of_another_version_is_refused(capsys, monkeypatch, version, tag, refusal):
    monkeypatch.setattr(release, "version", lambda: version)
    monkeypatch.setattr(sys, "argv", ["release.py", "--tag", tag])
    if refusal:
        with pytest.raises(SystemExit):
            release.main()
        assert refusal in capsys.readouterr().err
    else:
        assert release.main() == 0 and "The first release." in capsys.readouterr().out


def test_the_notes_of_a_release_are_its_section_of_the_changelog():
    assert "### Added" in release.notes("0.2.0.dev0") and "## [" not in release.notes("0.1.0")
    with pytest.raises(ValueError, match="must have a section"):
        release.notes("99.0.0")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_what_a_workflow_runs_is_there(workflow):
    jobs = yaml.safe_load(workflow.read_text())["jobs"]
    said = "\n".join(step.get("run", "") for job in jobs.values() for step in job["steps"])
    assert set(re.findall(r"^make ([\w-]+)", said, re.M)) <= TARGETS
    scripts = re.findall(r"(?:python|bash) ([\w./-]+)", said)
    assert all((ROOT / script).is_file() for script in scripts), scripts


# ---------------------------------------------------------------- the wheel

@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """What a wheel is made of, and beside it the two packages that stay in the clone."""
    source = tmp_path_factory.mktemp("source")
    shutil.copytree(ROOT / "geolab", source / "geolab",
                    ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("studies", "benchmarks"):
        (source / name).mkdir()
        shutil.copy(ROOT / name / "__init__.py", source / name)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    return source


@pytest.fixture(scope="module")
def wheel(source) -> Path:
    subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--wheel", source],
                   check=True, capture_output=True)
    return next((source / "dist").glob("*.whl"))


def test_the_wheel_has_every_module_and_the_data_beside_them(wheel):
    with ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    ours = {path.relative_to(ROOT).as_posix() for path in (ROOT / "geolab").rglob("*")
            if path.is_file() and path.suffix not in (".pyc", ".md")}
    assert {name for name in packed if not name.endswith(".md")} == ours


def test_an_editable_install_finds_the_studies_and_benchmarks_of_the_clone(
        source, tmp_path, monkeypatch):
    monkeypatch.chdir(source)
    with ZipFile(tmp_path / build_meta.build_editable(str(tmp_path))) as archive:
        paths = [archive.read(name).decode().split() for name in archive.namelist()
                 if name.endswith(".pth")]
    assert paths == [[str(source)]]


def test_the_wheel_alone_grafts(wheel, tmp_path):
    with ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = ("import sys\nsys.modules['matplotlib'] = sys.modules['ipywidgets'] = None\n"
            "import geolab, torch\nfrom geolab.graft import graft\n"
            "layer = torch.nn.TransformerEncoderLayer(8, 2, 16, norm_first=True)\n"
            "print(geolab.__file__, type(graft(torch.nn.TransformerEncoder(layer, 1, "
            "enable_nested_tensor=False), 'mhc')).__name__)")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, text=True, check=False,
                          capture_output=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.stdout.startswith(str(tmp_path)), done.stdout + done.stderr
    assert done.stdout.strip().endswith("TransformerEncoder")


@pytest.mark.parametrize("missing", ["matplotlib", "ipywidgets"])
def test_figures_without_their_extra_name_it(missing):
    code = ("import importlib.util as util\nfind = util.find_spec\n"
            f"util.find_spec = lambda name, *a: None if name == {missing!r} else find(name, *a)\n"
            "import geolab.show")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, text=True, check=False,
                          capture_output=True)
    assert done.stderr.splitlines()[-1].startswith(
        f'ImportError: geolab.show needs {missing}: pip install "geolab[show]"'), done.stderr
    extras = PROJECT["project"]["optional-dependencies"]
    assert any(one.startswith(missing) for one in extras["show"])
    assert "geolab[show]" in extras["notebooks"]
