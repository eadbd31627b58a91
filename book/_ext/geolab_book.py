"""The book's extension of Sphinx, beside its configuration."""

import itertools
import os
import re
from html import unescape
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxRole

LEDGER = "book/hypotheses"
WIDE = re.compile(r"[=+<>-]|\\(?:[lg]eq?|ne|in|to|times|approx|leftarrow|mapsto|ll|gg|sim|equiv)")
UNSEEN = re.compile(r"\\(?:math\w+|text|operatorname|left|right|[bB]igg?[lr]?|[,;!: ]|[()])|[{}&]")
NAMES = re.compile(r"\\(?=(?:arg|cos|det|dim|exp|inf|lim|log|max|min|sin|sup|tan|tanh)\b)")
UNSET = ("<noscript><style>.bd-header-article{display:none}</style><p class=\"geolab-noscript\">"
         "Without JavaScript, formulas stand here as LaTeX, and a slider shows its first picture."
         "</p></noscript>")
SCORER = Path(__file__).parents[1] / "_static/scorer.js"
PANELS = Path(find_spec("geolab").origin).parent / "show"  # the build copies only book/
PANEL_FILES = {"geolab-compute": ("compute.css", "core.js", "compute.js"),
               "geolab-network": ("network.css", "core.js", "network.js", "network_page.js")}
WEIGHTS = Path(find_spec("studies").origin).parents[1] / "results/page_network"  # loaded when asked


class Row(SphinxRole):
    """{row}`label`: a link to a row of the ledger of hypotheses, which says the row's verdict.

    A page is built again when the result file behind its row changes.
    """

    def run(self):
        from studies import ledger
        from studies.engine import results  # imported late: a build without rows needs no torch
        try:
            row = ledger.row(self.text)
        except ValueError as problem:
            said = self.inliner.reporter.error(str(problem), line=self.lineno)
            return [self.inliner.problematic(self.rawtext, self.rawtext, said)], [said]
        if row.study:
            self.env.note_dependency(str(results.path_of(row.study, row.size)))
        page = self.env.app.builder.get_relative_uri(self.env.docname, LEDGER)
        link = nodes.reference("", f"[{ledger.badge(row.label)}]", internal=True,
                               refuri=f"{page}#{row.label}", classes=["ledger-row"],
                               reftitle=row.statement)
        return [link], []


def files_of_panels(app, page, template, context, doctree):
    """A page with a panel of `geolab.show` to type into loads its scripts and its style once."""
    for panel, (style, *scripts) in PANEL_FILES.items():
        if f'class="{panel}"' in context.get("body", ""):
            app.add_css_file(style)
            for script in scripts:
                app.add_js_file(script, loading_method="defer")


def scripts_once(app, page, template, context, doctree):
    """Keep each script of a page once.

    Sphinx lists a script without a file twice, once under None and once under "". A browser reports
    an error for a constant that is declared twice.
    """
    scripts = context["script_files"]
    once = {(script.filename or "", *script.attributes.items()): script for script in scripts}
    scripts[:] = once.values()


def for_readers_of_all_kinds(app, page, template, context, doctree):
    """Mend the theme's output for screen readers."""
    body = context.get("body")
    if not body:
        return
    # a screen reader would read the label instead of the fold's words, which change when it opens
    body = body.replace('<summary aria-label="Toggle hidden content">', "<summary>")
    body = re.sub(r"<th[^>]*>\s*(?:<p></p>)?\s*</th>", "<td></td>", body)
    body = re.sub(r'(<span class="math[^"]*")>([^<]*)</span>([.,;:!?)]*)', _formula, body)
    # names, punctuation and spaces have the colour of all code, and take a fifth of a page
    body = re.sub(r'<span class="(?:n|p|w)">([^<]*)</span>', r"\1", body)
    # "Su and You[2]" needs a space, on which no line breaks; a citation in brackets has one
    body = re.sub(r'(?<=[^\s(])(?<!</a>)(?=<a class="footnote-reference)', "\u00a0", body)
    # an id names one thing of a page, and all proofs have the same; a fold needs a title
    body = re.sub(r' id="(?:proof|(?:proof|exercise|solution)-content)"', "", body)
    body = body.replace('<div class="proof dropdown admonition">\n<p>Proof. ',
                        '<div class="proof dropdown admonition">\n'
                        '<p class="admonition-title">Proof</p>\n<p>')
    body = UNSET + body
    count = itertools.count(1)
    body = re.sub("<aside(?= class=.footnote)",
                  lambda found: f'<aside aria-label="Footnotes, part {next(count)}"', body)
    context["body"] = _figures_numbered(body)


