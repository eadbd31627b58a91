import pytest
import torch
from torch.testing import assert_close

from geolab.residuals.pooling import BlockDiagonal, Generator, pool

CLOSE = dict(rtol=1e-12, atol=1e-12)


def vectors(T=7, D=6):
    return torch.randn(2, T, D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_causal_is_the_mean_so_far():
    x = vectors()
    for t in range(7):
        assert_close(pool(x, "causal")[:, t], x[:, :t + 1].mean(1), **CLOSE)


def test_token_is_x_and_sequence_one_mean_for_all():
    x = vectors()
    assert pool(x, "token") is x
    assert_close(pool(x, "sequence"), x.mean(1)[:, None], **CLOSE)


def test_half_precision_adds_up_in_float():
    x = torch.full((1, 3000, 1), 1.0, dtype=torch.bfloat16)
    assert pool(x, "causal").dtype == torch.bfloat16
    assert (pool(x, "causal") == 1).all()  # a sum in bfloat16 stands still at 256


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("how", ["causal", "token", "sequence"])
def test_generator_is_linear_gelu_linear_of_what_is_pooled(how, normalise):
    torch.manual_seed(0)
    generator, x = Generator(6, 5, 3, how, normalise).double(), vectors()
    pooled = pool(x, how)
    if normalise:
        centred = pooled - pooled.mean(-1, keepdim=True)
        pooled = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    hidden = pooled @ generator[0].down.weight.T + generator[0].down.bias
    hidden = hidden * (1 + torch.erf(hidden / 2**0.5)) / 2
    assert_close(generator(x), hidden @ generator[1].weight.T + generator[1].bias, **CLOSE)


def test_block_diagonal_maps_lie_side_by_side():
    torch.manual_seed(0)
    blocks = BlockDiagonal(3, (2, 1, 4)).double()
    torch.nn.init.normal_(blocks.bias)
    x = vectors(D=9)
    alone = [part @ weight.T for part, weight in zip(x.split(3, dim=-1),
                                                     blocks.weight.split((2, 1, 4)))]
    assert_close(blocks(x), torch.cat(alone, dim=-1) + blocks.bias, **CLOSE)


@pytest.mark.parametrize("how", ["causal", "token", "sequence"])
def test_nets_side_by_side_are_generators_of_their_own(how):
    torch.manual_seed(0)
    generator, x = Generator(6, 5, (3, 1), how).double(), vectors()
    for part, numbers in zip((0, 1), generator(x).split((3, 1), dim=-1)):
        alone = Generator(6, 5, (3, 1)[part], how).double()
        rows, outputs = slice(5 * part, 5 * part + 5), (slice(0, 3), slice(3, 4))[part]
        alone.load_state_dict({
            "0.down.weight": generator[0].down.weight[rows],
            "0.down.bias": generator[0].down.bias[rows],
            "1.weight": generator[1].weight[outputs], "1.bias": generator[1].bias[outputs]})
        assert_close(numbers, alone(x), **CLOSE)


@pytest.mark.parametrize("how", ["mean", "", "Causal"])
def test_an_unknown_pool_is_refused(how):
    message = f"^pool must be one of 'causal', 'token', 'sequence', got {how!r}$"
    with pytest.raises(ValueError, match=message):
        pool(vectors(), how)
    with pytest.raises(ValueError, match=message):
        Generator(6, 5, 3, how)
