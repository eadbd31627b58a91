"""`explore`: widgets in a live kernel, and on a built page all frames with what moves them."""

import itertools
import json
import re

import ipywidgets
import pytest
import torch
from bs4 import BeautifulSoup
from IPython.display import HTML

from geolab.show import figures
from geolab.show import frames as frames_of_a_page
from geolab.show.sliders import explore, slider


def point(beta, gate=0.5, title=""):
    """A point that moves
    with β & γ."""
    figure, axes = figures.subplots(height=1.5)
    axes.plot([beta], [gate], "o")
    axes.set(xlim=(-1, 3), ylim=(-1, 3), title=title)
    return figure


@pytest.mark.parametrize("values", [[1e-12, 1e-10, 1e-8, 1e-5], [1e-10, 0, 1], [-2e9, 0, 1e-10]])
def test_a_mark_stands_at_its_own_value_however_small(values):
    for place, value in enumerate(values):
        made = slider(values, marks={value: "here"}, start=value)
        assert (made.start, made.marks) == (place, {place: "here"})


def test_a_tensor_s_values_are_numbers():
    made = slider(torch.linspace(0, 1, 11), start=0.3)
    assert made.start == 3 and all(type(value) is float for value in made.values)


# ---------------------------------------------------------------- in a live kernel

def shown(box):
    return re.search("<svg.*</svg>\n", box.picture.value, re.S)[0]


@pytest.mark.usefixtures("live")
def test_a_slider_and_its_list_of_values_move_together_and_redraw():
    box = explore(point, beta=[0, 1, 2], gate=[0, 0.5, 1])
    assert isinstance(box, ipywidgets.VBox)
    picture, *rows, message = box.children
    assert (picture, message) == (box.picture, box.message) and message.value == ""
    controls = [row.children[0].children for row in rows]
    assert [of[0] for of in controls] == list(box.sliders.values())
    assert 'role="img" aria-label="A point that moves with β &amp; γ."' in picture.value
    beta, listed = box.sliders["beta"], controls[0][2]
    assert beta.description == listed.description == "β"
    assert beta.value == 1 and shown(box) == figures.svg(point(1))
    listed.index = 2
    assert beta.value == 2 and shown(box) == figures.svg(point(2))
    beta.value = 0
    assert listed.index == 0 and shown(box) == figures.svg(point(0))


@pytest.mark.usefixtures("live")
def test_a_slider_of_ones_own_starts_where_it_says_and_tells_its_marks():
    box = explore(point, beta=slider([0, 1, 2], "how much <b>", marks={2: "a mirror"}, start=0))
    assert box.sliders["beta"].value == 0
    controls, said = box.children[1].children
    assert said.value == "2: a mirror"
    _, play, listed = controls.children
    assert (play.min, play.max, play.value) == (0, 2, 0)
    assert listed.description == "how much <b>"
    assert [name for name, _ in listed.options] == ["0", "1", "2: a mirror"]


@pytest.mark.usefixtures("live")
def test_a_pad_is_its_two_sliders_side_by_side():
    box = explore(point, beta=[0, 1, 2], gate=[0, 0.5, 1], pad=("gate", "beta"))
    _, both, _ = box.children
    assert isinstance(both, ipywidgets.HBox) and list(box.sliders) == ["gate", "beta"]
    assert [row.children[0].children[0] for row in both.children] == list(box.sliders.values())
    box.sliders["gate"].value, box.sliders["beta"].value = 1, 2
    assert shown(box) == figures.svg(point(2, 1))


@pytest.mark.usefixtures("live")
def test_a_later_error_shows_and_keeps_the_picture_and_passes():
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
    assert box.message.value == f"<b>{message}</b>" and shown(box) == before
    box.sliders["beta"].value = 0
    assert box.message.value == "" and shown(box) == figures.svg(point(0))


# ---------------------------------------------------------------- on a built page

@pytest.fixture
def page(static):
    """What makes a page, as a script and a reader find it."""
    def explored(draw=point, **values):
        made = explore(draw, **values)
        assert isinstance(made, HTML)
        return BeautifulSoup(made.data, "html.parser")
    return explored


def data_of(page):
    """The JSON that a page's script reads."""
    return json.loads(page.find("script", type="application/json").string)


def frames(data):
    """Every frame, put together as the page's script does it."""
    return ["".join("\n".join(data["lines"][first:first + count]) + "\n" for first, count in frame)
            for frame in data["frames"]]


