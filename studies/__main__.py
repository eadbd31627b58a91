"""Make a study of the book.

The command trains the arms of a study on their tasks, with their seeds and their search, and keeps
the results in one file.
"""

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import NoReturn

import torch

from geolab.distributed import Engine, join, rank, world
from studies import ledger
from studies.engine.again import TOLERANCE, differences
from studies.engine.arm import Arm
from studies.engine.earlier import grows
from studies.engine.estimate import estimate
from studies.engine.measurement import measure
from studies.engine.protocol import Setting
from studies.engine.refusal import Refused, asked
from studies.engine.results import FOLDER, path_of, read, record
from studies.engine.run import SIZES, Part, run_study
from studies.experiments.registry import MEASUREMENTS, STUDIES

ABOUT = """
A study has a name, a question, and some of three sizes:
  cpu     minutes to half an hour on one core; its files are in results/, and chapters read them
  gpu     what one GPU does in about half an hour
  paper   the size that the paper states

  python -m studies                        list the studies
  python -m studies delta --dry-run        say what it would train, and what that costs here
  python -m studies delta                  train, and write results/delta.cpu.json;
                                           where that file is there already, it says so and stops
  python -m studies delta --out mine.json  the same into a file of your own
  python -m studies emhc_gates --size paper --so-far
                                           a long one: write what is finished of it
  python -m studies released --corpus king-james --out mine.json
                                           on a larger text, which `make corpus` fetches once; or
                                           on your own folder of .txt files
  python -m studies delta --lr 7e-3 --warmup 0.2 --out mine.json
                                           at one setting of yours, and what the ledger's rows
                                           would say of it
  python -m studies real                   measure a network that others have trained: no sizes,
                                           no arms; `make model` fetches the network first
  python -m studies delta --check --arm additive --seeds 0
                                           make one run again, and compare it with the stored one
  python -m studies emhc_echo --size paper --device cuda --jobs 4
                                           four small models side by side on one GPU
  torchrun --nproc-per-node 8 -m studies delta --size paper --device cuda \\
      --precision bfloat16 --compile

An interruption loses at most a hundred steps: checkpoints are in runs/, and the same command goes
on from them. They are refused where the code that trains has changed since, but not for a comment.
Where a file lacks runs, the command adds to it. It doesn't train again what is finished there, so
another machine can go on from the file alone.
"""


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.study is None:
        print(overview())
        return 0
    if given.study not in {**STUDIES, **MEASUREMENTS}:
        parser.error(f"study must be one of {', '.join([*STUDIES, *MEASUREMENTS])}, "
                     f"got {given.study}")
    if given.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda needs a CUDA device, and PyTorch sees none; "
                     "--device cpu trains without one")
    if given.size != "cpu" and given.device == "cpu" and not given.dry_run:
        print(f"size {given.size} on a CPU: --dry-run says how long that takes, "
              "--device cuda trains on a GPU", file=sys.stderr)
    folder = given.folder or Path("runs/again" if given.check else "runs")
    further = f"\nThe same command goes on from the checkpoints in {folder}/"
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        return _make(given, folder)
    except Refused as problem:
        parser.error(str(problem))
    except (ChildProcessError, FloatingPointError) as problem:  # after some training
        print(f"{problem}{further}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stopped:
        print(f"{str(stopped) or 'stopped'}{'' if given.dry_run else further}", file=sys.stderr)
        return 130
    except RuntimeError:
        if world() > 1:  # this process failed, or lost another one
            print(f"This or another process of the run failed.{further}", file=sys.stderr)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _make(given: argparse.Namespace, folder: Path) -> int:
    """Do what the arguments ask for. Returns the exit status. Raises: Refused."""
    out = given.out or path_of(given.study, given.size)
    if given.study in MEASUREMENTS:
        return _measure(given, folder, out)
    study = STUDIES[given.study]
    with asked():
        stored, earlier = read(out) if given.check else None, None
        part = Part(given.arm, given.seeds, _engine(given), given.corpus, _setting(given))
        if not (given.check or given.dry_run):
            earlier = read(out) if _grows(out, partial(part.of, study, given.size)) else None
            _require_writable(out, given, earlier is not None)
    join(given.device)
    if given.dry_run:
        for line in estimate(part.of(study, given.size), given.device):
            if rank() == 0:
                print(line, flush=True)
        return 0
    found = run_study(study, given.size, part, device=given.device, jobs=given.jobs, folder=folder,
                      reason=given.force, so_far=given.so_far, earlier=earlier)
    if stored is not None:
        return _compare_with(out, stored, found, given)
    reason = given.force or ("further runs" if earlier else "")
    record(out, study.question, found, force=reason)
    if rank() == 0:
        print("\n".join([f"{out} is written", *ledger.beside(study.name, given.size, found)]))
    return 0


def _measure(given: argparse.Namespace, folder: Path, out: Path) -> int:
    """Make the measurements of a study on a network that others have trained."""
    study, own = MEASUREMENTS[given.study], {"study", "out", "force", "folder", "so_far"}
    with asked():
        for name, value in vars(given).items():
            if name not in own and value != _parser().get_default(name):
                raise ValueError(f"--{name.replace('_', '-')} is for studies that train, and "
                                 f"{study.name} measures what others have trained")
        earlier = read(out) if _grows(out) else None
        _require_writable(out, given, earlier is not None)
    found = measure(study, folder, given.force, so_far=given.so_far, earlier=earlier)
    record(out, study.question, found, force=given.force or "further findings" * bool(earlier))
    left = found.get("unfinished")
    print(f"{out} is written" + (f"; it lacks {left} measurements or more" if left else ""))
    return 0


def overview() -> str:
    """One line per study."""
    def sizes(name: str) -> str:
        return " ".join(f"{size}{'*' if path_of(name, size).exists() else ''}"
                        for size in STUDIES[name].sizes)

    width = max(map(len, (*STUDIES, *MEASUREMENTS)))
    return "\n".join([
        f"{'name':{width}}  {'sizes':14}  question",
        *(f"{name:{width}}  {sizes(name):14}  {study.question}" for name, study in STUDIES.items()),
        *(f"{name:{width}}  {'cpu' + '*' * path_of(name).exists():14}  {study.question}"
          for name, study in MEASUREMENTS.items()),
        f"* is stored in {FOLDER.name}/"])


def _require_writable(out: Path, given: argparse.Namespace, grows: bool) -> None:
    """Before anything is trained, refuse a file that can't or shouldn't be written.

    Raises: ValueError.
    """
    if (given.arm or given.seeds or given.corpus or given.lr) and given.out is None:
        raise ValueError(
            f"a part of a study, or one at other settings, is not {out.name}: give --out a file of "
            "its own, or leave --arm, --seeds, --corpus, --lr and --warmup out")
    if out.exists() and not given.force and not grows:
        raise ValueError(
            f"{out} is there, and is not overwritten: give --out another file, --force a reason to "
            "replace it, or --check to compare with it")
    if out.is_dir() or not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise ValueError("--out must be a file in a folder that is there and can be written to, "
                         f"got {out}")


def _grows(out: Path, arms: Callable[[], Sequence[Arm]] = list) -> bool:
    """Return whether the file exists and lacks runs. A further call keeps its finished arms."""
    return out.exists() and grows(arms(), read(out))


def _compare_with(path: Path, stored: dict, found: dict, given: argparse.Namespace) -> int:
    if rank() > 0:
        return 0
    if given.folder is None:
        shutil.rmtree("runs/again")  # so that the next check trains again
    rows = differences(stored, found)
    if not rows:
        print(f"{path} has none of these runs")
        return 1
    for row in rows:
        print(f"{row.difference:9.2e}  {row.where}")
    worst = max(row.difference for row in rows)
    print(f"{len(rows)} runs made again; the largest relative difference of a last validation loss "
          f"is {worst:.2e}, {'within' if worst <= given.tolerance else 'beyond'} "
          f"{given.tolerance:g}")
    return int(worst > given.tolerance)


def _setting(given: argparse.Namespace) -> Setting | None:
    """Return the one setting that the arguments ask for, or None for a search.

    Raises: ValueError for a warm-up without a rate.
    """
    if given.lr is None and given.warmup is not None:
        raise ValueError("--warmup needs --lr: together they take the place of the search")
    if given.lr is None:
        return None
    if not given.lr > 0:
        raise ValueError(f"--lr must be positive, got {given.lr:g}")
    if given.warmup is not None and not 0 <= given.warmup <= 1:
        raise ValueError("--warmup must be a share of the steps, from 0 to 1, got "
                         f"{given.warmup:g}")
    return Setting(given.lr, given.warmup)


def _engine(given: argparse.Namespace) -> dict:
    """Return the fields of Engine that the arguments set. The study sets the others."""
    asked = {field.name: getattr(given, field.name) for field in fields(Engine)}
    return {name: value for name, value in asked.items() if value is not None}


def _stop(*_) -> None:
    raise KeyboardInterrupt


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        if os.environ.get("RANK", "0") != "0":  # the first of torchrun's processes says it for all
            self.exit(2)
        super().error(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m studies", description=__doc__, epilog=ABOUT,
                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("study", nargs="?", help="its name; without one, all are listed")
    add("--size", "--budget", dest="size", choices=SIZES, default="cpu",
        help="the size of models, data and runs (default cpu)")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="where to train (default cpu)")
    add("--seeds", type=int, nargs="+", metavar="S", help="in place of the study's own")
    add("--arm", nargs="+", metavar="NAME", help="only these models of it")
    add("--lr", type=float, metavar="RATE",
        help="one learning rate for all arms, in place of their search; nothing is varied")
    add("--warmup", type=float, metavar="SHARE",
        help="the warm-up beside --lr, as a share of the steps")
    add("--jobs", type=int, default=1,
        help="processes side by side, each with a model of its own (default 1)")
    add("--out", type=Path, help="the JSON file to write (default results/STUDY.SIZE.json)")
    add("--force", metavar="REASON", default="",
        help="replace the file, or use checkpoints of other code; the file keeps the reason")
    add("--corpus", metavar="TEXT",
        help="replaces the study's text: a folder of .txt files, or a name; `make corpus` fetches "
             "king-james once")
    add("--folder", type=Path,
        help="for checkpoints (default runs; with --check runs/again, which is deleted in the end)")
    add("--dry-run", action="store_true",
        help="train nothing; say what would be trained and what it costs here")
    add("--so-far", action="store_true",
        help="train nothing; write the runs that are finished, over a file that has fewer")
    add("--check", action="store_true",
        help="write nothing; make the runs again and compare them with the file")
    add("--tolerance", type=float, default=TOLERANCE,
        help=f"largest relative difference that --check allows (default {TOLERANCE:g})")
    steps = parser.add_argument_group("how steps are computed (default: as the study says)")
    steps.add_argument("--precision", choices=("float32", "bfloat16"))
    steps.add_argument("--accumulate", type=int, metavar="N", help="micro-batches per step")
    steps.add_argument("--shard", action="store_true", default=None,
                       help="share parameters out among processes (FSDP2, under torchrun)")
    steps.add_argument("--compile", action="store_true", default=None, help="torch.compile")
    return parser


if __name__ == "__main__":
    sys.exit(main())
