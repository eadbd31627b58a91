"""Deep Delta Learning with a million weights: its arms, and the public code's start."""

import math

import pytest
import torch
from shared_studies import arm_of, count

from studies.claims.configurations import CONFIGURATIONS
from studies.experiments.delta_million import CODE, STUDY
from studies.experiments.registry import STUDIES

ARMS = {arm.name: arm for arm in STUDY.arms()}


def layers(name):
    return ARMS[name].model(0).trunk.layers


def test_it_has_the_protocol_and_the_length_of_the_other_comparison_of_this_size():
    ours, other = STUDY.arms()[0], arm_of(STUDIES["released"], "text", "additive")
    assert (ours.budget, ours.protocol) == (other.budget, other.protocol)
    assert ours.task.context == other.task.context == ours.selects.context
    assert ours.protocol.search_steps is None and len(ours.protocol.search_seeds) == 2


def test_the_wide_plain_model_has_as_many_weights_as_the_largest_arm():
    with torch.device("meta"):
        counts = {name: count(arm.build()) for name, arm in ARMS.items()}
    assert max(counts, key=counts.get) in ("d_v = 8", "additive, wide", "d_v = 8, write-only")
    assert counts["additive, wide"] == pytest.approx(counts["d_v = 8"], rel=2e-3)
    assert min(counts.values()) > 1e6 and max(counts.values()) < 1.1e6


@pytest.mark.parametrize("channels", [1, 2, 4, 8])
def test_beside_each_number_of_channels_stands_the_same_model_that_only_writes(channels):
    erases, writes = (layers(f"d_v = {channels}{name}") for name in ("", ", write-only"))
    for one, other in zip(erases, writes, strict=True):
        assert one.residual.channels == other.residual.channels == channels
        assert one.residual.rule.erase and not other.residual.rule.erase
        for key, p in one.named_parameters():
            assert torch.equal(p, other.get_parameter(key))


@pytest.mark.parametrize("name, of", CODE.items())
def test_the_public_codes_model_has_its_options_and_starts_with_a_bias_of_v(name, of):
    first, second, *_ = (layer.residual for layer in layers(name))
    assert first.rule.context == CONFIGURATIONS[f"ddl-small-{of}"].options["context"] == "sublayer"
    assert of == "delta" or first.compressor is second.compressor
    bound = 1 / math.sqrt(128)
    for residual in (first, second):
        assert 0 < residual.value_head.bias.abs().max() <= bound
    assert not torch.equal(first.value_head.bias, second.value_head.bias)
    ours = layers(name.replace(", public code", ""))[0].residual
    assert not ours.value_head.bias.any() and ours.rule.context == "own"
