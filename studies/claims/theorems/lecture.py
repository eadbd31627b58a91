"""Statements of the Geometric Transformer lecture.

Its equation 21 belongs to the foundations.
"""

from studies.claims.theorems.theorem import Theorem

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
    Theorem("GT", "mean-field assumption",
            "In the large-width limit branches are small relative to x.",
            ORDER, "commutator-gaussian", "fails as stated",
            "The lecture assumes it, to find how the energy scales. At the usual scaling the "
            "entries of both have a size that doesn't depend on the width, and the expected "
            "commutator tends to a constant."),
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
            ALIGNMENT, "alignment-common-basis", "holds with a correction",
            "Scaling changes the energy and not the angle (normalisation-scale). Symmetric "
            "Jacobians commute exactly when they share an eigenbasis; in general that suffices "
            "and is not needed."),
    Theorem("GT", "alignment",
            "Transport reduces the cross-covariance of Jacobians, and so their commutator.",
            ALIGNMENT, "alignment-covariance", "fails as stated",
            "For Gaussian Jacobians with correlation ρ the expected commutator is proportional to "
            "1 − ρ²: it falls when the covariance grows. In general it decides nothing: matrices "
            "with a common eigenbasis commute, with covariance 0."),
    Theorem("GT", "alignment, off-diagonal terms",
            "Alignment reduces the variance of off-diagonal terms of the Jacobians.",
            ALIGNMENT, "alignment-off-diagonal", "holds with a correction",
            "In the eigenbasis of the other Jacobian: there the expected commutator is "
            "proportional to that variance."),
    Theorem("GT", "geometric transport",
            "Jacobians that act along shared subspaces mismatch less.",
            ALIGNMENT, "alignment-off-diagonal", "holds with a correction",
            "It counts whether one mixes the eigenvectors of the other. In a shared subspace "
            "layers can interfere most, and layers that share nothing commute."),
    Theorem("GT", "recap, simplicial objects",
            "Δ has the maps that never fall as arrows, and simplicial objects are contravariant "
            "functors on it.",
            FAMILY, "gt-simplicial", "holds"),
    Theorem("GT", "recap, GAIA",
            "The Geometric Transformer is a GAIA architecture, one of simplicial objects.",
            FAMILY, "gt-simplicial", "holds with a correction",
            "Its printed messages use source and target of edges, which satisfy no identity: every "
            "directed graph will do. No listing has a triangle, a degeneracy or a horn."),
    Theorem("GT", "recap, training",
            "Diagrammatic backpropagation trains a Geometric Transformer.",
            FAMILY, "gt-mismatch", "holds with a correction",
            "It is the ordinary gradient of a loss with penalties. In the course's Sudoku notebook "
            "the weight of the penalty is 0."),
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
    Theorem("GT", "three classes",
            "Strict causal, augmented context and non-causal are three classes of models.",
            REGIMES, "causal-classes", "holds with a correction",
            "Of wirings. As functions the last two are the same: every map reads an augmentation."),
    Theorem("GT", "model zoo",
            "AR-Base, GT-CausalGeom and GT-CausalSelfHint are strictly causal; AR+FutureHint and "
            "GT-AugGeom are not.",
            REGIMES, "admissible-causal", "holds"),
    Theorem("GT", "the last lecture",
            "It compared a non-causal GT with a causal Transformer.",
            REGIMES, "convolution-leaks", "holds",
            "We take this for the notebook of week 1. Its attention is masked; its convolution, "
            "padded on both sides, reads one position ahead per block. The notebook doesn't say "
            "so."),
    Theorem("GT", "listing 2",
            "The decoder block masks its self-attention causally.",
            REGIMES, "convolution-leaks", "holds with a correction",
            "The block isn't causal all the same: the convolution behind the mask reads one "
            "position ahead per block. The lecture doesn't say that it is causal."),
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
    Theorem("GT", "M.2, standard training",
            "Standard DDPM training asks for no composition, and its dynamics typically don't "
            "compose.",
            SEMIGROUP, "diffusion-semigroup", "holds with a correction",
            "The loss asks for none. Whether the result composes depends on the arrow: the flow "
            "does, posterior means of two bumps never do."),
]
