"""The walk of a person who follows the code: calls, and hops from one file to another.

    python -m benchmarks.walks                     a grafted mHC block, a study up to its first
                                                   model, and a verdict of the ledger
    TRITON_INTERPRET=1 python -m benchmarks.walks  the same block with its kernels

A hop is a call in another file than the call before it. Comprehensions don't count. In the
interpreter the functions of Triton count as calls too, which on a GPU are compiled.
"""

import os
import sys
from contextlib import contextmanager, redirect_stderr, suppress
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NamedTuple
from unittest.mock import patch

import torch
from torch import nn

from geolab import kernels
from geolab.graft import graft
from studies import findings, ledger
from studies.__main__ import main as command
from studies.engine.arm import Arm

ROOT = Path(__file__).resolve().parents[1]
ROOMS = tuple(f"{ROOT / room}{os.sep}" for room in ("geolab", "studies"))
NO_STEP = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>")


class Call(NamedTuple):
    """One call: the file of the function, and its name."""

    file: str
    function: str


def hops(calls: list[Call]) -> int:
    """The number of calls that are in another file than the one before."""
    return sum(one.file != other.file for one, other in zip(calls, calls[1:], strict=False))


def told(calls: list[Call]) -> str:
    """The length of a walk in words."""
    return (f"{len(calls):4} calls, {hops(calls):4} hops, "
            f"{len({call.file for call in calls}):3} files, {len(set(calls)):4} functions")


@contextmanager
def walk():
    """A context that gives the list of the calls of functions of geolab and studies in it."""
    calls: list[Call] = []

    def see(frame: FrameType, event: str, _) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOMS) and code.co_name not in NO_STEP:
            calls.append(Call(code.co_filename.removeprefix(f"{ROOT}{os.sep}"), code.co_name))

    sys.setprofile(see)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def plain_network() -> nn.Module:
    """A network of one block, from the same numbers each time."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, norm_first=True, batch_first=True, dropout=0.0)
    return nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)


def grafting() -> list[Call]:
    """The walk of `graft` itself, after a first one."""
    graft(plain_network(), "mhc")
    model = plain_network()
    with walk() as calls:
        graft(model, "mhc")
    return calls


def block(mode: str) -> tuple[list[Call], list[Call]]:
    """The walks forward and backward of one block with mHC, after a first step."""
    model = graft(plain_network(), "mhc")
    x = torch.randn(1, 4, 16)
    with kernels.use(mode):
        model(x).sum().backward()
        with walk() as forward:
            loss = model(x).square().mean()
        with walk() as backward:
            loss.backward()
    return forward, backward


def study(name: str) -> list[Call]:
    """The walk from a study's command to its first model."""
    class Reached(BaseException):
        pass

    def end(*_) -> None:
        sys.setprofile(None)
        raise Reached

    with TemporaryDirectory() as folder, patch.object(Arm, "model", end), \
            redirect_stderr(StringIO()), walk() as calls, suppress(Reached):
        command([name, "--folder", folder, "--out", f"{folder}/{name}.json"])
    return calls


def verdict(label: str) -> list[Call]:
    """The walk from a row of the ledger to its verdict, as if nobody had asked before."""
    for kept in (findings.finding, findings.stored):
        kept.cache_clear()
    with walk() as calls:
        ledger.verdict(label)
    return calls


def main() -> None:
    print(f"graft of a block with mHC     {told(grafting())}")
    interpreted = kernels.TWINS and os.environ.get("TRITON_INTERPRET") == "1"
    for mode in ("never", "always") if interpreted else ("never",):
        for name, calls in zip(("forward", "backward"), block(mode), strict=True):
            print(f"mHC, kernels {mode:6} {name:8}  {told(calls)}")
    print(f"study hyper_gain to a model   {told(study('hyper_gain'))}")
    print(f"verdict of ddl-one            {told(verdict('ddl-one'))}")


if __name__ == "__main__":
    main()
