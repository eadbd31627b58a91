"""The geometric Transformers on 4 × 4 Sudoku and on two moons, with and without penalties that ask a diagram to commute.

In the small runs every model is tried at both rates with the first seed, in full, on one task: puzzles split by grid. The larger
rate won for every one of them, and is the only one for what follows.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import combinations, permutations

import torch
from torch import Tensor, nn

from geolab.diagrammatic import Diagram, agreement, diagrammatic_loss, square
from studies.runner.study import Comparison, Experiment, Plan
from geolab.models import GeometricConfig, GeometricTransformer, PointModel, RelationGraph
from geolab.models.geometric import make_step
from geolab.tasks import Moons, Pairs, Sudoku
from geolab.tasks.sudoku import triples, units
from geolab.training import Budget

CONFIGS = {"cpu": GeometricConfig(width=32, hidden=128, layers=2, heads=4, max_length=16),
           "paper": GeometricConfig(width=64, hidden=256, layers=2, heads=4, max_length=16)}
RATES = (3e-3, 1e-2)
LAMBDAS, SUGGESTED, TRUE = (5e-3, 5e-1), 5e-2, 0.1   # weights of the penalties: more of the published one, its own, and of true ones
TRIPLES = triples()


def weighted(weight: float, penalty: Callable, model: PointModel, x: Tensor, h: Tensor) -> Tensor:
    return weight * penalty(model, x, h)


# ------------------------------------------------------------ Sudoku

def unit_graph() -> RelationGraph:
    """Cells joined where they share a row (relation 0), a column (1) or a block (2)."""
    joined = [(a, b, k // 4) for k, unit in enumerate(units().tolist()) for a in unit for b in unit if a != b]
    *edges, relations = torch.tensor(joined).T
    return RelationGraph(torch.stack(edges), relations)


KNOWN = {"positions": "learned"}
ARMS = {"Transformer": ("transformer", {}), "Transformer, positions": ("transformer", KNOWN),
        "GT-Lite": ("lite", {}), "GT-Lite, positions": ("lite", KNOWN),
        "GT-Full": ("full", {}), "GT-Full, units": ("full", {"relations": 3}), "GT-MoE": ("moe", {})}
FEW = ("Transformer, positions", "GT-Full, units")


def published_penalty(model: PointModel, x: Tensor, h: Tensor) -> Tensor:
    """As a course notebook of the lecture has it: a mean over puzzles and triples, a sum over cells and features."""
    return agreement(h, TRIPLES) / len(TRIPLES)


def permute_digits(x: Tensor, order: Tensor) -> Tensor:
    """Rename the given digits; a blank stays what it is."""
    return torch.cat([torch.where(x[..., 4:] == 1, x[..., order], x[..., :4]), x[..., 4:]], dim=-1)


def digits_square(model: PointModel, x: Tensor, h: Tensor) -> Tensor:
    """Renaming the digits of a puzzle renames those of its solution: a diagram that holds for the task."""
    order = torch.randperm(4).to(x.device)
    return Diagram((model.states, model.write, lambda z: z[..., order]),
                   (lambda x: permute_digits(x, order), model.states, model.write), name="digits").mismatch(x)


@dataclass(frozen=True)
class Renamed(Sudoku):
    """All 24 renamings of every training puzzle: the same fact as `digits_square`, given as data."""

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        x, y = super().sample(split, seed)
        if split == "validation":
            return Pairs(x, y)
        orders = [torch.tensor(order) for order in permutations(range(4))]
        return Pairs(torch.cat([permute_digits(x, order) for order in orders]), torch.cat([order.argsort()[y] for order in orders]))


def solver(config: GeometricConfig, kind: str, options: dict, weight: float = 0.0, penalty: Callable = published_penalty) -> PointModel:
    reads = (unit_graph(),) if options.get("relations") else ()
    added = partial(weighted, weight, penalty) if weight else None
    return PointModel(GeometricTransformer(replace(config, **options), kind), 5, 4, reads, added)


@torch.no_grad()
def scores(task: Sudoku, model: PointModel) -> dict:
    """Accuracies; how far the cells of a triple differ, as a share of the squared norm; the readout's norm."""
    model.eval()
    (x, y), (seen, known) = task.sample("validation"), Sudoku.sample(task, "train")
    h, prediction = model.states(x), model(x)
    spread = agreement(h, TRIPLES) / (TRIPLES.numel() * h.square().sum(-1).mean())
    found = {"all cells": task.accuracy(prediction, y), "blanks": task.accuracy(prediction, y, x),
             "training blanks": task.accuracy(model(seen), known, seen), "solved": (prediction.argmax(-1) == y).all(-1).double().mean(),
             "spread": spread, "state norm": h.norm(dim=-1).mean(), "readout norm": torch.linalg.matrix_norm(model.write.weight, 2)}
    return {name: float(f"{value.item():.5g}") for name, value in found.items()}


def solve(task: Sudoku, config: GeometricConfig, arms: dict, budget: Budget, rates: tuple[float, ...]) -> Comparison:
    return Comparison({name: partial(solver, config, *arm) for name, arm in arms.items()}, task, budget, rates,
                      search_steps=budget.steps, search_seeds=(0,), measure=partial(scores, task))


