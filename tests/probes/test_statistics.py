import pytest
import torch

from geolab.probes import statistics_by_layer


def test_statistics_by_hand():
    found = statistics_by_layer([torch.tensor([[-1.0, 3.0], [1.0, 1.0]]),
                                 torch.tensor([0.5], requires_grad=True)], threshold=1.0)
    assert found.mean.tolist() == [1.0, 0.5]
    assert found.std.tolist() == [2**0.5, 0.0]
    assert found.smallest.tolist() == [-1.0, 0.5] and found.largest.tolist() == [3.0, 0.5]
    assert found.below.tolist() == [0.25, 1.0]
    assert not found.mean.requires_grad


def test_layers_may_differ_in_shape_and_come_from_a_generator():
    assert statistics_by_layer((torch.full((n, 2), float(n)) for n in (1, 2, 3)),
                               threshold=2).below.tolist() == [1.0, 0.0, 0.0]


def test_no_layer_is_refused():
    with pytest.raises(ValueError, match="values must contain at least one layer"):
        statistics_by_layer([], threshold=0)
