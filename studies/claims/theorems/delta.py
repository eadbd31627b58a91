"""Statements about the Deep Delta Transformer."""

from studies.claims.theorems.theorem import Theorem

DELTA_TRANSFORMER = "07_delta_transformer"

THEOREMS = [
    Theorem("DDL", "section 3.3",
            "Delta updates generalise the residual connection: a delta step can be any additive "
            "step.",
            DELTA_TRANSFORMER, "ddl-contains-additive", "holds with a correction",
            "With d_v = 1 and the value kᵀx + ‖h‖/β. With more channels a delta step has rank 1, "
            "and an additive step any rank. The k-Map that is trained can't choose it: its value "
            "and rate don't see the length of F."),
    Theorem("DDL", "section 4.1",
            "RMS-normalising k̃ with ε²/d and scaling by 1/√d gives k̃ / √(‖k̃‖² + ε²).",
            DELTA_TRANSFORMER, "ddl-guard", "holds",
            "The eigenvalue along k is then 1 − β‖k‖², with ‖k‖ slightly below 1."),
    Theorem("DDL", "section 4.2",
            "Expanding the state to d_v channels costs d_v times the residual memory and no FLOPs "
            "in attention.",
            DELTA_TRANSFORMER, "ddl-cost", "holds",
            "Equal FLOPs are not equal time: the revised version reports 0.45 to 0.77 of the "
            "baseline's training throughput for d_v = 4."),
    Theorem("DDL", "appendix B.2",
            "The bias logit(β₀/2) lets the gate start at any β₀ from 0 to 2.",
            DELTA_TRANSFORMER, "ddl-gate-start", "holds with a correction",
            "Exactly only with zero weights; with the published random ones β₀ is the median. The "
            "ends 0 and 2 are missed by the clamp, and near them the gate's slope β (2 − β)/2 "
            "vanishes. The code's configuration starts at 1, a projection."),
    Theorem("DDL", "appendix B.3, EC",
            "An identity-initialised convolution of the embedding starts as simple repetition.",
            DELTA_TRANSFORMER, "ddl-expansion-start", "holds"),
    Theorem("DDL", "appendix B.3, CC",
            "The channel convolution reads x_i = Σ_j c_ij X_ij, with weights of its own for each "
            "feature.",
            DELTA_TRANSFORMER, "ddl-channel-compressor", "holds with a correction",
            "The code convolves with padding and pools with a shared read vector: the same family "
            "if and only if its placement matrix is invertible, as it is at the start. The "
            "gradients differ."),
    Theorem("DDL", "eq. 2.7",
            "β = 2σ(·) lies in (0, 2), and the ends are limits.",
            DELTA_TRANSFORMER, "ddl-gate-start", "holds"),
    Theorem("DDL", "section 4.1, precision",
            "The RMS norm with a fixed scale, applied outside of dot products, improves the "
            "precision in low-precision training.",
            DELTA_TRANSFORMER, "ddl-precision", "holds with a correction",
            "What gains is the norm in float32. An L2 norm in float32 is as exact: where √d is a "
            "power of two, in every digit."),
    Theorem("DDL", "appendix B.2, logits",
            "The gate's logits are computed in fp32 for stability.",
            DELTA_TRANSFORMER, "ddl-precision", "holds with a correction",
            "The public code casts the logit after a product in the lower precision. Its rounding "
            "moves β by at most 2⁻⁸ in bfloat16; the cast saves a second rounding of that size."),
    Theorem("DDL", "public kernels, guard",
            "With ε√d as guard, the fused kernel replaces the RMS norm by an L2 norm.",
            DELTA_TRANSFORMER, "ddl-guard", "holds with a correction",
            "The RMS norm that it replaces has the guard ε²/d, which needs ε. The kernel's guard "
            "is √d times the paper's."),
    Theorem("Survey", "section 4.2, gradients",
            "As d − 1 eigenvalues are 1, gradients flow without loss through most dimensions.",
            DELTA_TRANSFORMER, "ddl-block-jacobian", "fails as stated",
            "So it is with frozen k, v and β. The block's Jacobian has three more terms, and in "
            "the chapter's networks no eigenvalue at 1."),
]
