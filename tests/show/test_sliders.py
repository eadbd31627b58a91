import html
import itertools
import json
import re

import ipywidgets
import numpy as np
import pytest
from bs4 import BeautifulSoup
from IPython.display import HTML

from geolab.show import figures
from geolab.show import frames as frames_of_a_page
from geolab.show.sliders import explore, slider


def point(beta, gate=0.5):
    """A point that moves
    with β & γ."""
    figure, axes = figures.subplots(height=1.5)
    axes.plot([beta], [gate], "o")
    axes.set(xlim=(-1, 3), ylim=(-1, 3))
    return figure


def titled(beta, title="plain"):
    """A point with a title."""
    figure = point(beta)
    figure.axes[0].set_title(title)
    return figure


def data_of(page):
    """The JSON that a page's script reads."""
    return json.loads(page.find("script", type="application/json").string)


def shown(box):
    return re.search("<svg.*</svg>\n", box.picture.value, re.S)[0]


def frames(data):
    """Every frame, put together as the page's script does it."""
    return ["".join("\n".join(data["lines"][first:first + count]) + "\n" for first, count in frame)
            for frame in data["frames"]]


# ---------------------------------------------------------------- in a live kernel

@pytest.mark.usefixtures("live")
class TestLive:
    def test_the_slider_starts_in_the_middle_and_redraws(self):
        box = explore(point, beta=[0, 1, 2])
        assert isinstance(box, ipywidgets.VBox)
        assert box.sliders["beta"].value == 1
        assert shown(box) == figures.svg(point(1))
        for beta in (2, 0, 1):
            box.sliders["beta"].value = beta
            assert shown(box) == figures.svg(point(beta))

    def test_it_shows_picture_sliders_and_message_in_order(self):
        box = explore(point, beta=[0, 1], gate=[0, 1])
        picture, beta, gate, message = box.children
        assert (picture, message) == (box.picture, box.message)
        assert [row.children[0].children[0] for row in (beta, gate)] == list(box.sliders.values())
        assert [of.description for of in box.sliders.values()] == ["β", "γ"]
        assert box.message.value == ""

    def test_the_picture_has_its_alt_text(self):
        assert 'role="img" aria-label="A point that moves with β &amp; γ."' in explore(
            point, beta=[0, 1]).picture.value

    def test_a_slider_of_ones_own_starts_where_it_says_and_tells_its_marks(self):
        box = explore(point, beta=slider([0, 1, 2], "how much <b>", marks={2: "a mirror"},
                                         start=0))
        assert box.sliders["beta"].value == 0
        controls, said = box.children[1].children
        assert said.value == "2: a mirror"
        _, play, listed = controls.children
        assert (play.min, play.max, play.value) == (0, 2, 0)
        assert listed.description == "how much <b>"
        assert [name for name, _ in listed.options] == ["0", "1", "2: a mirror"]

    def test_the_list_of_values_moves_the_slider_and_follows_it(self):
        box = explore(point, beta=[0, 1, 2])
        listed = box.children[1].children[0].children[2]
        assert listed.description == "β"
        listed.index = 2
        assert box.sliders["beta"].value == 2 and shown(box) == figures.svg(point(2))
        box.sliders["beta"].value = 0
        assert listed.index == 0

    def test_a_pad_is_its_two_sliders_side_by_side(self):
        box = explore(point, beta=[0, 1, 2], gate=[0, 0.5, 1], pad=("gate", "beta"))
        _, both, _ = box.children
        assert isinstance(both, ipywidgets.HBox) and list(box.sliders) == ["gate", "beta"]
        assert [row.children[0].children[0] for row in both.children] == list(box.sliders.values())
        box.sliders["gate"].value, box.sliders["beta"].value = 1, 2
        assert shown(box) == figures.svg(point(2, 1))

    def test_a_later_error_shows_and_keeps_the_picture_and_passes(self):
        def fails_at_two(beta):
            """A point."""
            if beta == 2:
                raise ZeroDivisionError("a <b> too many")
            return point(beta)

        box = explore(fails_at_two, beta=[0, 1, 2])
        before = shown(box)
        with pytest.raises(RuntimeError):
            box.sliders["beta"].value = 2
        message = "fails_at_two(beta=2) raised ZeroDivisionError: a &lt;b&gt; too many"
        assert box.message.value == f"<b>{message}</b>"
        assert shown(box) == before
        box.sliders["beta"].value = 0
        assert box.message.value == "" and shown(box) == figures.svg(point(0))


# ---------------------------------------------------------------- on a built page

