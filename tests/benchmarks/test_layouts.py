"""The layouts that are tried: what is stored of them belongs to those that ship now."""


import pytest

from studies.engine.results import FOLDER, read

layouts = pytest.importorskip("benchmarks.layouts")


@pytest.mark.parametrize("name", ["layouts.json", "layouts_sm100.json"])
def test_the_stored_layouts_are_those_that_ship_and_those_that_are_tried(name):
    rows = read(FOLDER / name)["rows"]
    for operator, side in layouts.TRIED:
        own = [row for row in rows if (row["operator"], row["pass"]) == (operator, side)]
        for size in {(row["N"], row["d"]) for row in own}:
            found = [layouts.Layout(**row["layout"]) for row in own
                     if (row["N"], row["d"]) == size]
            assert found == layouts.layouts(operator, side)
        assert [row["ships"] for row in own].count(True) == 2


@pytest.mark.parametrize("name", ["layouts.json", "layouts_sm100.json"])
def test_the_history_of_sinkhorn_that_ships_holds_65536_matrices_at_once(name):
    rows = {row["kept"]: row for row in read(FOLDER / name)["rows"]
            if (row["operator"], row["N"]) == ("sinkhorn", 65536)}
    assert [*rows] == [*layouts.HISTORIES]
    ships = rows[layouts.birkhoff.EVERY]
    assert ships["ships"] and ships["waves"] <= 1 < rows[19]["waves"] and not ships["stack"]
    assert rows[0]["bytes"] > 2 * ships["bytes"]  # a history in memory


def test_a_layout_is_put_back():
    before = layouts.layouts("stream_join", "forward")
    with layouts.laid_out("stream_join", "forward", before[1]):
        assert layouts.layouts("stream_join", "forward")[0] == before[1]
    assert layouts.layouts("stream_join", "forward") == before


def test_longer_tiles_of_tokens_read_w_less_often():
    short, long = (layouts.Layout(tokens, 64, 4) for tokens in (64, 256))
    assert layouts.weights("rms_linear", 8192, 4096, short) == 1  # W is padded to 32 rows
    assert layouts.weights("rms_linear", 8192, 4096, long) == 0.25


def test_a_clock_gets_the_shipped_layout_twice_and_each_tried_one():
    found = layouts.contenders("rms_linear", "backward")
    assert list(found)[:2] == ["kernel", "kernel again"]
    assert len(found) == 2 + len(layouts.TRIED["rms_linear", "backward"])
