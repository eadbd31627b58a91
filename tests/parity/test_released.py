"""Our residuals compute what the layers of the installed transformers compute."""

from dataclasses import replace
from functools import partial

import pytest

from studies.parity import (
    RELEASED,
    installed_agreement,
    released_depth,
    released_single,
    released_streams,
)
from studies.parity.released_single import ALPHA, BETA, EPS, MULTIPLIER, Ours, alternating, ours

TOLERANCE = 1e-5
ROW = {row.label: row for row in RELEASED}
every_row = pytest.mark.parametrize("row", RELEASED, ids=lambda row: row.label)


@every_row
def test_same_function_and_same_gradients(row):
    found = installed_agreement(row)
    assert found.output < TOLERANCE
    assert found.gradient < TOLERANCE, found.worst


@every_row
def test_a_wrong_weight_is_seen(row):
    """A twentieth more in any tensor of ours, one at a time. A single stream feels each."""
    effects = {}
    for wrong in row.translate(dict(row.theirs().named_parameters())):
        def translate(weights, wrong=wrong):
            return {name: 1.05 * weight if name == wrong else weight
                    for name, weight in row.translate(weights).items()}
        effects[wrong] = installed_agreement(replace(row, translate=translate)).output
    assert max(effects.values()) > 1e-4
    assert row not in released_single.ROWS or min(effects.values()) > 1e-4, effects


# ---------------------------------------------------------------- what a row rests on

def streams(label, **changes):
    return label, partial(released_streams.Ours, **released_streams.BUILT[label] | changes)


def looking_back(**changes):
    return "inkling-2", partial(released_depth.Ours, **released_depth.INKLING | changes)


def preserving(**changes):
    return "muse-spark", lambda: Ours(ours("norm-preserving", **{"eps": EPS} | changes),
                                      gains=(1, 3))


def by_depth(**changes):
    return Ours(ours("norm-preserving", **{"share": "depth", "eps": EPS} | changes))


def reversed_order():
    made = by_depth()
    for k, residual in enumerate(reversed(made.residuals)):
        residual.summand = k + 2
    return made


def shifted_summands():
    """Counting the first sublayer's as summand 1: it would replace the embedding."""
    made = by_depth()
    for residual in made.residuals:
        residual.summand -= 1
    return made


def without_norm_of_state():
    made = alternating()
    made.normed_state = False
    return made


def scaled(**changes):
    return "granite", lambda: Ours(ours("scaled", **changes))


def other_norms(row):
    """The row's network with another guard of its norms."""
    def build():
        made = row.build()
        for norm in made.norms:
            norm.eps = EPS / 2
        return made
    return row.label, build


CHANGED = [
    streams("deepseek-v4", eps=0.0), streams("deepseek-v4", norm_eps=0.0),
    streams("deepseek-v4", order="row-column"), streams("deepseek-v4", iterations=2),
    streams("deepseek-v4", write_eps=1e-2), streams("glm-5.3-flash", eps=0.0),
    streams("hy4", eps=0.0), streams("hy4", write_eps=0.0), streams("qwen4-exp", eps=0.0),
    looking_back(values="plain"), looking_back(scaled=False), looking_back(block=2),
    looking_back(read="sum"), looking_back(eps=1e-2),
    preserving(temperature=0.31), preserving(floor=0.0), preserving(eps=EPS / 2),
    ("beam", partial(by_depth, eps=EPS / 2)), ("beam", reversed_order), ("beam", shifted_summands),
    ("minimax", without_norm_of_state), ("minimax", lambda: alternating(ALPHA[::-1])),
    ("minimax", lambda: alternating(beta=BETA[::-1])),
    ("minimax", lambda: alternating(BETA, ALPHA)),
    scaled(update=0.99 * MULTIPLIER, learned=()), scaled(state=MULTIPLIER, learned=()),
    *map(other_norms, released_single.ROWS)]


@pytest.mark.parametrize("label, build", CHANGED)
def test_another_option_constant_order_or_guard_is_seen(label, build):
    found = installed_agreement(replace(ROW[label], build=build))
    assert max(found.output, found.gradient) > 1e-4


def turned(weights):
    """Each query of the three inputs at the next one's place."""
    return {name: weight.roll(1, 0) if name.endswith("query") and weight.ndim == 2 else weight
            for name, weight in ROW["inkling-2"].translate(weights).items()}


def untransposed(weights):
    """The released matrix as it lies in the file."""
    found = ROW["deepseek-v4"].translate(weights)
    for k, site in enumerate(("attn_hc", "ffn_hc")):
        found[f"residuals.{k}.maps.bias"] = weights[f"layers.0.{site}.base"]
    return found


@pytest.mark.parametrize("label, translate", [("inkling-2", turned), ("deepseek-v4", untransposed)])
def test_another_place_of_the_weights_is_seen(label, translate):
    assert installed_agreement(replace(ROW[label], translate=translate)).output > 1e-4
