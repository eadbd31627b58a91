"""Figures as compact SVG, their words, and the letter, triangles and parts of schematics in them.
"""

import ast
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from IPython.core.formatters import HTMLFormatter
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb

from geolab.show import figures, schematic, stream
from geolab.show.hearing import triangles
from geolab.show.letter import F, draw_depth, draw_letter
from geolab.show.schematic import arrow, box, canvas, path

ROOT = Path(__file__).resolve().parents[2]
MIRROR = np.diag([-1.0, 1.0])
A = np.array([[1, 9, 9], [-0.5, 2, 9], [0, 1, 4]])
CANVASES = (dict(height=2.2), dict(height=3.8, rows=3, xlim=(0, 47)),
            dict(height=2, xlim=(-3, 8), ylim=(7, -1)),
            dict(height=4, rows=2, ylim=(-1, 4), layout="constrained"))
canvases = pytest.mark.parametrize("options", CANVASES, ids=str)


def curve(title="a title"):
    figure, axes = figures.subplots()
    axes.plot(np.linspace(0, 1, 50), np.sin(np.linspace(0, 7, 50)), label="sine")
    axes.set(title=title, xlabel="x")
    axes.legend()
    return figure


# ---------------------------------------------------------------- SVG and words

def test_the_same_figure_is_the_same_text_even_where_matplotlib_has_another_style():
    figure = curve()
    expected = figures.svg(figure)
    assert expected == figures.svg(curve()) != figures.svg(curve("another title"))
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        assert figures.svg(figure) == expected
        assert matplotlib.rcParams["svg.fonttype"] == "path"


def test_svg_stays_whole_when_a_point_lies_outside_the_axes():
    figure, axes = figures.subplots()
    axes.plot(9, 9, "o")                       # matplotlib writes an empty group for it
    axes.set(xlim=(0, 1), ylim=(0, 1), title="inside")
    text = figures.svg(figure)
    outermost, = (child for child in ElementTree.fromstring(text) if "style" in child.attrib)
    assert "inside" in "".join(outermost.itertext())


@pytest.mark.parametrize("rising, end", [(True, "left"), (False, "right")])
def test_a_level_is_named_where_no_curve_passes(rising, end):
    figure, axes = figures.subplots()
    axes.plot([0, 1], [0, 1] if rising else [1, 0])
    level = axes.axhline(1 if rising else 0.98, color="black")
    axes.set(ylim=(0, 1.5))
    figures.name_level(axes, level, "a level")
    label, = axes.texts
    assert (label.get_ha(), label.get_va()) == (end, "bottom")
    axes.axhline(1.06)  # closely above it
    figures.name_level(axes, level, "again")
    assert axes.texts[1].get_va() == "top"


def test_svg_is_one_element_that_scales_with_the_page_and_its_text_stays_text():
    text = figures.svg(curve("β of k"))
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    style = "width:100%;max-width:38rem;height:auto"
    assert root.attrib == {"viewBox": "0 0 360 230.4", "style": style}
    assert text.startswith("<svg ") and text.endswith("</svg>\n") and "β of k</text>" in text
    assert not re.search("<metadata|<!--|<style|<g>|matplotlib", text)


def test_coordinates_are_rounded_to_a_hundredth():
    def numbers(text):
        text = re.sub(r'transform="rotate\(-0 [^"]*"', "", text)  # turns by nothing
        placed = re.findall(r' (?:d|x|y|transform)="(.*?)"', text, flags=re.S)
        number = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
        return np.array([float(n) for value in placed for n in number.findall(value)])

    figure, exact = curve(), io.StringIO()
    figure.savefig(exact, format="svg")
    assert not re.search(r"\d\.\d{3}", figures.svg(figure))
    before, after = numbers(exact.getvalue()), numbers(figures.svg(figure))
    assert len(before) == len(after) > 200
    assert 0 < abs(before - after).max() <= 0.005 + 1e-9


def test_a_picture_carries_its_alt_text_and_caption_escaped():
    page = HTMLFormatter()(figures.show(curve(), '  β < 1 & "k"\n   shrinks  ', "a < b"))
    alt = "β &lt; 1 &amp; &quot;k&quot; shrinks"
    assert f'<div role="img" aria-label="{alt}"><svg ' in page and figures.svg(curve()) in page
    assert "<figcaption>a &lt; b</figcaption>" in page


