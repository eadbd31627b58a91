"""A folder as one archive among the files of a release: `make zip` packs the site for a USB stick.

Unpacked, the site opens by a double click on index.html, and needs no network and no server.
"""

import argparse
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from release import ROOT, file

LEFT = (".buildinfo", ".doctrees")  # files that only a builder reads


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "_build/html")
    parser.add_argument("--kind", default="site", help="the last part of the archive's name")
    given = parser.parse_args()
    if not given.folder.is_dir():
        parser.error(f"--folder must be a folder that is there, got {given.folder}")
    out = file(f"-{given.kind}.zip")
    pack(given.folder, out)
    print(f"{out}: {out.stat().st_size / 1e6:.1f} MB")
    return 0


def pack(folder: Path, out: Path) -> None:
    """Pack all files of the folder under one folder named as the archive is."""
    with TemporaryDirectory() as around:
        shutil.copytree(folder, Path(around) / out.stem, ignore=shutil.ignore_patterns(*LEFT))
        shutil.make_archive(str(out.with_suffix("")), "zip", around, out.stem)


if __name__ == "__main__":
    sys.exit(main())
