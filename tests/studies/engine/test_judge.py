"""What follows from runs: contrasts seed by seed, intervals that hold together, verdicts."""

import math

import pytest

from studies.engine.judge import (
    FAILS,
    HOLDS,
    OPEN,
    STALLED,
    Claim,
    Ends,
    effect,
    ends,
    judge,
    log_loss,
    measured,
)

GAIN = Claim({"additive": 1, "delta": -1})


def runs(**losses):
    """Runs of each arm; None for a seed that diverged."""
    return [{"model": arm, "seed": seed} | ({"diverged": True} if loss is None else
                                            {"validation_loss": [9.0, loss]})
            for arm, values in losses.items() for seed, loss in enumerate(values)]


def comparison(base, **sensitivity):
    return {"runs": base, "sensitivity": {name.replace("_", " "): found
                                          for name, found in sensitivity.items()}}


BETTER = runs(additive=[3.0, 3.1, 3.2, 3.3], delta=[2.5, 2.6, 2.7, 2.81])
WORSE = runs(additive=[2.5, 2.6], delta=[3.0, 3.11])


def test_differences_are_taken_seed_by_seed():
    found = effect(BETTER, GAIN)
    assert found.mean == pytest.approx(0.4975) and found.half < 0.01 and found.seeds == 4
    shuffled = effect(BETTER[:4] + BETTER[:3:-1], GAIN)
    assert shuffled == found


def test_more_claims_at_once_have_wider_intervals():
    halves = [effect(BETTER, GAIN, together).half for together in (1, 2, 20)]
    assert halves == sorted(halves) and halves[0] < halves[1]
    # Student's 0.975 and 0.9875 quantiles with 3 degrees of freedom
    assert halves[1] / halves[0] == pytest.approx(4.1765 / 3.1824, rel=1e-4)


def test_a_claim_that_stands_everywhere_holds_and_its_opposite_fails():
    stands = comparison(BETTER, half_the_steps=BETTER, next_best=BETTER)
    assert judge(stands, GAIN).verdict == HOLDS
    assert judge(stands, Claim({"additive": -1, "delta": 1})).verdict == FAILS
    assert judge(stands, Claim({"additive": 1, "delta": -1}, above=0.6)).verdict == FAILS


def test_a_claim_that_turns_is_open_and_says_where():
    found = judge(comparison(BETTER, half_the_steps=WORSE, twice_the_steps=BETTER), GAIN)
    assert found.verdict == OPEN and found.why == "it turns at half the steps"
    assert found.varied["half the steps"].mean < 0 < found.effect.mean


def test_equal_time_does_not_decide_what_holds_per_step():
    found = judge(comparison(BETTER, equal_time=WORSE), GAIN)
    assert found.verdict == HOLDS and found.varied["equal time"].mean < 0


def test_a_claim_whose_runs_diverge_elsewhere_is_open():
    none = runs(additive=[3.0, 3.1], delta=[None, None])
    found = judge(comparison(BETTER, twice_the_steps=none), GAIN)
    assert found.verdict == OPEN and found.why == "its runs diverge at twice the steps"
    assert judge(comparison(BETTER, equal_time=none), GAIN).verdict == HOLDS


def test_an_arm_that_a_variation_left_out_keeps_its_runs():
    slower = [run for run in WORSE if run["model"] == "delta"]
    found = judge(comparison(BETTER, equal_time=slower), GAIN).varied["equal time"]
    assert found.mean == pytest.approx(-0.005) and found.seeds == 2


def test_an_interval_around_the_border_is_open():
    found = judge(comparison(runs(additive=[3.0, 3.0, 3.0], delta=[2.0, 4.0, 3.1])), GAIN)
    assert found.verdict == OPEN and found.why == "the interval holds the border"


def test_arms_no_better_than_a_simple_predictor_decide_nothing():
    claim = Claim(GAIN.contrast, beats="bigram")
    assert judge(comparison(BETTER), claim, 1, {"bigram": 2.9}).verdict == HOLDS
    found = judge(comparison(BETTER), claim, 1, {"bigram": 2.66})  # by less than 2 %
    assert found.verdict == OPEN and "no arm beats “bigram”" in found.why


