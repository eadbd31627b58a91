"""An experiment as data: which arms, on which task, at which budgets.

    plan(budget) = {comparison: arms × seeds on one task}
    file         = arrange({comparison: what was found})

`run` trains what is missing and gives the content of the file; `python -m studies` is its command.
"""

import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from studies.runner.compare import Measure, compare, merge
from geolab.distributed import Engine, mean, rank, world
from studies.runner.jobs import side_by_side
from geolab.checks import require_option
from studies.results import sources
from geolab.tasks import Task
from geolab.tasks.stream import Stream
from geolab.training import Budget, require_shares

BUDGETS = ("cpu", "gpu", "paper")


@dataclass(frozen=True)
class Comparison:
    """Arms on one task: the arguments of `compare`."""

    models: Mapping[str, Callable[[], nn.Module]]
    task: Task
    budget: Budget
    rates: Sequence[float]
    seeds: Sequence[int] = (0, 1, 2)
    search_steps: int | None = None
    search_seeds: Sequence[int] | None = None
    measure: Measure | None = None
    untrained: Measure | None = None
    engine: Engine = Engine()

    def only(self, arms: Collection[str] | None = None, seeds: Sequence[int] | None = None) -> "Comparison":
        """Some of it. An arm keeps its search, with the seeds that the whole comparison searches with.

        Raises: ValueError for a seed that is there twice: a run and its copy have no spread.
        """
        if seeds is not None and len(set(seeds)) < len(seeds):
            raise ValueError(f"seeds must differ, got {', '.join(map(str, seeds))}")
        chosen = {name: build for name, build in self.models.items() if arms is None or name in arms}
        return replace(self, models=chosen, seeds=self.seeds if seeds is None else seeds, search_seeds=self.search_seeds or self.seeds)

    def batch(self) -> list[Tensor]:
        """The first one: inputs and targets.

        Raises: ImportError or ConnectionError for a corpus that can't be read here.
        """
        pairs = next(self.task.batches(self.budget.batch, 0, 0, 1)) if hasattr(self.task, "batches") else self.task.sample("train")
        return [t[torch.arange(self.budget.batch) % len(t)] for t in pairs]

    def compare(self, folder: Path, device: str) -> dict:
        return compare(**{field.name: getattr(self, field.name) for field in fields(self)}, folder=folder, device=device)


Plan = dict[str, Comparison]


def as_found(found: dict[str, dict], plan: Plan, budget: str) -> dict:
    """One entry a comparison."""
    return found


@dataclass(frozen=True)
class Experiment:
    """What `python -m studies` can do.

    Arguments:
        question: in a line.
        plans: budget -> a function that builds its Plan; reading a corpus waits until then.
        arrange: (found, plan, budget) -> the content of the file, besides its provenance.
    """

    question: str
    plans: Mapping[str, Callable[[], Plan]]
    arrange: Callable[[dict[str, dict], Plan, str], dict] = as_found

    def plan(self, budget: str, arms: Sequence[str] | None = None, seeds: Sequence[int] | None = None,
             engine: Mapping[str, object] | None = None, corpus: str | None = None) -> Plan:
        """The comparisons at a budget, or of those with one of `arms` their part with these arms and seeds.

        Arguments:
            engine: fields of Engine, in place of the comparisons' own.
            corpus: a name, or a folder of .txt files, in place of the one that is streamed.
        Raises: ValueError for a budget or an arm that the experiment doesn't have, a seed that is there twice, or a corpus
            where none is streamed.
        """
        require_option("budget", budget, self.plans)
        plan = self.plans[budget]()
        known = {arm for comparison in plan.values() for arm in comparison.models}
        if strange := [arm for arm in arms or () if arm not in known]:
            raise ValueError(f"arm must be one of {', '.join(map(repr, sorted(known)))}, got {', '.join(map(repr, strange))}")
        chosen = {name: comparison.only(arms, seeds) for name, comparison in plan.items()}
        if corpus is not None:
            if not any(isinstance(comparison.task, Stream) for comparison in chosen.values()):
                raise ValueError(f"corpus stands in for text that is streamed, and this experiment streams none at budget {budget}, "
                                 f"got {corpus}")
            chosen = {name: replace(comparison, task=replace(comparison.task, corpus=corpus))
                      if isinstance(comparison.task, Stream) else comparison for name, comparison in chosen.items()}
        return {name: replace(comparison, engine=replace(comparison.engine, **engine or {}))
                for name, comparison in chosen.items() if comparison.models}


