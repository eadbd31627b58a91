"""The names of the residual's tensors in published models, and the numbers that a config must give.

Names are data: a row for each spelling, with a model's layer i and one of the PARTS. What stands
before "layers" is the prefix of a file, and each file has one.

Sources: DeepSeek-V4's and Hy4's files by the renamings in transformers'
`conversion_mapping.py`; transformers' own names by its classes `DeepseekV4HyperConnection`,
`Glm5NextTextHyperConnection` and `HYV4HyperConnection` (5.23).
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from geolab.checks import require_count, require_number, require_option

PARTS = ("fn", "base", "scale")  # logits = scale · fn x̂ + base


class Names(NamedTuple):
    """One spelling of the tensors' names."""

    whose: str
    attention: str
    mlp: str
    head: str


SPELLINGS = (
    Names("DeepSeek-V4's files", "layers.{i}.hc_attn_{part}", "layers.{i}.hc_ffn_{part}",
          "hc_head_{part}"),
    Names("transformers", "layers.{i}.attn_hc.{part}", "layers.{i}.ffn_hc.{part}",
          "hc_head.hc_{part}"),
    Names("Hy4's files", "layers.{i}.hc_attn_layer.hc_{part}", "layers.{i}.hc_mlp_layer.hc_{part}",
          "hc_head.hc_head_{part}"),
)
DROPPED = "hc_pre."  # stands somewhere in the names of Hy4's files, and transformers drops it


class Kind(NamedTuple):
    """The differences between the residuals of two model types."""

    mixes: bool            # whether there is an H, other than the identity
    head: bool             # whether the streams are summed with learned weights at the end
    keys: tuple[str, ...]  # what config.json must say, beside KEYS


KEYS = ("num_hidden_layers", "hidden_size", "hc_mult", "hc_eps", "rms_norm_eps")
KINDS = {  # by `model_type` of config.json
    "deepseek_v4": Kind(True, True, ("hc_sinkhorn_iters",)),
    "glm5_next": Kind(True, False, ("hc_sinkhorn_iters",)),
    "glm5_next_text": Kind(True, False, ("hc_sinkhorn_iters",)),
    "hy_v4": Kind(False, True, ("hc_magnitude",)),
}


OTHERS = {  # model types whose residual has no a, b and H, and why
    "inkling2": "attention residuals", "inkling2_text": "attention residuals",
    "qwen4_exp": "a gate for each feature", "qwen4_exp_text": "a gate for each feature"}


class Settings(NamedTuple):
    """The numbers of a residual that stand in config.json and not in the weights."""

    model_type: str
    layers: int
    width: int          # D
    streams: int        # n
    eps: float          # added to a, and inside Sinkhorn's normalisation
    norm_eps: float
    iterations: int     # of Sinkhorn's normalisation; 0 where H is the identity
    magnitude: float    # b = magnitude · σ(·)

    @property
    def kind(self) -> Kind:
        return KINDS[self.model_type]

    def shape(self, site: str, part: str) -> tuple[int, ...]:
        """The shape of a part. `site` is "head", or any other for a sublayer."""
        n = self.streams
        sizes = (n,) if site == "head" else (n, n, n * n) if self.kind.mixes else (n, n)
        return {"fn": (sum(sizes), n * self.width), "base": (sum(sizes),),
                "scale": (len(sizes),)}[part]


