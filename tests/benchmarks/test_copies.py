"""A copy moves about the bytes of a pass, in the same ratio."""

import pytest
import torch

from benchmarks.cases import CASES, SIZES, STREAMS
from geolab.kernels import launch

copies = pytest.importorskip("benchmarks.copies")
interpreted = pytest.mark.skipif(not launch.INTERPRETED,
                                 reason="only Triton's interpreter counts addresses")


@interpreted
@pytest.mark.parametrize("read, written, ratio", [
    (40_000, 10_000, (4, 1)), (90_000, 50_000, (9, 5)), (80_000, 100, (4, 0)),
    (400_000, 700_000, (4, 7))])
@pytest.mark.parametrize("block", copies.BLOCKS)
def test_it_moves_what_it_says(read, written, ratio, block):
    from benchmarks.traffic import traffic
    copy = copies.Copy(read, written, "cpu", block=block)
    with traffic() as moved:
        copy.run(1)
    assert (copy.reads, copy.writes) == ratio
    marks = 0 if copy.writes else 4 * copy.blocks
    assert moved.asked == moved.distinct == copy.nbytes + marks
    assert abs(copy.nbytes - read - written) <= 2 * copy.block * sum(ratio)


@interpreted
def test_it_writes_the_sum_of_what_it_reads_and_takes_its_buffers_in_turn():
    copy = copies.Copy(2**14, 2**14, "cpu", cache=2**15)
    assert len(copy.buffers) == 2 + 2 * 2**15 // 2**15
    for number, (source, _) in enumerate(copy.buffers):
        source.fill_(number)
    copy.run(3)
    for number, (_, target) in enumerate(copy.buffers[:3]):
        assert torch.equal(target, torch.full_like(target, copy.reads * number))


@pytest.mark.parametrize("name", CASES)
def test_every_pass_has_a_copy_of_nearly_its_ratio(name):
    case = CASES[name]
    for N, d in SIZES[case.kind]:
        floor = case.floor(N, STREAMS, d, 2)
        inputs = case.inputs(N, STREAMS, d, lambda *s: torch.empty(s, dtype=torch.bfloat16),
                             lambda *s: torch.empty(s))
        size = sum(x.nbytes for x in inputs)
        copy = copies.Copy(floor.backward - size, size, "meta")
        share = copy.writes / (copy.reads + copy.writes)
        assert share == pytest.approx(size / floor.backward, abs=0.02)
        assert copy.nbytes == pytest.approx(floor.backward, rel=0.02)
