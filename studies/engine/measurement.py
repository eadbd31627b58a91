"""A study that trains nothing: named measurements, each kept as soon as it is made.

    Measurement = a question, and a function that gives {key: its measurement}
    file        = arrange({key: its finding})
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from geolab.files import whole
from studies.engine.closure import closure
from studies.engine.refusal import asked
from studies.engine.results import code_hash
from studies.engine.sources import require_same


@dataclass(frozen=True)
class Measurement:
    """A study that `python -m studies` makes without training.

    Arguments:
        name: of the study; its file is results/NAME.cpu.json.
        question: one line.
        parts: {key: its finding}, as far as found -> {key: a function that measures it and returns
            a value for JSON}. It is asked again until it names nothing new, so that a measurement
            may depend on others.
        arrange: {key: its finding} -> the content of the file.
        file: of the code that measures. Findings of other code are refused.
    """

    name: str
    question: str
    parts: Callable[[Mapping[str, dict]], Mapping[str, Callable[[], dict]]]
    arrange: Callable[[dict[str, dict]], dict]
    file: str


def measure(study: Measurement, folder: str | Path = "runs", reason: str = "", *,
            so_far: bool = False, earlier: Mapping | None = None) -> dict:
    """Make the missing measurements, and return the content of the study's file.

    Arguments:
        folder: for findings, from which the same call goes on after an interruption.
        reason: for using findings of other code; the file keeps it.
        so_far: measure nothing; take what is found. The content then counts what is "unfinished",
            and has the findings by their keys.
        earlier: such a content, made on this or another machine, to go on from.
    Raises: Refused for a folder of other code, or if the network isn't on this machine.
    """
    place, code = Path(folder) / study.name, code_hash(closure([Path(study.file)]))
    with asked():
        forced = require_same(place, code, reason)
        if earlier and earlier["measured by"] != code and not reason:
            raise ValueError(f"the findings of {study.name} so far are of other code: give --force "
                             "a reason to go on from them, or delete their file")
        missing = dict(study.parts({}))
    known = earlier["found"] if earlier else {}
    found: dict[str, dict] = {}
    while missing:
        before = len(found)
        for key, part in missing.items() if so_far else tqdm(missing.items(), study.name):
            kept = place / f"{key.replace('/', '.')}.json"
            if key in known:
                found[key] = known[key]
            elif kept.exists() or not so_far:
                if not kept.exists():
                    finding = json.dumps(part())
                    with whole(kept) as partial:
                        partial.write_text(finding)
                found[key] = json.loads(kept.read_text())
        missing = {key: part for key, part in study.parts(found).items() if key not in found}
        if so_far and len(found) == before:
            break
    made = {"unfinished": len(missing), "found": found} if missing else study.arrange(found)
    return {"command": f"python -m studies {study.name}", "device": "cpu", "measured by": code,
            **forced, **made}