def settings_of(config: Mapping[str, Any], like: str | None = None) -> Settings:
    """Read the settings of a config.json.

    Arguments:
        config: its content, or that of a `config` of transformers by `to_dict()`.
        like: the model type whose equations hold, for a config of another type that has the same.
    Raises: ValueError for an unknown type, or a number that is missing or makes no sense.
    """
    text = config.get("text_config") or {}
    if not isinstance(text, Mapping):
        raise ValueError(f"text_config of config.json must be an object, got {text!r}")
    config = {**config, **text}
    model_type = like or config.get("model_type")
    if not isinstance(model_type, str):
        raise ValueError(f"model_type of config.json must be a string, got {model_type!r}")
    if model_type in OTHERS:
        raise ValueError(f"model_type must be one with a, b and H ({', '.join(KINDS)}), got "
                         f"{model_type}, which has {OTHERS[model_type]}")
    require_option("the model_type of config.json", model_type, KINDS)
    kind = KINDS[model_type]
    if missing := [key for key in (*KEYS, *kind.keys) if key not in config]:
        raise ValueError(f"config.json must have {', '.join(missing)} for a {model_type}: without "
                         "them the weights don't say what the model computes")
    for key in ("num_hidden_layers", "hidden_size", "hc_mult", "hc_sinkhorn_iters"):
        if key in (*KEYS, *kind.keys):
            require_count(f"{key} of config.json", config[key], 2 if key == "hc_mult" else 1)
    for key in ("hc_eps", "rms_norm_eps"):
        require_number(f"{key} of config.json", config[key], 0)
    magnitude = config["hc_magnitude"] if "hc_magnitude" in kind.keys else 2.0
    require_number("hc_magnitude of config.json", magnitude)
    return Settings(model_type, config["num_hidden_layers"], config["hidden_size"],
                    config["hc_mult"], config["hc_eps"], config["rms_norm_eps"],
                    config["hc_sinkhorn_iters"] if kind.mixes else 0, magnitude)


def find_names(stored: Collection[str], settings: Settings,
               parts: Collection[str] = PARTS) -> tuple[str, dict[str, dict[str, str]]]:
    """Find the names of the residual's tensors among those of a model.

    Arguments:
        stored: all names of the model.
        parts: those of PARTS that are wanted.
    Returns: whose names they are, and {site: {part: name}} in the order of depth. A site is
        "attention 0", "mlp 0", "attention 1", …, and "head" where the model has one.
    Raises: ValueError if no row of SPELLINGS fits, if two files lie in one, or if a tensor is
        missing.
    """
    plain = {name.replace(DROPPED, ""): name for name in stored}
    fits = {(names, name.removesuffix(first)) for names in SPELLINGS for name in plain
            if name.endswith(first := names.attention.format(i=0, part="base"))
            and (name == first or name[-len(first) - 1] == ".")}
    if len(fits) != 1:
        wanted = " or ".join(names.attention.format(i=0, part="base") for names in SPELLINGS)
        found = (f"{len(fits)} models in one" if fits
                 else f"none in {len(plain)} names such as {', '.join(sorted(plain)[:3])}")
        raise ValueError(f"a model must have one tensor that is called {wanted}, got {found}")
    names, prefix = fits.pop()
    if settings.layers > len(plain):  # or the names of all its layers would fill the memory
        raise ValueError(f"num_hidden_layers of config.json must be that of the model, got "
                         f"{settings.layers} for {len(plain)} tensors")
    wanted = {f"{kind} {i}": {part: f"{prefix}{pattern.format(i=i, part=part)}" for part in parts}
              for i in range(settings.layers)
              for kind, pattern in (("attention", names.attention), ("mlp", names.mlp))}
    if settings.kind.head:
        # transformers writes a file with its own name of the head and DeepSeek's of the layers
        heads = [{part: f"{prefix}{row.head.format(part=part)}" for part in parts}
                 for row in (names, *SPELLINGS)]
        wanted["head"] = next((head for head in heads if set(head.values()) <= set(plain)),
                              heads[0])
    missing = [name for site in wanted.values() for name in site.values() if name not in plain]
    if missing:
        raise ValueError(
            f"a {settings.model_type} of {settings.layers} layers must have {missing[0]}, and "
            f"{len(missing)} of the {sum(map(len, wanted.values()))} tensors of its residual are "
            f"missing")
    return names.whose, {site: {part: plain[name] for part, name in found.items()}
                         for site, found in wanted.items()}
