"""What the book asks of Sphinx beyond its configuration."""

import os


def scripts_once(app, page, template, context, doctree):
    """Sphinx keeps a script without a file twice, once under None and once under "", and a constant that is declared
    twice is an error in the browser."""
    scripts = context["script_files"]
    scripts[:] = {(script.filename or "", *script.attributes.items()): script for script in scripts}.values()


def setup(app):
    os.environ["GEOLAB_EXPLORE"] = "static"  # kernels inherit it: geolab.explore draws frames instead of widgets
    app.connect("html-page-context", scripts_once, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
