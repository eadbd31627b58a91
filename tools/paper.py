"""All pages of the built site as one HTML document, for the PDF and the EPUB.

Its links lead to places in the document, folds are open, code that only draws is left out, and a
slider is a few of its frames side by side.
"""

import argparse
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import yaml
from bs4 import BeautifulSoup, Tag
from playwright.sync_api import Page as BrowserPage
from playwright.sync_api import sync_playwright

import browser
from release import ROOT, version

STYLE = Path(__file__).with_name("paper.css")
TEXT_WIDTH = 642  # pixels between the margins of paper.css
MINUTES = 20      # for each step of the browser
# parts of a page for a screen or a pointer alone, and folded code, which draws or imports
NOT_ON_PAPER = ("script, noscript, .geolab-still, .headerlink, .copybtn, .geolab-sliders, "
                "details.hide.above-input, .tag_hide-input > .cell_input, "
                "summary > .collapsed, input, textarea, select, button, .geolab-wants")
DEAD = """() => [...document.querySelectorAll('a[href^="#"]')].map(link => link.hash.slice(1))
    .filter(id => !document.getElementById(decodeURIComponent(id)))"""
ALONE, ROWS, COLUMNS = 4, 3, 2  # the values that are shown of a single slider, and of each of two
MOST_MARKS = 4                  # of a single slider; if it has more, they don't count
STYLES = ("proof.css", "exercise.css", "theme.css", "pydata-sphinx-theme.css",
          "sphinx-book-theme.css", "pygments.css", "mystnb", "book.css")


class Page(NamedTuple):
    """A page of the book in the joined document."""

    name: str      # as _toc.yml names it
    part: str      # the caption of its part; empty on the front page
    title: str
    html: str      # its article


def contents() -> list[tuple[str, str]]:
    """The name of each page and the caption of its part, in order."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    return [(toc["root"], ""), *((page["file"], part.get("caption", ""))
                                 for part in toc.get("parts", [toc]) for page in part["chapters"])]


def pages(site: Path) -> list[Page]:
    """Every page of the site, fit for paper."""
    listed = contents()
    names = {name for name, _ in listed}
    return [_page(site, name, part, names) for name, part in listed]


def anchor(name: str, place: str = "") -> str:
    """The id, in the joined document, of a page or of a place on it."""
    page = name.replace("/", "-")
    return f"{page}--{place}" if place else page


def _page(site: Path, name: str, part: str, names: set[str]) -> Page:
    article = BeautifulSoup((site / f"{name}.html").read_text(), "html.parser").article
    for slider in article.select(".geolab-explore"):
        _side_by_side(slider)
    for typed in article.select(".geolab-fields input[type=text]"):  # hidden without a script
        del typed.find_parent(class_="geolab-fields")["hidden"]
        typed.insert_before("= ")
        typed.replace_with(typed["value"])
    for tag in article.select(NOT_ON_PAPER):
        tag.decompose()
    for image in article.select('img[src$=".svg"]'):
        _drawn(image, (site / name).parent / image["src"])
    for fold in article.find_all("details"):
        fold["open"] = ""
    given = set()
    for tag in article.find_all(id=True):
        if tag.find_parent("svg"):  # a drawing's ids are hashes of what they stand for
            continue
        if tag["id"] in given:      # every exercise has a box of the same id, which no link names
            del tag["id"]
            continue
        given.add(tag["id"])
        tag["id"] = anchor(name, tag["id"])
    for link in article.find_all("a", href=True):
        _lead_inside(link, name, names)
    article["id"] = anchor(name)
    return Page(name, part, " ".join(article.h1.get_text().split()), str(article))


def _lead_inside(link: Tag, name: str, names: set[str]) -> None:
    """A link to a page or a place of the book leads there in the document. Others stay."""
    address = urlsplit(link["href"])
    if address.scheme or address.netloc:
        return
    path = (Path("/") / name).parent / unquote(address.path)
    target = path.resolve().relative_to("/").with_suffix("").as_posix() if address.path else name
    if target in names:
        link["href"] = "#" + anchor(target, unquote(address.fragment))
    else:  # a file of the site that isn't part of the document
        del link["href"]


def _drawn(image: Tag, path: Path) -> None:
    """Put a drawing in the place of the image that names its file."""
    drawing = BeautifulSoup(path.read_text(), "html.parser").svg
    drawing.attrs.pop("role", None)
    box = BeautifulSoup(f'<div role="img" aria-label="{escape(image["alt"])}"></div>',
                        "html.parser").div
    box.append(drawing)
    image.replace_with(box)


def _side_by_side(slider: Tag) -> None:
    """Put a few frames in the place of a slider's one picture, each over its values."""
    data = json.loads(slider.find("script", type="application/json").string)
    starts = [_start(of.select("input")) for of in slider.select(".geolab-slider")]
    marks = [{int(mark["data-at"]): mark.get_text() for mark in of.select("[data-at]")}
             for of in slider.select(".geolab-slider")]
    shown = []
    for chosen in choices([len(values) for values in data["values"]], starts, marks):
        frame = 0
        for k, values in zip(chosen, data["values"], strict=True):
            frame = frame * len(values) + k
        drawn = "\n".join(line for start, count in data["frames"][frame]
                          for line in data["lines"][start:start + count])
        said = ", ".join(f"{name} = {values[k]}" for name, values, k in
                         zip(data["names"], data["values"], chosen, strict=True))
        meant = "; ".join(of[k] for of, k in zip(marks, chosen, strict=True) if k in of)
        alt = escape(f"{data['alt']}; {said}", quote=True)
        shown.append(f'<div class="frame"><div role="img" aria-label="{alt}">{drawn}</div>'
                     f'<p><b>{escape(said)}</b>{": " + escape(meant) if meant else ""}</p></div>')
    grid = BeautifulSoup(f'<div class="frames">{"".join(shown)}</div>', "html.parser")
    slider.find(attrs={"role": "img"}).replace_with(grid)


