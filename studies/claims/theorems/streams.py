"""Statements about streams: hyper-connections, the Birkhoff polytope, mHC."""

from studies.claims.theorems.theorem import Theorem

HYPER = "04_hyper_connections"
BIRKHOFF = "05_birkhoff_polytope"
CONSTRAINED = "06_manifold_constrained"

THEOREMS = [
    Theorem("HC", "initialisation",
            "With a = e_k, b = 1 and the identity as mixing matrix the network starts as the "
            "plain pre-norm one.",
            HYPER, "hyper-step-zero", "holds",
            "Each lane is the plain state; the sum that is read out is n times it, which the last "
            "norm removes but for its guard ε."),
    Theorem("HC", "section 3.2, sequential-parallel duality",
            "With two lanes, coefficients exist that put two sublayers behind one another or side "
            "by side.",
            HYPER, "hyper-arrangements", "holds",
            "Shown with matrices of our own, which keep the mean of the lanes as the state."),
    Theorem("mHC", "section 3.1",
            "The largest absolute row and column sum of the product of mixing matrices bound how "
            "signals and gradients grow.",
            HYPER, "hyper-gain", "holds",
            "For the residual path with its coefficients held, and read as sums of absolute "
            "values: the absolute value of a signed sum bounds nothing. A rescaling that leaves "
            "the network's function as it is can make the gain any number."),
    Theorem("Survey", "section 2.2, eigenvalues",
            "Hyper-connections explode because the eigenvalues of H may leave the unit circle, "
            "while the identity's spectral radius of one keeps lengths.",
            HYPER, "hyper-eigenvalues", "fails as stated",
            "Nothing does bound H. But eigenvalues in the unit circle would not be enough: "
            "products of shears, all of whose eigenvalues are one, grow exponentially. A norm, or "
            "normal matrices, would."),
    Theorem("Survey", "section 2.2, the gain of 3000",
            "Small gains of single layers multiply to 3000 over 60 layers.",
            HYPER, "hyper-growth", "holds with a correction",
            "If the layers agree, 14 % each suffice. As fair noise the deviations would have to "
            "be about as large as the identity. The 60 are the sublayers of 30 blocks."),
    Theorem("mHC", "section 4.1, norm preservation",
            "A doubly stochastic matrix has spectral norm at most 1.",
            BIRKHOFF, "birkhoff-norm", "holds",
            "It is exactly 1, and so are the largest row and column sum. A bound: lengths are "
            "preserved by permutations only."),
    Theorem("mHC", "section 4.1, compositional closure",
            "Products of doubly stochastic matrices are doubly stochastic.",
            BIRKHOFF, "birkhoff-products", "holds"),
    Theorem("mHC", "section 4.1, Birkhoff polytope",
            "The doubly stochastic matrices are the convex hull of the permutation matrices.",
            BIRKHOFF, "birkhoff-von-neumann", "holds"),
    Theorem("mHC", "section 4.2",
            "Dividing columns and rows of exp(logits) by their sums in turn converges to a doubly "
            "stochastic matrix.",
            BIRKHOFF, "sinkhorn-convergence", "holds",
            "At the rate of the second singular value squared. 20 iterations leave exact rows and "
            "inexact columns."),
    Theorem("Survey", "section 3.1, boundedness",
            "The spectral norm of a doubly stochastic matrix is at most 1, under certain "
            "conditions.",
            BIRKHOFF, "birkhoff-norm", "holds",
            "There are no further conditions. That the largest eigenvalue is 1 would not suffice."),
    Theorem("Survey", "section 3.1, conservation",
            "Mixing by a doubly stochastic matrix conserves energy, and the mean.",
            BIRKHOFF, "birkhoff-mean", "holds with a correction",
            "The mean is conserved. Energy can't grow, as the text under that heading says, and "
            "shrinks wherever different streams are averaged."),
    Theorem("Survey", "section 3.1, closure",
            "A product over any number of layers is doubly stochastic.",
            BIRKHOFF, "birkhoff-products", "holds"),
    Theorem("Survey", "section 3.1, the gain of 1.6",
            "The gain of 1.6 comes from the nonlinear part, not from the residual path.",
            BIRKHOFF, "sinkhorn-composite", "fails as stated",
            "It is a column sum of a product of residual matrices alone: what 20 Sinkhorn "
            "iterations leave. The paper says so in section 5.4."),
    Theorem("Survey", "section 3.2, order",
            "mHC normalises rows, then columns.",
            BIRKHOFF, "sinkhorn-order", "holds with a correction",
            "Columns, then rows. The limit is the same; after 20 iterations the rows are exact, "
            "and the error is in the backward gain."),
    Theorem("Survey", "section 3.2, iterations",
            "20 iterations suffice to converge.",
            BIRKHOFF, "sinkhorn-rate", "holds with a correction",
            "For logits of spread 1. At spread 6 about half of random 4 × 4 matrices are still "
            "off by more than a hundredth."),
    Theorem("JPmHC", "table 15",
            "The determinant of a doubly stochastic matrix lies in [0, 1].",
            BIRKHOFF, "birkhoff-determinant", "fails as stated",
            "It takes all values in [−1, 1]; a transposition has −1."),
    Theorem("E-MHC-Geo", "section 1",
            "Sinkhorn's projection is approximately orthogonal.",
            BIRKHOFF, "birkhoff-isometries", "fails as stated",
            "Doubly stochastic and orthogonal are different conditions: only permutations satisfy "
            "both."),
    Theorem("DDL", "related work",
            "mHC's Sinkhorn gives the residual matrix orthogonal properties.",
            BIRKHOFF, "birkhoff-isometries", "fails as stated",
            "A non-expansive matrix, orthogonal only if it is a permutation."),
    Theorem("E-MHC-Geo", "table 3, mHC",
            "mHC is not input-adaptive.",
            CONSTRAINED, "mhc-adaptive", "fails as stated",
            "All three maps are generated from the token, in the mHC paper and in E-MHC-Geo's own "
            "code for it."),
    Theorem("mHC", "abstract, identity mapping",
            "Doubly stochastic mixing restores the identity mapping of residual connections.",
            CONSTRAINED, "mhc-mean-stream", "holds",
            "For the mean of the streams, if columns sum to one exactly. Differences between "
            "streams fade (mhc-consensus)."),
    Theorem("Survey", "section 1, chaos",
            "Expressiveness without constraint leads to chaos by necessity.",
            HYPER, "hyper-rescaling", "fails as stated",
            "A rescaling gives any gain without any effect, and stored networks learn at a gain of "
            "40 000."),
    Theorem("Survey", "section 2.1, splitting",
            "One wide stream is split into n sub-streams.",
            HYPER, "hyper-step-zero", "holds with a correction",
            "It is copied: each lane is as wide as the model."),
    Theorem("Survey", "sections 2.2 and 5.1, dynamic",
            "The mixing matrix is generated from the input, in all three methods alike.",
            HYPER, "hyper-step-zero", "holds with a correction",
            "Hyper-connections have a static form too, whose numbers are parameters."),
    Theorem("Survey", "section 3.2, gradient",
            "The whole iteration is differentiable, so gradients reach the logits.",
            BIRKHOFF, "sinkhorn-gradient", "holds",
            "Near a corner of the polytope they vanish (sinkhorn-corner)."),
    Theorem("Survey", "section 5.3, conservation of mass",
            "As row and column sums are conserved, the signal can't grow without bound.",
            BIRKHOFF, "birkhoff-norm", "holds with a correction",
            "For entries that aren't negative. With signs, sums of one bound nothing: the matrix "
            "with rows (2, −1) and (−1, 2) stretches by 3."),
    Theorem("Survey", "section 5.3, signs",
            "Doubly stochastic mixing can hardly turn the sign of the whole signal.",
            BIRKHOFF, "birkhoff-mean", "holds",
            "It can't at all, since it keeps the mean. Differences of streams it can turn: a swap "
            "has the eigenvalue −1."),
    Theorem("Survey", "section 6.1, safe manifold",
            "A stack of any depth needs operators from a compact, norm-preserving manifold, such "
            "as the Birkhoff polytope, the orthogonal group or the delta operators.",
            "18_atlas", "atlas-trichotomy", "fails as stated",
            "All three are compact and none grows. Only the second keeps norms: the others hold it "
            "at permutations and at β = 0 and 2, and elsewhere they forget."),
]
