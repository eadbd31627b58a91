"""Run all notebooks on stand-ins for other machines, or make the stored runs of their live cells.

  python tools/machines.py                     every notebook under every stand-in, as a table
  python tools/machines.py --only 06 ledger --machines plain avx2
  python tools/machines.py --machines plain --again 10    and one more stand-in, chosen by number:
                                               each run of CI takes the next one
  python tools/machines.py --store --only 06   twelve runs of chapter 6's live cells, to
                                               results/live/06.json
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from executor import KERNEL, Outcome, execute
from standin import CUDA, STAND_INS, StandIn, environment, stored_runs

ROOT = Path(__file__).resolve().parent.parent
STORED_RUNS = 12


def notebooks(only: list[str] | None = None) -> list[Path]:
    """The notebooks in the book's order, or those whose names begin with one of `only`.

    Raises: SystemExit for an entry of `only` that fits no notebook.
    """
    found = [*sorted(ROOT.glob("book/*.ipynb")), *sorted(ROOT.glob("notebooks/*.ipynb"))]
    strange = [name for name in only or ()
               if not any(path.stem.startswith(name) for path in found)]
    if strange:
        raise SystemExit("--only must name notebooks, such as 06 or ledger; "
                         f"got {', '.join(strange)}")
    return [path for path in found if not only or path.stem.startswith(tuple(only))]


def run(path: Path, stand_in: StandIn) -> tuple[Outcome, list[dict]]:
    """The outcome of the notebook under the stand-in, and what its live cells showed."""
    with tempfile.TemporaryDirectory() as folder:
        copy, log = shutil.copy(path, folder), Path(folder) / "live"
        settings = KERNEL | environment(stand_in) | {"GEOLAB_LIVE_LOG": str(log)}
        outcome, = execute([Path(copy)], settings, quiet=True)
        lines = log.read_text().splitlines() if log.exists() else []
    return outcome, [json.loads(line) for line in lines]


def table(paths: list[Path], machines: dict[str, StandIn], jobs: int) -> int:
    """Print a table of chapters by stand-ins. Returns 1 when a cell raised anywhere, else 0."""
    rows: dict[str, dict[str, str]] = {path.stem: {} for path in paths}
    seconds, failures = dict.fromkeys(machines, 0.0), []
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(run, path, stand_in): (path.stem, name)
                   for name, stand_in in machines.items() for path in paths}
        for done, future in enumerate(as_completed(futures), start=1):
            chapter, name = futures[future]
            outcome, shown = future.result()
            seconds[name] += outcome.seconds
            outside = sum(len(cell["outside"]) for cell in shown)
            arms = sum(len(cell["runs"]) for cell in shown)
            passed = f"✓ {outside}/{arms}" if arms else "✓"
            rows[chapter][name] = "✗" if outcome.failures else passed
            failures += [(chapter, name, failure) for failure in outcome.failures]
            print(f"[{done}/{len(futures)}] {chapter}, {name}: {rows[chapter][name]} "
                  f"{outcome.seconds:.0f} s", file=sys.stderr, flush=True)
    width = max(map(len, rows))
    print(f"\n{'':{width}}  " + "  ".join(f"{name:>12}" for name in machines))
    for chapter, cells in rows.items():
        print(f"{chapter:{width}}  " + "  ".join(f"{cells[name]:>12}" for name in machines))
    print(f"{'seconds':{width}}  " + "  ".join(f"{seconds[name]:12.0f}" for name in machines))
    print("✓ a/b: no cell raised. There are b trained numbers, of which a lie further from the "
          "stored runs than half of their range, as a few do by chance.")
    for chapter, name, failure in failures:
        print(f"✗ {chapter}, {name}, cell {failure.cell}: {failure.line}\n"
              f"    {failure.error[:300]}")
    failed = sum(cell == "✗" for cells in rows.values() for cell in cells.values())
    print(f"{len(futures) - failed} passed, {failed} failed")
    return int(bool(failures))


def store(paths: list[Path], jobs: int) -> int:
    """Write results/live/NN.json for each of these notebooks that has live cells.

    Returns 1 when a live cell did not show its numbers in every run, else 0.
    """
    from studies.engine.live import FOLDER
    from studies.engine.results import record

    FOLDER.mkdir(exist_ok=True)
    machines = stored_runs(STORED_RUNS)
    with ThreadPoolExecutor(jobs) as pool:
        for path in paths:
            if "live(" not in path.read_text():
                continue
            start = time.monotonic()
            found = list(pool.map(run, [path] * len(machines), machines))
            cells = _joined([cell for _, shown in found for cell in shown])
            raised = {f"cell {failure.cell}: {failure.error[:160]}"
                      for outcome, _ in found for failure in outcome.failures
                      if "make stored-live" not in failure.error}
            short = [f"{cell}: {arm}" for cell, arms in cells.items()
                     for arm, entry in arms.items() if len(entry["runs"]) < len(machines)]
            if short or not cells:
                print(f"{path.stem}: not stored, because not every run showed "
                      f"{', '.join(short) or 'a live cell'}. Raised: {raised}", file=sys.stderr)
                return 1
            for line in sorted(raised):
                print(f"{path.stem}, while it was stored: {line}", file=sys.stderr)
            made = [{"environment": machine.environment, **machine.changes} for machine in machines]
            record(FOLDER / f"{path.stem[:2]}.json", f"the live cells of {path.relative_to(ROOT)}",
                   {"machines": made, "cells": cells}, force="make stored-live was run again")
            print(f"{path.stem}: {len(machines)} runs of {', '.join(cells)}, "
                  f"{time.monotonic() - start:.0f} s", flush=True)
    return 0


def _joined(shown: list[dict]) -> dict[str, dict]:
    """Join what all runs showed: cell -> arm -> {"at": steps, "runs": one entry per run}."""
    cells: dict[str, dict] = {}
    for cell in shown:
        name = cell["label"].partition("/")[2]
        for arm, value in cell["runs"].items():
            entry = cells.setdefault(name, {}).setdefault(arm, {"at": value["at"], "runs": []})
            entry["runs"].append(value["run"])
    return cells


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME",
                        help="how the names of the notebooks begin (default: all)")
    parser.add_argument("--machines", nargs="+", choices=[*STAND_INS, "cuda"], metavar="STAND-IN",
                        help=f"some of {', '.join(STAND_INS)}, cuda")
    parser.add_argument("--again", type=int, metavar="N",
                        help="the N-th stand-in; after the last one the first comes again")
    parser.add_argument("--store", action="store_true", help="make the stored runs of live cells")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(),
                        help="notebooks at once (default: one per core)")
    given = parser.parse_args()
    paths = notebooks(given.only)
    if given.store:
        return store(paths, given.jobs)
    import torch

    known = STAND_INS | ({"cuda": CUDA} if torch.cuda.is_available() else {})
    chosen = given.machines or ([] if given.again is not None else list(known))
    if given.again is not None:
        others = [name for name in known if name != "plain"]
        chosen.append(others[given.again % len(others)])
    if "cuda" in chosen and "cuda" not in known:
        parser.error("--machines cuda needs a CUDA device, and PyTorch sees none")
    return table(paths, {name: known[name] for name in chosen}, given.jobs)


if __name__ == "__main__":
    sys.exit(main())
