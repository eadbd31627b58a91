"""The order of sublayers in trained networks.

Two families learn text: the Geometric Transformer's blocks beside the Transformer's, causal, Pre-LN
and Post-LN; and the residual connections of the other parts in one backbone.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations

import torch
from torch import Tensor, nn

from geolab.models import (
    KINDS,
    GeometricConfig,
    GeometricTransformer,
    TokenModel,
    Transformer,
    TransformerConfig,
)
from geolab.models.geometric import Block
from geolab.probes import (
    asymmetry,
    commutator_energy,
    commutator_factors,
    future_influence,
    jacobian,
    order_sensitivity,
    pairwise,
    states,
)
from geolab.tasks import Task, Text
from geolab.training import Budget
from studies.engine.arm import Arm, comparison
from studies.engine.decay import every_matrix_decays
from studies.engine.protocol import Protocol
from studies.engine.run import Study
from studies.engine.watch import on_the_way, watch

TASK = Text(context=32)
WIDTH, BLOCKS, HEADS = 32, 3, 4
# windows of the validation text, for the probes and for the losses of reordered networks
WINDOWS, MORE = 64, 128
BUDGET = Budget(steps=300, evaluate_every=50)
GAIN = 0.01  # nats that a step along both gradients would gain if the loss were linear


# ------------------------------------------------------------ models

def geometric(kind: str, norm_at: str, hidden: int = 4 * WIDTH) -> TokenModel:
    config = GeometricConfig(width=WIDTH, layers=BLOCKS, heads=HEADS, hidden=hidden,
                             norm_at=norm_at, causal=True, dropout=0.0, positions="learned",
                             max_length=TASK.context)
    model = TokenModel(GeometricTransformer(config, kind), TASK.vocabulary)
    places = BUDGET.steps // BUDGET.evaluate_every + 1
    return watch(model, energy_on_the_way, TASK, places, BLOCKS, examples=WINDOWS, start=True)


def energy_on_the_way(model: TokenModel, tokens: Tensor) -> Tensor:
    """Return E(A, F) by block at its input, with the experts in F's place in a mixture."""
    def of(block: Block, x: Tensor) -> Tensor:
        steps = dict(block.steps)
        return commutator_energy(steps["A"], steps["M" if "M" in steps else "F"], x).double()
    return torch.stack(on_the_way(model, model.trunk.blocks, tokens, of))


def backbone(residual: str = "additive", norm_at: str = "pre", hidden: int = 4 * WIDTH,
             **options) -> TokenModel:
    std = 0.5 / math.sqrt(WIDTH)
    config = TransformerConfig.benchmark(
        width=WIDTH, layers=BLOCKS, heads=HEADS, norm_at=norm_at, hidden=hidden,
        max_length=TASK.context, init_std=std, output_std=std / math.sqrt(BLOCKS))
    return every_matrix_decays(
        TokenModel(Transformer(config, residual, **options), TASK.vocabulary))


# An expert has a quarter of the features, so that MoE has as many weights as the Transformer. The
# MLPs of the wide models have 5.5 and 6 widths: so they have as many weights as GT-Lite with its
# convolution, and as MGT with its gates.
GEOMETRIC = {f"{kind}, {norm_at}": partial(geometric, kind, norm_at,
                                           hidden=WIDTH if kind == "moe" else 4 * WIDTH)
             for kind in KINDS for norm_at in ("pre", "post")}
