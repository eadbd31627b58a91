"""The models and experiments of the papers, as data.

A configuration holds the backbone, the residual with its options, and the number of parameters that
was printed.

    from studies.claims import CONFIGURATIONS
    trunk = CONFIGURATIONS["emhc-jpmhc"].trunk()

Where a paper's words and its code disagree, the configurations follow the code that made its
numbers. Some of these models pool over the whole sequence, so they read the future.
"""

from dataclasses import dataclass, field, replace

from geolab.models import TokenModel, Transformer, TransformerConfig
from geolab.training import Budget


@dataclass(frozen=True)
class Configuration:
    """One model of a paper."""

    source: str                  # a key of claims.SOURCES
    number: str                  # which table of the paper it is from
    backbone: TransformerConfig
    residual: str                # a name in residuals.REGISTRY
    options: dict = field(default_factory=dict)
    parameters: float | None = None   # the source's number
    outside: int = 0             # how many of those lie outside the layers; see `EMHC_OUTSIDE`
    vocabulary: int | None = None     # of a token model, whose tied embedding counts
    remark: str = ""             # what differs from the source

    def trunk(self) -> Transformer:
        return Transformer(self.backbone, self.residual, **self.options)

    def model(self) -> TokenModel:
        """Raises: ValueError for a configuration without a vocabulary."""
        if self.vocabulary is None:
            raise ValueError(f"{self.source}, {self.number}, {self.residual!r} has no vocabulary: "
                             "put its trunk() into a ContinuousModel")
        return TokenModel(self.trunk(), self.vocabulary)


# ---------------------------------------------------------------- E-MHC-Geo, table 5

# The paper counts 66 vectors of the state's width besides the layers: 64 positions, one token, and
# the last norm
EMHC_OUTSIDE = 66


def _emhc(layers: int, residual: str, parameters: float, trunk_width: int = 128, remark: str = "",
          **options) -> Configuration:
    backbone = TransformerConfig.benchmark(width=128, layers=layers, heads=4, max_length=256)
    return Configuration("E-MHC-Geo", "table 5", backbone, residual, options, parameters,
                         EMHC_OUTSIDE * trunk_width, remark=remark)


EMHC = {
    "emhc-gpt": _emhc(9, "additive", 1.780e6),
    "emhc-ddl": _emhc(8, "benchmark-delta", 1.784e6, pool="sequence"),
    "emhc-mhc": _emhc(9, "benchmark-mhc", 1.838e6),
    "emhc-jpmhc": _emhc(
        7, "benchmark-jpmhc", 1.771e6, trunk_width=512,
        remark="The book's runs: the trunk is 128 wide outside the streams, and learned ends and a "
               "scale of the writes stand at the streams. emhc-jpmhc-published has 512 and "
               "neither."),
    "emhc-hybrid": _emhc(
        6, "emhc-hybrid", 1.788e6, pool="sequence", hidden_ratio=1, maps="published",
        start="published", gate_bias=0.0, gate_head="linear", penalty=0.1,
        remark="The book's runs: one net of 128 hidden features generates u, v, β and k. Where its "
               "last layer is block-diagonal it is emhc-hybrid-published, which has four nets of "
               "32."),
}

EMHC_STREAM = Configuration(
    "E-MHC-Geo", "public code, stream variant", EMHC["emhc-hybrid"].backbone, "emhc-stream",
    {"pool": "sequence", "hidden": 48, "start": "published"},
    remark="No number of parameters is printed. The trunk is 128 wide outside the streams, and the "
           "router reads the streams before the operator. emhc-stream-published has 512, and its "
           "router reads them after.")

# The public models that differ from those of the book's runs
EMHC_PUBLISHED = {
    "emhc-jpmhc-published": _emhc(7, "benchmark-jpmhc", 1.771e6, trunk_width=512, ends="split",
                                  write_scale=False),
    "emhc-hybrid-published": _emhc(
        6, "emhc-hybrid", 1.788e6, **EMHC["emhc-hybrid"].options
        | {"nets": "separate", "hidden_ratio": 4}),
    "emhc-stream-published": replace(
        EMHC_STREAM, options=EMHC_STREAM.options | {"ends": "split", "router_reads": "mixed"},
        remark="No number of parameters is printed. The weights and biases of the norms before "
               "generator and router are part of the linear maps that follow."),
}

