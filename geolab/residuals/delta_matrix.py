"""X ← X + β k (vᵀ − kᵀX), the delta residual on a state of d_v value channels (DDL eq. 2.5 and section 4.2).

The state is a D × d_v matrix a token. A sublayer of width D reads it through a compressor, x = Compress(X), and gives k;
v and β are read from x. Every channel is erased along the same k, so the lifted shortcut has determinant (1 − β)^d_v.
The published names: d_v = 4 is compress="token"; EC adds expand="conv"; CC is compress="channel"; CC-EC is both.
Two things differ from the published code: it starts its kernels at random ("published"), ours at the identity, and
it shares one compressor between the two sublayers of a block, where each sublayer here has its own.
A sequence may be shorter than a convolution: zeros stand before its first position, as before the first of a longer one, so
a prompt gives what it gives as a beginning. Where max_length is below K no sequence fills the convolution: that is refused.

Legend: B batch, T positions, D model width, d_v value channels, K taps of a convolution.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_count, require_option
from geolab.operators import delta_update, unit_direction
from geolab.residuals.base import Sublayer
from geolab.residuals.delta import Coefficients, DeltaRule, WriteOnly

COMPRESSORS = ("token", "channel", "channel-conv")
EXPANSIONS = ("repeat", "conv")
KERNEL_INITS = ("identity", "published")


class DeltaMatrix(DeltaRule):
    """Delta residual, d_v > 1. The first instance expands the state, the last one owns the readout's compressor.

    With erase=False, normalize=False and beta_fixed=1 it is X + h vᵀ, an additive residual of the same state size.

    Arguments:
        width: D.
        channels: d_v, at least 2.
        compress: "token" (a causal convolution over positions, then a weighted sum of the channels), "channel" (a
            weighted sum with weights of its own for each feature, as the paper writes it) or "channel-conv" (the
            same sum as the code parameterises it: a kernel for each feature over the channels, then one weighted sum).
        expand: "repeat" (every channel starts as the input) or "conv" (as a causal convolution of it, started there).
        kernel: K, of the convolutions over positions; says nothing where there is none, as with "channel" and "repeat".
        kernel_init: the compressors' kernels start at the "identity", so that x is the mean of the channels, or
            "published": at N(0, (0.5/√D)²), which makes the first x smaller by about that factor.
        erase: False leaves out the erasure: X + β k vᵀ. A control; the papers have none.
        normalize: False takes the direction as it comes. Only without erasure, which needs a unit k.
        norm_eps: as the sublayer's norm has it: under published kernels the first x is smaller than it.
        rule: map, gate, beta_init, beta_fixed, value and eps, as for `Delta`. Code: value="sigmoid4"; paper:
            "linear"; its later version: "normed-linear".
    Raises: ValueError for an unknown option, fewer than two channels, or erasure along a direction of any length.
    """

    def __init__(self, width: int, index: int = 0, count: int = 1, *, channels: int = 4, compress: str = "token",
                 expand: str = "repeat", kernel: int = 4, kernel_init: str = "identity", erase: bool = True,
                 normalize: bool = True, norm_eps: float | None = 1e-5, **rule):
        if channels == 1:
            raise ValueError("channels must be at least 2, got 1: a state of one channel is the residual 'delta'")
        require_count("channels", channels, 2)
        require_count("kernel", kernel)
        require_option("normalize", normalize, (True, False))
        if erase and not normalize:
            raise ValueError("normalize=False needs erase=False: I − β h hᵀ has no bound for an h of any length")
        require_option("compress", compress, COMPRESSORS)
        require_option("expand", expand, EXPANSIONS)
        require_option("kernel_init", kernel_init, KERNEL_INITS)
        super().__init__(width, index, count, channels=channels, norm_eps=norm_eps, erase=erase, **rule)
        self.normalize = normalize
        self.reach = kernel if compress == "token" or expand == "conv" else 1

        def compressor():
            if compress == "token":
                return TokenCompressor(width, channels, kernel, kernel_init)
            return ChannelCompressor(width, channels, compress == "channel-conv", kernel_init)

        self.compressor = compressor()
        if self.last:
            self.readout = compressor()
        if self.first and expand == "conv":
            self.expander = nn.Parameter(identity_kernel(width * channels, kernel))
        else:
            self.expander = None

    def extra_repr(self) -> str:
        norm_eps = "" if self.norm_eps == 1e-5 else f", norm_eps={self.norm_eps}"  # checkpoints know a model by this text
        return f"channels={self.channels}, erase={self.erase}, normalize={self.normalize}, {super().extra_repr()}{norm_eps}"

    def expand(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D, d_v)."""
        if self.expander is None:
            return x.unsqueeze(-1).expand(*x.shape, self.channels)
        return causal_convolution(x, self.expander).unflatten(-1, (self.width, self.channels)).contiguous()

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        rule = self.generate(self.compressor(state), sublayer)
        return delta_update(state, *rule, erase=self.erase, eps=self.eps if self.normalize else None)

    def reduce(self, state: Tensor) -> Tensor:
        """(B, T, D, d_v) -> (B, T, D)."""
        return self.readout(state)

    def coefficients(self, x: Tensor, sublayer: Sublayer) -> Coefficients:
        """k (B, T, D), v (B, T, d_v) and β (B, T) at a compressed state x (B, T, D)."""
        direction, value, beta = self.generate(x, sublayer)
        found = Coefficients if self.erase else WriteOnly
        return found(unit_direction(direction, self.eps) if self.normalize else direction, value, beta)

    def observe(self, state: Tensor, sublayer: Sublayer) -> Coefficients:
        return self.coefficients(self.compressor(state), sublayer)


