"""The geometric Transformers on 4 × 4 Sudoku and on two moons.

Each learns with and without penalties for a diagram that doesn't commute.

    by grid     puzzles whose grids training never shows
    published   the notebook's puzzles, in these small models
    notebook    the notebook's own blocks and training, with 4 to 12 givens
    renamed     every training puzzle with its digits renamed in all ways
    moons       two moons
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import combinations, permutations

import torch
from torch import Tensor, nn

from geolab.consistency import Diagram, agreement, diagrammatic_loss, square
from geolab.models import GeometricConfig, GeometricTransformer, PointModel, RelationGraph
from geolab.models.geometric import Attention, make_step
from geolab.tasks import Moons, Pairs, Sudoku, Task
from geolab.tasks.sudoku import triples, units
from geolab.training import Budget
from studies.engine.arm import Arm, comparison
from studies.engine.protocol import Protocol
from studies.engine.run import Study

CONFIGS = {"cpu": GeometricConfig(width=32, hidden=128, layers=2, heads=4, max_length=16),
           "paper": GeometricConfig(width=64, hidden=256, layers=2, heads=4, max_length=16)}
# weights of the published penalty, the suggested one and two more; and of the true ones
LAMBDAS, SUGGESTED, TRUE = (5e-3, 5e-1), 5e-2, 0.1
TRIPLES = triples()
GIVENS = (4, 6, 8, 10, 12)  # the notebook has 8


def weighted(weight: float, penalty: Callable, model: PointModel, x: Tensor, h: Tensor) -> Tensor:
    return weight * penalty(model, x, h)


# ------------------------------------------------------------ Sudoku

def unit_graph() -> RelationGraph:
    """Join cells that share a row (relation 0), a column (1) or a block (2)."""
    joined = [(a, b, k // 4) for k, unit in enumerate(units().tolist())
              for a, b in permutations(unit, 2)]
    *edges, relations = torch.tensor(joined).T
    return RelationGraph(torch.stack(edges), relations)


class UnitAttention(Attention):
    """Attention that knows the units: the heads read a cell's row, column, block, and all cells."""

    def __init__(self, config: GeometricConfig):
        super().__init__(config.width, 4, config.dropout_of("weights"))
        reads = torch.zeros(4, 16, 16, dtype=torch.bool)
        for k, unit in enumerate(units()):
            reads[k // 4, unit[:, None], unit] = True
        reads[3] = True
        self.register_buffer("hidden", ~reads, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        mask = self.hidden.repeat(len(x), 1, 1)
        return self.attention(x, x, x, need_weights=False, attn_mask=mask)[0]


def make_trunk(config: GeometricConfig, kind: str) -> GeometricTransformer:
    """Build a geometric Transformer, or for kind "told" a Transformer with `UnitAttention`."""
    if kind != "told":
        return GeometricTransformer(config, kind)
    trunk = GeometricTransformer(config, "transformer")
    for block in trunk.blocks:
        block.steps["A"].f = UnitAttention(config)
    return trunk


KNOWN = {"positions": "learned"}
ARMS = {"Transformer": ("transformer", {}), "Transformer, positions": ("transformer", KNOWN),
        "Transformer, units": ("told", {}),
        "GT-Lite": ("lite", {}), "GT-Lite, positions": ("lite", KNOWN),
        "GT-Full": ("full", {}), "GT-Full, units": ("full", {"relations": 3}),
        "GT-MoE": ("moe", {})}
FEW = ("Transformer, positions", "GT-Full, units")


def published_penalty(model: PointModel, x: Tensor, h: Tensor) -> Tensor:
    """The penalty of a course notebook of the lecture.

    It is a mean over puzzles and triples, and a sum over cells and features.
    """
    return agreement(h, TRIPLES) / len(TRIPLES)


def permute_digits(x: Tensor, order: Tensor) -> Tensor:
    """Rename the given digits; a blank stays blank."""
    return torch.cat([torch.where(x[..., 4:] == 1, x[..., order], x[..., :4]), x[..., 4:]], dim=-1)


def digits_square(model: PointModel, x: Tensor, h: Tensor) -> Tensor:
    """Renaming a puzzle's digits renames those of its solution: this diagram holds for the task."""
    order = torch.randperm(4).to(x.device)
    renamed = (lambda x: permute_digits(x, order), model.states, model.write)
    solved = (model.states, model.write, lambda z: z[..., order])
    return Diagram(solved, renamed, name="digits").mismatch(x)


@dataclass(frozen=True)
class Renamed(Sudoku):
    """All 24 renamings of every training puzzle: what `digits_square` asks for, given as data."""

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        x, y = super().sample(split, seed)
        if split == "validation":
            return Pairs(x, y)
        orders = [torch.tensor(order) for order in permutations(range(4))]
        return Pairs(torch.cat([permute_digits(x, order) for order in orders]),
                     torch.cat([order.argsort()[y] for order in orders]))


def solver(config: GeometricConfig, kind: str, options: dict, weight: float = 0.0,
           penalty: Callable = published_penalty) -> PointModel:
    reads = (unit_graph(),) if options.get("relations") else ()
    added = partial(weighted, weight, penalty) if weight else None
    return PointModel(make_trunk(replace(config, **options), kind), 5, 4, reads, added)


@torch.no_grad()
def scores(task: Sudoku, model: PointModel) -> dict:
    """Return accuracies, the spread of a triple's cells, and the norms of states and readout.

    "spread" is the squared distance of a triple's cells from their mean, as a share of their
    squared norm.
    """
    model.eval()
    (x, y), (seen, known) = task.sample("validation"), Sudoku.sample(task, "train")
    h, prediction = model.states(x), model(x)
    found = {"all cells": task.accuracy(prediction, y), "blanks": task.accuracy(prediction, y, x),
             "training blanks": task.accuracy(model(seen), known, seen),
             "solved": (prediction.argmax(-1) == y).all(-1).double().mean(),
             "spread": agreement(h, TRIPLES) / (TRIPLES.numel() * h.square().sum(-1).mean()),
             "state norm": h.norm(dim=-1).mean(),
             "readout norm": torch.linalg.matrix_norm(model.write.weight, 2)}
    return {name: float(f"{value.item():.5g}") for name, value in found.items()}


def solve(part: str, task: Sudoku, config: GeometricConfig, models: dict, budget: Budget,
          protocol: Protocol = Protocol.eight()) -> list[Arm]:
    builds = {name: partial(solver, config, *model) for name, model in models.items()}
    return comparison(part, builds, task, budget, protocol, measure=partial(scores, task))


# ------------------------------------------------------------ two moons

SMALL = GeometricConfig(width=16, hidden=64, layers=1, heads=4)
CLASSIFIERS = {"Pointwise": "pointwise", "Transformer": "transformer", "GT-Lite": "lite",
               "GT-Full": "full", "GT-MoE": "moe"}


class Pointwise(nn.Module):
    """A trunk that never looks at another position: the feed-forward step, twice."""

    def __init__(self, config: GeometricConfig):
        super().__init__()
        self.config = config
        self.steps = nn.Sequential(make_step("F", config), make_step("F", config))

    def forward(self, x: Tensor) -> Tensor:
        return self.steps(x)


def steps_commute(model: PointModel, x: Tensor, h: Tensor) -> Tensor:
    """The lecture's theme as a penalty: a commuting square for each pair of steps of the block.

    It compares the steps at the block's input.
    """
    pairs = list(combinations(model.trunk.blocks[0].steps.values(), 2))
    weights = [1 / len(pairs)] * len(pairs)
    return diagrammatic_loss([square(a, b, b, a) for a, b in pairs], model.read(x), weights)


def swap(x: Tensor) -> Tensor:
    """Apply the half turn that takes one moon to the other."""
    return x.new_tensor([1.0, 0.5]) - x


def swap_square(model: PointModel, x: Tensor, h: Tensor) -> Tensor:
    """The half turn of a point changes its label: this diagram holds for the task."""
    labelled = (model.states, model.write, lambda z: z.flip(-1))
    return Diagram(labelled, (swap, model.states, model.write), name="swap").mismatch(x)


def classifier(kind: str, penalty: Callable | None = None) -> PointModel:
    trunk = Pointwise(SMALL) if kind == "pointwise" else GeometricTransformer(SMALL, kind)
    return PointModel(trunk, 2, 2, penalty=penalty and partial(weighted, TRUE, penalty))


def moons() -> list[Arm]:
    models = {name: partial(classifier, kind) for name, kind in CLASSIFIERS.items()}
    models |= {f"{name}, steps commute": partial(classifier, kind, steps_commute)
               for name, kind in CLASSIFIERS.items() if kind != "pointwise"}
    models |= {f"{name}, moons swap": partial(classifier, CLASSIFIERS[name], swap_square)
               for name in ("Pointwise", "Transformer")}
    return comparison("moons", models, Moons(train=64, validation=500),
                      Budget(steps=300, evaluate_every=50), Protocol.eight())


# ------------------------------------------------------------ runs

SUGGESTION = {f"{name}, λ = {SUGGESTED:g}": (*ARMS[name], SUGGESTED) for name in FEW}
SWEPT = {f"{name}, λ = {weight:g}": (*ARMS[name], weight) for name in FEW for weight in LAMBDAS}
TRUE_SQUARE = {"Transformer, positions, digits square": (*ARMS[FEW[0]], TRUE, digits_square)}
BY_GRID = ARMS | SUGGESTION | TRUE_SQUARE
PUBLISHED = {name: ARMS[name] for name in ("Transformer", "GT-Lite", *FEW)} | SUGGESTION | SWEPT


def small() -> list[Arm]:
    budget, config = Budget(steps=600, batch=32, evaluate_every=100), CONFIGS["cpu"]
    split = "by grid"
    return [*solve("by grid", Sudoku(split=split), config, BY_GRID, budget),
            *solve("renamed", Renamed(split=split), config, {FEW[0]: ARMS[FEW[0]]}, budget,
                   Protocol.brief()),
            *moons(),
            *solve("published", Sudoku(), config, PUBLISHED, budget, Protocol.brief()),
            *notebook()]


def notebook() -> list[Arm]:
    """Train the course notebook's two blocks with its penalty, and with positions, which it lacks.

    The notebook trains 50 epochs of 18 batches at one rate, by Adam without clipping. This study
    trains 950 steps, 50 more, by AdamW without decay and with clipping.
    """
    budget = Budget(steps=50 * 19, batch=32, lr=1e-3, lr_end=1.0, warmup=0, weight_decay=0.0,
                    evaluate_every=5 * 19)
    config = replace(CONFIGS["paper"], dropout=0.1, dropout_at=tuple("ACF"), alpha=1.0,
                     activation="gelu", final_norm=True)
    found = []
    for givens in GIVENS:
        models = {name: ARMS[name] for name in ("Transformer", FEW[0], "GT-Lite")}
        if givens == 8:  # the notebook's number
            models[f"GT-Lite, λ = {SUGGESTED:g}"] = (*ARMS["GT-Lite"], SUGGESTED)
        found += solve(f"notebook, {givens} givens", Sudoku(givens=givens), config, models, budget,
                       Protocol.stated(budget.lr, range(8)))
    return found


def arrange(found: dict[str, dict], tasks: Mapping[str, Task], size: str) -> dict:
    """Return each comparison under its name; the moons have their floor."""
    if "moons" in found:
        task = tasks["moons"]
        x, y = task.sample("validation")
        best = task.loss(task.bayes_predictor(x), y).item()
        found = found | {"moons": found["moons"] | {
            "floor": task.bayes_floor(), "true posterior on validation": best,
            "baselines": task.baselines(), "config": asdict(SMALL), "weight": TRUE}}
    return found | {"config": asdict(CONFIGS[size]), "suggested": SUGGESTED,
                    "lambdas": [0, *sorted((*LAMBDAS, SUGGESTED))], "true weight": TRUE}


STUDY = Study(
    "sudoku",
    "Do geometric Transformers learn 4 × 4 Sudoku and two moons better, or with a diagram that "
    "must commute?",
    {"cpu": small, "paper": notebook}, arrange)
