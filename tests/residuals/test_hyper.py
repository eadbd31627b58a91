import math

import numpy as np
import pytest
import torch
from shared import CLOSE, STREAMS, WIDTH, shaken, sublayer, vectors
from torch.testing import assert_close

from geolab.residuals import HyperConnections

FORMS = [dict(dynamic=False), dict(tanh=True), dict(tanh=False)]
every_form = pytest.mark.parametrize("options", FORMS,
                                     ids=["static", "dynamic", "dynamic without tanh"])


def by_hand(residual, x, mix):
    """One token, n streams: the paper's equations with loops."""
    n, w = len(x), {name: p.detach().numpy() for name, p in residual.named_parameters()}
    table = w["static"].reshape(n, n + 2).copy()
    if residual.dynamic:
        for j in range(n):
            normed = (x[j] - x[j].mean()) / math.sqrt(x[j].var() + 1e-5)
            numbers = w["generate.weight"] @ normed
            numbers = np.tanh(numbers) if residual.tanh else numbers
            table[j] += np.where(np.arange(n + 2) == 0, w["scale"][0], w["scale"][1]) * numbers
    write, read, a = table[:, 0], table[:, 1], table[:, 2:]
    h = mix(torch.from_numpy(sum(read[j] * x[j] for j in range(n)))).detach().numpy()
    return np.stack([sum(a[j, i] * x[j] for j in range(n)) + write[i] * h for i in range(n)])


@every_form
def test_forward_is_the_equation_written_out(options):
    residual = shaken(HyperConnections(WIDTH, index=2, count=6, **options).double())
    mix, x = sublayer(), vectors(2, 5, STREAMS, WIDTH)
    step = residual(x, mix)
    for b, t in np.ndindex(2, 5):
        assert_close(step[b, t], torch.from_numpy(by_hand(residual, x[b, t].numpy(), mix)), **CLOSE)


def test_the_streams_leave_as_their_sum():
    x = vectors(2, 5, STREAMS, WIDTH)
    assert_close(HyperConnections(WIDTH).reduce(x), x.sum(-2), **CLOSE)


@pytest.mark.parametrize("index", range(6))
def test_sublayers_read_the_streams_in_turn(index):
    residual = HyperConnections(WIDTH, index, 6)
    read, write, mix = residual.coefficients(torch.randn(1, 2, STREAMS, WIDTH))
    assert torch.equal(read, torch.eye(STREAMS)[index % STREAMS].expand(1, 2, -1))
    assert torch.equal(write, torch.ones(1, 2, STREAMS))
    assert torch.equal(mix, torch.eye(STREAMS).expand(1, 2, -1, -1))