class TokenCompressor(nn.Module):
    """x_i = Σ_j w_j Σ_s c_ijs X_ij at s positions back: (B, T, D, d_v) -> (B, T, D)."""

    def __init__(self, width: int, channels: int, kernel: int, init: str):
        super().__init__()
        self.kernel = nn.Parameter(_kernel(width, init, identity_kernel(width * channels, kernel)))
        self.read = nn.Parameter(torch.full((channels,), 1 / channels))

    def forward(self, state: Tensor) -> Tensor:
        D, channels = state.shape[-2:]
        kernel = self.kernel * self.read.repeat(D)[:, None]  # the weights of the sum, folded into the convolution
        return causal_convolution(state.flatten(-2), kernel).unflatten(-1, (D, channels)).sum(-1)


class ChannelCompressor(nn.Module):
    """x_i = Σ_j c_ij X_ij: (B, T, D, d_v) -> (B, T, D). No position reads another.

    With `convolve`, c_i is a kernel over the channels (zeros around them, so that there are d_v outputs) followed by
    a weighted sum of those outputs. That is linear in the kernel, so it is the same family in other coordinates.
    """

    def __init__(self, width: int, channels: int, convolve: bool, init: str):
        super().__init__()
        before = (channels - 1) // 2 if convolve else 0  # channels that an output sees before its own
        start = F.one_hot(torch.full((width,), before), channels).float() if convolve else torch.full((width, channels), 1 / channels)
        self.kernel = nn.Parameter(_kernel(width, init, start))
        self.read = nn.Parameter(torch.full((channels,), 1 / channels)) if convolve else None

    def weights(self) -> Tensor:
        """c, (D, d_v)."""
        if self.read is None:
            return self.kernel
        channels = len(self.read)
        before = (channels - 1) // 2
        # row s: where tap s puts the weights of the sum, w_(j − s + before)
        placed = F.pad(self.read, (channels - 1 - before, before)).unfold(0, channels, 1).flip(0)
        return self.kernel @ placed

    def forward(self, state: Tensor) -> Tensor:
        return (state * self.weights()).sum(-1)


def causal_convolution(x: Tensor, kernel: Tensor) -> Tensor:
    """Depthwise: output c at t is Σ_s kernel[c, s] x at t − (K − 1) + s, with zeros before the first position.

    Arguments:
        x: (B, T, C), T of any length.
        kernel: (m C, K); outputs m c … m c + m − 1 read feature c.
    Returns: (B, T, m C).
    """
    past = F.pad(x, (0, 0, kernel.shape[-1] - 1, 0)).transpose(-2, -1)
    return F.conv1d(past, kernel.unsqueeze(1), groups=x.shape[-1]).transpose(-2, -1)


def identity_kernel(features: int, kernel: int) -> Tensor:
    """(features, K), zero but for the last tap: the convolution that changes nothing."""
    return F.one_hot(torch.full((features,), kernel - 1), kernel).float()


def _kernel(width: int, init: str, identity: Tensor) -> Tensor:
    return identity if init == "identity" else torch.randn_like(identity) * (0.5 / math.sqrt(width))