@pytest.mark.usefixtures("static")
class TestStatic:
    VALUES = {"beta": [0, 0.5, 1, 2], "gate": [0.25, 0.5, 0.75]}

    def page(self, draw=point, **values):
        page = explore(draw, **values)
        assert isinstance(page, HTML)
        return BeautifulSoup(page.data, "html.parser")

    def test_every_frame_is_its_figure_exactly(self):
        data = data_of(self.page(**self.VALUES))
        drawn = frames(data)
        combinations = list(itertools.product(*self.VALUES.values()))
        assert len(drawn) == len(combinations) == len(set(drawn)) == 12
        for frame, (beta, gate) in zip(drawn, combinations):
            assert frame == figures.svg(point(beta, gate))

    def test_frames_share_their_lines(self):
        data = data_of(self.page(**self.VALUES))
        assert len(data["lines"]) < 2 * len(frames(data)[0].splitlines())
        # lines that repeat do not cut a frame into pieces
        assert max(len(runs) for runs in data["frames"]) < 20

    def test_sliders_start_at_the_middle_frame_and_carry_their_names(self):
        page = self.page(**self.VALUES)
        inputs = [tuple(tag[key] for key in ("type", "min", "max", "value", "aria-label"))
                  for tag in page.find_all("input")]
        assert inputs == [("range", "0", "3", "2", "beta"), ("range", "0", "2", "1", "gate")]
        data = data_of(page)
        assert data["values"] == [["0", "0.5", "1", "2"], ["0.25", "0.5", "0.75"]]
        assert data["names"] == ["β", "γ"]

    def test_a_slider_of_ones_own_has_words_marks_and_a_start(self):
        beta = slider([0, 0.5, 1, 2], "how much", marks={1: "a line", 2: "a mirror"}, start=0.5)
        page = self.page(beta=beta)
        (track,) = page.find_all("input")
        assert (track["value"], track["aria-label"]) == ("1", "beta, how much")
        assert [(tag["data-at"], tag["style"]) for tag in page.select("button[data-at]")] == [
            ("2", "left:66.67%"), ("3", "left:100%")]
        assert len(page.select("button[data-play]")) == 1
        assert [tag["data-step"] for tag in page.select("button[data-step]")] == ["-1", "1"]
        assert figures.svg(point(0.5)).strip() in explore(point, beta=beta).data

    def test_a_pad_stands_before_other_sliders_with_a_line_for_each_mark(self):
        def two(beta, title, gate):
            """A point with a title."""
            figure = point(beta, gate)
            figure.axes[0].set_title(title)
            return figure

        page = self.page(two, beta=slider([0, 1, 2, 3], marks={1: "a line", 3: "the end"}),
                         title=["one", "two"], pad=("gate", "beta"),
                         gate=slider([0, 0.5, 1], "the gate", start=0))
        assert data_of(page)["keys"] == ["two.gate", "two.beta", "two.title"]
        (group,) = page.select("div[role=group]")
        assert group["aria-label"] == "gate across, beta up"
        assert [tag.get("data-axis") for tag in page.select("div.geolab-slider")] == ["x", "y"]
        for kind in ("i", "button"):
            assert [tag["style"] for tag in page.find_all(kind)] == [
                "bottom:33.33%", "bottom:100%"]
        across, up = page.find_all("input")[:2]
        assert across["aria-label"] == "gate, the gate" and across["value"] == "0"
        assert not across.has_attr("aria-orientation") and up["aria-orientation"] == "vertical"
        drawn = frames(data_of(page))
        assert drawn == [figures.svg(two(beta, title, gate)) for gate in (0, 0.5, 1)
                         for beta in (0, 1, 2, 3) for title in ("one", "two")]

    def test_negative_numbers_have_a_minus_and_words_keep_their_hyphens(self):
        page = self.page(titled, beta=[-1, 0, 0.5], title=["Pre-LN", "Post-LN"])
        assert data_of(page)["values"] == [["−1", "0", "0.5"], ["Pre-LN", "Post-LN"]]
        assert "<span>−1</span><span>0.5</span>" in str(page)

    def test_no_id_stands_twice_and_an_axis_that_is_not_shown_leaves_none(self):
        def bare(beta):
            """Two pairs of axes without ticks."""
            figure, panels = figures.subplots(1, 2)
            for axes in panels:
                axes.plot([0, beta])
                axes.set_axis_off()
            return figure

        drawn = figures.svg(bare(1))
        ids = re.findall(r'\bid="([^"]*)"', drawn)
        assert len(set(ids)) == len(ids) and "matplotlib" not in drawn

    @pytest.mark.parametrize("text", ["</script><b>out", "<!--<script>", "]]>", '"><i>', "a & b",
                                      "\\u003c/script>"])
    def test_no_text_can_break_out(self, text):
        def drawn(beta, title):
            return titled(beta, title)

        drawn.__doc__ = f"Alt {text}"
        page = explore(drawn, beta=[0, 1], title=["plain", text]).data
        parsed = BeautifulSoup(page, "html.parser")
        assert page.count("</script") == len(parsed.find_all("script")) == 2
        assert "<!" not in parsed.find("script", type="application/json").string
        assert not parsed.find_all(["b", "i"])
        data = data_of(parsed)
        assert data["values"][1] == ["plain", text] and data["alt"] == f"Alt {text}"
        assert f'aria-label="{html.escape(f"Alt {text}")}"' in page
        assert frames(data)[1] == figures.svg(titled(0, text))

    def test_frames_too_large_for_a_page_warn(self, monkeypatch):
        monkeypatch.setattr(frames_of_a_page, "MOST_BYTES", 9_000)

        def noise(seed):
            """Many points."""
            figure, axes = figures.subplots()
            axes.plot(np.random.RandomState(seed).randn(400).cumsum(), rasterized=False)
            return figure

        message = (r"the frames of noise take [\d,]+ bytes as they travel, more than 9,000: "
                   "use fewer values")
        with pytest.warns(UserWarning, match=message):
            explore(noise, seed=range(3))


