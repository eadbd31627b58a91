"""Carry the repository's public address to every place that needs it: `_config.yml`, the notebooks' setup cells, the Colab links
of README.md, and CITATION.cff.

  make address                        the address of this clone: of GITHUB_REPOSITORY on GitHub, else of `git remote`,
                                      else the one that stands in _config.yml
  make address URL=https://github.com/someone/book BRANCH=main     by hand
  python tools/address.py --check     change nothing; fail when a place has another address than _config.yml

Where no address is known, each of these places says so in a sentence, and no link leads nowhere.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).resolve().parent.parent
GITHUB = re.compile(r"(?:https://|ssh://git@|git@)(?:[^@/]+@)?github\.com[:/]([\w.-]+)/([\w.-]+?)(?:\.git)?/?")
SETUP = """\
# On Colab this fetches the book's code; anywhere else it does nothing.
import os, subprocess, sys
if "google.colab" in sys.modules:
    if not os.path.exists("/content/book"):
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", "--branch", "{branch}", "{url}", "/content/book"], check=True)
    sys.path.insert(0, "/content/book")"""
SETUP_UNKNOWN = """\
# On Colab this says what is missing; anywhere else it does nothing.
import sys
if "google.colab" in sys.modules:
    raise RuntimeError("this copy of the book doesn't know its public address: in a clone of it, run `make address` and push")"""
LINKS = re.compile(r"(<!-- colab -->\n).*?(<!-- /colab -->)", re.S)
UNKNOWN = "This copy of the book has no public address yet. Once it lies on GitHub, `make address` puts a link to each chapter here.\n"


class Address(NamedTuple):
    """Where the repository lies; `url` is empty where nobody knows."""

    url: str
    branch: str

    def colab(self, path: str) -> str:
        """The address that opens a file of the repository on Colab."""
        return f"https://colab.research.google.com/github/{self.url.removeprefix('https://github.com/')}/blob/{self.branch}/{path}"


def on_github(remote: str) -> str:
    """https://github.com/owner/name of a remote's address in any of git's forms; empty for a remote elsewhere."""
    found = GITHUB.fullmatch(remote.strip())
    return f"https://github.com/{found[1]}/{found[2]}" if found else ""


def configured() -> Address:
    repository = yaml.safe_load((ROOT / "_config.yml").read_text())["repository"]
    return Address(repository["url"] or "", repository["branch"])


def known() -> Address:
    """What this clone says of itself."""
    before = configured()
    if name := os.environ.get("GITHUB_REPOSITORY"):
        return Address(f"https://github.com/{name}", os.environ.get("GITHUB_REF_NAME") or before.branch)
    remote = subprocess.run(["git", "remote", "get-url", "origin"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return Address(on_github(remote) or before.url, before.branch)


def notebooks() -> list[Path]:
    """In the order of the book."""
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text())
    pages = [contents["root"], *(chapter["file"] for part in contents["parts"] for chapter in part["chapters"])]
    return [path for page in pages if (path := ROOT / f"{page}.ipynb").exists()]


def title(path: Path) -> str:
    """The notebook's own, with the number of a chapter before it."""
    first = next("".join(cell["source"]) for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "markdown")
    number = path.stem[:2].lstrip("0")
    return (f"{number}. " if number.isdigit() else "") + re.search(r"^# (.+)", first, re.M)[1]


def with_setup(notebook: dict, address: Address) -> dict:
    """The notebook with the setup cell of this address as its first code cell: renewed where it is there, else put in."""
    cells, tags = notebook["cells"], ["remove-cell"]
    first = next((k for k, cell in enumerate(cells) if cell["cell_type"] == "code"), len(cells))
    if first == len(cells) or cells[first]["metadata"].get("tags") != tags:
        cells.insert(first, {"cell_type": "code", "execution_count": None, "id": "setup", "metadata": {"tags": tags}, "outputs": []})
    source = SETUP.format(**address._asdict()) if address.url else SETUP_UNKNOWN
    cells[first]["source"] = source.splitlines(keepends=True)
    return notebook


def places(address: Address) -> dict[Path, str]:
    """Every file that names the address -> its text with this one."""
    config = ROOT / "_config.yml"
    found = {config: re.sub(r"^(  branch:).*$", rf"\1 {address.branch}", re.sub(
        r"^(  url:)[^#\n]*?( *#.*)?$", rf'\1 "{address.url}"\2', config.read_text(), count=1, flags=re.M), count=1, flags=re.M)}
    for path in notebooks():
        found[path] = json.dumps(with_setup(json.loads(path.read_text()), address), indent=1, ensure_ascii=False) + "\n"
    links = "".join(f"- [{title(path)}]({address.colab(path.relative_to(ROOT).as_posix())})\n" for path in notebooks())
    readme, citation = ROOT / "README.md", ROOT / "CITATION.cff"
    found[readme] = LINKS.sub(lambda match: match[1] + (links if address.url else UNKNOWN) + match[2], readme.read_text())
    said = re.sub(r"^repository-code:.*\n", "", citation.read_text(), flags=re.M)
    found[citation] = said + (f'repository-code: "{address.url}"\n' if address.url else "")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="", help="https://github.com/OWNER/NAME")
    parser.add_argument("--branch", default="", help="default: the one that stands in _config.yml")
    parser.add_argument("--check", action="store_true", help="change nothing; fail when a place is out of date")
    given = parser.parse_args()
    if given.url and not on_github(given.url):
        parser.error(f"--url must be https://github.com/OWNER/NAME, which Colab can open, got {given.url}")
    address = configured() if given.check else Address(on_github(given.url), configured().branch) if given.url else known()
    if given.branch:
        address = address._replace(branch=given.branch)
    stale = {path: text for path, text in places(address).items() if path.read_text() != text}
    for path, text in stale.items():
        if not given.check:
            path.write_text(text)
        print(f"{path.relative_to(ROOT)}: {'out of date, run `make address`' if given.check else 'updated'}")
    print(f"the address is {address.url or 'not known'}, branch {address.branch}")
    return int(given.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
