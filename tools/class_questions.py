"""The questions of a session, with the numbers of one class.

A chapter's file in classes/ asks them. `draw` names the numbers of a question and lists what each
may be: `draw: {beta: [0.5, 0.25]}`. In the text `@beta` stands for the number, and code reads it
as the variable `beta`. A class draws with a seed of its own, which lies outside of the clone.
Without a seed every number is the first of its list: that is practice, whose answers are public.
"""

import json
import random
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from string import Template
from typing import Any

import yaml

from class_checks import scrambled, spellings
from geolab.files import whole

ROOT = Path(__file__).resolve().parent.parent
LETTERS = "abcdefgh"


class Text(Template):
    """A text in which @name stands for a number."""

    delimiter = "@"


@dataclass(frozen=True)
class Check:
    """A question that a program can grade.

    Its right answer is code that ends with the answer under `name`. Numbers and letters are
    compared `step` apart. Anything else, such as a function, must pass the asserts of `test`:
    code that draws from `seed`, a number that is another one each time.
    A wrong answer is a value, an expression that reads what `answer` has set, or, with a test,
    code as the answer is.
    """

    name: str
    ask: str
    hint: str
    answer: str
    wrong: list
    after: str = ""           # the label of the exercise that it follows
    step: Any = 0.5           # one for all entries, or a list
    start: str = ""           # a function's first line, or all first lines of the students' cell
    test: str = ""
    draw: dict[str, list] = field(default_factory=dict)

    def drawn(self, chance: random.Random | None) -> "Check":
        """The question with its numbers put in.

        Raises: KeyError for a text that names a number which `draw` lacks.
        """
        if not self.draw:
            return self
        numbers = {name: chance.choice(found) if chance else found[0]
                   for name, found in self.draw.items()}
        set_ = "".join(f"{name} = {number!r}\n" for name, number in numbers.items())

        def put(text: str) -> str:
            return Text(text).substitute(numbers)

        return replace(
            self, draw={}, ask=put(self.ask), hint=put(self.hint), start=put(self.start),
            answer=set_ + self.answer, test=self.test and set_ + self.test,
            wrong=[set_ + wrong if self.test else wrong for wrong in self.wrong])

    @cached_property
    def right(self) -> list:
        """The entries of the right answer, numbers or letters."""
        space: dict[str, Any] = {}
        exec(self.answer, space)
        right = space[self.name]
        return right if isinstance(right, list) else [right]

    @property
    def steps(self) -> list:
        """The distance of neighbouring answers, for each entry. A letter has none."""
        steps = self.step if isinstance(self.step, list) else [self.step] * len(self.right)
        return [None if isinstance(entry, str) else step
                for entry, step in zip(self.right, steps, strict=True)]

    @property
    def mistakes(self) -> list[str]:
        """Code of wrong answers."""
        if self.test:
            return self.wrong
        return [f"{self.answer}\n{self.name} = {wrong}" if isinstance(wrong, str)
                else f"{self.name} = {wrong!r}" for wrong in self.wrong]

    def code(self, exam: bool = False) -> str:
        """The cell under the answer. In an exam it counts the entries and tells no more."""
        if self.test:
            return (f"# Hint: {self.hint}\n"
                    f'check_code({self.name!r}, {self.name}, r"""\n{self.test.strip()}\n""")')
        steps = self.steps
        stored = [scrambled(self.name, place, spellings(entry, step)[0])
                  for place, (entry, step) in enumerate(zip(self.right, steps, strict=True))]
        return (f"check_answer({self.name!r}, {self.name}, {steps},\n"
                f"    {None if exam else stored},\n    {self.hint!r})")

    @property
    def begun(self) -> str:
        """The first lines of the students' cell."""
        if self.start.startswith("def"):
            said = f"{self.name} has no answer yet."
            return f'{self.start}\n    raise NotImplementedError("{said}")  # your answer goes here'
        return self.start or f"{self.name} = ...  # your answer in place of the dots"


