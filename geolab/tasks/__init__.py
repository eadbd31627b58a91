"""Data. A task knows the floor that no model beats, and what predictors score that learn nothing."""

from geolab.tasks.base import Pairs, Task, least_squares
from geolab.tasks.copying import Copy
from geolab.tasks.denoising import Denoising
from geolab.tasks.echo import Echo
from geolab.tasks.gyroscope import Gyroscope
from geolab.tasks.moons import Moons
from geolab.tasks.negation import Negation, Reflection
from geolab.tasks.random_tokens import RandomTokens
from geolab.tasks.rotation import NearPi
from geolab.tasks.stream import Stream
from geolab.tasks.sudoku import Sudoku
from geolab.tasks.text import Text
from geolab.tasks.words import Words

__all__ = ["Copy", "Denoising", "Echo", "Gyroscope", "Moons", "NearPi", "Negation", "Pairs", "RandomTokens", "Reflection",
           "Stream", "Sudoku", "Task", "Text", "Words", "least_squares"]
