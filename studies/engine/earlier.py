"""Reuse of the arms that a file already holds, which aren't trained again.

Checkpoints stay on the machine that made them, but a result file can be copied. So a study that
began on another machine goes on from its file.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

from geolab import distributed
from studies.engine.arm import Arm

KEPT = ("commit", "sources", "trained by", "processor", "device", "threads")


def key_of(arm: Arm) -> str:
    """The name of an arm in a file."""
    return f"{arm.part}: {arm.name}"


def budget_of(arm: Arm) -> dict:
    """The budget of a comparison in the form that its file has."""
    searched = {"lr": "by search"} if arm.protocol.searches else {"lr": arm.protocol.rates[0]}
    if arm.protocol.warmups:
        searched["warmup"] = "by search"
    return asdict(arm.budget) | searched


def take(arms: Sequence[Arm], content: Mapping | None, now: str,
         reason: str = "") -> tuple[dict[str, tuple[Arm, dict]], dict]:
    """Return the finished arms of a file, and the new file's note about them.

    Arguments:
        content: of the file; None without a file.
        now: the hash of the code that trains, by `sources.of`.
        reason: why runs of other code may be used.
    Returns: two dictionaries. The first has, by `key_of`, an arm with its pace in the file, and the
        outcome that `arm.train` gave. The second says under "earlier" where each arm was made; it
        is empty if no arm is taken.
    Raises: ValueError for a comparison of another task, budget, protocol or engine, for arms of the
        file that would be lost, and for runs of other code without a reason.
    """
    kept = {key_of(arm) for arm in arms}
    lost = [name for part, one in (content or {}).items() if isinstance(one, Mapping)
            for name in (f"{part}: {arm}" for arm in one.get("parameters", ())) if name not in kept]
    if lost:
        raise ValueError(f"arm must name all arms of the file, which also has {'; '.join(lost)}: "
                         "leave --arm out, or give --out another file")
    found = {key_of(arm): (replace(arm, pace=content[arm.part]["pace"][arm.name]),
                           _outcome(arm, content[arm.part]))
             for arm in arms if content and _has(content, arm)}
    if content is None or not found:
        return {}, {}
    before = content.get("trained by", "unknown")
    if before != now and not reason:
        raise ValueError(
            f"the file has runs that other code made (trained by {before}, now {now}): go on with "
            "that code, give --out another file, or say with --force REASON why they may be used")
    if distributed.rank() == 0:
        print(f"taken from the file: {'; '.join(found)}", file=sys.stderr, flush=True)
    older = content.get("earlier", [])
    known = {name for one in older for name in one["arms"]}
    made = {"arms": [name for name in found if name not in known],
            **{key: content[key] for key in KEPT if key in content},
            **({"used because": reason} if before != now else {})}
    return found, {"earlier": [*older, *([made] if made["arms"] else [])]}


def grows(arms: Sequence[Arm], content: Mapping) -> bool:
    """Return whether a file lacks runs: it says so, or it was made before the study had one of
    these comparisons, or its comparisons lack one of these arms.

    A comparison that was made by another protocol lacks none: it would have to be made again.
    """
    def lacks(arm: Arm) -> bool:
        if arm.part not in content.get("engine", {arm.part}):
            return True
        one = content.get(arm.part, {})
        return "protocol" in one and arm.name not in one["parameters"] \
            and not any(stored != value for _, stored, value in _settings(content, arm))

    return bool(content.get("unfinished")) or any(map(lacks, arms))


def _has(content: Mapping, arm: Arm) -> bool:
    """Return whether a file holds all runs of an arm. Raises: ValueError for another comparison."""
    one = content.get(arm.part, {})
    if "protocol" not in one or arm.name not in one["parameters"] \
            or key_of(arm) in content.get("unfinished", ()):
        return False
    for key, stored, value in _settings(content, arm):
        if stored != value:
            raise ValueError(f"{arm.part} must have the file's {key} {stored}, got {value}")
    return True


def _settings(content: Mapping, arm: Arm) -> Iterator[tuple[str, object, object]]:
    """Yield the settings of an arm's comparison: their names, the file's and the arm's."""
    stored = {"selects": None, **content[arm.part], "engine": content["engine"][arm.part]}
    for key, value in (("task", repr(arm.task)), ("selects", arm.selects and repr(arm.selects)),
                       ("budget", budget_of(arm)), ("protocol", asdict(arm.protocol)),
                       ("engine", asdict(arm.engine))):
        yield key, stored[key], json.loads(json.dumps(value))


def _outcome(arm: Arm, one: Mapping) -> dict:
    def of_arm(runs: Sequence[dict]) -> list[dict]:
        return [run for run in runs if run["model"] == arm.name]

    runs = of_arm(one["runs"])
    return {"parameters": one["parameters"][arm.name], "search": of_arm(one["search"]["runs"]),
            "best": one["search"]["best"][arm.name],
            "next best": one["search"]["next best"][arm.name], "runs": runs,
            "sensitivity": {name: of_arm(some) for name, some in one["sensitivity"].items()},
            "unfinished": 0,
            "seconds_not_quoted": sum(run.get("seconds_not_quoted", 0) for run in runs)}
