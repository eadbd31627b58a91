"""An examination on paper, in variants, and its key apart.

The questions are those of the sessions whose answers are numbers, the quizzes and proofs. A variant
draws its numbers, the order of the answers and its proofs from the class's seed and its letter.
"""

import random
from dataclasses import dataclass
from pathlib import Path

import yaml

from class_pages import page, rendered
from class_questions import LETTERS, Session, put, session

ROOT = Path(__file__).resolve().parent.parent
SPECIMEN = "specimen"   # the seed of the public examination


@dataclass(frozen=True)
class Task:
    """A task in Markdown, with its points, the height of the room for its answer, and its key."""

    ask: str
    points: int
    room: str
    key: str


def settings(bank: Path | None = None) -> dict:
    """The parts of the examination, from a teacher's own bank or from the book."""
    own = bank / "exam.yml" if bank else None
    path = own if own and own.exists() else ROOT / "classes/course/exam.yml"
    return yaml.safe_load(path.read_text())


def numbers(of: Session, left_out: list[str]) -> list[Task]:
    """A point for each number of an answer."""
    made = []
    for check in of.checks:
        if check.test or check.name in left_out:
            continue
        right = ", ".join(f"{entry:.6g}" if isinstance(entry, (int, float)) else str(entry)
                          for entry in check.right)
        steps = [f"{step:g}" for step in dict.fromkeys(check.steps) if step]
        within = f" (give or take {', '.join(steps)})" if steps else ""
        made.append(Task(check.ask, len(check.right), "2.5rem", f"{right}{within}. {check.hint}"))
    return made


def choices(of: Session, chance: random.Random) -> list[Task]:
    """A point for each question of the quiz, whose answers have an order of the variant's."""
    made = []
    for question in of.quiz:
        answers = list(question["answers"].items())
        chance.shuffle(answers)
        listed = "".join(f"\n- ☐ **{letter}** {said}"
                         for letter, (said, _) in zip(LETTERS, answers, strict=False))
        key = next(f"**{letter}** {reply}" for letter, (_, reply)
                   in zip(LETTERS, answers, strict=False) if reply.startswith("Yes"))
        made.append(Task(f"{question['ask']}\n{listed}", 1, "0", key))
    return made


def proof(proofs: list[dict], chance: random.Random) -> list[Task]:
    """One of a session's proofs. Each line of its key is a point."""
    if not proofs:
        return []
    drawn = chance.choice(proofs)
    key = "\n".join(f"- {line} (1)" for line in drawn["key"])
    return [Task(drawn["ask"], len(drawn["key"]), "13rem", key)]


def tasks(name: str, seed: str, variant: str, bank: Path | None = None) -> list[Task]:
    """The tasks of a session in one variant."""
    set_, own = settings(bank), f"{seed or SPECIMEN}/exam {variant}"
    of, chance = session(name, own, bank), random.Random(f"{own}/{name}")
    return [*numbers(of, set_["left out"]), *choices(of, chance),
            *proof(set_["proofs"].get(name[:2], []), chance)]


def write(names: list[str], titles: dict[str, str], seed: str, out: Path, variants: str = "AB",
          bank: Path | None = None) -> list[str]:
    """Write each variant to exams/ and its key to exam-keys/, and return the variants.

    Only sessions that the settings name are examined. Without any there is no examination.
    """
    set_ = settings(bank)
    names = [name for name in names if name[:2] in set_["sessions"]]
    if not names:
        return []
    for variant in variants:
        asked, keys, number, points = "", "", 0, 0
        for name in names:
            head = f"<h2>{titles[name]}</h2>"
            asked, keys = asked + head, keys + head
            for task in tasks(name, seed, variant, bank):
                number, points = number + 1, points + task.points
                worth = f"{task.points} point{'s' * (task.points > 1)}"
                asked += (f'<div class="task"><h3>{number}. ({worth})</h3>{rendered(task.ask)}'
                          f'<div class="room" style="height: {task.room}"></div></div>')
                keys += f'<div class="task"><h3>{number}. ({worth})</h3>{rendered(task.key)}</div>'
        title = f"Examination, variant {variant}"
        top = (f"<h1>{title}</h1><p class='name'>Name: <span></span> Date: <span></span></p>"
               f"<p>{set_['minutes']} minutes, {points} points. Allowed: {set_['allowed']}. A "
               "number needs no reason, and a proof needs all of them.</p>")
        for folder, head, body in (("exams", title, top + asked),
                                   ("exam-keys", f"{title}: key", f"<h1>{title}: key</h1>{keys}")):
            (out / folder).mkdir(exist_ok=True)
            put(out / folder / f"{variant}.html", page("sheet", head, body))
    return list(variants)
