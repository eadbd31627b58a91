"""The contenders that take turns with a kernel: itself again, PyTorch, its compiler, and peers."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.cases import Case
from benchmarks.elementwise import ELEMENTWISE
from benchmarks.peers import Contender, peers
from geolab import kernels


class Options(NamedTuple):
    """Options of a measurement. Without rounds there are errors and no times."""

    device: str = "cuda"
    rounds: int = 31
    dtype: torch.dtype = torch.bfloat16
    without: tuple[str, ...] = ()
    ddl: Path | None = None


def contenders(name: str, case: Case, options: Options) -> dict[str, Contender]:
    """Name -> contender, for all that compute a case. The kernel comes first, if there is one.

    What is left out is left out in every form: without compiled also "compiled, elementwise".
    """
    backend = "inductor" if options.device == "cuda" else "aot_eager"
    run, plain = under("always", case.function), under("never", case.function)
    # twice, so that a row shows by how much two equal contenders differ
    ours = {} if case.twin not in kernels.TWINS else {"kernel": run} | (
        {"kernel again": run} if options.rounds else {})
    forms = {"compiled": case.function} | ({"compiled, elementwise": partial(
        ELEMENTWISE[name], **case.options)} if name in ELEMENTWISE else {})
    compiled = {who: under("never", torch.compile(form, fullgraph=True, dynamic=False,
                                                   backend=backend)) for who, form in forms.items()}
    known = {who: Contender(run) for who, run in (ours | {"eager": plain} | compiled).items()}
    return {who: contender for who, contender in (known | peers(name, options.ddl)).items()
            if who.partition(",")[0] not in options.without}


def under(mode: str, function: Callable) -> Callable:
    def inside(*inputs: Tensor):
        with kernels.use(mode):
            return function(*inputs)

    return inside
