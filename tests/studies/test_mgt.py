"""The MGT study: matched sizes, what the models keep on the way, and the paper's numbers."""

import math

import pytest
import torch

from geolab.tasks import Text
from geolab.training import Budget
from studies.mgt import (
    STANDARD,
    arrange,
    backbone,
    build,
    deep,
    fixed_size,
    rank_slope,
    ranks,
    seed_by_seed,
    synergy,
)
from studies.papers.configurations import MGT_VARIANTS

TEXT = Text(context=16)
CONFIG = backbone(8, 2, heads=2, max_length=16)


def losses(**arms):
    """Runs of the four arms: a list of last losses each, None for a run that diverged."""
    return [{"model": model, "seed": seed}
            | ({"diverged": True} if loss is None else {"validation_loss": [9.0, loss]})
            for model, values in zip(MGT_VARIANTS, arms.values())
            for seed, loss in enumerate(values)]


def test_synergy_is_what_both_parts_gain_beyond_the_sum_of_what_each_gains():
    found = synergy(losses(standard=[3.0, 3.0], gate=[2.5, 2.75], erase=[2.75, 2.75],
                           full=[2.0, 2.5]))
    assert (found == {"seed 0": 0.25, "seed 1": 0.0, "mean": 0.125,
                      "half width": pytest.approx(12.706 * 0.25 / 2, rel=1e-3)})


def test_a_seed_on_which_an_arm_diverged_has_no_synergy():
    assert (synergy(losses(standard=[3.0, 3.0], gate=[2.5, None], erase=[2.75, 2.5],
                           full=[2.0, 2.0])) == {"seed 0": 0.25})
    assert synergy(losses(standard=[3.0], gate=[2.5])) == {}


def test_a_rank_that_falls_by_a_tenth_a_block_has_the_slope_ln_09():
    runs = [{"model": "a", "seed": seed,
             "measured": {"rank": {"as defined": [start * 0.9**k for k in range(7)]}}}
            for seed, start in enumerate((0.8, 0.4))]
    found = rank_slope(runs + [{"model": "a", "seed": 2, "diverged": True}])["a"]
    assert (found["mean"] == pytest.approx(math.log(0.9), rel=1e-3) and found["half width"] < 1e-6
            and "seed 2" not in found)


def test_an_interval_needs_two_seeds():
    assert (seed_by_seed({3: 1.0}) == {"seed 3": 1.0}
            and "half width" in seed_by_seed({0: 1.0, 1: 2.0}))


def test_a_part_of_the_experiment_is_arranged_too():
    assert set(arrange({"copy": {"runs": []}}, {}, "cpu")) == {"copy"}
    run = {"model": "Standard", "seed": 0, "untrained": {"as defined": [1.0]}}
    found = arrange({"rank": {"runs": [run]}, "ablation": {"runs": losses(standard=[3.0])}}, {},
                    "cpu")
    assert (found["synergy"] == {}
            and found["rank"]["runs"]
            == [{"model": "Standard", "seed": 0, "rank untrained": {"as defined": [1.0]}}])


@pytest.mark.parametrize("parameters, layers", [(1e5, 2), (1e5, 16), (1e7, 12), (2e7, 24)])
def test_models_of_one_size_have_it_within_a_fiftieth_and_keep_their_shape(parameters, layers):
    with torch.device("meta"):
        for make in fixed_size(TEXT, parameters, layers, heads=2, max_length=16).values():
            trunk = make().trunk
            assert (abs(sum(p.numel()
                            for p in trunk.layers.parameters() if p.ndim == 2) / parameters
                            - 1) < 0.02)
            assert abs(trunk.config.hidden / trunk.config.width - 4) < 0.6


def test_a_watched_model_looks_at_each_evaluation_and_its_checkpoint_holds_it():
    arms, tokens = deep(TEXT, CONFIG,
                        Budget(steps=5, evaluate_every=2)), TEXT.sample("validation").inputs[:4]
    model, again = arms["MGT (Full)"](), arms["MGT (Full)"]()
    with torch.no_grad():
        for _ in range(5):   # steps 2, 4 and 5 are evaluated; later looks have no place
            model.train()(tokens)
            model.eval()(tokens)
    assert model.count == len(model.seen) == 3 and (model.seen[..., 0] > 0).all()
    again.load_state_dict(model.state_dict())
    assert torch.equal(again.seen, model.seen)


def test_ranks_are_of_the_states_before_and_after_each_block():
    torch.manual_seed(0)
    found = ranks(TEXT, 4, build(CONFIG, TEXT.vocabulary, STANDARD))
    assert ([len(values) for values in found.values()] == [3, 3, 3]
            and all(1 / 8 <= x <= 1 for x in found["as defined"]))
