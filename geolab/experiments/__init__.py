"""The experiments behind the book's measured claims, as data. `python -m geolab.run` makes them."""

from geolab.experiments import delta, echo
from geolab.experiments.base import Comparison, Experiment, run

EXPERIMENTS = {
    "delta": delta.EXPERIMENT,
    "echo": echo.EXPERIMENT,
}

__all__ = ["EXPERIMENTS", "Comparison", "Experiment", "run"]
