"""The order of sublayers in trained networks. Two families on text: the Geometric Transformer's blocks beside the Transformer's,
causal, Pre-LN and Post-LN; and the residual connections of the other parts in one backbone."""

import math
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn

from studies.runner.study import Comparison, Experiment, Plan
from geolab.models import KINDS, GeometricConfig, GeometricTransformer, TokenModel, Transformer, TransformerConfig
from geolab.probes import (asymmetry, commutator_energy, commutator_factors, future_influence, jacobian, order_sensitivity,
                           pairwise, states)
from geolab.tasks import Text
from geolab.training import Budget

TASK = Text(context=32)
WIDTH, BLOCKS, HEADS = 32, 3, 4
WINDOWS, MORE = 64, 128   # of the validation text: for the probes, and for the losses of reordered networks
GAIN = 0.01               # nats that a step of the two gradients would gain if the loss were linear


# ------------------------------------------------------------ models

def geometric(kind: str, norm_at: str, hidden: int = 4 * WIDTH) -> TokenModel:
    config = GeometricConfig(width=WIDTH, layers=BLOCKS, heads=HEADS, hidden=hidden, norm_at=norm_at, causal=True, dropout=0.0,
                             positions="learned", max_length=TASK.context)
    return TokenModel(GeometricTransformer(config, kind), TASK.vocabulary)


def backbone(residual: str = "additive", norm_at: str = "pre", hidden: int = 4 * WIDTH, **options) -> TokenModel:
    std = 0.5 / math.sqrt(WIDTH)
    config = TransformerConfig.benchmark(width=WIDTH, layers=BLOCKS, heads=HEADS, norm_at=norm_at, hidden=hidden,
                                         max_length=TASK.context, init_std=std, output_std=std / math.sqrt(BLOCKS))
    return TokenModel(Transformer(config, residual, **options), TASK.vocabulary)


# An expert has a quarter of the features, so that MoE has as many weights as the Transformer. Wide: 5.5 and 6 widths, as many
# weights as GT-Lite has with its convolution, and MGT with its gates.
GEOMETRIC = {f"{kind}, {norm_at}": partial(geometric, kind, norm_at, hidden=WIDTH if kind == "moe" else 4 * WIDTH)
             for kind in KINDS for norm_at in ("pre", "post")}
GEOMETRIC |= {"transformer, pre, wide": partial(geometric, "transformer", "pre", hidden=11 * WIDTH // 2)}
OTHERS = ("hyper", "mhc", "jpmhc", "delta", "delta-matrix", "mgt", "emhc-cayley", "emhc-hybrid", "emhc-geodesic")
RESIDUALS = {"additive": backbone, "additive, wide": partial(backbone, hidden=6 * WIDTH), "post-LN": partial(backbone, norm_at="post")}
RESIDUALS |= {name: partial(backbone, name) for name in OTHERS}
RESIDUALS |= {"emhc-hybrid, leak": partial(backbone, "emhc-hybrid", pool="sequence")}


# ------------------------------------------------------------ measurements, all in float64

def sublayers(model: TokenModel) -> list[nn.Module]:
    """Maps from state to state, in the order in which they run."""
    trunk = model.trunk
    if isinstance(trunk, Transformer):
        return list(trunk.layers)
    return [step for block in trunk.blocks for step in block.steps.values()]


def read_out(model: TokenModel, state: Tensor) -> Tensor:
    """What follows the last sublayer: state -> logits."""
    trunk = model.trunk
    x = trunk.layers[-1].residual.reduce(state) if isinstance(trunk, Transformer) else state
    return trunk.norm(x) @ model.embedding.weight.T


@torch.no_grad()
def reordering(model: TokenModel, inputs: Tensor, targets: Tensor) -> dict:
    """The loss, and its rise when neighbours change places, when the same two are left out, and when whole blocks change places."""
    layers = sublayers(model)
    count, size = len(layers), len(layers) // BLOCKS
    start = states(model, layers, inputs)[0]

    def loss(order):
        state = start
        for k in order:
            state = layers[k](state)
        return TASK.loss(read_out(model, state), targets).item()

    order = list(range(count))
    as_built = loss(order)
    rises = {"swapped": [loss(order[:k] + [k + 1, k] + order[k + 2:]) for k in range(count - 1)],
             "left out": [loss(order[:k] + order[k + 2:]) for k in range(count - 1)],
             "blocks swapped": [loss(order[:k] + order[k + size:k + 2 * size] + order[k:k + size] + order[k + 2 * size:])
                                for k in range(0, count - size, size)]}
    return {"loss": as_built} | {name: [value - as_built for value in values] for name, values in rises.items()}


@torch.no_grad()
def between_neighbours(model: TokenModel, inputs: Tensor) -> dict:
    """Energy and its factors for each pair of neighbouring sublayers, at the state that the first of them gets."""
    layers = sublayers(model)
    seen = states(model, layers, inputs)
    pairs = list(zip(layers, layers[1:], seen))
    factors = [commutator_factors(*pair) for pair in pairs]
    return {"energy": [commutator_energy(*pair).item() for pair in pairs]} | {
        name: [getattr(f, name).item() for f in factors] for name in factors[0]._fields}


def within_blocks(model: TokenModel, inputs: Tensor) -> dict:
    """The lecture's probe: all pairs of a block's steps at the block's input. One entry a block."""
    found = {"energy": [], "asymmetry": [], "order about input": [], "order about sum": []}
    for block, x in zip(model.trunk.blocks, states(model, model.trunk.blocks, inputs)):
        steps = dict(block.steps)
        for name, measure_of in (("energy", commutator_energy), ("asymmetry", asymmetry)):
            found[name].append({"".join(pair): value for pair, value in pairwise(steps, x, measure_of).items()})
        found["order about input"].append(order_sensitivity(steps, x).item())
        found["order about sum"].append(order_sensitivity(steps, x, about="sum").item())
    return found


def alignment(model: TokenModel, inputs: Tensor) -> list[dict]:
    """Jacobians of Δ at windows of 8 bytes, for each pair of a block's steps: how much they commute beside what chance gives.

    "size": ‖J‖_F over the root of the state's size, of either. "commutator": ‖[J_i, J_j]‖ / (‖J_i‖ ‖J_j‖). "beside chance": the
    norm over the same with the features of J_j turned by a random Q, which keeps its singular values and its pattern over
    positions. "correlation": cosine.
    """
    random, found = torch.Generator().manual_seed(0), []
    for block, states_here in zip(model.trunk.blocks, states(model, model.trunk.blocks, inputs[:4, :8])):
        n = states_here[0].numel()
        J = {letter: torch.stack([jacobian(step, x[None]) for x in states_here]) - torch.eye(n).double()
             for letter, step in block.steps.items()}
        here, letters = {}, list(J)
        for i, j in ((i, j) for k, i in enumerate(letters) for j in letters[k + 1:]):
            def commutators(B):
                return (J[i] @ B - B @ J[i]).square().sum((-1, -2))
            turns = [torch.block_diag(*[torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=random).double()).Q] * 8) for _ in range(4)]
            turned = torch.stack([commutators(Q @ J[j] @ Q.T) for Q in turns]).mean(0)
            norms = [J[letter].square().sum((-1, -2)) for letter in (i, j)]
            here[i + j] = {"size": [(norm.mean() / n).sqrt().item() for norm in norms],
                           "commutator": (commutators(J[j]).sum() / (norms[0] * norms[1]).sum()).sqrt().item(),
                           "beside chance": (commutators(J[j]).sum() / turned.sum()).sqrt().item(),
                           "correlation": ((J[i] * J[j]).sum() / (norms[0].sum() * norms[1].sum()).sqrt()).item()}
        found.append(here)
    return found


