"""What follows from runs: contrasts seed by seed, intervals that hold together, verdicts."""

import math

import pytest

from studies.engine.judge import (
    FAILS,
    HOLDS,
    OPEN,
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
LOST = runs(additive=[3.0, 3.1], delta=[None, None])
EDGE = "the interval holds the border"
VERDICTS = {
    "it stands everywhere": (comparison(BETTER, half_the_steps=BETTER, next_best=BETTER), GAIN,
                             HOLDS, ""),
    "its opposite": (comparison(BETTER), Claim({"additive": -1, "delta": 1}), FAILS, ""),
    "a higher border": (comparison(BETTER), Claim(GAIN.contrast, above=0.6), FAILS, ""),
    "it turns": (comparison(BETTER, half_the_steps=WORSE, twice_the_steps=BETTER), GAIN, OPEN,
                 "it turns at half the steps"),
    "it turns on another text": (comparison(BETTER, next_best=BETTER, two_texts=WORSE), GAIN, OPEN,
                                 "it turns at a text that selected no setting"),
    "it turns at equal time": (comparison(BETTER, equal_time=WORSE), GAIN, HOLDS, ""),
    "runs diverge": (comparison(BETTER, twice_the_steps=LOST), GAIN, OPEN,
                     "its runs diverge at twice the steps"),
    "runs diverge at equal time": (comparison(BETTER, equal_time=LOST), GAIN, HOLDS, ""),
    "around the border": (comparison(runs(additive=[3.0, 3.0, 3.0], delta=[2.0, 4.0, 3.1])), GAIN,
                          OPEN, EDGE),
    "on the border": (comparison(runs(additive=[3.0, 3.0], delta=[2.5, 2.5])),
                      Claim(GAIN.contrast, above=0.5), OPEN, EDGE),
    "as many seeds diverge": (comparison(runs(additive=[3.0, 3.01, 3.0, 3.0],
                                              delta=[2.5, 2.51, None, None])), GAIN, OPEN,
                              "an arm diverges on 2 of 4 seeds"),
    "fewer seeds diverge": (comparison(runs(additive=[3.0, 3.01, 3.0, 3.0, 3.0],
                                            delta=[2.5, 2.51, 2.5, None, None])), GAIN, HOLDS, ""),
    "it beats a simple predictor": (comparison(BETTER), Claim(GAIN.contrast, beats="unigram"),
                                    HOLDS, ""),
    "by less than 2 %": (comparison(BETTER), Claim(GAIN.contrast, beats="bigram"), OPEN,
                         "no arm beats “bigram”, so it decides nothing")}


@pytest.mark.parametrize("case", VERDICTS)
def test_a_verdict_and_its_reason(case):
    *asked, verdict, why = VERDICTS[case]
    found = judge(*asked, 1, {"unigram": 2.9, "bigram": 2.66})
    assert (found.verdict, found.why) == (verdict, why)


def test_differences_are_taken_seed_by_seed_and_seeds_that_diverged_are_left_out():
    found = effect(BETTER, GAIN)
    assert found.mean == pytest.approx(0.4975) and found.half < 0.01 and found.seeds == 4
    assert effect(BETTER[:4] + BETTER[:3:-1], GAIN) == found  # in another order
    found = effect(runs(additive=[3.0, 3.1, 3.2], delta=[2.5, None, 2.71]), GAIN)
    assert (found.seeds, found.diverged) == (2, 1) and found.mean == pytest.approx(0.495)


def test_more_claims_at_once_have_wider_intervals():
    one, both = (judge(comparison(BETTER), GAIN, together).effect.half for together in (1, 2))
    # Student's 0.975 and 0.9875 quantiles with 3 degrees of freedom
    assert both / one == pytest.approx(4.1765 / 3.1824, rel=1e-4)


def test_a_variation_has_its_own_effect_and_equal_time_alone_leaves_a_verdict_untested():
    slower = [run for run in WORSE if run["model"] == "delta"]
    found = judge(comparison(BETTER, equal_time=slower, half_the_steps=WORSE), GAIN)
    # an arm that a variation leaves alone has its other runs there
    assert found.varied["equal time"].mean == pytest.approx(-0.005)
    assert found.varied["equal time"].seeds == 2
    assert found.varied["half the steps"].mean == pytest.approx(-0.505) and not found.untested
    assert found.lacks == ("the next-best settings", "twice the steps")
    assert judge(comparison(BETTER), GAIN).untested
    assert judge(comparison(BETTER, equal_time=BETTER), GAIN).untested
    assert judge(comparison(BETTER, two_texts=BETTER), GAIN).untested
    # runs that diverge were made, and open the verdict
    assert judge(comparison(BETTER, next_best=LOST), GAIN).lacks == ("half the steps",
                                                                     "twice the steps")
    fixed = Claim(GAIN.contrast, varies=False)
    assert judge(comparison(BETTER, next_best=BETTER), fixed).varied == {}


def test_ratios_and_measurements_are_quantities_too():
    ratio = effect(runs(additive=[4.0, 8.0], delta=[1.0, 2.0]),
                   Claim(GAIN.contrast, quantity=log_loss))
    assert ratio.mean == pytest.approx(math.log(4)) and ratio.half == pytest.approx(0)
    run = {"measured": {"decay": {"last": 0.5}, "angle": [10.0, 30.0]}}
    assert measured("decay", "last")(run) == 0.5
    assert measured("angle")(run) == 20 and measured("angle", of=max)(run) == 30
    assert measured("decay", "last", log=True)(run) == math.log(0.5)


@pytest.mark.parametrize("factor", [0.1, 3.0])
def test_a_spread_is_that_around_the_mean_of_the_seeds(factor):
    around = [-0.3, 0.05, 0.1, -0.15, 0.3]
    arms = runs(additive=[3 + x for x in around], delta=[7 + factor * x for x in around[::-1]])
    found = effect(arms, Claim(GAIN.contrast, spread=True))
    assert found.mean == pytest.approx(-math.log(factor))


def test_a_run_stalls_above_a_share_of_the_loss_of_predicting_zero_and_beats_by_a_margin():
    arms = runs(additive=[0.29, 0.31, None, 5.0], delta=[0.1])
    assert ends(arms, "additive", 1.0) == Ends(4, diverged=1, stalled=2, beat=0)
    assert str(ends(arms, "additive", 1.0)) == "1 of 4 diverged, 2 of 4 stalled"
    assert ends(arms, "additive", 0.1).stalled == 3 and str(ends(arms, "delta", 1.0)) == ""
    arms = runs(additive=[2.64, 2.65, 2.7, None])   # 2 % below 2.7 are 2.646
    assert ends(arms, "additive", simple=2.7).beat == 1 and ends(arms, "additive").beat == 0