# ---------------------------------------------------------------- errors, in both lives

@pytest.fixture(params=["live", "static"])
def either(request):
    request.getfixturevalue(request.param)


@pytest.mark.usefixtures("either")
class TestErrors:
    @pytest.mark.parametrize("call, message", [
        (lambda: explore(point), "explore needs at least one slider"),
        (lambda: explore(point, beta=[1], gate=[]), "empty list for gate"),
        (lambda: slider([]), "values must have at least one entry"),
        (lambda: slider(["a", "b"], smooth=True), r"smooth values must be numbers, got \['a', 'b'"),
        (lambda: slider(["a", "b"], marks={"c": "none"}), "one of the values, got 'c'"),
        (lambda: slider([0, 1, 2], marks={1.9: "none"}), "one of the values, got 1.9"),
        (lambda: slider([0, 1, 2], start=0.2), "one of the values, got 0.2"),
        (lambda: slider(["a", "b"], start="c"), "must be one of the values, got 'c'"),
        (lambda: explore(point, beta=range(6), gate=range(17)), "got 102 combinations"),
        (lambda: explore(point, beta=range(3), gate=range(3), pad=("beta", "turn")),
         r"pad must name two of the sliders beta, gate, across first; got \('beta', 'turn'\)"),
        (lambda: explore(point, beta=range(3), pad=("beta", "beta")), "two of the sliders beta"),
        (lambda: explore(point, beta=range(3), gate=range(3), pad="beta"), "got 'beta'"),
        (lambda: explore(point, beta=range(3), gate=[0, 1], pad=("beta", "gate")),
         r"three or more numbers; gate has \[0, 1\]"),
        (lambda: explore(titled, beta=range(3), title=list("abc"), pad=("beta", "title")),
         r"three or more numbers; title has \['a', 'b', 'c'\]")])
    def test_values_that_make_no_slider(self, call, message):
        with pytest.raises(ValueError, match=message):
            call()

    @pytest.mark.parametrize("doc", [None, "", "  \n"])
    def test_no_docstring(self, doc):
        def silent(beta):
            return point(beta)

        silent.__doc__ = doc
        with pytest.raises(ValueError, match="silent needs a docstring: it is the alt text"):
            explore(silent, beta=[1])

    def test_a_draw_that_fails_names_the_values(self):
        def fails(beta, name):
            """It fails."""
            raise KeyError("k")

        message = r"^fails\(beta=0.5, name=a\) raised KeyError: 'k'$"
        with pytest.raises(RuntimeError, match=message) as error:
            explore(fails, beta=[0.5], name=["a"])
        assert isinstance(error.value.__cause__, KeyError)

    @pytest.mark.parametrize("result, kind", [(None, "NoneType"), ("<svg>", "str")])
    def test_a_draw_that_returns_no_figure(self, result, kind):
        def forgets(beta):
            """It returns no figure."""
            return result

        message = rf"^forgets\(beta=1\) must return a matplotlib Figure, got {kind}$"
        with pytest.raises(RuntimeError, match=message):
            explore(forgets, beta=[1])

    def test_a_value_that_draw_does_not_take(self):
        with pytest.raises(RuntimeError, match=r"point\(theta=1\) raised TypeError"):
            explore(point, theta=[1])


@pytest.mark.parametrize("value", ["", "live", "STATIC"])
def test_only_the_word_static_makes_a_page(monkeypatch, value):
    monkeypatch.setenv("GEOLAB_EXPLORE", value)
    assert isinstance(explore(point, beta=[0]), ipywidgets.VBox)
