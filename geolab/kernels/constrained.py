"""The kernels between two sublayers of mHC: `joined`'s, and what makes the coefficients,

    Z = H X + b ⊗ h    y = W (z / rms z)    logits = s ⊙ y + bias
                       a = σ(·) + ε    b′ = 2σ(·) + ε′    H′ = mix(·)    u = aᵀZ

Made by an operator each, the small tensors between W and u take most of a sublayer's launches.

Forward there are three launches: W is packed, the first phase makes Z and parts of y, and the
second one reads Z. In the second phase some programs make b′ and H′, one token or more per thread,
while all others read their tokens' Z, and need only a few sigmoids. Backward there are four: ∂a =
Z ∂u, then from ∂a, ∂b′ and ∂H′ the gradient of y, then the gradients of X, W and the write, then
the sums of programs' parts.

With a norm, u is γ ⊙ aᵀZ / rms aᵀZ, by programs that hold whole tokens (see `normed`). The first
launch backward then makes the gradient of aᵀZ, too.

All gradients arrive at once, since one operator makes Z, u, b′ and H′. So it needs no ports, but
for the gradient of an X that isn't written.

FORM says how H′ is made of its K logits: "sinkhorn", its `guarded` form with ε, a mixture of K
matrices ("corners": see `polytope`), or not at all ("identity"): then H′ = I, and isn't stored. Two
others are those of hyper-connections: see `hyper`.

Legend: N tokens, n streams, d features per stream, O = 2n + K logits; s has one number each for a,
b′ and H′. r = 1 / rms z. Rows of logits, of a, b′ and H′, are tiles as in `birkhoff`.
The second phase is in `coefficients`.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, Signature
from itertools import islice
from math import ceil
from typing import Any, NamedTuple

from torch import Tensor

from geolab.kernels import (
    MOST_JOINED,
    birkhoff,
    coefficients,
    generate,
    joined,
    launch,
    normed,
    streams,
)
from geolab.kernels.launch import INTERPRETED, expanded, twin
from geolab.kernels.tiles import ReadGradients
from geolab.kernels.totals import parts_of
from geolab.kernels.wide import write_backward

WARPS = 4  # of the second phase, where programs read Z


class Given(NamedTuple):
    """The inputs of a join, but for the maps."""

    x: Tensor
    c: Tensor | None      # the rows of H, then b
    h: Tensor | None
    read: Tensor | None   # a, if another sublayer made it
    gamma: Tensor | None  # of the norm behind the read
    norm_eps: float


class Maps(NamedTuple):
    """The maps from a token to the logits of a, b′ and H′."""

    weight: Tensor
    scale: Tensor
    bias: Tensor
    corners: Tensor | None = None  # the matrices of a mixture


class Form(NamedTuple):
    """The form in which a, b′ and H′ are made of their logits."""

    name: str
    eps: float  # of the lengths of z
    steps: int = 0
    flip: bool = False
    guard: float = 0.0        # ε; for a turn τ
    write_guard: float = 0.0  # ε′; for a turn α

    def norms(self, n: int) -> int:
        """NORMS, as `coefficients` says."""
        return n if self.name in ("free", "tanh") else int(self.name in ("turn", "rotation"))


class Made(NamedTuple):
    """The outputs of the forward pass. `made` has the rows of H′, then b′."""

    z: Tensor
    u: Tensor
    made: Tensor
    a: Tensor
    y: Tensor
    r: Tensor


class Kept(NamedTuple):
    """The outputs of the forward pass that the backward pass needs."""

    z: Tensor | None  # None where Z is X
    a: Tensor
    y: Tensor
    r: Tensor


class Cotangents(NamedTuple):
    """The gradients of Z, u, H′ above b′, and a."""

    gz: Tensor
    gu: Tensor
    gmade: Tensor
    ga: Tensor | None


class Gradients(NamedTuple):
    """The gradients that the backward pass makes: `of_logits` has the bias's, then those of s."""

    of_x: Tensor
    of_weight: Tensor
    of_logits: Tensor
    of_c: Tensor
    of_h: Tensor
    of_read: Tensor
    of_gamma: Tensor


def taken(fields: Sequence, *groups: type) -> list:
    """Put these fields, one after the other, into the named tuples that they belong to."""
    left = iter(fields)
    return [group(*islice(left, len(group._fields))) for group in groups]


def flat(*groups: type) -> Callable:
    """A decorator: a function of these named tuples takes all their fields one by one instead, as
    torch.library wants it.
    """
    def decorate(function: Callable) -> Callable:
        @wraps(function)
        def run(*fields):
            return function(*taken(fields, *groups))

        run.__signature__ = Signature(
            [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
             for group in groups for name, kind in group.__annotations__.items()],
            return_annotation=function.__annotations__["return"])
        return run

    return decorate


