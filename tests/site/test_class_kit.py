"""The class kit is made from the built site, and its slides move without a network."""

import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pikepdf
import pytest
from bs4 import BeautifulSoup

from class_pages import article, notes, sheet, slides
from class_questions import session

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted(path.stem for path in ROOT.glob("notebooks/*.ipynb"))
# words on a slide that are smaller than 32 of 720 pixels, which are 24 of 540 points
SMALL = """() => [...document.querySelectorAll(".slide, .slide *")]
    .filter(of => !of.closest("svg, script, style, .notes, mjx-container, pre, code")
        && [...of.childNodes].some(inner => inner.nodeType === 3 && inner.data.trim())
        && of.offsetParent && parseFloat(getComputedStyle(of).fontSize) < 32)
    .map(of => `${getComputedStyle(of).fontSize}: ${of.textContent.slice(0, 60)}`)"""
FEW = "21"  # the chapter whose kit is made whole
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def kit(tmp_path_factory):
    """The kit of one session, made by the command."""
    out = tmp_path_factory.mktemp("kit")
    command = [sys.executable, ROOT / "tools/class_kit.py", "--practice", "--only", FEW,
               "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_every_link_of_its_contents_leads_to_a_file(kit):
    links = BeautifulSoup((kit / "index.html").read_text(), "html.parser").find_all(href=True)
    # five files, four quizzes, four guides, two examinations and their keys, two styles
    assert len(links) == 5 + 4 + 4 + 4 + 2
    assert not [link["href"] for link in links if not (kit / link["href"]).is_file()]


def test_slides_are_typeset_and_move_without_a_network(kit, browser):
    page, trouble = browser.new_page(viewport={"width": 1280, "height": 720}), []
    page.on("requestfailed", lambda request: trouble.append(request.url))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda request: request.url.startswith(("file:", "data:"))
            or trouble.append(request.url))
    path = next((kit / "slides").glob("*.html"))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready] mjx-container")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("""() => Math.abs(
        document.querySelectorAll(".slide")[1].getBoundingClientRect().top) < 5""")
    picture = page.locator(".geolab-explore > [role=img]").first
    slider = page.locator("input").first
    before = picture.inner_html()
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert picture.inner_html() != before
    tall = page.evaluate("""() => [...document.querySelectorAll(".slide")]
        .filter(slide => slide.querySelector("input") && slide.scrollHeight > innerHeight + 1)
        .map(slide => slide.innerText.slice(0, 60))""")
    small = page.evaluate(SMALL)
    with page.expect_popup() as opened:
        page.keyboard.press("Escape")
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("n")
    notes = opened.value
    notes.wait_for_function("document.title.startsWith('Notes ')")
    notes.close()
    printed = page.pdf(prefer_css_page_size=True)
    count = page.locator(".slide").count()
    page.close()
    assert not trouble and not tall and not small
    with pikepdf.open(BytesIO(printed)) as paper:
        assert len(paper.pages) == count
        assert {tuple(map(float, sheet.mediabox)) for sheet in paper.pages} == {(0, 0, 960, 540)}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_chapter_has_slides_and_a_sheet(chapter):
    of, page = session(chapter), article(ROOT / f"_build/html/notebooks/{chapter}.html")
    found = page.find("section")
    made = BeautifulSoup(slides(found, of.quiz), "html.parser")
    assert len(made.select(".slide")) >= 8 and made.select(".geolab-explore input")
    exercises = len(found.select(".exercise"))
    assert len(BeautifulSoup(sheet(found, of.quiz), "html.parser").select(".room")) == exercises > 0
    solved = BeautifulSoup(notes(found, of), "html.parser")
    assert len(solved.select(".solution")) == exercises
    for tag in [*made.find_all(True), *solved.find_all(True)]:
        for address in ("src", "href"):
            assert tag.get(address, "#").startswith(("#", "data:")), f"{chapter}: {tag[address]}"
