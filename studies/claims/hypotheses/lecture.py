"""What the lecture on the Geometric Transformer claims of trained networks."""

from functools import partial
from math import log, log10
from statistics import mean

from studies.claims.hypotheses.hypothesis import BOOK, Hypothesis
from studies.engine import judge as verdict
from studies.engine.judge import Claim, Quantity, log_loss, measured

aligned = partial(Hypothesis, chapter="13_alignment", study="order", part="geometric",
                  unit="log₁₀ ratio")
blocks = partial(Hypothesis, chapter="14_geometric_transformers")
grid = partial(blocks, study="sudoku", part="by grid", unit="share of blanks")
moons = partial(blocks, study="sudoku", part="moons", unit="nats")
table = partial(Hypothesis, chapter="16_gluing", study="gt_text", part="text")
words = partial(Hypothesis, chapter="15_causal_regimes", study="regimes", part="words",
                unit="nats per word")
gain = partial(verdict.gain, beats="unigram")
BLANKS, SEEN = measured("blanks"), measured("training blanks")


def energy(run: dict, block: int | None = None) -> float:
    """log₁₀ E(A, F) at the input of a block, or its mean over blocks."""
    pairs = run["measured"]["blocks"]["energy"]
    found = [log10(pair.get("AF", pair.get("AM"))) for pair in pairs]
    return mean(found) if block is None else found[block]


def growth(run: dict) -> float:
    """How much log₁₀ E(A, F) rises from the second block to the third."""
    return energy(run, 2) - energy(run, 1)


def jacobians(name: str) -> Quantity:
    """The mean over blocks of log₁₀ of a number about A's and F's Jacobians."""
    def value(run: dict) -> float:
        pairs = [block.get("AF", block.get("AM")) for block in run["measured"]["jacobians"]]
        return mean(log10(mean(pair[name]) if isinstance(pair[name], list) else pair[name])
                    for pair in pairs)
    return value


def beside_chance(run: dict) -> float:
    """The commutator of A's and F's Jacobians over that of turned ones, after the first block."""
    return mean(block["AF"]["beside chance"] for block in run["measured"]["jacobians"][1:])


def responses(run: dict) -> float:
    """log₁₀ of how strongly A and F respond to each other's step, after the first block.

    The energy is this size times the asymmetry, which says how far the two responses differ.
    """
    blocks = run["measured"]["blocks"]
    return mean(log10(energies["AF"] / asymmetries["AF"])
                for energies, asymmetries in zip(blocks["energy"][1:], blocks["asymmetry"][1:],
                                                 strict=True))


def early_swaps(run: dict) -> float:
    """How much the loss rises when the first two pairs of sublayers are exchanged, in turn."""
    return sum(run["measured"]["reordered"]["swapped"][:2])


def order(run: dict) -> float:
    """How much the Dirichlet energy rises when positions are shuffled, as a logarithm."""
    return log(run["measured"]["Dirichlet, shuffled"] / run["measured"]["Dirichlet"])


def settled(run: dict) -> float:
    """How much training lowered the Dirichlet energy, as a logarithm."""
    return log(run["untrained"]["Dirichlet"] / run["measured"]["Dirichlet"])


def less(one: str, than: str, quantity: Quantity = energy) -> Claim:
    return Claim({than: 1, one: -1}, quantity=quantity, beats="unigram")


def more(one: str, than: str, quantity: Quantity) -> Claim:
    return Claim({one: 1, than: -1}, quantity=quantity)


ON_THE_EDGE = ("The interval ends at the border. With one claim more read off the same runs, it "
               "would be wider and the claim open.")
