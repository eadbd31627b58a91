"""Make the class kit from the book: notebooks, an autograder, slides, sheets and quizzes.

`make class` builds the book and then runs this. The kit lies in _build/class, which is also a
course of nbgrader. A class's numbers come from a seed that lies outside of the clone and is made
once. What a teacher has put into the folder stays, and a notebook of source/ that a teacher has
changed is not made anew unless `--force` says so.
"""

import argparse
import hashlib
import json
import os
import re
import secrets
import sys
import time
from pathlib import Path

import nbformat
import nbgrader
from bs4 import Tag

import class_exam
from address import title
from class_notebooks import notebook
from class_pages import article, bare, discussion, notes, page, quiz_markdown, sheet, slides
from class_questions import Session, chosen, put, quiz_text, save, saved, session
from class_quizzes import write
from class_text import Plain
from geolab.files import whole
from grade_marks import opened

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "_build"
SHORT = ("02", "05", "09", "19")  # the sessions of the short course
KINDS = {"release": "notebook", "source": "teacher's notebook", "slides": "slides",
         "sheets": "sheet to print", "notes": "solutions and answers", "quizzes": "quiz"}
GUIDES = ("teaching", "syllabus", "projects")  # pages of the book that the kit has, too
QUIZZES = {"md": "text", "xml": "Moodle XML", "gift": "GIFT", "zip": "QTI"}
PRIVATE = ("submitted", "checked", "autograded", "feedback", "gradebook.db", "roster.csv",
           "grades.csv", "grades-canvas.csv")  # what a course has and no archive may
# nbconvert's macro fetches MathJax from the network; this one has it in the page
OWN_MATHJAX = r"""{%% macro mathjax() -%%}
<script>MathJax = {options: {enableMenu: false},
                   tex: {inlineMath: [["$", "$"], ["\\(", "\\)"]]}};</script>
<script>{%% raw %%}
%s
{%% endraw %%}</script>
{%%- endmacro %%}
"""
# nbgrader's page of feedback, with the names of the questions and without the chapter
PAGE = Path(nbgrader.__file__).parent / (
    "server_extensions/formgrader/templates/feedback/index.html.j2")
NAMES = {">Test cell<": ">{{ cell.metadata.nbgrader.grade_id }}<",
         ">Written response<": ">{{ cell.metadata.nbgrader.grade_id }}, in words<",
         ">Student's answer<": ">Your answer: {{ cell.metadata.nbgrader.grade_id }}<",
         ">Grade cell: <": ">Check of <"}
