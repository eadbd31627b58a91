"""Roles are written as links, so that every notebook program shows them as text.

    [Theorem 2.1](#delta-spectrum)                        {prf:ref}`delta-spectrum`
    [Exercise 2.3](#ex-delta-once)                        {ref}`ex-delta-once`
    [(eq-alignment-chance)](#eq-alignment-chance)         {eq}`eq-alignment-chance`
    [Zhang et al.](#zhang2026ddl)                         {footcite:t}`zhang2026ddl`
    [(Zhang et al., 2026)](#zhang2026ddl)                 {footcite:p}`zhang2026ddl`
    [ledger](../book/hypotheses.ipynb#ddl-one)            {row}`ddl-one`

The built page takes the right column: numbers, footnotes and verdicts are its own.
"""

import json
import re
from functools import cache
from pathlib import Path

BIBLIOGRAPHY = Path(__file__).parents[1] / "references.bib"
LINK = re.compile(r"\[([^\[\]]+)\]\(([\w./-]*)#([\w:,-]+)\)")
NUMBERED = re.compile(r"(Theorem|Proposition|Lemma|Corollary|Definition|Exercise) \d+\.\d+")


@cache
def works() -> set[str]:
    """The keys of the bibliography."""
    return set(re.findall(r"^@\w+\{([^,\s]+)", BIBLIOGRAPHY.read_text(encoding="utf-8"), re.M))


def roles(text: str) -> str:
    """Markdown with roles in place of such links. Other links stay."""
    return LINK.sub(_role, text)


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


def read(app, page: str, source: list[str]):
    """Change the Markdown of a notebook that Sphinx reads."""
    if app.env.doc2path(page).endswith(".ipynb"):
        notebook = json.loads(source[0])
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = roles("".join(cell["source"]))
        source[0] = json.dumps(notebook)


def setup(app):
    app.connect("source-read", read)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
