"""Statements about the Manifold-Geometric Transformer."""

from studies.claims.theorems.theorem import Theorem

MGT_BLOCK = "11_mgt"

THEOREMS = [
    Theorem("MGT", "remark 3.4",
            "λ tanh(z) + ε has the range (ε − λ, ε + λ), and λ = 1, ε = 0 recovers the standard "
            "range.",
            MGT_BLOCK, "mgt-range", "holds with a correction",
            "The range is right, with open ends. λ = 1, ε = 0 gives (−1, 1); DDL's (0, 2) needs λ "
            "= ε = 1."),
    Theorem("MGT", "proposition 3.5 (1)",
            "The gated update lies approximately in the tangent space of the data's manifold.",
            MGT_BLOCK, "mgt-gate", "fails as stated",
            "The paper gives an interpretation, no manifold and no bound. On the sphere of the "
            "norm a gate keeps tangents tangent only when it is uniform."),
    Theorem("MGT", "proposition 3.5 (2)",
            "Where V > αX the update accumulates features, where V < αX it erases them; a "
            "negative β turns it round.",
            MGT_BLOCK, "mgt-target", "holds with a correction",
            "Read entry by entry and with β > 0, the sign says whether a feature moves up or "
            "down. Up is growth for positive features only."),
    Theorem("MGT", "proposition 3.5 (3)",
            "d − 1 eigenvalues of the MGT update stay exactly 1, so gradients flow unimpeded.",
            MGT_BLOCK, "mgt-shortcut", "fails as stated",
            "It uses theorem 3.2 on I − β k kᵀ. The block's shortcut is diag(1 − αβᵢ), where no "
            "eigenvalue needs to be 1."),
    Theorem("MGT", "section 4.6",
            "The gate and the rate add about 2 L d² parameters each, an overhead of about 25 %.",
            MGT_BLOCK, "mgt-overhead", "holds with a correction",
            "Each adds 2 L d². Together that is 33 % of a standard block's 12 d², and 25 % of the "
            "enlarged model. The stated size of about 50 million does not fit d = 512, L = 24, "
            "whose blocks have 75.5 million."),
    Theorem("MGT", "section 3.5.3, direction and magnitude",
            "mHC controls the direction of the update, DDL its magnitude and sign.",
            MGT_BLOCK, "mgt-direction", "fails as stated",
            "A rate per feature, which the algorithm has, turns the update, and a gate shortens "
            "it. With one rate per token the second half holds."),
    Theorem("MGT", "table 1, drift",
            "Erasure without the gate may drift; with the gate the geometry is stable.",
            MGT_BLOCK, "mgt-drift", "fails as stated",
            "Read as the size of the state, since no manifold is named: rates αβ between 0 and 2 "
            "bound it at every depth, and a gate does not."),
]
