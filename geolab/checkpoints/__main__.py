"""Read a published model's residual, and print its numbers.

    python -m geolab.checkpoints deepseek-ai/DeepSeek-V4-Flash
    python -m geolab.checkpoints FOLDER --store numbers.json

The lines before the table say how many bytes each step downloads.
"""

import argparse
import sys
from collections.abc import Sequence

from geolab.checkpoints import numbers, read, store, survey


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m geolab.checkpoints", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="a folder, a safetensors file, a URL, or owner/name")
    parser.add_argument("--revision", default="main", help="a branch, tag or commit of the hub")
    parser.add_argument("--like", help="the model type whose equations hold, if config.json "
                                       "doesn't name it")
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds, 20 unless told")
    parser.add_argument("--store", metavar="FILE", help="write the numbers and hashes as JSON")
    parser.add_argument("--replace", action="store_true", help="also over a file that is there")
    told = parser.parse_args(arguments)
    try:
        found = survey(told.address, revision=told.revision, timeout=told.timeout, like=told.like)
        checkpoint = read(found)
        if told.store:
            store(checkpoint, told.store, told.replace)
    except (ImportError, OSError, ValueError) as error:
        sys.exit(f"{error}")
    settings = checkpoint.settings
    print(f"{checkpoint.bytes} bytes in all. {settings.model_type} {checkpoint.revision}, names as "
          f"in {checkpoint.whose}: {settings.layers} layers, {settings.streams} streams\n")
    print(f"{'sublayer':12} {'gain':>7} {'grad':>7} {'consensus':>9} {'‖H − I‖':>8}   "
          "read a | write b")
    for site, row in numbers(checkpoint).items():
        print(f"{site:12} {row['gain']:7.3f} {row['gain of gradients']:7.3f} "
              f"{row['consensus']:9.1e} {row['distance to identity']:8.4f}   "
              f"{_row(row['read'])} | {_row(row['write'])}")


def _row(values: Sequence[float]) -> str:
    return " ".join(f"{value:.3f}" for value in values)


if __name__ == "__main__":
    main()
