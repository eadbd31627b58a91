"""Build the book: execute the notebooks that changed, set the pages that changed, say where the time went.

A page is built in any case. Where cells raise, it shows their errors under a notice, and the command ends with a list of them
and status 1. `--whole` sets every page anew unless that is how the site was last made.
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
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXECUTED, BUILD = ROOT / "_executed", ROOT / "_build"
STATE = EXECUTED / "state.json"         # notebook -> what it was executed from, and how long that took
SITE = BUILD / "site.json"              # what the site was made from
INSTALLED = ROOT / ".venv/seconds"      # how long an installation took that came just before
SETTINGS = ("_config.yml", "_toc.yml", "book/_ext", "book/_static", "book/references.bib")
FEW = 4                                 # changed pages up to which the others stay as they are


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--whole", action="store_true", help="leave no page as it was, unless all were set at once")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="notebooks at once (default 2)")
    given = parser.parse_args()
    times = {"installation": float(INSTALLED.read_text())} if INSTALLED.exists() else {}
    INSTALLED.unlink(missing_ok=True)
    failures = executed(given.jobs, times)
    set_right = site(given.whole, times)
    if times:
        print("\nWhere the time went, in seconds")
        for name, seconds in times.items():
            print(f"  {name:32} {seconds:6.0f}")
        print(f"  {'in all':32} {sum(seconds for name, seconds in times.items() if not name.startswith('  ')):6.0f}")
    for notebook, found in failures.items():
        for failure in found:
            print(f"\n✗ {notebook}, cell {failure['cell']}: {failure['line']}\n  {failure['error'][:300]}")
    if failures:
        print(f"\n{sum(map(len, failures.values()))} cells raised, on {len(failures)} pages; the pages are there, and show the errors.")
    print(f"The book is in {BUILD}/html/index.html" if set_right else "Sphinx warned or failed: see above.")
    return int(bool(failures) or not set_right)


def executed(jobs: int, times: dict[str, float]) -> dict[str, list[dict]]:
    """Bring the executed copies up to date; what raised, by notebook."""
    state = json.loads(STATE.read_text()) if STATE.exists() else {}
    paths = {str(path.relative_to(ROOT)): path for path in [*ROOT.glob("book/*.ipynb"), *ROOT.glob("notebooks/*.ipynb")]}
    common = _hash(path for folder in ("geolab", "results") for path in (ROOT / folder).rglob("*")
                   if path.suffix in (".py", ".json", ".txt", ".gz", ".csv") and path.parent.name != "live") + _hash(
                       [ROOT / "requirements.txt", ROOT / "tools/execute.py"])
    keys = {name: _key(path, common) for name, path in paths.items()}
    for copy in EXECUTED.rglob("*.ipynb"):
        if str(copy.relative_to(EXECUTED)) not in paths:
            copy.unlink()
    stale = [name for name in paths if state.get(name, {}).get("key") != keys[name] or not (EXECUTED / name).exists()]
    stale.sort(key=lambda name: -state.get(name, {}).get("seconds", paths[name].stat().st_size / 5000))  # the longest first
    if not stale:
        return {}
    os.environ |= {"GEOLAB_EXPLORE": "static", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    start, failures = time.monotonic(), {}
    with ProcessPoolExecutor(jobs) as pool:
        futures = {pool.submit(_execute, paths[name], EXECUTED / name): name for name in stale}
        for done, future in enumerate(as_completed(futures), start=1):
            name, outcome = futures[future], future.result()
            state.pop(name, None)
            if outcome is None:
                print(f"[{done}/{len(stale)}] {name}: not executed, Triton needs Linux", flush=True)
                continue
            if outcome["failures"]:
                failures[name] = outcome["failures"]
            else:
                state[name] = {"key": keys[name], "seconds": round(outcome["seconds"], 1)}
            STATE.write_text(json.dumps(state, indent=1) + "\n")
            print(f"[{done}/{len(stale)}] {name}: {outcome['seconds']:.0f} s{', with errors' * bool(outcome['failures'])}", flush=True)
            times[f"  {name}"] = outcome["seconds"]
    slowest = sorted((name for name in times if name.startswith("  ")), key=times.get)[:-4]  # all but the slowest three and one
    for name in slowest:
        del times[name]
    times[f"{len(stale)} notebooks, {jobs} at once"] = time.monotonic() - start
    return dict(sorted(failures.items()))


def _execute(path: Path, out: Path) -> dict | None:
    if sys.platform != "linux" and "TRITON_INTERPRET" in path.read_text():
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, out)
        return None
    from execute import execute  # here: a build with nothing to do starts without Jupyter
    outcome = execute(path, out)
    return {"seconds": outcome.seconds, "failures": [failure._asdict() for failure in outcome.failures]}


def _key(path: Path, common: str) -> str:
    """All that the outcome of a notebook depends on: itself, the package, results, and the stored runs of the live cells it names."""
    chapters = set(re.findall(r"[\"'](\d\d)/\w", path.read_text()))
    return _hash([path, *sorted(ROOT / f"results/live/{chapter}.json" for chapter in chapters)]) + common


def site(whole: bool, times: dict[str, float]) -> bool:
    """Bring the site up to date. False when Sphinx warned."""
    before = json.loads(SITE.read_text()) if SITE.exists() else {}
    settings = _hash(path for name in SETTINGS for path in ([ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*"))
                     if path.is_file() and path.suffix != ".pyc")
    pages = {str(path.relative_to(ROOT)): path for path in sorted(ROOT.glob("book/*.md"))}
    pages |= {str(path.relative_to(EXECUTED)): path for path in sorted(EXECUTED.rglob("*.ipynb"))}
    now = {"settings": settings, "pages": {name: _hash([path]) for name, path in pages.items()}}
    changed = [name for name in pages if before.get("pages", {}).get(name) != now["pages"][name]]
    alike = before.get("settings") == settings and before.get("pages", {}).keys() == pages.keys()
    if alike and not changed and (before["whole"] or not whole):
        return True
    part = alike and len(changed) <= FEW and not whole
    start = time.monotonic()
    SITE.unlink(missing_ok=True)
    source = BUILD / "source"
    if not part:
        for folder in (source, BUILD / "html", BUILD / ".doctrees"):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(ROOT / "book", source / "book", ignore=shutil.ignore_patterns("*.ipynb", "*.pyc", "__pycache__"))
        for name in ("_config.yml", "_toc.yml"):
            shutil.copy(ROOT / name, source / name)
        config = source / "_config.yml"
        config.write_text(config.read_text().replace("execute_notebooks: force", 'execute_notebooks: "off"'))
    for name in changed if part else pages:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(pages[name], source / name)
    done = subprocess.run([Path(sys.executable).with_name("jupyter-book"), "build", source, "--path-output", ROOT, "-W", "-n",
                           "--keep-going", "-q"], check=False).returncode
    times["site" if not part else f"site, {len(changed)} pages of it"] = time.monotonic() - start
    if done == 0:
        SITE.write_text(json.dumps(now | {"whole": not part}))
    return done == 0


def _hash(paths) -> str:
    found = hashlib.sha256()
    for path in sorted(paths):
        if path.is_file():
            found.update(f"{path.relative_to(ROOT).as_posix()}\n".encode() + path.read_bytes())
    return found.hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
