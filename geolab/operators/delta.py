"""The delta operator A = I − β k kᵀ and the delta update X ← A X + β k vᵀ (DDL eqs 2.3–2.5).

Legend: d features; d_v value channels; ... any leading axes (batch, position).
A state is (..., d), with one value channel, or (..., d, d_v). The direction is (..., d), beta is
(...), and the value is (...) or (..., d_v).
"""

import torch
from torch import Tensor

from geolab import kernels
from geolab.checks import (
    require_number,
    require_option,
    require_real,
    require_state,
    require_together,
    require_unit,
    require_width,
)
from geolab.operators.generate import held
from geolab.operators.precision import outside_autocast, product, promoted, widened


def unit_direction(h: Tensor, eps: float = 0.0) -> Tensor:
    """k = h / sqrt(‖h‖² + eps²) (DDL section 4.1): of unit length when eps = 0, slightly shorter
    otherwise.

    Arguments:
        h: (..., d), any vectors; with eps = 0 none may be zero.
        eps: the guard ε_k against a vanishing h, in units of h; the paper's code takes 1e-5.
    Returns: (..., d), in float32 at least. NaN for an h longer than 1e19.
    Raises: ValueError for an eps below 0; TypeError when the numbers of h aren't floating-point.
    """
    require_state("h", h)
    require_number("eps", eps, 0)
    h = widened(h)
    square = torch.linalg.vector_norm(h, dim=-1, keepdim=True).square() + eps**2
    return h / held(square).sqrt()  # 1/√ would have a cube in its gradient


def delta_matrix(direction: Tensor, beta: Tensor | float) -> Tensor:
    """A = I − β k kᵀ (DDL eq. 2.3): eigenvalue 1 − β along k, 1 on its complement (DDL theorem
    3.1).

    Arguments:
        direction: (..., d), unit vectors k.
        beta: (...) or a number. 0 is the identity, 1 a projection, 2 a Householder reflection.
    Returns: (..., d, d).
    Raises: ValueError when a direction does not have unit length, or leading axes don't broadcast;
        TypeError when the direction's numbers aren't floating-point.
    """
    require_state("direction", direction)
    require_real(beta=beta)
    if isinstance(beta, Tensor):
        require_together(direction=direction.shape[:-1], beta=beta.shape)
    require_unit(direction)
    beta = kernels.number(beta, direction, direction.dtype).to(direction.dtype)
    identity = torch.eye(direction.shape[-1], dtype=direction.dtype, device=direction.device)
    return identity - beta[..., None, None] * direction.unsqueeze(-1) * direction.unsqueeze(-2)


def delta_shortcut(x: Tensor, direction: Tensor, beta: Tensor | float, eps: float
                   | None = None) -> Tensor:
    """A x = x − β (kᵀx) k: the delta update that writes nothing.

    Arguments and errors are those of `delta_update`.
    """
    return delta_update(x, direction, 0.0, beta, eps=eps)


def delta_update(x: Tensor, direction: Tensor, value: Tensor | float, beta: Tensor | float,
                 erase: bool = True, eps: float | None = None) -> Tensor:
    """X + β k (vᵀ − kᵀX): erase the k-component and write v in its place, both at rate β (DDL eq.
    2.5).

    The equation is defined for any k. What the book proves about it assumes a unit k.

    Arguments:
        x: the state, (..., d) or (..., d, d_v).
        direction: (..., d), k; with eps any h, and k = unit_direction(h, eps), which the kernel
            does not write to memory.
        value: v, (...) for a vector state, (..., d_v) for a matrix state, or a number.
        beta: (...) or a number.
        erase: False leaves out kᵀX: X + β k vᵀ.
        eps: the guard of the normalisation; None takes the direction as it is.
    Returns: a tensor in the dtype of x. The leading axes of all arguments broadcast.
    Raises: ValueError when direction and state disagree in features or in the number of axes, when
        value or beta has an axis too many, when leading axes don't broadcast to common ones, or for
        a number that isn't finite; TypeError for complex numbers, or an x whose numbers aren't
        floating-point.
    """
    require_state("x", x)
    require_real(direction=direction, value=value, beta=beta)
    require_option("erase", erase, (True, False))
    if eps is not None:
        require_number("eps", eps, 0)
    axes = x.ndim - direction.ndim + 1
    if axes not in (1, 2):
        raise ValueError("x must have as many axes as direction (a vector state) or one more "
                         f"(a matrix state), got {tuple(x.shape)} with direction "
                         f"{tuple(direction.shape)}")
    for name, tensor, own in (("value", value, axes - 1), ("beta", beta, 0)):
        if isinstance(tensor, Tensor) and tensor.ndim >= direction.ndim + own:
            raise ValueError(f"{name} must be one number per direction, got {tuple(tensor.shape)} "
                             f"with direction {tuple(direction.shape)}")
    require_width("direction", direction, x.shape[-axes])
    if axes == 2 and isinstance(value, Tensor) and value.ndim and value.shape[-1] != 1:
        require_width("value", value, x.shape[-1])
    leading = {"x": x.shape[:-axes], "direction": direction.shape[:-1]}
    for name, tensor, own in (("value", value, axes - 1), ("beta", beta, 0)):
        if isinstance(tensor, Tensor) and tensor.ndim >= own:
            leading[name] = tensor.shape[:tensor.ndim - own]
    require_together(**leading)
    if kernels.serves(x):
        return kernels.TWINS["delta_update"](x, direction, value, beta, erase, eps)
    k, v, beta = (kernels.number(t, x, x.dtype).to(x.dtype) for t in (direction, value, beta))
    if eps is not None:
        k = unit_direction(k, eps).to(x.dtype)
    with outside_autocast(x):
        if axes == 1:
            change = v - torch.linalg.vecdot(k, x) if erase else v                  # v − kᵀx: (...)
            return torch.addcmul(x, (beta * change).unsqueeze(-1), k)
        # v − kᵀX: (..., d_v)
        change = v - product(k.unsqueeze(-2), x).squeeze(-2) if erase else v
        written = product(k.unsqueeze(-1), (beta.unsqueeze(-1) * change).unsqueeze(-2))
        return x + written


