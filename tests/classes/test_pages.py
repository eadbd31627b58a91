"""Slides, sheets and notes come from a page's structure, and ask no network for anything."""

import pytest
from bs4 import BeautifulSoup

from class_pages import LICENCE, article, discussion, notes, page, quiz_markdown, sheet, slides
from class_questions import Check, Session

QUIZ = [{"ask": "Is 1 < 2?", "answers": {"It is.": "Yes. By counting.", "No.": "No. Count."}}]
SESSION = Session("small", [Check("my_sum", "What is $6 + 7$?", "Count.", "my_sum = 13", [])], QUIZ,
                  words={"ex-count": ["Begin with $1$.", "Say two."]})
PROOF = '<div class="proof {0} admonition"><p class="admonition-title">{1}</p><p>{2}</p></div>'
NUMBERED = '<span class="caption-number">Theorem 1 </span>(Counting)'
PAGE = f"""<html><body><nav><a href="https://else.where/">Away</a></nav>
<article><section id="a-title">
<h1>1. A title<a class="headerlink" href="#a-title">#</a></h1><p>A story.</p>
<div class="math">1 &lt; 2</div><div class="cell"><div class="cell_output">
<div class="geolab-question"><p>Why?</p></div></div></div><details class="plan">
<table><tr><td>First</td><td>5</td><td></td></tr>
<tr><td>Second</td><td>5</td><td>yes</td></tr></table></details>
<section id="first"><h2>First</h2><p><strong>Predict.</strong> What moves?</p>
<div class="cell"><div class="cell_input"><pre>code()</pre></div><div class="cell_output">
<div class="geolab-explore"><div role="img" aria-label="A dot"><svg></svg></div>
<input type="range"><script>moves()</script>
<div class="geolab-caption"><p>A dot that moves.</p></div>
</div></div></div>
<p>See <a href="02_other.html">another chapter</a>.</p>
{PROOF.format("theorem", NUMBERED, "One is less than two.")}
{PROOF.format("dropdown", "Proof", "A proof of it.")}
<details class="road"><summary>A side road</summary><figure><svg></svg></figure></details></section>
<section id="second"><h2>Second</h2>
<figure><svg></svg><figcaption>Skipped</figcaption></figure></section>
<section id="exercises"><h2>Exercises</h2>
<div class="exercise admonition" id="ex-count">
<p class="admonition-title">Exercise 1 (Count)</p>
<section id="exercise-content"><p>Count to two.</p></section></div>
<div class="solution dropdown admonition"><p class="admonition-title">Solution</p><p>One, two.</p>
<div class="cell">print</div></div></section>
<section id="three-things-to-remember"><h2>Three things</h2><ol><li>Count.</li></ol>
<div class="tip dropdown admonition"><p class="admonition-title">For the teacher</p>
<p>They miscount.</p>
</div></section></section></article></body></html>"""


@pytest.fixture
def found(tmp_path):
    (tmp_path / "page.html").write_text(PAGE)
    return article(tmp_path / "page.html").find("section")


def addresses(text: str) -> list[str]:
    """What a browser would fetch for a page, or follow from it."""
    tags = BeautifulSoup(text, "html.parser").find_all(True)
    names = ("src", "href", "srcset", "poster", "action", "data", "xlink:href")
    return [tag[name] for tag in tags for name in names if tag.has_attr(name)
            and not tag[name].startswith(("#", "data:"))]


def test_slides_tell_the_story_and_a_speaker_has_notes(found):
    made = BeautifulSoup(slides(found, QUIZ), "html.parser").select("section")
    notes = [" ".join(note.extract().get_text(" ").split()) for slide in made
             if (note := slide.select_one(".notes[hidden]"))]
    texts = [" ".join(slide.get_text(" ", strip=True).split()) for slide in made]
    assert [text.split()[0] for text in texts] == [
        "1.", "A", "1.", "First", "First", "Three", "Question"]
    assert texts[1] == "A story. 1 < 2" and texts[2].endswith("Why?")
    assert "What moves?" in texts[3] and made[3].select_one("input[type=range]")
    assert made[3].find("script").string == "moves()"
    assert "One is less than two." in texts[4]
    everything = " ".join(texts)
    for absent in ("code()", "A proof of it", "A side road", "Skipped", "Count to two", "One, two",
                   "A dot that moves"):
        assert absent not in everything
    assert made[-1].select("details"), "a click answers a question"
    assert notes == ["A dot that moves. See another chapter.", "It is. Yes. By counting."]
    assert made[0].select_one(".licence").get_text() == LICENCE


def test_a_sheet_has_no_answer_and_notes_have_all_that_it_lacks(found):
    asked, answered = sheet(found, QUIZ), notes(found, SESSION)
    assert all(said in asked for said in (
        "Exercise 1 (Count)", "Count to two.", "☐ It is.", "1 &lt; 2"))
    for said in ("They miscount.", "One, two.", "By counting.", "my_sum = 13", r"\(6 + 7\)"):
        assert said in answered and said not in asked
    assert "print" not in answered
    text = discussion([found, found])
    assert text.count("They miscount.") == 2 == text.count("<h2>1. A title</h2>")
    assert "One, two." not in text and "For the teacher" not in text


@pytest.mark.parametrize("kind", ["slides", "sheet"])
def test_a_page_asks_for_nothing_but_its_own_folder(found, kind):
    made = page(kind, "A title", slides(found, QUIZ) if kind == "slides" else notes(found, SESSION))
    asked = addresses(made)
    assert made.count(LICENCE) == 1
    assert asked and all(address.startswith("../static/") for address in asked)


def test_the_number_of_a_work_stays_on_the_page(tmp_path):
    work = '<a class="footnote-reference" href="#a">[<span>3</span>]</a>'
    (tmp_path / "page.html").write_text(f"<article><p>By Zhang\u00a0{work}.</p></article>")
    assert article(tmp_path / "page.html").get_text() == "By Zhang."


def test_a_picture_in_a_file_of_its_own_is_refused(tmp_path):
    (tmp_path / "page.html").write_text("<article><img src='../a.png'></article>")
    with pytest.raises(AssertionError, match="page.html has a picture"):
        article(tmp_path / "page.html")


def test_a_quiz_as_text_ends_with_its_answers():
    text = quiz_markdown("A title", QUIZ, ["a"], "1. Is 1 < 2?")
    assert text.endswith(f"## Answers\n\n1. **a** Yes. By counting.\n\n{LICENCE}\n")
