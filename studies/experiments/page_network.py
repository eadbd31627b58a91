"""Five networks that are small enough for a page, one for each residual that it shows.

They are made to be looked into and typed to. One run of each says nothing about which residual is
better: chapters 6, 7 and 11 compare them, over many seeds.

    python -m studies page_network                  trains them
    python -m studies.experiments.page_network      writes results/page_network/network_*.js
"""

import argparse
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from geolab.models import TransformerConfig
from geolab.tasks import Task
from geolab.training import Budget
from studies.engine.arm import Arm, comparison
from studies.engine.protocol import Protocol
from studies.engine.results import FOLDER, path_of
from studies.engine.run import Study
from studies.experiments.page_model import Pieces, build
from studies.experiments.page_weights import measure, write

TASK = Pieces()
CONFIG = TransformerConfig.ddl(width=112, layers=4, heads=4, max_length=TASK.context)
RESIDUALS = {"additive": {}, "delta": {}, "mhc": {"start": "published"}, "mgt": {}, "attnres": {}}


def million(task: Pieces = TASK, config: TransformerConfig = CONFIG,
            budget: Budget = Budget(steps=5000, batch=8, evaluate_every=1000)) -> list[Arm]:
    """About a million weights; two and a half million pieces, twice the text.

    A rate is searched for each at a quarter of the length, on a seed that isn't reported.
    """
    models = {name: partial(build, config, task.vocabulary, name, options)
              for name, options in RESIDUALS.items()}
    return comparison("text", models, task, budget, Protocol(
        rates=(2e-3, 5e-3, 1e-2), warmups=(0.1,), search_seeds=(100,),
        search_steps=max(1, budget.steps // 4), seeds=(0,), widen=False, variations=()),
        measure=partial(measure, task))


def arrange(found: dict[str, dict], tasks: Mapping[str, Task], size: str) -> dict:
    """The runs, with the losses of trivial predictors and the length of a piece."""
    task = tasks["text"]
    held_out = task.text("validation").encode()
    return found["text"] | {"baselines": task.baselines(), "floor": task.bayes_floor(),
                            "bytes per piece": round(len(held_out) / len(task.tokens("validation")),
                                                     4)}


STUDY = Study("page_network", "Which small networks can a reader look into, in a page of this "
              "book?", {"cpu": million}, arrange, compares=False)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the weights of a stored result for a page.")
    parser.add_argument("--result", type=Path, default=path_of(STUDY.name))
    parser.add_argument("--folder", type=Path, default=Path("runs"), help="of the checkpoints")
    parser.add_argument("--out", type=Path, default=FOLDER / STUDY.name)
    given = parser.parse_args()
    for file in write(STUDY, given.result, given.folder, given.out):
        print(f"{file}: {file.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
