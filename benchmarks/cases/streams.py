"""Streams: read, mixed, mixed and written, one operator at a time and joined."""

from collections.abc import Callable
from functools import partial
from math import isqrt

from torch import Tensor

from benchmarks.cases.case import EPS, Bytes, Case
from geolab import operators
from geolab.operators.generate import Maps
from geolab.operators.joined import Form, Generated
from geolab.operators.polytope import shift_matrices
from geolab.operators.streams import Norm, Unwritten


def stream_read(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """aᵀX. Forward reads n vectors and writes one; backward reads n + 1 and writes n."""
    return Bytes((n + 1) * e * N * d + 4 * N * n, (2 * n + 1) * e * N * d + 8 * N * n)


def normed(floor: Callable[..., Bytes], N: int, n: int, d: int, e: int = 2) -> Bytes:
    """A floor with the RMS norm of what is read, whose weights are read, and get a gradient."""
    there, back = floor(N, n, d, e)
    return Bytes(there + 4 * d, back + 8 * d)


def stream_mix(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """H X. Forward reads n vectors and writes n; backward reads 2n and writes n."""
    return Bytes(2 * n * e * N * d + 4 * N * n**2, 3 * n * e * N * d + 8 * N * n**2)


def stream_mix_write(N: int, n: int, d: int, e: int = 2, *, rows: int | None = None,
                     written: int | None = None) -> Bytes:
    """H X + b ⊗ h. Forward reads n + 1 vectors and writes n; backward reads 2n + 1 and writes
    n + 1.

    Arguments:
        rows: how many rows of coefficients there are, if tokens share them.
        written: bytes per number of h, if it has another dtype than the state.
    """
    rows, written = N if rows is None else rows, e if written is None else written
    return Bytes((2 * n * e + written) * N * d + 4 * rows * (n**2 + n),
                 (3 * n * e + 2 * written) * N * d + 8 * rows * (n**2 + n))


def stream_write(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """X + b ⊗ h. Forward reads n + 1 vectors and writes n; backward reads n + 1, the gradient of
    the result, which is that of X, and h, and writes one.
    """
    return Bytes((2 * n + 1) * e * N * d + 4 * N * n, (n + 2) * e * N * d + 8 * N * n)


def stream_join(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """H X + b ⊗ h, what the next sublayer reads of it, and the n² + 2n coefficients that it
    generates. Forward reads n + 1 vectors and writes n + 1; backward reads 2n + 2 and writes n + 1.
    """
    O, given = n**2 + 2 * n, n**2 + n
    return Bytes((2 * n + 2) * e * N * d + 4 * N * (O + given) + 4 * O * n * d,
                 (3 * n + 3) * e * N * d + 4 * N * (O + 2 * given) + 8 * O * n * d)


def constrained_join(N: int, n: int, d: int, e: int = 2, *, mixed: bool = True,
                     corners: bool = False) -> Bytes:
    """`stream_join` with the coefficients of mHC: forward also writes the next H and b, and
    backward also reads their gradient. Unless the streams are `mixed`, H = I isn't among them.
    With `corners` H has n logits.
    """
    given = n**2 + n if mixed else n
    O = 3 * n if corners else given + n
    shared = O * n * d + O + 2 + mixed  # W, the bias and the scales
    return Bytes((2 * n + 2) * e * N * d + 8 * N * given + 4 * shared,
                 (3 * n + 3) * e * N * d + 12 * N * given + 8 * shared)


def single_pass(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """The same where a is given. Forward writes the next a, and backward its gradient and that of
    a.
    """
    forward, backward = constrained_join(N, n, d, e)
    return Bytes(forward + 8 * N * n, backward + 12 * N * n)


def _read(N, n, d, state, number):
    return state(N, n, d), number(N, n)


def _mix(N, n, d, state, number):
    return state(N, n, d), number(N, n, n)


def _write(N, n, d, state, number):
    return state(N, n, d), number(N, n), state(N, d)


def _mix_write(N, n, d, state, number):
    return state(N, n, d), number(N, n, n), number(N, n), state(N, d)


def _join(N, n, d, state, number):
    return *_mix_write(N, n, d, state, number), number(n * (n + 2), n * d) / (n * d)**0.5


def _constrained(N, n, d, state, number):
    O = n * (n + 2)
    return (state(N, n, d), number(N, n + 1, n), state(N, d), number(O, n * d) / (n * d)**0.5,
            number(3), number(O))


def _before(N, n, d, state, number):
    return *_constrained(N, n, d, state, number), number(N, n)


def join(x: Tensor, given: Tensor | None, update: Tensor | None, weight: Tensor, scale: Tensor,
         bias: Tensor, read: Tensor | None = None, *, form: Form = Form(norm_eps=EPS),
         corners: Tensor | None = None, norm: Norm | None = None) -> tuple[Tensor, ...]:
    """`constrained_join` of single tensors."""
    return operators.constrained_join(x if given is None else Unwritten(x, update, given),
                                      Maps(weight, scale, bias, corners), form, read, norm)


def mixture_of_shifts(x: Tensor, *given: Tensor, **options) -> tuple[Tensor, ...]:
    """`constrained_join` whose H is a mixture of the cyclic shifts."""
    return join(x, *given, corners=shift_matrices(x.shape[-2]), **options)


def _of_corners(N, n, d, state, number):
    *given, weight, scale, bias = _constrained(N, n, d, state, number)
    return *given, weight[:3 * n], scale, bias[:3 * n]


def _unmixed(N, n, d, state, number):
    O = 2 * n
    return (state(N, n, d), number(N, 1, n), state(N, d), number(O, n * d) / (n * d)**0.5,
            number(2), number(O))


def split(numbers: Tensor) -> tuple[Tensor, ...]:
    """Split the n² + 2n numbers per token of `stream_join` into a, b and H, unchanged."""
    n = isqrt(numbers.shape[-1] + 1) - 1
    read, write, mix = numbers.split((n, n, n**2), dim=-1)
    return read, write, mix.unflatten(-1, (n, n))


def generate_read(x: Tensor, weight: Tensor, generated: Callable = split) -> tuple[Tensor, ...]:
    """X, aᵀX and the coefficients (a, …) = generated(W (x / rms x)), one after the other."""
    return _read_of(operators.stream_generate(x, weight, EPS), generated)


def join_read(x: Tensor, matrix: Tensor, weights: Tensor, update: Tensor, weight: Tensor,
              generated: Callable = split) -> tuple[Tensor, ...]:
    """Z, aᵀZ and the next coefficients, one after the other."""
    return _read_of(operators.stream_join(x, matrix, weights, update, weight, EPS), generated)


def _read_of(found: Generated, generated: Callable) -> tuple[Tensor, ...]:
    read, *others = generated(found.numbers)
    return found.state, operators.stream_read(found.state, read, found.ports), read, *others


def with_norm(case: Case) -> Case:
    """A case with the RMS norm of what is read, whose weights come last."""
    def run(*given: Tensor, **options) -> Tensor | tuple[Tensor, ...]:
        *given, gamma = given
        return case.operator(*given, norm=Norm(gamma, EPS), **options)

    return case._replace(operator=run, floor=partial(normed, case.floor), inputs=lambda *sizes: (
        *case.inputs(*sizes), sizes[-1](sizes[2])))


def _shared(N, n, d, state, number):
    return state(N, n, d), number(n, n), number(n), state(N, d)


def _autocast(N, n, d, state, number):
    return number(N, n, d), number(N, n, n), number(N, n), number(N, d).bfloat16()


CASES = {
    "stream_read": Case("stream_read", operators.stream_read, _read, stream_read),
    "stream_mix": Case("stream_mix", operators.stream_mix, _mix, stream_mix),
    "stream_write": Case("stream_write", operators.stream_write, _write, stream_write),
    "stream_mix_write": Case(
        "stream_mix_write", operators.stream_mix_write, _mix_write, stream_mix_write),
    "stream_mix_write, shared": Case(  # one row of coefficients for all tokens
        "stream_mix_write", operators.stream_mix_write, _shared,
        lambda N, n, d, e: stream_mix_write(N, n, d, e, rows=1)),
    "stream_mix_write, autocast": Case(  # a float32 state, and a bfloat16 sublayer
        "stream_mix_write", operators.stream_mix_write, _autocast,
        lambda N, n, d, e: stream_mix_write(N, n, d, 4, written=2)),
    "constrained_join": Case(
        "constrained_join", join, _constrained, constrained_join, roundings=2),
    "constrained_join, H = I": Case(  # with Hy4's guards
        "constrained_join", join, _unmixed, partial(constrained_join, mixed=False),
        options={"form": Form(eps=1e-6, write_eps=1e-6, norm_eps=EPS)}, roundings=2),
    "constrained_join, single pass": Case(
        "constrained_join", join, _before, single_pass, roundings=1),
    "constrained_join, guarded": Case(  # as in DeepSeek-V4
        "constrained_join", join, _constrained, constrained_join,
        options={"form": Form(eps=1e-6, norm_eps=EPS)}, roundings=2),
    "constrained_join, corners": Case(
        "constrained_join", mixture_of_shifts, _of_corners,
        partial(constrained_join, corners=True), options={"form": Form(eps=1e-3, norm_eps=EPS)},
        roundings=2),
    "stream_join": Case(
        "stream_join", join_read, _join, stream_join,
        roundings=2),  # Z, and the numbers in a that are made from it
}
CASES |= {f"{name}, normed": with_norm(case) for name, case in CASES.items()
          if name.startswith(("stream_read", "constrained_join"))}
