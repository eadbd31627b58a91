"""What an operator refuses, by name. Shapes that its kernel refuses alike are in tests/kernels."""

import pytest
import torch
from torch import ones

from geolab import operators
from geolab.operators.generate import Maps
from geolab.operators.joined import Form
from geolab.residuals.mixing import mixes

K, LONG = operators.unit_direction(ones(2, 3)), torch.tensor([3.0, 4.0])
X, W = ones(3, 4, 5), ones(24, 20)


def joined(weight=W, scale=ones(3), bias=ones(24), read=None, **form):
    return operators.constrained_join(X, Maps(weight, scale, bias), Form(**form), read)


REFUSED = [
    (lambda: operators.skew(ones(2, 3, 5)), r"w must be n × n .* got shape \(2, 3, 5\)"),
    (lambda: operators.cayley_iterated(ones(2, 3, 5)), r"w must be n × n .* \(2, 3, 5\)"),
    (lambda: operators.cayley_iterated(ones(2, 2), start="zero"),
     "start must be one of 'shifted', 'identity', got 'zero'"),
    (lambda: operators.delta_matrix(LONG / 10, 1.0), r"direction .* got length 0\.5;.*"),
    (lambda: operators.householder_matrix(LONG), "direction .*unit length .*got length 5;.*"),
    (lambda: operators.reflect(ones(2), LONG), "direction must have unit length .*got length 5;.*"),
    # vmap hides the numbers
    (lambda: torch.func.vmap(torch.func.jacrev(operators.householder_matrix))(
        torch.stack([LONG / 5, LONG])), "direction must have unit length .*got length 5;.*"),
    (lambda: operators.reflect(ones(4), ones(1)),
     r"direction must have 4 features .*got shape \(1,\)"),
    (lambda: operators.delta_shortcut(ones(2, 4, 5), K, ones(2)),
     r"direction must have 4 features .*got shape \(2, 3\)"),
    (lambda: operators.delta_shortcut(ones(3), K, ones(2)),
     r"x must have as many axes .* got \(3,\) with direction \(2, 3\)"),
    (lambda: operators.blend(X, X, 1.5), "gate must be from 0 to 1, got 1.5"),
    (lambda: operators.gated_mix(X, ones(3, 4), ones(3, 4), ones(3), gate=ones(3)),
     "direction must be given with gate, got None"),
    (lambda: operators.gated_mix(X, ones(3, 5), ones(3, 5), ones(3)),
     r"u must have 4 features along its last axis, got shape \(3, 5\)"),
    (lambda: operators.sinkhorn(ones(4)), r"logits must be n × n .* got shape \(4,\)"),
    (lambda: operators.sinkhorn(ones(2, 2), eps=-1.0), "eps must be at least 0, got -1.0"),
    (lambda: operators.sinkhorn(ones(2, 2), form="log", eps=1e-6),
     "eps must be 0 with form='log', which has no sums to guard, got 1e-06"),
    (lambda: joined(W[:23]), "weight must have 24 rows for 4 streams, got 23"),
    (lambda: joined(scale=ones(4)), "scale must have 3 rows for 4 streams, got 4"),
    (lambda: joined(bias=ones(23)), "bias must have 24 rows for 4 streams, got 23"),
    (lambda: joined(iterations=0), "iterations must be at least 1, got 0"),
    (lambda: joined(order="rows"),
     "order must be one of 'column-row', 'row-column', got 'rows'"),
    (lambda: joined(eps=-2.0), "eps must be at least 0, got -2.0"),
    (lambda: joined(write_eps=-1.0), "write_eps must be at least 0, got -1.0"),
    (lambda: joined(norm_eps=-1.0), "norm_eps must be at least 0, got -1.0"),
    (lambda: joined(read=ones(3, 5)), "read must have 4 features .*"),
    (lambda: operators.permutation_mixture(ones(5), 3), "logits must have 6 features along .*"),
    (lambda: operators.permutation_mixture(ones(5), 7),
     "streams must be at most 6 for all permutations, got 7"),
    (lambda: operators.kronecker_mixture(ones(3)), "logits must have 2 features along .*"),
    (lambda: operators.orthostochastic(ones(5), 2), "logits must have 6 features along .*"),
    (lambda: operators.orthostochastic(ones(5), 2, 0), "blocks must be at least 1, got 0"),
    (lambda: mixes()["kronecker"].count(6),
     "streams must be a power of 2 for mix='kronecker', got 6"),
]


@pytest.mark.parametrize("call, message", REFUSED, ids=[message for _, message in REFUSED])
def test_a_bad_argument_is_named(call, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        call()
