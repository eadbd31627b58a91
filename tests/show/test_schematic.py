"""Where the parts of schematics begin and end, and that all chapters share them."""

import ast
import json
from collections import defaultdict
from functools import cache
from inspect import isfunction
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from geolab.show import schematic
from geolab.show.schematic import arrow, box, canvas, path, plus

ROOT = Path(__file__).resolve().parents[2]
CANVASES = (dict(height=2.2), dict(height=0.85, xlim=(0, 47)), dict(height=3.8, rows=3),
            dict(height=2, xlim=(-3, 8), ylim=(7, -1)), dict(height=2, layout="constrained"),
            dict(height=4, rows=2, ylim=(-1, 4), layout="constrained"))


def drawn(figure):
    """The figure after its layout, and what measures its texts."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    return renderer


def inside(extent, frame, slack=0.5):
    """Whether an extent lies in a frame, both in pixels; half a pixel is lost in rounding."""
    return (frame.x0 - slack <= extent.x0 and extent.x1 <= frame.x1 + slack
            and frame.y0 - slack <= extent.y0 and extent.y1 <= frame.y1 + slack)


@pytest.mark.parametrize("options", CANVASES, ids=str)
def test_a_canvas_is_bare_and_has_the_limits_that_it_was_given(options):
    figure, panels = canvas(**options)
    assert tuple(figure.get_size_inches()) == (5, options["height"])
    assert np.size(panels) == options.get("rows", 1)
    drawn(figure)
    for axes in np.atleast_1d(panels):
        assert not axes.axison
        assert axes.get_xlim() == options.get("xlim", (0, 10))
        size = axes.get_window_extent().size
        if "ylim" in options:
            assert axes.get_ylim() == options["ylim"]
        elif options.get("layout") != "constrained":  # a unit is as long upwards as sideways
            assert axes.get_ylim()[0] == 0
            across, up = size / (np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim()))
            assert across == pytest.approx(up)


@pytest.mark.parametrize("call, message", [
    (lambda: canvas(0), "height must be a positive .*0"),
    (lambda: canvas(-2.0), "height must be a positive .*-2.0"),
    (lambda: canvas(float("nan")), "height must be a positive .*nan"),
    (lambda: canvas(2, rows=0), "rows must be at least 1, got 0"),
    (lambda: path(canvas(2)[1]), "points must be at least two, got 0"),
    (lambda: path(canvas(2)[1], (1, 1)), "points must be at least two, got 1")])
def test_what_cannot_be_drawn_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def points(axes, place):
    """A place on the canvas in points from the figure's lower left corner."""
    return axes.transData.transform(place) * 72 / axes.figure.dpi


@pytest.mark.parametrize("gaps", [{}, dict(shrinkA=16, shrinkB=16), dict(shrinkA=2, shrinkB=7)])
@pytest.mark.parametrize("options", CANVASES, ids=str)
def test_an_arrow_leads_from_its_start_to_its_end(options, gaps):
    figure, panels = canvas(**options)
    axes = np.atleast_1d(panels)[-1]
    to_data = axes.transAxes + axes.transData.inverted()
    start, end = to_data.transform([(0.1, 0.2), (0.9, 0.7)])
    arrow(axes, start, end, "red", linewidth=2, **gaps)
    drawn(figure)
    [patch] = [text.arrow_patch for text in axes.texts]
    shaft = patch.get_path().vertices[[0, 2]] * 72 / figure.dpi
    start, end = points(axes, start), points(axes, end)
    assert np.linalg.norm(shaft[0] - start) == pytest.approx(gaps.get("shrinkA", 0), abs=0.1)
    short = np.linalg.norm(shaft[1] - end) - gaps.get("shrinkB", 0)
    assert -0.1 < short < 1.5 * patch.get_linewidth()   # its edge reaches beyond the path
    way, whole = shaft[1] - shaft[0], end - start
    assert way @ whole == pytest.approx(np.linalg.norm(way) * np.linalg.norm(whole))
    assert to_hex(patch.get_edgecolor()) == "#ff0000" and patch.get_linewidth() == 2


