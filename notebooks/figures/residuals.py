"""The figures of the book's largest comparison: every residual over the additive one, on text.

The runs are in results/released.cpu.json: a million weights, 800 steps, eight seeds.
"""

from collections.abc import Mapping

import numpy as np
from IPython.display import HTML

from geolab.show.figures import ACCENT, SECOND, show, subplots
from studies.engine import results
from studies.engine.judge import Effect

STORED = results.stored("released")
STEPS = STORED["text"]["runs"][0]["evaluated_at"]


def leads(gains: Mapping[str, tuple[Effect, Effect]], alt: str, caption: str) -> HTML:
    """What residuals gain after as many steps and in as much time, with intervals.

    Arguments:
        gains: those of `studies.ledger.over_first`.
        alt, caption: of the figure.
    """
    names = sorted(gains, key=lambda name: gains[name][0].mean)
    figure, axes = subplots(height=1.2 + 0.34 * len(names))
    axes.axvline(0, color="black", linewidth=1)
    for which, (color, marker, shift, label) in enumerate((
            (ACCENT, "o", 0.15, "as many steps"), (SECOND, "s", -0.15, "as much time"))):
        found = [gains[name][which] for name in names]
        axes.errorbar([gain.mean for gain in found], [k + shift for k in range(len(names))],
                      xerr=[gain.half for gain in found], color=color, marker=marker,
                      linestyle="", markerfacecolor=color if marker == "o" else "white",
                      label=label)
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="nats per byte gained over x + F", ylim=(-0.7, len(names) - 0.3))
    figure.legend(loc="outside upper center", ncols=2)
    return show(figure, alt, caption)


# name in the file: (as the figure says it, color, line, marker)
RACERS = {
    "mgt": ("MGT", "#7a5195", "-", "h"),
    "LAuReL": ("LAuReL", "#117733", "--", "s"),
    "DenseFormer": ("DenseFormer", "#8c6d1f", "-.", "D"),
    "mhc, published start": ("mHC", "#009e73", "--", "^"),
    "attention residuals": ("attention residuals", "#aa3377", ":", "v"),
    "delta": ("delta, one channel", "#d55e00", "-.", "o"),
}


def over_steps() -> HTML:
    """What some residuals gain over the additive one after 200, 400, 600 and 800 steps."""
    figure, axes = subplots(height=3.8)
    axes.axhline(0, color="black", linewidth=1)
    told = []
    for name, (said, color, line, marker) in RACERS.items():
        mean, half = gains_over_steps(name)
        axes.errorbar(STEPS, mean, yerr=half, color=color, linestyle=line, marker=marker,
                      elinewidth=1, label=said)
        told.append(f"{said} {_listed(mean)}")
    axes.set(xlabel="steps", ylabel="nats per byte gained over x + F", xticks=STEPS)
    figure.legend(loc="outside lower center", ncols=2)
    return show(figure, f"The gain over the plain sum after {', '.join(map(str, STEPS))} steps: "
                        f"{'; '.join(told)}.",
                caption="Bars: 95 % intervals, each for itself. Delta with four channels lies far "
                        f"above the picture: {_listed(gains_over_steps('delta-matrix')[0])}.")


def gains_over_steps(name: str) -> np.ndarray:
    """(2, steps): the mean over seeds of the gain, and its interval's half width."""
    curves = {run["seed"]: run["validation_loss"] for run in STORED["text"]["runs"]
              if run["model"] == name}
    plain = {run["seed"]: run["validation_loss"] for run in STORED["text"]["runs"]
             if run["model"] == "additive"}
    leads = np.array([np.subtract(plain[seed], curve) for seed, curve in curves.items()])
    return np.array([results.interval(at) for at in leads.T]).T


def _listed(gains: np.ndarray) -> str:
    return ", ".join(f"{gain:+.2f}" for gain in gains).replace("-", "−")