KINDS = {"lite": "GT-Lite", "full": "GT-Full", "moe": "GT-MoE"}
HYPOTHESES = [
    *[aligned(f"gt-energy-{kind}-{norm}", "GT", "its conclusion",
              f"{shown}, {norm}-norm, controls the energy E(A, F) better than the Transformer.",
              claim=less(f"{kind}, {norm}", f"transformer, {norm}"),
              remark=ON_THE_EDGE if (kind, norm) == ("full", "pre") else "")
      for kind, shown in KINDS.items() for norm in ("pre", "post")],
    *[aligned(f"gt-jacobians-{kind}-{norm}", "GT", "slide on alignment",
              f"{shown}, {norm}-norm, has more nearly commuting Jacobians than the Transformer.",
              claim=less(f"{kind}, {norm}", f"transformer, {norm}", jacobians("commutator")))
      for kind, shown in KINDS.items() for norm in ("pre", "post")],
    *[aligned(f"gt-chance-{kind}-{norm}", "GT", "slide on alignment",
              f"In {KINDS[kind]}, {norm}-norm, the Jacobians of attention and MLP commute more "
              "nearly than in the Transformer, beside those of turned layers.",
              claim=less(f"{kind}, {norm}", f"transformer, {norm}", beside_chance),
              unit="of chance")
      for kind in ("lite", "full") for norm in ("pre", "post")],
    aligned("gt-responses-full-post", BOOK, "control of its conclusion",
            "In GT-Full, post-norm, attention and MLP respond less to each other's steps, relative "
            "to the state, than in the Transformer.",
            claim=less("full, post", "transformer, post", responses)),
    *[aligned(f"swap-{name}", BOOK, "each residual over additive",
              f"With {name} the first two swaps of sublayers cost less than with the additive "
              "residual.", part="residuals", unit="nats per byte",
              claim=less(name, "additive", early_swaps))
      for name in ("hyper", "mhc", "jpmhc", "delta", "delta-matrix", "mgt", "emhc-cayley",
                   "emhc-hybrid", "emhc-geodesic")],
    aligned("swap-loss-delta-matrix", BOOK, "each residual over additive",
            "Of these models delta-matrix has a lower loss than the additive one.",
            part="residuals", claim=gain("delta-matrix", "additive"), unit="nats per byte"),
    aligned("gt-variance", "GT", "slide on Pre-LN",
            "After training, Pre-LN has smaller Jacobians of Δ than Post-LN.",
            claim=less("transformer, pre", "transformer, post", jacobians("size"))),
    aligned("gt-accumulates", "GT", "slide on compositionality",
            "The Transformer accumulates compositionality errors: E(A, F) rises from block 2 to 3.",
            claim=Claim({"transformer, post": 1}, quantity=growth), unit="log₁₀ ratio",
            remark="With Post-LN, as the lecture has it."),
    aligned("gt-accumulates-pre", "GT", "slide on compositionality",
            "So does the Transformer with Pre-LN.",
            claim=Claim({"transformer, pre": 1}, quantity=growth)),
    aligned("gt-trains", BOOK, "control of its conclusion",
            "GT-Lite, Pre-LN, has a lower loss than a Transformer with as many weights.",
            claim=gain("lite, pre", "transformer, pre, wide"), unit="nats per byte"),
    aligned("gt-trains-full", BOOK, "control of its conclusion",
            "GT-Full, Pre-LN, has a lower loss than a Transformer with as many weights.",
            claim=gain("full, pre", "transformer, pre, wide"), unit="nats per byte"),
    *[table(f"gt-table-{kind.lower()}-{norm}", "GT", "table on WikiText-103",
            f"{kind}, {norm}-LN, has a lower loss than the Transformer.",
            claim=gain(f"{kind}, {norm}-LN", f"Transformer, {norm}-LN"), unit="nats per word")
      for kind in ("GT-Full", "GT-MoE", "GT-Lite") for norm in ("pre", "post")],
    table("gt-table-full-moe", "GT", "table on WikiText-103",
          "GT-Full, Pre-LN, has a lower loss than GT-MoE, Pre-LN.",
          claim=gain("GT-Full, pre-LN", "GT-MoE, pre-LN"), unit="nats per word"),
    table("gt-table-pre", "GT", "table on WikiText-103",
          "GT-Lite has a lower loss with Pre-LN than with Post-LN.",
          claim=gain("GT-Lite, pre-LN", "GT-Lite, post-LN"), unit="nats per word"),
    table("gt-table-leak", BOOK, "control of the table",
          "Reading the future lowers GT-Lite's loss: the listing's form against the masked one.",
          claim=Claim({"GT-Lite, pre-LN": 1, "GT-Lite, pre-LN, leak": -1}, quantity=log_loss),
          unit="log ratio"),
    table("gt-table-leak-attention", BOOK, "control of the table",
          "Reading the future lowers the Transformer's loss, too.", unit="log ratio",
          claim=Claim({"Transformer, pre-LN": 1, "Transformer, pre-LN, leak": -1},
                      quantity=log_loss)),
    table("gt-table-leak-kinds", BOOK, "control of the table",
          "Where both read the future, GT-Lite has a lower loss than the Transformer.",
          claim=Claim({"Transformer, pre-LN, leak": 1, "GT-Lite, pre-LN, leak": -1},
                      quantity=log_loss), unit="log ratio"),
    table("gt-table-cech", "GT", "table on WikiText-103, Čech",
          "GT-Lite, Pre-LN, has a smaller Čech residual than the Transformer.",
          claim=less("GT-Lite, pre-LN", "Transformer, pre-LN", measured("Čech")), unit="residual"),
    *[table(f"gt-table-{name}", "GT", f"table on WikiText-103, {shown}",
            f"GT-Lite, Pre-LN, has a smaller {shown} than the Transformer.", unit=unit,
            claim=less("GT-Lite, pre-LN", "Transformer, pre-LN", measured(key)))
      for name, key, shown, unit in (("dirichlet", "Dirichlet", "Dirichlet energy", "energy"),
                                     ("h1", "H₁", "persistence in H₁", "persistence"))],
    *[table(f"gt-order-{kind}-{norm}", BOOK, "control of the Dirichlet column",
            f"In {KINDS[kind]}, {norm}-LN, neighbours are more alike than shuffled positions, and "
            "more so than in the Transformer.", unit="log ratio",
            claim=more(f"{KINDS[kind]}, {norm}-LN", f"Transformer, {norm}-LN", order))
      for kind in ("lite", "full") for norm in ("pre", "post")],
    *[table(f"gt-trained-{norm}", BOOK, "control of the Dirichlet column",
            f"Training lowers the Dirichlet energy of GT-Lite, {norm}-LN.", unit="log ratio",
            claim=Claim({f"GT-Lite, {norm}-LN": 1}, quantity=settled, varies=False),
            remark="Only the runs at the best settings keep what they scored before training.")
      for norm in ("pre", "post")],
    table("gt-wikitext", "GT", "table on WikiText-103",
          "The table's order holds on WikiText-103 itself.", study="", part="",
          remark="The corpus is not here, and the slides state neither width, tokens, steps nor "
                 "masks."),
    grid("gt-sudoku", "GT", "Sudoku", "GT-Lite solves more blanks than the Transformer.",
         claim=more("GT-Lite", "Transformer", BLANKS),
         remark="The Transformer has no positions: all its blank cells get the same answer."),
    grid("gt-sudoku-positions", BOOK, "control of Sudoku",
         "With positions for both, GT-Lite solves more blanks than the Transformer.",
         claim=more("GT-Lite, positions", "Transformer, positions", BLANKS)),
    grid("gt-sudoku-units", BOOK, "control of Sudoku",
         "GT-Full with the units as its graph solves more blanks than a Transformer with "
         "positions.", claim=more("GT-Full, units", "Transformer, positions", BLANKS)),
    grid("gt-sudoku-told", BOOK, "control of Sudoku",
         "So it does beside a Transformer whose attention is told the units.",
         claim=more("GT-Full, units", "Transformer, units", BLANKS)),
    grid("gt-sudoku-penalty", BOOK, "the notebook's triangle penalty",
         "With λ = 0.05 a Transformer with positions solves more blanks.",
         claim=more("Transformer, positions, λ = 0.05", "Transformer, positions", BLANKS)),
    grid("gt-sudoku-penalty-units", BOOK, "the notebook's triangle penalty",
         "With λ = 0.05 GT-Full with units solves more blanks.",
         claim=more("GT-Full, units, λ = 0.05", "GT-Full, units", BLANKS)),
    grid("gt-sudoku-square", BOOK, "control of the penalty",
         "A diagram that holds for the task helps a Transformer with positions.",
         claim=more("Transformer, positions, digits square", "Transformer, positions", BLANKS)),
    *[blocks(f"gt-notebook-{givens}", "GT", "Sudoku, the notebook",
             f"In the notebook's own form, with {givens} givens, GT-Lite solves more blanks.",
             study="sudoku", part=f"notebook, {givens} givens", unit="share of blanks",
             claim=more("GT-Lite", "Transformer", BLANKS)) for givens in (4, 6, 8, 10, 12)],
    *[blocks(f"gt-notebook-positions-{givens}", BOOK, "control of Sudoku",
             f"In that form, with {givens} givens, GT-Lite solves more than a Transformer with "
             "positions.", study="sudoku", part=f"notebook, {givens} givens",
             unit="share of blanks", claim=more("GT-Lite", "Transformer, positions", BLANKS))
      for givens in (4, 8, 12)],
    *[blocks(f"gt-weight-{kind}-{size}", BOOK, "the notebook's triangle penalty",
             f"On the notebook's puzzles, with λ = {weight}, {words} solves more blanks.",
             study="sudoku", part="published", unit="share of blanks",
             claim=more(f"{arm}, λ = {weight}", arm, BLANKS))
      for kind, arm, words in (
          ("positions", "Transformer, positions", "a Transformer with positions"),
          ("units", "GT-Full, units", "GT-Full with units"))
      for size, weight in (("small", "0.005"), ("suggested", "0.05"), ("large", "0.5"))],
    blocks("gt-notebook-penalty", BOOK, "the notebook's triangle penalty",
           "In the notebook's own form λ = 0.05 costs nothing in training.", study="sudoku",
           part="notebook, 8 givens", unit="share of blanks",
           claim=more("GT-Lite, λ = 0.05", "GT-Lite", SEEN)),
    moons("gt-moons", BOOK, "two moons", "GT-Lite separates two moons better than pointwise MLPs.",
          claim=gain("GT-Lite", "Pointwise", beats="nearest mean")),
    moons("gt-moons-commute", BOOK, "two moons, a penalty of our own",
          "Asking the steps to commute helps GT-Lite.",
          claim=gain("GT-Lite, steps commute", "GT-Lite", beats="nearest mean"),
          remark="The lecture says that its theme is to control order, not to enforce that steps "
                 "commute."),
    moons("gt-moons-swap", BOOK, "control of the penalty",
          "A diagram that holds for the task helps the pointwise model.",
          claim=gain("Pointwise, moons swap", "Pointwise", beats="nearest mean")),
    moons("gt-moons-energy", "GT", "two moons",
          "On two moons, too, the energy follows what training does.", study="", part="",
          remark="The slide shows a picture without numbers. The moons here are for "
                 "classification, and no run of them measures an energy."),
    blocks("gt-simplices", "GT", "geometric transport",
           "Messages over a simplicial complex enforce consistency on overlaps.",
           remark="No listing has a simplex above an edge, and triangles, the library's option, "
                  "are trained nowhere."),
    words("gt-regimes-hint", "GT", "the regimes",
          "The predictive hint has a lower loss on text than the causal geometry.",
          claim=gain("GT-PredictiveHint", "GT-CausalGeom"),
          remark="It reads the next token through the convolution."),
    words("gt-regimes-hint-causal", BOOK, "control of the regimes",
          "So has the predictive hint whose convolution is causal.",
          claim=gain("GT-PredictiveHint, causal", "GT-CausalGeom")),
    words("gt-regimes-self", BOOK, "control of the regimes",
          "The hint of what was expected before has a lower loss than the causal geometry.",
          claim=gain("GT-CausalSelfHint", "GT-CausalGeom")),
    words("gt-regimes-geometry", BOOK, "control of the regimes",
          "The causal geometry has a lower loss than the plain model.",
          claim=gain("GT-CausalGeom", "AR-Base")),
    Hypothesis("gt-drop", "GT", "the regimes, PTB", "The predictive hint's loss drops after 2000 "
               "to 2500 steps.", "15_causal_regimes",
               remark="The corpus is not here, and no output of the notebook is public."),
    Hypothesis("gt-semigroup", "GT", "on eq. 5",
               "Diagrammatic backpropagation teaches denoising arrows to compose.",
               "17_semigroup",
               remark="The lecture states no sizes, weights or numbers. Chapter 17 has networks in "
                      "one dimension, at one untuned rate."),
    Hypothesis("gt-seq2seq", "GT", "slide on alignment, the observations",
               "Jacobians commute more nearly in sequence-to-sequence models and residual MLPs, "
               "too.",
               "13_alignment",
               remark="The decoder of listing 2 is built and probed for causality, and trained "
                      "nowhere: the lecture states no task for it."),
    Hypothesis("gt-stability", "GT", "slide on commutator energy",
               "Training is more stable where sub-operators are more compatible.", "13_alignment",
               remark="No measure of stability is stated. Chapter 13 prints the rank correlation "
                      "of energy and loss."),
    Hypothesis("gt-interference", "GT", "slide on interference",
               "The energy tracks the interference of gradients.", "13_alignment",
               remark="Chapter 13 prints the rank correlation for each place of the norm. The runs "
                      "of a kind aren't independent, so it has no interval."),
]
