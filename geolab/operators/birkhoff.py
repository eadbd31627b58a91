"""Sinkhorn normalisation: exp(logits), with columns and rows scaled to sum 1 in turn.

This is how mHC (section 4) makes a matrix doubly stochastic. The first iteration is a log-softmax
and a softmax. It takes logits of any size to a matrix K with row and column sums between 1/n and n.
The sums of later iterations stay in these bounds and need no logarithms: P = diag(f) K diag(g),
with two n-vectors per iteration in place of a matrix. The backward is exact and keeps only those
vectors. Two shortcuts would be wrong at 20 iterations: the same P for all steps of the backward,
and the derivative of the limit.

This dual form loses entries of K below the smallest number of its dtype. If hundreds of iterations
would have made them grow, the rest may have no doubly stochastic scaling, and f and g overflow. The
logarithmic form keeps such entries.

Legend: n rows and columns, ... any leading axes, one matrix each; N matrices.
"""

from math import prod

import torch
from torch import Tensor
from torch.autograd import Function

from geolab import kernels
from geolab.checks import (
    require_count,
    require_number,
    require_option,
    require_square,
    require_state,
)
from geolab.operators.precision import widened

ORDERS = ("column-row", "row-column")
FORMS = ("dual", "log")


def sinkhorn(logits: Tensor, iterations: int = 20, order: str = "column-row",
             form: str = "dual", eps: float = 0.0) -> Tensor:
    """P, which is nearly doubly stochastic.

    The sums of the side that is normalised last are 1 to rounding. Those of the other side are only
    near 1. Where rows are exact, the spectral norm of P is at most √(largest column sum). Sharp
    logits need many iterations: at 20, logits of standard deviation 10 can leave a column sum of
    1.4.

    In float32 the gradient is right to 3e-6 of the length of ∂L/∂P, at logits of any size. Sharp
    logits have gradients that nearly vanish: at a standard deviation of 100 and more they may be
    shorter than this error, and then no digit of them is right.

    Arguments:
        logits: (..., n, n), of any size.
        iterations: how often both are normalised, at least once; mHC takes 20.
        order: "column-row" makes columns sum to 1, then rows (mHC); "row-column" makes rows sum to
            1, then columns (the baseline of E-MHC-Geo's benchmark). After finitely many iterations
            the two differ. Public code of mHC (DeepSeek-V4 in transformers, TileKernels) starts
            with the rows of a matrix C and multiplies the streams by Cᵀ. So the matrix that acts
            is P in the order "column-row", of the transposed logits.
        form: "dual", or "log": the same matrix through logarithms, 1.4 times slower at 20
            iterations, which keeps two matrices per iteration for the backward. It is needed where
            logits lie more than 80 (float32) or 700 (float64) apart and there are hundreds of
            iterations.
        eps: a guard, as in DeepSeek-V4, which takes 1e-6. It is added to each entry after the first
            softmax, and to each sum afterwards. Then no sum is 1 to rounding. An entry that should
            vanish is lifted to eps, and 20 iterations can make it large: of logits with standard
            deviation 10, three matrices in ten have an entry that moves by more than 0.1. With a
            guard there is no kernel and no dual form: autograd follows the steps, and keeps a
            matrix for each.
    Returns: (..., n, n), in float32 at least.
    Raises: ValueError when logits are not square, for less than one iteration, an unknown order or
        form, an eps that is negative, or an eps with form="log"; TypeError when the numbers aren't
        floating-point.
    """
    require_square("logits", logits)
    require_state("logits", logits)
    require_count("iterations", iterations)
    require_option("order", order, ORDERS)
    require_option("form", form, FORMS)
    require_number("eps", eps, 0)
    if eps and form == "log":
        raise ValueError(f"eps must be 0 with form='log', which has no sums to guard, got {eps}")
    if kernels.serves(logits, logits.shape[-1]) and form == "dual" and not eps:
        return kernels.TWINS["sinkhorn"](logits, iterations, order)
    # torch.func can't look into a hand-written backward pass that keeps a history
    by_hand = form == "dual" and not kernels.transformed()
    return sinkhorn_reference(widened(logits), iterations, order, eps, by_hand)