def test_each_tone_of_a_caption_has_its_opposite():
    toned = figures.toned("Black & <b>: told. Light blue, dark: more; blackened on White, darker.")
    assert re.sub(r"<[^>]*>", "", toned) == (
        "Black &amp; &lt;b&gt;: told. Light blue, dark: more; blackened on White, darker.")
    marked = re.findall(r'<span class="tone (\w+)"><span>\1</span></span>', toned)
    assert marked == ["Black", "Light", "dark", "White", "darker"]
    css = (ROOT / "book/_static/book.css").read_text()
    opposite = dict(re.findall(r'\.tone\.(\w+)::before { content: "(\w+)"; }', css))
    words = ("black", "white", "dark", "light", "darker", "lighter")
    assert set(opposite) == {*words, *map(str.title, words)}
    assert all(opposite[other] == word != other for word, other in opposite.items())


def test_a_leak_is_drawn_dotted_and_open_in_its_models_colour():
    causal, leak = figures.look("emhc-hybrid"), figures.look("emhc-hybrid, leak")
    assert leak["color"] == causal["color"] and causal["linestyle"] == "-"
    assert leak["linestyle"] == ":" and leak["markerfacecolor"] == "white"


# ---------------------------------------------------------------- the letter and the triangles

def test_the_letter_before_the_map_is_drawn_too():
    axes = figures.plane(figures.subplots()[1], limit=2)
    draw_letter(axes, MIRROR, at=(1, 2), size=2)
    before, after = (patch.get_xy()[:12] for patch in axes.patches)
    assert np.allclose(before, 2 * F + (1, 2)) and np.allclose(after, 2 * F @ MIRROR + (1, 2))
    assert np.allclose(np.hypot(*axes.lines[0].get_xydata().T), 1) and axes.get_aspect() == 1


def test_depth_applies_the_maps_one_after_the_other():
    _, axes = figures.subplots()
    draw_depth(axes, [2 * np.eye(2), MIRROR], step=3)
    letters = [patch.get_xy()[:12] for patch in axes.patches]
    assert np.allclose(letters[1], 2 * F + (3, 0))
    assert np.allclose(letters[2], 2 * F * [-1, 1] + (6, 0))


def squares(axes, rows):
    """(row, column) -> the square there; the key of the first panel comes last."""
    places = zip(*np.tril_indices(rows))
    return {(int(t), int(s)): patch for (t, s), patch in zip(places, axes.patches)}


def test_a_square_has_the_area_of_its_weight_at_one_scale_for_all_panels():
    first, second = triangles({"A": A, "half": A[:2, :2] / 2}).axes
    full = squares(first, 3)[2, 2].get_width() ** 2
    for panel, weights in ((first, A), (second, A[:2, :2] / 2)):
        for (t, s), square in squares(panel, len(weights)).items():
            assert np.isclose(square.get_width() ** 2 / full, abs(weights[t, s]) / 4)
            assert np.allclose(square.get_center(), (s, t + 1))
    assert np.isclose(first.patches[-1].get_width() ** 2 / full, 1 / 4)   # the key
    assert len(first.patches) == 6 + 1 and len(second.patches) == 3
    assert first.yaxis_inverted() and first.get_yticklabels()[-1].get_text() == "exit"
    # a weight above the largest that is given fills its place, and 1 is the least scale
    most = squares(triangles({"A": A}, largest=2).axes[0], 3)
    assert most[2, 2].get_width() == most[1, 1].get_width() < 1
    small = squares(triangles({"A": A / 100}).axes[0], 3)
    assert np.isclose(small[2, 2].get_width() ** 2 / most[1, 1].get_width() ** 2, 0.04)


def test_a_negative_weight_is_open_and_a_positive_one_darker_than_its_ground():
    drawn = squares(triangles({"A": A}).axes[0], 3)
    light = {place: sum(to_rgb(square.get_facecolor())) / 3 for place, square in drawn.items()}
    assert light.pop((1, 0)) == 1 and to_rgb(drawn[1, 0].get_edgecolor()) != (1, 1, 1)
    assert max(light.values()) < 0.5


# ---------------------------------------------------------------- schematics

