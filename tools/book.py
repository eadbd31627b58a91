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
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import yaml

from executor import KERNEL, Failure, execute, outcome
from studies.engine.closure import closure, code

ROOT = Path(__file__).resolve().parent.parent
EXECUTED, BUILD = ROOT / "_executed", ROOT / "_build"
STATE = EXECUTED / "state.json"     # for each notebook, a hash of what it was executed from
SITE = BUILD / "site.json"          # what the site was made from
INSTALLED = ROOT / ".venv/seconds"  # how long an installation took that came just before
CODE = ("geolab", "studies", "benchmarks", "results")  # the folders whose data notebooks read
EXECUTOR = ("executor.py", "whole_notebooks.py")
SETTINGS = ("_config.yml", "_toc.yml", "book/_ext", "book/_static", "book/references.bib",
            "classes/course",
            *(f"geolab/show/{file}" for file in ("core.js", "compute.js", "compute.css",
                                                 "network.js", "network_page.js", "network.css")),
            "results/page_network")
NOTICE = """:::{{warning}}
On the machine that built this page, cells ended with an error. The page shows it in its place, and
what depends on it may be missing.

{}
:::
"""
FEW = 4  # if at most so many pages changed, the others stay as they are
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
    begun = time.monotonic()
    failures = executed(given.jobs, times)
    BUILD.mkdir(exist_ok=True)
    (BUILD / "notebooks.seconds").write_text(f"{time.monotonic() - begun:.0f}\n")
    made = site(given.whole, times)
    if times:
        print("\nWhere the time went, in seconds")
        for name, seconds in times.items():
            print(f"  {name:32} {seconds:6.0f}")
        whole = sum(seconds for name, seconds in times.items() if not name.startswith("  "))
        print(f"  {'in all':32} {whole:6.0f}")
    for notebook, found in failures.items():
        for failure in found:
            print(f"\n✗ {notebook}, cell {failure.cell}: {failure.line}\n"
                  f"  {failure.error[:300]}")
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


