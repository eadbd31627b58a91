"""The site's root leads to the front page, and the search finds the chapter of a name first."""

import pytest

pytestmark = pytest.mark.browser


def test_the_root_leads_to_the_front_page(site, window):
    window.goto((site / "index.html").as_uri())
    window.wait_for_url("**/book/intro.html")


@pytest.mark.parametrize("asked, chapter", [
    ("gate", "09_the_gate"), ("Cayley", "08_cayley"), ("residual stream", "01_residual_stream")])
def test_the_chapter_of_that_name_comes_first(site, window, asked, chapter):
    window.goto(f"{(site / 'search.html').as_uri()}?q={asked}")
    first = window.locator("#search-results li a").first
    first.wait_for()
    window.wait_for_function("() => !document.querySelector('#search-progress')?.innerText")
    assert chapter in first.get_attribute("href")
