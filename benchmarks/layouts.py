"""The layouts that `rms_linear` and `stream_join` could have, and the histories of Sinkhorn's
backward pass, one after the other: what the compiler makes of each, and on a GPU the layouts' time.

    python -m benchmarks.layouts --out results/layouts.json      compiled for Hopper, without a GPU
    python -m benchmarks.layouts --capability 100                for Blackwell
    python -m benchmarks.layouts --clock --out results/layouts_h100.json      on a CUDA device

Until the clock's run ends, its rows so far lie beside --out, in a file that ends in .partial.json.
The first layout of a pass is the one that ships. The file keeps every layout that was tried, so
that "the fastest" can be checked. Four arguments go before a clock. A program that spills moves
bytes that nobody counts. A part of a wave at the end leaves multiprocessors idle. And each tile of
tokens reads W again from the L2 cache, so long tiles read it less often: `weights` says how many
bytes of W the programs read, over the bytes of the state. And in the backward pass each tile of
features writes a part of every token's ∂H and ∂b, so wide tiles write fewer: the `bytes` of a
launch count them.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from torch import Tensor

from benchmarks import kernels as clock
from benchmarks.assembly import DEVICES, passes, report
from benchmarks.cases import CASES, SIZES, STREAMS
from benchmarks.command import add_output, check_output, require_cuda, rounded
from benchmarks.peers import Contender
from geolab import kernels
from geolab.kernels import every_twin
from geolab.kernels.tiles import Layout
from studies.engine.results import record

every_twin()
from geolab.kernels import birkhoff, generate, joined, pack  # noqa: E402

HOMES = {"rms_linear": generate, "stream_join": joined}
# (operator, pass) -> what is tried beside the layout that ships
TRIED = {
    ("rms_linear", "forward"): [
        Layout(128, 128, 8, 3, 1), Layout(256, 64, 8, 4, 1), Layout(128, 64, 4, 3, 2),
        Layout(64, 64, 4, 4, 3)],
    ("rms_linear", "backward"): [
        Layout(64, 64, 4, 3, 2), Layout(64, 64, 4, 4, 3), Layout(64, 128, 4, 3, 2),
        Layout(64, 128, 8, 3, 1)],
    ("stream_join", "forward"): [
        Layout(64, 32, 4, 3, 2), Layout(128, 32, 8, 3, 1), Layout(64, 32, 4, 2, 2),
        Layout(64, 64, 8, 2, 2)],
    ("stream_join", "backward"): [
        Layout(16, 64, 4, 3, 2), Layout(32, 64, 8, 3, 1), Layout(32, 32, 4, 3, 2),
        Layout(16, 64, 8, 3, 2), Layout(32, 32, 8, 3, 2)],
}
# Sinkhorn's backward pass keeps one of so many factors f, and holds as many at once while it goes
# back: with 19, at 20 iterations, all of them. With 0 they are in memory.
HISTORIES = (birkhoff.EVERY, 2, 7, 19, 0)
QUESTION = "the layouts of the kernels that multiply a state by W"


def layouts(name: str, side: str) -> list[Layout]:
    """The layouts of a pass, forward or backward: the one that ships, then what is tried."""
    return [getattr(HOMES[name], side.upper()), *TRIED[name, side]]


@contextmanager
def laid_out(name: str, side: str, layout: Layout) -> Iterator[None]:
    """A context in which the pass has this layout."""
    with patch.object(HOMES[name], side.upper(), layout):
        yield


def weights(name: str, N: int, d: int, layout: Layout) -> float:
    """The bytes of W's halves that the tiles of tokens read, over those of a bfloat16 state."""
    outputs = pack.padded(STREAMS * (STREAMS + 2))
    return -(-N // layout.tokens) * 2 * outputs / N


def compiled(name: str, side: str, N: int, d: int, capability: int) -> Iterator[dict]:
    """A row per layout: what the compiler makes of the pass's main kernel."""
    for place, layout in enumerate(layouts(name, side)):
        row = {"operator": name, "pass": side, "N": N, "d": d, "ships": not place,
               "layout": layout._asdict()}
        with laid_out(name, side, layout):
            found = [launch for launch in passes(CASES[name], N, d)
                     if launch[0].fn.__name__ == f"_{side}"]
        try:
            row |= report(*found[0], capability)
        except Exception as problem:  # that a layout doesn't compile is a result
            row["failed"] = f"{type(problem).__name__}: {problem}".splitlines()[0][:300]
        if side == "forward":
            row["weights"] = rounded(weights(name, N, d, layout))
        yield row


def histories(N: int, capability: int) -> Iterator[dict]:
    """A row per history: what the compiler makes of Sinkhorn's backward pass."""
    for every in HISTORIES:
        with (patch.object(birkhoff, "EVERY", every or birkhoff.EVERY),
              patch.object(birkhoff, "KEPT", birkhoff.KEPT if every else 0)):
            _, found = passes(CASES["sinkhorn"], N, 0)
        yield {"operator": "sinkhorn", "pass": "backward", "N": N, "d": 0,
               "ships": every == birkhoff.EVERY, "kept": every} | report(*found, capability)


def contenders(name: str, side: str) -> dict[str, Contender]:
    """The operator in each layout of a pass; the shipped one twice, so that noise can be seen."""
    def runs(layout: Layout) -> Callable[..., Tensor | tuple[Tensor, ...]]:
        def run(*inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
            # the backward pass of a graph is captured later, so the layout stays till the next one
            setattr(HOMES[name], side.upper(), layout)
            with kernels.use("always"):
                return CASES[name].function(*inputs)

        return run

    shipped, *others = layouts(name, side)
    return {"kernel": Contender(runs(shipped)), "kernel again": Contender(runs(shipped)),
            **{" ".join(map(str, layout)): Contender(runs(layout)) for layout in others}}


def timed(name: str, side: str, N: int, d: int, rounds: int) -> list[dict]:
    """A row per layout with errors and times, and one of a copy, as `benchmarks.kernels` has."""
    with laid_out(name, side, layouts(name, side)[0]):
        found = clock.measure(name, N, d, clock.Options(rounds=rounds), contenders(name, side))
    return [row | {"pass": side} for row in found]


def line(row: dict) -> str:
    """One row of the printed table."""
    values = row["layout"].values() if "layout" in row else (row["kept"],)
    layout = " ".join(f"{value:>3}" for value in values)
    numbers = row.get("failed") or (
        f"{row['registers']:>4} registers {row['stack']:>4} spilled {row['shared'] // 1024:>4} KB "
        f"{row['resident']:>2} at once {row['waves']:>6.3g} waves "
        f"{row['instructions']:>5} instructions"
        + (f"  W {row['weights']:>4.0%}" if "weights" in row else ""))
    return (f"{row['operator']:<12} {row['pass']:<9} {row['N']:>5} {row['d']:>4}  {layout}  "
            f"{'ships ' if row['ships'] else '      '}{numbers}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layouts", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--capability", type=int, choices=DEVICES, default=90,
                        help="the GPU's compute capability, times ten (default %(default)s)")
    parser.add_argument("--clock", action="store_true", help="time them on a CUDA device")
    parser.add_argument("--rounds", type=int, default=9, help="of the clock (default %(default)s)")
    add_output(parser)
    given = parser.parse_args(arguments)
    if given.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {given.rounds}")
    check_output(parser, given)
    if given.clock:
        require_cuda(parser, "without --clock they are compiled")
    rows: list[dict] = []

    def write(path: Path, force: str) -> None:
        record(path, QUESTION, {"capability": given.capability, "n": STREAMS, "rows": rows}
               | ({} if given.clock else {"device": "none"}), force=force)

    so_far = given.out and given.out.with_suffix(".partial.json")
    for name, side in TRIED:
        for N, d in SIZES[CASES[name].kind]:
            if given.clock:
                for row in timed(name, side, N, d, given.rounds):
                    rows.append(row)
                    print(side, clock.line(row), flush=True)
                if so_far:
                    write(so_far, "one size more")
                continue
            for row in compiled(name, side, N, d, given.capability):
                rows.append(row)
                print(line(row), flush=True)
    for N, _ in SIZES["matrices"] if not given.clock else ():
        for row in histories(N, given.capability):
            rows.append(row)
            print(line(row), flush=True)
    if given.out:
        write(given.out, given.force)
        so_far.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