def executed(jobs: int, times: dict[str, float]) -> dict[str, list[Failure]]:
    """Bring the executed copies up to date, and return the failures of each notebook with some."""
    before = json.loads(STATE.read_text()) if STATE.exists() else {}
    paths = {str(path.relative_to(ROOT)): path
             for folder in ("book", "notebooks") for path in ROOT.glob(f"{folder}/*.ipynb")}
    now = keys(paths)
    for copy in EXECUTED.rglob("*.ipynb"):
        if str(copy.relative_to(EXECUTED)) not in paths:
            copy.unlink()
    outcomes = {name: outcome(EXECUTED / name) for name in paths}
    stale = [name for name, known in outcomes.items()
             if known is None or known.failures or before.get(name) != now[name]]
    for name in stale:
        (EXECUTED / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(paths[name], EXECUTED / name)
    if sys.platform != "linux":
        for name in [name for name in stale if "TRITON_INTERPRET" in paths[name].read_text()]:
            print(f"{name}: not executed, Triton needs Linux", flush=True)
            stale.remove(name)
    if not stale:
        return {}
    jobs = min(jobs, len(stale))
    guesses = {name: path.stat().st_size / 5000 for name, path in paths.items()}
    guesses |= {name: known.seconds for name, known in outcomes.items() if known}
    stale.sort(key=lambda name: -guesses[name])  # longest first
    STATE.write_text(json.dumps(now, indent=1) + "\n")  # a copy without outputs is stale too
    start = time.monotonic()
    found = execute([EXECUTED / name for name in stale], os.environ | KERNEL, jobs)
    outcomes = dict(zip(stale, found, strict=True))
    for name in sorted(outcomes, key=lambda name: -outcomes[name].seconds)[:SLOWEST]:
        times[f"  {name}"] = outcomes[name].seconds
    times[f"{counted(len(stale), 'notebook')}, {jobs} at once"] = time.monotonic() - start
    return {name: outcomes[name].failures for name in sorted(stale) if outcomes[name].failures}


def keys(paths: Mapping[str, Path]) -> dict[str, str]:
    """Return for each notebook a hash of all that its outcome depends on.

    These are the notebook, the code that it imports without comments and docstrings, all data and
    results, the pins and the executor. Live runs count for the chapters that name them.
    """
    read = cache(lambda path: code(path.read_text()))
    common = [ROOT / "requirements.txt", *(ROOT / "tools" / name for name in EXECUTOR)]
    common += [path for folder in CODE for path in (ROOT / folder).rglob("*")
               if path.parent.name != "live" and path.suffix not in (".py", ".pyc", ".md")]
    shared, made = _hash(common), {}
    for name, path in paths.items():
        found = hashlib.sha256(shared.encode())
        for module in sorted(closure([path]) - {path}):
            found.update(f"{module.relative_to(ROOT).as_posix()}\n{read(module)}".encode())
        chapters = re.findall(r"[\"'](\d\d)/\w", path.read_text())
        live = {ROOT / f"results/live/{chapter}.json" for chapter in chapters}
        made[name] = found.hexdigest()[:16] + _hash([path, *live])
    return made


def site(whole: bool, times: dict[str, float]) -> bool:
    """Bring the site up to date. False when Sphinx warned or failed."""
    before = json.loads(SITE.read_text()) if SITE.exists() else {}
    settings = _hash(path for name in SETTINGS for path in [ROOT / name, *(ROOT / name).rglob("*")]
                     if path.suffix != ".pyc")
    pages = {str(path.relative_to(ROOT)): path.read_bytes() for path in ROOT.glob("book/*.md")}
    pages |= {str(path.relative_to(EXECUTED)): page(path) for path in EXECUTED.rglob("*.ipynb")}
    now = {"settings": settings,
           "pages": {name: hashlib.sha256(pages[name]).hexdigest() for name in sorted(pages)}}
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
        (source / "_config.yml").write_text(unexecuted((ROOT / "_config.yml").read_text()))
    for name in changed if part else pages:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(pages[name])
    command = [Path(sys.executable).with_name("jupyter-book"), "build", source,
               "--path-output", ROOT, "-W", "-n", "--keep-going", "-q"]
    done = subprocess.run(command, check=False).returncode
    label = f"{counted(len(changed), 'page')} of the site" if part else "site"
    times[label] = time.monotonic() - start
    if done == 0:
        SITE.write_text(json.dumps(now | {"whole": not part}))
    return done == 0


def unexecuted(config: str) -> str:
    """The book's configuration, under which Sphinx executes no notebook: they have been."""
    read = yaml.safe_load(config)
    read["execute"] = read["execute"] | {"execute_notebooks": "off"}
    return yaml.safe_dump(read, sort_keys=False)


def page(copy: Path) -> bytes:
    """Return a page's source: an executed copy without clock times, with a notice if cells raised.

    Clock times would make another page of every copy.
    """
    notebook, found = json.loads(copy.read_text()), outcome(copy)
    for cell in notebook["cells"]:
        cell["metadata"].pop("execution", None)
    if found and found.failures:
        first = notebook["cells"][0]
        title, _, rest = "".join(first["source"]).partition("\n")
        rows = "\n".join(f"- cell {failure.cell}: `{failure.error[:160].replace('`', chr(39))}`"
                         for failure in found.failures)
        first["source"] = f"{title}\n\n{NOTICE.format(rows)}\n{rest}"
    return json.dumps(notebook).encode()


def _hash(paths: Iterable[Path]) -> str:
    """A hash of the names and contents of those paths that are files."""
    found = hashlib.sha256()
    for path in sorted(paths):
        if path.is_file():
            found.update(f"{path.relative_to(ROOT).as_posix()}\n".encode() + path.read_bytes())
    return found.hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
