"""Sudoku, 4 × 4: some cells are given, say the digits of all.

Sixteen cells, in rows; twelve units of four cells (rows, columns, 2 × 2 blocks), each with every digit once. From a course
notebook of the Geometric Transformer lecture: 8 random givens, a blank written as digit 0 with flag 0, loss over all cells.

The published generator starts from one grid, and permutes digits, rows and columns in a band, and bands. It reaches 96 of
the 288 grids, and 600 training puzzles show nearly all of them: validation can be memorised. Split "by grid" takes all 288
and keeps the grids of validation out of training. Puzzles are drawn evenly from the grids, as the generator does: a random
element of a group gives a random element of the orbit.

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
from geolab.tasks.base import Pairs, Score, float32, require_counts, require_split

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
    """(288, 16), all there are, or (96, 16), those the "published" generator reaches; in lexicographic order."""
    if which == "published":
        start, order = np.array(PUBLISHED_START), [(0, 1, 2, 3), (1, 0, 2, 3), (0, 1, 3, 2), (1, 0, 3, 2)]
        order += [(c, d, a, b) for a, b, c, d in order]  # both bands swapped
        reached = [np.array(digits)[start][np.ix_(rows, columns)].ravel()
                   for digits, rows, columns in product(permutations(range(4)), order, order)]
        return np.unique(reached, axis=0)
    rows = np.array(list(permutations(range(4))), np.int8)
    candidates = rows[np.indices((24,) * 4).reshape(4, -1).T].reshape(-1, 16)
    return candidates[((1 << candidates)[:, units().numpy()].sum(-1) == 15).all(-1)].astype(np.int64)


@dataclass(frozen=True)
class Sudoku:
    """The Sudoku task: (N, 16, 5) inputs, one-hot digit and flag, (N, 16) digits out, loss in nats a cell, over all cells."""

    givens: int = 8
    split: str = "published"   # "published": both splits draw from the same 96 grids; "by grid": from disjoint parts of 288
    train: int = 600
    validation: int = 200
    seed: int = 42
    validation_seed: int = 1042

    classes = 4

    def __post_init__(self):
        require_option("split", self.split, ("published", "by grid"))
        require_number("givens", self.givens, low=0, high=15)
        require_counts(self, givens=0, train=0, validation=0)

    def solutions(self, split: str) -> np.ndarray:
        """(grids, 16): what the puzzles of a split are drawn from. "by grid" keeps a shuffled quarter for validation."""
        require_split(split)
        if self.split == "published":
            return grids("published")
        shuffled = np.random.RandomState(0).permutation(grids("all"))
        return shuffled[72:] if split == "train" else shuffled[:72]

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        solutions = self.solutions(split)
        default, count = (self.seed, self.train) if split == "train" else (self.validation_seed, self.validation)
        rng = np.random.RandomState(default if seed is None else seed)
        target = solutions[rng.randint(len(solutions), size=count)]
        given = rng.rand(count, 16).argsort(1) < self.givens
        digits = np.eye(4)[np.where(given, target, 0)]
        return Pairs(float32(np.concatenate([digits, given[..., None]], -1)), torch.from_numpy(target))

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(prediction.flatten(0, 1), target.flatten())

    def accuracy(self, prediction: Tensor, target: Tensor, inputs: Tensor | None = None) -> Tensor:
        """Scalar: the share of right cells, of all as published, or of the blanks of the inputs."""
        right = (prediction.argmax(-1) == target).double()
        return right.mean() if inputs is None else right[inputs[..., 4] == 0].mean()

    def bayes_predictor(self, inputs: Tensor) -> Tensor:
        """(N, 16, 5) -> (N, 16, 4) probabilities: the share of each digit among the grids that have the givens."""
        every = F.one_hot(torch.from_numpy(self._every()), 4).double().flatten(1)            # (grids, 64)
        given = (inputs[..., :4] * inputs[..., 4:]).double().flatten(1)
        fits = (given @ every.T == inputs[..., 4].double().sum(1, keepdim=True)).double()    # (N, grids)
        return (fits @ every / fits.sum(1, keepdim=True)).unflatten(1, (16, 4))

    def bayes_floor(self) -> float:
        """(16 − k)/16 · (L_k − L_{k+1}) with k givens, exact. L_k is the mean of ln n(S) over grids and sets S of k cells.

        n(S) counts the grids that agree with the solution on S, so a cell costs ln n(S) − ln n(S and the cell), and S and
        the cell are a set of k + 1. "by grid": for who knows the rules, and not which grids were held out.
        """
        now, after = (np.log(_completions(self.split)[:, _sets(k)], dtype=float).mean() for k in (self.givens, self.givens + 1))
        return (16 - self.givens) / 16 * float(now - after)

    def unique_share(self) -> float:
        """The share of puzzles, over all grids of the task and all sets of givens, that one grid alone completes."""
        return float((_completions(self.split)[:, _sets(self.givens)] == 1).mean())

    def blind_ceiling(self) -> Score:
        """The best (loss, accuracy) over all cells of a model blind to position, which treats all blanks of a puzzle alike.

        It can count: a digit m times among the givens is 4 − m times among the blanks. Over random cells of any grid the
        four m are multivariate hypergeometric.
        """
        blanks, loss, accuracy = 16 - self.givens, 0.0, 0.0
        for left in product(range(5), repeat=4):
            if sum(left) == blanks:
                chance = math.prod(math.comb(4, n) for n in left) / math.comb(16, blanks)
                loss += chance * sum(n * math.log(blanks / n) for n in left if n) / 16
                accuracy += chance * max(left) / 16
        return Score(loss, accuracy + self.givens / 16)

    def baselines(self) -> dict[str, float]:
        """All copy the givens. On the blanks: every digit alike, the digits left over, those that no unit of the cell shows."""
        inputs, target = self.sample("validation")
        given = inputs[..., :4].double() * inputs[..., 4:]
        unit = F.one_hot(units(), 16).sum(1).double()                                        # (12, 16)
        seen = (unit.T @ unit @ given > 0).double()                                          # by a cell's own units
        blanks = {"uniform": torch.ones_like(given), "digits left over": (4 - given.sum(1, keepdim=True)).expand_as(given),
                  "candidates": 1 - seen}
        chances = {name: torch.where(inputs[..., 4:] == 1, given, chance / chance.sum(-1, keepdim=True))
                   for name, chance in blanks.items()}
        chances["all completions"] = self.bayes_predictor(inputs)
        return {name: self.loss(chance.log(), target).item() for name, chance in chances.items()}

    def _every(self) -> np.ndarray:
        return grids("published" if self.split == "published" else "all")


def _sets(size: int) -> np.ndarray:
    """The sets of so many cells, as bit masks."""
    return np.array([mask for mask in range(1 << 16) if mask.bit_count() == size])


@cache
def _completions(split: str) -> np.ndarray:
    """(grids, 2^16): how many grids agree with each on each set of cells, itself among them; sums over supersets of agreement."""
    every = grids("published" if split == "published" else "all")
    agreement = ((every[:, None] == every) << np.arange(16)).sum(-1)
    count = np.zeros((len(every), 1 << 16), np.int16)
    np.add.at(count, (np.arange(len(every))[:, None], agreement), 1)
    for cell in range(16):
        halves = count.reshape(len(every), -1, 2, 1 << cell)
        halves[:, :, 0] += halves[:, :, 1]
    return count
