"""Which models the size of the paper trains, and what is measured of them."""

import pytest
import torch
from shared_studies import arm_of

from geolab.probes.shortcut import operators_by_layer
from studies.claims.configurations import CONFIGURATIONS, DDL_VARIANTS
from studies.experiments import delta_medium
from studies.experiments.delta import STUDY


@pytest.mark.parametrize("name", DDL_VARIANTS)
@pytest.mark.parametrize("study, size", [(STUDY, "small"), (delta_medium.STUDY, "medium")])
def test_the_size_paper_trains_the_published_configurations(study, size, name):
    with torch.device("meta"):  # a model of the paper takes half a gigabyte, or more than one
        ours = arm_of(study, "text", name, "paper").build().trunk
        published = CONFIGURATIONS[f"ddl-{size}-{name}"].trunk()
    assert ours.config == published.config and repr(ours) == repr(published)


def test_what_is_measured_is_beta_by_sublayer():
    arm = arm_of(STUDY, "text", "delta")
    model = arm.model(0)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p))
        found = arm.measure(model)
        layers = operators_by_layer(model, arm.task.sample("validation").inputs[:64])
    means = [layer.beta.mean().item() for layer in layers]
    below = [(layer.beta < 1).double().mean().item() for layer in layers]
    assert found["beta mean"] == pytest.approx(means, abs=1e-4)
    assert found["beta below 1"] == pytest.approx(below, abs=1e-4)
