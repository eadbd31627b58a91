"""What a training step costs before anyone runs it, from shapes and a data sheet.

    seconds ≈ 6 P tokens / (utilisation · operations) + residual bytes / memory rate
              + bytes sent / link rate

Nothing here is measured. Only the operations have a utilisation: memory and wires run at their full
rate, without delay. `Size` says what is trained, `Device` what a data sheet promises, `step` how
long one step takes, and `memory` what a GPU holds. All rates are per GPU and second, in bytes where they
are not operations.

Legend: P parameters, L blocks of two sublayers each, D width, T sequence length, n vectors of D
numbers in the state of a token, g GPUs.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch

from geolab.checks import require_option
from geolab.kernels import floors
from geolab.models import TokenModel, Transformer
from geolab.residuals.additive import Additive
from geolab.residuals.streams import Streams
from studies.papers.configurations import Configuration

FAMILIES = ("additive", "delta", "streams")
WIDE = 2**20   # features at which a floor's coefficients no longer show


@dataclass(frozen=True)
class Device:
    operations: float     # dense, bfloat16
    memory_rate: float
    memory: float
    link: float           # to the other GPUs of the node, in one direction
    network: float        # to other nodes, in one direction
    node: int             # GPUs per node


# NVIDIA's data sheet: half of the operations with sparsity; NVLink's 900 GB/s are both directions.
# The network has 400 Gb/s per GPU.
H200 = Device(operations=989e12, memory_rate=4.8e12, memory=141e9, link=450e9, network=50e9, node=8)


@dataclass(frozen=True)
class Size:
    """What is trained.

    `active` counts the parameters that a token meets; the rest of a mixture of experts is only
    stored. `residual` is one of FAMILIES: "delta" reads one vector from its state, and "streams"
    generate from all of it too.
    """

    parameters: float
    layers: int
    width: int
    length: int
    vocabulary: int = 0
    residual: str = "additive"
    n: int = 1
    active: float | None = None

    def __post_init__(self):
        require_option("residual", self.residual, FAMILIES)

    @property
    def met(self) -> float:
        return self.parameters if self.active is None else self.active

    @property
    def sublayers(self) -> int:
        return 2 * self.layers


def size(configuration: Configuration, length: int | None = None) -> Size:
    """The size of a configuration's model, which is built without storage.

    A residual that is neither additive nor one of streams counts as "delta", which is a lower bound
    for those that generate more.
    """
    with torch.device("meta"):
        whole: TokenModel | Transformer = (
            configuration.trunk() if configuration.vocabulary is None else configuration.model())
        trunk = whole.trunk if isinstance(whole, TokenModel) else whole
        residual = trunk.layers[0].residual
        state = residual.expand(torch.zeros(1, 1, trunk.config.width))
    kinds = {Additive: "additive", Streams: "streams"}
    family = next((kinds[kind] for kind in kinds if isinstance(residual, kind)), "delta")
    config = trunk.config
    return Size(sum(p.numel() for p in whole.parameters()), config.layers, config.width,
                length or config.max_length, configuration.vocabulary or 0, family,
                state.numel() // config.width)


def operations(size: Size, causal: bool = True) -> float:
    """Operations per token, forward and backward.

    They are 6 per weight, and 12 L D T for attention's scores and what they weigh, of which a
    causal mask needs half.
    """
    attention = 12 * size.layers * size.width * size.length
    return 6 * size.met + attention / (2 if causal else 1)


# ---------------------------------------------------------------- the residual's bytes

def residual_vectors(family: str, n: int) -> tuple[int, int]:
    """(forward, backward): vectors of D numbers per token and sublayer.

    Each operator is at its floor, and autograd adds the gradients.

    Raises: ValueError for a family that isn't one of FAMILIES.
    """
    require_option("residual", family, FAMILIES)
    if family == "additive":
        return 3, 3

    def vectors(operator, *shape: int) -> list[int]:
        return [round(b / (2 * WIDE)) for b in operator(1, *shape)]

    read = vectors(floors.stream_read, n, WIDE)
    if family == "streams":
        parts = [[n, 2 * n], read, vectors(floors.stream_mix_write, n, WIDE)]
    else:
        parts = [vectors(floors.delta_update, WIDE, n)] + ([read] if n > 1 else [])
    sums = 2 if family == "streams" else 1
    return sum(f for f, _ in parts), sum(b for _, b in parts) + sums * 3 * n


def residual_bytes(size: Size, recompute: bool = False) -> int:
    """Bytes per token, forward and backward, beyond the additive residual's.

    The additive residual's bytes belong to the utilisation. To recompute is to go forward twice.
    """
    forward, backward = residual_vectors(size.residual, size.n)
    extra = forward * (2 if recompute else 1) + backward - sum(residual_vectors("additive", 1))
    return size.sublayers * extra * 2 * size.width


# ---------------------------------------------------------------- memory

def activation_vectors(size: Size, every: int | None = None) -> float:
    """Vectors of D numbers per token that wait for the backward pass.

    F keeps as many numbers as its active weights over D. For each sublayer the residual keeps the
    state, F's input, that input's norm and F's output; the additive one keeps the state and the
    norm. With `every` = s it keeps each s-th state and F's outputs, and while a group of s is
    recomputed, that group's other states, inputs and norms (mHC, section 4.3).

    Raises: ValueError for `every` below one, or for an additive residual.
    """
    S, n = size.sublayers, size.n
    inside = (size.met - size.vocabulary * size.width) / size.width**2
    if every is not None and (every < 1 or size.residual == "additive"):
        raise ValueError("every must be at least 1, with a residual that can be recomputed, "
                         f"got {every} and {size.residual!r}")
    if size.residual == "additive":
        return inside + 2 * S
    if every is None:
        return inside + (n + 3 if n > 1 else 3) * S
    return inside + n * math.ceil(S / every) + S + (n + 2) * min(every, S) - n


def best_every(n: int, sublayers: int) -> float:
    """√(n S / (n + 2)), where n S / s + (n + 2) s is least (mHC, section 4.3)."""
    return math.sqrt(n * sublayers / (n + 2))


class Memory(NamedTuple):
    """Bytes on one GPU."""

    state: float         # float32 weights, gradients, AdamW's two moments: 16 bytes per parameter
    copies: float        # bfloat16 weights
    activations: float
    logits: float        # and their gradients, float32

    @property
    def total(self) -> float:
        return sum(self)


def memory(size: Size, gpus: int = 1, sequences: int = 1, sharded: bool = False,
           every: int | None = None) -> Memory:
    """What a GPU holds when the backward pass starts, with `sequences` in flight.

    When it is sharded, two blocks are gathered at a time.
    """
    P, tokens = size.parameters, sequences * size.length
    copies = 2 * 2 * P / size.layers if sharded else 2 * P
    activations = tokens * activation_vectors(size, every) * 2 * size.width
    return Memory(16 * P / (gpus if sharded else 1), copies, activations,
                  tokens * size.vocabulary * 8)


def sequences_that_fit(size: Size, device: Device, gpus: int = 1, sharded: bool = False,
                       every: int | None = None) -> int:
    """How many sequences can be in flight on one GPU; 0 where not even one fits."""
    none, one = (memory(size, gpus, k, sharded, every).total for k in (0, 1))
    return max(0, int((device.memory - none) // (one - none)))


# ---------------------------------------------------------------- time

def gather_seconds(whole: float, gpus: int, device: Device) -> float:
    """Seconds of an all-gather of `whole` bytes in all, or backward of their reduce-scatter.

    It goes first between nodes, each GPU with its share, then inside them. Each GPU sends
    (g − 1)/g of the bytes, at the wire's full rate and without delay. An all-reduce is both, one
    after the other.

    Raises: ValueError for several nodes that aren't full.
    """
    node = min(gpus, device.node)
    if gpus % node:
        raise ValueError(f"gpus must fill their nodes of {device.node}, got {gpus}")
    nodes = gpus // node
    between = (nodes - 1) / nodes * whole / node / device.network
    return between + (node - 1) / node * whole / device.link


class Step(NamedTuple):
    """Seconds of one step on each GPU."""

    compute: float
    residual: float
    optimizer: float
    communication: float

    @property
    def open(self) -> float:
        """The time when nothing overlaps."""
        return sum(self)

    @property
    def hidden(self) -> float:
        """The time when communication takes place behind all else."""
        return max(self.communication, sum(self) - self.communication)


def step(size: Size, batch: int, gpus: int, utilisation: float, device: Device = H200,
         sharded: bool = False, sequences: int | None = None, recompute: bool = False) -> Step:
    """A step with `batch` sequences over `gpus`; the GPU with the most of them sets the pace.

    Arguments:
        utilisation: the share of device.operations at which the additive model would run.
        sharded: False reduces float32 gradients once per step. True, for each micro-batch, gathers
            bfloat16 weights forward and again backward, and scatters float32 gradients.
        sequences: per micro-batch; None is all that a GPU has. Only sharded training pays for more
            micro-batches.
        recompute: whether the residual goes forward again before the backward pass.
    Raises: ValueError for a utilisation outside (0, 1].
    """
    if not 0 < utilisation <= 1:
        raise ValueError(f"utilisation must be in (0, 1], got {utilisation}")
    mine = math.ceil(batch / gpus)
    tokens, P = mine * size.length, size.parameters
    scatter = gather_seconds(4 * P, gpus, device)
    communication = 2 * scatter
    if sharded:
        rounds = math.ceil(mine / (sequences or mine))
        communication = rounds * (2 * gather_seconds(2 * P, gpus, device) + scatter)
    # AdamW reads four numbers per parameter, and writes all of them but the gradient
    adamw = 28 * P / (gpus if sharded else 1)
    return Step(tokens * operations(size) / (utilisation * device.operations),
                tokens * residual_bytes(size, recompute) / device.memory_rate,
                adamw / device.memory_rate, communication)
