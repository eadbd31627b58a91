"""What an operator refuses, by name. Shapes that its kernel refuses alike are in tests/kernels."""

import pytest
import torch

from geolab import operators
from geolab.residuals.mixing import mixes

ONES, K = torch.ones, operators.unit_direction(torch.ones(2, 3))
LONG = torch.tensor([3.0, 4.0])
NOT_SQUARE = r" along its last two axes, got shape \(2, 3, 5\)"
PLANE = [ONES(3, 4) for _ in range(2)]
REFUSED = [
    (lambda: operators.skew(ONES(2, 3, 5)), "w must be n × n" + NOT_SQUARE),
    (lambda: operators.cayley_iterated(ONES(2, 3, 5)), "w must be n × n" + NOT_SQUARE),
    (lambda: operators.cayley_iterated(ONES(2, 2), start="zero"),
     "start must be one of 'shifted', 'identity', got 'zero'"),
    (lambda: operators.cayley_skew4(ONES(2, 3, 5)), "w must be 4 × 4" + NOT_SQUARE),
    (lambda: operators.cayley_skew4(ONES(3, 3)), r"w must be 4 × 4 .* got shape \(3, 3\)"),
    (lambda: operators.delta_matrix(LONG / 10, 1.0),
     r"direction must have unit length .*got length 0\.5;.*"),
    (lambda: operators.householder_matrix(LONG),
     "direction must have unit length .*got length 5;.*"),
    (lambda: operators.reflect(ONES(2), LONG), "direction must have unit length .*got length 5;.*"),
    (lambda: torch.func.vmap(torch.func.jacrev(operators.householder_matrix))(
        torch.stack([LONG / 5, LONG])), "direction must have unit length .*got length 5;.*"),
    (lambda: torch.func.vmap(torch.func.jacrev(lambda k: operators.reflect(ONES(2), k)))(
        torch.stack([LONG / 5, LONG])), "direction must have unit length .*got length 5;.*"),
    (lambda: operators.reflect(ONES(4), ONES(1)),
     r"direction must have 4 features .*got shape \(1,\)"),
    *((lambda x=x, of=of: of(x), message) for x, message in (
        (ONES(2, 4), r"direction must have 4 features .*got shape \(2, 3\)"),
        (ONES(2, 4, 5), r"direction must have 4 features .*got shape \(2, 3\)"),
        (ONES(3), r"x must have as many axes .* got \(3,\) with direction \(2, 3\)"),
        (ONES(1, 2, 3, 4), r"x must have .* got \(1, 2, 3, 4\) with direction \(2, 3\)"))
      for of in (lambda x: operators.delta_update(x, K, 0.0, ONES(2)),
                 lambda x: operators.delta_shortcut(x, K, ONES(2)))),
    (lambda: operators.gated_mix(ONES(3, 4, 5), *PLANE, ONES(3), gate=ONES(3)),
     "direction must be given with gate, got None"),
    (lambda: operators.gated_mix(ONES(3, 4, 5), ONES(3, 5), ONES(3, 5), ONES(3)),
     r"u must have 4 features along its last axis, got shape \(3, 5\)"),
    *((lambda given=given: operators.stream_mix_write(ONES(4, 8), *given),
       f"{name} must have leading axes that broadcast to those of x, .*")
      for name, given in (("matrix", (ONES(5, 4, 4), ONES(4), ONES(8))),
                          ("weights", (ONES(4, 4), ONES(5, 4), ONES(8))),
                          ("update", (ONES(4, 4), ONES(4), ONES(5, 8))))),
    (lambda: operators.sinkhorn(ONES(2, 3, 4)), r"logits must be n × n .* got shape \(2, 3, 4\)"),
    (lambda: operators.sinkhorn(ONES(4)), r"logits must be n × n .* got shape \(4,\)"),
    (lambda: operators.sinkhorn(ONES(2, 2), eps=-1.0), "eps must be at least 0, got -1.0"),
    (lambda: operators.sinkhorn(ONES(2, 2), form="log", eps=1e-6),
     "eps must be 0 with form='log', which has no sums to guard, got 1e-06"),
    (lambda: operators.permutation_mixture(ONES(5), 3), "logits must have 6 features along .*"),
    (lambda: operators.permutation_mixture(ONES(5), 7),
     "streams must be at most 6 for all permutations, got 7"),
    (lambda: operators.permutation_mixture(ONES(5), 0), "streams must be at least 1, got 0"),
    (lambda: operators.kronecker_mixture(ONES(3)), "logits must have 2 features along .*"),
    (lambda: operators.orthostochastic(ONES(5), 2), "logits must have 6 features along .*"),
    (lambda: operators.orthostochastic(ONES(5), 2, 0), "blocks must be at least 1, got 0"),
    (lambda: mixes()["kronecker"].count(6),
     "streams must be a power of 2 for mix='kronecker', got 6"),
]


@pytest.mark.parametrize("call, message", REFUSED, ids=[message for _, message in REFUSED])
def test_a_bad_argument_is_named(call, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        call()