def _start(inputs: list[Tag]) -> int:
    """The index of the first value of a track, or of the radio buttons of a choice."""
    track, *others = inputs
    if not others:
        return int(track["value"])
    return [one.has_attr("checked") for one in inputs].index(True)


def choices(counts: list[int], starts: list[int], marks: list[dict]) -> list[tuple[int, ...]]:
    """Choose the frames for paper. Returns the index of every slider's value for each frame.

    A single slider shows its ends and its marks, or values at even distances. Two sliders show ROWS
    values of the first and COLUMNS of the second. Any others stay at their starts.
    """
    if len(counts) == 1:
        marked = sorted({0, *marks[0], counts[0] - 1})
        enough = ALONE <= len(marked) <= MOST_MARKS + 2
        return [(k,) for k in (marked if enough else _evenly(counts[0], ALONE))]
    varied = [_evenly(counts[0], ROWS), _evenly(counts[1], COLUMNS)]
    return list(itertools.product(*varied, *([start] for start in starts[2:])))


def _evenly(count: int, most: int) -> list[int]:
    """At most `most` indices of `count` values, the first and the last among them."""
    most = min(count, most)
    return [round(k * (count - 1) / max(most - 1, 1)) for k in range(most)]


def document(site: Path, book: list[Page]) -> str:
    """The whole book as HTML: a title page, the contents, and every page of the site."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text())
    said = [config["author"], f"Version {version()}", config["repository"]["url"] or "",
            "Text and figures have the licence CC BY 4.0, "
            "https://creativecommons.org/licenses/by/4.0/, and code has the MIT licence.",
            "A slider of the site is a few of its frames here. Code that is folded there, which "
            "draws a figure or checks a statement, is left out, and what it shows and prints is "
            "here."]
    lines = "".join(f"<p>{escape(line)}</p>" for line in said if line)
    return (f'<!DOCTYPE html><html lang="en" data-theme="light" data-mode="light"><head>'
            f'<meta charset="utf-8"><title>{escape(config["title"])}</title>'
            f"{head(site, book[0].name)}<style>{STYLE.read_text()}</style></head><body>"
            f'<section class="title-page"><div class="title">{escape(config["title"])}</div>'
            f'{lines}</section><nav class="book-contents" aria-label="Contents"><h1>Contents</h1>'
            f'{"".join(_contents(book))}</nav><main class="bd-content">'
            f'{"".join(page.html for page in book)}</main></body></html>')


def _contents(book: list[Page]) -> Iterator[str]:
    part = ""
    for page in book:
        if page.part != part:
            part = page.part
            yield f'<p class="part">{escape(part)}</p>'
        yield (f'<a class="chapter" href="#{anchor(page.name)}">{escape(page.title)}'
               '<span class="page">000</span></a>')


def head(site: Path, name: str) -> str:
    """Return the lines of a page's head for styles and formulas, for a document beside it."""
    page = BeautifulSoup((site / f"{name}.html").read_text(), "html.parser")
    folder = f"../{site.name}/{Path(name).parent}"
    kept = []
    for tag in page.select("link[rel=stylesheet], script"):
        source = tag.get("href") or tag.get("src") or ""
        styles = tag.name == "link" and any(style in source for style in STYLES)
        if styles or "mathjax" in source:
            tag["href" if styles else "src"] = f"{folder}/{source}"
            kept.append(str(tag))
        elif (tag.string or "").startswith("window.MathJax"):
            kept.append(str(tag))
    return "\n".join(kept)


def asked(about: str, what: str) -> tuple[Path, str]:
    """The built site that a command is given, and the browser with which it makes the file.

    Arguments:
        about: the help of the command.
        what: the name of the file's form, such as "PDF".
    Raises: SystemExit without Chrome or Chromium.
    """
    parser = argparse.ArgumentParser(description=about,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--site", type=Path, default=ROOT / "_build/html", help="the built site")
    given, path = parser.parse_args(), browser.find()
    if path is None:
        raise SystemExit(f"The {what} needs Chrome or Chromium; `make browser` installs one.")
    return given.site, path


@contextmanager
def typeset(site: Path, book: list[Page], path: str) -> Iterator[BrowserPage]:
    """The document, open in the browser at `path` as it will be printed, with its formulas set.

    Raises: ValueError for links to nowhere.
    """
    source = site.parent / "paper/book.html"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(document(site, book))
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path,
                                              args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page(viewport={"width": TEXT_WIDTH, "height": 900})
        page.set_default_timeout(MINUTES * 60_000)
        page.emulate_media(media="print", color_scheme="light")
        page.goto(source.as_uri())
        page.evaluate("() => MathJax.startup.promise")
        if dead := page.evaluate(DEAD):
            raise ValueError(f"the joined book has links to nowhere: {', '.join(dead[:9])}")
        yield page
        chromium.close()
