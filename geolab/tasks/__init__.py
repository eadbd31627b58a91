"""The tasks. A task knows the floor that no model beats, and the scores of predictors that learn
nothing.

`TASKS` holds every task by name. A new task is one file, one import and one entry here.
"""

from geolab.tasks.base import Classification, Pairs, Regression, Task, least_squares
from geolab.tasks.copying import Copy
from geolab.tasks.denoising import Denoising
from geolab.tasks.echo import Echo
from geolab.tasks.gyroscope import Gyroscope
from geolab.tasks.moons import Moons
from geolab.tasks.negation import Negation
from geolab.tasks.random_tokens import RandomTokens
from geolab.tasks.rotation import NearPi
from geolab.tasks.stream import Stream
from geolab.tasks.sudoku import Sudoku
from geolab.tasks.text import Text
from geolab.tasks.words import Words

TASKS: dict[str, type[Task]] = {
    "copy": Copy, "denoising": Denoising, "echo": Echo, "gyroscope": Gyroscope, "moons": Moons,
    "near-pi": NearPi, "negation": Negation, "random-tokens": RandomTokens,
    "stream": Stream, "sudoku": Sudoku, "text": Text, "words": Words,
}

__all__ = ["TASKS", "Classification", "Copy", "Denoising", "Echo", "Gyroscope", "Moons", "NearPi",
           "Negation", "Pairs", "RandomTokens", "Regression", "Stream", "Sudoku",
           "Task", "Text", "Words", "least_squares"]
