"""The tables' own arithmetic: what follows from other numbers of the same table must follow from them as written down here."""

import math

import pytest

from geolab.papers import SOURCES, TABLES
from geolab.papers.tables.table import grid

every_table = pytest.mark.parametrize("key", TABLES)


@every_table
def test_it_says_whence_it_comes(key):
    table = TABLES[key]
    assert table.source in SOURCES
    assert table.number.strip() and table.origin.strip() and table.unit.strip()


@every_table
def test_every_row_has_the_same_columns_and_finite_numbers(key):
    rows = list(TABLES[key].rows.values())
    assert rows and rows[0] and all(list(row) == list(rows[0]) for row in rows)
    for mean, deviation in (cell for row in rows for cell in row.values()):
        assert math.isfinite(mean) and (deviation is None or math.isfinite(deviation) and deviation >= 0)


def means(key, row):
    return [mean for mean, _ in TABLES[key].rows[row].values()]


@pytest.mark.parametrize("key, row", [(key, row) for key in ("ddl-table-1", "ddl-table-2", "ddl-table-5", "ddl-table-6")
                                      for row in TABLES[key].rows])
def test_ddl_averages_are_the_means_of_their_tasks(key, row):
    *tasks, average = means(key, row)
    assert len(tasks) == 8
    assert average == pytest.approx(sum(tasks) / 8, abs=0.0051)


@pytest.mark.parametrize("row", TABLES["ddl-table-3-loss"].rows)
def test_ddl_perplexities_are_the_exponentials_of_their_losses(row):
    assert means("ddl-table-3-perplexity", row) == pytest.approx([math.exp(x) for x in means("ddl-table-3-loss", row)], rel=1e-5)


@pytest.mark.parametrize("row", TABLES["gt-wikitext-103"].rows)
def test_gt_perplexities_are_the_exponentials_of_their_cross_entropies(row):
    cross_entropy, perplexity, *_ = means("gt-wikitext-103", row)
    assert perplexity == pytest.approx(math.exp(cross_entropy), rel=1e-3)


@pytest.mark.parametrize("row", ["gyroscope", "stability"])
def test_emhc_ratios_follow_from_the_losses(row):
    gpt, ddl, *_, emhc = means(f"emhc-table-6-{row}", row)
    assert [round(gpt / emhc, 1), round(ddl / emhc, 1)] == means("emhc-table-6-ratios", row)


@pytest.mark.parametrize("row", TABLES["jpmhc-arc"].rows)
def test_more_attempts_pass_more_often(row):
    exact, *passed, _ = means("jpmhc-arc", row)
    assert sorted(passed) == passed and exact < passed[0]


def test_a_grid_reads_means_deviations_and_a_scale():
    assert grid("a, b c", {"row": "1 -.5±.25"}, scale=2.0) == {"row": {"a": (2.0, None), "b c": (-1.0, 0.5)}}


@pytest.mark.parametrize("cells", ["1", "1 2 3", "1 x"])
def test_a_grid_refuses_a_row_that_does_not_fit(cells):
    with pytest.raises(ValueError):
        grid("a, b", {"row": cells})
