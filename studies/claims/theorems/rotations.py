"""Statements about rotations, reflections and the gate between them."""

from studies.claims.theorems.theorem import Theorem

CAYLEY = "08_cayley"
GATE = "09_the_gate"
ROTATING = "10_rotating_transformers"

THEOREMS = [
    Theorem("E-MHC-Geo", "proposition 3.3",
            "u vᵀ − v uᵀ is skew-symmetric for all u and v.",
            CAYLEY, "cayley-skew", "holds"),
    Theorem("E-MHC-Geo", "corollary 3.4",
            "It stays skew-symmetric however u and v are computed.",
            CAYLEY, "cayley-skew", "holds"),
    Theorem("E-MHC-Geo", "theorem 4.1",
            "The Cayley transform of the rank-2 generator is orthogonal for all u(X), v(X) and "
            "every real β.",
            CAYLEY, "cayley-orthogonal", "holds",
            "In exact arithmetic; u and v need not be differentiable. In float32 the solve loses "
            "it in proportion to the magnitude, and bf16 keeps it to 1e-2."),
    Theorem("E-MHC-Geo", "corollary 4.2",
            "It is orthogonal for all inputs, without a constraint on β.",
            CAYLEY, "cayley-orthogonal", "holds",
            "In exact arithmetic."),
    Theorem("E-MHC-Geo", "theorem 4.3",
            "The Cayley transform keeps the norm of every vector.",
            CAYLEY, "cayley-isometry", "holds"),
    Theorem("E-MHC-Geo", "theorem 4.4",
            "Its determinant is 1.",
            CAYLEY, "cayley-determinant", "holds"),
    Theorem("E-MHC-Geo", "theorem 4.5",
            "I + M is invertible for every finite β and every input.",
            CAYLEY, "cayley-invertible", "holds",
            "Its smallest singular value is at least 1; its condition number is √(1 + s²) for n ≥ "
            "3, which float32 feels."),
    Theorem("E-MHC-Geo", "theorem 4.6",
            "No finite parameters give the eigenvalue −1.",
            CAYLEY, "cayley-no-minus-one", "holds",
            "This holds for one operator. Eigenvalues come as near as one likes, and a product of "
            "two quarter turns has −1."),
    Theorem("E-MHC-Geo", "lemma A.1",
            "I + M and I − M commute.",
            CAYLEY, "cayley-commute", "holds"),
    Theorem("E-MHC-Geo", "section 2",
            "The Cayley transform is a smooth bijection between the skew-symmetric matrices and "
            "SO(n).",
            CAYLEY, "cayley-bijection", "holds with a correction",
            "Onto the rotations without eigenvalue −1, as the paper's theorem 4.6 says itself."),
    Theorem("E-MHC-Geo", "section 9.4",
            "The rank-2 generator gives one planar rotation per operator.",
            CAYLEY, "cayley-plane", "holds",
            "By θ = 2 arctan(β ω / 2), ω the area of u and v. On a double turn by θ it stays at "
            "squared distance 4 (1 − cos θ)."),
    Theorem("E-MHC-Geo", "proposition 9.1",
            "Every angle below π is reached by finite parameters, and π only in the limit.",
            CAYLEY, "cayley-near-pi", "holds",
            "For independent u and v, at s = tan(θ/2) < 2 / (π − θ)."),
    Theorem("E-MHC-Geo", "section 2 and 9.5",
            "JPmHC's finite Cayley mixer stays in SO(n) and excludes the eigenvalue −1.",
            CAYLEY, "cayley-iteration-minus-one", "fails as stated",
            "True of the exact transform, and of two steps from Y₀ = I as in the benchmark's "
            "diagnostic. JPmHC's two steps leave SO(n) and attain −1 at generator eigenvalues "
            "±2i/α."),
    Theorem("E-MHC-Geo", "table 1",
            "JPmHC's mixer is orthogonal to within 1e-3.",
            CAYLEY, "cayley-iteration-defect", "holds with a correction",
            "For small generators: α‖W‖ ≤ 0.25."),
    Theorem("E-MHC-Geo", "sections 1 and 6.1",
            "Since a Cayley transform has no eigenvalue −1, negation needs a reflection branch and "
            "a gate.",
            CAYLEY, "cayley-scaled", "fails as stated",
            "The transform times a fixed diagonal of signs (Helfrich et al. 2018) is every "
            "orthogonal matrix, reflections and −I included, with no entry of M above 1 and "
            "nothing to blend."),
    Theorem("E-MHC-Geo", "section 2, on Helfrich et al.",
            "In earlier Cayley networks the rotation planes are fixed at initialisation.",
            CAYLEY, "cayley-scaled", "holds with a correction",
            "They don't depend on the input, and they are trained. What is fixed is the diagonal "
            "of signs, which the paper doesn't mention."),
    Theorem("E-MHC-Geo", "appendix B.1",
            "Exact negation must use the Householder branch.",
            CAYLEY, "cayley-scaled", "fails as stated",
            "−I is I times signs. A single reflection isn't −I, and four quarter turns are."),
    Theorem("E-MHC-Geo", "eq. 10",
            "The gradient reaches the generators through Q by the chain rule; all operations are "
            "differentiable.",
            CAYLEY, "cayley-gradient", "holds",
            "The transform at most doubles it. It vanishes at u = v = 0, and shrinks for large s."),
    Theorem("E-MHC-Geo", "section 9.9, the solve",
            "The main cost is a matrix solve, n³ in the number of streams, negligible for four.",
            CAYLEY, "cayley-cost", "holds",
            "The rank-2 operator needs no solve: applied in closed form it takes 8 n d "
            "operations."),
    Theorem("E-MHC-Geo", "section 10.2, scale",
            "With many streams the solve may become a bottleneck that needs a truncated Neumann "
            "series.",
            CAYLEY, "cayley-cost", "fails as stated",
            "The closed form grows like n. JPmHC's two steps are that series, and cost n³ each."),
    Theorem("E-MHC-Geo", "table 4, eigenvalue 1",
            "The Cayley rotation always has the eigenvalue 1.",
            CAYLEY, "cayley-plane", "holds",
            "n − 2 times for the rank-2 generator and n ≥ 3; a full generator of even size need "
            "not have it."),
    Theorem("E-MHC-Geo", "table 4, unit circle",
            "The Cayley rotation has all eigenvalues of the unit circle.",
            CAYLEY, "cayley-no-minus-one", "fails as stated",
            "All but −1, as the table's next line says, and one pair per operator."),
    Theorem("JPmHC", "section 3.1",
            "Two steps at α = 0.1 are orthogonal to within 1e-3.",
            CAYLEY, "cayley-iteration-defect", "holds with a correction",
            "As a bound on the largest entry, for α‖W‖ ≤ 0.25. Nearly all Gaussian generators "
            "with entries of 0.3 pass, two fifths with 0.9, and none with 3; at 10 the iteration "
            "diverges."),
    Theorem("E-MHC-Geo", "section 7.1",
            "O(n) has two components, rotations and reflections, and no path of orthogonal "
            "matrices joins them.",
            GATE, "gate-components", "holds",
            "The gap has a size: a rotation and an orthogonal matrix of determinant −1 are always "
            "at distance 2."),
    Theorem("E-MHC-Geo", "theorem 7.1",
            "γQ + (1 − γ)H is not orthogonal for γ in (0, 1).",
            GATE, "gate-singular-values", "holds",
            "The printed proof ends with 'in general'. The determinants make it hold always: the "
            "smallest singular value is |2γ − 1|, the largest at most 1."),
    Theorem("E-MHC-Geo", "notes, corollary 9.1",
            "The blend is furthest from orthogonal at γ = ½, where a signal may collapse or "
            "explode.",
            GATE, "gate-singular-values", "holds with a correction",
            "It can only collapse: no singular value exceeds 1."),
    Theorem("E-MHC-Geo", "definition 7.2",
            "The penalty 4γ(1 − γ) is 0 at both ends and 1 in the middle.",
            GATE, "gate-energy", "holds",
            "It is more: exactly the largest share of a vector's energy that the blend can lose."),
    Theorem("E-MHC-Geo", "proposition 8.2",
            "‖Gx‖² expands into γ²‖x‖² + (1 − γ)²‖x‖² and a cross-term; the deviation from "
            "isometry is bounded by 2γ(1 − γ) times the cross-term.",
            GATE, "gate-energy", "holds with a correction",
            "The expansion holds. The deviation is 2γ(1 − γ) times ‖x‖² − ⟨Qx, Hx⟩, which is not "
            "0 where the cross-term is."),
    Theorem("E-MHC-Geo", "proposition 8.3",
            "The determinant of the blend is 1 at γ = 1, −1 at γ = 0, and varies between.",
            GATE, "gate-determinant", "holds",
            "Between, its sign is that of 2γ − 1."),
    Theorem("E-MHC-Geo", "theorem 8.1",
            "Both components of the blend, the Cayley rotation and the reflection at β = 2, are "
            "orthogonal.",
            GATE, "gate-ends", "holds"),
    Theorem("E-MHC-Geo", "theorem 6.6",
            "At its ends the gate reaches both components of O(n).",
            GATE, "gate-ends", "holds",
            "With n the number of streams. On the state of n·d numbers both ends are rotations "
            "when d is even (gate-state)."),
    Theorem("E-MHC-Geo", "tables 1 and 4, eigenvalue −1",
            "Among the compared models only the hybrid has a direct −1 operator beside its "
            "rotations, by its gate.",
            GATE, "gate-no-minus-one", "fails as stated",
            "Table 1 itself gives DDL a −1 operator, at β = 2, without rotations. With finite "
            "parameters the hybrid's gate lies in (0, 1), and the blend excludes −1 as the Cayley "
            "transform does; both approach it. JPmHC's two steps attain it, and so do signs."),
    Theorem("E-MHC-Geo", "tables 1 and 4, determinant",
            "The determinant of the hybrid adapts.",
            GATE, "gate-determinant", "holds with a correction",
            "On the streams its sign is that of 2γ − 1. On the state of n·d numbers with even d "
            "it is 1 at both ends (gate-state)."),
    Theorem("E-MHC-Geo", "table 2",
            "At γ → 1 the operator is the rotation, of determinant 1 and without the eigenvalue "
            "−1, and at γ → 0 the reflection; between the ends it varies.",
            GATE, "gate-ends", "holds"),
    Theorem("E-MHC-Geo", "section 9.6 and table 8",
            "From a neutral start gates may stay intermediate or specialise by layer.",
            GATE, "gate-binary", "holds with a correction",
            "They specialise, by sublayer, and none stays intermediate. Mean and deviation of its "
            "table are those of 8 and of 9 gates at 1 among twelve, and of no gate further "
            "than 0.012 from an end. Its curves at ½ are means of two gates."),
    Theorem("E-MHC-Geo", "section 9.7 and table 8",
            "Biased starts collapse to their nearest boundary.",
            GATE, "gate-binary", "holds with a correction",
            "47 of 48 gates do, by the table's means and deviations; one seed a row."),
    Theorem("E-MHC-Geo", "section 9.9, the generators",
            "Five two-layer networks add about two linear layers per block.",
            GATE, "gate-weights", "holds with a correction",
            "Four two-layer networks and a linear gate, 2.08 D² weights for two operators. The "
            "four maps around the branches add 4 D² more."),
    Theorem("E-MHC-Geo", "notes, section 10.4.2",
            "With a hidden ratio of 2 the model has 2.05 million parameters.",
            GATE, "gate-weights", "fails as stated",
            "1.99 million by the code's layers; its other two rows fit."),
    Theorem("E-MHC-Geo", "section 8.2 and table 17",
            "The pre- and post-maps start as the identity.",
            GATE, "gate-maps", "fails as stated",
            "In the published code a later line draws them anew, with deviation 0.02: each keeps a "
            "twentieth of the mean square, and the branches start nearly off."),
    Theorem("E-MHC-Geo", "section 9.9, wall clock",
            "With fewer layers its training takes a time comparable to the baselines'.",
            GATE, "gate-cost", "measured",
            "At the sizes of table 5, on one thread of a CPU, a step takes three quarters of "
            "GPT's."),
    Theorem("E-MHC-Geo", "notes, theorem 8",
            "The gated operator reaches every orthogonal map in O(n).",
            GATE, "gate-not-all", "fails as stated",
            "One rotation of a plane or one reflection is not all of O(4). Products over layers "
            "reach more. The paper no longer states it."),
    Theorem("E-MHC-Geo", "notes, theorem 12",
            "A half-half blend approximates rotations by nearly 180° with arbitrarily small error.",
            GATE, "gate-blend-far", "fails as stated",
            "At γ = ½ the blend has distance at least 1 from every orthogonal matrix. The paper "
            "no longer states it."),
    Theorem("E-MHC-Geo", "notes, corollary 12.1",
            "For rotations by nearly 180° the blend is close to optimal, so nothing drives the "
            "gate from ½.",
            GATE, "gate-blend-far", "fails as stated",
            "It rests on theorem 12 of the notes. A sublayer after the blend can make up for it, "
            "which is another reason for the small loss."),
    Theorem("E-MHC-Geo", "theorem 7.3",
            "Every smooth symmetric penalty on the gate has slope 0 at γ = ½.",
            GATE, "gate-midpoint", "holds",
            "A maximum, hence an unstable point: gradient flow leaves it in a time of order "
            "log(1/δ) from ½ + δ (gate-escape)."),
    Theorem("E-MHC-Geo", "remark 7.4",
            "Among smooth symmetric penalties 4γ(1 − γ) has the largest finite slope at the ends.",
            GATE, "gate-steeper", "fails as stated",
            "1 − (2γ − 1)^(2m) has slope 4m. It holds among quadratics. In the logit every finite "
            "slope vanishes at the ends."),
    Theorem("E-MHC-Geo", "appendix A.4",
            "f(½), f′(½) and f′(0) of smooth regularisers: 1, 0, 4 for 4γ(1 − γ), and 1/16, 0, 0 "
            "for [γ(1 − γ)]².",
            GATE, "gate-steeper", "holds"),
    Theorem("E-MHC-Geo", "section 9.5",
            "JPmHC's failure at negation is consistent with a finite Cayley map excluding the "
            "eigenvalue −1.",
            GATE, "gate-jpmhc-start", "holds with a correction",
            "The rotation alone excludes −1 too, and negates. The diagnostic's two steps from I "
            "stay √3 away from −1. JPmHC's own two steps, from I + 2K, attain it."),
    Theorem("E-MHC-Geo", "section 9.3",
            "Stability asks for precise norm preservation over sequences of 127 steps.",
            ROTATING, "rotating-echo", "fails as stated",
            "One step is predicted, with the true past as input. Copying costs 2σ², below every "
            "stability loss of table 6."),
    Theorem("E-MHC-Geo", "section 1, norms",
            "The additive residual gives no guarantee: norms can drift.",
            ROTATING, "rotating-copying", "holds with a correction",
            "An orthogonal shortcut gives none either: with a branch, any deviation is possible."),
    Theorem("E-MHC-Geo", "notes, figure 12",
            "Its gradient norms stay bounded throughout training, as the figure shows.",
            ROTATING, "rotating-average", "fails as stated",
            "The figure plots a moving average that starts at the first value, 2200 on the "
            "gyroscope against 2 to 7 of the others. Up to step 1000 the curve is the memory of "
            "that value."),
    Theorem("E-MHC-Geo", "appendix B.2",
            "mHC fails near π because doubly stochastic matrices have no negative entries, even "
            "with perfect optimisation.",
            ROTATING, "rotating-signs", "fails as stated",
            "The matrix cannot, the block can: its branch supplies the signs. Started near the "
            "identity, the same mHC trains in small runs."),
    Theorem("E-MHC-Geo", "appendix E",
            "The deviation of the predictions' norm follows from the isometry of the Cayley "
            "transform.",
            ROTATING, "rotating-copying", "fails as stated",
            "Copying scores 0, the mean of the past at least 1 − 2/√T, and the plain network's "
            "shortcut, the identity, is an isometry too."),
]
