"""What the book asks of Sphinx beyond its configuration."""

import os


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
    app.connect("config-inited", links_to_the_repository, priority=100)
    app.connect("html-page-context", scripts_once, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
