"""The cost of a training step, computed from shapes and a data sheet.

    seconds ≈ 6 P tokens / (utilisation · operations) + residual bytes / memory rate
              + bytes sent / link rate

Nothing here is measured. Only the operations have a utilisation: memory and links run at their full
rate, without delay. A `Size` describes a model and a `Device` a GPU. `step` gives the seconds of a
step, and `memory` the bytes that a GPU holds. All rates are per GPU and second, in bytes or
operations.

Legend: P parameters, L blocks of two sublayers each, D width, T sequence length, n vectors of D
numbers in the state of a token, g GPUs.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch

from benchmarks import floors
from geolab.checks import require_option
from geolab.models import TokenModel, Transformer
from geolab.residuals.additive import Additive
from geolab.residuals.streams import Streams
from studies.claims.configurations import Configuration

FAMILIES = ("additive", "delta", "streams")
WIDE = 2**20   # features; beside so many, the coefficients in a floor round to nothing


@dataclass(frozen=True)
class Device:
    """A data sheet's numbers per GPU: operations and bytes per second, and bytes of memory."""

    operations: float     # dense, bfloat16
    memory_rate: float
    memory: float
    link: float           # to the other GPUs of the node, in one direction
    network: float        # to other nodes, in one direction
    node: int             # GPUs per node


# From NVIDIA's data sheet. It counts operations with sparsity, which are twice as many, and gives
# NVLink's 900 GB/s for both directions together. The network has 400 Gb/s per GPU.
H200 = Device(operations=989e12, memory_rate=4.8e12, memory=141e9, link=450e9, network=50e9, node=8)


@dataclass(frozen=True)
class Size:
    """The model that is trained.

    Arguments:
        residual: one of FAMILIES. "delta" reads one vector from its state. "streams" does so too,
            and generates its coefficients from the whole state.
        active: the parameters that one token uses, if not all: a mixture of experts only stores the
            others.
    Raises: ValueError for a residual that isn't one of FAMILIES.
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
        """The parameters that one token uses."""
        return self.parameters if self.active is None else self.active

    @property
    def sublayers(self) -> int:
        return 2 * self.layers


def size(configuration: Configuration, length: int | None = None) -> Size:
    """The size of a configuration's model, which is built without storage.

    A residual that is neither additive nor one of streams counts as "delta". This is a lower bound
    for those that generate coefficients from more than one vector.
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

    They are 6 per weight, plus 12 L D T for attention's scores and weighted sums. A causal mask
    needs half of the latter.
    """
    attention = 12 * size.layers * size.width * size.length
    return 6 * size.met + attention / (2 if causal else 1)


# ---------------------------------------------------------------- the residual's bytes

def residual_vectors(family: str, n: int) -> tuple[int, int]:
    """Vectors of D numbers that the residual moves per token and sublayer: (forward, backward).

    Each operator moves as much as its floor, and autograd adds up the gradients of a state that
    several operators read.

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
    """Bytes per token, forward and backward, beyond those of the additive residual.

    The utilisation already contains the additive residual's bytes. With `recompute` the residual
    goes forward twice.
    """
    forward, backward = residual_vectors(size.residual, size.n)
    extra = forward * (2 if recompute else 1) + backward - sum(residual_vectors("additive", 1))
    return size.sublayers * extra * 2 * size.width


# ---------------------------------------------------------------- memory

def activation_vectors(size: Size, every: int | None = None) -> float:
    """Vectors of D numbers per token that are kept for the backward pass.

    Inside a sublayer, F keeps as many numbers as it has active weights, divided by D. Around each
    sublayer the residual keeps the state, F's input, that input after its norm, and F's output. The
    additive residual keeps only the state and the norm's output. With `every` = s the residual
    keeps every s-th state and F's outputs. While a group of s sublayers is recomputed, it also
    keeps that group's other states, inputs and norms (mHC, section 4.3).

    Raises: ValueError if `every` is below one, or is given for an additive residual.
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
    """The s at which n S / s + (n + 2) s is least, √(n S / (n + 2)) (mHC, section 4.3)."""
    return math.sqrt(n * sublayers / (n + 2))


class Memory(NamedTuple):
    """Bytes on one GPU."""

    state: float         # weights, gradients, AdamW's two moments: 16 bytes per parameter
    copies: float        # of the weights in bfloat16
    activations: float   # in bfloat16
    logits: float        # in float32, with their gradients

    @property
    def total(self) -> float:
        return sum(self)


def memory(size: Size, gpus: int = 1, sequences: int = 1, sharded: bool = False,
           every: int | None = None) -> Memory:
    """Return the bytes on a GPU when the backward pass of `sequences` sequences starts.

    If the training is sharded, the weights of two blocks are gathered at a time.
    """
    P, tokens = size.parameters, sequences * size.length
    copies = 2 * 2 * P / size.layers if sharded else 2 * P
    activations = tokens * activation_vectors(size, every) * 2 * size.width
    return Memory(16 * P / (gpus if sharded else 1), copies, activations,
                  tokens * size.vocabulary * 8)


def sequences_that_fit(size: Size, device: Device, gpus: int = 1, sharded: bool = False,
                       every: int | None = None) -> int:
    """Return the number of sequences that one GPU can train on at a time, which may be 0."""
    none, one = (memory(size, gpus, k, sharded, every).total for k in (0, 1))
    return max(0, int((device.memory - none) // (one - none)))


# ---------------------------------------------------------------- time

def gather_seconds(whole: float, gpus: int, device: Device) -> float:
    """Seconds of an all-gather of `whole` bytes in total, or of a reduce-scatter of as many.

    The bytes go first between the nodes, where each GPU sends its share, and then inside them. Each
    GPU sends (g − 1)/g of the bytes, at the link's full rate and without delay. An all-reduce is a
    reduce-scatter and an all-gather, one after the other.

    Raises: ValueError for several nodes that aren't full.
    """
    node = min(gpus, device.node)
    if gpus % node:
        raise ValueError(f"gpus must fill nodes of {device.node}, got {gpus}")
    nodes = gpus // node
    between = (nodes - 1) / nodes * whole / node / device.network
    return between + (node - 1) / node * whole / device.link


class StepCost(NamedTuple):
    """Seconds of one step on each GPU."""

    compute: float
    residual: float
    optimizer: float
    communication: float

    @property
    def open(self) -> float:
        """The time if nothing overlaps."""
        return sum(self)

    @property
    def hidden(self) -> float:
        """The time if communication overlaps with everything else."""
        return max(self.communication, sum(self) - self.communication)


def step(size: Size, batch: int, gpus: int, utilisation: float, device: Device = H200,
         sharded: bool = False, sequences: int | None = None, recompute: bool = False) -> StepCost:
    """One step on `batch` sequences, spread over `gpus`. The GPU with the most of them sets the
    pace.

    Arguments:
        utilisation: the share of device.operations at which the additive model would run.
        sharded: whether each GPU holds only its share of the parameters. If False, float32
            gradients are reduced once per step. If True, for each micro-batch, bfloat16 weights are
            gathered forward and again backward, and float32 gradients are scattered.
        sequences: per micro-batch; None means all that a GPU has. Only sharded training pays for
            more micro-batches.
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
    # AdamW reads four float32 numbers per parameter, and writes all but the gradient
    adamw = 28 * P / (gpus if sharded else 1)
    return StepCost(tokens * operations(size) / (utilisation * device.operations),
                tokens * residual_bytes(size, recompute) / device.memory_rate,
                adamw / device.memory_rate, communication)
