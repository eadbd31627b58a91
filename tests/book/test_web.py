"""What the site says of itself to search engines, social networks and lost readers."""

import re
from types import SimpleNamespace
from xml.etree import ElementTree

import geolab_book
import geolab_web as web
import pytest

BASE = "https://someone.github.io/book/"


@pytest.fixture(params=["", BASE], ids=["no address", "an address"])
def site(request, tmp_path):
    """A site of two pages, as the extension leaves it."""
    config = SimpleNamespace(html_title="A <book>", html_baseurl=request.param)
    app = SimpleNamespace(config=config, outdir=str(tmp_path), builder=SimpleNamespace(name="html"),
                          env=SimpleNamespace(found_docs={"book/intro", "notebooks/01_a"}))
    context = {"body": "<h1>A book</h1><p>" + "It has a first sentence. " * 4 + "</p>"}
    web.head(app, "book/intro", "page.html", context, None)
    (tmp_path / "_static/scripts").mkdir(parents=True)
    (tmp_path / "_static/scripts/fontawesome.js.map").write_text("large")
    (tmp_path / "book").mkdir()
    (tmp_path / "book/intro.html").write_text(context["metatags"])
    web.files(app, None)
    return SimpleNamespace(folder=tmp_path, base=request.param)


def test_the_root_leads_to_the_front_page_and_has_its_card(site):
    text = (site.folder / "index.html").read_text()
    assert 'url=book/intro.html' in text and "A &lt;book&gt;" in text
    card = re.search('og:image" content="([^"]*)"', text)
    assert (card and card[1]) == (f"{site.base}_static/card.png" if site.base else None)


def test_the_map_lists_every_page_where_the_address_is_known(site):
    path = site.folder / "sitemap.xml"
    assert path.exists() == bool(site.base)
    if site.base:
        places = [place.text for place in ElementTree.parse(path).findall(".//{*}loc")]
        assert places == [f"{BASE}book/intro.html", f"{BASE}notebooks/01_a.html"]


def test_the_library_of_icons_is_left_out(site):
    scripts = site.folder / "_static/scripts"
    assert [path.name for path in scripts.iterdir()] == ["fontawesome.js"]
    assert (scripts / "fontawesome.js").stat().st_size < 100


@pytest.mark.parametrize("body, said", [
    ("<p>Short.</p><p>" + "A long paragraph about <em>one</em> thing. " * 2 + "</p>",
     "A long paragraph about one thing. A long paragraph about one thing."),
    ("<p>A layer adds its output, \\(x + F(x)\\), and never takes anything away again.</p>",
     "A layer adds its output, x + F(x), and never takes anything away again."),
    ("<p>" + "A formula \\(x^2\\) can't stand in a description of any page. " * 2 + "</p>", ""),
    ('<div class="geolab-question"><p>' + "Which of these answers may be the right one? " * 2
     + "</p></div><p>" + "This isn't a question but a whole sentence of the running text. </p>",
     "This isn't a question but a whole sentence of the running text."),
    ("<table><tr><td><p>" + "What a table has in a cell describes no page. " * 2 + "</p></td></tr>"
     "</table><p>This isn't a table but a whole sentence of the running text, at last.</p>",
     "This isn't a table but a whole sentence of the running text, at last."),
])
def test_a_page_is_described_by_its_first_plain_sentences(body, said):
    assert web.description(body) == said


def test_a_lost_reader_finds_the_way_from_any_depth():
    app = SimpleNamespace(config=SimpleNamespace(html_title="A book", html_baseurl=BASE))
    (name, context, template), = web.lost_page(app)
    assert (name, template) == ("404", "page.html") and 'href="book/intro.html"' in context["body"]
    web.head(app, name, template, context, None)
    assert context["metatags"].startswith(f'<base href="{BASE}">')


@pytest.mark.parametrize("url", ["", "https://github.com/someone/book"])
def test_buttons_lead_to_the_repository_where_its_address_is_known(url):
    options = {"repository_url": url, "launch_buttons": {"colab_url": "https://colab"}}
    config = SimpleNamespace(html_title="A book", html_static_path=[], html_theme_options=options)
    geolab_book.with_the_address(None, config)
    assert options.get("use_repository_button", False) == bool(options["launch_buttons"])
    assert bool(options["launch_buttons"]) == bool(url)
    assert getattr(config, "html_baseurl", "") == (BASE if url else "")


def test_the_footer_cites_what_citation_cff_says():
    options = {"repository_url": "https://github.com/someone/book", "repository_branch": "main"}
    web.footer(None, SimpleNamespace(html_theme_options=options, copyright="2026"))
    footer = options["extra_footer"]
    assert "The Geometry of Residual Connections" in footer and "MIT licence" in footer
    assert 'href="https://github.com/someone/book/blob/main/LICENSE"' in footer
    assert 'rel="license" href="https://creativecommons.org/licenses/by/4.0/"' in footer
