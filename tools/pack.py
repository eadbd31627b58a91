"""A folder as one archive among the files of a release: `make zip` packs the site for a USB stick.

Unpacked, the site opens by a double click on index.html, and needs no network and no server.
"""

import argparse
import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from release import ROOT, file

LEFT = {".buildinfo", ".doctrees"}  # what only a builder reads


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "_build/html")
    parser.add_argument("--kind", default="site", help="the last part of the archive's name")
    given = parser.parse_args()
    if not given.folder.is_dir():
        parser.error(f"--folder must be a folder that is there, got {given.folder}")
    out = file(f"-{given.kind}.zip")
    count = pack(given.folder, out)
    print(f"{out}: {count} files, {out.stat().st_size / 1e6:.1f} MB")
    return 0


def pack(folder: Path, out: Path) -> int:
    """Pack all files of the folder under one folder named as the archive is. Returns how many."""
    paths = [path for path in sorted(folder.rglob("*"))
             if path.is_file() and not LEFT & set(path.relative_to(folder).parts)]
    with ZipFile(out, "w", ZIP_DEFLATED, compresslevel=9) as archive:
        for path in paths:
            archive.write(path, Path(out.stem) / path.relative_to(folder))
    return len(paths)


if __name__ == "__main__":
    sys.exit(main())
