"""From a built page of the book to slides, to a sheet and to a teacher's notes.

All are single HTML files beside one script for formulas. They ask no network for anything, unlike
nbconvert's slides, which also leave directives and references of the book as they are typed.
"""

import copy
import html
import re
from collections.abc import Callable
from pathlib import Path

from bs4 import BeautifulSoup, Tag
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from class_questions import rubric
from geolab.show import ask

LEFT_OUT = ("a.headerlink", ".cell_input", "details.hide", "details.road", "details.audit",
            ".dropdown", ".toggle", "noscript", ".copybtn", "style",
            "a.ledger-row")
# in the last column of a table of minutes
SKIPPED = re.compile(r"yes|all\b|both|may be|for another")
LICENCE = ("© 2026 The authors of The Geometry of Residual Connections. "
           "Licence: CC BY 4.0, https://creativecommons.org/licenses/by/4.0/")
SILENT = ("a.headerlink", ".cell", "script")  # what notes leave out
CAPTIONS = "figcaption, .geolab-caption"  # they are spoken, so slides have them in the notes
SPOKEN = "p, ol, ul, blockquote, div.math"
OPENING = 700  # characters of HTML after which a slide takes no further paragraph
NO_SLIDES = {"exercises", "references", "what-you-may-now-believe"}
PAGE = """\
<!doctype html>
<html lang="en" data-theme="light">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="{up}static/book.css">
<link rel="stylesheet" href="{up}static/class.css">
<script>MathJax = {{options: {{enableMenu: false}}, svg: {{scale: 0.92}}}};</script>
<script defer src="{up}static/tex-svg.js"></script>
{more}</head>
<body class="{kind}">
<main>
{body}
</main>
{footer}</body>
</html>
"""


def page(kind: str, title: str, body: str, up: str = "../") -> str:
    """A whole page. Slides get the script for their keys."""
    more = f'<script defer src="{up}static/slides.js"></script>\n' if kind == "slides" else ""
    return PAGE.format(kind=kind, title=html.escape(title), body=body, up=up, more=more,
                       footer="" if kind == "slides" else f"<footer>{LICENCE}</footer>\n")


def article(path: Path) -> Tag:
    """The text of a built page, whose links are plain words and whose sliders still move."""
    soup = BeautifulSoup(path.read_text(), "html.parser")
    found = soup.find("article")
    assert found, f"{path} is no page of the book"
    for note in found.select("a.footnote-reference"):  # its list of works stays on the page
        if isinstance(note.previous_sibling, str):
            note.previous_sibling.replace_with(note.previous_sibling.rstrip(" \u00a0"))
        note.decompose()
    for link in found.find_all("a", href=True):
        if "headerlink" not in link.get("class", ()):
            link.unwrap()
    for image in found.find_all("img"):
        assert image["src"].startswith("data:"), f"{path.name} has a picture of its own file"
    return found


def bare(tag: Tag, *left_out: str) -> str:
    """Return a piece of a page without the parts that only the page needs."""
    tag = copy.copy(tag)
    for inner in tag.select(", ".join(left_out or LEFT_OUT)):
        inner.decompose()
    return str(tag)


def rendered(markdown: str) -> str:
    """Markdown with formulas as HTML for MathJax."""
    reader = MarkdownIt("commonmark").use(dollarmath_plugin, renderer=formula)
    return reader.render(markdown)


def formula(content: str, options: dict) -> str:
    left, right = (r"\[", r"\]") if options["display_mode"] else (r"\(", r"\)")
    return left + html.escape(content) + right


def heading(section: Tag) -> str:
    """A section's heading, formulas included."""
    found = section.find(["h1", "h2", "h3"])
    return re.sub(r"</?h\d[^>]*>", "", bare(found)) if found else ""