def test_every_frame_is_its_figure_exactly_and_frames_share_their_lines(page):
    betas, gates = [-1, 0, 0.5, 1], [0.25, 0.5, 0.75]
    found = page(beta=betas, gate=gates)
    inputs = [tuple(tag[key] for key in ("type", "min", "max", "value", "aria-label"))
              for tag in found.find_all("input")]
    assert inputs == [("range", "0", "3", "2", "beta"), ("range", "0", "2", "1", "gate")]
    assert "<span>−1</span><span>1</span>" in str(found)
    data = data_of(found)
    assert data["values"] == [["−1", "0", "0.5", "1"], ["0.25", "0.5", "0.75"]]
    assert (data["names"], data["keys"]) == (["β", "γ"], ["point.beta", "point.gate"])
    drawn = frames(data)
    assert len(set(drawn)) == 12
    assert drawn == [figures.svg(point(*chosen)) for chosen in itertools.product(betas, gates)]
    assert len(data["lines"]) < 2 * len(drawn[0].splitlines())
    # lines that repeat do not cut a frame into pieces
    assert max(len(runs) for runs in data["frames"]) < 20


def test_a_slider_of_ones_own_has_words_marks_and_a_start(page):
    beta = slider([0, 0.5, 1, 2], "how much", marks={1: "a line", 2: "a mirror"}, start=0.5)
    found = page(beta=beta)
    track, = found.find_all("input")
    assert (track["value"], track["aria-label"]) == ("1", "beta, how much")
    assert [(tag["data-at"], tag["style"]) for tag in found.select("button[data-at]")] == [
        ("2", "left:66.67%"), ("3", "left:100%")]
    assert len(found.select("button[data-play]")) == 1
    assert [tag["data-step"] for tag in found.select("button[data-step]")] == ["-1", "1"]
    assert figures.svg(point(0.5)).strip() in explore(point, beta=beta).data


def test_a_pad_stands_before_other_sliders_with_a_line_for_each_mark(page):
    found = page(beta=slider([0, 1, 2, 3], marks={1: "a line", 3: "the end"}),
                 title=["Pre-LN", "Post-LN"], pad=("gate", "beta"),
                 gate=slider([0, 0.5, 1], "the gate", start=0))
    data = data_of(found)
    assert data["keys"] == ["point.gate", "point.beta", "point.title"]
    assert data["values"][2] == ["Pre-LN", "Post-LN"]
    group, = found.select("div[role=group]")
    assert group["aria-label"] == "gate across, beta up"
    assert [tag.get("data-axis") for tag in found.select("div.geolab-slider")] == ["x", "y"]
    for kind in ("i", "button"):
        assert [tag["style"] for tag in found.find_all(kind)] == ["bottom:33.33%", "bottom:100%"]
    across, up = found.find_all("input")[:2]
    assert across["aria-label"] == "gate, the gate" and across["value"] == "0"
    assert not across.has_attr("aria-orientation") and up["aria-orientation"] == "vertical"
    assert frames(data) == [figures.svg(point(beta, gate, title)) for gate in (0, 0.5, 1)
                            for beta in (0, 1, 2, 3) for title in ("Pre-LN", "Post-LN")]


@pytest.mark.parametrize("values, buttons", [
    ([0.5], False), ([0, 1], True), ([0, 1, 2], False), (["none", 1, 3, 9], True),
    (list("abcde"), True), (list("abcdef"), False)])
def test_two_values_or_a_few_words_are_buttons(page, values, buttons):
    def draw(beta):
        """A point."""
        return point(1)

    found = page(draw, beta=slider(values, "which"))
    assert slider(values).choice == buttons
    assert len(found.select('[type="radio"]')) == len(values) * buttons
    assert len(found.select("[checked]")) == buttons
    assert len(found.select('[type="range"]')) == (not buttons)


@pytest.mark.parametrize("text", ["</script><b>out", "<!--<script>", '"><i>', "\\u003c/script>"])
def test_no_text_can_break_out(page, text):
    def draw(beta, title):
        return point(beta, title=title)

    draw.__doc__ = f"Alt {text}"
    found = page(draw, beta=[0, 1], title=["plain", text])
    assert len(found.find_all("script")) == 2 and not found.find_all(["b", "i"])
    assert not re.search("<!|</", found.find("script", type="application/json").string)
    data = data_of(found)
    assert data["values"][1] == ["plain", text] and data["alt"] == f"Alt {text}"
    assert found.find(role="img")["aria-label"] == f"Alt {text}"
    assert frames(data)[1] == figures.svg(point(0, title=text))


def test_frames_too_large_for_a_page_warn(page, monkeypatch):
    monkeypatch.setattr(frames_of_a_page, "MOST_BYTES", 3_000)
    with pytest.warns(UserWarning, match=r"the frames of point take [\d,]+ bytes as they travel, "
                                         "more than 3,000: use fewer values"):
        page(beta=range(3))
