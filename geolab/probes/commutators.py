"""Measure whether the order of two maps matters: their commutator, its linearisations, and ratios.

    T = id + Δ      R = T_i(T_j x) − T_j(T_i x) = a − b
    a = Δ_i(x + Δ_j x) − Δ_i x      the response of i to the step of j
    b = Δ_j(x + Δ_i x) − Δ_j x      the response of j to the step of i

Every function takes the maps T themselves, as they run in the model with residual and norm, and
forms Δ = T − id. Norms ‖·‖² are sums over all axes of x, including the batch: a measure is a ratio
of sums, not a mean of ratios. `tokens` says which positions count in the sums. slice(1, None)
leaves out the first, whose length in a trained network may outweigh all others together. The maps
themselves always see all positions. Equations are numbered as in the Geometric Transformer lecture.

Legend: i `first`, j `second`; J Jacobian of Δ; ε scale of Δ; B batch, T positions, D width; x is
(..., D).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, reduce
from itertools import combinations, permutations
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from geolab.checks import require_option
from geolab.operators import widened

Map = Callable[[Tensor], Tensor]   # a tensor to one of the same shape
Tokens = slice | Tensor            # an index of the positions, the axis before the last
ALL = slice(None)
ROUNDING = 16                      # responses below this many machine epsilons of x count as none


class Factors(NamedTuple):
    """‖R‖² / ‖x‖² = asymmetry · interaction · step. Each is a scalar."""

    asymmetry: Tensor     # ‖a − b‖² / (‖a‖² + ‖b‖²), in [0, 2]
    interaction: Tensor   # (‖a‖² + ‖b‖²) / (‖Δ_i x‖² + ‖Δ_j x‖²)
    step: Tensor          # (‖Δ_i x‖² + ‖Δ_j x‖²) / ‖x‖²


def commutator(first: Map, second: Map, x: Tensor) -> Tensor:
    """R = first(second(x)) − second(first(x)), of the shape of x (eq. 12)."""
    return first(second(x)) - second(first(x))


def commutator_energy(first: Map, second: Map, x: Tensor, eps: float = 1e-12,
                      tokens: Tokens = ALL) -> Tensor:
    """‖R‖² / (‖x‖² + eps), the lecture's probe: a scalar.

    It shrinks with everything that makes a step small relative to x. `commutator_factors` tells
    these causes apart.
    """
    return _square(commutator(first, second, x), tokens) / (_square(x, tokens) + eps)


def linear_commutator(first: Map, second: Map, x: Tensor) -> Tensor:
    """J_i Δ_j − J_j Δ_i at x (eq. 17). It differs from R by O(ε³) if Δ = O(ε) is smooth.

    R itself is O(ε²). The two are equal where x, x + Δ_i x and x + Δ_j x lie in one region of
    piecewise linear maps. Over a batch a share O(ε) of ReLUs changes sides, each with an error
    O(ε²), so that the root mean square of the error is O(ε^{5/2}).
    """
    return _response(first, x, second(x) - x) - _response(second, x, first(x) - x)


def jacobian_commutator(first: Map, second: Map, x: Tensor) -> Tensor:
    """(J_i J_j − J_j J_i) x (eq. 18): eq. 17 with J x in the place of Δ x.

    They are the same for Δ(sx) = s Δ(x), such as ReLU networks without biases. Under Pre-LN
    Δ(sx) = Δ(x), hence J x = 0: this predicts 0, whatever R is.
    """
    return (_response(first, x, _response(second, x, x))
            - _response(second, x, _response(first, x, x)))


@torch.no_grad()
def commutator_factors(first: Map, second: Map, x: Tensor, tokens: Tokens = ALL) -> Factors:
    """Measure the size of the steps, the strength of their interaction, and the difference of the
    responses.

    The asymmetry is 0 where the responses are equal, 1 where they are orthogonal or only one map
    responds, 2 where they are opposite, and never more: ‖a − b‖² + ‖a + b‖² = 2 (‖a‖² + ‖b‖²). Two
    unrelated directions in many dimensions are nearly orthogonal, so unrelated responses give 1,
    and order is tolerated below 1: 1 − asymmetry is 2⟨a, b⟩ / (‖a‖² + ‖b‖²).

    To leading order a = J_i Δ_j and b = J_j Δ_i. Both are linear in the scale of Δ_i and of Δ_j,
    and both fall as 1/s under Pre-LN at an input s x, so the asymmetry depends on neither.
    `interaction` and `step` do.

    A Post-LN step isn't the identity plus a small step. Where x isn't normalised, Δ is mostly the
    norm's pull, which both maps share: a and b agree on it, and the asymmetry falls towards 0
    whatever the sublayers do. So take a normalised x, as blocks get it there, and steps well above
    the norm's eps.

    Returns: The asymmetry is nan where nothing responds (to rounding), and the interaction is nan
        where there is no step. Both are 0/0 there, and a 0 would count as agreement in a mean over
        pairs.
    Raises: ValueError when x is zero.
    """
    if not x.any():
        raise ValueError("x must not be zero: a step has no size relative to it")
    at_first, at_second = first(x), second(x)
    delta_i, delta_j = at_first - x, at_second - x
    a = first(at_second) - at_second - delta_i
    b = second(at_first) - at_first - delta_j
    of = partial(_square, tokens=tokens)
    steps, responses, size = of(delta_i) + of(delta_j), of(a) + of(b), of(x)
    return Factors(_share(of(a - b), responses, size + steps, x.dtype),
                   _share(responses, steps, size + steps, x.dtype), steps / size)


def asymmetry(first: Map, second: Map, x: Tensor, tokens: Tokens = ALL) -> Tensor:
    """‖a − b‖² / (‖a‖² + ‖b‖²), in [0, 2]: see `commutator_factors`."""
    return commutator_factors(first, second, x, tokens).asymmetry


def pairwise(operators: Mapping[str, Map], x: Tensor,
             measure: Callable = commutator_energy) -> dict[tuple[str, str], float]:
    """`measure`(T_i, T_j, x) of each pair of named maps, the earlier one first.

    The lecture's curves are means over the pairs.

    Raises: ValueError for fewer than two operators.
    """
    if len(operators) < 2:
        raise ValueError(f"operators must contain at least 2 maps to pair, got {list(operators)}")
    with torch.no_grad():
        return {(i, j): float(measure(operators[i], operators[j], x))
                for i, j in combinations(operators, 2)}


@torch.no_grad()
def order_sensitivity(operators: Mapping[str, Map], x: Tensor, about: str = "input",
                      tokens: Tokens = ALL) -> Tensor:
    """The share of a block's effect that depends on the order of its operators.

        mean over orders π of ‖y_π − ȳ‖² / mean over π of ‖y_π − c‖²

    y_π is x after all operators in order π, ȳ the mean of the y_π. The share lies in [0, 1]: a
    variance is at most the second moment about any point c, because mean ‖y_π − c‖² =
    mean ‖y_π − ȳ‖² + ‖ȳ − c‖². Unlike the energy of a pair it contains every operator, and an
    identity among them changes nothing.

    Arguments:
        operators: 2, 3 or 4 named maps; all their orders run, 24 for 4.
        about: "input", c = x: the share of the block's whole step, of order ε². "sum",
            c = x + Σ Δ_i x, the maps side by side: the share of their interaction, of order 1; for
            two maps, half of their `asymmetry`.
    Returns: a scalar, nan where the denominator is 0 (to rounding).
    Raises: ValueError for another number of operators, or another `about`.
    """
    maps = list(operators.values())
    if not 2 <= len(maps) <= 4:
        raise ValueError("operators must contain 2 to 4 maps, for all their orders to run, "
                         f"got {list(operators)}")
    require_option("about", about, ("input", "sum"))
    centre = x if about == "input" else x + sum(operator(x) - x for operator in maps)
    ends = torch.stack([reduce(lambda y, operator: operator(y), order, x)
                        for order in permutations(maps)])
    of = partial(_square, tokens=tokens)
    return _share(of(ends - ends.mean(0)), of(ends - centre), of(ends), ends.dtype)


def _square(x: Tensor, tokens: Tokens = ALL) -> Tensor:
    # float16 holds no square of a state's length
    return widened(x if tokens is ALL else x[..., tokens, :]).square().sum()


def _share(part: Tensor, whole: Tensor, size: Tensor, dtype: torch.dtype) -> Tensor:
    """part / whole; nan where the whole is no more than rounding of a state of this size and dtype.
    """
    seen = whole > (ROUNDING * torch.finfo(dtype).eps) ** 2 * size
    return torch.where(seen, part / whole, torch.nan)


def _response(operator: Map, x: Tensor, step: Tensor) -> Tensor:
    """J step, J the Jacobian of Δ = T − id at x."""
    with torch.enable_grad(), _plain_attention():
        moved = torch.func.jvp(operator, (x.detach(),), (step.detach(),))[1]
    return (moved - step).detach()


@contextmanager
def _plain_attention() -> Iterator[None]:
    """Attention as plain sums: PyTorch has no forward-mode derivative of its fused kernels."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
