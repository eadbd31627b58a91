"""Metadata of a site: a description and a card for links to a page, its canonical address, a map of
all pages, a page for lost readers, and a footer that says how to cite.

Without a known public address, the parts that need it are left out. Libraries do less here:
sphinxext-opengraph takes formulas and tables into a description, sphinx-sitemap warns where there
is no address and leaves out pages that weren't built again, and sphinx-notfound-page gives the page
paths from the server's root, which a folder on a disk has not.
"""

import re
from html import escape, unescape
from importlib.util import find_spec
from pathlib import Path

import yaml

CC_BY = "https://creativecommons.org/licenses/by/4.0/"
DESCRIPTION = 200  # characters
FRONT = "book/intro"
LOST = """<h1>This page isn't here</h1>
<p>The address leads to a place that the book doesn't have. The <a href="book/intro.html">front
page</a> lists all chapters, and the <a href="search.html">search</a> knows every page.</p>"""


def description(body: str) -> str:
    """The first sentences of a page, without questions to click, tables and hard formulas."""
    told = re.sub(r'<table.*?</table>|<div class="geolab-question".*?</div>', "", body, flags=re.S)
    paragraphs = re.findall(r"<p>(.*?)</p>", told, re.S)
    plain = (" ".join(unescape(re.sub(r"<[^>]+>|\\[()]", "", text)).split()) for text in paragraphs)
    first = next((text for text in plain
                  if len(text) > 60 and text[0].isupper() and not set(text) & set("\\^_{")), "")
    return first if len(first) <= DESCRIPTION else first[:DESCRIPTION].rsplit(" ", 1)[0] + " …"


def head(app, page, template, context, doctree):
    """Tell search engines and social networks what the page is about."""
    if context.get("body"):
        title = unescape(re.sub("<[^>]+>", "", context.get("title", "")))
        said = description(context["body"])
        context["metatags"] = context.get("metatags", "") + _metas(app.config, page, title, said)


def _metas(config, page: str, title: str, said: str) -> str:
    found = {"og:type": "article", "og:title": title, "og:description": said,
             "og:site_name": config.html_title, "twitter:card": "summary_large_image"}
    base = config.html_baseurl
    if base:
        found |= {"og:url": f"{base}{page}.html", "og:image": f"{base}_static/card.png"}
    # GitHub Pages shows the page for lost readers at any depth
    lost = f'<base href="{base}">' if base and page == "404" else ""
    return (f'{lost}<meta name="description" content="{escape(said)}">'
            + "".join(f'<meta {"name" if name.startswith("twitter") else "property"}="{name}" '
                      f'content="{escape(text)}">' for name, text in found.items()))


def lost_page(app):
    yield "404", {"title": "Not here", "body": LOST}, "page.html"


def files(app, failure):
    """Write the files beside the pages, and delete those that no page needs."""
    if failure or app.builder.name != "html":
        return
    out, base = Path(app.outdir), app.config.html_baseurl
    title, front = escape(app.config.html_title), f"{FRONT}.html"
    said = re.search('<meta name="description" content="([^"]*)">', (out / front).read_text())
    (out / "index.html").write_text(
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta http-equiv="refresh" content="0; url={front}">'
        f'{_metas(app.config, FRONT, app.config.html_title, unescape(said[1]))}'
        f'</head><body><main><h1><a href="{front}">{title}</a></h1></main></body></html>\n')
    if base:
        places = "".join(f"<url><loc>{base}{page}.html</loc></url>\n"
                         for page in sorted(app.env.found_docs))
        (out / "sitemap.xml").write_text(
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{places}</urlset>\n')
    # The theme's script of two thousand icons takes 1.5 MB. Its font has them too, and is there.
    (out / "_static/scripts/fontawesome.js").write_text("// the icons come from the theme's font\n")
    for source in (out / "_static").rglob("*.map"):
        source.unlink()


def footer(app, config):
    """Licence and citation, from CITATION.cff."""
    options = config.html_theme_options
    root = Path(find_spec("studies").origin).parents[1]
    cited = yaml.safe_load((root / "CITATION.cff").read_text())
    url = options.get("repository_url", "")
    authors = " and ".join(f"{{{author['name']}}}" for author in cited["authors"])
    fields = {"author": authors, "title": cited["title"], "year": config.copyright,
              "note": f"Version {cited['version']}", "url": url}
    rows = "".join(f",\n  {name} = {{{text}}}" for name, text in fields.items() if text)
    mit = "MIT licence"
    if url:
        mit = f'<a href="{url}/blob/{options["repository_branch"]}/LICENSE">{mit}</a>'
    options["footer_content_items"] = ["extra-footer.html"]
    options["extra_footer"] = (
        f'<p>Text and figures have the licence <a rel="license" href="{CC_BY}">CC BY 4.0</a>, and '
        f'code has the {mit}.</p><details class="geolab-cite">'
        f"<summary>How to cite this book</summary>"
        f"<pre>@misc{{geometry-of-residual-connections{escape(rows)}\n}}</pre></details>")


def setup(app):
    app.connect("config-inited", footer, priority=110)
    app.connect("html-page-context", head, priority=890)
    app.connect("html-collect-pages", lost_page)
    app.connect("build-finished", files)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
