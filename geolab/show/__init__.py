"""Sliders, figures and diagrams of the book. Nothing else in geolab imports this room."""

from geolab.show.sliders import explore

__all__ = ["explore"]
