"""Deep Delta Learning's medium models, of 353 million parameters, with the controls of `delta`.

The text, the budget and the protocol are those of `delta` at the paper's size.
"""

from collections.abc import Mapping
from dataclasses import asdict

from geolab.models import TransformerConfig
from geolab.tasks import Task
from studies.claims.configurations import DDL_PUBLISHED, DDL_SIZES, DDL_TRAINING
from studies.engine.arm import Arm
from studies.engine.run import Study
from studies.experiments import delta

CONFIG = TransformerConfig.ddl(*DDL_SIZES["medium"][:3], max_length=DDL_TRAINING["length"])


def paper() -> list[Arm]:
    small = delta.paper()[0]
    return delta.on("text", small.task, CONFIG, delta.with_controls(DDL_PUBLISHED), small.budget,
                    small.protocol, engine=small.engine)


def arrange(found: dict[str, dict], tasks: Mapping[str, Task], size: str) -> dict:
    return delta.arrange(found, tasks, size) | {"transformer": asdict(CONFIG)}


STUDY = Study("delta_medium", "Do the medium models of Deep Delta Learning gain by erasing?",
              {"paper": paper}, arrange)
