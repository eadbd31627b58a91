"""Penalties, renamed puzzles, and what is measured of a model that solves them."""

import torch

from geolab.penalties import collect_penalties
from geolab.tasks import Sudoku
from geolab.tasks.sudoku import units
from studies.experiments import sudoku
from studies.experiments.sudoku import Renamed, digits_square, permute_digits, solver

CONFIG = sudoku.CONFIGS["cpu"]


def test_digits_are_renamed_and_blanks_are_not():
    x = torch.tensor([[0.0, 1, 0, 0, 1], [1, 0, 0, 0, 0]])
    assert (permute_digits(x, torch.tensor([1, 0, 2, 3])).tolist()
            == [[1, 0, 0, 0, 1], [1, 0, 0, 0, 0]])


def test_renamed_puzzles_are_puzzles_and_validation_stays():
    task = Renamed(split="by grid", train=5, validation=3)
    x, y = task.sample("train")
    assert len(x) == 24 * 5 and (y[:, units()].sort(-1).values == torch.arange(4)).all()
    given = x[..., 4] == 1
    assert torch.equal(x[..., :4].argmax(-1)[given], y[given]) and len(torch.unique(y, dim=0)) > 24
    assert all(map(torch.equal, task.sample("validation"),
                   Sudoku(split="by grid", train=5, validation=3).sample("validation")))


class Copies:
    """A model that answers with what is given."""

    def states(self, x):
        return x

    def write(self, h):
        return h[..., :4] * h[..., 4:]


def test_the_digits_square_commutes_for_a_model_that_copies_what_is_given():
    x = Sudoku(train=4).sample("train").inputs
    assert digits_square(Copies(), x, x) == 0
    model = solver(CONFIG, "transformer", {}).eval()
    assert max(digits_square(model, x, x).item() for _ in range(3)) > 1e-4


def test_attention_that_is_told_the_units_reads_a_row_a_column_a_block_and_all_cells():
    trunk = sudoku.make_trunk(CONFIG, "told")
    assert all(isinstance(block.steps["A"].f, sudoku.UnitAttention) for block in trunk.blocks)
    attention = trunk.blocks[0].steps["A"].f.eval()
    x = torch.randn(2, 16, CONFIG.width)
    *_, weights = attention.attention(x, x, x, attn_mask=attention.hidden.repeat(2, 1, 1),
                                      average_attn_weights=False)
    read = [set(row.nonzero().flatten().tolist()) for row in weights[1, :, 6]]
    assert read == [{4, 5, 6, 7}, {2, 6, 10, 14}, {2, 3, 6, 7}, set(range(16))]


def test_a_penalty_is_added_with_its_weight_and_none_without():
    x = Sudoku(train=4).sample("train").inputs
    totals = {}
    for weight in (0.0, 0.5, 1.0):
        torch.manual_seed(0)
        model = solver(CONFIG, "transformer", {}, weight)
        with collect_penalties() as penalties:
            model(x)
        totals[weight] = sum(p.item() for p in penalties)
    assert totals[0.0] == 0 and totals[1.0] > 0
    torch.testing.assert_close(2 * totals[0.5], totals[1.0])
    assert sudoku.published_penalty(model, x, torch.ones(4, 16, 3)) == 0


def test_the_notebooks_blocks_have_its_options_and_its_one_rate():
    for arm in sudoku.notebook():
        trunk = arm.build().trunk
        assert isinstance(trunk.blocks[0].steps["F"].f[1], torch.nn.GELU)
        assert isinstance(trunk.norm, torch.nn.LayerNorm) and trunk.config.norm_at == "post"
        assert (trunk.config.dropout, trunk.config.dropout_at) == (0.1, tuple("ACF"))
        assert trunk.config.alpha == 1.0 and not arm.protocol.searches
        rates = {arm.budget.learning_rate(step) for step in (0, 100, arm.budget.steps - 1)}
        assert rates == {1e-3}
        assert arm.task.sample("validation").inputs[0, :, 4].sum() == arm.task.givens
        assert "λ" not in arm.name or arm.task.givens == 8


def test_the_spread_is_the_share_of_the_states_that_differs_within_triples():
    task = Sudoku(train=4, validation=3)
    model = solver(CONFIG, "transformer", {}).eval()
    found = sudoku.scores(task, model)
    h = model.states(task.sample("validation").inputs).double()
    triples = h[:, sudoku.TRIPLES]
    apart = (triples - triples.mean(2, keepdim=True)).square().sum((1, 2, 3)).mean()
    assert abs(found["spread"] - (apart / (48 * 3 * h.square().sum(-1).mean())).item()) < 1e-4
    assert 0 < found["spread"] < 1 and 0 <= found["training blanks"] <= 1
