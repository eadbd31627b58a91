"""The data sets of the papers: a change of one number in a generator shows here."""

import hashlib

import pytest

from geolab.tasks import (Copy, Denoising, Echo, Gyroscope, Moons, NearPi, Negation, RandomTokens, Reflection, Sudoku,
                          Words)

# mean and second moment of the validation inputs, and a hash of the first sequence to three decimals
PUBLISHED = {
    "gyroscope": (Gyroscope(), 0.0014268851, 0.0625, "5a7a05f4a842875c"),
    "echo": (Echo(), -0.0018467874, 0.0156258643, "ebed4ca25e3de570"),
    "walking echo": (Echo(noise=0.1, drift=0.03), 0.00246701518, 0.08002239364, "c47e78bd91b4dcbd"),
    "walking echo, own drifts": (Echo(noise=0.1, drift=0.02, per_sequence=True), 0.008967317044, 0.414636419, "389c3655455e81d0"),
    "near-pi single": (NearPi(), 0.00036201508, 0.015625, "7d5c0f71cf619b74"),
    "near-pi multi": (NearPi.multi(), 2.308967e-06, 0.015625, "9dfc05efe76b3e8b"),
    "negation": (Negation(), -0.0071901828, 0.9982225476, "86af00ade1b49aa8"),
    "copy": (Copy(), 32.572125, 1423.4788125, "d53188bcf7d251e7"),
    "reflection": (Reflection(), -0.00087793704, 0.993930964, "cd3d704c981c378d"),
    "moons": (Moons(), 0.3731807037, 0.6927337467, "45a2eda78424001a"),
    "sudoku": (Sudoku(), 0.3, 0.3, "2995598c34f62294"),
    "sudoku by grid": (Sudoku(split="by grid"), 0.3, 0.3, "5ffd2a156a68ef8d"),
    "random tokens": (RandomTokens(), 31.65158333, 1343.963833, "45ae68a2d896b86d"),
    "words": (Words(), 157.0499387, 143428.1955, "2a16efb54692eaa8"),
    "denoising": (Denoising(), 0.1645499731, 0.5872315657, "80fdd2738036c382"),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_data_are_the_published_ones(name):
    task, mean, second_moment, digest = PUBLISHED[name]
    x = task.sample("validation").inputs.double()
    assert x.mean().item() == pytest.approx(mean, rel=1e-4, abs=1e-9)
    assert x.square().mean().item() == pytest.approx(second_moment, rel=1e-6)
    first = (1000 * x[0]).round().int().numpy().astype("<i4")
    assert hashlib.sha256(first.tobytes()).hexdigest()[:16] == digest


# losses of trivial predictors, to the digits that were measured on the papers' own data
SCORES = {
    "gyroscope": {"zero": "6.25e-02", "copy the input": "1.180e-02", "least squares": "1.109e-02", "AR(2)": "1.030e-02",
                  "exact extrapolator": "4.6e-05"},
    "echo": {"zero": "1.5626e-02", "copy the input": "1.9986e-06", "running mean": "1.0427e-06"},
    "near-pi single": {"zero": "1.56e-02", "copy the input": "2.13e-03", "negate the input": "6.04e-02",
                       "negate coordinates 0 and 1": "9.23e-07", "copy the input before": "3.7e-06"},
    "near-pi multi": {"negate the input": "3.96e-08", "copy the input before": "1.6e-07"},
}


@pytest.mark.parametrize("name", SCORES)
def test_trivial_predictors_score_what_they_score_on_the_published_data(name):
    baselines = PUBLISHED[name][0].baselines()
    for predictor, loss in SCORES[name].items():
        decimals = loss.index("e") - 2
        assert f"{baselines[predictor]:.{decimals}e}" == loss, predictor
    if name.startswith("near-pi"):
        assert baselines["least squares"] < 1e-16
    if name == "gyroscope":  # over all positions; 0.00745 is the mean over those with three inputs
        assert baselines["AR(3)"] == pytest.approx(0.007472, abs=5e-7)
