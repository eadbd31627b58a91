"""The search of `real_training`: two rates, until the best pair has worse neighbours."""

import pytest

from studies.experiments.real_training import ARMS, SEEDS, START, STEPS, parts, search, searched


def made(best: tuple[int, int]) -> dict:
    """All runs that the study asks for, on a bowl whose lowest point is `best`."""
    found: dict = {}
    while missing := [key for key in parts(found) if key not in found]:
        for key in missing:
            kind, _, *rates = key.split("/")
            found[key] = {"loss": {str(STEPS): 0.0}}
            if kind == "search":
                old, new = map(int, rates)
                found[key]["loss"][str(STEPS)] = (old - best[0]) ** 2 + (new - best[1]) ** 2
    return found


@pytest.mark.parametrize("best", [START["mhc"], (-9, -4), (-6, -6)])
def test_the_search_ends_where_all_neighbours_are_worse(best):
    found = made(best)
    for arm, (residual, _) in ARMS.items():
        missing, rates = search(arm, found)
        assert not missing
        assert rates == (best if residual else (best[0], START[arm][1]))
        assert len([key for key in found if key.startswith(f"report/{arm}/")]) == len(SEEDS)
    if best == START["mhc"]:  # then it costs the neighbours alone
        assert len(searched("mhc", found)) == 5 and len(searched("plain", found)) == 3
