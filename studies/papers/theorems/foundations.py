"""Statements of the first two chapters: additions, normalisation, the delta operator."""

from studies.papers.theorems.theorem import Theorem

RESIDUAL, DELTA = "01_residual_stream", "02_delta_operator"

THEOREMS = [
    Theorem("GT", "eq. 21",
            "The Jacobian of layer normalisation is an orthogonal projector of rank d − 2, "
            "divided by σ(x).",
            RESIDUAL, "layernorm-jacobian", "holds",
            "Exact across 1 and x − μ1, in every dimension. The lecture speaks of all directions "
            "orthogonal to 1, where it is approximate."),
    Theorem("Xiong et al.", "theorem 1",
            "At initialisation the gradient of the last feed-forward matrix is of order d √ln d "
            "in Post-LN and smaller by √L in Pre-LN.",
            RESIDUAL, "xiong-theorem-1", "measured",
            "An upper bound under a boundedness assumption; the chapter measures the gradients "
            "over depth."),
    Theorem("MGT", "lemma A.2",
            "A Householder matrix is symmetric, orthogonal, its own inverse, and has determinant "
            "−1.",
            DELTA, "householder-lemma", "holds"),
    Theorem("MGT", "theorem 3.2",
            "I − β k kᵀ has eigenvalue 1 on the complement of k, 1 − β along k, and determinant 1 "
            "− β.",
            DELTA, "delta-spectrum", "holds"),
    Theorem("DDL", "theorem 3.1",
            "I − β k kᵀ has eigenvalue 1 with multiplicity d − 1 and 1 − β with eigenvector k.",
            DELTA, "delta-spectrum", "holds"),
    Theorem("DDL", "corollary 3.2",
            "The determinant is 1 − β, and (1 − β)^d_v on a state of d_v value channels.",
            DELTA, "delta-determinant", "holds",
            "The parity of d_v is in the paper too. With d_v = 4, its best setting, the lifted "
            "map never flips orientation."),
    Theorem("MGT", "proposition 3.3",
            "β = 0 is the identity, β = 1 a projection, β = 2 a reflection.",
            DELTA, "delta-regimes", "holds"),
    Theorem("MGT", "corollary A.3",
            "I − β k kᵀ is orthogonal if and only if β is 0 or 2.",
            DELTA, "delta-orthogonal", "holds",
            "The paper's proof needs that a symmetric matrix with eigenvalues ±1 is orthogonal; "
            "for other matrices unit moduli are not enough."),
    Theorem("DDL", "section 3.1",
            "I − β k kᵀ is orthogonal if and only if β is 0 or 2, because it is symmetric.",
            DELTA, "delta-orthogonal", "holds"),
    Theorem("E-MHC-Geo", "proposition 5.1",
            "I − β k kᵀ is orthogonal if and only if β is 0 or 2.",
            DELTA, "delta-orthogonal", "holds"),
    Theorem("E-MHC-Geo", "theorem 6.4",
            "The Householder-type operator is orthogonal if and only if β is 0 or 2.",
            DELTA, "delta-orthogonal", "holds"),
    Theorem("E-MHC-Geo", "corollary 5.2",
            "For a state of which k sees something, β in (0, 2) shrinks the norm and β outside "
            "[0, 2] lets it grow.",
            DELTA, "delta-norm", "holds",
            "States orthogonal to k keep their norm at every β; growth in a delta network comes "
            "from the write."),
    Theorem("E-MHC-Geo", "theorem 6.2",
            "The operator has eigenvalue 1 with multiplicity d − 1 and 1 − β along k.",
            DELTA, "delta-spectrum", "holds"),
    Theorem("E-MHC-Geo", "corollary 6.3",
            "At β = 2 the operator maps k to −k.",
            DELTA, "delta-regimes", "holds"),
    Theorem("DDL", "eq. 2.5",
            "A X + β k vᵀ = X + β k (vᵀ − kᵀX): erasing and writing share one rate.",
            DELTA, "delta-additive-form", "holds"),
    Theorem("MGT", "eq. 15",
            "A X + β k vᵀ = X + β k (vᵀ − kᵀX).",
            DELTA, "delta-additive-form", "holds"),
    Theorem("DDL", "eq. 2.6",
            "Along k the state follows kᵀX⁺ = (1 − β) kᵀX + β vᵀ.",
            DELTA, "delta-projected", "holds",
            "With the guard ε of the code, β becomes β‖k‖² with ‖k‖ slightly below 1."),
    Theorem("DDL", "section 3.4",
            "On a diagonal state the operator couples features i and j by −β s_j k_i k_j.",
            DELTA, "delta-diagonal", "holds"),
    Theorem("DDL", "eq. 3.1",
            "With one value channel the update is x + β (v − kᵀx) k.",
            DELTA, "delta-additive-form", "holds"),
    Theorem("DDL", "appendix A",
            "The update is DeltaNet's recurrence with depth in the place of time.",
            DELTA, "delta-deltanet", "holds",
            "The update rules are the same; here k, v and β depend on the state, in DeltaNet on "
            "the input, so only the rule is isomorphic."),
]
