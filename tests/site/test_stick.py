"""The archive of the site, opened by a double click: pages, formulas, sliders and search."""

from pathlib import Path
from zipfile import ZipFile

import pytest

import pack

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def stick(site, tmp_path_factory) -> Path:
    """The folder that the archive of `make zip` unpacks to."""
    folder = tmp_path_factory.mktemp("stick")
    pack.pack(site, folder / "book.zip")
    with ZipFile(folder / "book.zip") as archive:
        archive.extractall(folder)
    return folder / "book"


def test_index_leads_to_the_front_page(stick, window):
    window.goto((stick / "index.html").as_uri())
    window.wait_for_url("**/book/intro.html")
    assert window.locator("h1").first.inner_text()


def test_a_chapter_has_its_formulas_and_its_sliders(stick, window):
    window.goto((stick / "notebooks/02_delta_operator.html").as_uri())
    window.evaluate("() => MathJax.startup.promise")
    assert window.locator("mjx-container").count() == window.locator("article .math").count()
    figure = window.locator(".geolab-explore").first
    before = figure.locator("[role=img]").inner_html()
    figure.locator("input").first.press("ArrowRight")
    assert figure.locator("[role=img]").inner_html() != before


def test_the_search_finds_a_chapter(stick, window):
    window.goto((stick / "search.html").as_uri() + "?q=sinkhorn")
    window.wait_for_selector("#search-results li a")
    found = window.locator("#search-results li a").all()
    chapter = next(link for link in found if "birkhoff" in link.get_attribute("href"))
    chapter.click()
    window.wait_for_url("**/05_birkhoff_polytope.html*")
