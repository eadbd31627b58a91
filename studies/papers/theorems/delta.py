"""Statements about the Deep Delta Transformer."""

from studies.papers.theorems.theorem import Theorem

DELTA_TRANSFORMER = "07_delta_transformer"

THEOREMS = [
    Theorem("DDL", "section 3.3",
            "Delta updates generalise the residual connection: a delta step can be any additive "
            "step.",
            DELTA_TRANSFORMER, "ddl-contains-additive", "holds with a correction",
            "With the value kᵀx + ‖h‖/β. The k-Map that is trained can't choose it: its value and "
            "rate don't see the length of F."),
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
]
