"""E-MHC-Geo's public models, beside ours: the Transformers of its sequence tasks.

`emhc_operators` has its other models.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

import torch
from torch import Tensor, nn

from geolab.models import ContinuousModel, Transformer
from studies.claims.configurations import CONFIGURATIONS
from studies.parity import emhc_operators
from studies.parity.public import Public

DIM, WIDTH, HEADS, LAYERS, LENGTH = 4, 8, 2, 2, 6
Weights = dict[str, Tensor]


def _small(name: str, width: int = WIDTH, **sizes: int) -> ContinuousModel:
    """Build a named configuration at small sizes, without other changes."""
    configuration = CONFIGURATIONS[name]
    backbone = replace(configuration.backbone, width=width, layers=LAYERS, heads=HEADS,
                       hidden=4 * width, max_length=LENGTH)
    options = configuration.options | sizes
    return ContinuousModel(Transformer(backbone, configuration.residual, **options), DIM)


# ---------------------------------------------------------------- their weights -> ours

def _transformer(public: Weights, residual: Callable[[Weights, str], Weights]) -> Weights:
    """Translate the maps around the trunk, its last norm, the sublayers, and their residuals.

    `residual` translates the latter from a block's weights and "attn" or "mlp".
    """
    ours = {"read.weight": public["input_proj.weight"], "read.bias": public["input_proj.bias"],
            "write.weight": public["output_proj.weight"],
            "write.bias": public["output_proj.bias"],
            "trunk.position": public["pos_emb"],
            "trunk.norm.weight": public["core.transformer.ln_f.weight"]}
    for block in range(LAYERS):
        theirs = _under(f"core.transformer.h.{block}.", public)
        attention = {"norm.weight": theirs["ln_1.weight"],
                     "mix.qkv.weight": theirs["attn.c_attn.weight"],
                     "mix.out.weight": theirs["attn.c_proj.weight"]}
        mlp = {"norm.weight": theirs["ln_2.weight"], "mix.up.weight": theirs["mlp.c_fc.weight"],
               "mix.out.weight": theirs["mlp.c_proj.weight"]}
        for place, (kind, sublayer) in enumerate({"attn": attention, "mlp": mlp}.items()):
            sublayer |= {f"residual.{name}": w for name, w in residual(theirs, kind).items()}
            ours |= {f"trunk.layers.{2 * block + place}.{name}": w for name, w in sublayer.items()}
    return ours


def _under(folder: str, public: Weights) -> Weights:
    return {name.removeprefix(folder): weight for name, weight in public.items()
            if name.startswith(folder)}


def _joined(public: Weights, names: Iterable[str]) -> Tensor:
    return torch.cat([public[name] for name in names])


def _nothing(public: Weights, kind: str) -> Weights:
    return {}


def _delta(public: Weights, kind: str) -> Weights:
    """Translate delta's weights. Our first layers of k and β are one map."""
    theirs, ours = _under(f"delta_{kind}.", public), {}
    for part in ("weight", "bias"):
        first = (f"{net}_net.0.{part}" for net in ("k", "beta"))
        ours |= {f"hidden.down.{part}": _joined(theirs, first),
                 f"direction_head.{part}": theirs[f"k_net.2.{part}"],
                 f"beta_head.{part}": theirs[f"beta_net.2.{part}"]}
    return ours


def _mhc(public: Weights, kind: str) -> Weights:
    theirs, maps = _under(f"mhc_{kind}.", public), ("pre", "post", "res")
    return {"maps.norm_weight": theirs["rms_norm.weight"],
            "maps.generate.weight": _joined(theirs, (f"phi_{name}.weight" for name in maps)),
            "maps.scale": torch.stack([theirs[f"alpha_{name}"] for name in maps]),
            "maps.bias": torch.cat([theirs[f"b_{name}"].flatten() for name in maps])}


def _jpmhc(public: Weights, kind: str) -> Weights:
    theirs = _under(f"jpmhc_{kind}.", public)
    return {name.replace("fused_proj", "generate"): weight for name, weight in theirs.items()}


def _hybrid(public: Weights, kind: str) -> Weights:
    """Translate the hybrid's weights. Ours has the four nets side by side."""
    theirs = _under(f"geo_{kind}.", public)
    ours = {"before": public[f"h_pre_{kind}.weight"], "after": public[f"h_post_{kind}.weight"]}
    for part in ("weight", "bias"):
        first, last = ([f"{net}_net.{layer}.{part}" for net in ("u", "v", "beta", "k")]
                       for layer in (0, 2))
        ours |= {f"generator.0.down.{part}": _joined(theirs, first),
                 f"generator.1.{part}": _joined(theirs, last),
                 f"gate_head.{part}": theirs[f"gate_net.{part}"]}
    return ours


def _stream(public: Weights, kind: str) -> Weights:
    geo, router = _under(f"geo_{kind}.", public), _under(f"router_{kind}.", public)
    return {**emhc_operators.absorbed(geo, "norm", "geo_proj.0", "generator.0.down"),
            "generator.1.weight": geo["geo_proj.2.weight"],
            "generator.1.bias": geo["geo_proj.2.bias"],
            **emhc_operators.absorbed(router, "norm", "proj", "router")}


# ---------------------------------------------------------------- rows

TRAINER = "Its trainer uses bfloat16 on a GPU, and a warm-up that starts at 0."


def _public(label: str, name: str, configuration: str,
            residual: Callable[[Weights, str], Weights], differs: str = "",
            **sizes: int) -> Public:
    def build() -> nn.Module:
        return _small(configuration, **sizes)

    def translate(public: Weights) -> Weights:
        return _transformer(public, residual)
    return Public(label, "E-MHC-Geo", name, f'CONFIGURATIONS["{configuration}"]', build, translate,
                  f"{TRAINER} {differs}".strip())


PUBLIC = [
    _public("emhc-gpt", "GPT", "emhc-gpt", _nothing),
    _public("emhc-ddl", "DDL", "emhc-ddl", _delta),
    _public("emhc-mhc", "mHC", "emhc-mhc", _mhc,
            "There the bias of H is a matrix, which weight decay reaches.", width=12),
    _public("emhc-jpmhc", "JPmHC", "emhc-jpmhc-published", _jpmhc, width=4),
    _public("emhc-hybrid", "Hybrid", "emhc-hybrid-published", _hybrid),
    _public("emhc-stream", "Stream", "emhc-stream-published", _stream,
            "There the norms before generator and router have weights and biases of their own.",
            width=4, hidden=8),
    *emhc_operators.PUBLIC,
]
