"""A chapter's Markdown for a session's notebook, which lies alone: links into the book are words.

What is for the teacher and the list of references go, and equations have numbers. Regular
expressions find them all: markdown-it-py reads Markdown, but doesn't write it again as it was.
"""

import re
import sys
from functools import cache
from pathlib import Path

from pybtex.database import parse_file

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "book/_ext"))
from geolab_plain import LINK, SOLUTION, SOLVED  # noqa: E402

EQUATION = re.compile(r"\$\$ *\((eq-[\w-]+)\)")
MARK = re.compile(rf"^(?:{SOLUTION.pattern}|{re.escape(SOLVED)})$", re.M)
PAGE = re.compile(r"\[([^\[\]]+)\]\([\w./-]+\.(?:ipynb|md)\)")
TEACHER = re.compile(r'^<details class="\w+">\n<summary>For the teacher</summary>\n.*?^</details>$',
                     re.M | re.S)
REFERENCES = re.compile(r"^## References\s.*?(?=^## |\Z)", re.M | re.S)


@cache
def bibliography() -> dict:
    return parse_file(ROOT / "book/references.bib").entries


def cited(key: str) -> str:
    """Authors and year."""
    entry = bibliography()[key.strip()]
    people = [" ".join(map(str, person.rich_prelast_names + person.rich_last_names))
              for person in entry.persons["author"]]
    others = " et al." if len(people) > 2 else f" and {people[1]}" if people[1:] else ""
    return f"{people[0]}{others} {entry.fields['year']}"


class Plain:
    """Changes text of one chapter, a stored notebook."""

    def __init__(self, chapter: dict):
        labels = EQUATION.findall("\n".join("".join(cell["source"]) for cell in chapter["cells"]))
        self.numbers = {label: number for number, label in enumerate(labels, start=1)}

    def __call__(self, text: str) -> str:
        text = REFERENCES.sub("", TEACHER.sub("", MARK.sub("", text)))
        text = EQUATION.sub(lambda found: rf"\tag{{{self.numbers[found[1]]}}} $$", text)
        return PAGE.sub(r"\1", LINK.sub(self._words, text)).strip()

    def _words(self, link: re.Match) -> str:
        words, _, label = link.groups()
        if label.startswith("eq-"):
            return f"({self.numbers[label]})" if label in self.numbers else "(of another chapter)"
        return f"[{label}]" if words == "ledger" else words
