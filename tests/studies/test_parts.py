"""Studies whose arms wait for a run: listing 2, residual MLPs, triangles, pools, and JPmHC's Y."""

import math

import pytest
import torch

from geolab.probes import future_influence
from studies.experiments.delta_pools import STUDY as POOLS
from studies.experiments.gt_parts import COPY, TEXT, Copier, commutators
from studies.experiments.gt_parts import STUDY as PARTS
from studies.experiments.jpmhc_exact import STUDY as EXACT

ARMS = {f"{arm.part}: {arm.name}": arm for study in (PARTS, POOLS, EXACT) for arm in study.arms()}


@pytest.mark.parametrize("arm", ARMS.values(), ids=ARMS)
def test_an_arm_trains_causally_and_every_weight_that_tells_it_apart_gets_a_gradient(arm):
    model = arm.model(0)
    inputs, targets = arm.batch()
    arm.task.loss(model(inputs), targets).backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None]
    assert not silent
    if not isinstance(model, Copier):
        assert future_influence(model, inputs[:2]) == 0


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


@pytest.mark.parametrize("name, task", [("copy: full", COPY), ("mlps: MLP, messages", TEXT)])
def test_the_commutator_is_one_finite_number_per_pair(name, task):
    found = commutators(task, ARMS[name].model(0))["commutator"]
    assert len(found) == (2 if name.startswith("copy") else 1)
    assert all(math.isfinite(x) and x < math.log10(2) for x in found)


def test_triangles_have_about_as_many_weights_as_the_wide_control():
    sizes = {name: sum(p.numel() for p in ARMS[f"triangles: {name}"].build().parameters())
             for name in ("edges", "edges, wide", "edges and triangles")}
    assert sizes["edges"] < sizes["edges and triangles"]
    assert abs(sizes["edges, wide"] / sizes["edges and triangles"] - 1) < 0.01


def test_the_two_transforms_part_where_the_generator_is_large():
    def outputs(name):
        model = ARMS[f"near_pi_multi: {name}"].model(0).double()
        for layer in model.trunk.layers:
            torch.nn.init.normal_(layer.residual.generate.weight, std=0.02)
        return model(ARMS[f"near_pi_multi: {name}"].batch()[0][:2].double())

    apart = {}
    for alpha in ("0.1", "2"):
        torch.manual_seed(0)
        one = outputs(f"two steps, α = {alpha}")
        torch.manual_seed(0)
        apart[alpha] = (one - outputs(f"exact, α = {alpha}")).abs().max().item()
    assert 0 < apart["0.1"] < apart["2"] / 100
