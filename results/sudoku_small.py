"""Make results/sudoku_small.json: `python results/sudoku_small.py`, about a quarter of an hour on one core.

The geometric Transformers on 4 × 4 Sudoku and on two moons, with and without penalties that ask a diagram to commute. Every
model runs in full at both rates with the first seed on one task, puzzles split by grid. The larger rate won for every one of
them, and is the only one for what follows. An interrupted run goes on where it stopped, from checkpoints in runs/.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import combinations, permutations
from pathlib import Path

import torch
from torch import Tensor, nn

from geolab import Budget
from geolab.compare import compare, record
from geolab.diagrammatic import Diagram, agreement, diagrammatic_loss, square
from geolab.models import GeometricConfig, GeometricTransformer, PointModel, RelationGraph
from geolab.models.geometric import make_step
from geolab.tasks import Moons, Pairs, Sudoku
from geolab.tasks.sudoku import triples, units

OUT = Path(__file__).with_suffix(".json")
SEEDS, RATES = (0, 1, 2), (3e-3, 1e-2)
CONFIG = GeometricConfig(width=32, hidden=128, layers=2, heads=4, max_length=16)
LAMBDAS, SUGGESTED, TRUE = (5e-3, 5e-1), 5e-2, 0.1
TRIPLES = triples()

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


def published_penalty(model: PointModel, x: Tensor, h: Tensor) -> Tensor:
    """As a course notebook of the lecture has it: a mean over puzzles and triples, a sum over cells and features."""
    return agreement(h, TRIPLES) / len(TRIPLES)


def permute_digits(x: Tensor, order: Tensor) -> Tensor:
    """Rename the given digits; a blank stays what it is."""
    return torch.cat([torch.where(x[..., 4:] == 1, x[..., order], x[..., :4]), x[..., 4:]], dim=-1)


def digits_square(model: PointModel, x: Tensor, h: Tensor) -> Tensor:
    """Renaming the digits of a puzzle renames those of its solution: a diagram that holds for the task."""
    order = torch.randperm(4)
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


def solver(kind: str, options: dict, weight: float = 0.0, penalty: Callable = published_penalty) -> PointModel:
    weighted = (lambda model, x, h: weight * penalty(model, x, h)) if weight else None
    reads = (unit_graph(),) if options.get("relations") else ()
    return PointModel(GeometricTransformer(replace(CONFIG, **options), kind), 5, 4, reads, weighted)


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


def sudoku(task: Sudoku, models: dict, folder: str, rates: tuple[float, ...] = RATES[-1:]) -> dict:
    return compare({name: partial(solver, *arm) for name, arm in models.items()}, task,
                   Budget(steps=600, batch=32, evaluate_every=100), seeds=SEEDS, rates=rates, search_steps=600, search_seeds=SEEDS[:1],
                   folder=f"runs/sudoku_small/{folder}", measure=partial(scores, task))


# ------------------------------------------------------------ two moons

SMALL = GeometricConfig(width=16, hidden=64, layers=1, heads=4)


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
    return PointModel(trunk, 2, 2, penalty=penalty and (lambda model, x, h: TRUE * penalty(model, x, h)))


def moons() -> dict:
    kinds = {"Pointwise": "pointwise", "Transformer": "transformer", "GT-Lite": "lite", "GT-Full": "full", "GT-MoE": "moe"}
    models = {name: partial(classifier, kind) for name, kind in kinds.items()}
    models |= {f"{name}, steps commute": partial(classifier, kind, steps_commute) for name, kind in kinds.items() if kind != "pointwise"}
    models |= {f"{name}, moons swap": partial(classifier, kinds[name], swap_square) for name in ("Pointwise", "Transformer")}
    task = Moons(train=64, validation=500)
    x, y = task.sample("validation")
    found = compare(models, task, Budget(steps=300, evaluate_every=50), seeds=SEEDS, rates=RATES[-1:], folder="runs/sudoku_small/moons")
    return found | {"floor": task.bayes_floor(), "true posterior on validation": task.loss(task.bayes_predictor(x), y).item(),
                    "baselines": task.baselines(), "config": asdict(SMALL), "weight": TRUE}


def main() -> None:
    if OUT.exists():
        raise SystemExit(f"{OUT} is there; move it away to measure again")
    published, by_grid = Sudoku(), Sudoku(split="by grid")
    few = ("Transformer, positions", "GT-Full, units")
    suggested = {f"{name}, λ = {SUGGESTED:g}": (*ARMS[name], SUGGESTED) for name in few}
    swept = {f"{name}, λ = {weight:g}": (*ARMS[name], weight) for name in few for weight in LAMBDAS}
    lite = {f"GT-Lite, λ = {SUGGESTED:g}": (*ARMS["GT-Lite"], SUGGESTED)}
    placed = {name: arm for name, arm in ARMS.items() if name != "GT-MoE"}  # it is as blind as the Transformer
    true = {"Transformer, positions, digits square": (*ARMS[few[0]], TRUE, digits_square)}
    found = {"by grid": sudoku(by_grid, ARMS | suggested | true, "by_grid", RATES),
             "renamed": sudoku(Renamed(split="by grid"), {"Transformer, positions": ARMS[few[0]]}, "renamed"),
             "moons": moons(),
             "published": sudoku(published, placed | suggested | lite | swept, "published")}
    record(OUT, "the geometric Transformers on 4 × 4 Sudoku and two moons, with and without diagrammatic penalties", found | {
        "config": asdict(CONFIG), "suggested": SUGGESTED, "lambdas": [0, *sorted((*LAMBDAS, SUGGESTED))], "true weight": TRUE})


if __name__ == "__main__":
    main()
