"""A case: an operator, its inputs, and its floor in bytes.

A floor is the fewest bytes that an operator moves through a device's memory: it reads every input
once and writes every output once. A backward pass reads the gradients of the outputs, and the
inputs that those gradients are multiplied by. It writes the gradients of the inputs.

Legend, here and in the files of cases: N tokens, n streams, d features per stream, d_v value
channels, e bytes per number of the state. Coefficients are float32.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from torch import Tensor

Draw = Callable[..., Tensor]  # sizes -> a tensor of random numbers
EPS = 1e-5


class Bytes(NamedTuple):
    """Bytes of a forward pass and of a backward pass."""

    forward: int
    backward: int


class Case(NamedTuple):
    """An operator, and the inputs on which it is measured.

    Arguments:
        twin: the name of the operator's kernel in `geolab.kernels.TWINS`.
        inputs: (N, n, d, state, number) -> the operator's tensors, all of which get gradients.
            `state` draws in the state's dtype, `number` in float32.
        floor: (N, n, d, e) -> Bytes.
        kind: "state" if the bytes of the state limit the speed. "matrices" if the operator works on
            n × n numbers per token, so that its time in microseconds counts.
        options: keyword arguments of the operator and of its kernel.
        roundings: the number of successive values that are rounded to the state's dtype before the
            result is.
    """

    twin: str
    operator: Callable[..., Tensor]
    inputs: Callable[[int, int, int, Draw, Draw], tuple[Tensor, ...]]
    floor: Callable[[int, int, int, int], Bytes]
    kind: str = "state"
    options: dict = {}
    roundings: int = 0

    @property
    def function(self) -> Callable[..., Tensor]:
        """The operator as a function of the inputs alone."""
        return partial(self.operator, **self.options)