# The mixers for ARC: a residual around sublayers without a norm in front. The public code has each
# of them twice: its training on puzzles uses an RMS norm, and src/arc_agi a layer norm.
ARC_JPMHC = {"ends": "split", "write_scale": False}
ARC_HYBRID = {"ends": "split", "router_reads": "mixed", "start": "published", "penalty": 0.1}
EMHC_MIXERS: dict[str, tuple[str, dict]] = {
    "arc-jpmhc": ("jpmhc", ARC_JPMHC | {"norm": "rms"}),
    "arc-jpmhc-layer-norm": ("jpmhc", ARC_JPMHC),
    "arc-hybrid": ("emhc-mixer", ARC_HYBRID | {"norm_eps": 1e-5}),
    "arc-hybrid-layer-norm": ("emhc-mixer", ARC_HYBRID | {"norm": "layer"}),
}

EMHC_BUDGET = Budget(steps=2000, batch=64, lr=1e-3, lr_end=0.1, warmup=100, weight_decay=0.1,
                     clip=1.0, evaluate_every=100)
EMHC_SEEDS = (42, 123, 456)

# ---------------------------------------------------------------- DDL, table 4

PUBLISHED_KERNELS = {"kernel_init": "published"}
# The book trains these. The names are the first version's, and kernels start as in its code. Here β
# has its own norm, and each sublayer has its own compressor.
DDL_VARIANTS: dict[str, tuple[str, dict]] = {
    "additive": ("additive", {}),
    "delta": ("delta", {}),
    "delta-matrix": ("delta-matrix", PUBLISHED_KERNELS),
    "delta-matrix-cc": ("delta-matrix", PUBLISHED_KERNELS | {"compress": "channel-conv"}),
    "delta-matrix-ec": ("delta-matrix", PUBLISHED_KERNELS | {"expand": "conv"}),
    "delta-matrix-cc-ec": ("delta-matrix", PUBLISHED_KERNELS | {"compress": "channel-conv",
                                                                "expand": "conv"}),
}
# The public code's options, by residual: β reads the output of the sublayer's norm with its weight,
# and the two sublayers of a block share a compressor.
DDL_CODE = {"additive": {}, "delta": {"context": "sublayer"},
            "delta-matrix": {"context": "sublayer", "tied": True}}
DDL_PUBLISHED = {name: (residual, options | DDL_CODE[residual])
                 for name, (residual, options) in DDL_VARIANTS.items()}
DDL_CONTROLS = {  # the controls of d_v = 4 that the paper lacks
    "write-only": {"erase": False},
    "additive-matrix": {"erase": False, "normalize": False, "beta_fixed": 1.0},
    "overwrite": {"beta_fixed": 1.0},
}
# width, layers, heads, parameters
DDL_SIZES = {"small": (768, 12, 6, 124e6), "medium": (1024, 24, 8, 353e6)}
DDL_REMARK = ("The paper trains with μP. The code then multiplies the logits by 1024/D, an option "
              "that is off by default, and here.")
DDL_TRAINING = {  # the end of the cosine isn't stated
    "steps": 100_000, "batch": 480, "length": 1024, "lr": 1e-3, "warmup": 2000,
    "weight_decay": 0.1, "clip": 1.0,
}

DDL = {f"ddl-{size}-{name}": Configuration(
    "DDL", "table 4",
    TransformerConfig.ddl(width=width, layers=layers, heads=heads, max_length=1024),
    residual, options, parameters, vocabulary=50304, remark=DDL_REMARK)
    for size, (width, layers, heads, parameters) in DDL_SIZES.items()
    for name, (residual, options) in DDL_PUBLISHED.items()}

CONFIGURATIONS: dict[str, Configuration] = EMHC | EMHC_PUBLISHED | DDL

# ---------------------------------------------------------------- MGT, section 4

MGT_VARIANTS = {  # table 1 -> options of the residual "mgt"
    "Standard": {"gate": False, "erase": False},
    "+mHC Only": {"gate": True, "erase": False},
    "+DDL Only": {"gate": False, "erase": True},
    "MGT (Full)": {"gate": True, "erase": True},
}