GRADED = """
{% block any_cell %}
{%- set graded = cell.metadata.nbgrader or {} -%}
{%- if graded.grade or graded.solution or cell.source.startswith("**Question.**") -%}
{{ super() }}
{%- endif -%}
{% endblock any_cell %}
"""
SEED = Path.home() / ".config/geolab/class.seed"
SOURCES = "keys/sources.txt"  # what the notebooks in source/ were when they were made
MATHJAX = "_static/mathjax/tex-svg.js"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NN", help="the chapters to make")
    parser.add_argument("--site", type=Path, default=BUILD / "html", help="the built book")
    parser.add_argument("--out", type=Path, default=BUILD / "class", help="where the kit goes")
    parser.add_argument("--seed", type=Path, default=SEED, help="the class's file, made if missing")
    parser.add_argument("--bank", type=Path, help="a folder of questions of your own")
    parser.add_argument("--exam", action="store_true",
                        help="students' notebooks don't tell right from wrong")
    parser.add_argument("--variants", default="AB", metavar="AB",
                        help="a letter for each variant of the examination")
    parser.add_argument("--practice", action="store_true",
                        help="the public numbers, without a seed, for a release")
    parser.add_argument("--force", action="store_true", help="also where source/ was changed")
    given = parser.parse_args()
    start = time.monotonic()
    known = [path.stem for path in sorted(ROOT.glob("classes/*.yml"))]
    names = chosen(known, given.only) if given.only else known
    if given.practice and (there := [name for name in PRIVATE if (given.out / name).exists()]):
        raise SystemExit(f"--practice must go to a folder without a course, and {given.out} has "
                         f"{', '.join(there)}")
    for path in (given.seed, *([given.bank] if given.bank else [])):
        if path.resolve().is_relative_to(ROOT):
            raise SystemExit(f"--seed and --bank must lie outside of the clone, got {path}")
    if not given.variants.isalpha() or len(set(given.variants)) < len(given.variants):
        raise SystemExit(f"--variants must be letters, each once, got {given.variants!r}")
    seed = "" if given.practice else class_seed(given.seed)
    if (altered := changed(names, given.out)) and not given.force:
        raise SystemExit(f"a teacher has changed {', '.join(altered)}; leave them out of ONLY, or "
                         "make them anew with FORCE=1, which loses the changes")
    made = [session(name, seed, given.bank, given.exam) for name in names]
    if (other := [of.name for of in made if answered(of, given.out)]) and not given.force:
        raise SystemExit(f"students have handed in {', '.join(other)} with other questions; give "
                         "another class a folder of its own by --out, or make them anew with "
                         "FORCE=1, which grades by the new questions")
    begin(given.site, given.out)
    for of in made:
        source(of, given.out)
    release(names, given.out)
    if given.practice:
        (given.out / "gradebook.db").unlink()
    for of in made:
        pages(of, given.site, given.out)
    titles = {name: title(ROOT / f"notebooks/{name}.ipynb") for name in known}
    class_exam.write(known, titles, seed, given.out, given.variants, given.bank)
    put(given.out / "discussion.html",
        page("sheet", "A guide for discussion", discussion(chapters(given.site)), up=""))
    there = [path.stem for path in sorted(given.out.glob("keys/*.json"))]
    put(given.out / "index.html", page("sheet", "Class kit", index(there, given.out), up=""))
    print(f"{len(names)} sessions in {time.monotonic() - start:.0f} s: {given.out}/index.html")
    return 0


def class_seed(path: Path) -> str:
    """The seed in a class's file, which is made once. Raises SystemExit for a file of another kind.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(secrets.token_hex(16) + "\n")
        print(f"{path} is this class's seed: keep it, and show it to nobody")
    seed = path.read_text().strip()
    if not re.fullmatch(r"[0-9a-f]{32}", seed):
        raise SystemExit(f"--seed must be a file that `make class` has made, got {path}")
    return seed


def fingerprint(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def recorded(out: Path) -> dict[str, str]:
    """The hash of each notebook in source/ when it was made, by its session."""
    path = out / SOURCES
    return dict(line.split() for line in path.read_text().splitlines()) if path.exists() else {}


def changed(names: list[str], out: Path) -> list[str]:
    """The teacher's notebooks that are no longer as they were made."""
    made = recorded(out)
    paths = {name: out / "source" / name / f"{name}.ipynb" for name in names}
    return [f"source/{name}" for name, path in paths.items()
            if path.exists() and fingerprint(path) != made.get(name)]


def answered(of: Session, out: Path) -> bool:
    """Return whether students have handed in a session in which they were asked otherwise."""
    key = out / f"keys/{of.name}.json"
    if not key.exists() or not any(out.glob(f"submitted/*/{of.name}")):
        return False
    before, now = ([check.ask for check in one.every] for one in (saved(key), of))
    return before != now


def begin(site: Path, out: Path) -> None:
    """Make the folders and the pages' common files. Raises SystemExit without a built book."""
    if not (site / MATHJAX).exists():
        raise SystemExit(f"{site} holds no built book; `make book` builds it")
    for kind in (*KINDS, "static", "keys"):
        (out / kind).mkdir(parents=True, exist_ok=True)
    for path in (site / MATHJAX, *ROOT.glob("classes/static/*")):
        put(out / "static" / path.name, path.read_text(encoding="utf-8"))
    styles = (ROOT / "book/_static/book.css").read_text()  # without fonts, which stay on the site
    put(out / "static/book.css", re.sub(r"@font-face \{.*?\}\n", "", styles))
    put(out / "nbgrader_config.py", (ROOT / "classes/nbgrader_config.py").read_text())
    formulas((site / MATHJAX).read_text(encoding="utf-8"), out)
    for name in GUIDES:
        guide = article(site / f"book/{name}.html").find("section")
        put(out / f"{name}.html",
            page("sheet", guide.h1.find(string=True), bare(guide, "a.headerlink", "script"), up=""))


