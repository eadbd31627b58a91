"""A session's quiz and its questions with numbers, as files that learning platforms import.

Moodle reads its own XML and GIFT. Canvas and others read QTI 1.2, which text2qti writes, with
Canvas's formulas. The other two are written here: moodle-questions states no licence, moodlexport
makes its files from LaTeX, and the package of pygift 3.0.4 holds no module.
A question with several numbers becomes one question for each of them.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from text2qti.config import Config
from text2qti.qti import QTI
from text2qti.quiz import Quiz

from class_pages import LICENCE, rendered
from class_questions import Session, put
from geolab.files import whole

PRIVATE = "Private (Copyrighted) - http://en.wikipedia.org/wiki/Copyright"  # text2qti's rights


@dataclass(frozen=True)
class Item:
    """A question in Markdown: with answers to choose from and their replies, or with a number."""

    name: str
    ask: str
    answers: dict[str, str]     # empty for a question with a number; a right reply begins "Yes"
    number: float = 0.0
    within: float = 0.0         # how far from the number an answer may be
    hint: str = ""


def items(of: Session) -> list[Item]:
    """The items that a platform can ask and grade: the quiz, and every number of the questions."""
    found = [Item(f"{of.name} quiz {k}", question["ask"], question["answers"])
             for k, question in enumerate(of.quiz, start=1)]
    for check in of.checks:
        if check.test or any(isinstance(entry, str) for entry in check.right):
            continue
        count = len(check.right)
        for k, (entry, step) in enumerate(zip(check.right, check.steps, strict=True), start=1):
            which = f" **Here: number {k} of {count}.**" * (count > 1)
            found.append(Item(f"{of.name} {check.name}" + f" {k}" * (count > 1),
                              check.ask.strip() + which, {}, float(entry), step, check.hint))
    return found


def write(of: Session, title: str, folder: Path) -> None:
    """Write a session's three files: NAME.xml for Moodle, NAME.gift, and NAME.zip with QTI."""
    found = items(of)
    put(folder / f"{of.name}.xml", moodle(title, found))
    put(folder / f"{of.name}.gift", gift(title, found))
    with whole(folder / f"{of.name}.zip") as partial:
        qti(title, found).save(partial)


def web(markdown: str) -> str:
    """HTML whose formulas stand in the marks that Moodle's MathJax reads, \\( \\) and \\[ \\]."""
    return rendered(markdown).strip()


def moodle(title: str, found: list[Item]) -> str:
    """Moodle's XML, with a category named as the chapter."""
    root = Element("quiz")
    category = SubElement(root, "question", type="category")
    _text(SubElement(category, "category"), f"$course$/top/{title.replace('/', '//')}")
    _text(SubElement(category, "info", format="html"), f"<p>{LICENCE}</p>")
    for item in found:
        kind = "multichoice" if item.answers else "numerical"
        question = SubElement(root, "question", type=kind)
        _text(SubElement(question, "name"), item.name)
        _text(SubElement(question, "questiontext", format="html"), web(item.ask))
        _text(SubElement(question, "generalfeedback", format="html"), web(item.hint))
        SubElement(question, "defaultgrade").text = "1"
        if not item.answers:
            answer = SubElement(question, "answer", fraction="100", format="moodle_auto_format")
            SubElement(answer, "text").text = f"{item.number:.6g}"
            SubElement(answer, "tolerance").text = f"{item.within:g}"
            continue
        SubElement(question, "single").text = "true"
        SubElement(question, "shuffleanswers").text = "1"
        SubElement(question, "answernumbering").text = "abc"
        for said, reply in item.answers.items():
            right = "100" if reply.startswith("Yes") else "0"
            answer = SubElement(question, "answer", fraction=right, format="html")
            SubElement(answer, "text").text = web(said)
            _text(SubElement(answer, "feedback", format="html"), web(reply))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _text(parent: Element, said: str) -> None:
    SubElement(parent, "text").text = said


def gift(title: str, found: list[Item]) -> str:
    """GIFT, in which a backslash stands before each of ~ = # { } : and before a backslash."""
    def plain(text: str) -> str:
        return re.sub(r"([\\~=#{}:])", r"\\\1", " ".join(web(text).split()))

    lines = [f"// {LICENCE}", f"$CATEGORY: $course$/top/{title.replace('/', '//')}"]
    for item in found:
        lines += ["", f"::{plain_name(item.name)}::[html]{plain(item.ask)} {{"]
        if item.answers:
            lines += [f"\t{'=' if reply.startswith('Yes') else '~'}{plain(said)}#{plain(reply)}"
                      for said, reply in item.answers.items()]
        else:
            lines.append(f"\t#{item.number:.6g}:{item.within:g}")
        lines += [f"\t####{plain(item.hint)}"] * bool(item.hint)
        lines.append("}")
    return "\n".join(lines) + "\n"


def plain_name(name: str) -> str:
    return re.sub(r"([\\~=#{}:])", r"\\\1", name)


def qti(title: str, found: list[Item]) -> QTI:
    """A package for Canvas, whose formulas are pictures that carry their LaTeX."""
    lines = [f"Quiz title: {title}", f"Quiz description: {LICENCE}", "shuffle answers: true"]
    for k, item in enumerate(found, start=1):
        lines += ["", f"Title: {item.name}", "Points: 1", f"{k}.  {_line(item.ask)}"]
        for letter, (said, reply) in zip("abcdefgh", item.answers.items(), strict=False):
            star = "*" * reply.startswith("Yes")
            lines += [f"{star}{letter})  {_line(said)}", f"...  {_line(reply)}"]
        if not item.answers:
            lines += [f"...  {_line(item.hint)}"] * bool(item.hint)
            lines.append(f"=   {item.number:.6f} +- {item.within:g}")
    package = QTI(Quiz("\n".join(lines) + "\n", config=Config()))
    package.imsmanifest_xml = package.imsmanifest_xml.replace(PRIVATE, LICENCE)
    return package


def _line(markdown: str) -> str:
    return " ".join(markdown.split())
