"""The Geometric Transformer lecture's public models, beside ours.

They are the blocks of the slides, and the models of the course's notebooks. A public module's
parameters have the names of ours behind another prefix, so translating is renaming.
"""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from geolab.models import RelationGraph
from geolab.models.regimes import RegimeModel
from studies.parity.lecture_models import LECTURE
from studies.parity.public import Public

BLOCKS, WORDS, LENGTH = 2, 11, 7
Names = Mapping[str, str]   # prefix of the public names -> prefix of ours


def renamed(names: Names, public: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return every public weight whose prefix is in `names`, under our name."""
    return {ours + name.removeprefix(theirs): weight for name, weight in public.items()
            for theirs, ours in names.items() if name.startswith(theirs + ".")}


def in_blocks(names: Names, theirs: str = "", ours: str = "blocks.") -> Names:
    """Repeat the names of one block's parts for every block."""
    return {f"{theirs}{block}.{name}": f"{ours}{block}.steps.{mine}"
            for block in range(BLOCKS) for name, mine in names.items()}


# ------------------------------------------------------------ a block's parts

LISTING = {"self_attn": "A.f.attention", "ln_attn": "A.norm", "conv": "C.f.conv",
           "ln_conv": "C.norm", "lin1": "F.f.0", "lin2": "F.f.3", "ln_ff": "F.norm"}
DECODER = LISTING | {"ln_self": "A.norm", "cross_attn": "X.f.attention", "ln_cross": "X.norm"}
EXPERTS = LISTING | {"experts": "M.f.experts", "gate": "M.f.gate", "ln_ff": "M.norm"}
CELLS = {"attn": "A.f.attention", "attn_norm": "A.norm", "conv": "C.f.conv", "conv_norm": "C.norm",
         "mlp.0": "F.f.0", "mlp.2": "F.f.3", "mlp_norm": "F.norm"}
PLAIN = {"attn": "A.f.attention", "ln1": "A.norm", "ff.0": "F.f.0", "ff.3": "F.f.3",
         "ln2": "F.norm"}
SMOOTH = PLAIN | {"conv": "C.f.conv", "ln_conv": "C.norm", "ln_attn": "A.norm", "ln_ff": "F.norm"}
TORCH = {"self_attn": "A.f.attention", "norm1": "A.norm", "linear1": "F.f.0", "linear2": "F.f.3",
         "norm2": "F.norm"}
MIXER = {"attn": "A.f.attention", "n1": "A.norm", "ffn.0": "F.f.0", "ffn.2": "F.f.2",
         "n2": "F.norm", "geo_conv": "C.f.conv.conv", "conv": "C.f.conv.conv", "ng": "C.norm"}


def messages(depth: int, theirs: str = "layers.") -> Names:
    """The names of the rounds of GeometricTransformerV2, as a step G."""
    rounds = ["G.f.passing", *(f"G.f.later.{k}" for k in range(depth - 1))]
    return {f"{theirs}{k}.edge_mlp.{part}": f"{ours}.{name}" for k, ours in enumerate(rounds)
            for part, name in ((0, "inside"), (2, "out"))}


def full(depth: int) -> Names:
    return LISTING | messages(depth, "gt.layers.") | {"gt.norm": "G.norm"}


# ------------------------------------------------------------ a model's ends

def language(names: Names) -> Names:
    """The names of a language model of week 1 or 6."""
    return in_blocks(names, "layers.", "trunk.blocks.") | {
        "tok": "embedding", "ln": "trunk.norm", "out": "output"}


def regime(names: Names, layers: str) -> Names:
    """The names of a model of the zoo, or of the check for leakage."""
    return in_blocks(names, layers) | {"emb": "embedding", "pos": "position", "out": "output"}


def cells() -> Names:
    return in_blocks(CELLS, "reasoner.layers.", "trunk.blocks.") | {
        "in_proj": "read", "reasoner.norm": "trunk.norm", "out_head": "write"}


def labelled(depth: int) -> Names:
    steps = messages(depth, "gt.layers.") | {"gt.norm": "G.norm"}
    return {theirs: f"trunk.blocks.0.steps.{ours}" for theirs, ours in steps.items()} | {
        "in_proj": "read", "out": "write"}


def mixed(depth: int) -> Names:
    steps = messages(depth) | {"ln": "G.norm"}
    return {theirs: f"trunk.trunk.blocks.0.steps.{ours}" for theirs, ours in steps.items()} | {
        "tok": "embedding", "out": "output"}


# ------------------------------------------------------------ rows

SLIDES = "The slides show no training."
EVALUATING = ("The notebook never leaves evaluation mode after its first evaluation, so its "
              "dropout ends there.")
ADAM = "The notebook takes Adam, with β₂ = 0.999 and without clipping; ours is AdamW, and clips."
DECAY = f"{ADAM} The notebook adds its weight decay to the gradient."
ZOO = (f"{EVALUATING} Its AdamW has β₂ = 0.999 and decays every weight, ours 0.95 and matrices "
       "alone.")
LEAKAGE = ("The notebook's AdamW has β₂ = 0.999, decays every weight and doesn't clip; ours has "
           "0.95, decays matrices alone and clips.")
SUDOKU = ADAM


def _of(key: str, name: str, names: Names, differs: str, label: str = "", **sizes) -> Public:
    return Public(f"gt-{label or key}", "GT", name, f'LECTURE["{key}"]',
                  partial(LECTURE[key].model, **sizes), partial(renamed, names), differs)


def _zoo(name: str, names: Names, layers: str) -> Public:
    return Public(f"gt-zoo-{name.lower().replace('+', '-')}", "GT", name, f'RegimeModel("{name}")',
                  partial(RegimeModel, name, WORDS, 8, BLOCKS, 2, LENGTH),
                  partial(renamed, regime(names, layers)), ZOO)


VERTICES = 9
_EDGES = [(s, t, (s + t) % 2) for s in range(VERTICES) for t in range(VERTICES)
          if s != t and (s + 2 * t) % 5 < 2]
GRAPH = RelationGraph(torch.tensor([edge[:2] for edge in _EDGES]).T,
                      torch.tensor([edge[2] for edge in _EDGES]))

SMALL = {"width": 8, "heads": 2, "hidden": 12, "layers": BLOCKS}
CELL = SMALL | {"hidden": 32}
TEXT = SMALL | {"vocabulary": WORDS}
TINY = {"vocabulary": WORDS, "width": 8, "heads": 2, "layers": BLOCKS, "max_length": LENGTH}
NODE = {"graph": GRAPH, "inputs": 5, "width": 8}

PUBLIC = [
    _of("lite", "GT-Lite, encoder", in_blocks(LISTING), SLIDES, **SMALL),
    _of("decoder", "GT-Lite, decoder", in_blocks(DECODER), SLIDES, **SMALL),
    _of("full", "GT-Full", in_blocks(full(1)), SLIDES, **SMALL),
    _of("full", "GT-Full, gt_depth 2", in_blocks(full(2)), SLIDES, "full-2", depth=2, **SMALL),
    _of("moe", "GT-MoE", in_blocks(EXPERTS), SLIDES, **SMALL | {"hidden": 8}),
    _of("sudoku-transformer", "Transformer, Sudoku", cells(), SUDOKU, **CELL),
    _of("sudoku-gt", "GT-Lite, Sudoku", cells(), SUDOKU, **CELL),
    _of("words-transformer", "Transformer, week 1", language(PLAIN), f"{EVALUATING} {ADAM}",
        **TEXT),
    _of("words-gt", "GT-Lite, week 1", language(SMOOTH), f"{EVALUATING} {ADAM}", **TEXT),
    _of("leakage-transformer", "Transformer, leakage check", regime(TORCH, "tr.layers."), LEAKAGE,
        **TINY),
    _of("leakage-gt", "GT, leakage check", regime(MIXER, "layers."), LEAKAGE, **TINY),
    _of("leakage-gt-causal", "causal GT, leakage check", regime(MIXER, "layers."), LEAKAGE, **TINY),
    _zoo("AR-Base", TORCH, "blocks."), _zoo("AR+FutureHint", TORCH, "blocks."),
    _zoo("GT-CausalGeom", MIXER, "layers."), _zoo("GT-AugGeom", MIXER, "layers."),
    _zoo("GT-PredictiveHint", MIXER, "layers."), _zoo("GT-CausalSelfHint", MIXER, "layers."),
    _of("nodes", "GT-Full, node labels", labelled(2), DECAY, **NODE),
    _of("nodes", "GT-Full, node labels, depth 1", labelled(1), DECAY, "nodes-1", depth=1, **NODE),
    _of("treebank-transformer", "Transformer, week 6", language(PLAIN), f"{EVALUATING} {DECAY}",
        **TEXT),
    _of("treebank-full", "GT-Full, week 6", mixed(2), DECAY, vocabulary=WORDS, width=8),
]
