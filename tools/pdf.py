"""The built book as one PDF, printed by Chromium: `make pdf`.

The pages of _build/html are joined, MathJax sets their formulas, and the browser prints them twice:
the contents get their page numbers from the first print.
"""

import io
import sys
from collections.abc import Iterable, Iterator

import pikepdf

from paper import BrowserPage, asked, pages, typeset
from release import file

NUMBERED = """numbers => document.querySelectorAll(".book-contents a").forEach(link =>
    link.querySelector(".page").textContent = numbers[link.hash.slice(1)])"""
# parts wider than the text shrink; otherwise the browser would shrink every page
FITTED = """() => {
    const shares = [...document.querySelectorAll("table, mjx-container")].map(wide =>
        [wide, wide.parentElement.closest("div, section").clientWidth / wide.scrollWidth]);
    shares.filter(([, share]) => share < 1).forEach(([wide, share]) => wide.style.zoom = share);
}"""
HEADINGS = """() => [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")]
    .map(heading => heading.textContent.trim())"""


def main() -> int:
    site, path = asked(__doc__, "PDF")
    out = file(".pdf")
    with typeset(site, pages(site), path) as page:
        page.evaluate(FITTED)
        page.evaluate(NUMBERED, places(printed(page)))
        whole = printed(page, outline=True, tagged=True)
        headings = page.evaluate(HEADINGS)
    with pikepdf.open(io.BytesIO(whole)) as pdf:
        entitle(pdf, headings)
        pdf.save(out, object_stream_mode=pikepdf.ObjectStreamMode.generate)
        print(f"{out}: {len(pdf.pages)} pages, {out.stat().st_size / 1e6:.1f} MB")
    return 0


def printed(page: BrowserPage, **options) -> bytes:
    """The open document as a PDF."""
    return page.pdf(prefer_css_page_size=True, print_background=True, **options)


def places(pdf: bytes) -> dict[str, int]:
    """The page, counted from 1, on which each target of a link stands."""
    with pikepdf.open(io.BytesIO(pdf)) as read:
        numbers = {page.obj.objgen: k for k, page in enumerate(read.pages, start=1)}
        return {name.removeprefix("/"): numbers[place[0].objgen]
                for name, place in read.Root.Dests.items()}


def entitle(pdf: pikepdf.Pdf, headings: list[str]) -> None:
    """Name the bookmarks as the headings: the browser doubles some words of a long document."""
    with pdf.open_outline() as outline:
        for bookmark, heading in zip(_flat(outline.root), headings, strict=True):
            bookmark.title, bookmark.is_closed = heading, True


def _flat(bookmarks: Iterable[pikepdf.OutlineItem]) -> Iterator[pikepdf.OutlineItem]:
    for bookmark in bookmarks:
        yield bookmark
        yield from _flat(bookmark.children)


if __name__ == "__main__":
    sys.exit(main())
