"""The tables' own arithmetic.

A number that follows from others of the same table must follow from them as written down here.
"""

import math

import pytest

from studies.claims import DDL_RENAMED as RENAMED
from studies.claims import SOURCES, TABLES

every_table = pytest.mark.parametrize("key", TABLES)


@every_table
def test_it_says_whence_it_comes(key):
    table = TABLES[key]
    assert table.source in SOURCES
    assert table.number.strip() and table.origin.strip() and table.unit.strip()


# the paper says so itself
NOT_FINITE = {("emhc-appendix-a4", "entropy", "f′(0)"),
              ("emhc-appendix-a4", "min(γ, 1 − γ)²", "f′(½)")}


@every_table
def test_every_row_has_the_same_columns_and_finite_numbers(key):
    rows = TABLES[key].rows
    first = next(iter(rows.values()))
    assert first and all(list(row) == list(first) for row in rows.values())
    for name, column, (mean, deviation) in ((name, column, cell) for name, row in rows.items()
                                            for column, cell in row.items()):
        assert math.isfinite(mean) == ((key, name, column) not in NOT_FINITE)
        assert deviation is None or math.isfinite(deviation) and deviation >= 0


def means(key, row):
    return [mean for mean, _ in TABLES[key].rows[row].values()]


@pytest.mark.parametrize("key, row",
                         [(key, row)
                          for key in ("ddl-table-1", "ddl-table-2", "ddl-table-5", "ddl-table-6",
                                      "ddl-table-2-revised", "ddl-table-8-revised")
                          for row in TABLES[key].rows])
def test_ddl_averages_are_the_means_of_their_tasks(key, row):
    *tasks, average = means(key, row)
    assert len(tasks) == 8
    assert average == pytest.approx(sum(tasks) / 8, abs=0.0051)


@pytest.mark.parametrize("row", TABLES["ddl-table-3-loss"].rows)
def test_ddl_perplexities_are_the_exponentials_of_their_losses(row):
    assert (means("ddl-table-3-perplexity", row)
            == pytest.approx([math.exp(x) for x in means("ddl-table-3-loss", row)], rel=1e-5))


def test_ddl_revised_perplexities_are_the_exponentials_of_losses_of_four_digits():
    assert (means("ddl-table-3-perplexity-revised", "CC-EC")
            == pytest.approx([math.exp(x) for x in means("ddl-table-3-revised", "CC-EC")],
                             rel=1e-4))


@pytest.mark.parametrize("key", ["ddl-efficiency-small", "ddl-efficiency-medium"])
def test_ddl_memory_factors_are_over_the_additive_model(key):
    memory = {row: columns["peak memory"][0] for row, columns in TABLES[key].rows.items()}
    for row, columns in TABLES[key].rows.items():
        assert columns["memory factor"][0] == pytest.approx(memory[row] / memory["additive"],
                                                            abs=0.0051)


def test_every_expanded_model_of_ddl_has_one_name_in_the_revision():
    expanded = set(TABLES["ddl-efficiency-small"].rows) - {"additive", "d_v = 1"}
    assert set(RENAMED) == expanded and len(set(RENAMED.values())) == len(expanded)
    assert "EC" not in RENAMED["EC"] and "EC" not in RENAMED["CC-EC"]  # the revision's default


@pytest.mark.parametrize("row", TABLES["gt-wikitext-103"].rows)
def test_gt_perplexities_are_the_exponentials_of_their_cross_entropies(row):
    cross_entropy, perplexity, *_ = means("gt-wikitext-103", row)
    assert perplexity == pytest.approx(math.exp(cross_entropy), rel=1e-3)


@pytest.mark.parametrize("row", ["gyroscope", "stability"])
def test_emhc_ratios_follow_from_the_losses(row):
    gpt, ddl, *_, emhc = means(f"emhc-table-6-{row}", row)
    assert [round(gpt / emhc, 1), round(ddl / emhc, 1)] == means("emhc-table-6-ratios", row)


@pytest.mark.parametrize("row, key, task", [("stability", "emhc-table-6-stability", "stability"),
                                            ("near π, single", "emhc-table-12", "single"),
                                            ("near π, multi", "emhc-table-12", "multi")])
def test_emhc_leads_over_jpmhc_follow_from_the_losses(row, key, task):
    *_, jpmhc, emhc = means(key, task)
    assert [round(jpmhc / emhc, 1)] == means("emhc-ratios-jpmhc", row)


@pytest.mark.parametrize("row", TABLES["emhc-table-8"].rows)
def test_emhc_final_gates_are_zeros_and_ones_among_twelve(row):
    mean, deviation = TABLES["emhc-table-8"].rows[row]["γ at end"]
    share = round(12 * mean) / 12
    assert (mean, deviation) == pytest.approx((share, (share * (1 - share)) ** 0.5), abs=5.1e-4)


@pytest.mark.parametrize("row, dim", [("gyroscope", 16), ("stability", 64)])
def test_emhc_stands_still_at_the_loss_of_predicting_zero(row, dim):
    assert means("emhc-figure-training-plateau", row)[0] == pytest.approx(1 / dim, rel=0.05)


def test_the_readme_and_figure_6_agree_on_jpmhc():
    assert means("emhc-table-7-jpmhc", "JPmHC") == means("emhc-figure-6", "JPmHC")[-1:]


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


@pytest.mark.parametrize("row", TABLES["jpmhc-arc"].rows)
def test_more_attempts_pass_more_often(row):
    exact, *passed, _ = means("jpmhc-arc", row)
    assert sorted(passed) == passed and exact < passed[0]
