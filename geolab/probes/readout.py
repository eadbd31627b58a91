"""Measure what a linear map can read from a state: ridge regression, tested on examples that it
wasn't fitted to.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.checks import require_number, require_state


def linear_readout(x: Tensor, labels: Tensor, ridge: float = 1e-2) -> Tensor:
    """The share of labels in the second half that the least-squares map of the first half gets
    right.

        W = (Xᵀ X + ridge · λ I)⁻¹ Xᵀ Y

    X is centred, λ is the mean eigenvalue of XᵀX, and Y has one column per label.

    Arguments:
        x: (N, D).
        labels: (N,), int64, at most N/2 different ones. For independent uniform labels among V,
            chance is 1/V.
        ridge: relative to the size of x, so that a state and its multiples give the same result.
    Returns: a scalar.
    Raises: ValueError for shapes that don't fit, fewer than two examples, labels that aren't int64,
        or a ridge below 0; TypeError when the numbers of x aren't floating-point.
    """
    require_state("x", x)
    require_number("ridge", ridge, 0)
    if x.ndim != 2 or labels.shape != x.shape[:1]:
        raise ValueError("x must be (N, D) and labels (N,), "
                         f"got shapes {tuple(x.shape)} and {tuple(labels.shape)}")
    if len(x) < 2 or labels.dtype != torch.int64 or labels.min() < 0:
        raise ValueError("labels must be int64, from 0 on, of at least two examples, got "
                         f"{labels.dtype} of shape {tuple(labels.shape)}")
    half = len(x) // 2
    x = (x - x[:half].mean(0)).double()
    X, Y = x[:half], F.one_hot(labels)[:half].double()
    gram = X.mT @ X
    size = ridge * gram.trace() / len(gram)
    W = torch.linalg.solve(gram + size * torch.eye(len(gram)).to(gram), X.mT @ (Y - Y.mean(0)))
    return ((x[half:] @ W + Y.mean(0)).argmax(-1) == labels[half:]).double().mean()
