"""An examination has the bank's questions, variants of its own, and its key apart."""

import re

import pytest
from bs4 import BeautifulSoup

from class_exam import ROOT, settings, tasks, write
from class_questions import session as read

NAMES = sorted(path.stem for path in ROOT.glob("classes/*.yml")
               if path.name[:2] in settings()["sessions"])
TITLES = {name: f"Chapter {name}" for name in NAMES}


def words(path) -> str:
    return " ".join(BeautifulSoup(path.read_text(), "html.parser").main.get_text(" ").split())


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    out = tmp_path_factory.mktemp("kit")
    assert write(NAMES, TITLES, "a seed", out, "ABC") == ["A", "B", "C"]
    return out


def test_the_key_is_apart(out):
    for variant in "ABC":
        asked, keys = words(out / f"exams/{variant}.html"), words(out / f"exam-keys/{variant}.html")
        tasks_ = re.findall(r"\d+\. \(\d+ points?\)", asked)
        assert tasks_ == re.findall(r"\d+\. \(\d+ points?\)", keys) and len(tasks_) > 20
        assert not re.search(r"Yes\.|give or take|\(1\)", asked) and "Yes." in keys
        points = sum(int(of) for of in re.findall(r"\((\d+) points?\)", asked))
        assert f"90 minutes, {points} points" in asked


def test_variants_differ_and_a_seed_makes_the_same_one_again(out, tmp_path):
    texts = {words(out / f"exams/{variant}.html").replace(f"variant {variant}", "")
             for variant in "ABC"}
    assert len(texts) == 3
    write(NAMES, TITLES, "a seed", tmp_path, "A")
    assert (tmp_path / "exams/A.html").read_text() == (out / "exams/A.html").read_text()
    write(NAMES, TITLES, "another", tmp_path, "A")
    assert (tmp_path / "exams/A.html").read_text() != (out / "exams/A.html").read_text()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("variant", "AB")
def test_the_key_of_a_choice_names_the_right_answer(name, variant):
    quiz = {question["ask"]: question["answers"] for question in read(name).quiz}
    chosen = [task for task in tasks(name, "a seed", variant) if "☐" in task.ask]
    assert len(chosen) == len(quiz)
    for task in chosen:
        ask, _, listed = task.ask.partition("\n")
        letter, reply = re.fullmatch(r"\*\*(\w)\*\* (.*)", task.key).groups()
        said = re.search(rf"☐ \*\*{letter}\*\* (.*)", listed)[1]
        assert quiz[ask][said] == reply and reply.startswith("Yes")


def test_each_examined_session_has_two_proofs_whose_keys_have_four_points():
    for number in settings()["sessions"]:
        found = settings()["proofs"][number]
        assert len(found) == 2 and all(len(proof["key"]) == 4 for proof in found)
        assert all(proof["ask"].count("$") % 2 == 0 for proof in found)


def test_a_name_that_is_left_out_exists():
    known = {check.name for name in NAMES for check in read(name).checks}
    assert set(settings()["left out"]) <= known


def test_sessions_that_are_not_examined_make_no_examination(tmp_path):
    assert write(["13_alignment"], {}, "a seed", tmp_path) == [] and not list(tmp_path.iterdir())


def test_a_teachers_own_bank_has_its_own_examination(tmp_path):
    (tmp_path / "exam.yml").write_text(
        "{minutes: 30, allowed: nothing, sessions: ['13'], left out: [], "
        "proofs: {'13': [{ask: 'Why?', key: [Because.]}]}}")
    assert write(["13_alignment"], {"13_alignment": "13"}, "a seed", tmp_path, "A", tmp_path)
    assert "30 minutes" in words(tmp_path / "exams/A.html")
    assert "Because. (1)" in words(tmp_path / "exam-keys/A.html")
