"""Training on from a graft: does a residual that starts as the plain network learn to do more?

Every arm starts with the same weights and the same loss, reads the same tokens in the same order,
and has two rates: one for the weights that were there, one for those of the graft. Both are
searched for each arm at the length that reports, on text that doesn't report, until the best pair
has a worse neighbour on every side.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from statistics import mean

import torch
from torch import Tensor, nn

from geolab.graft import graft, new_parameters
from geolab.probes import composite_gain, operators_by_layer, stream_consensus
from studies.engine.measurement import Measurement
from studies.engine.results import interval
from studies.experiments.real_network import TEXTS, network, short

ARMS = {"plain": ("", {}), "mhc": ("mhc", {}), "hyper": ("hyper", {}), "jpmhc": ("jpmhc", {}),
        # X + V − α k kᵀX with V = β ⊙ F, k = V / |V|, and α = 0 at the start
        "delta, as an addition": ("mgt-projected", {"gate": False, "alpha_init": 0.0}),
        "attention residuals": ("attnres", {"read": "sum", "block": 8})}
MIXING = ("mhc", "hyper", "jpmhc")        # have an H that learns
STEPS, TOKENS, WARMUP = 60, 128, 10       # one window of 128 tokens per step
READINGS = (0, 30, STEPS)                 # steps after which the loss is read
LONGER = 75                               # steps of the plain network, for arms that take longer
SEEDS, SEARCH_SEED = range(5), 100        # of the order of windows
# exponents: the rate is 10^(k/2)
# of the search: old weights, new ones. A rate of 10^-3 for the new ones harms the last three arms
START = dict.fromkeys(ARMS, (-8, -6)) | {
    "delta, as an addition": (-8, -12), "jpmhc": (-8, -10), "attention residuals": (-8, -8)}
DECAY, CLIP = 0.1, 1.0
Rates = tuple[int, int]


def rate(exponent: int) -> float:
    return 10 ** (exponent / 2)


def text(name: str, begin: float, end: float) -> Tensor:
    """(windows, 128): a part of a text, from one share of its tokens to another."""
    ids = network("trained")[1](TEXTS[name].read_text(), return_tensors="pt").input_ids[0]
    part = ids[int(begin * len(ids)):int(end * len(ids))]
    return part[:len(part) // TOKENS * TOKENS].view(-1, TOKENS)


def held_out(part: str) -> Tensor:
    """(16, 128): windows that no arm trains on, to search, to report, or of another text."""
    begin, end, name = {"search": (0.8, 0.9, "jargon"), "report": (0.9, 1.0, "jargon"),
                        "genesis": (0.0, 1.0, "genesis")}[part]
    windows = text(name, begin, end)
    return windows[torch.linspace(0, len(windows) - 1, 16).long()]


@torch.no_grad()
def loss(model: nn.Module, windows: Tensor) -> float:
    """Nats per token, four windows at a time, which needs little memory."""
    return round(mean(model(one, labels=one).loss.item() for one in windows.split(4)), 5)


def train(arm: str, old: int, new: int, seed: int, readings: tuple[int, ...],
          part: str) -> dict:
    """Train one arm, and return its held-out loss after each number of steps in `readings`."""
    residual, options = ARMS[arm]
    torch.manual_seed(seed)
    model = deepcopy(network("trained")[0]).requires_grad_()
    model = graft(model, residual, **options) if residual else model
    added = new_parameters(model) if residual else {"decay": [], "no_decay": []}
    start = {p: p.detach().clone() for group in added.values() for p in group}
    groups = [{"params": [p for p in model.parameters() if p not in start], "lr": rate(old),
               "weight_decay": DECAY},
              {"params": added["decay"], "lr": rate(new), "weight_decay": DECAY},
              {"params": added["no_decay"], "lr": rate(new), "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW([group for group in groups if group["params"]], fused=True)
    warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / WARMUP))
    windows, test = text("jargon", 0, 0.8), held_out(part)
    order = torch.randperm(len(windows), generator=torch.Generator().manual_seed(seed))
    found: dict = {"loss": {}}
    for step in range(readings[-1] + 1):
        if step in readings:
            found["loss"][str(step)] = loss(model, test)
        if step == STEPS and part == "report":
            found["genesis"] = loss(model, held_out("genesis"))
        if step < readings[-1]:
            batch = windows[order[step % len(order)]].unsqueeze(0)
            model(batch, labels=batch).loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            warm.step()
            optimizer.zero_grad()
    return found | (_changes(model, residual, start, test) if part == "report" and start else {})


def _changes(model: nn.Module, residual: str, start: dict[nn.Parameter, Tensor],
             test: Tensor) -> dict:
    """The distances that the graft's weights went, by name, and the loss with them put back."""
    apart: dict[str, list[Tensor]] = {}
    for name, p in model.named_parameters():
        if p in start:
            apart.setdefault(name.rsplit(".", 1)[-1], []).append((p.detach() - start[p]).flatten())
    found: dict = {"moved, rms": {name: short(torch.cat(changes).square().mean().sqrt().item())
                                  for name, changes in apart.items()}}
    if residual in MIXING:
        mix = torch.stack([layer.mix for layer in operators_by_layer(model, test[:2])])
        away = (mix - torch.eye(mix.shape[-1])).abs().amax((-1, -2))
        found |= {"largest |H − I|": short(away.mean().item()),
                  "gain": short(composite_gain(mix).forward[0].item()),
                  "consensus": short(stream_consensus(mix)[-1].mean().item())}
    with torch.no_grad():
        for p, first in start.items():
            p.copy_(first)
    return found | {"loss with the graft's weights put back": loss(model, test)}


