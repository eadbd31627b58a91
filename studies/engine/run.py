"""A study as data, and the function that makes the content of its file.

    Study = a question, and for each size a list of arms
    file  = arrange({part: its runs}, {part: its task}, size)

`run_study` trains what is missing and gives the content of the file; `python -m studies` is its
command.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from geolab import distributed
from geolab.checks import require_count, require_option
from geolab.tasks import Task, corpora
from geolab.tasks.text import CORPORA, Corpus
from geolab.training import require_shares
from studies.engine import sources
from studies.engine.arm import Arm, Unfinished, train
from studies.engine.earlier import budget_of, key_of, take
from studies.engine.jobs import side_by_side
from studies.engine.pace import paced
from studies.engine.protocol import Protocol, Setting, at
from studies.engine.refusal import Refused, asked

SIZES = ("cpu", "gpu", "paper")
Arrange = Callable[[dict[str, dict], Mapping[str, Task], str], dict]


def as_found(found: dict[str, dict], tasks: Mapping[str, Task], size: str) -> dict:
    """One entry per comparison."""
    return found


@dataclass(frozen=True)
class Study:
    """A study that `python -m studies` can make.

    Arguments:
        name: of the study; its files are results/NAME.SIZE.json.
        question: one line.
        sizes: size -> a function that gives the arms; a corpus is not read before it is called.
        arrange: (runs by part, task by part, size) -> the content of the file.
        compares: whether its losses say which arm is better. Without that one seed is enough.
    """

    name: str
    question: str
    sizes: Mapping[str, Callable[[], list[Arm]]]
    arrange: Arrange = as_found
    compares: bool = True

    def arms(self, size: str = "cpu") -> list[Arm]:
        """Return all arms of a size. Raises: Refused for a size that the study doesn't have."""
        with asked():
            require_option("size", size, self.sizes)
        return self.sizes[size]()


@dataclass(frozen=True)
class Part:
    """A selection of a study's arms and seeds, with the engine that computes them.

    Arguments:
        arms: names of the arms; None takes all.
        seeds: in place of the arms' own. A search keeps the seeds that the whole study has for it.
        engine: fields of Engine in place of the arms' own.
        corpus: replaces the text of all tasks on text: a name, or a folder of .txt files.
        setting: a learning rate and a warm-up for all arms, in place of their search; nothing is
            varied then.
    """

    arms: Sequence[str] | None = None
    seeds: Sequence[int] | None = None
    engine: Mapping[str, object] | None = None
    corpus: str | None = None
    setting: Setting | None = None

    def of(self, study: Study, size: str) -> list[Arm]:
        """Return the selected arms of a study, with the selection's seeds, engine and setting.

        Raises: Refused for a size or an arm that the study doesn't have, seeds that repeat, a
            corpus where no task is on text, one that isn't on this machine, and one for an arm that
            measures its models on a text of its own.
        """
        arms = study.arms(size)
        if self.seeds is None and not any((self.arms, self.engine, self.corpus, self.setting)):
            return arms
        known = {arm.name for arm in arms}
        with asked():
            for name in self.arms or ():
                require_option("arm", name, sorted(known))
            if self.corpus is not None and not any(isinstance(arm.task, Corpus) for arm in arms):
                raise ValueError("corpus replaces the text of tasks on text, and this study has "
                                 f"none at size {size}, got {self.corpus}")
            return [self._changed(arm) for arm in arms
                    if self.arms is None or arm.name in self.arms]

    def _changed(self, arm: Arm) -> Arm:
        arm = replace(arm, engine=replace(arm.engine, **self.engine or {}))
        if self.seeds is not None:
            few = [seed for seed in arm.protocol.few if seed in self.seeds]
            arm = replace(arm, protocol=replace(arm.protocol, seeds=self.seeds, few=few))
        if self.setting is not None:
            arm = replace(arm, budget=at(self.setting, arm.budget),
                          protocol=Protocol.stated(self.setting.lr, arm.protocol.seeds))
        if self.corpus is not None and isinstance(arm.task, Corpus):
            name = self.corpus
            folder = str(corpora.folder(name)) if name in corpora.PUBLISHED else name
            task = replace(arm.task, corpus=folder)  # type: ignore[bad-specialization]
            arm = on_task(arm, task)
            if arm.selects is not None:
                selects = replace(arm.selects, corpus=folder)  # type: ignore[bad-specialization]
                arm = replace(arm, selects=selects)
        return arm


def on_task(arm: Arm, task: Task) -> Arm:
    """Return the arm on another task, on which it measures its models too.

    Raises: ValueError for an arm whose measurement doesn't take the task as an argument.
    """
    measures = {}
    for name in ("measure", "untrained"):
        of = getattr(arm, name)
        if of is not None and not (isinstance(of, partial) and arm.task in of.args):
            raise ValueError(f"corpus must stay as it is for arm {arm.name!r}, which measures its "
                             f"models on a text that its study names, got {task!r}")
        measures[name] = of and partial(of.func, *(
            task if one == arm.task else one for one in of.args), **of.keywords)
    return replace(arm, task=task, **measures)


def texts(arms: Sequence[Arm]) -> dict[str, dict]:
    """Return the name of the text that each part's task reads, and its SHA-256 if at hand."""
    found = {}
    for arm in arms:
        if isinstance(arm.task, Corpus) and arm.part not in found:
            name = arm.task.corpus
            at_hand = name not in CORPORA
            found[arm.part] = {"corpus": Path(name).name if at_hand else name} | (
                {"sha256": corpora.sha256(name)} if at_hand else {})
    return found