def interference(model: TokenModel, inputs: Tensor, targets: Tensor) -> list[dict]:
    """L(θ + δ_i + δ_j) − L(θ + δ_i) − L(θ + δ_j) + L(θ) over GAIN, for each pair of a block's steps; δ = −η gradient.

    η is such that the two steps would gain GAIN if the loss were linear. Positive: together they gain less than each for itself.
    """
    def loss():
        return TASK.loss(model(inputs), targets)

    at = loss()
    named = [{letter: list(step.parameters()) for letter, step in block.steps.items()} for block in model.trunk.blocks]
    gradients = [{letter: torch.autograd.grad(at, parameters, retain_graph=True) for letter, parameters in block.items()}
                 for block in named]
    found = []
    with torch.no_grad():
        for parameters, gradient in zip(named, gradients):
            def moved(letters, rate):
                for sign in (-1, 1):
                    for letter in letters:
                        for p, g in zip(parameters[letter], gradient[letter]):
                            p.add_(g, alpha=sign * rate)
                    if sign == -1:
                        value = loss().item()
                return value

            square = {letter: sum(g.square().sum().item() for g in gs) for letter, gs in gradient.items()}
            letters, mixed = list(parameters), {}
            for i, j in ((i, j) for k, i in enumerate(letters) for j in letters[k + 1:]):
                rate = GAIN / (square[i] + square[j])
                mixed[i + j] = (moved(i + j, rate) - moved(i, rate) - moved(j, rate) + at.item()) / GAIN
            found.append(mixed)
    return found


def rounded(value):
    """Four digits, and None for what isn't defined."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return None if math.isnan(value) else float(f"{value:.4g}")


def measure(model: TokenModel, trained: bool = True) -> dict:
    """Turns the model to float64. Untrained ones are not reordered."""
    model.double().eval()
    inputs, targets = TASK.sample("validation")
    found = {"neighbours": between_neighbours(model, inputs[:WINDOWS])}
    if trained:
        found |= {"reordered": reordering(model, inputs[:MORE], targets[:MORE]),
                  "future influence": future_influence(model, inputs[:2])}
    if isinstance(model.trunk, GeometricTransformer):
        train = TASK.sample("train")
        found |= {"blocks": within_blocks(model, inputs[:WINDOWS]),
                  "interference": interference(model, train.inputs[:WINDOWS], train.targets[:WINDOWS]),
                  "jacobians": alignment(model, inputs)}
    return rounded(found)


# ------------------------------------------------------------ runs

def on_text(models: Mapping[str, Callable[[], TokenModel]]) -> Comparison:
    """Each model at two rates on one seed, and with all seeds at the better one."""
    budget = Budget(steps=300, warmup=100, evaluate_every=100)  # with a shorter warm-up Post-LN stays at the byte counts
    return Comparison(models, TASK, budget, rates=(5e-3, 1.5e-2), search_steps=budget.steps, search_seeds=(0,), measure=measure,
                      untrained=partial(measure, trained=False))


def small() -> Plan:
    return {"geometric": on_text(GEOMETRIC), "residuals": on_text(RESIDUALS)}


def arrange(found: dict[str, dict], plan: Plan, budget: str) -> dict:
    """Both families, with what they share."""
    return {"floor": TASK.bayes_floor(), "baselines": TASK.baselines(), "width": WIDTH, "blocks": BLOCKS, **found}


EXPERIMENT = Experiment("Does the order of sublayers matter to trained networks, and to which?", {"cpu": small}, arrange)