GEOMETRIC["transformer, pre, wide"] = partial(geometric, "transformer", "pre",
                                              hidden=11 * WIDTH // 2)
OTHERS = ("hyper", "mhc", "jpmhc", "delta", "delta-matrix", "mgt",
          "emhc-cayley", "emhc-hybrid", "emhc-geodesic")
RESIDUALS = {"additive": backbone,
             "additive, wide": partial(backbone, hidden=6 * WIDTH),
             "post-LN": partial(backbone, norm_at="post"),
             **{name: partial(backbone, name) for name in OTHERS},
             "emhc-hybrid, leak": partial(backbone, "emhc-hybrid", pool="sequence")}


# ------------------------------------------------------------ measurements, all in float64

def sublayers(model: TokenModel) -> list[nn.Module]:
    """Return the sublayers as maps from state to state, in the order in which they run."""
    trunk = model.trunk
    if isinstance(trunk, Transformer):
        return list(trunk.layers)
    return [step for block in trunk.blocks for step in block.steps.values()]


def read_out(model: TokenModel, state: Tensor) -> Tensor:
    """Apply the rest of the model after its last sublayer: state -> logits."""
    trunk = model.trunk
    x = trunk.layers[-1].residual.reduce(state) if isinstance(trunk, Transformer) else state
    return trunk.norm(x) @ model.embedding.weight.T


@torch.no_grad()
def reordering(model: TokenModel, inputs: Tensor, targets: Tensor) -> dict:
    """Return the loss, and its rises in other orders.

    Two neighbours change places, or are left out, or whole blocks change places.
    """
    layers = sublayers(model)
    count, size = len(layers), len(layers) // BLOCKS
    start = states(model, layers, inputs)[0]

    def loss(order: list[int]) -> float:
        state = start
        for k in order:
            state = layers[k](state)
        return TASK.loss(read_out(model, state), targets).item()

    order = list(range(count))
    neighbours, blocks = range(count - 1), range(0, count - size, size)
    orders = {
        "swapped": [order[:k] + [k + 1, k] + order[k + 2:] for k in neighbours],
        "left out": [order[:k] + order[k + 2:] for k in neighbours],
        "blocks swapped": [order[:k] + order[k + size:k + 2 * size] + order[k:k + size]
                           + order[k + 2 * size:] for k in blocks]}
    as_built = loss(order)
    return {"loss": as_built} | {name: [loss(changed) - as_built for changed in of_kind]
                                 for name, of_kind in orders.items()}


@torch.no_grad()
def between_neighbours(model: TokenModel, inputs: Tensor) -> dict:
    """Return the energy and its factors for each pair of neighbours, at the first one's input."""
    layers = sublayers(model)
    pairs = list(zip(layers, layers[1:], states(model, layers, inputs), strict=False))
    factors = [commutator_factors(*pair) for pair in pairs]
    return {"energy": [commutator_energy(*pair).item() for pair in pairs]} | {
        name: [getattr(f, name).item() for f in factors] for name in factors[0]._fields}


def within_blocks(model: TokenModel, inputs: Tensor) -> dict:
    """Return the lecture's probe by block: all pairs of its steps, at its input."""
    names = ("energy", "asymmetry", "order about input", "order about sum")
    found: dict[str, list] = {name: [] for name in names}
    blocks = model.trunk.blocks
    for block, x in zip(blocks, states(model, blocks, inputs), strict=False):
        steps = dict(block.steps)
        for name, measure_of in (("energy", commutator_energy), ("asymmetry", asymmetry)):
            of_pairs = pairwise(steps, x, measure_of)
            found[name].append({"".join(pair): value for pair, value in of_pairs.items()})
        found["order about input"].append(order_sensitivity(steps, x).item())
        found["order about sum"].append(order_sensitivity(steps, x, about="sum").item())
    return found


def alignment(model: TokenModel, inputs: Tensor) -> list[dict]:
    """Return commutators of the Jacobians of Δ for each pair of a block's steps, beside chance.

    The inputs are windows of 8 bytes.

        "size"           ‖J‖_F over the root of the state's size, for either step
        "commutator"     ‖[J_i, J_j]‖ / (‖J_i‖ ‖J_j‖)
        "beside chance"  that norm over the same with the features of J_j turned by a random Q,
                         which keeps its singular values and its pattern over positions
        "correlation"    the cosine between J_i and J_j
    """
    random, found = torch.Generator().manual_seed(0), []

    def turn() -> Tensor:
        gaussian = torch.randn(WIDTH, WIDTH, generator=random).double()
        return torch.block_diag(*[torch.linalg.qr(gaussian).Q] * 8)

    blocks = model.trunk.blocks
    for block, here in zip(blocks, states(model, blocks, inputs[:4, :8]), strict=False):
        n = here[0].numel()
        J = {letter: torch.stack([jacobian(step, x[None]) for x in here]) - torch.eye(n).double()
             for letter, step in block.steps.items()}
        norms = {letter: matrix.square().sum((-1, -2)) for letter, matrix in J.items()}
        pairs = {}
        for i, j in combinations(J, 2):
            of_pair = _commutators(J[i], J[j])
            turned = torch.stack([_commutators(J[i], Q @ J[j] @ Q.T)
                                  for Q in (turn() for _ in range(4))]).mean(0)
            total = (norms[i].sum() * norms[j].sum()).sqrt()
            pairs[i + j] = {
                "size": [(norms[letter].mean() / n).sqrt().item() for letter in (i, j)],
                "commutator": (of_pair.sum() / (norms[i] * norms[j]).sum()).sqrt().item(),
                "beside chance": (of_pair.sum() / turned.sum()).sqrt().item(),
                "correlation": ((J[i] * J[j]).sum() / total).item()}
        found.append(pairs)
    return found


def _commutators(A: Tensor, B: Tensor) -> Tensor:
    """‖AB − BA‖² of each pair in two batches."""
    return (A @ B - B @ A).square().sum((-1, -2))


def interference(model: TokenModel, inputs: Tensor, targets: Tensor) -> list[dict]:
    """Return L(θ + δ_i + δ_j) − L(θ + δ_i) − L(θ + δ_j) + L(θ) over GAIN by pair of steps.

    δ = −η gradient, where η is such that the two steps would gain GAIN if the loss were linear. A
    positive number means that both together gain less than the sum of each alone.
    """
    def loss() -> Tensor:
        return TASK.loss(model(inputs), targets)

    at = loss()
    named = [{letter: list(step.parameters()) for letter, step in block.steps.items()}
             for block in model.trunk.blocks]
    gradients = [{letter: torch.autograd.grad(at, parameters, retain_graph=True)
                  for letter, parameters in block.items()} for block in named]

    def moved(parameters: dict, gradient: dict, letters: str, rate: float) -> float:
        """Return the loss after a step in these letters' parameters, which are then restored."""
        moves = [(p, g) for letter in letters
                 for p, g in zip(parameters[letter], gradient[letter], strict=True)]
        for p, g in moves:
            p.add_(g, alpha=-rate)
        value = loss().item()
        for p, g in moves:
            p.add_(g, alpha=rate)
        return value

    found = []
    with torch.no_grad():
        for parameters, gradient in zip(named, gradients, strict=True):
            square = {letter: sum(g.square().sum().item() for g in gs)
                      for letter, gs in gradient.items()}
            mixed = {}
            for i, j in combinations(parameters, 2):
                rate = GAIN / (square[i] + square[j])
                both, first, second = (moved(parameters, gradient, letters, rate)
                                       for letters in (i + j, i, j))
                mixed[i + j] = (both - first - second + at.item()) / GAIN
            found.append(mixed)
    return found


def rounded(value):
    """Round to four digits, with None for an undefined number."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return None if math.isnan(value) else float(f"{value:.4g}")


def measure(model: TokenModel, trained: bool = True) -> dict:
    """Return all of the above in float64, to which the model is converted.

    Untrained models aren't reordered.
    """
    model.double().eval()
    inputs, targets = TASK.sample("validation")
    found = {"neighbours": between_neighbours(model, inputs[:WINDOWS])}
    if trained:
        found |= {"reordered": reordering(model, inputs[:MORE], targets[:MORE]),
                  "future influence": future_influence(model, inputs[:2])}
    if isinstance(model.trunk, GeometricTransformer):
        seen, known = (t[:WINDOWS] for t in TASK.sample("train"))
        found |= {"blocks": within_blocks(model, inputs[:WINDOWS]),
                  "interference": interference(model, seen, known),
                  "jacobians": alignment(model, inputs),
                  "energy on the way": model.seen[:model.count].tolist()}
    return rounded(found)


# ------------------------------------------------------------ runs

def on_text(part: str, models: Mapping[str, Callable[[], TokenModel]],
            protocol: Protocol) -> list[Arm]:
    return comparison(part, models, TASK, BUDGET, protocol, measure=measure,
                      untrained=partial(measure, trained=False))


def small() -> list[Arm]:
    return [*on_text("geometric", GEOMETRIC, Protocol()),
            *on_text("residuals", RESIDUALS, Protocol.brief())]


def arrange(found: dict[str, dict], tasks: Mapping[str, Task], size: str) -> dict:
    """Return both families, with the entries that they share."""
    return {"floor": TASK.bayes_floor(), "baselines": TASK.baselines(),
            "width": WIDTH, "blocks": BLOCKS, **found}


STUDY = Study("order", "Does the order of sublayers matter to trained networks, and to which?",
              {"cpu": small}, arrange)
