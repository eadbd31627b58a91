"""The experiments behind the book's measured claims, as data. `python -m studies` makes them."""

from studies import (delta, echo, emhc, emhc_controls, emhc_gates, gt_text, hyper_gain, mgt, order, reflection,
                                regimes, sudoku)
from studies.runner.study import Comparison, Experiment, run

EXPERIMENTS = {
    "delta": delta.EXPERIMENT,
    "echo": echo.EXPERIMENT,
    "emhc_controls": emhc_controls.EXPERIMENT,
    "emhc_echo": emhc.ECHO,
    "emhc_gates": emhc_gates.EXPERIMENT,
    "emhc_gyroscope": emhc.GYROSCOPE,
    "emhc_near_pi_multi": emhc.NEAR_PI_MULTI,
    "emhc_near_pi_single": emhc.NEAR_PI_SINGLE,
    "gt_text": gt_text.EXPERIMENT,
    "hyper_gain": hyper_gain.EXPERIMENT,
    "mgt": mgt.EXPERIMENT,
    "order": order.EXPERIMENT,
    "reflection": reflection.EXPERIMENT,
    "regimes": regimes.EXPERIMENT,
    "sudoku": sudoku.EXPERIMENT,
}

__all__ = ["EXPERIMENTS", "Comparison", "Experiment", "run"]
