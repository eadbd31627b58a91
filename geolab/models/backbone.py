"""The backbone of the residuals: a causal stack of attention and MLP sublayers, with any residual.

Legend: B batch, T positions, D width.
"""

from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from geolab.checks import require_width
from geolab.models.config import TransformerConfig
from geolab.models.layers import MLP, Attention, Layer, make_norm, require_length
from geolab.operators import recomputed
from geolab.residuals import Residual, make_residual
from geolab.residuals.base import joining, untouched


class Transformer(nn.Module):
    """The trunk, (B, T, D) -> (B, T, D).

    Arguments:
        config: the backbone.
        residual: a name in `geolab.residuals.REGISTRY` or a Residual class.
        options: for the residual's constructor.
    Attributes:
        width: the features of input and output: config.width, or more where the residual's `outer`
            says so. The positions and the last norm have as many features.
        recompute: a number of layers. For each group of so many layers the first state is kept, and
            the backward pass computes the others again (see `operators.recomputed`). With 0 all
            states are kept.
    Raises: ValueError for an unknown residual, a max_length below the reach of its convolutions,
        norm_at="post" around a state that doesn't consist of streams, a sequence longer than
        config.max_length, or an input without batch, positions or `width` features.
    """

    recompute = 0

    def __init__(self, config: TransformerConfig, residual: str | type[Residual] = "additive",
                 **options):
        super().__init__()
        self.config = config
        mixers = [mixer(config) for _ in range(config.layers) for mixer in (Attention, MLP)]
        self.layers = nn.ModuleList(
            Layer(config, mix, make_residual(residual, config.width, index, len(mixers), **options))
            for index, mix in enumerate(mixers))
        for before, layer in pairwise(self.layers):
            layer.residual.follow(before.residual)
        reach = max(layer.residual.reach for layer in self.layers)
        if config.max_length < reach:
            raise ValueError(f"max_length must be at least {reach}, the positions that a "
                             f"convolution of {residual!r} reads, got {config.max_length}")
        if config.norm_at == "post":
            self._require_streams(residual)
        self.norm = make_norm(config, self.width) if config.norm_at == "pre" else nn.Identity()
        if config.positions == "learned":
            self.position = nn.Parameter(torch.empty(1, config.max_length, self.width))
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start the trunk's own parameters anew: its learned positions."""
        if self.config.positions == "learned":
            nn.init.normal_(self.position, std=self.config.init_std)

    @property
    def width(self) -> int:
        first: Residual = self.layers[0].residual
        return first.outer

    @property
    def joined(self) -> bool:
        """True if each sublayer leaves the write of its state to the kernel of the next one."""
        return (self.config.norm_at == "pre"
                and all(untouched(layer, called=True) for layer in self.layers)
                and joining(layer.residual for layer in self.layers))

    def extra_repr(self) -> str:
        return repr(self.config)

    @torch.no_grad()
    def _require_streams(self, residual: str | type[Residual]) -> None:
        """Raise ValueError unless the state consists of streams: a norm after the residual has the
        width of a stream.
        """
        shape = self.layers[0].residual.expand(torch.zeros(1, 1, self.width)).shape
        if shape[-1] != self.config.width:
            raise ValueError(f"norm_at='post' normalises streams of width {self.config.width}, and "
                             f"the state of {residual!r} has shape {tuple(shape)}; "
                             "use norm_at='pre'")

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 3 or not x.shape[1]:
            raise ValueError("input must be (batch, positions, width), with at least 1 position, "
                             f"got shape {tuple(x.shape)}")
        require_width("input", x, self.width)
        require_length(x.shape[1], self.config.max_length)
        if self.config.positions == "learned":
            x = x + self.position[:, :x.shape[1]]
        state = self.layers[0].residual.expand(x)
        joined = self.joined
        layers, size = list(self.layers), self.recompute or len(self.layers)
        for start in range(0, len(layers), size):
            run = partial(_through, layers[start:start + size], joined)
            state = recomputed(run, state) if self.recompute else run(state)
        state = state.written() if joined else state
        return self.norm(self.layers[-1].residual.reduce(state))


def _through(layers: list[Layer], joined: bool, state: Any) -> Any:
    for layer in layers:
        state = layer(state, joined)
    return state
