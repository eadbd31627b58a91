"""Sliders, figures and diagrams of the book. Nothing else in geolab imports this room."""

from geolab.show.questions import ask
from geolab.show.sliders import explore, slider

__all__ = ["ask", "explore", "slider"]
