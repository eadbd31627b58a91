"""The built pages as files: links, alt texts, launch buttons, size, and what they load."""

import gzip
import re
from collections import Counter
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import lxml.html
import yaml

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = yaml.safe_load((ROOT / "_config.yml").read_text())["repository"]
CODE = {"pre", "code", "script", "style", "svg"}
MOST_BYTES = 300_000  # of a page as it travels, compressed


@cache
def ids(path: Path) -> set[str]:
    return set(lxml.html.fromstring(path.read_bytes()).xpath("//@id"))  # ten times as fast


def test_every_link_leads_somewhere_and_nothing_is_loaded_from_elsewhere(site, name, html):
    """A link names a file of the site and a place in it, such as a citation or a theorem."""
    here = site / f"{name}.html"
    for tag in html.select("[href], [src]"):
        link = urlsplit(tag.get("src") or tag["href"])
        if link.scheme or link.netloc:
            assert tag.name == "a" or "canonical" in tag.get("rel", []), tag
            continue
        target = (here.parent / unquote(link.path)).resolve() if link.path else here
        assert target.is_file(), tag
        assert not link.fragment or unquote(link.fragment) in ids(target), tag


def test_an_id_stands_once_and_every_picture_refers_to_what_is_on_the_page(html, site, name):
    """Marks and clips of figures may repeat: their ids say what they look like."""
    named = Counter(tag["id"] for tag in html.find_all(id=True) if not tag.find_parent("svg"))
    assert not [name for name, count in named.items() if count > 1]
    assert not html.select("svg [id^=matplotlib]")
    clips = " ".join(tag["clip-path"] for tag in html.find_all(attrs={"clip-path": True}))
    referred = {use["xlink:href"] for use in html.find_all("use")}
    referred |= set(re.findall(r"url\((#[^)]+)\)", clips))
    assert {reference.removeprefix("#") for reference in referred} <= ids(site / f"{name}.html")


def test_it_says_what_it_is_and_how_to_cite_it(html):
    assert len(html.find("meta", attrs={"name": "description"})["content"]) > 30
    for key in ("title", "description", "type", "site_name"):
        assert html.find("meta", property=f"og:{key}")["content"], key
    card, canonical = html.find("meta", property="og:image"), html.find("link", rel="canonical")
    assert bool(card) == bool(canonical) == bool(REPOSITORY["url"])
    footer = html.select_one(".bd-footer-content").get_text()
    assert "licence" in footer and "How to cite" in footer and "@misc{" in footer


def test_the_figures_that_stand_open_are_numbered_in_order(html):
    count = 0
    for caption in html.article.select("figcaption, .geolab-caption"):
        closed = caption.find_parent("details", class_=["road", "audit"])
        count += not closed
        assert caption.get("data-number") == (None if closed else str(count))


def test_a_screen_reader_has_words_for_figures_tables_and_folds(html):
    for figure in html.find_all(role="img"):
        assert figure.get("aria-label", "").strip(), str(figure)[:200]
    for image in html.find_all("img"):
        alt = image.get("alt", "").strip()
        assert alt and not alt.endswith((".png", ".svg", ".jpg")), image
    for drawing in html.article.find_all("svg"):
        assert drawing.get("role") == "img" or drawing.find_parent(role="img"), str(drawing)[:200]
    for cell in html.article.find_all("th"):  # axe-core doesn't read MathML
        formulas = "".join(formula.get_text() for formula in cell.select(".math"))
        assert len(cell.get_text(strip=True)) > len(formulas.strip()), cell
    assert not html.select("article summary[aria-label]")


def test_the_page_is_light(site, name):
    assert len(gzip.compress((site / f"{name}.html").read_bytes())) < MOST_BYTES


def test_launch_buttons_open_the_notebook_of_the_page(html, name):
    """They do so where the repository's address is known. Else there is no such link."""
    links = {a["href"] for a in html.select("header a[href], .article-header-buttons a[href]")
             if urlsplit(a["href"]).netloc in ("colab.research.google.com", "github.com")}
    url, opens = REPOSITORY["url"], set()
    if url and (ROOT / f"{name}.ipynb").is_file():
        there = f"{url.removeprefix('https://')}/blob/{REPOSITORY['branch']}/{name}.ipynb"
        opens = {f"https://colab.research.google.com/{there.replace('github.com', 'github', 1)}"}
    assert {link for link in links if "colab" in link} == opens
    assert links - opens <= {url}


def test_no_markup_of_the_source_is_left_and_a_citation_stands_apart_from_the_name_before(html):
    """Sphinx did not understand a dollar, a fence or a role that stands in the running text."""
    text = "".join(string for string in html.article.strings
                   if not any(tag.name in CODE or "math" in tag.get("class", ())
                              for tag in string.parents))
    assert not re.findall(r".{0,40}(?:\$|:::|`|\{[a-z:]+\}).{0,40}", text)
    assert not re.search(r'(\w|</em>)<a class="footnote-reference', str(html))
