"""The survey's comparison of HC, mHC and DDL (its section 5.2), translated.

It has words where the other tables have numbers, so it is no `Table`.
"""

COMPARISON: dict[str, dict[str, str]] = {  # row -> method -> what the survey says
    "core operation": {"HC": "topological expansion", "mHC": "manifold constraint",
                       "DDL": "geometric generalisation"},
    "stream": {"HC": "matrix n × d", "mHC": "matrix n × d", "DDL": "vector or matrix"},
    "operator": {"HC": "free linear H", "mHC": "doubly stochastic H", "DDL": "I − β k kᵀ"},
    "constraint": {"HC": "none", "mHC": "row and column sums are 1",
                   "DDL": "isometry or projection"},
    "made by": {"HC": "a linear map", "mHC": "Sinkhorn's iteration",
                "DDL": "an outer product and a sigmoid"},
    "stability": {"HC": "unstable, 3000 ×", "mHC": "spectral norm ≤ 1",
                  "DDL": "d − 1 eigenvalues are 1"},
    "dynamics": {"HC": "unbounded growth or decay", "mHC": "convex combinations",
                 "DDL": "identity, projection, reflection"},
    "cost": {"HC": "high", "mHC": "medium", "DDL": "low"},
}