def laid_out(figure):
    """What measures the figure's texts, after its layout."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    return renderer


def inside(extent, frame):
    """Whether an extent lies in a frame, both in pixels; half a pixel is lost in rounding."""
    return np.all(extent.p0 >= frame.p0 - 0.5) and np.all(extent.p1 <= frame.p1 + 0.5)


@canvases
def test_a_canvas_is_bare_and_has_the_limits_that_it_was_given(options):
    figure, panels = canvas(**options)
    assert tuple(figure.get_size_inches()) == (5, options["height"])
    assert np.size(panels) == options.get("rows", 1)
    laid_out(figure)
    for axes in np.atleast_1d(panels):
        assert not axes.axison and axes.get_xlim() == options.get("xlim", (0, 10))
        across, up = np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())
        if "ylim" in options:
            assert axes.get_ylim() == options["ylim"]
        else:  # a unit is as long upwards as sideways
            size = axes.get_window_extent().size
            assert axes.get_ylim()[0] == 0 and size[0] / across == pytest.approx(size[1] / up)


@canvases
def test_an_arrow_leads_from_its_start_to_its_end_but_for_its_gaps(options):
    figure, panels = canvas(**options)
    axes = np.atleast_1d(panels)[-1]
    to_data = axes.transAxes + axes.transData.inverted()
    ends = to_data.transform([(0.1, 0.2), (0.9, 0.7)])
    arrow(axes, *ends, "red", linewidth=2, shrinkA=2, shrinkB=7)
    laid_out(figure)
    patch = axes.texts[0].arrow_patch
    shaft = patch.get_path().vertices[[0, 2]] * 72 / figure.dpi
    start, end = axes.transData.transform(ends) * 72 / figure.dpi
    assert np.linalg.norm(shaft[0] - start) == pytest.approx(2, abs=0.1)
    short = np.linalg.norm(shaft[1] - end) - 7
    assert -0.1 < short < 1.5 * patch.get_linewidth()   # its edge reaches beyond the path
    way, whole = shaft[1] - shaft[0], end - start
    assert way @ whole == pytest.approx(np.linalg.norm(way) * np.linalg.norm(whole))
    assert to_hex(patch.get_edgecolor()) == "#ff0000" and patch.get_linewidth() == 2


def test_a_path_goes_through_its_points_and_its_arrow_ends_at_the_last():
    _, axes = canvas(2)
    corners = [(1, 1), (1, 3), (4, 3), (4, 2)]
    path(axes, *corners)
    assert np.array_equal(axes.lines[0].get_xydata(), corners)
    head, = axes.texts
    assert head.xy == corners[-1] and head.xyann == corners[-2]


@canvases
def test_a_box_lies_where_it_was_put_with_its_text_in_its_middle(options):
    figure, panels = canvas(**options)
    axes = np.atleast_1d(panels)[0]
    (left, right), (low, high) = sorted(axes.get_xlim()), sorted(axes.get_ylim())
    x, y, width, height = (left + right) / 2, (low + high) / 2, right - left, high - low
    box(axes, x, y, width, height, "norm", "#123456", edge="red", linewidth=0, linestyle="--")
    renderer = laid_out(figure)
    [patch], [text] = axes.patches, axes.texts
    frame, words = patch.get_window_extent(renderer), text.get_window_extent(renderer)
    assert np.allclose(frame.extents, axes.get_window_extent().extents)   # no more than the canvas
    assert inside(frame, figure.bbox) and inside(words, frame)
    assert np.allclose((words.p0 + words.p1) / 2, (frame.p0 + frame.p1) / 2, atol=1.5)
    assert to_hex(patch.get_facecolor()) == "#123456" and to_hex(patch.get_edgecolor()) == "#ff0000"


def test_no_chapter_defines_a_part_of_schematics_and_no_function_stands_in_three():
    chapters, parts = defaultdict(set), set(vars(schematic)) - {"np"}
    for notebook in ROOT.glob("notebooks/*.ipynb"):
        for cell in json.loads(notebook.read_text())["cells"]:
            if cell["cell_type"] == "code":
                for node in ast.parse("".join(cell["source"])).body:
                    if isinstance(node, ast.FunctionDef):
                        assert node.name not in parts, notebook.stem
                        chapters[ast.unparse(node)].add(notebook.stem)
    assert len(chapters) > 200
    assert not [sorted(found) for found in chapters.values() if len(found) > 2]


def test_a_map_that_keeps_its_light_is_named_in_the_figure_and_in_the_style_sheet():
    figure = stream.loss_map(["a", "b"], ["attention 1", "MLP 1"], [[0.1, 2], [0.3, 1]])
    assert f'id="{stream.KEPT}"' in figures.svg(figure)
    assert f"#{stream.KEPT} " in (ROOT / "book/_static/book.css").read_text()
