"""The lecture's published models: at their sizes, with what is known of them."""

import pytest
import torch
from torch.testing import assert_close

from geolab.probes import future_influence, influence
from studies.claims import SOURCES
from studies.parity.lecture_models import LECTURE, skip_graph

LANGUAGE = [key for key, published in LECTURE.items() if "vocabulary" in published.sizes]
AHEAD = {"leakage-gt", "words-gt", "treebank-full"}


def small(key, **sizes):
    torch.manual_seed(0)
    narrow = {"vocabulary": 11, "width": 8, "heads": 2, "hidden": 12, "max_length": 9}
    known = {name: value for name, value in narrow.items() if name in LECTURE[key].sizes}
    return LECTURE[key].model(**known | sizes).double().eval()


def tokens(batch=3, length=7):
    return torch.randint(11, (batch, length), generator=torch.Generator().manual_seed(0))


COUNTS = {   # on the notebooks' own classes
    "words-transformer": 2_966_800, "words-gt": 3_065_872, "treebank-transformer": 1_323_600,
    "treebank-full": 1_986_448, "sudoku-transformer": 100_740, "sudoku-gt": 125_700,
    "leakage-transformer": 62_336, "leakage-gt": 62_720, "nodes": 6_818}


@pytest.mark.parametrize("key", LECTURE)
def test_every_model_can_be_made_at_its_published_size(key):
    published = LECTURE[key]
    with torch.device("meta"):   # shapes, no numbers
        model = published.model()
    width = getattr(model, "config", None) or getattr(getattr(model, "trunk", None), "config", None)
    assert published.source in SOURCES and published.number
    assert width is None or width.width == published.sizes["width"]
    count = sum(p.numel() for p in model.parameters())
    assert COUNTS.get(key, count) == count


@pytest.mark.parametrize("key", LANGUAGE)
def test_the_language_models_read_ahead_where_they_say_so(key):
    model = small(key, **({"layers": 1} if "layers" in LECTURE[key].sizes else {}))
    ahead = future_influence(model, tokens(batch=1))
    assert ahead > 1e-6 if key in AHEAD else ahead == 0
    assert (getattr(model, "leaks", False) or getattr(getattr(model, "trunk", None), "leaks", False)
            ) == (key in AHEAD)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_model_of_week_1_reads_one_position_ahead_a_layer(layers):
    reads = influence(small("words-gt", layers=layers), tokens()) > 0
    distance = torch.arange(7) - torch.arange(7)[:, None]
    assert (reads == (distance <= layers)).all()


def test_the_model_of_week_6_reads_other_sequences_of_its_batch():
    model = small("treebank-full")
    other = tokens()
    other[1:] = (other[1:] + 1) % 11
    assert (model(other)[0] - model(tokens())[0]).abs().max() > 1e-3
    # with one sequence, its graph is the one that it means
    one = tokens(batch=1)
    h = model.trunk.trunk.blocks[0].steps["G"]
    embedded = model.embedding(one)
    angle = torch.arange(7)[:, None] / 10000 ** (torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    position = torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
    assert_close(model(one), model.output(h(embedded + position, skip_graph(7))))


@pytest.mark.parametrize("batch", [3, 4, 5])
def test_no_message_of_week_6_stays_in_its_sequence(batch):
    model, before = small("treebank-full", depth=1), tokens(batch)
    for t in range(7):
        after = before.clone()
        after[0, t] = (after[0, t] + 1) % 11
        changed = (model(after) - model(before)).abs().amax(-1) > 0
        assert changed[0].nonzero().flatten().tolist() == [t] and changed[1:].any()


def test_the_graph_of_week_6_joins_neighbours_and_skips_forward():
    graph = skip_graph(4)
    found = dict(zip(map(tuple, graph.edges.T.tolist()), graph.relations.tolist(), strict=True))
    assert found == {(0, 1): 0, (1, 2): 0, (2, 3): 0, (1, 0): 1, (2, 1): 1, (3, 2): 1,
                     (0, 2): 2, (1, 3): 2}
    assert skip_graph(1).edges.shape == (2, 0)