@dataclass(frozen=True)
class Job:
    """The search and the runs of one arm. All by name, so that another process can do it."""

    experiment: str
    budget: str
    part: str
    arm: str
    seeds: Sequence[int] | None
    engine: Mapping[str, object] | None
    corpus: str | None
    device: str
    folder: Path
    place: str          # among all jobs, to be shown

    def run(self) -> dict:
        if rank() == 0:
            print(f"[{self.place}] {self.experiment}, {self.part}: {self.arm}", file=sys.stderr, flush=True)
        plan = find(self.experiment).plan(self.budget, [self.arm], self.seeds, self.engine, self.corpus)
        return plan[self.part].compare(self.folder / self.part, self.device)


def find(name: str) -> Experiment:
    """Raises: ValueError for a name that no experiment has."""
    from studies import EXPERIMENTS  # which imports this module
    require_option("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]


def run(name: str, budget: str = "cpu", *, arms: Sequence[str] | None = None, seeds: Sequence[int] | None = None,
        device: str = "cpu", jobs: int = 1, engine: Mapping[str, object] | None = None, corpus: str | None = None,
        folder: str | Path = "runs") -> dict:
    """Train what is missing of an experiment, and give what its file holds.

    Arguments:
        name: a key of EXPERIMENTS.
        arms, seeds: to train a part of it.
        device: "cpu" or "cuda".
        jobs: processes side by side on the device, each with an arm of its own; for models that don't fill it alone.
        engine: fields of Engine, in place of the experiment's own.
        corpus: of the text that it streams, in place of its own: a name, or a folder of .txt files.
        folder: for checkpoints, from which the same call goes on after a kill.
    Returns: the content, not yet written: `studies.results.record` does that.
    Raises: before anything is trained, ValueError for a name, budget, arm or corpus that isn't there, seeds that repeat,
        jobs below 1 or more than 1 under torchrun, a batch that the processes can't share, or a folder with checkpoints of
        other code; ImportError or ConnectionError for a corpus that can't be read. FloatingPointError when an arm diverges at every rate.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    if jobs > 1 and world() > 1:
        raise ValueError(f"jobs must be 1 under torchrun, whose processes share each model, got {jobs}")
    experiment = find(name)
    plan = experiment.plan(budget, arms, seeds, engine, corpus)
    for comparison in plan.values():
        require_shares(comparison.budget.batch, comparison.engine)
        comparison.batch()
    place = Path(folder) / f"{name}.{budget}.{device}"
    _require_same_sources(place)
    pairs = [(part, arm) for part, comparison in plan.items() for arm in comparison.models]
    work = [Job(name, budget, part, arm, seeds, engine, corpus, device, place, f"{k}/{len(pairs)}")
            for k, (part, arm) in enumerate(pairs, start=1)]
    results = [job.run() for job in work] if jobs == 1 else side_by_side(work, jobs)
    found = {part: merge([result for job, result in zip(work, results) if job.part == part]) for part in plan}
    return {"command": _command(name, budget, device, arms, seeds, engine, corpus), "device": device, "processes": world(),
            "engine": {part: asdict(comparison.engine) for part, comparison in plan.items()},
            "seconds_not_quoted": sum(part["seconds_not_quoted"] for part in found.values()),
            **experiment.arrange(found, plan, budget)}


def _command(name: str, budget: str, device: str, arms: Sequence[str] | None, seeds: Sequence[int] | None,
             engine: Mapping[str, object] | None, corpus: str | None) -> str:
    """What makes the same numbers again, to be typed."""
    words = ["python", "-m", "studies", name, "--budget", budget]
    for option, values in (("device", [device] if device != "cpu" else None), ("arm", arms), ("seeds", seeds),
                           ("corpus", corpus and [corpus]), *(engine or {}).items()):
        if values is True:
            words.append(f"--{option}")
        elif values:
            words += [f"--{option}", *map(str, values if isinstance(values, Sequence) and not isinstance(values, str) else [values])]
    return shlex.join(words)


def _require_same_sources(folder: Path) -> None:
    """Checkpoints are of the code that made them: another's would pass for a measurement of this one.

    Raises: ValueError for a folder with checkpoints that the package's present sources didn't make.
    """
    marked, now = folder / "sources", sources()
    if rank() == 0:
        folder.mkdir(parents=True, exist_ok=True)
        if not marked.exists() and not next(folder.rglob("*.pt"), None):
            marked.write_text(now)
    mean(torch.zeros(()))  # nobody reads before it is written
    found = marked.read_text() if marked.exists() else "unknown"
    if found != now:
        raise ValueError(f"{folder} holds checkpoints that other code made (sources {found}, now {now}): go on with that code, "
                         "delete the folder, or give another --folder")