def slides(of: Tag, quiz: list[dict]) -> str:
    """The slides of a chapter: its story in pictures, predictions, questions and theorems.

    Sections that the chapter's table of minutes calls skippable have none. But where only these
    have sliders, the sliders follow the story, since a class wants one to move.
    """
    made = [slide("", f'<h1>{heading(of)}</h1><p class="licence">{LICENCE}</p>', kind="title"),
            slide("", opening(of)), *story(of)]
    skipped = {row[0].get_text(strip=True) for row in map(cells_of, of.select("table tr"))
               if len(row) == 3 and SKIPPED.match(row[2].get_text(strip=True))}
    for section in of.find_all("section"):
        over = [section, *section.find_parents("section")]
        titles = [outer.find(["h1", "h2", "h3"], recursive=False) for outer in over]
        if NO_SLIDES & {outer.get("id", "") for outer in over} \
                or not all(titles) \
                or skipped & {title.find(string=True) for title in titles}:
            continue  # without a heading it is the content of a box: a proof, an exercise
        name = section.get("id", "")
        if name == "three-things-to-remember":
            made.append(slide(heading(section), bare(section.find(["ol", "ul"]))))
            continue
        made += story(section)
    if not any("geolab-explore" in one for one in made):
        made += [slide(heading(found.find_parent("section")), bare(found, *LEFT_OUT, CAPTIONS),
                       captions(found)) for found in of.select(".geolab-explore")]
    for number, question in enumerate(quiz, start=1):
        shown = ask(question["ask"], question["answers"]).data
        right = [f"{answer} {reply}" for answer, reply in question["answers"].items()
                 if reply.startswith("Yes")]
        made.append(slide(f"Question {number} of {len(quiz)}", shown,
                          [f"<p>{html.escape(said)}</p>" for said in right]))
    return "\n".join(made)


def opening(of: Tag) -> str:
    """Return the chapter's text before its first picture, as much as fits a screen."""
    shown = ""
    for part in of.find_all(True, recursive=False):
        if pictured(part) or part.name in ("section", "details") or len(shown) > OPENING:
            break
        if part.name not in ("h1", "script") and "cell" not in part.get("class", ()):
            shown += bare(part)
    return shown


def story(section: Tag) -> list[str]:
    """A slide for each picture of a section, with its prediction, and for each theorem.

    The section's other words are the speaker's notes: what comes before a slide belongs to the
    first one, what comes behind a slide to that one. Folded parts of the page have no slides.
    """
    shown, notes, predicted = [], [[]], ""
    for part in section.find_all(lambda tag: tag.name not in ("section", "details"),
                                 recursive=False):
        body = ""
        if part.name == "p" and part.get_text().lstrip().startswith("Predict"):
            predicted = bare(part)
        elif picture := pictured(part):
            body, predicted = predicted + picture, ""
        elif part.select_one(":scope > .admonition-title > .caption-number"):
            body = bare(part)
        elif part.css.match(SPOKEN) and section.find_parent("section"):
            notes[-1].append(bare(part))
        if body:
            if shown:
                notes.append([])
            shown.append(body)
            notes[-1] += captions(part)
    return [slide(heading(section), body, said)
            for body, said in zip(shown, notes, strict=False)]  # no slide, no notes


def captions(part: Tag) -> list[str]:
    """The words below a picture."""
    return [f"<p>{re.sub('</?(?:div|figcaption|p)[^>]*>', '', bare(found))}</p>"
            for found in part.select(CAPTIONS)]


def cells_of(row: Tag) -> list[Tag]:
    return row.find_all("td")


def slide(head: str, body: str, said: list[str] | None = None, kind: str = "") -> str:
    """A slide. Its speaker's notes are hidden, and the key N shows them in a window."""
    top = f"<h2>{head}</h2>" if head else ""
    notes = f'<aside class="notes" hidden>{"".join(said)}</aside>' if said else ""
    return f'<section class="slide {kind}">{top}<div>{body}</div>{notes}</section>'


