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
residuals = pytest.mark.parametrize("name", [name for name in BLOCKS if name != "post-LN"])


def residual(name):
    torch.manual_seed(0)
    return shaken(make_residual(name, WIDTH).double())


@names
def test_nothing_overlaps_or_sticks_out_and_the_operator_fits_its_box(name):
    figure, operator = diagram(name), BLOCKS[name].operator
    assert len(svg(figure)) < 16_000
    renderer, frame = FigureCanvasAgg(figure).get_renderer(), figure.bbox
    boxes = {text.get_text(): text.get_window_extent(renderer) for text in figure.axes[0].texts
             if text.get_text()}
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


@residuals
def test_the_lines_are_the_state(name):
    module, drawn = residual(name), BLOCKS[name].state
    shape = module.expand(vectors(1, 2, WIDTH)).shape
    wide = drawn in (diagrams.STREAMS, diagrams.CHANNELS)
    assert name in REGISTRY and len(shape) == (4 if wide else 3)
    lines = np.isnan(diagram(name).axes[0].lines[0].get_xdata()).sum()
    assert lines == (1 if drawn == diagrams.D_FEATURES else STREAMS)
    assert not wide or shape[-2 if isinstance(module, Streams) else -1] == lines


@residuals
def test_the_sublayer_reads_before_or_after_the_operator(name):
    """If only one stream isn't zero, F reads a multiple of it unless the operator came first."""
    module, heard = residual(name), []
    first = BLOCKS[name].order.startswith("operator")
    state = torch.zeros_like(module.expand(vectors(1, 1, WIDTH)))
    if BLOCKS[name].state == diagrams.SLICES:
        state[..., :2] = vectors(2)
        module(state, lambda x: heard.append(x) or x)
        assert (heard[0][..., 2:] == 0).all() != first
    elif BLOCKS[name].state == diagrams.STREAMS:
        state[..., 0, :] = vectors(WIDTH)
        module(state, lambda x: heard.append(x) or x)
        read = module.coefficients(state).read[..., :1] * state[..., 0, :]
        assert torch.allclose(heard[0], read) != first


@residuals
def test_an_operator_depends_on_the_tokens_that_its_arrow_comes_from(name):
    sources = [source for source, targets in BLOCKS[name].sources if "operator" in targets]
    module = residual(name)
    state = module.expand(vectors(1, 9, WIDTH)).contiguous()

    def operator(state):
        observed = module.observe(state, sublayer())
        fields = [getattr(observed, name) for name in ("mix", "beta") if hasattr(observed, name)]
        return fields[0][:, -1] if fields else torch.ones(1)

    for token, arrow in ((-1, bool(sources)), (0, "mean" in sources)):
        other = state.clone()
        other[:, token] += vectors(*state.shape[2:])
        assert ((operator(other) - operator(state)).abs().max() > 1e-9) == arrow


@residuals
def test_a_leak_is_marked_where_the_published_form_has_one(name):
    """The mark is for pool="sequence" of the published forms, not of the book's own forms."""
    assert BLOCKS[name].leaks == (name in ("emhc-cayley", "emhc-hybrid", "emhc-stream"))
    assert not residual(name).leaks and ("leak" in describe(name)) == BLOCKS[name].leaks
    assert not BLOCKS[name].leaks or make_residual(name, WIDTH, pool="sequence").leaks
