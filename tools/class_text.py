"""The book's Markdown in a form that every notebook program shows.

A session's notebook is read on Colab, in JupyterLab and in JupyterHub, which know neither
directives nor roles. Theorems become quotations, folded boxes become HTML, and a reference becomes
its target's title. All other Markdown stays word for word; markdown-it-py would write HTML.
"""

import json
import re
import sys
from functools import cache
from pathlib import Path

from pybtex.database import parse_file

from address import title

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "book/_ext"))
from geolab_links import roles  # noqa: E402

MARK = re.compile(r"^:::\{solution-(start|end)\} *(\S*)\n(?::.*\n)*:::[ ]*$", re.M)
OPEN = re.compile(r"^(:{3,}|`{3,})\{([\w:-]+)\} *(.*)$")
CLOSE = re.compile(r"^(:{3,}|`{3,})\s*$")
OPTION = re.compile(r"^:[\w-]+:")
ROLE = re.compile(r"\{([\w:]+)\}`([^`]+)`")
LABELLED = re.compile(r"^:{3,}\{([\w:-]+)\} *(.*)\n(?::.*\n)*?:label: *(\S+)", re.M)
EQUATION = re.compile(r"\$\$ *\((eq-[\w-]+)\)")
TEACHER = re.compile(r"^:::\{admonition\} For the teacher\n.*?^:::[ ]*$", re.M | re.S)
REFERENCES = re.compile(r"^## References\s.*?(?=^## |\Z)", re.M | re.S)


def markdown(chapter: dict) -> str:
    """All the Markdown of a stored notebook."""
    return "\n\n".join("".join(cell["source"]) for cell in chapter["cells"]
                       if cell["cell_type"] == "markdown")


@cache
def titles() -> dict[str, str]:
    """Return the titles of references by target: a chapter's file or a label of the book."""
    found = {}
    for path in sorted(ROOT.glob("notebooks/*.ipynb")):
        found[path.stem] = f"chapter {title(path)}"
        for kind, named, label in LABELLED.findall(markdown(json.loads(path.read_text()))):
            found[label] = f"{kind.removeprefix('prf:').capitalize()} “{named}”"
    return found


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
    """Turns Markdown of one chapter, a stored notebook, into plain Markdown."""

    def __init__(self, chapter: dict):
        labels = EQUATION.findall(markdown(chapter))
        self.numbers = {label: number for number, label in enumerate(labels, start=1)}

    def __call__(self, text: str) -> str:
        text = REFERENCES.sub("", TEACHER.sub("", MARK.sub("", text)))
        text = EQUATION.sub(lambda found: rf"\tag{{{self.numbers[found[1]]}}} $$", text)
        return self._boxes(ROLE.sub(self._role, roles(text))).strip()

    def _role(self, found: re.Match) -> str:
        kind, body = found.groups()
        named = re.fullmatch(r"(.+?) *<(.+)>", body, re.S)
        words, target = (named[1], named[2]) if named else ("", body)
        if kind.startswith("footcite"):
            works = ", ".join(map(cited, target.split(",")))
            return f"({works})" if kind.endswith(":p") else works
        if kind == "eq":
            return f"({self.numbers[target]})" if target in self.numbers else "(of another chapter)"
        if kind == "row":
            return f"[{target}]"
        return words or titles().get(target.rsplit("/", 1)[-1], target)

    def _boxes(self, text: str) -> str:
        """Turn directives into quotations, and folded boxes into HTML that can be folded."""
        lines, closing, quoted, fresh = [], [], 0, False
        for line in text.splitlines():
            if fresh and (OPTION.match(line) or not line.strip()):
                continue
            fresh = bool(opened := OPEN.match(line))
            if opened:
                _, kind, named = opened.groups()
                kind = kind.removeprefix("prf:")
                folded = kind in ("proof", "dropdown") or named in ("Hint", "Solution")
                head = named if kind in ("admonition", "dropdown") else kind.capitalize()
                head += f" ({named})" * bool(named and head != named)
                lines += ([f"<details><summary>{head}</summary>", ""] if folded
                          else [f"{'> ' * quoted}> **{head}.**", f"{'> ' * quoted}>"])
                closing.append(folded)
                quoted += not folded
            elif CLOSE.match(line) and closing:
                folded = closing.pop()
                quoted -= not folded
                lines += ["", "</details>", ""] if folded else [""]
            else:
                lines.append("> " * quoted + line)
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))
