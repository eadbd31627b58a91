"""The lecture's published models, at their sizes, and which of them read ahead."""

import pytest
import torch
from shared_studies import count

from geolab.probes import future_influence
from studies.claims import SOURCES
from studies.parity.lecture_models import LECTURE

LANGUAGE = [key for key, published in LECTURE.items() if "vocabulary" in published.sizes]
AHEAD = {"leakage-gt", "words-gt", "treebank-full"}
COUNTS = {   # on the notebooks' own classes
    "words-transformer": 2_966_800, "words-gt": 3_065_872, "treebank-transformer": 1_323_600,
    "treebank-full": 1_986_448, "sudoku-transformer": 100_740, "sudoku-gt": 125_700,
    "leakage-transformer": 62_336, "leakage-gt": 62_720, "nodes": 6_818}


def small(key):
    torch.manual_seed(0)
    narrow = {"vocabulary": 11, "width": 8, "heads": 2, "hidden": 12, "max_length": 9, "layers": 1}
    known = {name: value for name, value in narrow.items() if name in LECTURE[key].sizes}
    return LECTURE[key].model(**known).double().eval()


@pytest.mark.parametrize("key", LECTURE)
def test_every_model_can_be_made_at_its_published_size(key):
    published = LECTURE[key]
    with torch.device("meta"):   # shapes, no numbers
        model = published.model()
    config = getattr(model, "config", None) or getattr(getattr(model, "trunk", None), "config",
                                                       None)
    assert published.source in SOURCES and published.number
    assert config is None or config.width == published.sizes["width"]
    assert COUNTS.get(key, count(model)) == count(model)


@pytest.mark.parametrize("key", LANGUAGE)
def test_the_language_models_read_ahead_where_they_say_so(key):
    model = small(key)
    ahead = future_influence(model, torch.randint(11, (1, 7)))
    assert ahead > 1e-6 if key in AHEAD else ahead == 0
    assert any(getattr(part, "leaks", False) for part in (model, getattr(model, "trunk", None))
               ) == (key in AHEAD)