def pictured(part: Tag) -> str:
    """The figure, the sliders or the question that a cell shows, if it shows one."""
    found = part.select_one(".geolab-explore, .geolab-question, figure")
    found = found or part.select_one(".cell_output svg")
    return bare(found, *LEFT_OUT, CAPTIONS) if found and "dropdown" not in part.get("class", ()) \
        else ""


def sheet(of: Tag, quiz: list[dict]) -> str:
    """Exercises and questions to print, with room for answers."""
    room = '<div class="room"></div>'
    asked = "".join(exercise(found) + room for found in of.select(".exercise"))
    questions = listed(quiz, lambda answer, reply: f"☐ {answer}")
    return (f"<h1>{heading(of)}</h1><p class='name'>Name: <span></span> Date: <span></span></p>"
            f"<h2>Exercises</h2>{asked}<h2>Questions</h2>{questions}")


def listed(quiz: list[dict], line: Callable[[str, str], str]) -> str:
    """The questions, with a line for each answer and its reply."""
    items = "".join(f"<li><p>{html.escape(question['ask'])}</p><ul>" + "".join(
        f"<li>{line(html.escape(answer), html.escape(reply))}</li>"
        for answer, reply in question["answers"].items()) + "</ul></li>" for question in quiz)
    return f"<ol class='questions'>{items}</ol>"


def exercise(found: Tag) -> str:
    """An exercise under its number and title, without the frame of the page."""
    title = found.select_one(".admonition-title").get_text(" ", strip=True)
    parts = found.find("section").find_all(True, recursive=False)
    text = "".join(map(bare, parts))
    return f"<h3>{html.escape(title)}</h3>{text}"


def advice(of: Tag, *left_out: str) -> str:
    """A chapter's box for the teacher: what students get wrong, and questions for the room."""
    boxes = [box for box in of.select(".admonition.dropdown")
             if "For the teacher" in box.select_one(".admonition-title").get_text()]
    return "".join(bare(box, *SILENT, *left_out) for box in boxes)


def discussion(chapters: list[Tag]) -> str:
    """The boxes for the teacher of all chapters, as one guide."""
    return "<h1>A guide for discussion</h1>" + "".join(
        f"<h2>{heading(of)}</h2>{advice(of, '.admonition-title')}" for of in chapters)


def notes(of: Tag, session) -> str:
    """Return a teacher's notes beside the sheet: advice, solutions, and all answers."""
    solved = "".join(exercise(found) + "".join(
        bare(part, *SILENT) for part in after(found, "solution"))
        + (rendered(rubric(marks)) if (marks := session.words.get(found.get("id"))) else "")
        for found in of.select(".exercise"))
    graded = "".join(f"<h3>{check.name}</h3>{rendered(check.ask)}<pre>{html.escape(check.answer)}"
                     "</pre>" for check in session.checks)
    replies = listed(session.quiz, lambda answer, reply: f"<strong>{answer}</strong> {reply}")
    return (f"<h1>{heading(of)}: for the teacher</h1>{advice(of)}<h2>Solutions</h2>{solved}"
            f"<h2>What the notebook checks</h2>{graded}<h2>Quiz</h2>{replies}")


def after(found: Tag, kind: str) -> list[Tag]:
    """The next box of a kind behind a box, if it comes before the next exercise."""
    for box in found.find_all_next("div", class_=[kind, "exercise"]):
        return [box] if kind in box["class"] else []
    return []


def quiz_markdown(title: str, quiz: list[dict], letters: list[str], text: str) -> str:
    """The quiz as Markdown, with the replies below."""
    right = [next(reply for reply in question["answers"].values() if reply.startswith("Yes"))
             for question in quiz]
    answers = "\n".join(f"{number}. **{letter}** {reply}" for number, (letter, reply)
                        in enumerate(zip(letters, right, strict=True), start=1))
    return f"# Quiz: {title}\n\n{text}\n\n## Answers\n\n{answers}\n\n{LICENCE}\n"
