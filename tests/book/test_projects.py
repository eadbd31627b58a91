"""Each project has a rubric of twenty points, and its sample of a submission can be handed in."""

import re
from pathlib import Path

import pytest

from leaderboard import read

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "book/projects.md").read_text()
PROJECTS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S))


def test_there_are_three_projects():
    assert len(PROJECTS) == 3


@pytest.mark.parametrize("name", PROJECTS)
def test_a_rubric_has_twenty_points_and_says_what_full_and_half_are(name):
    rows = [[cell.strip() for cell in row.strip("|").split("|")]
            for row in PROJECTS[name].splitlines() if row.startswith("|")][2:]
    assert sum(int(points) for _, points, *_ in rows) == 20
    assert all(len(row) == 4 and all(row) for row in rows)


def test_the_sample_can_be_handed_in(tmp_path):
    (tmp_path / "a.json").write_text(re.search(r"```json\n(.*?)```", TEXT, re.S)[1])
    entry = read(tmp_path / "a.json", 30)
    assert entry.team == "Anna and Ben" and len(entry.blocks) == len(entry.scales)