def formulas(script: str, out: Path) -> None:
    """Make the pages of feedback and of Formgrader carry the script that sets their formulas, and
    feedback show what was graded alone.
    """
    for pages in ("feedback", "formgrade"):
        (out / "templates" / pages).mkdir(parents=True, exist_ok=True)
        put(out / "templates" / pages / "mathjax.html.j2", OWN_MATHJAX % script)
    text = PAGE.read_text(encoding="utf-8")
    for theirs, ours in NAMES.items():
        if theirs not in text:
            raise SystemExit(f"nbgrader's page of feedback has no {theirs} any more")
        text = text.replace(theirs, ours)
    put(out / "templates/feedback/index.html.j2", text + GRADED)


def source(of: Session, out: Path) -> None:
    """The teacher's notebook, and the key that grading reads."""
    chapter = json.loads((ROOT / f"notebooks/{of.name}.ipynb").read_text())
    folder = out / "source" / of.name
    folder.mkdir(exist_ok=True)
    save(of, out / f"keys/{of.name}.json")
    with whole(folder / f"{of.name}.ipynb") as partial:
        nbformat.write(notebook(of, chapter, Plain(chapter)), partial)
        made = recorded(out) | {of.name: fingerprint(partial)}
        put(out / SOURCES, "".join(f"{name} {print_}\n" for name, print_ in made.items()))


def release(names: list[str], out: Path) -> None:
    """The students' notebooks: nbgrader takes solutions and answers out. Raises SystemExit."""
    course = opened(out)
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
        put(out / kind / f"{of.name}.html",
            page("slides" if kind == "slides" else "sheet", f"{named}: {KINDS[kind]}", body))
    text = quiz_markdown(named, of.quiz, of.letters, quiz_text(of.quiz))
    put(out / "quizzes" / f"{of.name}.md", text)
    write(of, named, out / "quizzes")


def chapters(site: Path) -> list[Tag]:
    """The pages of all chapters that the site has."""
    pages = sorted(site.glob("notebooks/*.html"))
    return [found for path in pages if (found := article(path).find("section"))]


def index(names: list[str], out: Path) -> str:
    """The kit's contents."""
    exams = ", ".join(f'<a href="{path.parent.name}/{path.name}">variant {path.stem}</a> '
                      f'(<a href="exam-keys/{path.name}">key</a>)'
                      for path in sorted(out.glob("exams/*.html")))
    exams = f"<p>Examination of the short course: {exams}.</p>" if exams else ""
    rows = ""
    for name in names:
        files = {"release": f"release/{name}/{name}.ipynb", "source": f"source/{name}/{name}.ipynb"}
        links = "".join(f'<td><a href="{files.get(kind, f"{kind}/{name}.html")}">{said}</a></td>'
                        for kind, said in KINDS.items() if kind != "quizzes")
        quizzes = ", ".join(f'<a href="quizzes/{name}.{ending}">{said}</a>'
                            for ending, said in QUIZZES.items())
        links += f"<td>quiz: {quizzes}</td>"
        star = " ★" * (name[:2] in SHORT)
        rows += f"<tr><td>{title(ROOT / f'notebooks/{name}.ipynb')}{star}</td>{links}</tr>"
    return (f"<h1>Class kit</h1><p>A session is a row. ★ is the short course. "
            '<a href="teaching.html">Teaching with this book</a> says how to use all this, and '
            '<a href="syllabus.html">courses of four, eight and twelve weeks</a> say when. '
            '<a href="projects.html">Three projects</a> have rubrics, and the '
            '<a href="discussion.html">guide for discussion</a> has questions for the room.</p>'
            f"{exams}<table>{rows}</table>")


if __name__ == "__main__":
    sys.exit(main())
