"""The cost model against counts on a small model: parameters and bytes of a training step.

Chapter 24 and `book/further_kernels` assert its operations, its activations and its times.
"""

from dataclasses import replace

import pytest
import torch

from benchmarks import cost
from geolab.models import TransformerConfig
from studies.claims import Configuration

DDL = TransformerConfig.ddl(width=96, layers=2, heads=2, max_length=64)
BIG = cost.Size(27e9, layers=30, width=2560, length=4096, residual="streams", n=4, active=4e9)
PLAIN = replace(BIG, residual="additive", n=1)


def small(residual: str) -> Configuration:
    return Configuration("DDL", "a small one", DDL, residual, vocabulary=200)


@pytest.mark.parametrize("residual, kind, n", [
    ("additive", "additive", 1), ("delta", "delta", 1), ("delta-matrix", "delta", 4),
    ("mhc", "streams", 4)])
def test_a_size_knows_the_residuals_state(residual, kind, n):
    found = cost.size(small(residual))
    assert (found.residual, found.n) == (kind, n)
    assert found.parameters == sum(p.numel() for p in small(residual).model().parameters())


def test_adamw_holds_sixteen_bytes_per_parameter():
    model = small("mhc").model()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randint(200, (1, 8))).sum().backward()
    optimizer.step()
    held = sum(p.nbytes + p.grad.nbytes for p in model.parameters())
    held += sum(t.nbytes for state in optimizer.state.values() for t in state.values() if t.dim())
    assert cost.memory(cost.size(small("mhc"))).state == held


def test_what_data_parallel_and_sharded_steps_send():
    configuration, wire = small("additive"), replace(cost.H200, link=1, network=1)
    gradients = sum(p.nbytes for p in configuration.model().parameters())
    found, share = cost.size(configuration), 15 / 16
    assert cost.step(found, 16, 16, 0.4, wire).communication == pytest.approx(2 * share * gradients)
    sharded = cost.step(found, 16, 16, 0.4, wire, sharded=True).communication
    assert sharded == pytest.approx(share * (2 * gradients / 2 + gradients))


def test_memory_holds_bfloat16_weights_and_float32_logits_with_their_gradients():
    configuration = small("additive")
    model = configuration.model()
    logits = model(torch.randint(200, (3, 64)))
    found = cost.memory(cost.size(configuration), sequences=3)
    assert found.logits == 2 * logits.nbytes
    assert found.copies == sum(p.nbytes for p in model.bfloat16().parameters())


def test_streams_keep_more_vectors_and_fewer_where_they_are_recomputed():
    plain, few, whole = (cost.activation_vectors(PLAIN), cost.activation_vectors(BIG, 6),
                         cost.activation_vectors(BIG))
    assert plain < few < whole
    assert cost.activation_vectors(BIG, 60) - cost.activation_vectors(BIG, 30) == 6 * 30 - 4


def test_sharding_divides_the_state_gathers_two_blocks_and_pays_for_each_micro_batch():
    whole, shared = cost.memory(BIG), cost.memory(BIG, gpus=64, sharded=True)
    assert whole.state == 64 * shared.state and whole.activations == shared.activations
    assert shared.copies == pytest.approx(2 * 2 * BIG.parameters / BIG.layers)
    assert cost.sequences_that_fit(BIG, cost.H200) == 0 < cost.sequences_that_fit(
        BIG, cost.H200, 64, True)
    few, many = (cost.step(BIG, 1280, 64, 0.4, sharded=True, sequences=k) for k in (10, 5))
    assert many.communication == 2 * few.communication


@pytest.mark.parametrize("call, message", [
    (lambda: cost.gather_seconds(1e9, 12, cost.H200), "gpus must fill"),
    (lambda: cost.step(BIG, 1280, 64, 1.5), "utilisation"),
    (lambda: cost.activation_vectors(PLAIN, 6), "every")])
def test_what_can_not_be_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
