"""Sudoku, 4 × 4: some cells are given, and the task is to say the digits of all cells.

Sixteen cells stand in rows. Twelve units of four cells (rows, columns, 2 × 2 blocks) hold every
digit once. The published setting is that of a course notebook of the Geometric Transformer
lecture: 8 random givens, a blank written as digit 0 with flag 0, and a loss over all cells.

The published generator starts from one grid. It permutes the digits, the rows and the columns in
a band, and the bands. It reaches 96 of the 288 grids, and 600 training puzzles show nearly all of
them, so a model can memorise the validation puzzles. The split "by grid" takes all 288 grids and
keeps those of validation out of training. Puzzles are drawn evenly from the grids. The generator
does so too, since a random element of a group gives a random element of the orbit.

Legend: N puzzles, 16 cells, 4 digits counted from 0. A set of cells S is given.
"""

import math
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations, product

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.checks import require_number, require_option
from geolab.tasks.base import IGNORED, Classification, Pairs, Score, float32, require_split

PUBLISHED_START = [[0, 1, 2, 3], [2, 3, 0, 1], [1, 0, 3, 2], [3, 2, 1, 0]]


def units() -> Tensor:
    """(12, 4): the cells of each row, column and block, int64."""
    cells = np.arange(16).reshape(4, 4)
    blocks = cells.reshape(2, 2, 2, 2).swapaxes(1, 2).reshape(4, 4)
    return torch.from_numpy(np.concatenate([cells, cells.T, blocks]))


def triples() -> Tensor:
    """(48, 3): the triples of cells inside a unit, the triangles of the lecture's regulariser."""
    return torch.tensor([triple for unit in units().tolist() for triple in combinations(unit, 3)])


@cache
def grids(which: str) -> np.ndarray:
    """The grids in lexicographic order: all 288, or the 96 that the "published" generator reaches.

    (288, 16) or (96, 16), int64.
    """
    if which == "published":
        start = np.array(PUBLISHED_START)
        order = [(0, 1, 2, 3), (1, 0, 2, 3), (0, 1, 3, 2), (1, 0, 3, 2)]
        order += [(c, d, a, b) for a, b, c, d in order]  # both bands swapped
        reached = [np.array(digits)[start][np.ix_(rows, columns)].ravel()
                   for digits, rows, columns in product(permutations(range(4)), order, order)]
        return np.unique(reached, axis=0)
    rows = np.array(list(permutations(range(4))), np.int8)
    candidates = rows[np.indices((24,) * 4).reshape(4, -1).T].reshape(-1, 16)
    complete = (1 << candidates)[:, units().numpy()].sum(-1) == 15  # every digit once, per unit
    return candidates[complete.all(-1)].astype(np.int64)


