"""Statements about the bytes that a residual moves, and the kernels that move them."""

from studies.claims.theorems.theorem import Theorem

ROOFLINE = "20_roofline"
STREAMS = "22_streams_kernel"
COST = "24_cost"
AUDIT = "19_audit"

THEOREMS = [
    Theorem("mHC", "table 2",
            "Without fusion a sublayer's residual reads (5n + 1)C + n² + 2n and writes (3n + 1)C "
            "+ n² + 2n numbers per token.",
            ROOFLINE, "kernel-unfused", "holds",
            "Besides the generator's weights. Fused with the neighbouring sublayers n + 1 vectors "
            "are read and n + 1 written, and fewer if the state is written only every k-th "
            "sublayer."),
    Theorem("mHC", "section 4.3.1",
            "Applying the mixing and the write together with the addition reads (n + 1)C numbers "
            "per token in place of (3n + 1)C, and writes nC in place of 3nC.",
            STREAMS, "kernel-applier-fused", "holds",
            "That is the floor, besides n² + n coefficients. Backward, one kernel moves 3n + 2 "
            "vectors in place of 6n + 2."),
    Theorem("mHC", "section 4.3, overhead",
            "With n = 4, training a model of 27 billion parameters takes 6.7 % more time.",
            ROOFLINE, "kernel-overhead", "measured",
            "Quoted, and set beside a count of bytes, not beside a run: at the paper's width of "
            "2560 and half the peak rate, a standard block stays within 6.7 % if the residual is "
            "fused in both directions."),
    Theorem("mHC", "section 4.3, recomputing",
            "Among blocks of L_r layers whose streams are recomputed from the first state, stored "
            "numbers are least near L_r = √(nL/(n + 2)).",
            COST, "cost-recompute", "holds",
            "L counts sublayers, and F's outputs, which are kept, come on top."),
    Theorem("Survey", "section 3.3, fusion",
            "Fusing the iterations into one kernel saves the traffic of intermediate results, "
            "which is what makes mHC slow.",
            ROOFLINE, "kernel-floors", "holds with a correction",
            "It saves them: the kernel moves n² numbers in and n² out. Beside the streams these "
            "are few, and what a fused projection saves is launches. TileLang isn't DeepSeek's "
            "own."),
    Theorem("Survey", "section 3.3, overhead",
            "mHC costs 6.7 % more training time.",
            ROOFLINE, "kernel-overhead", "measured",
            "Quoted from mHC's paper, for n = 4 and 27 billion parameters."),
    Theorem("Survey", "section 5.2, table",
            "HC costs much, mHC less, DDL little.",
            AUDIT, "audit-cost-order", "fails as stated",
            "mHC does all that HC does, and projects. DDL costs little with one channel; with as "
            "many channels as lanes it moves as many bytes as HC."),
    Theorem("Survey", "section 6.3",
            "The rank-1 update suits tensor cores extremely well.",
            ROOFLINE, "kernel-rank-one", "fails as stated",
            "It does less than one operation per byte in bfloat16, where the units' balance is "
            "206."),
]