def run_study(study: Study, size: str = "cpu", part: Part = Part(), *, device: str = "cpu",
              jobs: int = 1, folder: str | Path = "runs", reason: str = "",
              so_far: bool = False, earlier: Mapping | None = None) -> dict:
    """Train the missing runs of a study, and return the content of its file.

    Arguments:
        part: the arms, seeds and engine; all arms by default.
        device: "cpu" or "cuda".
        jobs: processes side by side on the device, each with an arm of its own, for models that
            don't fill it alone.
        folder: for checkpoints, from which the same call goes on after an interruption.
        reason: for using checkpoints of other code; the file keeps it.
        so_far: train nothing; take the finished runs. "unfinished" counts the others by arm.
        earlier: the content of a file whose finished arms are taken, and not trained again.
    Returns: the content, not yet written: `studies.engine.results.record` does that.
    Raises: Refused, a ValueError, before anything is trained: for an unknown size or arm, a corpus
        that can't be read, repeated seeds, jobs below 1 or above 1 under torchrun, a batch that the
        processes can't share, a folder with checkpoints of other code, and an earlier file of other
        code or of another comparison; with `so_far`, also if no run is finished.
        FloatingPointError if an arm diverges at every rate.
    """
    arms = part.of(study, size)
    place, code = Path(folder) / f"{study.name}.{size}.{device}", sources.of(arms)
    with asked():
        require_count("jobs", jobs)
        if jobs > 1 and distributed.world() > 1:
            raise ValueError("jobs must be 1 under torchrun, whose processes share each model, "
                             f"got {jobs}")
        for arm in {arm.part: arm for arm in arms}.values():
            require_shares(arm.budget.batch, arm.engine)
            if isinstance(arm.task, Corpus):
                arm.batch()
        done, told = take(arms, earlier, code, reason)
        forced = sources.require_same(place, code, reason)
    rest = [arm for arm in arms if key_of(arm) not in done]
    rest = paced(rest, partial(study.arms, size), place, device)
    missing: dict[str, int] = {}
    if so_far:
        trained, missing = finished(rest, place, device)
    else:
        names = [f"{study.name}, {arm.part}: {arm.name}" for arm in rest]
        outcomes = side_by_side(train, [(arm, place, device) for arm in rest], jobs, names)
        trained = [*zip(rest, outcomes, strict=True)]
    done |= {key_of(arm): (arm, outcome) for arm, outcome in trained}
    if not done:
        raise Refused(f"{place} has no finished run yet")
    found = by_part(*zip(*(done[key] for key in map(key_of, arms) if key in done), strict=True))
    return {"command": command(study, size, device, part), "device": device,
            "processes": distributed.world(), "trained by": code, **forced, **told,
            "engine": {arm.part: asdict(arm.engine) for arm in arms}, "texts": texts(arms),
            "unfinished": missing,
            "seconds_not_quoted": sum(one["seconds_not_quoted"] for one in found.values()),
            **study.arrange(found, {arm.part: arm.task for arm in arms}, size)}


def finished(arms: Sequence[Arm], place: Path,
             device: str) -> tuple[list[tuple[Arm, dict]], dict[str, int]]:
    """Return the arms with a finished run, their outcomes, and the missing runs by arm."""
    found, missing = [], {}
    for arm in arms:
        try:
            outcome = train(arm, place, device, so_far=True)
        except Unfinished:
            outcome = {"runs": [], "unfinished": len(arm.protocol.seeds)}
        if outcome["runs"]:
            found.append((arm, outcome))
        if outcome["unfinished"]:
            missing[key_of(arm)] = outcome["unfinished"]
    return found, missing


def by_part(arms: Sequence[Arm], outcomes: Sequence[dict]) -> dict[str, dict]:
    """Return an entry per comparison: its shared settings, and all arms' searches and runs."""
    found: dict[str, dict] = {}
    for arm, outcome in zip(arms, outcomes, strict=True):
        part = found.setdefault(arm.part, {
            "task": repr(arm.task), "selects": arm.selects and repr(arm.selects),
            "budget": budget_of(arm),
            "protocol": asdict(arm.protocol), "seeds": list(arm.protocol.seeds),
            "parameters": {}, "pace": {}, "search": {"best": {}, "next best": {}, "runs": []},
            "runs": [], "sensitivity": {name: [] for name in arm.protocol.variations},
            "seconds_not_quoted": 0})
        part["parameters"][arm.name] = outcome["parameters"]
        part["pace"][arm.name] = arm.pace
        for which in ("best", "next best"):
            part["search"][which][arm.name] = outcome[which]
        part["search"]["runs"] += outcome["search"]
        part["runs"] += outcome["runs"]
        for name, runs in outcome["sensitivity"].items():
            part["sensitivity"][name] += runs
        part["seconds_not_quoted"] += outcome["seconds_not_quoted"]
    return found


def command(study: Study, size: str, device: str, part: Part) -> str:
    """The command that makes the same numbers again."""
    words = ["python", "-m", "studies", study.name, "--size", size]
    if device != "cpu":
        words += ["--device", device]
    for option, values in (("arm", part.arms), ("seeds", part.seeds)):
        if values:
            words += [f"--{option}", *map(str, values)]
    setting = part.setting._asdict() if part.setting else {}
    for option, value in {"corpus": part.corpus, **setting, **(part.engine or {})}.items():
        if value:
            words += [f"--{option}"] if value is True else [f"--{option}", str(value)]
    return shlex.join(words)
