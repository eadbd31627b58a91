"""The MGT studies: matched sizes, what the models keep on the way, and the paper's numbers."""

import math

import pytest
import torch
from shared_studies import count

from geolab.tasks import Text
from geolab.training import Budget
from studies.claims.configurations import MGT_VARIANTS
from studies.experiments import mgt_ablation
from studies.experiments.mgt import MGT, backbone, build
from studies.experiments.mgt_depth import fixed_size
from studies.experiments.mgt_rank import decay, deep, profile

TEXT = Text(context=16)
CONFIG = backbone(8, 2, heads=2, max_length=16)


def test_the_wide_standard_model_has_as_many_weights_as_mgt():
    with torch.device("meta"):
        models = mgt_ablation.models(TEXT, backbone(48, 4, heads=2, max_length=64))
        sizes = {name: count(make().trunk) for name, make in models.items()}
    full = sizes["MGT (Full)"]
    assert sizes["Standard, MLP 6D"] == pytest.approx(full, rel=0.02)
    assert sizes["MGT, β per token"] == sizes["MGT, projection"] == full


def test_each_of_the_papers_arms_has_a_twin_with_post_norm_and_alpha_where_it_erases():
    models = mgt_ablation.models(TEXT, CONFIG)
    for name in MGT_VARIANTS:
        pre, post = models[name]().trunk, models[f"{name}, post-LN"]().trunk
        assert (pre.config.norm_at, post.config.norm_at) == ("pre", "post")
        assert pre.layers[0].residual.options == post.layers[0].residual.options
    found = {name: mgt_ablation.alphas(make())["alpha"] for name, make in models.items()}
    assert found["MGT (Full)"] == found["MGT, β per token"] == [0.0] * 4
    assert found["MGT, projection"] == [1.0] * 4
    assert found["Standard"] == found["LayerScale"] == found["mHC × delta"] == found["delta"] == []


def test_a_rank_that_falls_by_a_tenth_a_block_has_the_slope_ln_09():
    found = decay([0.8 * 0.9**k for k in range(7)])
    assert found == pytest.approx({
        "slope": math.log(0.9), "last": 0.8 * 0.9**6, "largest rise": 0.9,
        "ratio": 0.9**5}, rel=1e-3)  # of the last block to the first
    assert decay([0.5, 0.25, 0.375, 0.125])["largest rise"] == 1.5  # one block that rises


def test_a_profile_has_beta_and_alpha_where_a_model_notes_them():
    standard, full = (deep(TEXT, CONFIG, Budget(steps=5))[name]()
                      for name in ("Standard", "MGT (Full)"))
    noted = "beta mean, std, share below, alpha"
    assert noted not in profile(TEXT, 4, standard)
    assert profile(TEXT, 4, full)[noted] == []
    with torch.no_grad():
        full.train()(TEXT.sample("validation").inputs[:4])
        full.eval()(TEXT.sample("validation").inputs[:4])
    found = profile(TEXT, 4, full)
    torch.testing.assert_close(torch.tensor(found[noted]).double(), full.seen, rtol=0, atol=1e-4)
    assert found["decay"] == decay(found["rank"]["as defined"])


def test_a_signed_beta_starts_at_zero():
    model = deep(TEXT, CONFIG, Budget())["MGT, β in (−1, 1)"]()
    state = torch.randn(2, 5, 8)
    assert (model.trunk.layers[0].residual.coefficients(state).beta == 0).all()
    ours = build(CONFIG, TEXT.vocabulary, MGT).trunk.layers[0].residual
    assert (ours.coefficients(state).beta == 1).all()


@pytest.mark.parametrize("parameters, layers", [(1e5, 2), (1e5, 16), (2e7, 24)])
def test_models_of_one_size_have_it_within_a_fiftieth_and_keep_their_shape(parameters, layers):
    with torch.device("meta"):
        for make in fixed_size(TEXT, parameters, layers, heads=2, max_length=16).values():
            trunk = make().trunk
            matrices = sum(p.numel() for p in trunk.layers.parameters() if p.ndim == 2)
            assert abs(matrices / parameters - 1) < 0.02
            assert abs(trunk.config.hidden / trunk.config.width - 4) < 0.6
