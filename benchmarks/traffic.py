"""The bytes that a kernel asks for, counted in Triton's interpreter: what can be known of its
memory traffic without a GPU.

    with traffic() as moved:
        stream_read(x, weights)
    moved.distinct, moved.asked

The least that the kernel can move through a device's memory are its distinct bytes: each address
loaded, and each address stored, once a launch. What it asks for beyond those meets a cache, at
best.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from triton.runtime import interpreter

from geolab.kernels import launch


@dataclass
class Traffic:
    asked: int = 0     # bytes of all unmasked loads and stores
    # bytes of the addresses among them, loads and stores apart, a launch at a time
    distinct: int = 0
    launches: int = 0


@contextmanager
def traffic() -> Iterator[Traffic]:
    """Count what the kernels inside ask for; complete when the context closes.

    Raises: RuntimeError where kernels don't run in the interpreter.
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

    builder.create_masked_load, builder.create_masked_store = counted_load, counted_store
    executor.__call__ = launched
    try:
        yield moved
    finally:
        del builder.create_masked_load, builder.create_masked_store
        executor.__call__ = run
