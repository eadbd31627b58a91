"""A reader can tell us of a mistake or a barrier, and the pages say how."""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FORMS = sorted(ROOT.glob(".github/ISSUE_TEMPLATE/*.yml"))
KINDS = {"input", "textarea", "dropdown", "checkboxes", "markdown"}


def test_there_is_a_form_for_a_mistake_a_barrier_and_a_class():
    assert {path.stem for path in FORMS} == {"mistake", "barrier", "teaching", "config"}


@pytest.mark.parametrize("path", [path for path in FORMS if path.stem != "config"],
                         ids=lambda path: path.stem)
def test_a_form_is_one_that_github_reads(path):
    form = yaml.safe_load(path.read_text())
    assert set(form) == {"name", "description", "title", "labels", "body"}
    assert len({part["id"] for part in form["body"]}) == len(form["body"]) > 1
    for part in form["body"]:
        assert part["type"] in KINDS and part["attributes"]["label"]
        assert set(part.get("validations", {})) <= {"required"}


def test_the_page_of_mistakes_names_the_form():
    form = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/mistake.yml").read_text())
    assert f"*{form['name']}*" in (ROOT / "book/errata.md").read_text()
