"""Data. A task knows the floor that no model beats, and what predictors score that learn nothing."""

from geolab.tasks.base import Pairs, Task, least_squares
from geolab.tasks.copying import Copy
from geolab.tasks.echo import Echo
from geolab.tasks.gyroscope import Gyroscope
from geolab.tasks.negation import Negation, Reflection
from geolab.tasks.rotation import NearPi
from geolab.tasks.text import Text

__all__ = ["Copy", "Echo", "Gyroscope", "NearPi", "Negation", "Pairs", "Reflection", "Task", "Text", "least_squares"]
