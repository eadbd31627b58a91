"""Parts of the Geometric Transformer that no other study trains."""

import math

import pytest
import torch
from shared_studies import arm_of, count

from studies.experiments.gt_parts import COPY, STUDY, TEXT, Copier, commutators


@pytest.mark.parametrize("kind", ["transformer", "lite", "full", "moe"])
def test_the_copier_reads_all_of_the_source_and_nothing_ahead_of_it(kind):
    torch.manual_seed(0)
    model = Copier(kind).double().eval()
    tokens = COPY.sample("validation").inputs[:1]
    K, outputs = COPY.half, model(tokens)
    assert outputs.shape == (1, 2 * K, COPY.vocabulary) and outputs[:, :K].abs().max() == 0
    for place in (0, K - 1, K + 3):
        changed = tokens.clone()
        changed[0, place] = (changed[0, place] + 1) % COPY.alphabet
        moved = (model(changed) - outputs)[0].abs().amax(-1) > 0
        assert not moved[:max(K, place)].any() and moved[max(K, place):].any()


@pytest.mark.parametrize("part, name, task, pairs", [
    ("copy", "full", COPY, 2), ("mlps", "MLP, messages", TEXT, 1)])
def test_the_commutator_is_one_finite_number_per_pair(part, name, task, pairs):
    found = commutators(task, arm_of(STUDY, part, name).model(0))["commutator"]
    assert len(found) == pairs
    assert all(math.isfinite(x) and x < math.log10(2) for x in found)


def test_triangles_have_about_as_many_weights_as_the_wide_control():
    edges, wide, triangles = (count(arm_of(STUDY, "triangles", name).build())
                              for name in ("edges", "edges, wide", "edges and triangles"))
    assert edges < triangles and abs(wide / triangles - 1) < 0.01
