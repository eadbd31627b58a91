"""Notebooks are written in Markdown that every program shows; the book reads it as MyST.

What the notebook has                              what the page is made of
[Theorem 2.1](#delta-spectrum)                     {prf:ref}`delta-spectrum`
[Exercise 2.3](#ex-delta-once)                     {ref}`ex-delta-once`
[(eq-alignment-chance)](#eq-alignment-chance)      {eq}`eq-alignment-chance`
[Zhang et al.](#zhang2026ddl)                      {footcite:t}`zhang2026ddl`
[(Zhang et al., 2026)](#zhang2026ddl)              {footcite:p}`zhang2026ddl`
[ledger](../book/hypotheses.ipynb#ddl-one)         {row}`ddl-one`
<div class="theorem" id="a">, **Theorem 2.1 (A name).**, </div>        {prf:theorem}, or {exercise}
<div class="tip">, **A name**, </div>                                  {admonition}
<details class="proof">, <summary>Proof</summary>, </details>          the same, folded
<details class="road">, <summary>, its minutes and what it finds       a side road, closed
<span id="delta-audited"></span>                   (delta-audited)=
**Solution of [Exercise 2.3](#ex-delta-once).**    {solution-start}; and a comment ends it
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

BIBLIOGRAPHY = Path(__file__).parents[1] / "references.bib"
STATEMENTS = ("theorem", "proposition", "lemma", "corollary", "definition")
LINK = re.compile(r"\[([^\[\]]+)\]\(([\w./-]*)#([\w:,-]+)\)")
NUMBERED = re.compile(rf"({'|'.join(STATEMENTS).title()}|Exercise) \d+(?:\.\d+)?")
BOX = re.compile(r'<(div|details) class="([\w-]+)"(?: id="([\w-]+)")?>')
HEAD = re.compile(r"(?:\*\*|<summary>)(.+?)(?:\*\*|</summary>)")
NAMED = re.compile(rf"{NUMBERED.pattern}(?: \((.+)\))?\.?")
FOLDS = ("road", "audit", "plan")   # boxes of the page's own
ANCHOR = re.compile(r'<span id="([\w-]+)"></span>')
SOLUTION = re.compile(r"\*\*Solution of \[Exercise [\d.]+\]\(#([\w-]+)\)\.\*\*")
SOLVED = "<!-- The solution ends here. -->"
WORKS = "The book's site lists the works that this chapter cites."


@cache
def works() -> set[str]:
    """The keys of the bibliography."""
    return set(re.findall(r"^@\w+\{([^,\s]+)", BIBLIOGRAPHY.read_text(encoding="utf-8"), re.M))


def myst(text: str) -> str:
    """The Markdown of a notebook's cell as MyST."""
    return LINK.sub(_role, "\n".join(_directives(iter(text.split("\n")))))


def _role(link: re.Match) -> str:
    words, page, label = link.groups()
    if words == "ledger" and page.endswith("hypotheses.ipynb"):
        return f"{{row}}`{label}`"
    if page:
        return link[0]
    if label.startswith("eq-"):
        return f"{{eq}}`{label}`"
    if NUMBERED.fullmatch(words):
        return f"{{ref}}`{label}`" if words.startswith("Exercise") else f"{{prf:ref}}`{label}`"
    if works().issuperset(label.split(",")):
        return f"{{footcite:{'p' if words.startswith('(') else 't'}}}`{label}`"
    return link[0]


def _directives(lines: Iterator[str]) -> Iterator[str]:
    open_boxes: list[str] = []   # what closes each of them
    for line in lines:
        box = BOX.fullmatch(line)
        if box and box[2] not in FOLDS:
            head = next(lines) or next(lines)
            found = HEAD.fullmatch(head)
            if not found:
                raise ValueError(f"{line} must be followed by its name, got {head!r}")
            yield from _opening(*box.groups(), found[1])
            open_boxes.append(":::")
        elif line.startswith(("<details", "<div")):
            open_boxes.append(line[1:].split()[0].join(("</", ">")))
            yield line
        elif line in ("</details>", "</div>"):
            yield open_boxes.pop() if open_boxes else line
        elif anchor := ANCHOR.fullmatch(line):
            yield f"({anchor[1]})="
        elif solution := SOLUTION.fullmatch(line):
            yield from (f":::{{solution-start}} {solution[1]}", ":class: dropdown", ":::")
        elif line == SOLVED:
            yield from (":::{solution-end}", ":::")
        elif line == WORKS:
            yield from ("```{footbibliography}", "```")
        else:
            yield line


def _opening(tag: str, kind: str, label: str | None, name: str) -> Iterator[str]:
    folded = "dropdown" if tag == "details" else ""
    if kind == "proof":
        yield ":::{prf:proof}"
    elif kind in (*STATEMENTS, "exercise"):
        title = NAMED.fullmatch(name)
        if not title or not label:
            raise ValueError(f"a {kind} needs an id and a number, got {name!r} and id {label}")
        yield f":::{{{'' if kind == 'exercise' else 'prf:'}{kind}}} {title[2] or ''}".rstrip()
        yield f":label: {label}"
    else:
        yield f":::{{admonition}} {name}"
        folded = f"{folded} {kind}".strip()
    if folded:
        yield f":class: {folded}"


def read(app, page: str, source: list[str]):
    """Change the Markdown of a notebook that Sphinx reads."""
    if app.env.doc2path(page).endswith(".ipynb"):
        notebook = json.loads(source[0])
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = myst("".join(cell["source"]))
        source[0] = json.dumps(notebook)


def setup(app):
    app.connect("source-read", read)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
