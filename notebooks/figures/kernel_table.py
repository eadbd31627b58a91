"""Every kernel of the book, and what a clock has seen of it: results/kernels_h100.*.json."""

from collections.abc import Iterator
from pathlib import Path

from IPython.display import HTML

from benchmarks.cases import CASES, SIZES, STREAMS, Case
from geolab.show.figures import table
from studies.engine.results import FOLDER, read
from studies.ledger import SPACE

GOAL = {"forward": 0.90, "backward": 0.85}    # shares of a copy
EARLIER = ("rms_linear", "sinkhorn", "sinkhorn, rows first", "cayley_skew4",
           "delta_layer, d_v = 4")  # those that have changed since they were timed
PLUS, OVER = f"{SPACE}+{SPACE}", f"{SPACE}/{SPACE}"


def clocked() -> dict[str, dict]:
    """The stored tables of the H100 by the name of a case."""
    found = {}
    for path in sorted(Path(FOLDER).glob("kernels_h100.*.json")):
        content = read(path)
        found[content["rows"][0]["operator"]] = content
    return found


def every_kernel() -> HTML:
    """Each kernel: its floor, its share of a copy's speed, and how much longer others take.

    The forms of a kernel that no clock has seen share a row.
    """
    stored = clocked()
    rows = [(name, _least(case), *_seen(name, case, stored[name]))
            for name, case in CASES.items() if name in stored]
    waiting: dict[str, list[str]] = {}
    for name in CASES.keys() - stored.keys():
        waiting.setdefault(name.split(", ")[0], []).append(name)
    rows += [(forms[0] if len(forms) == 1 else f"{kernel}, {len(forms)} forms",
              _least(CASES[min(forms)]), "–", "–", "–", "counted and compiled, not timed")
             for kernel, forms in sorted(waiting.items())]
    made = table(("kernel", "vectors at the least", "share of a copy", "goal",
                  "times as long", "seen"), rows)
    return HTML(f'<div class="reported lines">{made.data}</div>')


def _least(case: Case) -> str:
    """The floor in vectors of d features, there and back, with four streams."""
    if case.kind == "matrices":
        return "–"
    (N, d), *_ = SIZES["state"]
    there, back = (bytes_ / (2 * N * d) for bytes_ in case.floor(N, STREAMS, d, 2))
    return f"{there:.1f}{PLUS}{back:.1f}"


def _seen(name: str, case: Case, content: dict) -> Iterator[str]:
    """The cells of a kernel that was timed, at both sizes."""
    sizes = [{row["contender"]: row for row in content["rows"] if (row["N"], row["d"]) == size}
             for size in SIZES[case.kind]]
    ours = [size["kernel"] for size in sizes]
    if case.kind == "matrices":
        yield "\n".join(PLUS.join(f"{row['us'][way]:.1f}" for way in GOAL) + f"{SPACE}µs"
                        for row in ours)
        yield "–"
    else:
        yield "\n".join(OVER.join(f"{100 * row['copy_share'][way]:.0f}" for way in GOAL)
                        + f"{SPACE}%" for row in ours)
        met = all(row["copy_share"][way] >= least for row in ours for way, least in GOAL.items())
        yield "met" if met else "missed"
    yield "\n".join(_longer(size, one) for size in sizes[-1:] for one in size
                    if one not in ("kernel", "copy") and "us" in size[one]) or "–"
    where = f"{content['gpu']['name'].split()[1]}, commit {content['commit']}"
    yield where + ", an earlier form" * (name in EARLIER)


def _longer(rows: dict[str, dict], contender: str) -> str:
    """How many times as long a contender takes as the kernel, there and back."""
    def times(way: str) -> str:
        us = rows[contender]["us"].get(way)
        return f"{us / rows['kernel']['us'][way]:.1f}" if us else "wrong gradient"

    named = {"eager": "PyTorch"}.get(contender, contender)
    return f"{named} {OVER.join(map(times, GOAL))}"
