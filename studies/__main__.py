"""Make an experiment of the book: train its arms on a task, with its seeds and its search, and keep what came out as one file."""

import argparse
import os
import shutil
import signal
import sys
from dataclasses import fields
from pathlib import Path
from typing import NoReturn

import torch

from geolab.distributed import Engine, join, rank, world
from studies import EXPERIMENTS
from studies.runner.again import TOLERANCE, differences
from studies.runner.study import BUDGETS, run
from studies.runner.estimate import estimate
from studies.results import FOLDER, path_of, read, record

ABOUT = """
An experiment has a name, a question, and a size for some of three budgets:
  cpu     minutes to half an hour on one core; the files of these runs are in results/, and the chapters read them
  gpu     what one GPU does in about half an hour
  paper   the size that the paper states

  python -m studies                                     what there is
  python -m studies delta --dry-run                     what it would train, and an estimate of time and memory here
  python -m studies delta                               train, and write results/delta.cpu.json (there already: it says so, and stops)
  python -m studies delta --out mine.json               the same into a file of your own
  python -m studies delta --budget paper --corpus texts --out mine.json     on your own folder of .txt files
  python -m studies delta --check --arm additive --seeds 0    make one run again, and compare it with the stored one
  python -m studies emhc_echo --budget paper --device cuda --jobs 4         four small models side by side on one GPU
  torchrun --nproc-per-node 8 -m studies.__main__ delta --budget paper --device cuda --precision bfloat16 --compile

Ctrl-C or a kill loses at most a hundred steps: checkpoints are in runs/, and the same command goes on from them.
"""


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.experiment is None:
        print(overview())
        return 0
    if given.experiment not in EXPERIMENTS:
        parser.error(f"experiment must be one of {', '.join(EXPERIMENTS)}, got {given.experiment}")
    if given.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda needs a CUDA device, and PyTorch sees none; --device cpu trains without one")
    if given.budget != "cpu" and given.device == "cpu" and not given.dry_run:
        print(f"budget {given.budget} on a CPU: --dry-run says how long that takes, --device cuda trains on a GPU", file=sys.stderr)
    out = given.out or path_of(given.experiment, given.budget)
    folder = given.folder or Path("runs/again" if given.check else "runs")
    further = "" if given.dry_run else f"\nThe same command goes on from the checkpoints in {folder}/"
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        stored = read(out) if given.check else None
        if not (given.check or given.dry_run):
            _require_writable(out, given)
        join(given.device)
        part = {"arms": given.arm, "seeds": given.seeds, "engine": _engine(given), "corpus": given.corpus}
        if given.dry_run:
            for line in estimate(given.experiment, given.budget, device=given.device, **part):
                if rank() == 0:
                    print(line, flush=True)
            return 0
        found = run(given.experiment, given.budget, device=given.device, jobs=given.jobs, folder=folder, **part)
        if given.check:
            return _compare_with(out, stored, found, given)
        record(out, EXPERIMENTS[given.experiment].question, found, force=given.force)
    except (ChildProcessError, FloatingPointError) as problem:  # after some training
        parser.error(f"{problem}{further}")
    except (ValueError, ImportError, OSError) as problem:  # of arguments, a corpus, a file
        parser.error(str(problem))
    except KeyboardInterrupt as stopped:
        print(f"{str(stopped) or 'stopped'}{further}", file=sys.stderr)
        return 130
    except RuntimeError as problem:
        if world() == 1:
            raise
        print(f"another process of this run was lost: {str(problem).splitlines()[0]}{further}", file=sys.stderr)
        return 1
    finally:
        signal.signal(signal.SIGTERM, before)
    if rank() == 0:
        print(f"{out} is written")
    return 0


