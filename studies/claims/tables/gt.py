"""The reported numbers of the Geometric Transformer lecture."""

from studies.claims.tables.table import Table, grid

TABLES = {
    "gt-wikitext-103": Table(
        "GT", "WikiText-103, L = 4",
        "the lecture's slides; one run each. What the slides call PostLNRes is post-LN here, as "
        "the listings print it. Width, tokens, steps and masks aren't given, and the listed blocks "
        "see the future, so the losses of the first six rows may not be next-token losses",
        "cross-entropy in nats, perplexity, share correct, Čech and Dirichlet energy, total "
        "persistence and bars of H₁",
        grid("cross-entropy, perplexity, accuracy, Čech, Dirichlet, H₁, bars", {
            "GT-Full, pre-LN": "6.536 689.8 .181 2.84e-2 .873 1.88e-2 6.5",
            "GT-MoE, pre-LN": "6.538 690.7 .182 5.54e-2 .924 3.33e-2 11.0",
            "GT-Lite, pre-LN": "6.557 704.4 .181 2.68e-2 .875 7.44e-3 3.0",
            "GT-Full, post-LN": "6.611 743.2 .179 4.73e-2 .993 1.68e-2 5.0",
            "GT-Lite, post-LN": "6.630 757.6 .174 4.54e-2 .937 4.07e-2 10.0",
            "GT-MoE, post-LN": "6.697 810.3 .176 4.85e-2 1.085 7.95e-4 1.5",
            "Transformer, pre-LN": "8.976 7908 .035 4.49e-2 1.009 7.54e-3 4.0",
            "Transformer, post-LN": "9.105 9000 .036 5.74e-2 1.053 1.77e-3 1.5"})),
}
