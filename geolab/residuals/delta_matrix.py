"""X ← X + β k (vᵀ − kᵀX), the delta residual on a state of d_v value channels (DDL eq. 2.5).

See also DDL section 4.2. The state is a D × d_v matrix per token. A sublayer of width D reads it
through a compressor, x = Compress(X), and gives k; v and β are read from x. Every channel is erased
along the same k, so the lifted shortcut has determinant (1 − β)^d_v. The published names: d_v = 4
is compress="token"; EC adds expand="conv"; CC is compress="channel"; CC-EC is both.

Two things differ from the published code: it starts its kernels at random ("published"), while ours
start at the identity; and it shares one compressor between the two sublayers of a block, while each
sublayer here has its own. A sequence may be shorter than a convolution: zeros stand before its
first position, as they do before the first position of a longer sequence, so a prompt gives the
same outputs as the beginning of a longer text. The network refuses a max_length below K, because
then no sequence would fill the convolution.

Legend: B batch, T positions, D model width, d_v value channels, K taps of a convolution.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_count, require_option
from geolab.residuals.delta import DeltaRule

COMPRESSORS = ("token", "channel", "channel-conv")
EXPANSIONS = ("repeat", "conv")

class DeltaMatrix(DeltaRule):
    """Delta residual, d_v > 1. The first one expands the state; the last one reads it out.

    With erase=False, normalize=False and beta_fixed=1 it is X + h vᵀ, an additive residual with the
    same size of state.

    Arguments:
        width: D.
        channels: d_v, at least 2. A state of one channel is the residual `Delta`.
        compress: "token" (a causal convolution over positions, then a weighted sum of the
            channels), "channel" (a weighted sum with its own weights for each feature, as the paper
            writes it) or "channel-conv" (the same sum as the code parameterises it: a kernel for
            each feature over the channels, then one weighted sum).
        expand: "repeat" (every channel starts as the input) or "conv" (as a causal convolution of
            the input, which starts at "repeat").
        kernel: K, of the convolutions over positions. It has no effect where there is none, as with
            "channel" and "repeat".
        kernel_init: the compressors' kernels start at the "identity", so that x is the mean of the
            channels, or "published": at N(0, (0.5/√D)²), which makes the first x smaller by about
            that factor.
        erase: False leaves out the erasure: X + β k vᵀ. This is a control that the papers don't
            have.
        normalize: False takes the direction as it comes. This is allowed without erasure only,
            which needs a unit k.
        norm_eps: the same as in the sublayer's norm, because under published kernels the first x
            is smaller than this guard.
        rule: map, gate, beta_init, beta_fixed, value and eps, as for `Delta`. The code has
            value="sigmoid4", the paper "linear", its later version "normed-linear".
    Raises: ValueError for an unknown option, fewer than two channels, or erasure along a direction
        that isn't normalised.
    """

    def __init__(self, width: int, index: int = 0, count: int = 1, *, channels: int = 4,
                 compress: str = "token", expand: str = "repeat", kernel: int = 4,
                 kernel_init: str = "identity", erase: bool = True, normalize: bool = True,
                 norm_eps: float | None = 1e-5, **rule):
        require_count("channels", channels, 2)
        require_count("kernel", kernel)
        require_option("normalize", normalize, (True, False))
        if erase and not normalize:
            raise ValueError("normalize=False needs erase=False: I − β h hᵀ has no bound for an h "
                             "of any length")
        require_option("compress", compress, COMPRESSORS)
        require_option("expand", expand, EXPANSIONS)
        require_option("kernel_init", kernel_init, ("identity", "published"))
        super().__init__(width, index, count, channels=channels, norm_eps=norm_eps, erase=erase,
                         **rule)
        self.normalize = normalize
        self.reach = kernel if compress == "token" or expand == "conv" else 1

        def compressor():
            if compress == "token":
                return TokenCompressor(width, channels, kernel, kernel_init)
            return ChannelCompressor(width, channels, compress == "channel-conv", kernel_init)

        self.compressor = compressor()
        if self.last:
            self.readout = compressor()
        expander = identity_kernel(width * channels, kernel)
        self.expander = nn.Parameter(expander) if self.first and expand == "conv" else None

    def expand(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D, d_v)."""
        if self.expander is None:
            return x.unsqueeze(-1).expand(*x.shape, self.channels)
        channels = causal_convolution(x, self.expander)
        return channels.unflatten(-1, (self.width, self.channels)).contiguous()

    def read(self, state: Tensor) -> Tensor:
        """Compress(X): (B, T, D, d_v) -> (B, T, D)."""
        return self.compressor(state)

    def reduce(self, state: Tensor) -> Tensor:
        """(B, T, D, d_v) -> (B, T, D)."""
        return self.readout(state)


class TokenCompressor(nn.Module):
    """x_i = Σ_j w_j Σ_s c_ijs X_ij at s positions back: (B, T, D, d_v) -> (B, T, D)."""

    def __init__(self, width: int, channels: int, kernel: int, init: str):
        super().__init__()
        self.kernel = nn.Parameter(_kernel(width, init, identity_kernel(width * channels, kernel)))
        self.read = nn.Parameter(torch.full((channels,), 1 / channels))

    def forward(self, state: Tensor) -> Tensor:
        D, channels = state.shape[-2:]
        kernel = self.kernel * self.read.repeat(D)[:, None]  # includes the weights of the sum
        convolved = causal_convolution(state.flatten(-2), kernel)
        return convolved.unflatten(-1, (D, channels)).sum(-1)


class ChannelCompressor(nn.Module):
    """x_i = Σ_j c_ij X_ij: (B, T, D, d_v) -> (B, T, D). No position reads another.

    With `convolve`, c_i is a kernel over the channels, with zeros around them so that there are d_v
    outputs, followed by a weighted sum of those outputs. This is linear in the kernel, so it is the
    same family in other coordinates.
    """

    def __init__(self, width: int, channels: int, convolve: bool, init: str):
        super().__init__()
        own = F.one_hot(torch.full((width,), (channels - 1) // 2), channels).float()
        mean = torch.full((width, channels), 1 / channels)
        self.kernel = nn.Parameter(_kernel(width, init, own if convolve else mean))
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
    """Depthwise: output c at t is Σ_s kernel[c, s] x at t − (K − 1) + s, with zeros before x_1.

    Arguments:
        x: (B, T, C), T of any length.
        kernel: (m C, K); outputs m c … m c + m − 1 read feature c.
    Returns: (B, T, m C).
    """
    past = F.pad(x, (0, 0, kernel.shape[-1] - 1, 0)).transpose(-2, -1)
    return F.conv1d(past, kernel.unsqueeze(1), groups=x.shape[-1]).transpose(-2, -1)


def identity_kernel(features: int, kernel: int) -> Tensor:
    """(features, K), zero except for the last tap: the convolution that changes nothing."""
    return F.one_hot(torch.full((features,), kernel - 1), kernel).float()


def _kernel(width: int, init: str, identity: Tensor) -> Tensor:
    if init == "identity":
        return identity
    return torch.randn_like(identity) * (0.5 / math.sqrt(width))
