"""Measure whether an output reads later inputs. A model for next-step prediction must not."""

from collections.abc import Callable

import torch
from torch import Tensor


def influence(model: Callable[[Tensor], Tensor], x: Tensor, seed: int = 0) -> Tensor:
    """The influence of input s on output t: a (T, T) matrix, row t, column s.

    For vectors (B, T, D), it is ‖∂⟨r_t, output_t⟩ / ∂input_s‖ with a random r_t: zero if and only
    if the derivative vanishes, except for a set of r of measure zero. For integer tokens (B, T),
    which have no derivative, it is the largest change of output t when token s is replaced by
    another token that occurs in x.

    Raises: ValueError for another shape, for tokens that are all the same, or where a model of
        vectors gives an output without a gradient.
    """
    if x.is_floating_point() and x.ndim == 3 and x.shape[1]:
        return _by_gradient(model, x, seed)
    if not x.is_floating_point() and x.ndim == 2:
        return _by_replacement(model, x)
    raise ValueError("x must be vectors (B, T, D) or integer tokens (B, T), with T ≥ 1, "
                     f"got {x.dtype} of shape {tuple(x.shape)}")


def future_influence(model: Callable[[Tensor], Tensor], x: Tensor, seed: int = 0) -> float:
    """The largest entry of `influence` above its diagonal: exactly 0 for a causal model."""
    return influence(model, x, seed).triu(1).max().item()


@torch.enable_grad()
def _by_gradient(model, x, seed):
    x = x.detach().clone().requires_grad_()
    output = model(x)
    if not output.requires_grad:
        raise ValueError("model must give an output with a gradient, to tell what it reads of x, "
                         "got one without")
    generator = torch.Generator().manual_seed(seed)
    probe = torch.randn(output.shape, generator=generator).to(output)
    rows = [torch.autograd.grad((probe[:, t] * output[:, t]).sum(), x, retain_graph=True,
                                materialize_grads=True)[0] for t in range(x.shape[1])]
    return torch.stack([row.norm(dim=(0, 2)) for row in rows])


@torch.no_grad()
def _by_replacement(model, x):
    known = x.unique()
    if len(known) < 2:
        raise ValueError("x must contain at least two different tokens, "
                         f"got only {known.tolist()}")
    output, columns = model(x), []
    for s in range(x.shape[1]):
        changed = x.clone()
        changed[:, s] = torch.where(x[:, s] == known[0], known[1], known[0])
        change = (model(changed) - output).abs()
        columns.append(change.amax(dim=(0, *range(2, output.ndim))))
    return torch.stack(columns, dim=1)