def overview() -> str:
    """A line an experiment."""
    def budgets(name: str) -> str:
        return " ".join(f"{budget}{'*' if path_of(name, budget).exists() else ''}" for budget in EXPERIMENTS[name].plans)

    width = max(map(len, EXPERIMENTS))
    return "\n".join([f"{'name':{width}}  {'budgets':14}  question"] + [
        f"{name:{width}}  {budgets(name):14}  {experiment.question}" for name, experiment in EXPERIMENTS.items()] +
        [f"* is stored in {FOLDER.name}/"])


def _require_writable(out: Path, given: argparse.Namespace) -> None:
    """Before anything is trained. Raises: ValueError."""
    if (given.arm or given.seeds or given.corpus) and given.out is None:
        raise ValueError(f"a part of an experiment, or one on another corpus, is not {out.name}: give --out a file of its own, "
                         "or leave --arm, --seeds and --corpus out")
    if out.exists() and not given.force:
        raise ValueError(f"{out} is there, and is not overwritten: give --out another file, --force to replace it, "
                         "or --check to compare with it")
    if out.is_dir() or not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise ValueError(f"--out must be a file in a folder that is there and can be written to, got {out}")


def _compare_with(path: Path, stored: dict, found: dict, given: argparse.Namespace) -> int:
    if rank() > 0:
        return 0
    if given.folder is None:
        shutil.rmtree("runs/again")  # the next check trains again
    rows = differences(stored, found)
    if not rows:
        print(f"{path} has none of these runs")
        return 1
    for row in rows:
        print(f"{row.difference:9.2e}  {row.where}")
    worst = max(row.difference for row in rows)
    print(f"{len(rows)} runs made again; the largest relative difference of a last validation loss is {worst:.2e}, "
          f"{'within' if worst <= given.tolerance else 'beyond'} {given.tolerance:g}")
    return int(worst > given.tolerance)


def _engine(given: argparse.Namespace) -> dict:
    """What is asked; for the rest the experiment has its own."""
    asked = {field.name: getattr(given, field.name) for field in fields(Engine)}
    return {name: value for name, value in asked.items() if value is not None}


def _stop(*_) -> None:
    raise KeyboardInterrupt


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        if os.environ.get("RANK", "0") != "0":  # of the processes that torchrun starts, the first one says it
            self.exit(2)
        super().error(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m studies", description=__doc__, epilog=ABOUT,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", nargs="?", help="its name; without one, a list of all")
    parser.add_argument("--budget", choices=BUDGETS, default="cpu", help="the size of models, data and runs (default cpu)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to train (default cpu)")
    parser.add_argument("--seeds", type=int, nargs="+", metavar="S", help="in place of the experiment's own")
    parser.add_argument("--arm", nargs="+", metavar="NAME", help="only these models of it")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side, each with a model of its own (default 1)")
    parser.add_argument("--out", type=Path, help="the JSON file to write (default results/EXPERIMENT.BUDGET.json)")
    parser.add_argument("--force", action="store_true", help="write over it")
    parser.add_argument("--corpus", metavar="TEXT", help="for text that is streamed: a folder of .txt files, or a name, in place of its own")
    parser.add_argument("--folder", type=Path, help="for checkpoints (default runs; with --check runs/again, which it deletes in the end)")
    parser.add_argument("--dry-run", action="store_true", help="train nothing; say what would be trained and what it costs here")
    parser.add_argument("--check", action="store_true", help="write nothing; make the runs again and compare with the file, by default "
                        "the stored one")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help=f"of --check: relative (default {TOLERANCE:g})")
    steps = parser.add_argument_group("how steps are computed (default: as the experiment says)")
    steps.add_argument("--precision", choices=("float32", "bfloat16"))
    steps.add_argument("--accumulate", type=int, metavar="N", help="micro-batches a step")
    steps.add_argument("--shard", action="store_true", default=None, help="share parameters out among processes (FSDP2, under torchrun)")
    steps.add_argument("--compile", action="store_true", default=None, help="torch.compile")
    return parser


if __name__ == "__main__":
    sys.exit(main())