@dataclass(frozen=True)
class Sudoku(Classification):
    """The Sudoku task: (N, 16, 5) one-hot digits and flags in, (N, 16) digits out.

    The loss is in nats per cell, over all cells. The split "published" draws both parts from the
    same 96 grids, and "by grid" from disjoint parts of all 288.
    """

    givens: int = 8
    split: str = "published"   # or "by grid"
    train: int = 600
    validation: int = 200
    seed: int = 42
    validation_seed: int = 1042

    def __post_init__(self):
        require_option("split", self.split, ("published", "by grid"))
        require_number("givens", self.givens, low=0, high=15)
        self.require_counts(givens=0, train=0, validation=0)

    def solutions(self, split: str) -> np.ndarray:
        """(grids, 16): the grids from which the puzzles of a split are drawn.

        "by grid" keeps a shuffled quarter for validation.
        """
        require_split(split)
        if self.split == "published":
            return grids("published")
        shuffled = np.random.RandomState(0).permutation(grids("all"))
        return shuffled[72:] if split == "train" else shuffled[:72]

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        solutions, (rng, count) = self.solutions(split), self.draw(split, seed)
        target = solutions[rng.randint(len(solutions), size=count)]
        given = rng.rand(count, 16).argsort(1) < self.givens
        digits = np.eye(4)[np.where(given, target, 0)]
        inputs = np.concatenate([digits, given[..., None]], -1)
        return Pairs(float32(inputs), torch.from_numpy(target))

    def accuracy(self, prediction: Tensor, target: Tensor, inputs: Tensor | None = None) -> Tensor:
        """The share of right cells: of all cells, as published, or of the blanks of the inputs."""
        if inputs is not None:
            target = target.where(inputs[..., 4] == 0, IGNORED)
        return super().accuracy(prediction, target)

    def bayes_predictor(self, inputs: Tensor) -> Tensor:
        """(N, 16, 5) -> (N, 16, 4): the share of each digit in the grids that have the givens."""
        every = torch.from_numpy(_every(self.split))
        every = F.one_hot(every, 4).double().flatten(1)                              # (grids, 64)
        given = (inputs[..., :4] * inputs[..., 4:]).double().flatten(1)
        count = inputs[..., 4].double().sum(1, keepdim=True)
        fits = (given @ every.T == count).double()                                   # (N, grids)
        return (fits @ every / fits.sum(1, keepdim=True)).unflatten(1, (16, 4))

    def bayes_floor(self) -> float:
        """(16 − k)/16 · (L_k − L_{k+1}) with k givens, exact.

        L_k is the mean of ln n(S) over grids and sets S of k cells, where n(S) counts the grids
        that agree with the solution on S. A cell costs ln n(S) − ln n(S and the cell), and S and
        the cell are a set of k + 1 cells. For "by grid" it is the floor of a predictor that knows
        the rules, but not which grids were held out.
        """
        count = _completions(self.split)
        now, after = (np.log(count[:, _sets(self.givens + more)], dtype=float).mean()
                      for more in (0, 1))
        return (16 - self.givens) / 16 * float(now - after)

    def unique_share(self) -> float:
        """The share of puzzles that one grid alone completes, over all grids and sets of givens."""
        return float((_completions(self.split)[:, _sets(self.givens)] == 1).mean())

    def blind_ceiling(self) -> Score:
        """The best loss and accuracy over all cells of a model that treats all blanks alike.

        Such a model is blind to position, but it can count: a digit that is m times among the
        givens is 4 − m times among the blanks. Over random cells of any grid, the four m are
        multivariate hypergeometric.
        """
        blanks, loss, accuracy = 16 - self.givens, 0.0, 0.0
        for left in product(range(5), repeat=4):
            if sum(left) == blanks:
                chance = math.prod(math.comb(4, n) for n in left) / math.comb(16, blanks)
                loss += chance * sum(n * math.log(blanks / n) for n in left if n) / 16
                accuracy += chance * max(left) / 16
        return Score(loss, accuracy + self.givens / 16)

    def predictions(self, train: Pairs, validation: Pairs) -> dict[str, Tensor]:
        """Logarithms of chances. All predictors copy the givens; they differ on the blanks.

        They give equal chances to all digits, count the digits left over, take the digits that no
        unit of the cell shows, or average all completions.
        """
        inputs = validation.inputs
        flag = inputs[..., 4:]
        given = inputs[..., :4].double() * flag
        unit = F.one_hot(units(), 16).sum(1).double()                                # (12, 16)
        seen = (unit.T @ unit @ given > 0).double()                           # by a cell's units
        blanks = {"uniform": torch.ones_like(given),
                  "digits left over": (4 - given.sum(1, keepdim=True)).expand_as(given),
                  "candidates": 1 - seen}
        chances = {name: torch.where(flag == 1, given, chance / chance.sum(-1, keepdim=True))
                   for name, chance in blanks.items()}
        chances["all completions"] = self.bayes_predictor(inputs)
        return {name: chance.log() for name, chance in chances.items()}


def _every(split: str) -> np.ndarray:
    """All grids of both parts of a task with this split."""
    return grids("published" if split == "published" else "all")


def _sets(size: int) -> np.ndarray:
    """The sets of `size` cells, as bit masks."""
    return np.array([mask for mask in range(1 << 16) if mask.bit_count() == size])


@cache
def _completions(split: str) -> np.ndarray:
    """(grids, 2^16): the number of grids that agree with each grid on each set of cells.

    It sums over supersets the number of grids that agree on exactly these cells.
    """
    every = _every(split)
    agreement = ((every[:, None] == every) << np.arange(16)).sum(-1)
    count = np.zeros((len(every), 1 << 16), np.int16)
    np.add.at(count, (np.arange(len(every))[:, None], agreement), 1)
    for cell in range(16):
        halves = count.reshape(len(every), -1, 2, 1 << cell)
        halves[:, :, 0] += halves[:, :, 1]
    return count
