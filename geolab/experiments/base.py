"""An experiment as data: which arms, on which task, at which budgets.

    plan(budget) = {comparison: arms × seeds on one task}
    file         = arrange({comparison: what was found})

`run` trains what is missing and gives the content of the file; `python -m geolab.run` is its command.
"""

import multiprocessing
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import torch
from torch import nn

from geolab.compare import Measure, compare, merge
from geolab.distributed import Engine, rank, world
from geolab.residuals.base import require_option
from geolab.tasks import Task
from geolab.training import Budget

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
        """Some of it. An arm keeps its search, with the seeds that the whole comparison searches with."""
        chosen = {name: build for name, build in self.models.items() if arms is None or name in arms}
        return replace(self, models=chosen, seeds=self.seeds if seeds is None else seeds, search_seeds=self.search_seeds or self.seeds)

    def compare(self, folder: Path, device: str) -> dict:
        return compare(**{field.name: getattr(self, field.name) for field in fields(self)}, folder=folder, device=device)


Plan = dict[str, Comparison]


def as_found(found: dict[str, dict], plan: Plan, budget: str) -> dict:
    """One entry a comparison."""
    return found


@dataclass(frozen=True)
class Experiment:
    """What `python -m geolab.run` can do.

    Arguments:
        question: in a line.
        plans: budget -> a function that builds its Plan; reading a corpus waits until then.
        arrange: (found, plan, budget) -> the content of the file, besides its provenance.
    """

    question: str
    plans: Mapping[str, Callable[[], Plan]]
    arrange: Callable[[dict[str, dict], Plan, str], dict] = as_found

    def plan(self, budget: str, arms: Sequence[str] | None = None, seeds: Sequence[int] | None = None,
             engine: Mapping[str, object] | None = None) -> Plan:
        """The comparisons at a budget, or of those with one of `arms` their part with these arms and seeds.

        Arguments:
            engine: fields of Engine, in place of the comparisons' own.
        Raises: ValueError for a budget or an arm that the experiment doesn't have.
        """
        require_option("budget", budget, self.plans)
        plan = self.plans[budget]()
        known = {arm for comparison in plan.values() for arm in comparison.models}
        if strange := [arm for arm in arms or () if arm not in known]:
            raise ValueError(f"arm must be one of {', '.join(map(repr, sorted(known)))}, got {', '.join(map(repr, strange))}")
        chosen = {name: comparison.only(arms, seeds) for name, comparison in plan.items()}
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
    device: str
    folder: Path
    place: str          # among all jobs, to be shown

    def run(self) -> dict:
        if rank() == 0:
            print(f"[{self.place}] {self.experiment}, {self.part}: {self.arm}", file=sys.stderr, flush=True)
        plan = find(self.experiment).plan(self.budget, [self.arm], self.seeds, self.engine)
        return plan[self.part].compare(self.folder / self.part, self.device)


def find(name: str) -> Experiment:
    """Raises: ValueError for a name that no experiment has."""
    from geolab.experiments import EXPERIMENTS  # which imports this module
    require_option("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]


def run(name: str, budget: str = "cpu", *, arms: Sequence[str] | None = None, seeds: Sequence[int] | None = None,
        device: str = "cpu", jobs: int = 1, engine: Mapping[str, object] | None = None, folder: str | Path = "runs") -> dict:
    """Train what is missing of an experiment, and give what its file holds.

    Arguments:
        name: a key of EXPERIMENTS.
        arms, seeds: to train a part of it.
        device: "cpu" or "cuda".
        jobs: processes side by side on the device, each with an arm of its own; for models that don't fill it alone.
        engine: fields of Engine, in place of the experiment's own.
        folder: for checkpoints, from which the same call goes on after a kill.
    Returns: the content, not yet written: `geolab.results.record` does that.
    Raises: ValueError for a name, budget or arm that isn't there, or jobs below 1.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    experiment = find(name)
    plan = experiment.plan(budget, arms, seeds, engine)
    pairs = [(part, arm) for part, comparison in plan.items() for arm in comparison.models]
    work = [Job(name, budget, part, arm, seeds, engine, device, Path(folder) / f"{name}.{budget}.{device}", f"{k}/{len(pairs)}")
            for k, (part, arm) in enumerate(pairs, start=1)]
    results = [job.run() for job in work] if jobs == 1 else _side_by_side(work, jobs)
    found = {part: merge([result for job, result in zip(work, results) if job.part == part]) for part in plan}
    return {"command": f"python -m geolab.run {name} --budget {budget}", "device": device, "processes": world(),
            "engine": {part: asdict(comparison.engine) for part, comparison in plan.items()},
            **experiment.arrange(found, plan, budget)}


def _side_by_side(work: list[Job], jobs: int) -> list[dict]:
    """By `jobs` processes that share the CPU's threads. An interruption reaches each of them, and each saves."""
    threads = max(1, torch.get_num_threads() // jobs)
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), torch.set_num_threads, (threads,)) as pool:
        futures = [pool.submit(job.run) for job in work]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()  # `fit` saves after its step
            raise
