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
matrices ("corners": see `polytope`), or not at all ("identity"): then H′ = I, and isn't stored.

Legend: N tokens, n streams, d features per stream, O = 2n + K logits; s has one number each for a,
b′ and H′. r = 1 / rms z. Rows of logits, of a, b′ and H′, are tiles as in `birkhoff`.
The second phase is in `coefficients`.
"""

from typing import Any

from torch import Tensor

from geolab.kernels import birkhoff, coefficients, generate, joined, launch, normed, streams
from geolab.kernels.launch import INTERPRETED, buffer, cdiv, expanded, power_of_two, sizes, twin
from geolab.kernels.tiles import ReadGradients
from geolab.kernels.totals import parts_of

WARPS = 4  # of the second phase, where programs read Z


@twin
def constrained_join(x: Tensor, given: Tensor | None, update: Tensor | None, maps: tuple,
                     form: Any, read: Tensor | None = None,
                     norm: tuple[Tensor, float] | None = None) -> tuple[Tensor, ...]:
    """Z, u, H′ above b′, and a′ if `read` is given, as `operators.constrained_join`, for n up to 4,
    and to 8 where H = I.

    The forward pass moves (3n + 2) d numbers per token, and the backward pass (4n + 4) d; without a
    write (2n + 1) d, and (4n + 2) d. With a norm the backward pass moves d more.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    weight, scale, bias, corners = maps
    writes = {} if given is None else {"given": given, "update": update}
    gamma, norm_eps = (None, 0.0) if norm is None else norm
    if gamma is not None:
        writes["norm"] = gamma
        gamma = gamma.float().contiguous()
    launch.require("x", x=x, **writes, weight=weight, scale=scale, bias=bias)
    x, (*tokens, _, d) = x.contiguous(), x.shape
    if given is not None:
        given = expanded(given, *tokens, *given.shape[-2:]).float().contiguous()
        update = expanded(update, *tokens, d).contiguous()
    numbers = (t.float().contiguous() for t in (weight, scale, bias))
    if corners is not None:
        corners = corners.to(x.device).float().contiguous()
    if read is not None:
        read = expanded(read, *x.shape[:-1]).float().contiguous()
    run = _constrained_join if read is None else _single_pass_join
    z, u, *made, _, _ = run(x, *numbers, given, update, read, corners, gamma, form.norm_eps,
                            norm_eps, form.iterations - 1, form.order == "row-column", form.eps,
                            form.write_eps)
    return ((joined.Ported.apply(x, z) if given is None else z), u,
            *(made[:1] if read is None else made))


def _form(n: int, O: int, guard: float, corners: Tensor | None) -> str:
    if 2 * n == O:
        return "identity"
    if corners is not None:
        return "corners"
    return "guarded" if guard else "sinkhorn"


