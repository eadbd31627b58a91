"""The search of `real_training`: both rates until the best one lies inside."""

from collections.abc import Callable

import pytest

from studies.experiments.real_training import FIRST_NEW, NEW, OLD, SEEDS, STEPS, inside, parts


def made(losses: Callable[[int, int], float]) -> dict:
    """All runs that the study asks for, with these losses."""
    found: dict = {}
    while missing := [key for key in parts(found) if key not in found]:
        for key in missing:
            kind, _, *rates = key.split("/")
            found[key] = {"loss": {str(STEPS): losses(*map(int, rates)) if kind == "search"
                                   else 0.0}}
    return found


def test_an_optimum_inside_costs_no_further_run():
    found = made(lambda old, new: (old + 8) ** 2 + (new + 5) ** 2)
    of_mhc = [key for key in found if key.startswith("search/mhc")]
    assert len(of_mhc) == len(OLD) + len(NEW) - 1
    assert f"search/mhc/-8/{FIRST_NEW}" in of_mhc and "search/mhc/-8/-5" in of_mhc
    assert len([key for key in found if key.startswith("report/plain")]) == len(SEEDS)


@pytest.mark.parametrize("best", [OLD[0] - 1, OLD[-1] + 2])
def test_an_edge_is_searched_further(best):
    found = made(lambda old, new: (old - best) ** 2 + (new + 5) ** 2)
    olds = sorted({int(key.split("/")[2]) for key in found if key.startswith("search/plain")})
    assert olds[0] < best < olds[-1]


def test_the_rates_of_a_line_end_once_the_best_is_inside():
    assert inside({}, (1, 2)) == [1, 2]
    assert inside({1: 0.0, 2: 1.0}, (1, 2)) == [1, 2, 0]
    assert sorted(inside({0: 1.0, 1: 0.0, 2: 1.0}, (1, 2))) == [0, 1, 2]