def test_a_path_goes_through_its_points_and_its_arrow_ends_at_the_last():
    _, axes = canvas(2)
    corners = [(1, 1), (1, 3), (4, 3), (4, 2)]
    path(axes, *corners)
    assert np.array_equal(axes.lines[0].get_xydata(), corners)
    [head] = axes.texts
    assert head.xy == corners[-1] and head.xyann == corners[-2]


@pytest.mark.parametrize("options", CANVASES, ids=str)
def test_a_box_lies_where_it_was_put_with_its_text_in_its_middle(options):
    figure, panels = canvas(**options)
    axes = np.atleast_1d(panels)[0]
    (left, right), (low, high) = sorted(axes.get_xlim()), sorted(axes.get_ylim())
    x, y, width, height = (left + right) / 2, (low + high) / 2, right - left, high - low
    box(axes, x, y, width, height, "norm", "#123456", edge="red", linewidth=0, linestyle="--")
    renderer = drawn(figure)
    [patch], [text] = axes.patches, axes.texts
    frame, words = patch.get_window_extent(renderer), text.get_window_extent(renderer)
    assert np.allclose(frame.extents, axes.get_window_extent().extents)   # no more than the canvas
    assert inside(frame, figure.bbox) and inside(words, frame)
    assert np.allclose((words.p0 + words.p1) / 2, (frame.p0 + frame.p1) / 2, atol=1.5)
    assert to_hex(patch.get_facecolor()) == "#123456" and to_hex(patch.get_edgecolor()) == "#ff0000"


@pytest.mark.parametrize("name", ["BOXED", "OPERATOR", "SUBLAYER"])
def test_a_boxed_label_is_centred_on_its_place_and_holds_its_text(name):
    figure, axes = canvas(2)
    text = axes.text(5, 2, "one\ntwo", **getattr(schematic, name))
    renderer = drawn(figure)
    words = text.get_window_extent(renderer)
    frame = text.get_bbox_patch().get_window_extent(renderer)
    assert inside(words, frame, slack=0) and inside(frame, figure.bbox)
    assert np.allclose((frame.p0 + frame.p1) / 2, axes.transData.transform((5, 2)), atol=1.5)


@pytest.mark.parametrize("sizes", [{}, dict(size=9), dict(cross=8)])
def test_a_plus_is_a_circle_and_a_cross_at_one_place(sizes):
    _, axes = canvas(2)
    plus(axes, 3, 1, **sizes)
    circle, cross = axes.lines
    assert [line.get_xydata().tolist() for line in axes.lines] == [[[3, 1]], [[3, 1]]]
    assert (circle.get_marker(), cross.get_marker()) == ("o", "+")
    size = sizes.get("size", 11)
    assert (circle.get_markersize(), cross.get_markersize()) == (size, sizes.get("cross", size))


# ---------------------------------------------------------------- in the chapters

@cache
def functions() -> list[tuple[str, str, str]]:
    """Name, body and chapter of every function that stands by itself in a chapter's code cell."""
    found = []
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for cell in json.loads(notebook.read_text())["cells"]:
            if cell["cell_type"] == "code" and "def " in (source := "".join(cell["source"])):
                code = "\n".join("" if line[:1] in ("%", "!") else line
                                 for line in source.splitlines())
                found += [(node.name, ast.unparse(node), notebook.stem)
                          for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)]
    return found


def test_no_chapter_defines_a_part_of_schematics():
    parts = {name for name, value in vars(schematic).items()
             if isfunction(value) and value.__module__ == schematic.__name__}
    assert {"canvas", "arrow"} <= parts
    assert not [(name, chapter) for name, _, chapter in functions() if name in parts]


def test_no_function_stands_in_three_chapters():
    chapters = defaultdict(set)
    for _, body, chapter in functions():
        chapters[body].add(chapter)
    assert len(chapters) > 200
    assert not [sorted(found) for found in chapters.values() if len(found) > 2]
