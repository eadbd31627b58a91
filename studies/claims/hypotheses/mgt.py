"""What the Manifold-Geometric Transformer's paper expects of its experiments."""

from functools import partial

from studies.claims.hypotheses.hypothesis import BOOK, Hypothesis
from studies.engine import judge as verdict
from studies.engine.judge import Claim, log_loss, measured

RANK, SLOPE = measured("decay", "last"), measured("decay", "slope")
CENTRED = measured("decay, centred", "last")
RISE = measured("decay", "largest rise")
gain = partial(verdict.gain, beats="bigram")
row = partial(Hypothesis, chapter="11_mgt")
ablation = partial(row, study="mgt_ablation", part="text", unit="nats per byte")
rank = partial(row, study="mgt_rank", part="rank")
depth = partial(row, study="mgt_depth", part="depth", unit="nats per byte")


def preserved(run: dict) -> float:
    """ρ: the rank after the last block over that before the first."""
    ranks = run["measured"]["rank"]["as defined"]
    return ranks[-1] / ranks[0]


def last_block(alphas: list[float]) -> float:
    """The mean over a block's two sublayers."""
    return sum(alphas[-2:]) / 2


HYPOTHESES = [
    rank("mgt-h1", "MGT", "H1, experiment 1",
         "The rank of a deep standard Transformer goes to 0: here, below 0.1 after 24 blocks.",
         claim=Claim({"Standard": -1}, above=-0.1, quantity=RANK), unit="minus effective rank",
         remark="The paper speaks of 100 blocks."),
    rank("mgt-h1-post", "MGT", "H1, experiment 1",
         "The same for the post-norm control of the paper's text.",
         claim=Claim({"Standard, post-LN": -1}, above=-0.1, quantity=RANK),
         unit="minus effective rank", remark="The paper speaks of 100 blocks."),
    rank("mgt-h2", "MGT", "H2, experiment 1",
         "MGT's rank stays above 0.5: here, after 24 blocks.",
         claim=Claim({"MGT (Full)": 1}, above=0.5, quantity=RANK), unit="effective rank",
         remark="The paper speaks of 100 blocks. A shift of the mean alone moves the number."),
    rank("mgt-monotonic", "MGT", "H1, experiment 1",
         "The standard model's rank falls at every block: its largest rise is a factor below 1.",
         claim=Claim({"Standard": -1}, above=-1, quantity=RISE), unit="minus the largest factor"),
    rank("mgt-monotonic-post", "MGT", "H1, experiment 1", "So does that of the post-norm control.",
         claim=Claim({"Standard, post-LN": -1}, above=-1, quantity=RISE),
         unit="minus the largest factor"),
    rank("mgt-ratio", "MGT", "experiment 1, ρ",
         "MGT keeps a larger share of the embedding's rank than the standard model.",
         claim=Claim({"MGT (Full)": 1, "Standard": -1}, quantity=preserved),
         unit="ratio of ranks", remark="The paper defines ρ, and names no value."),
    rank("mgt-rank", "MGT", "experiment 1", "MGT ends with a higher rank than the standard model.",
         claim=Claim({"MGT (Full)": 1, "Standard": -1}, quantity=RANK), unit="effective rank"),
    rank("mgt-rank-centred", BOOK, "control of experiment 1",
         "MGT ends with a higher rank after the rows are centred, too.",
         claim=Claim({"MGT (Full)": 1, "Standard": -1}, quantity=CENTRED),
         unit="effective rank, centred"),
    rank("mgt-decay", "MGT", "experiment 1, slope",
         "MGT's rank falls more slowly over depth than the standard model's.",
         claim=Claim({"MGT (Full)": 1, "Standard": -1}, quantity=SLOPE), unit="log rank per block"),
    rank("mgt-decay-signed", "MGT", "experiment 1, slope",
         "So does that of MGT with β in (−1, 1), the paper's own range.",
         claim=Claim({"MGT, β in (−1, 1)": 1, "Standard": -1}, quantity=SLOPE),
         unit="log rank per block"),
    rank("mgt-post-rank", BOOK, "control of experiment 1",
         "After 24 blocks the post-norm model has a lower rank than the pre-norm one.",
         claim=Claim({"Standard": 1, "Standard, post-LN": -1}, quantity=RANK),
         unit="effective rank"),
    rank("mgt-post-deep", BOOK, "control of experiment 1",
         "With 24 blocks post-norm learns more than byte counts.",
         claim=Claim({"Standard, post-LN": -1}, above=-3.263), unit="minus nats per byte",
         remark="3.263 nats per byte is what the byte counts of the training text score."),
    ablation("mgt-synergy", "MGT", "S, experiment 2",
             "Gate and erasure gain more together than the sum of what each gains.",
             claim=Claim({"+mHC Only": 1, "+DDL Only": 1, "Standard": -1, "MGT (Full)": -1},
                         beats="bigram")),
    ablation("mgt-full", "MGT", "experiment 2", "MGT has a lower loss than the standard model.",
             claim=gain("MGT (Full)", "Standard")),
    ablation("mgt-gate-gains", "MGT", "experiment 2", "So has the standard model with its gate.",
             claim=gain("+mHC Only", "Standard")),
    ablation("mgt-erasure-gains", "MGT", "experiment 2",
             "So has the standard model with its erasure.", claim=gain("+DDL Only", "Standard")),
    ablation("mgt-size", BOOK, "control of experiment 2",
             "MGT has a lower loss than a standard model with as many weights.",
             claim=gain("MGT (Full)", "Standard, MLP 6D")),
    ablation("mgt-layerscale", BOOK, "control of experiment 2",
             "The gate gains more than LayerScale, one learned number per feature.",
             claim=gain("+mHC Only", "LayerScale")),
    ablation("mgt-token-rate", "MGT", "equation 6, its text",
             "One rate per token does better than one per feature.",
             claim=gain("MGT, β per token", "MGT (Full)")),
    ablation("mgt-projection", "MGT", "equation 7, before it is simplified",
             "The projection does better than the scaled state that stands for it.",
             claim=gain("MGT, projection", "MGT (Full)")),
    ablation("mgt-post-full", "MGT", "experiment 2, as its text has it",
             "With post-norm throughout, MGT has a lower loss than the standard model.",
             claim=gain("MGT (Full), post-LN", "Standard, post-LN")),
    ablation("mgt-post-synergy", "MGT", "S, experiment 2, as its text has it",
             "With post-norm throughout, the parts gain more together than apart.",
             claim=Claim({"+mHC Only, post-LN": 1, "+DDL Only, post-LN": 1,
                          "Standard, post-LN": -1, "MGT (Full), post-LN": -1}, beats="bigram")),
    ablation("mgt-post", BOOK, "control of experiment 2",
             "The standard model learns better with pre-norm than with post-norm.",
             claim=gain("Standard", "Standard, post-LN")),
    ablation("mgt-real-synergy", "Survey", "§7",
             "mHC's streams and delta's update gain more together than apart.",
             claim=Claim({"mHC": 1, "delta": 1, "Standard": -1, "mHC × delta": -1},
                         beats="bigram")),
    ablation("mgt-real", "Survey", "§7", "Together they have a lower loss than the standard model.",
             claim=gain("mHC × delta", "Standard")),
    ablation("mgt-alpha", "MGT", "equation 7",
             "MGT erases: α is positive in its last block.",
             claim=Claim({"MGT (Full)": 1}, quantity=measured("alpha", of=last_block)),
             unit="α"),
    row("mgt-copy", "MGT", "§4.2, the copy task", "MGT copies with a lower loss.",
        study="mgt_ablation", part="copy",
        claim=Claim({"Standard": 1, "MGT (Full)": -1}, quantity=log_loss,
                    beats="bag of the first half"), unit="log ratio"),
    row("mgt-copy-post", BOOK, "control of the copy task",
        "The standard model copies with a lower loss with pre-norm than with post-norm.",
        study="mgt_ablation", part="copy",
        claim=Claim({"Standard, post-LN": 1, "Standard": -1}, quantity=log_loss,
                    beats="bag of the first half"), unit="log ratio"),
    depth("mgt-depth", "MGT", "experiment 4",
          "At a fixed size MGT's lead over the standard model is larger at 16 blocks than at 2.",
          claim=Claim({"Standard, 16 blocks": 1, "MGT (Full), 16 blocks": -1,
                       "Standard, 2 blocks": -1, "MGT (Full), 2 blocks": 1}, beats="unigram")),
    depth("mgt-depth-lead", "MGT", "experiment 4",
          "At a fixed size MGT leads in the mean over 2 to 16 blocks.",
          claim=Claim({f"{name}, {blocks} blocks": weight / 4 for blocks in (2, 4, 8, 16)
                       for name, weight in (("Standard", 1), ("MGT (Full)", -1))},
                      beats="unigram")),
    depth("mgt-depth-standard", "MGT", "experiment 4",
          "At a fixed size the standard model gets worse from 2 to 16 blocks.",
          claim=gain("Standard, 2 blocks", "Standard, 16 blocks", beats="unigram")),
    row("mgt-language", "MGT", "experiment 5",
        "At equal width and depth MGT models language better.", study="headline", part="text",
        claim=gain("mgt", "additive"), unit="nats per byte",
        remark="A million weights, where the paper has about 50."),
    row("mgt-essential", "MGT", "abstract",
        "A constraint together with erasure is essential beyond present depths.",
        remark="DeepNet, which the paper cites, reports 1000 layers with neither."),
    row("mgt-converges", "MGT", "experiment 4",
        "MGT needs fewer epochs to a target perplexity.", remark="No target is named."),
    row("mgt-spread", "MGT", "experiments 4 and 5",
        "MGT's losses vary less over seeds.",
        remark="The rule here compares means. In mgt_depth, at 2, 4, 8 and 16 blocks, the variance "
               "of the standard model's losses over 16 seeds is 5.7, 1.4, 1.0 and 33 times MGT's. "
               "Chance alone stays within a factor of 2.9, for normal losses."),
    row("mgt-beta", "MGT", "experiment 3",
        "Deep layers of a model with 100 blocks learn negative β, early ones positive.",
        remark="At α = 0 the sign of β is a convention, and no run can decide it. The paper "
               "doesn't say where α starts."),
]
