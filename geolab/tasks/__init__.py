"""Data. A task knows the floor that no model beats, and what predictors score that learn nothing."""

from geolab.tasks.base import Pairs, Task, least_squares
from geolab.tasks.echo import Echo
from geolab.tasks.negation import Negation

__all__ = ["Echo", "Negation", "Pairs", "Task", "least_squares"]
