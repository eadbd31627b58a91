"""Carry the repository's address from `_config.yml` to the places that can't read it: the notebooks' setup cells, and
in README.md and CITATION.cff the Colab links, the clone command and `repository-code`. `--check` changes nothing and
fails when one is out of date.
"""

import json
import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
SETUP = """\
# On Colab this fetches the book's code; anywhere else it does nothing.
import subprocess, sys
if "google.colab" in sys.modules:
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", "--branch", "{branch}", "{url}", "/content/book"], check=True)
    sys.path.insert(0, "/content/book")"""


def repository() -> dict:
    """`repository` of _config.yml: url and branch."""
    return yaml.safe_load((ROOT / "_config.yml").read_text())["repository"]


def notebooks() -> list[Path]:
    return sorted([*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("book/*.ipynb")])


def colab(path: str) -> str:
    """The address that opens a file of the repository on Colab."""
    url, branch = repository()["url"], repository()["branch"]
    return f"https://colab.research.google.com/github/{url.removeprefix('https://github.com/')}/blob/{branch}/{path}"


def with_setup(notebook: dict) -> dict:
    """The notebook with the setup cell of this address as its first code cell: renewed where it is there, else put in."""
    cells, tags = notebook["cells"], ["remove-cell"]
    first = next((k for k, cell in enumerate(cells) if cell["cell_type"] == "code"), len(cells))
    if first == len(cells) or cells[first]["metadata"].get("tags") != tags:
        cells.insert(first, {"cell_type": "code", "execution_count": None, "id": "setup", "metadata": {"tags": tags}, "outputs": []})
    cells[first]["source"] = SETUP.format(**repository()).splitlines(keepends=True)
    return notebook


def with_address(text: str) -> str:
    """The text with its Colab links (each names the file that it opens after /blob/<branch>/), `git clone` and
    `repository-code` derived anew.
    """
    text = re.sub(r"https://colab\.research\.google\.com/github/[^)\s]*?/blob/[^/)\s]+/([^)\s]+)",
                  lambda match: colab(match[1]), text)
    return re.sub(r"((?:git clone|repository-code:) [^\n]*?)https://github\.com/[^\s\"'`)]+",
                  lambda match: match[1] + repository()["url"], text)


def main(check: bool) -> int:
    stale = []
    for path in notebooks():
        text = json.dumps(with_setup(json.loads(path.read_text())), indent=1, ensure_ascii=False) + "\n"
        stale += _write(path, text, check)
    for path in filter(Path.exists, (ROOT / "README.md", ROOT / "CITATION.cff")):
        stale += _write(path, with_address(path.read_text()), check)
    verb = "out of date, run `make address`" if check else "updated"
    print("\n".join(f"{path.relative_to(ROOT)}: {verb}" for path in stale) or "every address is that of _config.yml")
    return 1 if check and stale else 0


def _write(path: Path, text: str, check: bool) -> list[Path]:
    if path.read_text() == text:
        return []
    if not check:
        path.write_text(text)
    return [path]


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv))
