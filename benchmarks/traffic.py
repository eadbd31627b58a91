"""The bytes that a kernel asks for, counted in Triton's interpreter.

Without a GPU, nothing more can be known of its memory traffic.

    with traffic() as moved:
        stream_read(x, weights)
    moved.distinct, moved.asked

The distinct bytes are the least that the kernel can move through a device's memory: per launch,
each address that is loaded counts once, and each address that is stored counts once. What a kernel
asks for beyond those comes from a cache, at best.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from triton.runtime import interpreter

from geolab.kernels import launch


@dataclass
class Traffic:
    asked: int = 0      # bytes of all unmasked loads and stores
    distinct: int = 0   # per launch, bytes of distinct addresses loaded, plus those stored
    launches: int = 0


@contextmanager
def traffic() -> Iterator[Traffic]:
    """Count what the kernels inside the context ask for. The counts are complete when it closes.

    Raises: RuntimeError if kernels don't run in Triton's interpreter.
    """
    if not launch.INTERPRETED:
        raise RuntimeError("traffic counts in Triton's interpreter: set TRITON_INTERPRET=1 "
                           "before geolab is imported")
    moved, builder, executor = Traffic(), interpreter.interpreter_builder, interpreter.GridExecutor
    load, store, run = builder.create_masked_load, builder.create_masked_store, executor.__call__
    seen: dict[str, list] = {"loaded": [], "stored": []}

    def note(kind, pointers, mask):
        seen[kind].append((pointers.data[mask.data.astype(bool)].ravel(),
                           pointers.get_element_ty().primitive_bitwidth // 8))

    def counted_load(pointers, mask, *rest):
        note("loaded", pointers, mask)
        return load(pointers, mask, *rest)

    def counted_store(pointers, value, mask, *rest):
        note("stored", pointers, mask)
        return store(pointers, value, mask, *rest)

    def launched(self, *args, **options):
        out = run(self, *args, **options)
        for accesses in seen.values():
            by_width: dict[int, list] = {}
            for addresses, width in accesses:
                by_width.setdefault(width, []).append(addresses)
            for width, addresses in by_width.items():
                addresses = np.concatenate(addresses)
                moved.asked += width * addresses.size
                moved.distinct += width * np.unique(addresses).size
            accesses.clear()
        moved.launches += 1
        return out

    with (patch.object(builder, "create_masked_load", counted_load),
          patch.object(builder, "create_masked_store", counted_store),
          patch.object(executor, "__call__", launched)):
        yield moved
