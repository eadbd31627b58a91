"""While Sphinx builds, `geolab.explore` draws frames instead of widgets: the kernels inherit this environment."""

import os


def setup(app):
    os.environ["GEOLAB_EXPLORE"] = "static"
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
