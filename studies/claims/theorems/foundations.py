"""Statements of the first two chapters: additions, normalisation, the delta operator."""

from studies.claims.theorems.theorem import Theorem

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
            "I − β k kᵀ has eigenvalue 1 with multiplicity d − 1 and eigenspace k⊥, and 1 − β with "
            "eigenvector k.",
            DELTA, "delta-spectrum", "holds with a correction",
            "For β ≠ 0. At β = 0 the operator is I, and the eigenspace of 1 is the whole space."),
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
    Theorem("E-MHC-Geo", "section 1, on DDL",
            "Off β = 2 DDL breaks the isometry, and so its gradients become unstable.",
            DELTA, "delta-norm", "holds with a correction",
            "It breaks the isometry. But for β in (0, 2) the operator lengthens nothing, and "
            "growth comes from the write."),
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
    Theorem("MGT", "section 1, write-only",
            "An additive residual is a write-only memory, in which it is difficult to erase.",
            RESIDUAL, "stream-price", "holds with a correction",
            "It can erase, at the price of a branch of slope 1, and reflect at slope 2. Whether "
            "that is difficult to learn is a question of training."),
    Theorem("DDL", "eq. 1.1",
            "A residual layer is a forward Euler step.",
            RESIDUAL, "stream-euler", "holds with a correction",
            "As an equation always. As an approximation of a flow it has an error of order 1/L, "
            "for branches that are small and change little from layer to layer."),
    Theorem("DDL", "section 1, eigenvalues",
            "The identity biases a layer's derivative towards eigenvalues near 1, and makes "
            "negative ones hard to realise.",
            RESIDUAL, "stream-near-identity", "holds with a correction",
            "A theorem for slopes below 1. The norm divides by the state's size, so a short state "
            "has branches of any slope, as the first sublayer of the chapter's trained stack."),
    Theorem("Survey", "section 1, see-saw",
            "Without the identity gradients vanish; with too much of it the features of deep "
            "layers become alike.",
            RESIDUAL, "stream-seesaw", "holds with a correction",
            "For slopes below 1. What becomes alike is a layer's state and the next, not two "
            "inputs. In the chapter's untrained stacks it is without the identity that the rank "
            "is lost."),
    Theorem("Survey", "section 4.1, erasing",
            "A residual network can't erase exactly, as the projection at β = 1 does.",
            RESIDUAL, "stream-price", "holds with a correction",
            "It can, by a branch of slope 1 that it has to learn."),
    Theorem("DDL", "definition 2.1",
            "A Householder matrix is symmetric, orthogonal and an involution, with one eigenvalue "
            "−1.",
            DELTA, "householder-lemma", "holds"),
    Theorem("DDL", "section 3.2",
            "β interpolates between the identity, an orthogonal projection and a reflection.",
            DELTA, "delta-regimes", "holds",
            "At a published start of β = 1 a network begins at the projection."),
    Theorem("DDL", "section 3.5, independent features",
            "If k is a basis vector, the shortcut scales one feature and mixes none; one update "
            "writes along k only.",
            DELTA, "delta-diagonal", "holds"),
    Theorem("DDL", "section 3.6",
            "The update is the Widrow–Hoff rule, with β as its step size.",
            DELTA, "delta-rule", "holds",
            "That networks keep interference away by it is a claim about training."),
    Theorem("DDL", "section 6, neural ODE",
            "The update is an Euler step of length β for Ẋ = k (vᵀ − kᵀX), with dynamics that may "
            "flip a sign.",
            DELTA, "delta-flow", "holds with a correction",
            "As an equation. The flow itself reaches β = 1 − e⁻ᵗ < 1 only: the projection and the "
            "flip of a sign belong to the step."),
    Theorem("DDL", "section 6, invertibility",
            "The shortcut is invertible if and only if β is not 1, and an involution at β = 2.",
            DELTA, "delta-spectrum", "holds",
            "With frozen k and β. For β in (0, 2) the inverse is a delta operator whose gate lies "
            "outside [0, 2]."),
    Theorem("DDL", "section 1, negative eigenvalues",
            "Transitions with negative eigenvalues need more than the range from 0 to 1.",
            DELTA, "delta-parity", "holds with a correction",
            "Exact for a recurrence in time. Over depth a branch of slope 2 flips a sign as well."),
    Theorem("MGT", "appendix A.5, eq. 16",
            "With one value channel the update is x + β (v − kᵀx) k.",
            DELTA, "delta-additive-form", "holds"),
    Theorem("MGT", "appendix A.6",
            "On states of S tokens and D features the operator acts on the features, token by "
            "token.",
            DELTA, "delta-tokens", "holds with a correction",
            "Token by token it does. Equation 4, as it stands for that state, multiplies from the "
            "left: there it mixes tokens, and earlier ones read later ones."),
    Theorem("Survey", "section 2.2, conservation",
            "In deep systems freedom must not be paid for with conservation of the signal.",
            DELTA, "delta-norm", "fails as stated",
            "The delta operator conserves lengths at β = 0 and 2 only, and the same survey praises "
            "it because it erases."),
    Theorem("Survey", "section 4.1, β = 0",
            "At β = 0 the network falls back to the standard residual connection.",
            DELTA, "delta-additive-form", "fails as stated",
            "The write has the factor β too, so the layer becomes the identity, without a branch."),
    Theorem("Survey", "section 4.1, β = 2",
            "At β = 2 the operator is an orthogonal reflection: it keeps lengths and flips a sign.",
            DELTA, "householder-lemma", "holds"),
    Theorem("Survey", "section 4.2, spectrum",
            "d − 1 eigenvalues are 1 and one is 1 − β.",
            DELTA, "delta-spectrum", "holds"),
    Theorem("Survey", "section 4.3, delta rule",
            "Erasing and writing together are the delta rule.",
            DELTA, "delta-rule", "holds"),
    Theorem("Survey", "section 4.3, Mamba",
            "It is also how DeltaNet and Mamba update their states.",
            DELTA, "delta-decay", "holds with a correction",
            "DeltaNet's rule is the same. Mamba's state decays: all answers fade by factors "
            "between 0 and 1, none is erased, and no eigenvalue is negative."),
]
