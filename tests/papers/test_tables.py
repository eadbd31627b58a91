import math

import pytest

from geolab.papers import SOURCES, TABLES


@pytest.mark.parametrize("key", TABLES)
class TestTable:
    def test_it_says_whence_it_comes(self, key):
        table = TABLES[key]
        assert table.source in SOURCES
        assert table.number.strip() and table.origin.strip() and table.unit.strip()

    def test_every_number_is_finite(self, key):
        rows = TABLES[key].rows
        assert rows and all(rows.values())
        for columns in rows.values():
            for mean, deviation in columns.values():
                assert math.isfinite(mean)
                assert deviation is None or (math.isfinite(deviation) and deviation >= 0)