def delta_layer(x: Tensor, direction: Tensor, value_of: Tensor, rate_of: Tensor, value_map: Tensor,
                value_bias: Tensor, rate_map: Tensor, rate_bias: Tensor, eps: float,
                height: float = 4.0) -> Tensor:
    """The delta update with v = height σ(V u + b) and β = 2 σ(w c + b′), as Deep Delta Learning's
    authors fuse it (DDL section 4.1). The direction is guarded by eps.

    The residuals `delta` and `delta-matrix` call it where a kernel serves it. Elsewhere they keep
    the order and the precision of PyTorch's linear maps, which stored runs have.

    Arguments:
        x: the state, (..., d) or (..., d, d_v).
        direction, value_of, rate_of: h, u and c, each (..., d).
        value_map, value_bias: V, (d_v, d), and b, (d_v); d_v is 1 for a vector state.
        rate_map, rate_bias: w, (1, d), and b′, (1).
        eps: the guard of the normalisation of h.
        height: the upper limit of v; the published code has 4, the paper 1.
    Returns: a tensor in the shape and dtype of x. Logits are computed in float32 at least.
    Raises: ValueError when a tensor has another shape than these, for an eps below 0, or a height
        that isn't finite; TypeError for complex numbers, or an x whose numbers aren't
        floating-point.
    """
    require_state("x", x)
    require_real(direction=direction, value_of=value_of, rate_of=rate_of, value_map=value_map,
                 value_bias=value_bias, rate_map=rate_map, rate_bias=rate_bias, height=height)
    require_number("eps", eps, 0)
    channels = x.shape[direction.ndim:]
    if len(channels) > 1 or x.shape[:direction.ndim] != direction.shape:
        raise ValueError(f"x must have the axes of direction, {tuple(direction.shape)}, and one "
                         f"for channels or none, got {tuple(x.shape)}")
    d, d_v = direction.shape[-1], channels[0] if channels else 1
    wanted = {"value_of": (value_of, direction.shape), "rate_of": (rate_of, direction.shape),
              "value_map": (value_map, (d_v, d)), "value_bias": (value_bias, (d_v,)),
              "rate_map": (rate_map, (1, d)), "rate_bias": (rate_bias, (1,))}
    for name, (tensor, shape) in wanted.items():
        if tensor.shape != shape:
            raise ValueError(f"{name} must have the shape {tuple(shape)}, "
                             f"got {tuple(tensor.shape)}")
    if makes_rates(x, value_map):
        return kernels.TWINS["delta_layer"](x, direction, value_of, rate_of, value_map, value_bias,
                                            rate_map, rate_bias, eps, height)
    with outside_autocast(x):
        value = height * _linear(value_of, value_map, value_bias).sigmoid()
        rate = 2 * _linear(rate_of, rate_map, rate_bias).sigmoid()
    value = value if channels else value.squeeze(-1)
    return delta_update(x, direction, value, rate.squeeze(-1), eps=eps)


def makes_rates(x: Tensor, value_map: Tensor) -> bool:
    """Return whether a kernel of `delta_layer` makes v and β for the state x."""
    return kernels.serves(x) and kernels.holds(value_map)


def _linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """W x + b in float32 at least, whose backward pass leaves autocast too."""
    x, weight, bias = promoted(x, weight, bias)
    rows = product(x.reshape(x.shape[:-1].numel(), x.shape[-1]), weight.mT)
    return rows.view(*x.shape[:-1], len(weight)) + bias


def diagonal_update(x: Tensor, update: Tensor, beta: Tensor, alpha: Tensor) -> Tensor:
    """X + β ⊙ (h − α X): each feature is erased and written at its own rate (MGT eq. 7).

    Autograd keeps one more tensor of the state's size than a hand-written gradient would, which
    gains no measurable time: a step of MGT took 1.46 times an additive step with it and 1.42 times
    without.

    Arguments:
        x, update, beta: X, h and β, all (..., d).
        alpha: α, one number.
    Returns: (..., d), in the dtype of x.
    Raises: ValueError when update or beta has another shape than x, or alpha is more than one
        number; TypeError for complex numbers, or an x whose numbers aren't floating-point.
    """
    require_state("x", x)
    require_real(update=update, beta=beta, alpha=alpha)
    for name, tensor in (("update", update), ("beta", beta)):
        if tensor.shape != x.shape:
            raise ValueError(f"{name} must have the shape of x, {tuple(x.shape)}, "
                             f"got {tuple(tensor.shape)}")
    if alpha.numel() != 1:
        raise ValueError(f"alpha must be one number, got shape {tuple(alpha.shape)}")
    if kernels.serves(x):
        return kernels.TWINS["diagonal_update"](x, update, beta, alpha)
    update, beta, alpha = (t.to(x.dtype) for t in (update, beta, alpha))
    return torch.addcmul(x, beta, torch.addcmul(update, x, alpha, value=-1))