def sinkhorn_reference(logits: Tensor, iterations: int, order: str, eps: float,
                       by_hand: bool) -> Tensor:
    n, flip = logits.shape[-1], order == "row-column"
    x = logits.mT if flip else logits
    # (n, n, N): each step is one long vector operation
    x = x.reshape(prod(x.shape[:-2]), n, n).permute(1, 2, 0).contiguous()
    p = (_guarded(x, iterations, eps) if eps else
         _dual(x, iterations) if by_hand else _logarithmic(x, iterations))
    return (p.permute(2, 1, 0) if flip else p.permute(2, 0, 1)).contiguous().view(logits.shape)


def _dual(x: Tensor, iterations: int) -> Tensor:
    return _Scaling.apply(x.log_softmax(0).softmax(1), iterations - 1)


def _logarithmic(x: Tensor, iterations: int) -> Tensor:
    for _ in range(iterations):
        x = x.log_softmax(0).log_softmax(1)
    return x.exp()


def _guarded(x: Tensor, iterations: int, eps: float) -> Tensor:
    p = x.softmax(0) + eps
    for step in range(iterations):
        if step:
            p = p / (p.sum(0, keepdim=True) + eps)
        p = p / (p.sum(1, keepdim=True) + eps)
    return p


def _factors(k: Tensor, iterations: int,
             terms: Tensor | None = None) -> tuple[list[Tensor], list[Tensor]]:
    """All f and all g: `iterations` times g = 1 / Kᵀf, then f = 1 / K g, from f = 1.

    If there is a buffer `terms`, the products go there: it stays in the cache.
    """
    fs, gs = [torch.ones_like(k[:, :1])], [torch.ones_like(k[:1])]
    for _ in range(iterations):
        gs.append(torch.mul(k, fs[-1], out=terms).sum(0, keepdim=True).reciprocal_())
        fs.append(torch.mul(k, gs[-1], out=terms).sum(1, keepdim=True).reciprocal_())
    return fs, gs


class _Scaling(Function):
    """K (n, n, N) -> diag(f) K diag(g): `iterations` times g = 1 / Kᵀf, then f = 1 / K g.

    It starts at f = 1; f is a column, and g is a row. At 8128 matrices of size 4 and 20
    iterations, on one thread, forward and backward take 7 ms and keep 6 MiB. Autograd takes 15 ms
    and 11 MiB for the same steps, and 10 ms and 20 MiB for the logarithmic form. With them a
    training step of E-MHC-Geo's mHC is 18 % and 5 % longer. For a second derivative the backward
    forms f and g again, so that autograd sees how they depend on K.
    """

    @staticmethod
    def forward(ctx, k: Tensor, iterations: int) -> Tensor:
        fs, gs = _factors(k, iterations, torch.empty_like(k))
        ctx.save_for_backward(k, *fs, *gs)
        # A result that is changed in place has a gradient of zeros if PyTorch 2.11 compiles this
        return k * fs[-1] * gs[-1]

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        k, *history = ctx.saved_tensors
        fs, gs = history[:len(history) // 2], history[len(history) // 2:]
        again = torch.is_grad_enabled()
        # neither autograd nor vmap looks into a buffer
        terms = None if again or kernels.batched(grad) else torch.empty_like(k)
        if again:
            fs, gs = _factors(k, len(fs) - 1)
        grad = grad.contiguous()
        grad_k = grad * fs[-1] * gs[-1]
        grad_f = torch.mul(grad, k, out=terms).mul_(gs[-1]).sum(1, keepdim=True)
        grad_g = torch.mul(grad, k, out=terms).mul_(fs[-1]).sum(0, keepdim=True)
        for step in range(len(fs) - 1, 0, -1):
            row = grad_f.mul_(fs[step].square())              # the gradient by −K g
            grad_k.addcmul_(row, gs[step], value=-1)
            column = torch.mul(k, row, out=terms).sum(0, keepdim=True)
            if step == len(fs) - 1:
                column -= grad_g                          # only the last g is part of the result
            column *= gs[step].square()                       # the gradient by the Kᵀf before
            grad_k.addcmul_(fs[step - 1], column)
            grad_f = torch.mul(k, column, out=terms).sum(1, keepdim=True)
        return grad_k, None