def test_a_seed_on_which_an_arm_diverged_is_counted_and_left_out():
    found = effect(runs(additive=[3.0, 3.1, 3.2], delta=[2.5, None, 2.71]), GAIN)
    assert (found.seeds, found.diverged) == (2, 1) and found.mean == pytest.approx(0.495)


def test_ratios_and_measurements_are_quantities_too():
    ratio = effect(runs(additive=[4.0, 8.0], delta=[1.0, 2.0]),
                   Claim(GAIN.contrast, quantity=log_loss))
    assert ratio.mean == pytest.approx(math.log(4)) and ratio.half == pytest.approx(0)
    run = {"measured": {"decay": {"last": 0.5}, "angle": [10.0, 30.0]}}
    assert measured("decay", "last")(run) == 0.5
    assert measured("angle")(run) == 20 and measured("angle", of=max)(run) == 30
    assert measured("decay", "last", log=True)(run) == math.log(0.5)


@pytest.mark.parametrize("factor", [0.1, 1.0, 3.0])
def test_a_spread_is_that_around_the_mean_of_the_seeds(factor):
    around = [-0.3, 0.05, 0.1, -0.15, 0.3]
    arms = runs(additive=[3 + x for x in around], delta=[7 + factor * x for x in around[::-1]])
    found = effect(arms, Claim(GAIN.contrast, spread=True))
    assert found.mean == pytest.approx(-math.log(factor))
    assert effect(arms, GAIN).mean == pytest.approx(-4)


def test_a_run_stalls_above_a_share_of_the_loss_of_predicting_zero():
    arms = runs(additive=[STALLED - 0.01, STALLED + 0.01, None, 5.0], delta=[0.1])
    assert ends(arms, "additive", 1.0) == Ends(4, diverged=1, stalled=2, beat=0)
    assert ends(arms, "additive", 0.1).stalled == 3 and ends(arms, "delta", 1.0).stalled == 0
    assert str(ends(arms, "additive", 1.0)) == "1 of 4 diverged, 2 of 4 stalled"
    assert str(ends(arms, "delta", 1.0)) == ""


def test_a_run_beats_the_simple_predictor_by_a_margin():
    arms = runs(additive=[2.0, 2.65, 2.7, None])
    assert ends(arms, "additive", simple=2.7).beat == 1 and ends(arms, "additive").beat == 0


def test_a_verdict_is_untested_where_nothing_but_equal_time_varied():
    assert judge(comparison(BETTER), GAIN).untested
    assert judge(comparison(BETTER, equal_time=BETTER), GAIN).untested
    assert not judge(comparison(BETTER, next_best=BETTER), GAIN).untested


@pytest.mark.parametrize("left, verdict", [(2, OPEN), (3, HOLDS)])
def test_where_as_many_seeds_diverge_as_are_left_nothing_is_decided(left, verdict):
    lost = runs(additive=[3.0, 3.01, 3.0, 3.0, 3.0][:left + 2],
                delta=[2.5, 2.51, 2.5, 2.5, 2.5][:left] + [None] * 2)
    found = judge(comparison(lost), GAIN)
    assert found.verdict == verdict and (found.effect.seeds, found.effect.diverged) == (left, 2)
    assert (found.why == "an arm diverges on 2 of 4 seeds") == (verdict == OPEN)


def test_a_quantity_that_variations_lack_is_not_looked_for_there():
    claim = Claim({"additive": 1}, quantity=lambda run: run["first"], varies=False)
    base = [{"model": "additive", "seed": k, "validation_loss": [1.0], "first": k}
            for k in range(3)]
    assert judge(comparison(base, next_best=BETTER), claim).varied == {}


def test_a_contrast_of_an_arm_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="contrast names mhc, which has no runs here"):
        effect(BETTER, Claim({"mhc": 1}))
    with pytest.raises(ValueError, match="values must be at least 2 numbers, got 1"):
        effect(runs(additive=[1.0], delta=[1.0]), GAIN)
