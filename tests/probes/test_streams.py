import pytest
import torch
from shared import normal
from torch.testing import assert_close

from geolab.operators import sinkhorn
from geolab.probes import composite_gain, stream_consensus

CLOSE = dict(rtol=0, atol=1e-12)


def doubly_stochastic(*shape, seed=0):
    return sinkhorn(normal(*shape, seed=seed), iterations=500)


def test_gain_is_that_of_the_product_from_a_layer_to_the_end():
    h = normal(3, 4, 4)
    products = [h[2] @ h[1] @ h[0], h[2] @ h[1], h[2]]
    gain = composite_gain(h)
    assert_close(gain.forward, torch.stack([p.abs().sum(1).max() for p in products]), **CLOSE)
    assert_close(gain.backward, torch.stack([p.abs().sum(0).max() for p in products]), **CLOSE)


def test_gain_by_hand_tells_signal_from_gradient():
    gain = composite_gain(torch.tensor([[[1.0, -2.0], [0.0, 1.0]]]))
    assert gain.forward.tolist() == [3.0] and gain.backward.tolist() == [3.0]
    gain = composite_gain(torch.tensor([[[1.0, 0.0], [1.0, 0.0]]]))
    assert gain.forward.tolist() == [1.0] and gain.backward.tolist() == [2.0]


def test_gain_is_averaged_over_tokens_and_not_taken_of_their_mean():
    # one layer, three tokens
    h = torch.stack([torch.eye(2), -torch.eye(2), 4 * torch.eye(2)]).view(1, 1, 3, 2, 2)
    assert composite_gain(h).forward.tolist() == [2.0]


def test_consensus_is_the_second_singular_value_of_the_product():
    h = doubly_stochastic(5, 2, 4, 4)
    found, product = stream_consensus(h), torch.eye(4, dtype=torch.float64)
    assert found.shape == (5, 2)
    for layer, matrix in enumerate(h):
        product = matrix @ product
        assert_close(found[layer], torch.linalg.svdvals(product)[:, 1], rtol=0, atol=1e-9)
    assert (found.diff(dim=0) <= 1e-12).all()


def test_what_goes_into_the_mean_does_not_count():
    # the difference (1, −1) becomes the common vector (2, 2)
    to_all = torch.tensor([[2.0, 0.0], [2.0, 0.0]])
    assert stream_consensus(to_all[None]).item() == 0
    assert stream_consensus(torch.tensor([[[3.0, 0.0], [0.0, 3.0]]])).item() == pytest.approx(3)


@pytest.mark.parametrize("probe", [composite_gain, stream_consensus])
def test_no_gradient_is_kept(probe):
    out = probe(normal(2, 4, 4).requires_grad_())
    assert not any(part.requires_grad for part in (out if isinstance(out, tuple) else (out,)))
