"""What Deep Delta Learning claims of its trained networks, and the controls of its tables."""

from functools import partial

from studies import verdict
from studies.papers.hypotheses.hypothesis import BOOK, Hypothesis
from studies.verdict import Claim, measured

gain = partial(verdict.gain, beats="unigram")
lower = partial(verdict.lower, beats="bag of the first half")
faster = partial(verdict.lower, beats="zero")
row = partial(Hypothesis, chapter="07_delta_transformer")
text = partial(row, study="delta", part="text", unit="nats per byte")
copy = partial(row, study="delta", part="copy", unit="log ratio")
echo = partial(Hypothesis, chapter="03_learning_to_reflect", study="echo", unit="log ratio")
TC, CC, EC, BOTH = (f"delta-matrix{name}" for name in ("", "-cc", "-ec", "-cc-ec"))


HYPOTHESES = [
    text("ddl-one", "DDL", "table 3", "Delta with d_v = 1 has a lower loss than the baseline.",
         claim=gain("delta", "additive"), remark="The paper's gain is 0.006 nats, of one run."),
    text("ddl-four", "DDL", "table 3",
         "Delta with d_v = 4, with token convolution, has a lower loss than the baseline.",
         claim=gain(TC, "additive")),
    text("ddl-ec", "DDL", "table 3", "So has EC, which expands by convolution.",
         claim=gain(EC, "additive")),
    text("ddl-cc", "DDL", "table 3", "So has CC, which compresses over channels.",
         claim=gain(CC, "additive")),
    text("ddl-cc-ec", "DDL", "table 3 of the revision", "So has CC-EC.",
         claim=gain(BOTH, "additive")),
    text("ddl-wide", "DDL", "table 3", "d_v = 4 has a lower loss than d_v = 1.",
         claim=gain(TC, "delta")),
    text("ddl-ec-over-cc", "DDL", "table 3, small", "EC has a lower loss than CC.",
         claim=gain(EC, CC), remark="The paper's medium models have the other order."),
    text("ddl-ec-over-tc", "DDL", "table 3", "EC has a lower loss than token convolution alone.",
         claim=gain(EC, TC)),
    text("ddl-cc-ec-over-cc", "DDL", "revision, §5", "CC-EC has a lower loss than CC.",
         claim=gain(BOTH, CC)),
    text("ddl-v", "DDL", "§4.1", "The v-Map with d_v = 1 has a lower loss than the k-Map.",
         claim=gain("delta, v-Map", "delta")),
    text("ddl-v-four", "DDL", "§4.2", "The v-Map with d_v = 4 has a lower loss than the k-Map.",
         claim=gain("delta-matrix, v-Map", TC)),
    text("ddl-erasing", "DDL", "revision, §5",
         "Erasing gains: d_v = 4 has a lower loss than the same model that only writes.",
         claim=gain(TC, "delta-matrix, write-only"),
         remark="The revision names this control and asks for it."),
    text("ddl-erasing-one", BOOK, "control of table 3", "Erasing gains with d_v = 1.",
         claim=gain("delta", "delta, write-only")),
    text("ddl-convolution", BOOK, "control of table 3",
         "The wider state with its convolution gains without anything of delta.",
         claim=gain("delta-matrix, additive-matrix", "additive")),
    text("ddl-which", BOOK, "control of table 3",
         "The convolution with the wider state gains more than erasing.",
         claim=Claim({"additive": 1, "delta-matrix, additive-matrix": -1,
                      "delta-matrix, write-only": -1, TC: 1}, beats="unigram")),
    text("ddl-beta", BOOK, "control of table 3",
         "A learned β does better than β held at 1.",
         claim=gain(TC, "delta-matrix, overwrite")),
    text("ddl-reflects", "DDL", "§3.3, the reflection",
         "Trained gates of d_v = 1 lie above 1, towards the reflection, in the mean.",
         claim=Claim({"delta": 1}, above=1, quantity=measured("beta mean")), unit="β"),
    text("ddl-reflects-four", "DDL", "§3.3, the reflection",
         "So do those of d_v = 4 with token convolution.",
         claim=Claim({TC: 1}, above=1, quantity=measured("beta mean")), unit="β"),
    copy("ddl-copy", BOOK, "control of table 3", "Delta with d_v = 1 copies with a lower loss.",
         claim=lower("delta", "additive")),
    copy("ddl-copy-erasing", BOOK, "control of table 3",
         "Erasing helps d_v = 1 to copy.", claim=lower("delta", "delta, write-only")),
    copy("ddl-copy-four", BOOK, "control of table 3", "Erasing helps d_v = 4 to copy.",
         claim=lower("delta-matrix", "delta-matrix, write-only")),
    copy("ddl-copy-wide", BOOK, "control of table 3",
         "The wider state with its convolution copies with a lower loss, without delta.",
         claim=lower("delta-matrix, additive-matrix", "additive")),
    echo("ddl-echo", BOOK, "control of the reflection",
         "On echo delta learns faster than additive: a lower loss after 300 steps.",
         part="short", claim=faster("delta", "additive")),
    echo("ddl-echo-v", BOOK, "control of the reflection", "So does the v-Map.",
         part="short", claim=faster("delta, v-Map", "additive")),
    echo("ddl-echo-long", BOOK, "control of the reflection",
         "On echo delta has a lower loss than additive after 3000 steps.",
         part="long", claim=faster("delta", "additive")),
    echo("ddl-echo-long-v", BOOK, "control of the reflection", "So has the v-Map.",
         part="long", claim=faster("delta, v-Map", "additive")),
    row("ddl-headline", "DDL", "table 3",
        "With a million weights, delta with d_v = 1 has a lower loss than the baseline.",
        study="headline", part="text", claim=gain("delta", "additive"), unit="nats per byte"),
    row("ddl-headline-four", "DDL", "table 3",
        "With a million weights, delta with d_v = 4 has a lower loss than the baseline.",
        study="headline", part="text", claim=gain("delta-matrix", "additive"),
        unit="nats per byte"),
    row("ddl-mup", "DDL", "§5.1", "With μP one learning rate suits both sizes.",
        remark="Nothing here uses μP: the budget “paper” has the paper's rate in the standard "
               "parameterisation. The text doesn't say which multipliers it takes."),
    row("ddl-skip", "DDL", "§3.2",
        "Gates near the identity are crucial for signals in very deep networks.",
        remark="The paper's own models start at β = 1 and have at most 24 blocks."),
    row("ddl-interference", "DDL", "§3.6",
        "Erasing keeps interference from accumulating over layers.",
        remark="No measure of interference is stated; ddl-erasing is what erasing gains."),
    row("ddl-stable", "DDL", "abstract", "DDL keeps training stable.",
        remark="No measure of stability is stated, and one run per model can't show it."),
    row("ddl-downstream", "DDL", "tables 1 and 2",
        "Its models answer more questions of eight benchmarks right.",
        remark="That takes 124 million weights and 49 billion tokens."),
    row("ddl-forgetting", "Survey", "§4.3", "Forgetting is the key to reasoning.",
        remark="Reasoning is not measured here; ddl-erasing is what this book has of forgetting."),
]
