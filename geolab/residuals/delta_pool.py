"""Pool(X): one vector of a matrix state, for the generators of k and β that read all of X.

    k̃ = MLP(Pool(X)) (DDL appendix B.1),   β = 2σ(Linear(𝒢(X))) (DDL eq. 2.7)

Legend: B batch, T positions, D model width, d_v value channels.
"""

import math

import torch
from torch import Tensor, nn

from geolab.checks import require_option

POOLS = ("mean", "flatten", "attention")


class Pool(nn.Module):
    """(B, T, D, d_v) -> (B, T, features).

    Arguments:
        width, channels: D and d_v.
        how: "mean" of the columns, "flatten" (all D d_v numbers), or "attention": Σ_j a_j X_j with
            a = softmax(Xᵀ q) over the columns X_j and a learned q in ℝᴰ. The paper says that
            attention may generate k (option 2), but not how. This is the smallest form. Where all
            columns are equal, as at the entry by expand="repeat", q has no effect.
    Raises: ValueError for another `how`.
    """

    def __init__(self, width: int, channels: int, how: str):
        super().__init__()
        require_option("how", how, POOLS)
        self.how, self.features = how, width * channels if how == "flatten" else width
        if how == "attention":
            self.query = nn.Parameter(torch.empty(width))
            self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.how == "attention":
            nn.init.normal_(self.query, std=0.5 / math.sqrt(len(self.query)))

    def forward(self, state: Tensor) -> Tensor:
        if self.how == "mean":
            return state.mean(-1)
        if self.how == "flatten":
            return state.flatten(-2)
        query = self.query.to(state.dtype).unsqueeze(-1)
        weights = (state * query).sum(-2).softmax(-1)                         # (B, T, d_v)
        return (state * weights.unsqueeze(-2)).sum(-1)