# ------------------------------------------------------------ two moons

SMALL = GeometricConfig(width=16, hidden=64, layers=1, heads=4)
KINDS = {"Pointwise": "pointwise", "Transformer": "transformer", "GT-Lite": "lite", "GT-Full": "full", "GT-MoE": "moe"}


class Pointwise(nn.Module):
    """A trunk that never looks at another position: the feed-forward step, twice."""

    def __init__(self, config: GeometricConfig):
        super().__init__()
        self.config, self.steps = config, nn.Sequential(make_step("F", config), make_step("F", config))

    def forward(self, x: Tensor) -> Tensor:
        return self.steps(x)


def steps_commute(model: PointModel, x: Tensor, h: Tensor) -> Tensor:
    """A commuting square for each pair of steps of the block, where the block reads: the lecture's theme as a penalty."""
    pairs = list(combinations(model.trunk.blocks[0].steps.values(), 2))
    return diagrammatic_loss([square(a, b, b, a) for a, b in pairs], model.read(x), [1 / len(pairs)] * len(pairs))


def swap(x: Tensor) -> Tensor:
    """The half turn that takes one moon to the other."""
    return x.new_tensor([1.0, 0.5]) - x


def swap_square(model: PointModel, x: Tensor, h: Tensor) -> Tensor:
    """Turned, a point changes its label: a diagram that holds for the task."""
    return Diagram((model.states, model.write, lambda z: z.flip(-1)), (swap, model.states, model.write), name="swap").mismatch(x)


def classifier(kind: str, penalty: Callable | None = None) -> PointModel:
    trunk = Pointwise(SMALL) if kind == "pointwise" else GeometricTransformer(SMALL, kind)
    return PointModel(trunk, 2, 2, penalty=penalty and partial(weighted, TRUE, penalty))


def moons() -> Comparison:
    models = {name: partial(classifier, kind) for name, kind in KINDS.items()}
    models |= {f"{name}, steps commute": partial(classifier, kind, steps_commute) for name, kind in KINDS.items() if kind != "pointwise"}
    models |= {f"{name}, moons swap": partial(classifier, KINDS[name], swap_square) for name in ("Pointwise", "Transformer")}
    return Comparison(models, Moons(train=64, validation=500), Budget(steps=300, evaluate_every=50), rates=RATES[-1:])


# ------------------------------------------------------------ runs

SUGGESTION = {f"{name}, λ = {SUGGESTED:g}": (*ARMS[name], SUGGESTED) for name in FEW}
SWEPT = {f"{name}, λ = {weight:g}": (*ARMS[name], weight) for name in FEW for weight in LAMBDAS}
TRUE_SQUARE = {"Transformer, positions, digits square": (*ARMS[FEW[0]], TRUE, digits_square)}
PUBLISHED = {name: arm for name, arm in ARMS.items() if name != "GT-MoE"}  # it is as blind as the Transformer
PUBLISHED |= SUGGESTION | {f"GT-Lite, λ = {SUGGESTED:g}": (*ARMS["GT-Lite"], SUGGESTED)} | SWEPT


def small() -> Plan:
    budget, best = Budget(steps=600, batch=32, evaluate_every=100), RATES[-1:]
    by_grid = Sudoku(split="by grid")
    return {"by grid": solve(by_grid, CONFIGS["cpu"], ARMS | SUGGESTION | TRUE_SQUARE, budget, RATES),
            "renamed": solve(Renamed(split="by grid"), CONFIGS["cpu"], {FEW[0]: ARMS[FEW[0]]}, budget, best),
            "moons": moons(),
            "published": solve(Sudoku(), CONFIGS["cpu"], PUBLISHED, budget, best)}


def course() -> Plan:
    """At the width of the lecture's course notebook, and its 50 epochs of 19 batches at one rate. Moons have no size there.

    It states neither the features inside the feed-forward network nor a decay, and has Adam where this has AdamW and clipping.
    """
    budget = Budget(steps=50 * 19, batch=32, lr=1e-3, lr_end=1.0, warmup=0, weight_decay=0.0, evaluate_every=5 * 19)
    return {"by grid": solve(Sudoku(split="by grid"), CONFIGS["paper"], ARMS | SUGGESTION | TRUE_SQUARE, budget, (budget.lr,)),
            "published": solve(Sudoku(), CONFIGS["paper"], PUBLISHED, budget, (budget.lr,))}


def arrange(found: dict[str, dict], plan: Plan, budget: str) -> dict:
    """Each comparison under its name; the moons with their floor."""
    if "moons" in found:
        task = plan["moons"].task
        x, y = task.sample("validation")
        best = {"floor": task.bayes_floor(), "true posterior on validation": task.loss(task.bayes_predictor(x), y).item()}
        found = found | {"moons": found["moons"] | best | {"baselines": task.baselines(), "config": asdict(SMALL), "weight": TRUE}}
    return found | {"config": asdict(CONFIGS[budget]), "suggested": SUGGESTED, "lambdas": [0, *sorted((*LAMBDAS, SUGGESTED))],
                    "true weight": TRUE}


EXPERIMENT = Experiment("Do geometric Transformers learn 4 × 4 Sudoku and two moons better, or with a diagram that must commute?",
                        {"cpu": small, "paper": course}, arrange)