def parts(found: Mapping[str, dict]) -> dict[str, Callable[[], dict]]:
    """The runs that the findings so far ask for: a search per arm, then its five orders of text."""
    wanted: dict[str, Callable[[], dict]] = {}
    for arm in ARMS:
        missing, best = search(arm, found)
        wanted |= {f"search/{arm}/{old}/{new}": partial(train, arm, old, new, SEARCH_SEED, (STEPS,),
                                                        "search") for old, new in missing}
        if best:
            readings = READINGS if ARMS[arm][0] else (*READINGS, LONGER)
            wanted |= {f"report/{arm}/{seed}": partial(train, arm, *best, seed, readings, "report")
                       for seed in SEEDS}
    return wanted


def search(arm: str, found: Mapping[str, dict]) -> tuple[list[Rates], Rates | None]:
    """The runs that the search of an arm's two rates lacks, or its best rates if it lacks none.

    From a start it goes to the best of what it knows, until all neighbours of that are worse.
    """
    losses = searched(arm, found)
    old, new = min(losses, key=losses.__getitem__, default=START[arm])
    around = [(old - 1, new), (old, new), (old + 1, new)]
    if ARMS[arm][0]:
        around += [(old, new - 1), (old, new + 1)]
    missing = [rates for rates in around if rates not in losses]
    return missing, None if missing else (old, new)


def searched(arm: str, found: Mapping[str, dict]) -> dict[Rates, float]:
    """{rates: the loss at the end} of an arm's search, as far as it went."""
    return {_rates(key): run["loss"][str(STEPS)]
            for key, run in found.items() if key.startswith(f"search/{arm}/")}


def _rates(key: str) -> Rates:
    _, _, old, new = key.split("/")
    return int(old), int(new)


def arrange(found: dict[str, dict]) -> dict:
    """Per arm: its search, its rates, and the mean of its five orders with the 95 % interval."""
    arms = {}
    for arm in ARMS:
        best = search(arm, found)[1]
        runs = [found[f"report/{arm}/{seed}"] for seed in SEEDS]
        arms[arm] = {
            "search": {f"{old}/{new}": value
                       for (old, new), value in searched(arm, found).items()},
            "rate of the old weights": rate(best[0]), "rate of the new weights": rate(best[1]),
            "loss": {step: [run["loss"][step] for run in runs] for step in runs[0]["loss"]},
            **{name: [run[name] for run in runs] for name in runs[0] if name != "loss"}}
    last = str(STEPS)
    against = {arm: _interval([a - b for a, b in zip(rows["loss"][last],
                                                     arms["plain"]["loss"][last], strict=True)])
               for arm, rows in arms.items() if arm != "plain"}
    return {"network": network("trained")[2], "steps": STEPS, "tokens per step": TOKENS,
            "seeds": list(SEEDS), "arms": arms, "loss over the plain network": against}


def _interval(values: list[float]) -> dict[str, float]:
    middle, half = interval(values, together=len(ARMS) - 1)   # all arms at once with 95 %
    return {"mean": round(middle, 5), "half width": round(half, 5)}


STUDY = Measurement("real_training", "Does a real network that is trained on with a grafted "
                    "residual learn more than the plain one?", parts, arrange, __file__)
