"""The version of the book, the names of a release's files, and its part of the changelog.

  python tools/release.py              prints what CHANGELOG.md says of this version
  python tools/release.py --tag v0.1.0   fails when the tag isn't this version's

Between two releases the version ends with .dev0, which no tag may have, and the changelog says
under [Unreleased] what it has.
"""

import argparse
import re
import sys
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "_build/release"
NAME = "geometry-of-residual-connections"


def version() -> str:
    """The version in pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def file(ending: str) -> Path:
    """A file of the release, such as `file(".pdf")`. Its folder is made."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    return FOLDER / f"{NAME}-{version()}{ending}"


def notes(of: str) -> str:
    """Return the text of CHANGELOG.md about a version; a .dev0 is what is unreleased.

    Raises: ValueError without such a text.
    """
    text, of = (ROOT / "CHANGELOG.md").read_text(), "Unreleased" if of.endswith(".dev0") else of
    found = re.search(rf"^## \[{re.escape(of)}\][^\n]*\n(.*?)(?=^## |^\[|\Z)", text, re.M | re.S)
    if found is None or not found[1].strip():
        raise ValueError(f"CHANGELOG.md must have a section ## [{of}], and has none")
    return found[1].strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tag", help="the tag that is released")
    given = parser.parse_args()
    if given.tag and version().endswith(".dev0"):
        parser.error(f"--tag must wait: pyproject.toml has {version()}, got {given.tag}")
    if given.tag and given.tag != f"v{version()}":
        parser.error(f"--tag must be v{version()}, as pyproject.toml says, got {given.tag}")
    print(notes(version()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
