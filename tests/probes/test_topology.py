import math
import sys

import pytest
import torch
from torch.testing import assert_close

from geolab.probes import persistence, total_persistence


def polygon(count):
    angles = 2 * math.pi * torch.arange(count, dtype=torch.float64) / count
    return torch.stack([angles.cos(), angles.sin()], dim=1)


@pytest.mark.parametrize("count", [4, 5, 6, 7, 12, 40])
def test_a_polygon_has_one_loop_born_at_its_side_and_dead_at_the_chord_over_a_third(count):
    points = polygon(count)
    bars = persistence(points) * torch.pdist(points).quantile(0.5)
    chord = [2 * math.sin(math.pi * k / count) for k in (1, math.ceil(count / 3))]
    assert_close(bars, torch.tensor([chord], dtype=torch.float64), rtol=0, atol=1e-12)


def test_components_of_a_line_live_as_long_as_its_gaps():
    # distances 1 2 3 4 6 7, median 3.5
    bars = persistence(torch.tensor([[0.0], [1.0], [3.0], [7.0]]), dimension=0)
    assert_close(bars, torch.tensor([[0.0, 4], [0, 2], [0, 1]], dtype=torch.float64) / 3.5)
    assert float(total_persistence(bars)) == pytest.approx(7 / 3.5)


def test_without_the_library_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gudhi", None)
    with pytest.raises(ImportError, match=r'pip install "geolab\[topology\]"'):
        persistence(polygon(5))
