"""What a probe refuses, by name."""

from collections import namedtuple

import pytest
import torch
from torch import nn

from geolab import probes

ONES, ZEROS, EYE = torch.ones, torch.zeros, torch.eye
PATTERN = torch.tensor([1.0, -1, -1, 1]).repeat(6)[:, None]
WHAT_SAYS = "operator must have a shortcut, or the field mix, or direction and beta, got"
NO_WINDOW = "window must be from 3 to the 12 positions of h, got"
NO_STACK = r"matrices must be \(layers, ..., n, n\), got shape"
REFUSED = [
    *((lambda x=x: probes.influence(lambda x: x, x), "x must be vectors .* or integer tokens .*")
      for x in (ZEROS(2, 3), ZEROS(2, 3, 4, dtype=torch.long))),
    (lambda: probes.influence(lambda x: x, torch.full((2, 3), 7)),
     r".*at least two different tokens, got only \[7\].*"),
    (lambda: probes.order_sensitivity(dict.fromkeys("01234", torch.neg), ONES(2, 3)),
     "operators must contain 2 to 4 maps.*'0'.*"),
    (lambda: probes.order_sensitivity(dict.fromkeys("ab", torch.neg), ONES(2, 3), about="mean"),
     "about must be one of 'input', 'sum', got 'mean'"),
    (lambda: probes.pairwise({"a": torch.neg}, ONES(2, 3)),
     r"operators must contain at least 2 maps to pair, got \['a'\]"),
    (lambda: probes.asymmetry(torch.neg, torch.exp, ZEROS(2, 3)), "x must not be zero.*"),
    (lambda: probes.states(nn.Linear(2, 2), [], ONES(2)),
     "layers must contain at least one module.*"),
    (lambda: probes.dirichlet_energy(ONES(3)), "h must be.*"),
    (lambda: probes.dirichlet_energy(torch.stack([ONES(4, 3), ZEROS(4, 3)])),
     "h must not be zero.*"),
    (lambda: probes.cech_residual(PATTERN, 8, 4), "h must not be orthogonal to every fit.*"),
    (lambda: probes.cech_residual(ONES(12, 3), window=2), f"{NO_WINDOW} 2"),
    (lambda: probes.cech_residual(ONES(12, 3), window=13), f"{NO_WINDOW} 13"),
    (lambda: probes.cech_residual(ONES(12, 3), window=8, stride=7),
     "stride must be from 1 to window − 2 = 6, got 7"),
    (lambda: probes.cech_residual(ONES(12, 3), window=8, stride=6),
     ".*room for two windows, 14 positions, got 12.*"),
    (lambda: probes.effective_rank(ZEROS(3, 3)), "x must not be zero: .*"),
    (lambda: probes.effective_rank(ONES(3, 3), center=True),
     "x must not be zero after centring: .*"),
    (lambda: probes.effective_rank(torch.stack([EYE(3), ZEROS(3, 3)])), "x must not be zero: .*"),
    (lambda: probes.linear_readout(ZEROS(3, 2), ZEROS(4, dtype=torch.long)),
     r"x must be .*, got shapes \(3, 2\) and \(4,\)"),
    (lambda: probes.shortcut_matrix(()), f"{WHAT_SAYS} none"),
    (lambda: probes.shortcut_matrix(namedtuple("Gated", "gate beta")(1, 2)),
     f"{WHAT_SAYS} gate, beta"),
    (lambda: probes.spectrum(ZEROS(2, 3)), "matrix must be n × n.*"),
    *((lambda of=of, shape=shape: of(ZEROS(shape)), rf"{NO_STACK} \({shape[0]}, .*\)")
      for of in (probes.composite_gain, probes.stream_consensus) for shape in ((4, 4), (3, 4, 5))),
    (lambda: probes.stream_consensus(ONES(3, 1, 1)), ".*at least 2 streams.*"),
    (lambda: probes.persistence(ONES(129, 2)),
     r"points must be .* most = 128, got shape \(129, 2\): take a sample.*"),
    (lambda: probes.persistence(ONES(2, 8, 3)), "points must be .*"),
    (lambda: probes.persistence(EYE(8), dimension=2), "dimension must be 0 or 1, got 2"),
    (lambda: probes.persistence(ONES(8, 3)), "points must be distinct.*"),
    (lambda: probes.token_jacobian(torch.tanh, ONES(2, 3, 4), 0), "x must be one sequence.*"),
    *((lambda at=at: probes.token_jacobian(torch.tanh, ONES(1, 4, 3), at),
       f"position must be one of 4 tokens, from -4 to 3, got {at}") for at in (4, -5)),
    (lambda: probes.statistics_by_layer([], threshold=0),
     "values must contain at least one layer"),
    (lambda: probes.statistics_by_layer([ONES(2), ZEROS(0)], threshold=0),
     r"values must contain a number in each layer, got a layer of shape \(0,\)"),
    (lambda: probes.statistics_by_layer([ONES(2)], threshold=float("nan")),
     "threshold must be a finite number, got nan"),
    (lambda: probes.between_writes([ONES(3, 4)]), "writes must be at least 2, got 1"),
    (lambda: probes.influence(lambda x: x.detach(), ONES(1, 2, 3)),
     "model must give an output with a gradient, .* got one without"),
    (lambda: probes.effective_rank(ONES(3)), r"x must be \(..., S, D\), got shape \(3,\)"),
    (lambda: probes.cech_residual(ONES(12, 3), window=8.0),
     "window must be a whole number, got 8.0"),
    *((lambda x=x, labels=labels: probes.linear_readout(x, labels), "labels must be int64, .*")
      for x, labels in ((ONES(4, 2), ONES(4)), (ONES(1, 2), ZEROS(1, dtype=torch.long)))),
    (lambda: probes.linear_readout(ONES(4, 2), ZEROS(4, dtype=torch.long), ridge=-1.0),
     "ridge must be at least 0, got -1.0"),
]


@pytest.mark.parametrize("call, message", REFUSED, ids=[message for _, message in REFUSED])
def test_what_can_t_be_measured_is_refused(call, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        call()
