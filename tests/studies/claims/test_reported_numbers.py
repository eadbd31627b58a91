"""The tables' own arithmetic.

A number that follows from others of the same table must follow from them as written down here.
Chapters 9 and 10 assert those of table 8 of E-MHC-Geo, and of the plateaus of its training.
"""

import math

import pytest

from studies.claims import DDL_RENAMED as RENAMED
from studies.claims import SOURCES, TABLES

# the paper says so itself
NOT_FINITE = {("emhc-appendix-a4", "entropy", "f′(0)"),
              ("emhc-appendix-a4", "min(γ, 1 − γ)²", "f′(½)")}


@pytest.mark.parametrize("key", TABLES)
def test_it_says_whence_it_comes_and_every_row_has_the_same_columns_and_finite_numbers(key):
    table, rows = TABLES[key], TABLES[key].rows
    assert table.source in SOURCES
    assert table.number.strip() and table.origin.strip() and table.unit.strip()
    first = next(iter(rows.values()))
    assert first and all(list(row) == list(first) for row in rows.values())
    for name, column, (mean, deviation) in ((name, column, cell) for name, row in rows.items()
                                            for column, cell in row.items()):
        assert math.isfinite(mean) == ((key, name, column) not in NOT_FINITE)
        assert deviation is None or math.isfinite(deviation) and deviation >= 0


def means(key, row):
    return [mean for mean, _ in TABLES[key].rows[row].values()]


def exponentials(key, row):
    return [math.exp(loss) for loss in means(key, row)]


def derived():
    """(a name, printed numbers, the numbers that they follow from, how closely)."""
    for key in ("ddl-table-1", "ddl-table-2", "ddl-table-5", "ddl-table-6", "ddl-table-2-revised",
                "ddl-table-8-revised"):
        for row in TABLES[key].rows:
            *tasks, average = means(key, row)
            yield f"{key}, average of {row}", average, sum(tasks) / 8, {"abs": 0.0051}
    for row in TABLES["ddl-table-3-loss"].rows:
        yield (f"perplexities of {row}", means("ddl-table-3-perplexity", row),
               exponentials("ddl-table-3-loss", row), {"rel": 1e-5})
    yield ("revised perplexities", means("ddl-table-3-perplexity-revised", "CC-EC"),
           exponentials("ddl-table-3-revised", "CC-EC"), {"rel": 1e-4})
    for key in ("ddl-efficiency-small", "ddl-efficiency-medium"):
        additive, _ = TABLES[key].rows["additive"]["peak memory"]
        for row, columns in TABLES[key].rows.items():
            yield (f"{key}, memory of {row}", columns["memory factor"][0],
                   columns["peak memory"][0] / additive, {"abs": 0.0051})
    for row in TABLES["gt-wikitext-103"].rows:
        cross_entropy, perplexity, *_ = means("gt-wikitext-103", row)
        yield f"perplexity of {row}", perplexity, math.exp(cross_entropy), {"rel": 1e-3}
    for row in ("gyroscope", "stability"):
        gpt, ddl, *_, emhc = means(f"emhc-table-6-{row}", row)
        yield (f"ratios of {row}", means("emhc-table-6-ratios", row),
               [round(gpt / emhc, 1), round(ddl / emhc, 1)], {})
    for row, key, task in (("stability", "emhc-table-6-stability", "stability"),
                           ("near π, single", "emhc-table-12", "single"),
                           ("near π, multi", "emhc-table-12", "multi")):
        *_, jpmhc, emhc = means(key, task)
        yield f"lead at {row}", means("emhc-ratios-jpmhc", row), [round(jpmhc / emhc, 1)], {}
    yield ("figure 6", means("emhc-table-7-jpmhc", "JPmHC"),
           means("emhc-figure-6", "JPmHC")[-1:], {})


@pytest.mark.parametrize("printed, expected, closely", [
    pytest.param(*numbers, id=name) for name, *numbers in derived()])
def test_a_number_follows_from_others(printed, expected, closely):
    assert printed == pytest.approx(expected, **closely)


def test_more_attempts_at_a_puzzle_pass_more_often():
    for row in TABLES["jpmhc-arc"].rows:
        exact, *passed, _ = means("jpmhc-arc", row)
        assert sorted(passed) == passed and exact < passed[0]


def test_every_expanded_model_of_ddl_has_one_name_in_the_revision():
    expanded = set(TABLES["ddl-efficiency-small"].rows) - {"additive", "d_v = 1"}
    assert set(RENAMED) == expanded and len(set(RENAMED.values())) == len(expanded)
    assert "EC" not in RENAMED["EC"] and "EC" not in RENAMED["CC-EC"]  # the revision's default


def entropy(gate):
    return -sum(p * math.log(p) for p in (gate, 1 - gate) if p)


@pytest.mark.parametrize("row, f", [("4γ(1 − γ)", lambda g: 4 * g * (1 - g)), ("entropy", entropy),
                                    ("[γ(1 − γ)]²", lambda g: (g * (1 - g)) ** 2),
                                    ("min(γ, 1 − γ)²", lambda g: min(g, 1 - g) ** 2)])
def test_emhc_regularisers_have_the_values_and_slopes_of_appendix_a4(row, f):
    def slope(gate, step):
        return (f(gate + step) - f(gate)) / step

    middle, slope_there, slope_at_end = means("emhc-appendix-a4", row)
    assert middle == pytest.approx(f(0.5), abs=0.005)
    before, after = slope(0.5, -1e-6), slope(0.5, 1e-6)
    if math.isnan(slope_there):  # a kink
        assert before > 0.9 and after < -0.9
    else:
        assert (before, after) == pytest.approx((slope_there, slope_there), abs=1e-5)
    if math.isinf(slope_at_end):  # it grows without end, like −log of the step
        assert slope(0, 1e-12) - slope(0, 1e-6) == pytest.approx(6 * math.log(10), abs=0.01)
    else:
        assert slope(0, 1e-6) == pytest.approx(slope_at_end, abs=1e-4)
