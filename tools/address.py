"""Carry the repository's public address to every place that needs it.

These are `_config.yml`, the notebooks' setup cells, the Colab links of README.md, and CITATION.cff.

  make address    takes the address of this clone: GITHUB_REPOSITORY on GitHub, else the remote
                  of git, else the address in _config.yml
  make address URL=https://github.com/someone/book BRANCH=main    takes the one that is given
  python tools/address.py --check    changes nothing, and fails when a place has another address
                                     than _config.yml

Where no address is known, each of these places says so in a sentence, and has no link.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).resolve().parent.parent
GITHUB = re.compile(
    r"(?:https://|ssh://git@|git@)(?:[^@/]+@)?github\.com[:/]([\w.-]+)/([\w.-]+?)(?:\.git)?/?")
# A clone on the path makes geolab, studies and benchmarks importable.
SETUP = """\
# On Colab and on Kaggle this fetches the book's code; anywhere else it does nothing.
import os, subprocess, sys
if "google.colab" in sys.modules or "KAGGLE_KERNEL_RUN_TYPE" in os.environ:
    if not os.path.exists("/content/book"):
        subprocess.run(["git", "clone", "--quiet", "--depth", "1",
                        "--branch", "{branch}", "{url}", "/content/book"], check=True)
    sys.path.insert(0, "/content/book")"""
SETUP_UNKNOWN = """\
# On Colab this says what is missing; anywhere else it does nothing.
import sys
if "google.colab" in sys.modules:
    raise RuntimeError("this copy of the book doesn't know its public address: \
in a clone of it, run `make address` and push")"""
LINKS = r"(<!-- colab -->\n)(?s:.*?)(<!-- /colab -->)"
UNKNOWN = ("This copy of the book has no public address yet. "
           "Once it lies on GitHub, `make address` puts a link to each chapter here.\n")
COLAB = "https://colab.research.google.com/github"


class Address(NamedTuple):
    """The place of the repository; `url` is empty where nobody knows."""

    url: str
    branch: str

    def colab(self, path: str) -> str:
        """The address that opens a file of the repository on Colab."""
        return f"{COLAB}/{self.url.removeprefix('https://github.com/')}/blob/{self.branch}/{path}"


def on_github(remote: str) -> str:
    """https://github.com/owner/name for a remote in any of git's forms, or "" for one elsewhere."""
    found = GITHUB.fullmatch(remote.strip())
    return f"https://github.com/{found[1]}/{found[2]}" if found else ""


def configured() -> Address:
    """The address in _config.yml."""
    repository = yaml.safe_load((ROOT / "_config.yml").read_text())["repository"]
    return Address(repository["url"] or "", repository["branch"])


def known() -> Address:
    """The address that GitHub or git gives for this clone, or else the one in _config.yml."""
    before = configured()
    if name := os.environ.get("GITHUB_REPOSITORY"):
        branch = os.environ.get("GITHUB_REF_NAME") or before.branch
        return Address(f"https://github.com/{name}", branch)
    asked = subprocess.run(["git", "remote", "get-url", "origin"], cwd=ROOT,
                           capture_output=True, text=True, check=False)
    return Address(on_github(asked.stdout) or before.url, before.branch)


def notebooks() -> list[Path]:
    """The notebooks in the order of the book."""
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text())
    chapters = [chapter["file"] for part in contents["parts"] for chapter in part["chapters"]]
    pages = [contents["root"], *chapters]
    return [path for page in pages if (path := ROOT / f"{page}.ipynb").exists()]


def title(path: Path) -> str:
    """The title of a notebook, after its number if it is a chapter."""
    cells = json.loads(path.read_text())["cells"]
    first = next("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    found = re.search(r"^# (.+)", first, re.M)
    assert found, f"{path.name} has no title"
    number = path.stem[:2].lstrip("0")
    return (f"{number}. " if number.isdigit() else "") + found[1]


def with_setup(notebook: dict, address: Address) -> dict:
    """The notebook with this address's setup cell as its first code cell.

    An older setup cell is replaced. A notebook without one gets one.
    """
    cells, tags = notebook["cells"], ["remove-cell"]
    first = next((k for k, cell in enumerate(cells) if cell["cell_type"] == "code"), len(cells))
    if first == len(cells) or cells[first]["metadata"].get("tags") != tags:
        cells.insert(first, {"cell_type": "code", "execution_count": None, "id": "setup",
                             "metadata": {"tags": tags}, "outputs": []})
    source = SETUP.format(**address._asdict()) if address.url else SETUP_UNKNOWN
    cells[first]["source"] = source.splitlines(keepends=True)
    return notebook


def places(address: Address) -> dict[Path, str]:
    """Each file that names the address, with the text that it has for this one."""
    config, readme = ROOT / "_config.yml", ROOT / "README.md"
    text = _put(r"^(  url:)[^#\n]*?( *#.*)?$", rf'\1 "{address.url}"\2', config.read_text())
    text = _put(r"^(  branch:).*$", rf"\1 {address.branch}", text)
    found = {config: text}
    for path in notebooks():
        notebook = with_setup(json.loads(path.read_text()), address)
        found[path] = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    links = "".join(f"- [{title(path)}]({address.colab(path.relative_to(ROOT).as_posix())})\n"
                    for path in notebooks()) if address.url else UNKNOWN
    found[readme] = _put(LINKS, lambda match: match[1] + links + match[2], readme.read_text())
    citation = ROOT / "CITATION.cff"
    text = re.sub(r"^repository-code:.*\n", "", citation.read_text(), flags=re.M)
    found[citation] = text + (f'repository-code: "{address.url}"\n' if address.url else "")
    return found


def _put(pattern: str, by: str | Callable, text: str) -> str:
    """The text with its one match replaced.

    Raises: ValueError where it has none, or more.
    """
    put, count = re.subn(pattern, by, text, flags=re.M)
    if count != 1:
        raise ValueError(f"the text must have one place for the address that matches {pattern!r}, "
                         f"got {count} in {text[:60]!r} …")
    return put


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="", help="https://github.com/OWNER/NAME")
    parser.add_argument("--branch", default="", help="default: the one in _config.yml")
    parser.add_argument("--check", action="store_true",
                        help="change nothing; fail when a place is out of date")
    given = parser.parse_args()
    if given.url and not on_github(given.url):
        parser.error("--url must be https://github.com/OWNER/NAME, which Colab can open, "
                     f"got {given.url}")
    address = configured() if given.check or given.url else known()
    if given.url and not given.check:
        address = address._replace(url=on_github(given.url))
    if given.branch:
        address = address._replace(branch=given.branch)
    stale = {path: text for path, text in places(address).items() if path.read_text() != text}
    for path, text in stale.items():
        if not given.check:
            path.write_text(text)
        outcome = "out of date, run `make address`" if given.check else "updated"
        print(f"{path.relative_to(ROOT)}: {outcome}")
    print(f"the address is {address.url or 'not known'}, branch {address.branch}")
    return int(given.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
