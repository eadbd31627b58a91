import io
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from IPython.core.formatters import HTMLFormatter
from matplotlib import pyplot

from geolab.show import figures


def curve(title="a title"):
    figure, axes = figures.subplots()
    axes.plot(np.linspace(0, 1, 50), np.sin(np.linspace(0, 7, 50)), label="sine")
    axes.set(title=title, xlabel="x")
    axes.legend()
    return figure


# ---------------------------------------------------------------- svg

def test_the_same_figure_is_the_same_text():
    figure = curve()
    assert figures.svg(figure) == figures.svg(figure) == figures.svg(curve())
    assert figures.svg(figure) != figures.svg(curve("another title"))


def test_svg_has_the_style_even_where_matplotlib_has_another():
    figure = curve()
    expected = figures.svg(figure)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        assert figures.svg(figure) == expected
        assert matplotlib.rcParams["svg.fonttype"] == "path"


def test_svg_is_one_element_that_scales_with_the_page():
    text = figures.svg(curve())
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    style = "width:100%;max-width:38rem;height:auto"
    assert root.attrib == {"viewBox": "0 0 360 230.4", "style": style}
    assert text.startswith("<svg ") and text.endswith("</svg>\n")
    assert "<metadata" not in text and "<?xml" not in text and "<!DOCTYPE" not in text


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


def test_text_stays_text_in_a_font_that_every_device_has():
    text = figures.svg(curve("β of k"))
    assert "β of k</text>" in text
    assert set(re.findall(r"font-family: ([^;\"]*)|font: [^;\"]*?px ([^;\"]*)", text)) <= {
        ("'DejaVu Sans', sans-serif", ""), ("", "'DejaVu Sans', sans-serif")}


# ---------------------------------------------------------------- pictures

def test_show_carries_the_alt_text_escaped():
    picture = figures.show(curve(), '  β < 1 & "k"\n   shrinks  ')
    page = HTMLFormatter()(picture)
    alt = "β &lt; 1 &amp; &quot;k&quot; shrinks"
    assert page.startswith(f'<div role="img" aria-label="{alt}"><svg ')
    assert figures.svg(curve()) in page


@pytest.mark.parametrize("alt", ["", " \n "])
def test_show_needs_an_alt_text(alt):
    with pytest.raises(ValueError, match="alt must say what the figure shows, in words"):
        figures.show(curve(), alt)


def test_each_tone_of_a_caption_has_its_opposite_and_the_caption_is_escaped():
    toned = figures.toned("Black & <b>: told. Light blue, dark: more; it blackens on White.")
    assert re.sub(r"<[^>]*>", "", toned) == (
        "Black &amp; &lt;b&gt;: told. Light blue, dark: more; it blackens on White.")
    marked = re.findall(r'<span class="tone (\w+)"><span>\1</span></span>', toned)
    assert marked == ["Black", "Light", "dark", "White"]
    css = (Path(__file__).resolve().parents[2] / "book/_static/book.css").read_text()
    opposite = dict(re.findall(r'\.tone\.(\w+)::before { content: "(\w+)"; }', css))
    words = ("black", "white", "dark", "light")
    assert set(opposite) == {*words, *map(str.title, words)}
    assert all(opposite[other] == word != other for word, other in opposite.items())


def test_a_figure_shows_only_when_asked_to():
    before = pyplot.get_fignums()
    figure, axes = figures.subplots(2, 3, height=4, sharex=True)
    assert pyplot.get_fignums() == before and axes.shape == (2, 3)
    assert figure.get_size_inches().tolist() == [5, 4]


# ---------------------------------------------------------------- looks and recurring plots

@pytest.mark.parametrize("name", ["detla", "detla, leak"])
def test_an_unknown_look_lists_the_known_ones(name):
    with pytest.raises(ValueError, match="^no look for 'detla'; known: additive, delta"):
        figures.look(name)


def test_plane_is_square_and_shows_the_unit_circle():
    axes = figures.plane(figures.subplots()[1], limit=2)
    circle = axes.lines[0].get_xydata()
    assert np.allclose(np.hypot(*circle.T), 1) and np.allclose(circle[0], circle[-1])
    assert axes.get_xlim() == axes.get_ylim() == (-2, 2) and axes.get_aspect() == 1
    assert not figures.plane(figures.subplots()[1], unit_circle=False).lines


def test_label_line_stands_beside_its_point():
    axes = figures.subplots()[1]
    figures.label_line(axes, 0.5, 2.0, "floor", color="#123456")
    note, = axes.texts
    assert (note.get_text(), note.xy, note.get_color()) == ("floor", (0.5, 2.0), "#123456")


def test_a_leak_is_drawn_dotted_and_open_in_its_models_colour():
    causal, leak = figures.look("emhc-hybrid"), figures.look("emhc-hybrid, leak")
    assert leak["color"] == causal["color"]
    assert leak["linestyle"] == ":" and leak["markerfacecolor"] == "white"
