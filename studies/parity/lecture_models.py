"""The Geometric Transformer lecture's published models, each under one name.

    LECTURE["sudoku-gt"].model()            # at the published size
    LECTURE["sudoku-gt"].model(width=8)     # the same function, smaller

They are the blocks of the lecture's slides, whose sizes are ours because the slides leave them
open, and the models of its course's notebooks. The models of the notebook on causal regimes are
`geolab.models.regimes.REGIMES`.

Legend: B batch, T positions, D width.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from geolab.checks import require_option
from geolab.models import (
    GeometricConfig,
    GeometricDecoder,
    GeometricTransformer,
    PointModel,
    RelationGraph,
    TokenModel,
    path_graph,
)
from geolab.models.geometric import sinusoids
from geolab.models.regimes import RegimeModel


@dataclass(frozen=True)
class LectureModel:
    """One published model.

    Attributes:
        number: the listing, the slide or the notebook that defines it.
        make: builds the model from its sizes, given by name.
        sizes: the published ones.
        remark: a caution.
    """

    number: str
    make: Callable[..., nn.Module]
    sizes: dict
    remark: str = ""
    source: str = "GT"   # a key of claims.SOURCES

    def model(self, **sizes) -> nn.Module:
        """Build the model with these sizes in place of its own.

        Raises: ValueError for a name that isn't one of its sizes.
        """
        for name in sizes:
            require_option("size", name, self.sizes)
        return self.make(**self.sizes | sizes)


def encoder(kind: str, **config) -> GeometricTransformer:
    return GeometricTransformer(GeometricConfig(**config), kind)


def decoder(kind: str, **config) -> GeometricDecoder:
    return GeometricDecoder(GeometricConfig(**config), kind, published=True)


def puzzles(kind: str, **config) -> PointModel:
    """Build a model from cells (B, 16, 5) to scores of digits (B, 16, 4)."""
    return PointModel(encoder(kind, **config), 5, 4)


def nodes(graph: RelationGraph, inputs: int, **config) -> PointModel:
    """Build a model from features of vertices (B, T, inputs) to scores of two labels."""
    return PointModel(encoder("G", **config), inputs, 2, (graph,))


def words(kind: str, vocabulary: int, **config) -> TokenModel:
    return TokenModel(encoder(kind, **config), vocabulary, tied=False)


# ------------------------------------------------------------ the notebook of week 6

def skip_graph(length: int) -> RelationGraph:
    """Return the path graph with relations 0 and 1, and i -> i + 2 as relation 2."""
    path, here = path_graph(length), torch.arange(max(length - 2, 0))
    return RelationGraph(torch.cat([path.edges, torch.stack([here, here + 2])], dim=1),
                         torch.cat([path.relations, torch.full_like(here, 2)]))


class TimeMajor(nn.Module):
    """The positions and messages of the notebook of week 6: (B, T, D) -> (B, T, D).

    The notebook flattens states position by position, but numbers the ends of edges sequence by
    sequence. So with three or more sequences, every message goes from one sequence to another.
    """

    leaks = True

    def __init__(self, trunk: GeometricTransformer):
        super().__init__()
        self.trunk, self.config = trunk, trunk.config

    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        mixed = (x + sinusoids(x)).transpose(0, 1).reshape(B, T, D)
        return self.trunk(mixed, skip_graph(T)).reshape(T, B, D).transpose(0, 1)


def mixed_words(vocabulary: int, **config) -> TokenModel:
    return TokenModel(TimeMajor(encoder("G", layers=1, relations=3, **config)), vocabulary,
                      tied=False)


# ------------------------------------------------------------ all of them

BLOCK = {"width": 64, "heads": 4, "hidden": 256, "layers": 1}
SUDOKU = {"width": 64, "heads": 4, "hidden": 256, "layers": 2}
# the cells of a puzzle: dropout on what each step adds, and nowhere else
CELLS = {"activation": "gelu", "alpha": 1.0, "final_norm": True, "dropout_at": tuple("ACF")}
# on words: dropout where torch's own encoder layer has it, and not on the convolution
WORDS = {"masked": True, "final_norm": True, "positions": "sinusoidal",
         "dropout_at": ("weights", "hidden", *"AF")}
LEAKAGE = {"vocabulary": 64, "width": 64, "layers": 1, "heads": 4, "max_length": 64}
TYPES = 10_000   # of the Penn Treebank, with the line end

LECTURE = {
    "lite": LectureModel("listing 1", partial(encoder, "lite"), BLOCK),
    "decoder": LectureModel(
        "listing 2", partial(decoder, "lite"), BLOCK,
        remark="It convolves on both sides, so a position reads the token that it should predict."),
    "full": LectureModel("slide on GT-Full", partial(encoder, "full"), BLOCK | {"depth": 1},
                         remark="The slide's forward method is cut off."),
    "moe": LectureModel("slide on GT-MoE", partial(encoder, "moe"), BLOCK,
                        remark="The slide's constructor doesn't set top_k, which forward reads."),
    "sudoku-transformer": LectureModel(
        "week01_sudoku_gt_db", partial(puzzles, "transformer", **CELLS), SUDOKU),
    "sudoku-gt": LectureModel("week01_sudoku_gt_db", partial(puzzles, "lite", **CELLS), SUDOKU),
    "words-transformer": LectureModel(
        "week01_lm_gt_vs_transformer", partial(words, "transformer", **WORDS),
        {"vocabulary": TYPES, "width": 128, "heads": 4, "hidden": 512, "layers": 2}),
    "words-gt": LectureModel(
        "week01_lm_gt_vs_transformer", partial(words, "lite", **WORDS),
        {"vocabulary": TYPES, "width": 128, "heads": 4, "hidden": 512, "layers": 2},
        remark="Attention is masked, and the convolution reads one position ahead in each block."),
    "leakage-transformer": LectureModel(
        "week01_lm_causal_leakage_check", partial(RegimeModel, "AR-Base"), LEAKAGE),
    "leakage-gt": LectureModel(
        "week01_lm_causal_leakage_check", partial(RegimeModel, "GT-AugGeom", dropout=0.0), LEAKAGE,
        remark="The notebook trains its Transformer with dropout 0.1, and this model without."),
    "leakage-gt-causal": LectureModel(
        "week01_lm_causal_leakage_check", partial(RegimeModel, "GT-CausalGeom", dropout=0.0),
        LEAKAGE),
    "nodes": LectureModel(
        "week04_gt_full_node_labeling", partial(nodes, layers=1, dropout=0.0),
        {"graph": None, "inputs": 8, "width": 32, "relations": 2, "depth": 2},
        remark="The graph must be given: the notebook draws one of 80 vertices."),
    "treebank-transformer": LectureModel(
        "week06_gt_full_ptb", partial(words, "transformer", **WORDS),
        {"vocabulary": TYPES, "width": 64, "heads": 2, "hidden": 128, "layers": 1}),
    "treebank-full": LectureModel(
        "week06_gt_full_ptb", partial(mixed_words, dropout=0.0),
        {"vocabulary": TYPES, "width": 96, "depth": 2},
        remark="It has no attention, and mixes the sequences of a batch."),
}
