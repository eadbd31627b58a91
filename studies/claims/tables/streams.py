"""The reported numbers of the papers with several residual streams: HC, mHC and JPmHC."""

from studies.claims.tables.table import Table, grid

TEXT = "the paper's text"

TABLES = {
    "hc-olmo-1b": Table(
        "HC", "OLMo-1B, validation loss", TEXT, "nats per token; D dynamic, S static, × streams",
        grid("loss", {
            "additive": "2.811", "DHC × 1": "2.819", "DHC × 2": "2.802", "DHC × 4": "2.781",
            "DHC × 8": "2.778", "DHC × 1, no tanh": "2.822", "DHC × 2, no tanh": "2.792",
            "DHC × 4, no tanh": "2.779", "DHC × 8, no tanh": "2.777", "SHC × 2": "2.799",
            "SHC × 4": "2.791"})),
    "hc-olmoe": Table(
        "HC", "OLMoE-1B-7B", TEXT,
        "per cent correct on ARC-C; nats per token; convergence as a factor",
        grid("ARC-C before, ARC-C with HC, change of loss, speed of convergence", {
            "OLMoE-1B-7B": "41.8 47.8 -.027 1.8"})),
    "mhc-27b": Table(
        "mHC", "table 4, 27B downstream", TEXT, "per cent",
        grid("BBH, DROP, GSM8K, HellaSwag, MATH, MMLU, PIQA, TriviaQA", {
            "additive": "43.8 47.0 46.7 73.7 22.0 59.0 78.5 54.3",
            "HC": "48.9 51.6 53.2 74.3 26.4 63.0 79.9 56.3",
            "mHC": "51.0 53.9 53.8 74.7 26.0 63.4 80.5 57.6"})),
    "mhc-27b-loss": Table(
        "mHC", "27B, loss and cost", TEXT,
        "nats per token against the additive model; per cent of its wall time",
        grid("change of loss, more time", {
            "mHC": "-.021 6.7"})),
    "mhc-gain": Table(
        "mHC", "27B, composite gain", f"{TEXT}, to two digits at most",
        "largest gain of the product over all layers",
        grid("gain", {
            "HC": "3000", "mHC": "1.6"})),
    "mhc-column-sums": Table(
        "mHC", "a composite of Sinkhorn matrices", f"{TEXT}, in a figure",
        "sum of a column of the product",
        grid("1, 2, 3, 4", {
            "composite": ".41 1.50 1.50 .60"})),
    "mhc-ablation": Table(
        "mHC", "table 1, ablation of HC's maps", TEXT, "nats per token against the additive model",
        grid("change of loss", {
            "H_res": "-.022", "H_res, H_pre": "-.025",
            "H_res, H_pre, H_post": "-.027"})),
    "mhc-models": Table(
        "mHC", "table 5, models", TEXT, "width in features; length in tokens; tokens in 10⁹",
        grid("layers, width, steps, batch, length, peak learning rate, tokens", {
            "3B": "12 1280 30000 320 4096 8.6e-4 39.3",
            "9B": "18 1920 50000 512 4096 5.9e-4 105",
            "27B": "30 2560 50000 1280 4096 4.0e-4 262"})),
    "jpmhc-arc": Table(
        "JPmHC", "ARC-AGI-1",
        f"{TEXT}, version 2; the two differ in their norms and in the read and write maps too",
        "per cent; loss in nats",
        grid("exact, pass@1, pass@2, pass@5, pass@10, pass@100, pass@1000, loss", {
            "Sinkhorn": "27.9 36.5 41.7 45.5 46.8 51.9 56.1 .817",
            "Cayley": "31.4 40.5 45.4 50.5 53.1 59.2 62.7 .643"})),
    "jpmhc-grassmann": Table(
        "JPmHC", "ARC-AGI-1, subspace mixing", f"{TEXT}, version 2; preliminary",
        "per cent exact",
        grid("exact", {
            "Grassmann": "12.8"})),
    "jpmhc-cost": Table(
        "JPmHC", "cost of a mixer", f"{TEXT}, version 2",
        "floating-point operations per token; parameters",
        grid("operations, parameters", {
            "Sinkhorn": "576 49188", "Cayley": "256 102400"})),
}
