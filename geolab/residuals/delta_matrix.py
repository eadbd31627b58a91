"""X ← X + β k (vᵀ − kᵀX), the delta residual on a state of d_v value channels (DDL eq. 2.5).

See also DDL section 4.2. The state is a D × d_v matrix per token. A sublayer of width D reads it
through a compressor, x = Compress(X), and gives k. v and β are functions of x. Every channel is
erased along the same k, so the lifted shortcut has determinant (1 − β)^d_v. In the published names,
d_v = 4 is compress="token", EC adds expand="conv", CC is compress="channel", and CC-EC is both.

The published code starts its kernels at random, shares one compressor between the two sublayers of
a block, and lets β read through the sublayer's norm: kernel_init="published", tied=True and
context="sublayer". A sequence may be shorter than a convolution: zeros stand before its first
position, as they do before the first position of a longer sequence, so a prompt gives the same
outputs as the beginning of a longer text. The network refuses a max_length below K, because then no
sequence would fill the convolution.

Legend: B batch, T positions, D model width, d_v value channels, K taps of a convolution.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_count, require_option
from geolab.residuals.base import Residual
from geolab.residuals.delta import DeltaRule
from geolab.residuals.delta_pool import POOLS, Pool
from geolab.residuals.weights import Weight, put

COMPRESSORS = ("token", "channel", "channel-conv")
EXPANSIONS = ("repeat", "conv")


class DeltaMatrix(DeltaRule):
    """The delta residual with d_v > 1. The network's first one expands the state, and its last one
    reads it out.

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
        kernel: K, of the convolutions over positions. It must be left out without such a
            convolution, as with "channel" and "repeat".
        kernel_init: the compressors' kernels start at the "identity", so that x is the mean of the
            channels, or "published": at N(0, (0.5/√D)²), which makes the first x smaller by about
            that factor.
        tied: whether the two sublayers of a block share one compressor, as in the published code.
            The first of them then has it, and the network gives it to the second by `follow`.
        direction_reads: what the v-Map's branch for k reads: "input" (x), or Pool(X) (appendix
            B.1), one of POOLS.
        beta_reads: 𝒢 of eq. 2.7: "context" (the norm of x, as published, where the compressor pools
            or convolves), or Pool(X), one of POOLS, without a norm.
        normalize: False takes the direction without normalisation. This needs erase=False, since
            erasure needs a unit k.
        norm_eps: the guard of β's norm. By default it equals that of the sublayer's norm, because
            under published kernels the first x is smaller than this guard.
        rule: the other fields of `Rule`. With erase=False it is X + β k vᵀ. The code has
            value="sigmoid4", the paper "linear", its later version "normed-linear".
    Raises: ValueError for an unknown option, fewer than two channels, erasure along a direction
        that isn't normalised, or a step whose compressor or state is missing.
    """

    def __init__(self, width: int, index: int = 0, count: int = 1, *, channels: int = 4,
                 compress: str = "token", expand: str = "repeat", kernel: int = 4,
                 kernel_init: str = "identity", tied: bool = False, direction_reads: str = "input",
                 beta_reads: str = "context", normalize: bool = True,
                 norm_eps: float | None = 1e-5, **rule):
        require_count("channels", channels, 2)
        require_count("kernel", kernel)
        require_option("normalize", normalize, (True, False))
        require_option("compress", compress, COMPRESSORS)
        require_option("expand", expand, EXPANSIONS)
        require_option("kernel_init", kernel_init, ("identity", "published"))
        require_option("tied", tied, (True, False))
        require_option("direction_reads", direction_reads, ("input", *POOLS))
        require_option("beta_reads", beta_reads, ("context", *POOLS))
        of_direction = Pool(width, channels, direction_reads) if direction_reads in POOLS else None
        of_beta = Pool(width, channels, beta_reads) if beta_reads in POOLS else None
        super().__init__(width, index, count, channels=channels, norm_eps=norm_eps,
                         gate_inputs=of_beta.features if of_beta else width,
                         direction_inputs=of_direction.features if of_direction else width, **rule)
        if self.rule.erase and not normalize:
            raise ValueError("normalize=False needs erase=False: I − β h hᵀ has no bound for an h "
                             "of any length")
        self.direction_pool, self.beta_pool = of_direction, of_beta
        self.normalize = normalize
        self.reach = kernel if compress == "token" or expand == "conv" else 1

        def compressor():
            if compress == "token":
                return TokenCompressor(width, channels, kernel, kernel_init)
            return ChannelCompressor(width, channels, compress == "channel-conv", kernel_init)

        self.lends, borrows = tied and index % 2 == 0, tied and index % 2 == 1
        self.compressor = None if borrows else compressor()
        if self.last:
            self.readout = compressor()
        self.expander = Weight(width * channels, kernel, how=_start_kernel) \
            if self.first and expand == "conv" else None

    @classmethod
    def idle(cls, options: Mapping[str, Any]) -> dict[str, str]:
        found = super().idle(options)
        if options["map"] != "v":
            found["direction_reads"] = f"map={options['map']!r}"  # F gives the direction
        if options["beta_fixed"] is not None:
            found["beta_reads"] = f"beta_fixed={options['beta_fixed']!r}"
        elif options["beta_reads"] != "context" and not cls._reads_norm(options):
            found |= dict.fromkeys(("context", "norm_eps"), f"beta_reads={options['beta_reads']!r}")
        if not options["normalize"]:
            found["eps"] = "normalize=False"
        if options["compress"] != "token" and options["expand"] != "conv":
            found["kernel"] = (f"compress={options['compress']!r} and "
                               f"expand={options['expand']!r}")
        return found

    def expand(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D, d_v)."""
        if self.expander is None:
            return x.unsqueeze(-1).expand(*x.shape, self.channels)
        channels = causal_convolution(x, self.expander())
        return channels.unflatten(-1, (self.width, self.channels)).contiguous()

    def follow(self, before: Residual) -> None:
        if self.compressor is None:
            # not through nn.Module, which would count and name the parameters a second time
            self.__dict__["compressor"] = before.compressor

    def read(self, state: Tensor) -> Tensor:
        """Compress(X): (B, T, D, d_v) -> (B, T, D)."""
        if self.compressor is None:
            raise ValueError("with tied=True every second sublayer reads through the compressor of "
                             "the one before: give it that residual by follow(before)")
        return self.compressor(state)

    def _direction(self, x: Tensor, context: Tensor, state: Tensor | None) -> Tensor:
        return self.direction_head(_pooled(self.direction_pool, state, x))

    def _gate_reads(self, context: Tensor, state: Tensor | None) -> Tensor:
        return _pooled(self.beta_pool, state, context)

    def reduce(self, state: Tensor) -> Tensor:
        """(B, T, D, d_v) -> (B, T, D)."""
        return self.readout(state)


