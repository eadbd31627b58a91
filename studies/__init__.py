"""The studies behind the book's measured claims, beside the library that they use.

    experiments    one study per file: models, tasks, measurements, arms, and the file's layout
    engine         training, search, storage and judgement of arms; readers of results/
    claims         the papers' statements: configurations, tables, theorems, hypotheses
    parity         public models beside ours
    ledger         the claims beside the runs

Arrows point one way: engine ← claims ← experiments ← ledger.
"""
