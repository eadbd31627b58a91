"""What weight decay reaches: matrices that multiply features, and no other weight of a residual."""

import pytest
import torch
from shared import FORMS, stack
from torch import nn

from geolab.models import TokenModel, Transformer
from geolab.models import TransformerConfig as Config
from geolab.residuals import Residual, decaying
from geolab.tasks import RandomTokens
from geolab.training import Budget, fit
from studies.engine.decay import every_matrix_decays

every_form = pytest.mark.parametrize("name, options", FORMS)
TABLES = ("kernel", "expander.weight", "entry.weight", "exit.weight", "norm.weight",
          "static.weight")


@every_form
def test_what_decays_is_a_matrix_that_multiplies_features(name, options):
    made = stack(name, **options)
    names, parameters = decaying(made), dict(made.named_parameters())
    assert names <= parameters.keys()
    for key, p in parameters.items():
        matrix = p.ndim >= 2 and not key.endswith(TABLES)
        assert (key in names) == matrix, key


def test_outside_of_residuals_all_that_has_two_axes_decays():
    model = TokenModel(Transformer(Config.benchmark(width=16, layers=1, heads=2), "jpmhc"), 9)
    names = decaying(model)
    assert {"embedding.weight", "trunk.position", "trunk.layers.0.mix.qkv.weight"} <= names
    assert "trunk.layers.0.residual.entry.weight" not in names
    assert "trunk.layers.0.norm.weight" not in names


def test_a_residual_of_one_s_own_says_what_decays():
    class Own(Residual):
        decayed = ("map",)

        def __init__(self, width, index=0, count=1):
            super().__init__(width, index, count)
            self.map, self.table = (nn.Parameter(torch.ones(width, width)) for _ in range(2))
            self.inner = nn.Linear(width, width)

        def forward(self, state, sublayer):
            return state

    names = decaying(nn.Sequential(Own(4), nn.Linear(4, 4)))
    assert names == {"0.map", "0.inner.weight", "1.weight"}
    assert decaying(Own(4)) == {"map", "inner.weight"}


# ---------------------------------------------------------------- in training

class Still(RandomTokens):
    """A loss that no weight moves, so that decay alone does."""

    def loss(self, prediction, target):
        return 0 * prediction.sum()


def shrunk(model):
    """The names of the parameters that become shorter in two steps."""
    before = {key: p.detach().clone() for key, p in model.named_parameters()}
    fit(model, Still(length=4, vocabulary=8, train=8, validation=2),
        Budget(steps=2, batch=2, warmup=0, lr=0.1), progress=False)
    ratio = {key: p.norm() / before[key].norm() for key, p in model.named_parameters()}
    assert all(r < 0.999 or r == 1 or r.isnan() for r in ratio.values())
    return {key for key, r in ratio.items() if r < 0.999}


@pytest.mark.parametrize("name, options", [
    ("jpmhc", {}), ("delta-matrix", {"expand": "conv"}),
    ("emhc-hybrid", {"nets": "separate", "penalty": 0.0})])
def test_fit_shrinks_what_decays_and_a_study_may_shrink_all_matrices(name, options):
    def model():
        torch.manual_seed(0)
        return TokenModel(Transformer(Config(width=16, layers=1, heads=2), name, **options), 8)

    one, matrices = model(), {key for key, p in model().named_parameters() if p.ndim >= 2}
    zero = {key for key, p in one.named_parameters() if not p.any()}
    wanted = decaying(one)
    assert shrunk(one) == wanted - zero
    assert wanted == matrices or name != "emhc-hybrid"
    assert shrunk(every_matrix_decays(model())) == matrices - zero
