"""Diagrams fit their frame, have words that say what they show, and show what residuals do."""

import itertools

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from shared import STREAMS, WIDTH, shaken, sublayer, vectors

from geolab.residuals import REGISTRY, make_residual
from geolab.residuals.streams import Streams
from geolab.show import diagrams
from geolab.show.diagrams import BLOCKS, describe, diagram
from geolab.show.figures import svg

names = pytest.mark.parametrize("name", BLOCKS)
residuals = pytest.mark.parametrize("name", [name for name in BLOCKS if name in REGISTRY])


def residual(name):
    torch.manual_seed(0)
    return shaken(make_residual(name, WIDTH).double())


def test_a_diagram_is_of_a_registered_residual_or_of_the_post_norm_block():
    assert set(BLOCKS) - set(REGISTRY) == {"post-LN"}


@pytest.mark.parametrize("ask", [diagram, describe])
@pytest.mark.parametrize("name", ["detla", "benchmark-mhc"])
def test_a_name_without_a_diagram_lists_those_that_have_one(ask, name):
    with pytest.raises(ValueError, match=f"^no diagram of '{name}'; BLOCKS has ") as error:
        ask(name)
    assert all(known in str(error.value) for known in BLOCKS)


@names
def test_nothing_overlaps_nothing_sticks_out_and_the_operator_fits_its_box(name):
    figure, operator = diagram(name), BLOCKS[name].operator
    renderer = FigureCanvasAgg(figure).get_renderer()
    texts = [text for text in figure.axes[0].texts if text.get_text()]
    boxes = {text.get_text(): text.get_window_extent(renderer) for text in texts}
    frame = figure.bbox
    for text, box in boxes.items():
        assert frame.x0 <= box.x0 and box.x1 <= frame.x1, text
        assert frame.y0 <= box.y0 and box.y1 <= frame.y1, text
    for (one, box), (other, again) in itertools.combinations(boxes.items(), 2):
        assert not box.overlaps(again), f"{one!r} lies on {other!r}"
    coloured = [patch for patch in figure.axes[0].patches
                if patch.get_facecolor()[:3] != (1, 1, 1)]
    assert bool(coloured) == bool(operator) == bool(BLOCKS[name].does)
    for patch in coloured:
        assert boxes[operator].width < patch.get_window_extent(renderer).width


@names
def test_a_diagram_is_small_and_the_same_each_time(name):
    assert svg(diagram(name)) == svg(diagram(name)) and len(svg(diagram(name))) < 16_000


# ---------------------------------------------------------------- what is drawn is what is done

@residuals
def test_the_lines_are_the_state(name):
    module, drawn = residual(name), BLOCKS[name].state
    shape = module.expand(vectors(1, 2, WIDTH)).shape
    wide = drawn in (diagrams.STREAMS, diagrams.CHANNELS)
    assert len(shape) == (4 if wide else 3)
    lines = np.isnan(diagram(name).axes[0].lines[0].get_xdata()).sum()
    assert lines == (1 if drawn == diagrams.D_FEATURES else STREAMS)
    assert not wide or shape[-2 if isinstance(module, Streams) else -1] == lines


@residuals
def test_the_sublayer_reads_before_or_after_the_operator(name):
    """If only one stream isn't zero, F reads a multiple of it unless the operator came first."""
    module, heard = residual(name), []
    state = torch.zeros_like(module.expand(vectors(1, 1, WIDTH)))
    if BLOCKS[name].state == diagrams.SLICES:
        state[..., :2] = vectors(2)
        module(state, lambda x: heard.append(x) or x)
        assert (heard[0][..., 2:] == 0).all() != BLOCKS[name].order.startswith("operator")
    elif BLOCKS[name].state == diagrams.STREAMS:
        state[..., 0, :] = vectors(WIDTH)
        module(state, lambda x: heard.append(x) or x)
        read = module.coefficients(state).read[..., :1] * state[..., 0, :]
        assert torch.allclose(heard[0], read) != BLOCKS[name].order.startswith("operator")


@residuals
def test_an_operator_depends_on_the_tokens_that_its_arrow_comes_from(name):
    sources = [source for source, targets in BLOCKS[name].sources if "operator" in targets]
    module = residual(name)
    x = vectors(1, 9, WIDTH)
    state = module.expand(x).contiguous()
    earlier, own = state.clone(), state.clone()
    earlier[:, 0] += vectors(*own.shape[2:])
    own[:, -1] += vectors(*own.shape[2:])

    def operator(state):
        observed = module.observe(state, sublayer())
        fields = [getattr(observed, name) for name in ("mix", "beta") if hasattr(observed, name)]
        return fields[0][:, -1] if fields else torch.ones(1)

    def moved(other):
        return (operator(other) - operator(state)).abs().max() > 1e-9

    assert moved(own) == bool(sources)
    assert moved(earlier) == ("mean" in sources)


@residuals
def test_a_leak_is_marked_where_the_published_form_has_one(name):
    """The mark is for pool="sequence" of the published forms, not of the book's own forms."""
    assert BLOCKS[name].leaks == (name in ("emhc-cayley", "emhc-hybrid", "emhc-stream"))
    assert not residual(name).leaks
    if BLOCKS[name].leaks:
        assert make_residual(name, WIDTH, pool="sequence").leaks and "leak" in describe(name)
