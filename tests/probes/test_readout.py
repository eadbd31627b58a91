import torch

from geolab.probes import linear_readout

LABELS = torch.randint(10, (4000,), generator=torch.Generator().manual_seed(0))


def states(noise, seed=0, size=1.0):
    generator = torch.Generator().manual_seed(seed)
    codes = size * torch.randn(10, 16, generator=generator).double()
    return codes[LABELS] + 5 + noise * torch.randn(len(LABELS), 16, generator=generator).double()


def test_a_code_is_read_and_noise_is_chance():
    assert linear_readout(states(0.0), LABELS) == 1
    assert abs(linear_readout(states(1.0, size=0.0), LABELS) - 0.1) < 0.03


def test_size_and_place_do_not_matter():
    x = states(1.0)
    assert linear_readout(x, LABELS) == linear_readout(1e-3 * x + 7, LABELS)


def test_labels_of_the_second_half_are_not_seen():
    x = torch.randn(4000, 16, generator=torch.Generator().manual_seed(1))
    shuffled = LABELS.clone()
    shuffled[2000:] = (LABELS[2000:] + 3) % 10
    read = linear_readout(states(0.0), shuffled)
    assert read == 0 and abs(linear_readout(x, LABELS) - 0.1) < 0.03