@dataclass(frozen=True)
class Plan:
    """An experiment that a paper plans. None and () stand for values that the paper leaves open."""

    source: str                   # a key of claims.SOURCES
    number: str                   # as the paper numbers it
    question: str                 # in our words
    data: tuple[str, ...]
    variants: tuple[str, ...]     # keys of MGT_VARIANTS
    layers: tuple[int, ...]
    width: int | None
    heads: int | None
    parameters: float | None      # the width follows from it, unless the paper states both
    epochs: int
    batch: int | None
    lr: float | None
    seeds: int | None
    measures: tuple[str, ...]
    predictions: tuple[str, ...]  # what the paper expects, in our words

    def backbone(self, layers: int, width: int | None = None, heads: int | None = None,
                 norm_at: str = "pre") -> TransformerConfig:
        """The skeleton that all variants share.

        The paper's algorithm is pre-norm, and its text calls the standard control post-norm:
        norm_at="post" is that control.

        Arguments:
            width, heads: required if the protocol leaves them open.
        Raises: ValueError for a depth that isn't the protocol's, or a width or number of heads that
            is missing or other than stated.
        """
        if layers not in self.layers:
            raise ValueError(f"layers must be one of {', '.join(map(str, self.layers))}, "
                             f"got {layers}")
        return TransformerConfig.benchmark(
            width=_chosen("width", self.width, width), layers=layers,
            heads=_chosen("heads", self.heads, heads), norm_at=norm_at)


def _chosen(name: str, stated: int | None, given: int | None) -> int:
    chosen = given if stated is None else stated
    if chosen is None:
        raise ValueError(f"{name} is open in this protocol, and must be given")
    if given is not None and given != chosen:
        raise ValueError(f"{name} is {stated} in this protocol, got {given}")
    return chosen


def _mgt(number: int, question: str, **values) -> Plan:
    unstated = {"heads": None, "parameters": None, "batch": None, "lr": None, "seeds": None}
    return Plan("MGT", f"experiment {number}", question, **unstated | values)


PAIR = ("Standard", "MGT (Full)")
MGT_PLANS = {
    "mgt-rank": _mgt(
        1, "Does the rank of trained hidden states fall with depth?", data=("WikiText-2",),
        variants=PAIR, layers=(12, 24, 48, 100), width=256, epochs=50, seeds=3,
        measures=("effective rank over min(positions, width), by layer",
                  "its ratio of last to first layer", "slope of its logarithm over depth"),
        predictions=("The standard model's rank goes to 0 as depth goes to 100.",
                     "MGT's stays above 0.5 at 100 layers.")),
    "mgt-ablation": _mgt(
        2, "Do the gate and the erasure gain more together than apart?", data=("WikiText-2",),
        variants=tuple(MGT_VARIANTS), layers=(48,), width=256, epochs=50, batch=64, lr=1e-3,
        seeds=3,
        measures=("loss", "synergy: loss of +mHC plus loss of +DDL, less the losses of the "
                          "standard model and of MGT"),
        predictions=("The synergy is positive.",)),
    "mgt-beta": _mgt(
        3, "Which values does β learn, by layer and epoch?", data=("WikiText-2",),
        variants=("MGT (Full)",), layers=(100,), width=None, epochs=100,
        measures=("mean of β", "variance of β", "share of negative β",
                  "all by layer, after 0, 25, 50 and 100 epochs"),
        predictions=("Early layers have a positive mean.", "Deep layers have many negative β.",
                     "The layer where the mean changes sign gets sharper in training.")),
    "mgt-depth": _mgt(
        4, "At a fixed number of parameters, which depth is best?", data=("WikiText-2",),
        variants=PAIR, layers=(24, 48, 100, 200), width=None, parameters=20e6, epochs=50, seeds=3,
        measures=("perplexity", "epochs to a target perplexity",
                  "variance of the loss over seeds"),
        predictions=("MGT's perplexity is lower at depths where the standard model's gets "
                     "worse.",)),
    "mgt-language": _mgt(
        5, "Does MGT model language better at equal width and depth?",
        data=("WikiText-103", "OpenWebText"), variants=PAIR, layers=(24,), width=512, heads=8,
        epochs=100,
        parameters=50e6,  # the paper's number; 24 standard blocks of width 512 have 75.5 million
        measures=("perplexity", "learning curves",
                  "parameters added, which the paper puts at a quarter"),
        predictions=("MGT's perplexity is lower.", "Its training is more stable.",
                     "The gap grows with depth.")),
}
