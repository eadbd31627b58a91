"""What training on from a graft did to a real network: results/real_training.cpu.json.

Six networks start with the weights and the loss of SmolLM2-135M, read the same tokens in the same
order, and differ by the residual that was grafted.
"""

from statistics import mean

import numpy as np
from IPython.display import HTML

from geolab.show.figures import ACCENT, show, subplots, table
from studies.engine import results

STORED = results.stored("real_training")
ARMS, STEPS = STORED["arms"], str(STORED["steps"])
BACK = "loss with the graft's weights put back"
NAMES = {"mhc": "mHC", "hyper": "hyper-connections", "jpmhc": "JPmHC",
         "delta, as an addition": "delta, added", "attention residuals": "attention residuals"}


def against_plain() -> HTML:
    """By how much each grafted network ends above the plain one, with intervals."""
    figure, axes = subplots(height=2.6)
    over = [STORED["loss over the plain network"][arm] for arm in NAMES]
    places = np.arange(len(NAMES))[::-1]
    axes.errorbar([one["mean"] for one in over], places, fmt="o", color=ACCENT, capsize=4,
                  xerr=[one["half width"] for one in over])
    axes.axvline(0, color="black", linewidth=1)
    axes.set(xlabel="loss over the plain network, nats per token", yticks=places,
             yticklabels=NAMES.values(), ylim=(-0.6, len(NAMES) - 0.4))
    axes.grid(axis="y", visible=False)
    told = ", ".join(f"{name} {one['mean']:+.3f} ± {one['half width']:.3f}"
                     for name, one in zip(NAMES.values(), over, strict=True))
    return show(figure, f"The loss of each grafted network minus that of the plain one: {told}.",
                caption=f"The held-out loss after {STEPS} steps minus that of the plain network, "
                        f"in the mean over {len(STORED['seeds'])} orders of the text. Bars: "
                        "intervals that hold together with 95 %. To the left is better.")


def _rate(value: float) -> str:
    return f"{float(f'{value:.1g}'):f}".rstrip("0")


def trained() -> HTML:
    """Per arm: its rates and its loss, and in a second table how far H and its gain went. The
    plain network has two rows: in the time of an arm's steps it can make some more."""
    rows, mixing = [], []
    for arm, name in {"plain": "plain", **NAMES}.items():
        found = ARMS[arm]
        rows.append([name, _rate(found["rate of the old weights"]),
                     _rate(found["rate of the new weights"]) if arm in NAMES else "none",
                     f"{mean(found['loss'][STEPS]):.3f}",
                     f"{mean(found[BACK]):.3f}" if arm in NAMES else "none"])
        if away := found.get("largest |H − I|"):
            mixing.append([name, f"{mean(away):.4f}", f"{mean(found['gain']):.3f}"])
    longer = max(map(int, ARMS["plain"]["loss"]))
    more = mean(ARMS["plain"]["loss"][str(longer)])
    rows.insert(1, [f"plain, {longer} steps", rows[0][1], "none", f"{more:.3f}", *rows[0][4:]])
    losses = table(["grafted residual", "rate, old weights", "rate, new weights",
                    "loss at the end", "loss, new weights put back"], rows)
    return HTML(losses.data + table(["grafted residual", "H away from I", "gain"], mixing).data)
