"""Build the book: execute the notebooks that changed, then build the pages that changed.

Every page is built. Where cells raise, the page shows their errors under a notice, and the command
ends with a list of them and status 1. `--whole` builds all pages again unless that is how the site
was last made.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXECUTED, BUILD = ROOT / "_executed", ROOT / "_build"
STATE = EXECUTED / "state.json"     # for each notebook, what it was executed from and its seconds
SITE = BUILD / "site.json"          # what the site was made from
INSTALLED = ROOT / ".venv/seconds"  # how long an installation took that came just before
CODE = ("geolab", "studies", "benchmarks", "results")  # the folders that every notebook depends on
SETTINGS = ("_config.yml", "_toc.yml", "book/_ext", "book/_static", "book/references.bib")
FEW = 4  # up to so many changed pages, the other pages stay as they are
SLOWEST = 4  # the notebooks whose times are listed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--whole", action="store_true",
                        help="leave no page as it was, unless all were made at once")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1),
                        help="notebooks at once (default 2)")
    given = parser.parse_args()
    times = {"installation": float(INSTALLED.read_text())} if INSTALLED.exists() else {}
    INSTALLED.unlink(missing_ok=True)
    failures = executed(given.jobs, times)
    made = site(given.whole, times)
    if times:
        print("\nWhere the time went, in seconds")
        for name, seconds in times.items():
            print(f"  {name:32} {seconds:6.0f}")
        whole = sum(seconds for name, seconds in times.items() if not name.startswith("  "))
        print(f"  {'in all':32} {whole:6.0f}")
    for notebook, found in failures.items():
        for failure in found:
            print(f"\n✗ {notebook}, cell {failure['cell']}: {failure['line']}\n"
                  f"  {failure['error'][:300]}")
    if failures:
        cells = counted(sum(map(len, failures.values())), "cell")
        print(f"\n{cells} raised an error, on {counted(len(failures), 'page')}. "
              "Every page is built and shows its errors.")
    where = f"The book is in {BUILD}/html/index.html"
    print(where if made else "Sphinx warned or failed: see above.")
    return int(bool(failures) or not made)


def counted(count: int, noun: str) -> str:
    """"1 cell" or "3 cells"."""
    return f"{count} {noun}{'s' * (count != 1)}"


def executed(jobs: int, times: dict[str, float]) -> dict[str, list[dict]]:
    """Bring the executed copies up to date, and return the failures of each notebook with some."""
    state = json.loads(STATE.read_text()) if STATE.exists() else {}
    paths = {str(path.relative_to(ROOT)): path
             for folder in ("book", "notebooks") for path in ROOT.glob(f"{folder}/*.ipynb")}
    common = _common()
    keys = {name: _key(path, common) for name, path in paths.items()}
    for copy in EXECUTED.rglob("*.ipynb"):
        if str(copy.relative_to(EXECUTED)) not in paths:
            copy.unlink()
    stale = [name for name in paths
             if state.get(name, {}).get("key") != keys[name] or not (EXECUTED / name).exists()]
    if not stale:
        return {}
    sizes = {name: paths[name].stat().st_size / 5000 for name in stale}  # a guess at the seconds
    stale.sort(key=lambda name: -state.get(name, {}).get("seconds", sizes[name]))  # longest first
    os.environ |= {"GEOLAB_EXPLORE": "static", "OMP_NUM_THREADS": "1",
                   "PYTHONDONTWRITEBYTECODE": "1"}
    start, failures, seconds = time.monotonic(), {}, {}
    with ProcessPoolExecutor(jobs) as pool:
        futures = {pool.submit(_execute, paths[name], EXECUTED / name): name for name in stale}
        for done, future in enumerate(as_completed(futures), start=1):
            name, outcome = futures[future], future.result()
            state.pop(name, None)
            if outcome is None:
                print(f"[{done}/{len(stale)}] {name}: not executed, Triton needs Linux", flush=True)
                continue
            seconds[name] = outcome["seconds"]
            if outcome["failures"]:
                failures[name] = outcome["failures"]
            else:
                state[name] = {"key": keys[name], "seconds": round(seconds[name], 1)}
            STATE.write_text(json.dumps(state, indent=1) + "\n")
            errors = ", with errors" * bool(outcome["failures"])
            print(f"[{done}/{len(stale)}] {name}: {seconds[name]:.0f} s{errors}", flush=True)
    for name in sorted(seconds, key=lambda name: -seconds[name])[:SLOWEST]:
        times[f"  {name}"] = seconds[name]
    times[f"{counted(len(stale), 'notebook')}, {jobs} at once"] = time.monotonic() - start
    return dict(sorted(failures.items()))


def _execute(path: Path, out: Path) -> dict | None:
    if sys.platform != "linux" and "TRITON_INTERPRET" in path.read_text():
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, out)
        return None
    from execute import execute  # here, so that a build with nothing to do starts without Jupyter

    outcome = execute(path, out)
    return {"seconds": outcome.seconds, "failures": [found._asdict() for found in outcome.failures]}


def _common() -> str:
    """A hash of what every notebook depends on. The live runs belong to single chapters: `_key`."""
    found = [ROOT / "requirements.txt", ROOT / "tools/execute.py"]
    for folder in CODE:
        found += [path for path in (ROOT / folder).rglob("*") if path.parent.name != "live"
                  and path.suffix in (".py", ".js", ".json", ".txt", ".gz", ".csv")]
    return _hash(found)


def _key(path: Path, common: str) -> str:
    """A hash of all that a notebook's outcome depends on, with the live runs that it names."""
    chapters = set(re.findall(r"[\"'](\d\d)/\w", path.read_text()))
    return _hash([path, *(ROOT / f"results/live/{chapter}.json" for chapter in chapters)]) + common


