"""Sums over programs: each program writes a part of its own, and one launch adds them up in a fixed
order, so that a result is the same in every run.
"""

from math import ceil

import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels.launch import INTERPRETED

# sums in a program of `_add_up`, and how many parts of each it reads at once: one after the other,
# they would wait for one another
ADDED, AT_ONCE = (32768, 1) if INTERPRETED else (128, 16)


def parts_of(total: Tensor, parts: int) -> Tensor:
    """Memory for the parts of a sum; the sum itself, if there is one part."""
    return total if parts == 1 else total.new_empty((parts, *total.shape))


def add_up(*sums: tuple[Tensor | None, Tensor | None]) -> None:
    """Fill up to four totals with the sums of their parts, in one launch.

    Arguments:
        sums: (parts, total) each, where the parts may be the total itself, or both None.
    """
    left = [(parts, total) for parts, total in sums if parts is not total]
    given = [item for parts, total in left for item in (parts, total, len(parts), total.numel())]
    programs = sum(ceil(total.numel() / ADDED) for _, total in left)
    if left:
        _add_up[(programs,)](*given, *given[:4] * (4 - len(left)), ADDED, AT_ONCE)


# ---------------------------------------------------------------- in Triton

@triton.jit(do_not_specialize=["parts_a", "parts_b", "parts_c", "parts_d"])
def _add_up(A, OF_A, parts_a, size_a, B, OF_B, parts_b, size_b, C, OF_C, parts_c, size_c, D, OF_D,
            parts_d, size_d, NUMBERS: tl.constexpr, AT_ONCE: tl.constexpr):
    """Write the sums of up to four lists of parts, list by list."""
    program, of_a, of_b = tl.program_id(0), tl.cdiv(size_a, NUMBERS), tl.cdiv(size_b, NUMBERS)
    of_c = tl.cdiv(size_c, NUMBERS)
    if program < of_a:
        _add(A, OF_A, parts_a, size_a, program, NUMBERS, AT_ONCE)
    elif program < of_a + of_b:
        _add(B, OF_B, parts_b, size_b, program - of_a, NUMBERS, AT_ONCE)
    elif program < of_a + of_b + of_c:
        _add(C, OF_C, parts_c, size_c, program - of_a - of_b, NUMBERS, AT_ONCE)
    else:
        _add(D, OF_D, parts_d, size_d, program - of_a - of_b - of_c, NUMBERS, AT_ONCE)


@triton.jit
def _add(PARTS, TOTAL, parts, size, program, NUMBERS: tl.constexpr, AT_ONCE: tl.constexpr):
    place, own = program * NUMBERS + tl.arange(0, NUMBERS), tl.arange(0, AT_ONCE)
    total = tl.zeros([NUMBERS], tl.float32)
    for first in range(0, parts, AT_ONCE):
        part = (first + own)[:, None]
        total += tl.sum(tl.load(PARTS + part * size.to(tl.int64) + place[None, :], other=0.0,
                                mask=(part < parts) & (place < size)[None, :]), axis=0)
    tl.store(TOTAL + place, total.to(TOTAL.dtype.element_ty), mask=place < size)
