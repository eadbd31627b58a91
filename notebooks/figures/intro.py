"""The figures of the front page: one letter F, or four streams, under each of five ideas."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from geolab.show.figures import ACCENT, QUIET, SECOND, plane, subplots
from geolab.show.letter import F as LETTER
from geolab.show.letter import draw_letter

SIDEWAYS = np.array([[0.0, -1.0], [1.0, 0.0]])


def turn(angle: float) -> np.ndarray:
    """The rotation by an angle in radians, (2, 2)."""
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def bare(axes: Axes, limit: float) -> None:
    """A plane without ticks and frame."""
    plane(axes, limit, unit_circle=False).set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def draw_delta(beta: float) -> Figure:
    """The letter F under the delta operator. At beta = 0 it is as it was. At beta = 1 it lies on
    the dashed line, which is perpendicular to k. At beta = 2 it is mirrored at this line."""
    k = np.array([np.cos(0.4), np.sin(0.4)])
    across = np.array([-k[1], k[0]])
    figure, axes = subplots(height=3)
    axes.plot(*np.transpose([-1.1 * across, 1.1 * across]), "--", color=QUIET, linewidth=1)
    draw_letter(axes, lambda points: points - beta * np.outer(points @ k, k), at=0.55 * k)
    axes.annotate("", 1.6 * k, 1.15 * k, arrowprops=dict(arrowstyle="->", linewidth=1.3))
    axes.text(*(1.72 * k), "k", style="italic", ha="center", va="center")
    bare(axes, 1.2)
    axes.set(xlim=(-2, 2))
    return figure


def draw_streams(total: float) -> Figure:
    """Four streams as bars after twenty layers, and their mean as a dashed line. With shares that
    add up to 0.9 hardly anything is left, and with 1.1 the mean is almost seven times as large.
    With shares that add up to 1 the mean stays. The four streams become alike in any case."""
    start, share = np.array([4.0, 1.0, 3.0, 0.0]), 0.85
    figure, panels = subplots(1, 2, height=2.9, sharey=True)
    for axes, shares, color in zip(panels, (total, 1.0), (SECOND, ACCENT), strict=True):
        mix = shares * (share * np.eye(4) + (1 - share) / 4)
        streams = np.linalg.matrix_power(mix, 20) @ start
        axes.bar(range(1, 5), streams, color=color, width=0.7)
        axes.bar(range(1, 5), start, color="none", edgecolor="#777777", width=0.7)
        axes.axhline(streams.mean(), color="black", linestyle="--", linewidth=1)
        axes.set(title=f"shares add up to {shares:.2f}", xlabel="stream", xticks=range(1, 5),
                 ylim=(0, 14))
        axes.grid(axis="x", visible=False)
    panels[0].set_ylabel("what it carries")
    return figure


def draw_turns(step: float) -> Figure:
    """The letter F after 21 layers that step sideways, in two ways. Adding turns it and makes it
    larger: its corner moves on a spiral. Cayley's formula only turns it: its corner moves on a
    circle. At a step of 0.3 both letters have gone once around."""
    figure, panels = subplots(1, 2, height=2.7)
    half = step / 2 * SIDEWAYS
    cayley = np.linalg.solve(np.eye(2) - half, np.eye(2) + half)
    for axes, layer, color, title in zip(panels, (np.eye(2) + 2 * half, cayley), (SECOND, ACCENT),
                                         ("add the step", "Cayley"), strict=True):
        path = [np.linalg.matrix_power(layer, depth) @ LETTER[8] for depth in range(22)]
        axes.plot(*np.transpose(path), ".-", color=QUIET, linewidth=1, markersize=3)
        draw_letter(axes, np.linalg.matrix_power(layer, 21), color=color)
        bare(axes, 1.5)
        axes.set_title(title)
    return figure


def draw_gate(gate: float, angle: float) -> Figure:
    """Left, the letter F under a blend of a reflection and a rotation. Right, its signed area, for
    all gates up to this one: on the way from minus one, a mirrored letter, to plus one, a turned
    letter. At one half the area is zero and the letter is flat, for every angle of the rotation."""
    figure, (letter, curve) = subplots(1, 2, height=2.7)
    blend = gate * turn(np.radians(angle)) + (1 - gate) * np.diag([-1.0, 1.0])
    draw_letter(letter, blend)
    bare(letter, 0.8)
    area = np.linalg.det(blend)
    curve.axhline(0, color="black", linewidth=0.8)
    curve.plot([0, gate], [-1, area], color=QUIET)
    curve.plot(gate, area, "o", color=ACCENT, markersize=9)
    curve.set(xlabel="γ", ylabel="area, mirrored: negative", xlim=(-0.05, 1.05), ylim=(-1.1, 1.1),
              xticks=[0, 0.5, 1], yticks=[-1, 0, 1])
    return figure


def draw_orders(strength: float) -> Figure:
    """Left, the letter F made larger and then moved to the right, and moved and then made larger.
    Right, how far the two letters are apart, for all strengths up to this one. For weak operations
    both letters are almost the same, and the distance falls much faster than the strength."""
    figure, (letter, curve) = subplots(1, 2, height=2.7)
    right = strength * np.array([1, 0])
    draw_letter(letter, lambda points: (1 + strength) * points + right)
    draw_letter(letter, lambda points: (1 + strength) * (points + right), color=SECOND, ghost=False)
    bare(letter, 1.6)
    letter.set(xlim=(-0.6, 2.8))
    done = np.linspace(0, strength, 11)
    curve.plot(done, done ** 2, color=QUIET)
    curve.plot(strength, strength ** 2, "o", color=ACCENT, markersize=9)
    curve.set(xlabel="strength of both", ylabel="apart", xlim=(-0.05, 1.05), ylim=(-0.05, 1.05),
              xticks=[0, 0.5, 1], yticks=[0, 0.25, 0.5, 0.75, 1])
    return figure