def _figures_numbered(body: str) -> str:
    """Number the figures of the open text, so that a reader who opens nothing counts them all."""
    folds, count = [], itertools.count(1)

    def tag(found: re.Match) -> str:
        if found[0] == "</details>":
            folds.pop()
        elif found[0].startswith("<details"):
            folds.append(found["fold"])
        elif not {"road", "audit"} & set(folds):
            return f'{found[0]} data-number="{next(count)}"'
        return found[0]

    return re.sub(r'<details(?: class="(?P<fold>\w+)[^"]*")?|</details>|<figcaption'
                  r'|<div class="geolab-caption"', tag, body)


def _formula(found: re.Match) -> str:
    """Reserve about a formula's room until it is set, and keep the full stop on its line."""
    opened, tex, stop = found.groups()
    plain = NAMES.sub("", UNSEEN.sub("", unescape(tex)))
    small = re.findall(r"[\^_]", plain)
    glyphs = re.findall(r"\\[a-zA-Z]+|[^\s^_]", plain)
    wide = sum(bool(WIDE.fullmatch(glyph)) for glyph in glyphs)
    room = 0.75 * (len(glyphs) + wide) - 0.25 * len(small)
    return f'{opened} style="--room:{room:.1f}em">{tex}{stop}</span>'


def numbers_in_links(app, doctree, page):
    """A link that shows a chapter's title shows its number too, as "The atlas (chapter 18)"."""
    env = app.env
    for link in doctree.findall(nodes.reference):
        inside = link.next_node(nodes.inline)
        if inside is None or "doc" not in inside["classes"]:
            continue
        target = _target(app.builder, page, link.get("refuri", ""))
        number = env.toc_secnumbers.get(target, {}).get("")
        if number and inside.astext() == env.titles[target].astext():
            inside.append(nodes.Text(f" (chapter {number[0]})"))


def _target(builder, page: str, uri: str) -> str:
    """The page that an address on `page` leads to."""
    here = Path(builder.get_target_uri(page)).parent
    return os.path.normpath(here / uri).removesuffix(".html")


def with_the_address(app, config):
    """Set the links to the repository's public address, and the address of each page."""
    config.html_search_scorer = str(SCORER)
    files = dict.fromkeys(file for files in PANEL_FILES.values() for file in files)
    config.html_static_path += [str(path) for path in (*map(PANELS.joinpath, files),
                                                       *sorted(WEIGHTS.glob("*.js")))]
    options = config.html_theme_options
    options["logo"] = {"text": config.html_title, "alt_text": "An F and its mirror image"}
    if url := options.get("repository_url"):
        options["use_repository_button"] = True
        owner, name = url.removeprefix("https://github.com/").split("/")
        config.html_baseurl = f"https://{owner}.github.io/{name}/"
    else:
        options["launch_buttons"] = {}


def setup(app):
    # The kernels inherit this: geolab.show.sliders then draws frames instead of widgets.
    os.environ["GEOLAB_EXPLORE"] = "static"
    app.setup_extension("geolab_web")
    app.setup_extension("geolab_plain")
    app.setup_extension("geolab_syllabus")
    app.add_role("row", Row())
    app.connect("config-inited", with_the_address, priority=100)
    app.connect("doctree-resolved", numbers_in_links)
    app.connect("html-page-context", files_of_panels, priority=800)
    app.connect("html-page-context", scripts_once, priority=900)
    app.connect("html-page-context", for_readers_of_all_kinds, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