@twin
def constrained_join(x: Tensor, given: Tensor | None, update: Tensor | None, maps: tuple,
                     form: Any, read: Tensor | None = None,
                     norm: tuple[Tensor, float] | None = None) -> tuple[Tensor, ...]:
    """Z, u, H′ above b′, and a′ if `read` is given, as `operators.constrained_join`, for n up to 8.

    The forward pass moves (3n + 2) d numbers per token, and the backward pass (4n + 4) d; where it
    mixes more than four streams (7n + 4) d, in a launch more; without a write (2n + 1) d, and
    (4n + 2) d. With a norm the backward pass moves d more.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    maps = Maps(*maps)
    name = "guarded" if form.eps else "sinkhorn"
    if len(maps.weight) == 2 * x.shape[-2]:
        name = "identity"
    elif maps.corners is not None:
        name = "corners"
    return join(x, given, update, maps, Form(
        name, form.norm_eps, form.iterations - 1, form.order == "row-column", form.eps,
        form.write_eps), read, norm)


def join(x: Tensor, given: Tensor | None, update: Tensor | None, maps: Maps, form: Form,
         read: Tensor | None = None,
         norm: tuple[Tensor, float] | None = None) -> tuple[Tensor, ...]:
    """Z, u, H′ above b′, and a′ if `read` is given, in any form."""
    writes = {} if given is None else {"given": given, "update": update}
    gamma, norm_eps = (None, 0.0) if norm is None else norm
    if gamma is not None:
        writes["norm"] = gamma
        gamma = gamma.float().contiguous()
    launch.require("x", x=x, **writes, weight=maps.weight, scale=maps.scale, bias=maps.bias)
    x, (*tokens, _, d) = x.contiguous(), x.shape
    if given is not None:
        given = expanded(given, *tokens, *given.shape[-2:]).float().contiguous()
        update = expanded(update, *tokens, d).contiguous()
    maps = Maps(*(t if t is None else t.to(x.device).float().contiguous() for t in maps))
    if read is not None:
        read = expanded(read, *x.shape[:-1]).float().contiguous()
    run = _constrained_join if read is None else _single_pass_join
    found = Made(*run(*Given(x, given, update, read, gamma, norm_eps), *maps, *form))
    return (joined.Ported.apply(x, found.z) if given is None else found.z, found.u, found.made,
            *(() if read is None else (found.a,)))


def _fewer(matrices: int, threads: int, numbers: int, corners: Tensor) -> int:
    """Matrices per program: a thread holds so many numbers of its matrices' corners at most."""
    if INTERPRETED:
        return matrices
    K, n, _ = corners.shape
    each = (1 << (K - 1).bit_length()) * (1 << (n - 1).bit_length())
    return min(matrices, max(1, numbers * threads // each))


@flat(Given, Maps, Form, Made)
def _launch(given: Given, maps: Maps, form: Form, made: Made) -> None:
    x, z, gamma, read = given.x, made.z, given.gamma, given.read
    N, n, d = x.shape[:-2].numel(), *x.shape[-2:]
    norms = form.norms(n)
    sums, squares = joined.products(x, maps.weight, form.eps, given.c, given.h, z, made.y, made.r,
                                    norms)
    tile, power = {"num_warps": WARPS} | streams.reading(x, gamma), 1 << (n - 1).bit_length()
    threads = 32 * tile["num_warps"]
    each = 1024 if INTERPRETED else threads * min(n & -n, 4) // power
    if maps.corners is not None:
        each = _fewer(each, threads, 32, maps.corners)
    reading = ceil(N / tile["TOKENS"]) * ceil(d / tile["FEATURES"])
    whole = sums is made.y
    coefficients._enter[(ceil(N / each) + reading,)](
        x if given.h is None else z, made.y, made.r, sums, squares, maps.scale, maps.bias,
        maps.bias if maps.corners is None else maps.corners, made.a if read is None else read,
        maps.bias if gamma is None else gamma, made.a, made.made, made.u, N, form.eps,
        given.norm_eps, form.guard, form.write_guard, d, 1 if whole else len(sums), form.steps,
        form.flip, form.name, n, len(maps.weight), norms, not whole, read is not None,
        gamma is not None, each, power, **tile)


@flat(Cotangents, Given, Maps, Form, Kept, Gradients)
def _launch_backward(grads: Cotangents, given: Given, maps: Maps, form: Form, kept: Kept,
                     found: Gradients) -> None:
    x, gamma, y = given.x, given.gamma, kept.y
    N, n, d = x.shape[:-2].numel(), *x.shape[-2:]
    norms = form.norms(n)
    read, of_read, ga, gu = given.read, found.of_read, grads.ga, grads.gu
    if read is None:  # then a itself reads
        read, ga = kept.a, (of_read := kept.a.new_empty(kept.a.shape))
    state, parts_gamma = x if kept.z is None else kept.z, None
    if gamma is None:
        streams.read_backward(gu, state, read, 1, of_read)
    else:
        gu = gu.new_empty(gu.shape)
        parts_gamma = normed.backward(grads.gu, state, read, 1, gamma, given.norm_eps, None,
                                      of_read, found.of_gamma, gu)
    scaled, products = generate.scaled_like(x, y, kept.r)
    each, power = birkhoff.tile(n)
    if maps.corners is not None:
        each = _fewer(each, 32, 64, maps.corners)
    programs, steps, history, long = ceil(N / each), form.steps, y, False
    if form.name == "sinkhorn":
        history, long = birkhoff.history(programs, steps, n, y)
    elif form.name == "guarded":
        history = y.new_empty(programs, steps, n + power, each)
    parts = parts_of(found.of_logits, programs)
    coefficients._enter_backward[(programs,)](
        ga, grads.gmade, y, kept.r, maps.scale, maps.bias,
        maps.bias if maps.corners is None else maps.corners, *scaled, parts, history, N, d,
        form.guard, form.write_guard, steps, long, form.flip, form.name, n, len(maps.weight),
        norms, len(maps.scale), each, power, products, num_warps=1)
    reads, others = ReadGradients(grads.gz, gu, read), (
        (parts, found.of_logits), (parts_gamma, None if gamma is None else found.of_gamma))
    if n > MOST_JOINED and given.c is not None and given.c.shape[-2] > 1:
        of_z = x.new_empty(x.shape)
        joined.backward(scaled, reads, state, maps.weight, None, None, of_z, found.of_weight, None,
                        None, *others)
        write_backward(of_z, x, given.c, given.h, found.of_x, found.of_c, found.of_h)
    else:
        joined.backward(scaled, reads, x, maps.weight, given.c, given.h, found.of_x,
                        found.of_weight, found.of_c, found.of_h, *others)


@flat(Given, Maps, Form)
def _outputs(given: Given, maps: Maps, form: Form) -> tuple[
        Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return what `Made` names. If nothing is written, a port for the gradient of X stands in
    place of Z.
    """
    x, (*tokens, n, d) = given.x, given.x.shape
    norms = form.norms(n)
    z = x.new_empty(1).expand(x.shape) if given.h is None else x.new_empty(x.shape)
    rows = 1 if form.name == "identity" else n + 1
    shapes = (rows, n), (n,), (len(maps.weight),), (norms,) if norms else ()
    return (z, x.new_empty((*tokens, d)),
            *(maps.weight.new_empty((*tokens, *shape)) for shape in shapes))


@launch.op("geolab::constrained_join_backward", _launch_backward)
@flat(Cotangents, Given, Maps, Form, Kept)
def _constrained_join_backward(
        grads: Cotangents, given: Given, maps: Maps, form: Form, kept: Kept) -> tuple[
            Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return what `Gradients` names."""
    others = [kept.a.new_empty(0) if other is None else other
              for other in (given.c, given.h, given.read, given.gamma)]
    return (given.x.new_empty(given.x.shape), maps.weight.new_empty(maps.weight.shape),
            maps.bias.new_empty(len(maps.bias) + len(maps.scale)),
            *(of.new_empty(of.shape) for of in others))


def _vjp_ahead(gz, gu, gmade, ga, *kept):
    given, maps, *_ = taken(kept, Given, Maps)
    found = Gradients(*_constrained_join_backward(gz, gu, gmade, ga, *kept))
    of_bias, of_scale = found.of_logits.tensor_split([len(maps.bias)])
    return (found.of_x, *(None if of is None else grad for of, grad in (
        (given.c, found.of_c), (given.h, found.of_h), (given.read, found.of_read),
        (given.gamma, found.of_gamma))), None, found.of_weight, of_scale, of_bias)


def _vjp(gz, gu, gmade, *kept):
    return _vjp_ahead(gz, gu, gmade, None, *kept)


def _kept(inputs, outputs):
    (given,), found = taken(inputs, Given), Made(*outputs)
    return *inputs, *Kept(None if given.h is None else found.z, found.a, found.y, found.r)


_constrained_join = launch.op("geolab::constrained_join", _launch)(_outputs)
_single_pass_join = launch.op("geolab::single_pass_join", _launch)(_outputs)
launch.differentiate(_constrained_join, _vjp, keep=_kept, outputs=3)
launch.differentiate(_single_pass_join, _vjp_ahead, keep=_kept, outputs=4)