def site(whole: bool, times: dict[str, float]) -> bool:
    """Bring the site up to date. False when Sphinx warned or failed."""
    before = json.loads(SITE.read_text()) if SITE.exists() else {}
    settings = _hash(path for name in SETTINGS for path in [ROOT / name, *(ROOT / name).rglob("*")]
                     if path.suffix != ".pyc")
    pages = {str(path.relative_to(ROOT)): path for path in sorted(ROOT.glob("book/*.md"))}
    pages |= {str(path.relative_to(EXECUTED)): path for path in sorted(EXECUTED.rglob("*.ipynb"))}
    now = {"settings": settings, "pages": {name: _hash([path]) for name, path in pages.items()}}
    old = before.get("pages", {})
    changed = [name for name in pages if old.get(name) != now["pages"][name]]
    alike = before.get("settings") == settings and old.keys() == pages.keys()
    if alike and not changed and (before["whole"] or not whole):
        return True
    part = alike and len(changed) <= FEW and not whole
    start = time.monotonic()
    SITE.unlink(missing_ok=True)
    source = BUILD / "source"
    if not part:
        for folder in (source, BUILD / "html", BUILD / ".doctrees"):
            shutil.rmtree(folder, ignore_errors=True)
        left = shutil.ignore_patterns("*.ipynb", "*.pyc", "__pycache__")
        shutil.copytree(ROOT / "book", source / "book", ignore=left)
        shutil.copy(ROOT / "_toc.yml", source)
        config = (ROOT / "_config.yml").read_text()
        off = config.replace("execute_notebooks: force", 'execute_notebooks: "off"')
        (source / "_config.yml").write_text(off)
    for name in changed if part else pages:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(pages[name], source / name)
    command = [Path(sys.executable).with_name("jupyter-book"), "build", source,
               "--path-output", ROOT, "-W", "-n", "--keep-going", "-q"]
    done = subprocess.run(command, check=False).returncode
    label = f"{counted(len(changed), 'page')} of the site" if part else "site"
    times[label] = time.monotonic() - start
    if done == 0:
        SITE.write_text(json.dumps(now | {"whole": not part}))
    return done == 0


def _hash(paths: Iterable[Path]) -> str:
    """A hash of the names and contents of those paths that are files."""
    found = hashlib.sha256()
    for path in sorted(paths):
        if path.is_file():
            found.update(f"{path.relative_to(ROOT).as_posix()}\n".encode() + path.read_bytes())
    return found.hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
