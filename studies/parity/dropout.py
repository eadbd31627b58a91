"""Dropout by a rule instead of at random, so that two models can be compared in training mode.

The k-th call (from 0) drops every feature i with i + k divisible by PERIOD, and divides the others
by 1 − p. So a model that drops elsewhere, in another order or with another p gives other numbers.
The rule depends on the last axis alone, so two models may lay out batch and positions differently.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor

PERIOD = 5


@contextmanager
def dropout_by_rule() -> Iterator[None]:
    """Replace all dropout, attention's too. Calls with p = 0 or in evaluation mode don't count."""
    calls, attention = count(), F.scaled_dot_product_attention

    def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        if not training or p == 0:
            return x
        kept = (torch.arange(x.shape[-1], device=x.device) + next(calls)) % PERIOD > 0
        return x * kept / (1 - p)

    def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor,
                                     attn_mask: Tensor | None = None, dropout_p: float = 0.0,
                                     is_causal: bool = False, scale: float | None = None,
                                     **options) -> Tensor:
        if dropout_p == 0:
            return attention(query, key, value, attn_mask, 0.0, is_causal, scale=scale, **options)
        scores = query @ key.mT * (scale or query.shape[-1] ** -0.5)
        if is_causal:
            attn_mask = torch.ones_like(scores, dtype=torch.bool).tril()
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(~attn_mask, -torch.inf)
        elif attn_mask is not None:
            scores = scores + attn_mask
        return dropout(scores.softmax(dim=-1), dropout_p) @ value

    with mock.patch.multiple(F, dropout=dropout,
                             scaled_dot_product_attention=scaled_dot_product_attention):
        yield
