"""What HC, mHC, JPmHC and the survey claim of trained networks; and each residual over additive."""

from functools import partial

from studies.claims.hypotheses.hypothesis import BOOK, Hypothesis
from studies.engine import judge as verdict

gain = partial(verdict.gain, beats="bigram")
row = partial(Hypothesis, chapter="06_manifold_constrained")
text = partial(row, study="headline", part="text", unit="nats per byte")


HYPOTHESES = [
    text("hc-gain", "HC", "table 1", "Hyper-connections have a lower loss than the baseline.",
         claim=gain("hyper", "additive")),
    text("mhc-gain", "mHC", "table 4", "mHC has a lower loss than the baseline.",
         claim=gain("mhc", "additive")),
    text("mhc-over-hc", "mHC", "table 4", "mHC has a lower loss than hyper-connections.",
         claim=gain("mhc", "hyper"), remark="The paper's advantage is stability at 27 billion."),
    text("jpmhc-over-mhc", "JPmHC", "table 1",
         "Mixing by a rotation has a lower loss than mixing by doubly stochastic matrices.",
         claim=gain("jpmhc", "mhc"),
         remark="The authors' two arms differ in the norm and in the maps as well."),
    text("layerscale-gain", BOOK, "the trivial residual",
         "LayerScale, one number per feature, has a lower loss than the additive residual.",
         claim=gain("LayerScale", "additive")),
    text("mhc-over-layerscale", BOOK, "the trivial residual", "mHC gains more than LayerScale.",
         claim=gain("mhc", "LayerScale")),
    text("post-ln-loses", BOOK, "the norm's place", "Pre-norm has a lower loss than post-norm.",
         claim=gain("additive", "post-LN"),
         remark="At the size of the headline. mgt-post asks it of MGT's standard model."),
    *[text(f"gain-{name}", BOOK, "each residual over additive",
           f"{name} has a lower loss than the additive residual.", claim=gain(name, "additive"))
      for name in ("emhc-cayley", "emhc-hybrid", "emhc-geodesic", "emhc-exact", "emhc-stream",
                   "emhc-mixer", "benchmark-delta", "benchmark-mhc", "benchmark-jpmhc")],
    row("hc-faster", "HC", "OLMoE", "Hyper-connections converge 1.8 times as fast.",
        remark="That is one pair of runs of 7 billion parameters. hc-gain is what stands here."),
    row("mhc-stable", "mHC", "figure 2",
        "Hyper-connections become unstable after 12 000 steps of 27 billion parameters, mHC not.",
        remark="Chapter 4 has a large gain that still learns: unbounded is not yet unstable."),
    row("jpmhc-arc", "JPmHC", "table 3", "On ARC-AGI-1 Cayley mixing solves more than Sinkhorn's.",
        remark="That takes eight GPUs of 2025."),
    row("survey-overflow", "Survey", "§2.2",
        "Overflow ended the training of hyper-connections after 12 000 steps.",
        chapter="04_hyper_connections",
        remark="mHC's paper reports a surge of the loss there, and scores after training."),
    row("survey-moe", "Survey", "§6.2", "Mixed streams act as a small mixture of experts.",
        remark="An analogy: all streams share one sublayer, so there are no experts to choose "
               "from. No comparison is named."),
    row("survey-fusion", "Survey", "§6.3",
        "An operator that can't be fused can't be used in large training.",
        chapter="20_roofline",
        remark="No size is named. Chapter 20 says from which width an unfused residual costs "
               "how much."),
    row("survey-lanes", "Survey", "§2.1", "Streams specialise, as lanes do.",
        remark="No measure of it is stated."),
    row("survey-routing", "Survey", "§5.3",
        "Constrained streams suit routing, delta updates suit updating.",
        remark="No pair of tasks is named; a copy task alone can't decide it."),
]
