"""Make the class kit from the book: notebooks, an autograder, slides, sheets and quizzes.

`make class` builds the book and then runs this. The kit lies in _build/class, which is also a
course of nbgrader: `nbgrader autograde` works in it. A teacher's own files there stay.
"""

import argparse
import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

import nbformat

from address import title
from class_notebooks import Session, notebook, quiz_text, session
from class_pages import article, bare, notes, page, quiz_markdown, sheet, slides
from class_text import Plain

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "_build"
SHORT = ("02", "05", "09", "19")  # the sessions of the short course
KINDS = {"release": "notebook", "source": "teacher's notebook", "slides": "slides",
         "sheets": "sheet to print", "notes": "solutions and answers", "quizzes": "quiz"}
MATHJAX = "_static/mathjax/tex-svg.js"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NN", help="the chapters to make")
    parser.add_argument("--site", type=Path, default=BUILD / "html", help="the built book")
    parser.add_argument("--out", type=Path, default=BUILD / "class", help="where the kit goes")
    given = parser.parse_args()
    start = time.monotonic()
    names = [path.stem for path in sorted(ROOT.glob("classes/*.yml"))
             if not given.only or path.stem[:2] in given.only]
    begin(given.site, given.out)
    for name in names:
        source(session(name), given.out)
    release(names, given.out)
    for name in names:
        pages(session(name), given.site, given.out)
    (given.out / "index.html").write_text(page("sheet", "Class kit", index(names), up=""))
    print(f"{len(names)} sessions in {time.monotonic() - start:.0f} s: {given.out}/index.html")
    return 0


def begin(site: Path, out: Path) -> None:
    """Make the folders and the pages' common files. Raises SystemExit without a built book."""
    if not (site / MATHJAX).exists():
        raise SystemExit(f"{site} holds no built book; `make book` builds it")
    for kind in (*KINDS, "static"):
        (out / kind).mkdir(parents=True, exist_ok=True)
    for path in (site / MATHJAX, *ROOT.glob("classes/static/*")):
        shutil.copy(path, out / "static")
    styles = (ROOT / "book/_static/book.css").read_text()  # without fonts, which stay on the site
    (out / "static/book.css").write_text(re.sub(r"@font-face \{.*?\}\n", "", styles))
    shutil.copy(ROOT / "classes/nbgrader_config.py", out)
    guide = article(site / "book/teaching.html").find("section")
    (out / "teaching.html").write_text(
        page("sheet", "Teaching with this book", bare(guide, "a.headerlink", "script"), up=""))


def source(of: Session, out: Path) -> None:
    """The teacher's notebook."""
    chapter = json.loads((ROOT / f"notebooks/{of.name}.ipynb").read_text())
    folder = out / "source" / of.name
    folder.mkdir(exist_ok=True)
    nbformat.write(notebook(of, chapter, Plain(chapter)), folder / f"{of.name}.ipynb")


def release(names: list[str], out: Path) -> None:
    """The students' notebooks: nbgrader takes solutions and answers out. Raises SystemExit."""
    # here, so that a test of the pages starts without nbgrader
    from nbgrader.apps import NbGraderAPI
    from traitlets.config.loader import PyFileConfigLoader

    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # alembic
    config = PyFileConfigLoader("nbgrader_config.py", path=str(out)).load_config()
    config.CourseDirectory.root = str(out.resolve())
    course = NbGraderAPI(config=config)
    for name in names:
        done = course.generate_assignment(name, force=True)
        if not done["success"]:
            raise SystemExit(f"nbgrader refuses {name}:\n{done['error'] or done['log']}")


def pages(of: Session, site: Path, out: Path) -> None:
    """Slides, sheet, notes and quiz."""
    found = article(site / f"notebooks/{of.name}.html")
    found = found.find("section")
    named = title(ROOT / f"notebooks/{of.name}.ipynb")
    bodies = {"slides": slides(found, of.quiz), "sheets": sheet(found, of.quiz),
              "notes": notes(found, of)}
    for kind, body in bodies.items():
        (out / kind / f"{of.name}.html").write_text(
            page("slides" if kind == "slides" else "sheet", f"{named}: {KINDS[kind]}", body))
    text = quiz_markdown(named, of.quiz, of.letters, quiz_text(of.quiz))
    (out / "quizzes" / f"{of.name}.md").write_text(text)


def index(names: list[str]) -> str:
    """The kit's contents."""
    rows = ""
    for name in names:
        files = {"release": f"release/{name}/{name}.ipynb", "source": f"source/{name}/{name}.ipynb",
                 "quizzes": f"quizzes/{name}.md"}
        links = "".join(f'<td><a href="{files.get(kind, f"{kind}/{name}.html")}">{said}</a></td>'
                        for kind, said in KINDS.items())
        star = " ★" * (name[:2] in SHORT)
        rows += f"<tr><td>{title(ROOT / f'notebooks/{name}.ipynb')}{star}</td>{links}</tr>"
    return (f"<h1>Class kit</h1><p>A session is a row. ★ is the short course. "
            f'<a href="teaching.html">Teaching with this book</a> says how to use all this, with '
            f"the short course, projects and rubrics.</p><table>{rows}</table>")


if __name__ == "__main__":
    sys.exit(main())
