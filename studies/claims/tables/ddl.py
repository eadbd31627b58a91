"""The reported numbers of Deep Delta Learning: the first version, and the revision of 2026.

The revision is the PDF of the public repository. It renames the models, and the names here are the
first version's. Each model was trained once.
"""

from studies.claims.tables.table import Table, grid

TASKS = "ARC-C, ARC-E, HellaSwag, OpenBookQA, PIQA, SciQ, Social IQA, WinoGrande, average"
TEXT = "the paper's text"
REVISED = "the revised version of the paper, with the names of the first"
SPEED = ("millions; thousand tokens per second; GB, and over the additive model's; some rows use "
         "Triton kernels and others don't, so rows aren't comparable with each other")
COSTS = "parameters, training, inference, peak memory, memory factor"
# the first version's name -> the revision's, whose bare DDL is its DDL-CC
RENAMED = {"d_v = 4": "DDL-TC w/o EC", "CC": "DDL-CC w/o EC", "EC": "DDL-TC", "CC-EC": "DDL-CC"}


def scores(number: str, rows: dict[str, str], origin: str = TEXT) -> Table:
    return Table("DDL", number, origin, "per cent correct", grid(TASKS, rows))


TABLES = {
    "ddl-table-1": scores("table 1, small, 1-shot", {
        "additive": "29.01 55.85 37.59 30.20 65.94 80.60 37.87 51.38 48.56",
        "d_v = 1": "29.35 57.49 38.08 31.80 64.85 78.50 37.77 52.01 48.73",
        "d_v = 4": "27.90 58.16 38.26 30.80 66.49 80.30 38.54 50.83 48.91",
        "CC": "27.82 58.92 38.44 33.20 65.83 79.50 38.28 51.07 49.13",
        "EC": "28.75 57.37 38.41 34.40 64.47 82.00 38.38 52.01 49.47",
        "CC-EC": "28.33 57.87 38.24 32.20 64.09 82.60 38.43 52.57 49.29"}),
    "ddl-table-2": scores("table 2, medium, 1-shot", {
        "additive": "33.62 67.05 47.42 33.20 70.24 87.30 40.28 52.57 53.96",
        "d_v = 1": "35.49 65.70 46.94 34.20 70.35 88.90 40.99 54.93 54.69",
        "d_v = 4": "33.02 66.16 47.83 35.60 69.86 89.50 40.99 55.64 54.83",
        "CC": "34.30 66.08 48.65 36.60 68.72 88.80 40.84 55.33 54.92",
        "EC": "35.15 65.70 47.74 35.40 69.04 88.60 40.63 56.59 54.86"}),
    "ddl-table-3-loss": Table(
        "DDL", "table 3, validation loss", TEXT, "nats per token",
        grid("small, medium", {
            "additive": "2.85426 2.60532", "d_v = 1": "2.84817 2.60388",
            "d_v = 4": "2.83545 2.59267", "EC": "2.82990 2.59054", "CC": "2.83210 2.57896"})),
    "ddl-table-3-perplexity": Table(
        "DDL", "table 3, perplexity", TEXT, "perplexity",
        grid("small, medium", {
            "additive": "17.3616 13.5356", "d_v = 1": "17.2562 13.5161",
            "d_v = 4": "17.0381 13.3654", "EC": "16.9438 13.3370", "CC": "16.9811 13.1834"})),
    "ddl-table-2-revised": scores("table 2 of the revision, medium, 1-shot, CC-EC", {
        "CC-EC": "34.39 65.57 48.92 36.00 69.48 90.50 40.53 55.72 55.14"}, REVISED),
    "ddl-table-3-revised": Table(
        "DDL", "table 3 of the revision, validation loss, CC-EC", REVISED, "nats per token",
        grid("small, medium", {
            "CC-EC": "2.8329 2.5758"})),
    "ddl-table-3-perplexity-revised": Table(
        "DDL", "table 3 of the revision, perplexity, CC-EC", REVISED, "perplexity",
        grid("small, medium", {
            "CC-EC": "16.9947 13.1420"})),
    "ddl-table-4": Table(
        "DDL", "table 4", TEXT, "parameters in millions; features",
        grid("parameters, layers, heads, head width, width", {
            "small": "124 12 6 128 768", "medium": "353 24 8 128 1024"})),
    "ddl-table-5": scores("table 5, small, 0-shot", {
        "additive": "28.33 52.44 37.60 33.00 65.94 71.20 37.46 52.41 47.30",
        "d_v = 1": "26.96 52.40 37.91 32.20 64.91 72.50 38.08 53.59 47.32",
        "d_v = 4": "27.30 52.95 38.40 33.80 65.40 73.70 38.64 50.12 47.54",
        "CC": "27.05 51.47 38.72 32.20 66.16 71.80 38.08 51.07 47.07",
        "EC": "28.50 51.89 38.82 33.20 65.29 73.00 39.05 52.88 47.83",
        "CC-EC": "27.90 51.26 38.42 31.40 64.85 73.60 37.77 52.25 47.18"}),
    "ddl-table-6": scores("table 6, medium, 0-shot", {
        "additive": "31.74 59.85 47.91 34.00 69.21 78.10 40.69 53.83 51.92",
        "d_v = 1": "32.07 59.39 47.62 34.40 70.08 77.30 39.61 55.01 51.94",
        "d_v = 4": "32.08 58.38 48.08 35.80 69.42 79.90 39.92 54.14 52.22",
        "CC": "32.08 61.74 49.12 34.80 69.53 80.20 40.43 55.17 52.88",
        "EC": "33.02 59.68 48.00 36.80 68.77 81.00 39.82 55.88 52.87"}),
    "ddl-table-8-revised": scores("table 8 of the revision, medium, 0-shot, CC-EC", {
        "CC-EC": "32.59 59.55 49.01 36.00 69.70 82.30 39.82 53.83 52.85"}, REVISED),
    "ddl-efficiency-small": Table(
        "DDL", "table 4 of the revision, efficiency, small", REVISED, SPEED,
        grid(COSTS, {
            "additive": "123 1509.6 1826.1 2.94 1.00", "d_v = 1": "123 1330.8 1605.8 2.94 1.00",
            "d_v = 4": "123 673.2 688.8 3.84 1.31", "CC": "123 1019.8 1043.0 3.47 1.18",
            "EC": "123 783.5 865.1 3.38 1.15", "CC-EC": "123 1158.0 1220.7 3.08 1.05"})),
    "ddl-efficiency-medium": Table(
        "DDL", "table 5 of the revision, efficiency, medium", REVISED, SPEED,
        grid(COSTS, {
            "additive": "353 537.1 531.5 7.06 1.00", "d_v = 4": "354 239.7 234.6 7.68 1.09",
            "CC": "353 358.5 337.7 7.45 1.06", "EC": "354 282.9 291.1 7.40 1.05",
            "CC-EC": "353 422.3 400.5 7.20 1.02"})),
}
