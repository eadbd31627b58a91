"""The cost model against counts on a small model: parameters, operations and bytes of a training
step.
"""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import cost
from geolab.models import Transformer, TransformerConfig
from studies.claims import CONFIGURATIONS, Configuration

DDL = TransformerConfig.ddl(width=96, layers=2, heads=2, max_length=64)
BIG = cost.Size(27e9, layers=30, width=2560, length=4096, residual="streams", n=4, active=4e9)


def small(residual: str, backbone: TransformerConfig = DDL) -> Configuration:
    return Configuration("DDL", "a small one", backbone, residual, vocabulary=200)


@pytest.mark.parametrize("residual, kind, n", [
    ("additive", "additive", 1), ("delta", "delta", 1), ("delta-matrix", "delta", 4),
    ("mhc", "streams", 4)])
def test_a_size_knows_the_residuals_state(residual, kind, n):
    found = cost.size(small(residual))
    assert (found.residual, found.n) == (kind, n)
    assert found.parameters == sum(p.numel() for p in small(residual).model().parameters())


@pytest.mark.parametrize("residual", ["additive", "delta", "mhc"])
def test_operations_are_what_pytorch_counts(residual):
    tokens = torch.randint(200, (2, 64))
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counted:
        small(residual).model()(tokens).sum().backward()
    found = cost.operations(cost.size(small(residual)), causal=False)
    assert abs(counted.get_total_flops() / tokens.numel() / found - 1) < 0.05


def test_adamw_holds_sixteen_bytes_per_parameter():
    model = small("mhc").model()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randint(200, (1, 8))).sum().backward()
    optimizer.step()
    held = sum(p.nbytes + p.grad.nbytes for p in model.parameters())
    held += sum(t.nbytes for state in optimizer.state.values() for t in state.values() if t.dim())
    assert cost.memory(cost.size(small("mhc"))).state == held


def test_activations_of_a_plain_model_are_what_autograd_saves():
    backbone = TransformerConfig.benchmark(width=96, layers=3, heads=2, max_length=64)
    trunk, x, kept = Transformer(backbone), torch.randn(8, 64, 96, requires_grad=True), {}

    def pack(t):
        kept[t.untyped_storage().data_ptr()] = t.untyped_storage()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        trunk(x)
    weights = {p.untyped_storage().data_ptr() for p in trunk.parameters()}
    counted = sum(s.nbytes() for at, s in kept.items() if at not in weights) / x.nbytes
    size = cost.size(replace(small("additive", backbone), vocabulary=None))
    found = cost.activation_vectors(size)
    assert abs(counted / found - 1) < 0.03


@pytest.mark.parametrize("kind, n, vectors", [
    ("streams", 4, (4 * 4 + 2, 13 * 4 + 3)), ("additive", 1, (3, 3)), ("delta", 1, (3, 8)),
    ("delta", 4, (5 + 9, 9 + 14 + 12))])
def test_a_residual_moves_the_vectors_of_the_roofline_chapter(kind, n, vectors):
    assert cost.residual_vectors(kind, n) == vectors


def test_a_node_that_is_not_full_and_a_utilisation_over_one_are_refused():
    with pytest.raises(ValueError, match="gpus must fill"):
        cost.gather_seconds(1e9, 12, cost.H200)
    with pytest.raises(ValueError, match="utilisation"):
        cost.step(BIG, 1280, 64, 1.5)


@given(n=st.integers(1, 16), S=st.integers(2, 200))
def test_the_best_recomputation_is_next_to_its_formula(n, S):
    def kept(s):
        return n * S / s + (n + 2) * s
    best = cost.best_every(n, S)
    assert (min(kept(s) for s in range(1, S + 1))
            == min(kept(s) for s in {max(1, int(best)), min(S, int(best) + 1)}))


def test_recomputing_keeps_fewer_vectors_and_needs_a_state():
    assert cost.activation_vectors(BIG, 6) < cost.activation_vectors(BIG)
    assert cost.activation_vectors(BIG, 60) - cost.activation_vectors(BIG, 30) == 6 * 30 - 4
    with pytest.raises(ValueError, match="every"):
        cost.activation_vectors(replace(BIG, residual="additive", n=1), 6)


def test_what_data_parallel_and_sharded_steps_send():
    configuration, wire = small("additive"), replace(cost.H200, link=1, network=1)
    gradients = sum(p.nbytes for p in configuration.model().parameters())
    found, share = cost.size(configuration), 15 / 16
    assert cost.step(found, 16, 16, 0.4, wire).communication == pytest.approx(2 * share * gradients)
    sharded = cost.step(found, 16, 16, 0.4, wire, sharded=True).communication
    assert sharded == pytest.approx(share * (2 * gradients / 2 + gradients))


def test_the_fullest_gpu_sets_the_pace():
    size = cost.size(CONFIGURATIONS["ddl-small-additive"])
    one, eight, many = (cost.step(size, 480, g, 0.4) for g in (1, 8, 64))
    assert one.communication == 0 and one.compute == pytest.approx(8 * eight.compute)
    assert many.compute == pytest.approx(8 / 480 * one.compute)
    assert max(many) < many.hidden < many.open


def test_adamw_reads_what_it_holds_and_writes_all_but_the_gradient():
    moved = cost.step(BIG, 1280, 64, 0.4).optimizer * cost.H200.memory_rate
    assert moved == pytest.approx((2 * 16 - 4) * BIG.parameters)
    assert (cost.step(BIG, 1280, 64, 0.4, sharded=True).optimizer * cost.H200.memory_rate
            == pytest.approx(moved / 64))


def test_sharding_divides_the_state_and_pays_for_each_micro_batch():
    whole, shared = cost.memory(BIG), cost.memory(BIG, gpus=8, sharded=True)
    assert whole.state == 8 * shared.state and whole.activations == shared.activations
    few, many = (cost.step(BIG, 1280, 64, 0.4, sharded=True, sequences=k).communication
                 for k in (10, 5))
    assert many == 2 * few


def test_memory_holds_bfloat16_weights_and_float32_logits_with_their_gradients():
    configuration = small("additive")
    model = configuration.model()
    logits = model(torch.randint(200, (3, 64)))
    found = cost.memory(cost.size(configuration), sequences=3)
    assert found.logits == 2 * logits.nbytes
    assert found.copies == sum(p.nbytes for p in model.bfloat16().parameters())
    gathered = cost.memory(BIG, gpus=64, sharded=True).copies
    assert gathered == pytest.approx(2 * 2 * BIG.parameters / BIG.layers)     # two blocks


@pytest.mark.parametrize("gpus, every", [(8, None), (8, 6), (64, 6)])
def test_what_fits_fits_and_one_more_does_not(gpus, every):
    assert cost.sequences_that_fit(BIG, cost.H200, 1) == 0  # the state alone is too large
    fits = cost.sequences_that_fit(BIG, cost.H200, gpus, True, every)
    held, too_much = (cost.memory(BIG, gpus, k, True, every).total for k in (fits, fits + 1))
    assert held <= cost.H200.memory < too_much
