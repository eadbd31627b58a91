"""Sliders, figures and diagrams of the book. Nothing else in geolab imports this room."""
# ruff: noqa: E402  (what the room needs is asked before it is imported)

from importlib.util import find_spec

missing = [name for name in ("matplotlib", "ipywidgets") if find_spec(name) is None]
if missing:
    raise ImportError(f"geolab.show needs {' and '.join(missing)}: "
                      'pip install "geolab[show]" brings what it draws with')

from geolab.show.compute import compute
from geolab.show.network import network
from geolab.show.questions import ask
from geolab.show.sliders import explore, slider

__all__ = ["ask", "compute", "explore", "network", "slider"]
