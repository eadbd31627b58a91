"""Which models each size of the study trains, and what it measures of them."""

import pytest
import torch
from shared_studies import arm_of

from geolab.probes.shortcut import operators_by_layer
from studies.claims.configurations import CONFIGURATIONS, DDL_CONTROLS, DDL_VARIANTS
from studies.experiments.delta import STUDY


@pytest.fixture(autouse=True)
def no_memory():
    """Parameters have shapes and no numbers: a model of the paper takes half a gigabyte."""
    with torch.device("meta"):
        yield


def trunk(name: str, size: str):
    return arm_of(STUDY, "text", name, size).build().trunk


def shapes(module) -> dict:
    return {name: tuple(p.shape) for name, p in module.named_parameters()}


@pytest.mark.parametrize("name", DDL_VARIANTS)
def test_the_size_paper_trains_the_published_configurations(name):
    ours, published = trunk(name, "paper"), CONFIGURATIONS[f"ddl-small-{name}"].trunk()
    assert ours.config == published.config and shapes(ours) == shapes(published)
    assert ([layer.residual.options for layer in ours.layers]
            == [layer.residual.options for layer in published.layers])


@pytest.mark.parametrize("size", ("cpu", "gpu"))
@pytest.mark.parametrize("name", DDL_VARIANTS)
def test_smaller_sizes_train_the_books_variants(name, size):
    for layer in trunk(name, size).layers:
        assert layer.residual.options == DDL_VARIANTS[name][1]


@pytest.mark.parametrize("size", ("cpu", "paper"))
def test_a_control_has_the_options_of_its_model_and_those_that_leave_something_out(size):
    def options(name: str) -> dict:
        return trunk(name, size).layers[0].residual.options

    assert options("delta, write-only") == options("delta") | {"erase": False}
    for name, without in DDL_CONTROLS.items():
        wanted = options("delta-matrix") | without
        if "beta_fixed" in without:  # nothing reads the context
            wanted.pop("context", None)
        assert options(f"delta-matrix, {name}") == wanted


def test_what_is_measured_is_beta_by_sublayer():
    arm = arm_of(STUDY, "text", "delta")
    with torch.device("cpu"), torch.no_grad():
        model = arm.model(0)
        for p in model.parameters():
            p.add_(torch.randn_like(p))
        found = arm.measure(model)
        layers = operators_by_layer(model, arm.task.sample("validation").inputs[:64])
    means = [layer.beta.mean().item() for layer in layers]
    below = [(layer.beta < 1).double().mean().item() for layer in layers]
    assert found["beta mean"] == pytest.approx(means, abs=1e-4)
    assert found["beta below 1"] == pytest.approx(below, abs=1e-4)