@dataclass(frozen=True)
class Session:
    """A chapter's questions. In an exam the students' notebook doesn't tell right from wrong.

    `words` are the exercises that a teacher reads: the label of each, and what its rubric gives a
    point for. The chapter's other exercises are practice, which nobody marks.
    """

    name: str
    checks: list[Check]
    quiz: list[dict]
    exam: bool = False
    words: dict[str, list[str]] = field(default_factory=dict)

    @property
    def letters(self) -> list[str]:
        """The letters of the quiz's right answers, whose replies begin with "Yes"."""
        return [next(LETTERS[k] for k, reply in enumerate(question["answers"].values())
                     if reply.startswith("Yes")) for question in self.quiz]

    @property
    def quiz_check(self) -> Check:
        """The quiz as a check: a letter for each question."""
        empty = ", ".join('""' for _ in self.quiz)
        return Check("my_quiz", quiz_text(self.quiz), "Talk with a neighbour, then vote again.",
                     f"my_quiz = {self.letters}", [], start=f"my_quiz = [{empty}]")

    @property
    def every(self) -> list[Check]:
        """All that a program grades."""
        return [*self.checks, self.quiz_check]


@cache
def asked(path: Path) -> dict:
    """The questions of a file."""
    return yaml.safe_load(path.read_text())


@cache
def session(name: str, seed: str = "", bank: Path | None = None, exam: bool = False) -> Session:
    """Read a chapter's questions.

    Arguments:
        name: the chapter's, such as "02_delta_operator".
        seed: of the class. Without one the numbers are those of the public practice.
        bank: a folder with questions of a teacher's own, in files of the same names. They
            replace the book's of the same name, and others come behind.
        exam: whether students' notebooks tell nothing.

    Raises: TypeError for an unknown or a missing key.
    """
    data = {"checks": {}, "quiz": [], "words": {}}
    for folder in (ROOT / "classes", *([bank] if bank else [])):
        if (path := folder / f"{name}.yml").exists():
            found = asked(path)
            data["checks"] |= {entry["name"]: entry for entry in found.get("checks", [])}
            data["words"] |= found.get("words", {})
            data["quiz"] = found.get("quiz", data["quiz"])
    checks = [Check(**entry) for entry in data["checks"].values()]
    return Session(name, [check.drawn(seed and random.Random(f"{seed}/{name}/{check.name}"))
                          for check in checks], data["quiz"], exam, data["words"])


def chosen(names: list[str], wanted: list[str]) -> list[str]:
    """The sessions that are meant by 02_delta_operator, 02 or 2. Raises SystemExit for others."""
    found = {one: [name for name in names if one in (name, name[:2], name[:2].lstrip("0"))]
             for one in wanted}
    if missing := [one for one, meant in found.items() if not meant]:
        raise SystemExit(f"a session must be one of {', '.join(names) or 'none that are here'}, "
                         f"got {', '.join(missing)}")
    return sorted({name for meant in found.values() for name in meant})


def save(of: Session, path: Path) -> None:
    """Write what was asked, with its answers, for grading."""
    put(path, json.dumps(asdict(of), indent=1, ensure_ascii=False) + "\n")


def put(path: Path, text: str) -> None:
    """Write a text. An interruption leaves an earlier file as it was."""
    with whole(path) as partial:
        partial.write_text(text, encoding="utf-8")


def saved(path: Path) -> Session:
    """The questions that `save` has written."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return Session(**data | {"checks": [Check(**entry) for entry in data["checks"]]})


def rubric(lines: list[str]) -> str:
    """The rubric by which a teacher gives points, as Markdown."""
    return "**One point each:**\n\n" + "\n".join(f"- {line}" for line in lines)


def quiz_text(quiz: list[dict]) -> str:
    """The questions with their answers to choose from, as Markdown."""
    return "\n".join(f"{number}. {question['ask']}\n" + "\n".join(
        f"   - **{LETTERS[k]}** {answer}" for k, answer in enumerate(question["answers"]))
        for number, question in enumerate(quiz, start=1))