def _pooled(pool: Pool | None, state: Tensor | None, without: Tensor) -> Tensor:
    """Pool(X), or `without` where there is no pool."""
    if pool is None:
        return without
    if state is None:
        raise ValueError("a generator that pools the state needs it: coefficients(x, sublayer, "
                         "state), or observe(state, sublayer)")
    return pool(state)


class TokenCompressor(nn.Module):
    """x_i = Σ_j w_j Σ_s c_ijs X_ij at s positions back: (B, T, D, d_v) -> (B, T, D)."""

    def __init__(self, width: int, channels: int, kernel: int, init: str):
        super().__init__()
        self.width, self.published = width, init == "published"
        self.kernel = nn.Parameter(torch.empty(width * channels, kernel))
        self.read = nn.Parameter(torch.empty(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        _start_kernel(self.kernel, self.width if self.published else None)
        nn.init.constant_(self.read, 1 / len(self.read))

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
        self.published = init == "published"
        self.kernel = nn.Parameter(torch.empty(width, channels))
        self.read = nn.Parameter(torch.empty(channels)) if convolve else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        width, channels = self.kernel.shape
        if self.published:
            _start_kernel(self.kernel, width)
        elif self.read is None:
            nn.init.constant_(self.kernel, 1 / channels)
        else:
            put(self.kernel, F.one_hot(torch.full((width,), (channels - 1) // 2), channels))
        if self.read is not None:
            nn.init.constant_(self.read, 1 / channels)

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
        return (state * self.weights().to(state.dtype)).sum(-1)


def causal_convolution(x: Tensor, kernel: Tensor) -> Tensor:
    """Depthwise: output c at t is Σ_s kernel[c, s] x at t − (K − 1) + s, with zeros before x_1.

    Arguments:
        x: (B, T, C), T of any length.
        kernel: (m C, K); outputs m c … m c + m − 1 read feature c.
    Returns: (B, T, m C).
    """
    if not x.shape[-2]:  # PyTorch convolves nothing that is shorter than the kernel
        return x.repeat(1, 1, len(kernel) // x.shape[-1])
    past = F.pad(x, (0, 0, kernel.shape[-1] - 1, 0)).transpose(-2, -1)
    kernel = kernel.to(x.dtype).unsqueeze(1)
    return F.conv1d(past, kernel, groups=x.shape[-1]).transpose(-2, -1)


def identity_kernel(features: int, kernel: int) -> Tensor:
    """(features, K), zero except for the last tap: the convolution that changes nothing."""
    return F.one_hot(torch.full((features,), kernel - 1), kernel).float()


def _start_kernel(kernel: Tensor, width: int | None = None) -> None:
    """The identity, or N(0, (0.5/√D)²) where a width D is given."""
    if width is None:
        put(kernel, identity_kernel(*kernel.shape))
    else:
        nn.init.normal_(kernel, std=0.5 / math.sqrt(width))
