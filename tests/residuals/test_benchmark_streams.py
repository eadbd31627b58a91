import numpy as np
import torch
from shared import CLOSE, WIDTH, shaken, sublayer, vectors
from torch.testing import assert_close

from geolab.models import Transformer, TransformerConfig
from geolab.probes import spectrum
from geolab.residuals import BenchmarkJPmHC, BenchmarkMHC, JPmHC


def numbers(module):
    return sum(p.numel() for p in module.parameters())


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def mhc_by_hand(residual, x, mix):
    """One token: the benchmark's forward pass in numpy.

    The 1e-8 in its Sinkhorn denominators is left out.
    """
    w = {name: p.detach().numpy() for name, p in residual.named_parameters()}
    normed = w["maps.norm_weight"] * x / np.sqrt(np.mean(x**2) + 1e-6)
    logits = w["maps.generate.weight"] @ normed
    read = sigmoid(w["maps.scale"][0] * logits[:4] + w["maps.bias"][:4])
    write = 2 * sigmoid(w["maps.scale"][1] * logits[4:8] + w["maps.bias"][4:8])
    m = np.exp((w["maps.scale"][2] * logits[8:] + w["maps.bias"][8:]).reshape(4, 4))
    for _ in range(20):
        m = m / m.sum(1, keepdims=True)
        m = m / m.sum(0, keepdims=True)
    slices = x.reshape(4, -1)
    update = mix(torch.from_numpy(np.tile(read @ slices, 4))).detach().numpy().reshape(4, -1)
    return (m @ slices + write[:, None] * update).reshape(-1)


def test_mhc_is_the_equation_written_out():
    residual, mix, x = shaken(BenchmarkMHC(WIDTH).double()), sublayer(), vectors(2, 5, WIDTH)
    step = residual(x, mix)
    for b, t in np.ndindex(2, 5):
        assert_close(step[b, t], torch.from_numpy(mhc_by_hand(residual, x[b, t].numpy(), mix)),
                     **CLOSE)


def test_mhc_starts_far_from_the_identity():
    torch.manual_seed(0)
    read, write, mix = BenchmarkMHC(128).coefficients(torch.randn(2, 5, 128))
    eye = torch.eye(4).bool().expand_as(mix)
    assert (mix[eye] - 0.711).abs().max() < 0.01 and (mix[~eye] - 0.096).abs().max() < 0.01
    assert (spectrum(mix).singular_values[..., 1] - 0.615).abs().max() < 0.01
    assert (read - 0.5).abs().max() < 0.01 and (write - 1).abs().max() < 0.01


def test_mhc_can_start_near_the_identity():
    published, near = BenchmarkMHC(128), BenchmarkMHC(128, diagonal=8.0)
    mix = near.coefficients(torch.randn(2, 5, 128)).mix
    assert (mix - torch.eye(4)).abs().max() < 2e-3
    assert numbers(near) == numbers(published)


def test_table_5_counts():
    # the published sizes hold 64 positions, and not the maps from data to features and back
    mhc = Transformer(TransformerConfig.benchmark(layers=9, max_length=64), "benchmark-mhc")
    assert numbers(mhc) == 1_838_182                                  # published: 1.838M
    jpmhc = Transformer(TransformerConfig.benchmark(layers=7, max_length=64), "benchmark-jpmhc")
    # positions, last norm, ends: D against 4D features
    ours, published = (64 + 1) * 128 + 2 * 4 * 128, (64 + 1) * 512
    assert numbers(jpmhc) - ours + published == 1_770_414             # published: 1.771M


def test_jpmhc_is_jpmhc_with_generators_that_start_as_noise():
    benchmark = BenchmarkJPmHC(128, retraction="exact")
    assert isinstance(benchmark, JPmHC) and benchmark.retraction == "exact"
    weight = benchmark.generate.weight
    assert abs(weight.std().item() / 0.02 - 1) < 0.05 and not benchmark.generate.bias.any()
    read, write, mix = benchmark.coefficients(torch.randn(2, 5, 4, 128))
    assert read.std() > 0.01 and write.std() > 0.01 and (mix - torch.eye(4)).abs().max() > 0.01
