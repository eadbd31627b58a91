"""JPmHC's two transforms: two steps of the iteration, and the exact one that they approach."""

import torch
from shared_studies import arm_of

from studies.experiments.jpmhc_exact import STUDY


def outputs(name):
    """Of a model whose generator isn't zero, the same for both transforms."""
    arm = arm_of(STUDY, "near_pi_multi", name)
    model = arm.model(0).double()
    for layer in model.trunk.layers:
        torch.nn.init.normal_(layer.residual.generate.weight, std=0.02)
    return model(arm.batch()[0][:2].double())


def test_the_two_transforms_part_where_the_generator_is_large():
    apart = {alpha: (outputs(f"two steps, α = {alpha}")
                     - outputs(f"exact, α = {alpha}")).abs().max().item() for alpha in ("0.1", "2")}
    assert 0 < apart["0.1"] < apart["2"] / 100
