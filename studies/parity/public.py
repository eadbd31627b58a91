"""The stored outputs of public models, and the translation of their weights to ours.

A fixture is one .npz file: a public model's weights (`weight/NAME`, small and exact in float16),
its input and its outputs, and the gradients of a loss in its weights and its input, all computed in
float32 by the public code itself. Its `made` names that code and the call.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from studies.parity.dropout import dropout_by_rule

FIXTURES = Path(__file__).parent / "fixtures"


@dataclass(frozen=True)
class Public:
    """A model of a public repository, with the model of this book that computes the same.

    `translate` is differentiable, so gradients in the public model's weights can be computed
    through our model. It leaves out the weights that the public model has but doesn't use.
    """

    label: str                       # also the name of the fixture's file
    source: str                      # a key of claims.SOURCES
    name: str                        # the paper's name of the model
    ours: str                        # our model, such as 'CONFIGURATIONS["emhc-gpt"]'
    build: Callable[[], nn.Module]   # that, at the fixture's size
    translate: Callable[[dict[str, Tensor]], dict[str, Tensor]]   # public weights -> ours, by name
    differs: str = ""                # differences in training between models of the same function

    @cached_property
    def fixture(self) -> "Fixture":
        return read(FIXTURES / f"{self.label}.npz")


@dataclass(frozen=True)
class Fixture:
    """One run of a public model.

    Attributes:
        made: "repository", "commit", "file", "model" (the class and its arguments) and "how".
        weights, gradients: by the public names. Gradients are of (output · cotangent).sum(), in
            training mode.
        inputs: the model's arguments, in order.
        output: in evaluation mode.
        training_output: in training mode, with `dropout_by_rule`; equal to `output` for a model
            without dropout.
        cotangent: like output.
    """

    made: dict[str, str]
    weights: dict[str, Tensor]
    gradients: dict[str, Tensor]
    inputs: list[Tensor]
    output: Tensor
    training_output: Tensor
    cotangent: Tensor


def read(path: Path) -> Fixture:
    with np.load(path) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files if name != "made"}
        made = json.loads(str(file["made"]))

    def under(folder: str) -> dict[str, Tensor]:
        return {name.removeprefix(folder): array for name, array in arrays.items()
                if name.startswith(folder)}

    weights = {name: weight.float() for name, weight in under("weight/").items()}
    inputs = [array for _, array in sorted(under("input/").items())]
    output = arrays["output"]
    return Fixture(made, weights, under("gradient/"), inputs, output,
                   arrays.get("training_output", output), arrays["cotangent"])


@dataclass(frozen=True)
class Agreement:
    """The largest differences between a public model and ours.

    Attributes:
        output: over the outputs of both modes, relative to the largest output.
        gradient: over the gradients in all weights that the public model uses, and in its input if
            that is real; each relative to the largest entry of its own tensor, or to a hundredth of
            the largest entry of all if that is more.
        worst: the weight with the largest difference.
    """

    output: float
    gradient: float
    worst: str


def agreement(public: Public) -> Agreement:
    """Give our model the public model's weights, and compare outputs and gradients."""
    fixture, model = public.fixture, public.build()
    leaves = {name: weight.clone().requires_grad_() for name, weight in fixture.weights.items()}
    inputs = [x.clone().requires_grad_() if x.is_floating_point() else x for x in fixture.inputs]
    ours = public.translate(leaves)
    require_all(public.label, model, ours)
    with torch.no_grad():
        output = torch.func.functional_call(model.eval(), ours, tuple(inputs))
    with dropout_by_rule():
        trained = torch.func.functional_call(model.train(), ours, tuple(inputs))
    (trained * fixture.cotangent).sum().backward()
    found = {name: leaf.grad for name, leaf in leaves.items()}
    found |= {f"input {i}": x.grad for i, x in enumerate(inputs) if x.is_floating_point()}
    largest = max(float(gradient.abs().max()) for gradient in fixture.gradients.values())
    differences = {
        name: difference(found[name], gradient, floor=largest / 100)
        for name, gradient in fixture.gradients.items()}
    worst = max(differences, key=differences.__getitem__)
    return Agreement(max(difference(output, fixture.output),
                         difference(trained, fixture.training_output)),
                     differences[worst], worst)


def difference(found: Tensor | None, expected: Tensor, floor: float = 0.0) -> float:
    """The largest difference, relative to the largest entry of `expected`, or to the floor."""
    found = torch.zeros_like(expected) if found is None else found.detach()
    return float((found - expected).abs().max()) / max(float(expected.abs().max()), floor)


def require_all(label: str, model: nn.Module, ours: dict[str, Tensor]) -> None:
    """Raise ValueError unless each of our parameters comes from the public model."""
    wanted = {name: tuple(weight.shape) for name, weight in model.named_parameters()}
    given = {name: tuple(weight.shape) for name, weight in ours.items()}
    if wanted != given:
        raise ValueError(f"translate of {label!r} must give every weight of ours its shape; "
                         f"only ours: {sorted(wanted.items() - given.items())}, "
                         f"only translated: {sorted(given.items() - wanted.items())}")
