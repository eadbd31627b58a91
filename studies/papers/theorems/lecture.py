"""Statements of the Geometric Transformer lecture.

Its equation 21 belongs to the foundations.
"""

from studies.papers.theorems.theorem import Theorem

ORDER, ALIGNMENT, FAMILY = "12_commutator", "13_alignment", "14_geometric_transformers"
REGIMES, SEMIGROUP = "15_causal_regimes", "17_semigroup"

THEOREMS = [
    Theorem("GT", "eqs. 14–16",
            "For T = id + Δ the residual is R = Δᵢ(x + Δⱼ) − Δⱼ(x + Δᵢ) + Δⱼ − Δᵢ.",
            ORDER, "commutator-expansion", "holds"),
    Theorem("GT", "eq. 17",
            "To first order R is JᵢΔⱼ − JⱼΔᵢ.",
            ORDER, "commutator-linear", "holds with a correction",
            "The first-order terms cancel, so R itself is of second order; the error of the "
            "formula is of third order. Exact where both Δ are affine between the points."),
    Theorem("GT", "eq. 18",
            "At initialisation R is (JᵢJⱼ − JⱼJᵢ) x, because Δ is Jx.",
            ORDER, "commutator-jacobian", "holds with a correction",
            "Δ(x) = J(x) x holds for maps homogeneous of degree 1, such as ReLU networks without "
            "biases. A Pre-LN sublayer has degree 0: there J x = 0, and the formula gives 0 "
            "whatever R is."),
    Theorem("GT", "smoothing",
            "A smoothing operator C in the block lowers E(A, F), E(A, C) and E(C, F).",
            ORDER, "smoothing-blind", "fails as stated",
            "At a given x, E(A, F) does not contain C, and behind an averaging C it may rise or "
            "fall. The mean over three pairs tends to E(A, F)/3 as C tends to the identity."),
    Theorem("GT", "eq. 20",
            "In wide layers the mean of x is close to 0 and LN divides by the root mean square; "
            "LN takes the magnitude away.",
            ALIGNMENT, "layernorm-concentration", "holds with a correction",
            "The first half needs entries of mean 0. The second is exact at every width: LN(c x) "
            "= LN(x) for c > 0."),
    Theorem("GT", "normalisation",
            "Normalisation alone cannot make sublayers commute unless their eigenspaces agree.",
            ALIGNMENT, "normalisation-scale", "holds with a correction",
            "Scaling changes the energy and not the angle. Symmetric Jacobians commute exactly "
            "when they share an eigenbasis; in general that suffices and is not needed."),
    Theorem("GT", "alignment",
            "Transport reduces the cross-covariance of Jacobians, and so their commutator.",
            ALIGNMENT, "alignment-covariance", "fails as stated",
            "For Gaussian Jacobians with correlation ρ the expected commutator is proportional to "
            "1 − ρ²: it falls when the covariance grows. In general it decides nothing: matrices "
            "with a common eigenbasis commute, with covariance 0."),
    Theorem("GT", "Sudoku notebook",
            "The vectors of three cells of a unit should agree (a penalty, off by default, "
            "suggested at 0.05).",
            FAMILY, "sudoku-agreement", "fails as stated",
            "The penalty is least when all cells are equal, and then one readout gives one digit "
            "to cells that must differ. In training a larger readout evades it: it costs "
            "confidence, and a gain in accuracy is established nowhere."),
    Theorem("GT", "diagram (b)",
            "An augmentation that factors through the prefix leaves the model strictly causal.",
            REGIMES, "admissible-causal", "holds"),
    Theorem("GT", "GT-PredictiveHint",
            "Its detached prediction can still carry information of the future (lecture 9 of the "
            "same course).",
            REGIMES, "predictive-hint-leaks", "holds",
            "For almost all weights it does, one position per block: the symmetric convolution "
            "brings the hint at t + 1, a function of the token there, to position t. Padded at "
            "the left it is admissible."),
    Theorem("GT", "eq. 5",
            "Denoisers should compose: from t₃ to 0 is from t₃ to t₂ and on to 0.",
            SEMIGROUP, "diffusion-semigroup", "holds with a correction",
            "The flow of an equation with unique solutions composes exactly. Posterior means "
            "compose where they are affine, as for a Gaussian, and never for two bumps. A "
            "stochastic sampler composes in distribution only."),
]
