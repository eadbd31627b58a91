"""The studies behind the book's measured claims, beside the library that they use.

    experiments    one study per file: models, tasks, measurements, arms, and the file's layout
    engine         how arms are trained, searched, kept and judged; readers of results/
    claims         what the papers state: configurations, tables, theorems, hypotheses
    parity         public models beside ours
    ledger         the claims beside the runs

Arrows point one way: engine ← claims ← experiments ← ledger.
"""
