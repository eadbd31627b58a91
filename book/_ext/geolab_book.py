"""What the book asks of Sphinx beyond its configuration."""

import os


def scripts_once(app, page, template, context, doctree):
    """Sphinx keeps a script without a file twice, once under None and once under "", and a constant that is declared
    twice is an error in the browser."""
    scripts = context["script_files"]
    scripts[:] = {(script.filename or "", *script.attributes.items()): script for script in scripts}.values()


def links_to_the_repository(app, config):
    """Buttons lead to the repository where its public address is known, and nowhere else."""
    options = config.html_theme_options
    if options.get("repository_url"):
        options["use_repository_button"] = True
    else:
        options["launch_buttons"] = {}


def setup(app):
    os.environ["GEOLAB_EXPLORE"] = "static"  # kernels inherit it: geolab.show.sliders draws frames instead of widgets
    app.connect("config-inited", links_to_the_repository, priority=100)
    app.connect("html-page-context", scripts_once, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
