"""A copy that reads and writes in the ratio of a pass, which bounds the speed of the pass.

A device's memory is faster when it is only read than when it turns between reading and writing. So
a pass that reads four vectors and writes one isn't compared with a copy that reads one and writes
one.
"""

from fractions import Fraction

import torch
import triton
import triton.language as tl

BLOCKS = (512, 1024, 2048)  # numbers of a row per program: one, two or four loads of 16 bytes


class Copy:
    """Reads `reads` rows of numbers and writes their sum into `writes` rows: about `read` and
    `written` bytes. The numbers are random, as those of a state are: zeros may be faster.

    There are enough pairs of buffers that none is still in a cache of `cache` bytes when its turn
    comes again.
    """

    def __init__(self, read: int, written: int, device: str = "cuda", cache: int = 0,
                 block: int = 1024):
        ratio = Fraction(written, read).limit_denominator(9)
        times = -(-4 // ratio.denominator)  # so that a program loads four rows or more
        self.reads, self.writes = times * ratio.denominator, times * ratio.numerator
        self.block = block
        self.blocks = max(1, round((read + written) / (self.reads + self.writes) / (4 * block)))
        numbers, pairs = self.blocks * block, 2 + 2 * cache // (read + written)
        self.nbytes = 4 * numbers * (self.reads + self.writes)
        self.buffers = [(torch.randint(-2**20, 2**20, (self.reads, numbers), dtype=torch.int32,
                                       device=device),
                         torch.empty(max(self.writes, 1), numbers, dtype=torch.int32,
                                     device=device)) for _ in range(pairs)]

    def run(self, times: int) -> None:
        """Copy so many times, with the next pair of buffers each time."""
        for turn in range(times):
            source, target = self.buffers[turn % len(self.buffers)]
            _copy[(self.blocks,)](source, target, self.blocks * self.block, self.reads,
                                  self.writes, self.block)


@triton.jit
def _copy(X, Y, numbers, READS: tl.constexpr, WRITES: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.int32)
    for _ in tl.static_range(READS):
        total += tl.load(X + place)
        X += numbers
    for _ in tl.static_range(WRITES):
        tl.store(Y + place, total)
        Y += numbers
    if WRITES == 0:  # a read without a trace would be left out
        tl.store(Y + tl.program_id(0), tl.sum(total, axis=0))