def _fewer(matrices: int, threads: int, numbers: int, corners: Tensor | None) -> int:
    """Matrices per program: a thread holds so many numbers of its matrices' corners at most."""
    if corners is None or INTERPRETED:
        return matrices
    K, n, _ = corners.shape
    return min(matrices, max(1, numbers * threads // (power_of_two(K) * power_of_two(n))))


def _launch(x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor, c: Tensor | None,
            h: Tensor | None, read: Tensor | None, corners: Tensor | None, gamma: Tensor | None,
            eps: float, norm_eps: float, steps: int, flip: bool, guard: float, write_guard: float,
            z: Tensor, u: Tensor, made: Tensor, a: Tensor, y: Tensor, r: Tensor) -> None:
    (N, n, d), O = sizes(x, 2), len(weight)
    sums, squares = joined.products(x, weight, eps, c, h, z, y, r)
    tile, power = {"num_warps": WARPS} | streams.reading(x, gamma), power_of_two(n)
    threads = 32 * tile["num_warps"]
    each = _fewer(1024 if INTERPRETED else threads * min(n & -n, 4) // power, threads, 32, corners)
    reading = cdiv(N, tile["TOKENS"]) * cdiv(d, tile["FEATURES"])
    coefficients._enter[(cdiv(N, each) + reading,)](
        x if h is None else z, y, r, sums, squares, scale, bias, bias if corners is None
        else corners, a if read is None else read, bias if gamma is None else gamma, a, made, u, N,
        eps, norm_eps, guard, write_guard, d, len(sums) if sums is not y else 1, steps, flip,
        _form(n, O, guard, corners), n, O, sums is not y, read is not None, gamma is not None, each,
        power, **tile)


def _launch_backward(gz: Tensor, gu: Tensor, gmade: Tensor, ga: Tensor | None, x: Tensor,
                     weight: Tensor, scale: Tensor, bias: Tensor, c: Tensor | None,
                     h: Tensor | None, read: Tensor | None, corners: Tensor | None,
                     gamma: Tensor | None, norm_eps: float, steps: int, flip: bool, guard: float,
                     z: Tensor, a: Tensor, y: Tensor, r: Tensor, gx: Tensor, gw: Tensor,
                     of_logits: Tensor, gc: Tensor, gh: Tensor, of_read: Tensor,
                     of_gamma: Tensor) -> None:
    (N, n, d), O, state = sizes(x, 2), len(weight), x if h is None else z
    if read is None:  # then a itself reads
        read, ga = a, (of_read := buffer(*a.shape, like=a))
    if gamma is None:
        parts_gamma = None
        streams.read_backward(gu, state, read, 1, of_read)
    else:
        grad, gu = gu, buffer(*gu.shape, like=gu)
        parts_gamma = normed.backward(grad, state, read, 1, gamma, norm_eps, None, of_read,
                                      of_gamma, gu)
    scaled, form = generate.scaled_like(x, y)
    each, power = birkhoff.tile(n)
    each = _fewer(each, 32, 64, corners)
    programs = cdiv(N, each)
    parts, made_by = parts_of(of_logits, programs), _form(n, O, guard, corners)
    history = (buffer(programs, steps, n + power, each, like=y) if made_by == "guarded"
               else birkhoff.history(programs, steps, n, y) if made_by == "sinkhorn" else y)
    coefficients._enter_backward[(programs,)](
        ga, gmade, y, r, scale, bias, bias if corners is None else corners, *scaled, parts,
        history, N, n * d, guard, steps, birkhoff.is_long(n, steps), flip, made_by, n, O, each,
        power, form, num_warps=1)
    joined.backward(scaled, ReadGradients(gz, gu, read), x, weight, c, h, gx, gw, gc, gh,
                    (parts, of_logits), (parts_gamma, None if gamma is None else of_gamma))


def _outputs(x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor, c: Tensor | None,
             h: Tensor | None, read: Tensor | None, corners: Tensor | None, gamma: Tensor | None,
             eps: float, norm_eps: float, steps: int, flip: bool, guard: float,
             write_guard: float) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return Z, u, H′ above b′, a, y and r. If nothing is written, a port for the gradient of X
    stands in place of Z.
    """
    *tokens, n, d = x.shape
    z = buffer(1, like=x).expand(x.shape) if h is None else buffer(*x.shape, like=x)
    rows = 1 if len(weight) == 2 * n else n + 1
    return (z, buffer(*tokens, d, like=x), *(buffer(*tokens, *shape, like=weight)
                                             for shape in ((rows, n), (n,), (len(weight),), ())))


@launch.op("geolab::constrained_join_backward", _launch_backward)
def _constrained_join_backward(
        gz: Tensor, gu: Tensor, gmade: Tensor, ga: Tensor | None, x: Tensor, weight: Tensor,
        scale: Tensor, bias: Tensor, c: Tensor | None, h: Tensor | None, read: Tensor | None,
        corners: Tensor | None, gamma: Tensor | None, norm_eps: float, steps: int, flip: bool,
        guard: float, z: Tensor, a: Tensor, y: Tensor, r: Tensor) -> tuple[
            Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of X, W, the bias followed by s, c, h, `read` and γ."""
    others = [a.new_empty(0) if given is None else given for given in (c, h, read, gamma)]
    return (buffer(*x.shape, like=x), buffer(*weight.shape, like=weight),
            buffer(len(bias) + len(scale), like=bias),
            *(buffer(*of.shape, like=of) for of in others))


def _vjp_ahead(gz, gu, gmade, ga, x, weight, scale, bias, c, h, read, corners, gamma, *kept):
    gx, gw, of_logits, gc, gh, of_read, of_gamma = _constrained_join_backward(
        gz, gu, gmade, ga, x, weight, scale, bias, c, h, read, corners, gamma, *kept)
    gb, gs = of_logits.tensor_split([len(bias)])
    return (gx, gw, gs, gb, *((gc, gh) if h is not None else (None, None)),
            None if read is None else of_read, None, None if gamma is None else of_gamma)


def _vjp(gz, gu, gmade, *kept):
    return _vjp_ahead(gz, gu, gmade, None, *kept)


def _kept(inputs, outputs):
    *tensors, _, norm_eps, steps, flip, guard, _ = inputs
    z, _, _, a, y, r = outputs
    return *tensors, norm_eps, steps, flip, guard, None if inputs[5] is None else z, a, y, r


_constrained_join = launch.op("geolab::constrained_join", _launch)(_outputs)
_single_pass_join = launch.op("geolab::single_pass_join", _launch)(_outputs)
launch.differentiate(_constrained_join, _vjp, keep=_kept, outputs=3)
launch.differentiate(_single_pass_join, _vjp_ahead, keep=_kept, outputs=4)
