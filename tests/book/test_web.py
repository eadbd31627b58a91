"""What the site says of itself to search engines, social networks and lost readers."""

import re
from types import SimpleNamespace
from xml.etree import ElementTree

import geolab_book
import geolab_web as web
import pytest

BASE = "https://someone.github.io/book/"
SENTENCE = "This is no question but a whole sentence of the running text of a page."
FILLER = "What stands in a question, a table or a formula describes no page. " * 2


@pytest.mark.parametrize("base", ["", BASE], ids=["no address", "an address"])
def test_a_site_has_a_root_and_where_its_address_is_known_a_card_and_a_map(tmp_path, base):
    config = SimpleNamespace(html_title="A <book>", html_baseurl=base)
    app = SimpleNamespace(config=config, outdir=str(tmp_path), builder=SimpleNamespace(name="html"),
                          env=SimpleNamespace(found_docs={"book/intro", "notebooks/01_a"}))
    context = {"body": f"<h1>A book</h1><p>{SENTENCE}</p>"}
    web.head(app, "book/intro", "page.html", context, None)
    scripts = tmp_path / "_static/scripts"
    scripts.mkdir(parents=True)
    (scripts / "fontawesome.js.map").write_text("large")
    (tmp_path / "book").mkdir()
    (tmp_path / "book/intro.html").write_text(context["metatags"])
    web.files(app, None)

    text = (tmp_path / "index.html").read_text()
    assert "url=book/intro.html" in text and "A &lt;book&gt;" in text and SENTENCE in text
    assert re.findall('og:image" content="([^"]*)"', text) == [f"{base}_static/card.png"] * bool(
        base)
    sitemap = tmp_path / "sitemap.xml"
    assert sitemap.exists() == bool(base)
    if base:
        places = [place.text for place in ElementTree.parse(sitemap).findall(".//{*}loc")]
        assert places == [f"{BASE}book/intro.html", f"{BASE}notebooks/01_a.html"]
    icons, = scripts.iterdir()  # the theme's library of icons is left out
    assert icons.name == "fontawesome.js" and icons.stat().st_size < 100


@pytest.mark.parametrize("before", [
    "", "<p>Short.</p>", f"<p>\\(x^2\\) {FILLER}</p>",
    f'<div class="geolab-question"><p>{FILLER}</p></div>', f"<table><td><p>{FILLER}</p></table>"])
def test_a_page_is_described_by_its_first_plain_sentences(before):
    said = SENTENCE.replace("whole", "<em>whole</em>").replace("running", "\\(x + F(x)\\)")
    assert web.description(f"{before}<p>{said}</p>") == SENTENCE.replace("running", "x + F(x)")


def test_a_lost_reader_finds_the_way_from_any_depth():
    app = SimpleNamespace(config=SimpleNamespace(html_title="A book", html_baseurl=BASE))
    (name, context, template), = web.lost_page(app)
    assert (name, template) == ("404", "page.html") and 'href="book/intro.html"' in context["body"]
    web.head(app, name, template, context, None)
    assert context["metatags"].startswith(f'<base href="{BASE}">')


@pytest.mark.parametrize("url", ["", "https://github.com/someone/book"])
def test_buttons_and_footer_lead_to_the_repository_where_its_address_is_known(url):
    options = {"repository_url": url, "repository_branch": "main",
               "launch_buttons": {"colab_url": "https://colab"}}
    config = SimpleNamespace(html_title="A book", html_static_path=[], copyright="2026",
                             html_theme_options=options)
    geolab_book.with_the_address(None, config)
    web.footer(None, config)
    assert options.get("use_repository_button", False) == bool(url)
    assert bool(options["launch_buttons"]) == bool(url)
    assert getattr(config, "html_baseurl", "") == (BASE if url else "")
    assert (f'href="{url}/blob/main/LICENSE"' in options["extra_footer"]) == bool(url)
    assert 'rel="license" href="https://creativecommons.org/licenses/by/4.0/"' in options[
        "extra_footer"]
