"""What the book asks of Sphinx beyond its configuration."""

import os

from docutils import nodes
from sphinx.util.docutils import SphinxRole

LEDGER = "book/hypotheses"


class Row(SphinxRole):
    """{row}`label`: a link to a row of the ledger of hypotheses, which says the row's verdict.

    A page is built again when the file that its row is read off changes.
    """

    def run(self):
        from studies import ledger, results  # imported late: a build without rows needs no torch
        try:
            row = ledger.row(self.text)
        except ValueError as problem:
            said = self.inliner.reporter.error(str(problem), line=self.lineno)
            return [self.inliner.problematic(self.rawtext, self.rawtext, said)], [said]
        if row.study:
            self.env.note_dependency(str(results.path_of(row.study, row.size)))
        page = self.env.app.builder.get_relative_uri(self.env.docname, LEDGER)
        link = nodes.reference("", f"[{ledger.verdict(row.label)}]", internal=True,
                               refuri=f"{page}#{row.label}", classes=["ledger-row"],
                               reftitle=row.statement)
        return [link], []


def scripts_once(app, page, template, context, doctree):
    """Keep each script of a page once.

    Sphinx lists a script without a file twice, once under None and once under "". A browser reports
    an error for a constant that is declared twice.
    """
    scripts = context["script_files"]
    once = {(script.filename or "", *script.attributes.items()): script for script in scripts}
    scripts[:] = once.values()


def links_to_the_repository(app, config):
    """Show buttons to the repository where its public address is known, and none elsewhere."""
    options = config.html_theme_options
    if options.get("repository_url"):
        options["use_repository_button"] = True
    else:
        options["launch_buttons"] = {}


def setup(app):
    # The kernels inherit this: geolab.show.sliders then draws frames instead of widgets.
    os.environ["GEOLAB_EXPLORE"] = "static"
    app.add_role("row", Row())
    app.connect("config-inited", links_to_the_repository, priority=100)
    app.connect("html-page-context", scripts_once, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
