"""Draw the cover, book/_static/cover.svg, and card.png, which links to the book show.

    python tools/cover.py

Every F is the letter under a matrix of the plane. In the left ring they are rotations, in the right
ring reflections. All of them keep lengths. A straight way from one ring to the other passes through
a flat letter: there the determinant is zero.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from geolab.show.letter import F

STATIC = Path(__file__).resolve().parent.parent / "book/_static"
TURNED, MIRRORED, BETWEEN = "#2f8fd0", "#d9731a", "#8a8a8a"  # readable on white and on black
WIDTH, HEIGHT, RADIUS, LETTER = 1200, 400, 148, 58
LEFT, RIGHT, MIDDLE = (200, 200), (1000, 200), 600
RING, BRIDGE = 12, 7  # letters
WORDS = {LEFT: "turned", RIGHT: "mirrored", (MIDDLE, 284): "flat"}
ALT = ("Letters F in two rings. In the left ring they are turned, in the right ring mirrored. "
       "On the straight way between the rings they become flat.")
CARD = (1200, 630)  # pixels


class Placed(NamedTuple):
    """A letter of the cover: its matrix, its place in pixels from the top left, its colour."""

    matrix: np.ndarray
    place: tuple[float, float]
    color: str


def letters() -> list[Placed]:
    mirror, found = np.diag([-1.0, 1.0]), []
    for angle in 2 * np.pi * np.arange(RING) / RING:
        cos, sin = np.cos(angle), np.sin(angle)
        turn, way = np.array([[cos, -sin], [sin, cos]]), RADIUS * np.array([cos, -sin])
        found.append(Placed(turn, LEFT + way, TURNED))
        # the plain mirror image stands at the left of its ring, where the bridge ends
        found.append(Placed(turn.T @ mirror, RIGHT + way * (-1, 1), MIRRORED))
    ways = np.linspace(LEFT[0] + RADIUS, RIGHT[0] - RADIUS, BRIDGE + 2)
    for share, x in zip(np.linspace(0, 1, BRIDGE + 2), ways, strict=True):
        if 0 < share < 1:
            matrix = (1 - share) * np.eye(2) + share * mirror
            found.append(Placed(matrix, (x, LEFT[1]), BETWEEN))
    return found


def corners(letter: Placed) -> np.ndarray:
    """The corners of a letter in pixels, (12, 2); y points down."""
    return LETTER * F @ letter.matrix.T * (1, -1) + letter.place


def cover() -> str:
    """The cover as SVG with a transparent ground, for both themes."""
    words = [f'<text x="{x}" y="{y + 13}">{word}</text>' for (x, y), word in WORDS.items()]
    drawn = []
    for letter in letters():
        # a flat letter has no area, so its outline is drawn too
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in corners(letter))
        drawn.append(f'<path fill="{letter.color}" stroke="{letter.color}" d="M{path}z"/>')
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{ALT}">',
        '<g stroke-width="3" stroke-linejoin="round">', *drawn, '</g>',
        f'<g fill="{BETWEEN}" font-family="system-ui, sans-serif" font-size="38" '
        'text-anchor="middle">', *words, '</g>', '</svg>', ''])


def card() -> Figure:
    """The cover under the book's title, for a link to the book on social networks."""
    figure = Figure(figsize=(CARD[0] / 100, CARD[1] / 100), dpi=100, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    for letter in letters():
        axes.fill(*corners(letter).T, facecolor=letter.color, edgecolor=letter.color, linewidth=3)
    for (x, y), word in WORDS.items():
        axes.text(x, y, word, fontsize=21, color="#6b6b6b", ha="center", va="center")
    axes.text(50, -86, "The Geometry of\nResidual Connections", fontsize=42, weight="bold",
              va="center", color="#1a1a1a")
    axes.text(50, 408, "What a layer may do besides adding, under sliders",
              fontsize=20, va="center", color="#444444")
    axes.set(xlim=(0, CARD[0]), ylim=(CARD[1] - 180, -180))
    axes.set_axis_off()
    return figure


if __name__ == "__main__":
    (STATIC / "cover.svg").write_text(cover())
    card().savefig(STATIC / "card.png", metadata={"Software": None}, pil_kwargs={"optimize": True})
