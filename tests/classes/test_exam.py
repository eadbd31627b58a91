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


def test_variants_differ_a_seed_makes_the_same_one_again_and_the_key_is_apart(tmp_path):
    out, again = tmp_path / "out", tmp_path / "again"
    for folder in (out, again):
        folder.mkdir()
    assert write(NAMES, TITLES, "a seed", out, "ABC") == ["A", "B", "C"]
    asked, keys = ({variant: words(out / f"{folder}/{variant}.html") for variant in "ABC"}
                   for folder in ("exams", "exam-keys"))
    assert len({text.replace(f"variant {variant}", "") for variant, text in asked.items()}) == 3
    for variant in "ABC":
        numbered = re.findall(r"\d+\. \((\d+) points?\)", asked[variant])
        assert numbered == re.findall(r"\d+\. \((\d+) points?\)", keys[variant])
        assert len(numbered) > 20
        assert f"90 minutes, {sum(map(int, numbered))} points" in asked[variant]
        assert not re.search(r"Yes\.|give or take|\(1\)", asked[variant])
        assert "Yes." in keys[variant]
    for seed in ("a seed", "another"):
        write(NAMES, TITLES, seed, again, "A")
        assert (words(again / "exams/A.html") == asked["A"]) is (seed == "a seed")


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


def test_each_examined_session_has_two_proofs_and_what_is_left_out_exists():
    set_ = settings()
    for number in set_["sessions"]:
        assert [len(proof["key"]) for proof in set_["proofs"][number]] == [4, 4]
    assert set(set_["left out"]) <= {check.name for name in NAMES for check in read(name).checks}


def test_a_teachers_own_bank_has_its_own_examination_and_others_none(tmp_path):
    assert write(["13_alignment"], {}, "a seed", tmp_path) == [] and not list(tmp_path.iterdir())
    (tmp_path / "exam.yml").write_text(
        "{minutes: 30, allowed: nothing, sessions: ['13'], left out: [], "
        "proofs: {'13': [{ask: 'Why?', key: [Because.]}]}}")
    assert write(["13_alignment"], {"13_alignment": "13"}, "a seed", tmp_path, "A", tmp_path)
    assert "30 minutes" in words(tmp_path / "exams/A.html")
    assert "Because. (1)" in words(tmp_path / "exam-keys/A.html")
