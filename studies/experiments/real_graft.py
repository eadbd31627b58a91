"""The cost of a graft in a real network: its loss before and after, a training step, a new token.

Times are ratios of the grafted network to the plain one, which run in turn in one process, so that
a busy machine slows both. A step is forward and backward of 2 windows of 128 tokens, without an
optimizer. A new token is computed with a cache of keys, for one sequence.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from geolab.graft import graft, new_parameters
from studies.engine.measurement import Measurement
from studies.experiments.real_network import network, windows

GRAFTS = {"mhc, 2 streams": ("mhc", {"streams": 2}), "mhc, 4 streams": ("mhc", {"streams": 4}),
          "hyper, 4 streams": ("hyper", {"streams": 4}), "jpmhc, 4 streams": ("jpmhc", {}),
          "mgt, without gate": ("mgt", {"gate": False})}
ROUNDS, NEW_TOKENS = 7, 16


def texts() -> Tensor:
    """(2, 128): the first window of two texts."""
    found = windows()
    return torch.cat([found["genesis 0"], found["jargon 0"]])[:, :128]


def cost(residual: str, options: dict) -> dict:
    """One residual grafted: losses, logits, new weights, and the ratios of every round."""
    torch.manual_seed(0)
    plain = deepcopy(network("trained")[0]).requires_grad_()
    grafted = graft(deepcopy(plain), residual, **options)
    tokens = texts()
    with torch.no_grad():
        before, after = (model(tokens, labels=tokens) for model in (plain, grafted))
    found = {"loss before": before.loss.item(), "loss after": after.loss.item(),
             "largest change of a logit": float((after.logits - before.logits).abs().max()),
             "new weights": sum(p.numel() for group in new_parameters(grafted).values()
                                for p in group)}
    for name, run in (("step", _step), ("new token", _generate)):
        run(plain, tokens), run(grafted, tokens)   # the first time is another one
        ratios = []
        for _ in range(ROUNDS):
            first, second = _seconds(run, plain, tokens), _seconds(run, grafted, tokens)
            ratios.append(second / first)
        found |= {f"{name}, ratio": float(f"{median(ratios):.4g}"),
                  f"{name}, least and most": [float(f"{x:.4g}") for x in
                                              (min(ratios), max(ratios))]}
    return found


def _step(model: Any, tokens: Tensor) -> None:
    model(tokens, labels=tokens).loss.backward()
    model.zero_grad(set_to_none=True)


@torch.inference_mode()
def _generate(model: Any, tokens: Tensor) -> None:
    first = tokens[:1, :32]
    model.generate(first, attention_mask=torch.ones_like(first), min_new_tokens=NEW_TOKENS,
                   max_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=0)


def _seconds(run: Callable, model: Any, tokens: Tensor) -> float:
    start = perf_counter()
    run(model, tokens)
    return perf_counter() - start


def parts(_: Mapping[str, dict]) -> dict[str, Callable[[], dict]]:
    return {name: partial(cost, *how) for name, how in GRAFTS.items()}


def arrange(found: dict[str, dict]) -> dict:
    return {"network": network("trained")[2], "rounds": ROUNDS, "grafts": found}


STUDY = Measurement("real_graft", "What does a graft change and cost in a real network?", parts,
                    arrange, __file__)
