"""Deep Delta Learning's public models, beside ours."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from studies.claims.configurations import CONFIGURATIONS
from studies.parity.public import Public

WIDTH, HEADS, LAYERS, LENGTH, VOCABULARY = 8, 2, 2, 8, 9
TRAINING = ("The public code has no training loop; the paper trains with μP, of which the code has "
            "a factor 1024/D on the logits, off by default.")
STARTS = "The bias of v starts within ±1/√D there, drawn uniformly, and at 0 here. "
FUSED = ("The direction's guard is 10⁻⁵ √D, where the other files have 10⁻⁵, and under half "
         "precision β and v are computed in float32. ")
HEADS_OF_RULE = {"beta_head": "beta", "value_head": "v_proj"}  # ours -> public

Weights = dict[str, Tensor]


def _small(name: str) -> nn.Module:
    """Build a named configuration at a small size, without other changes."""
    configuration = CONFIGURATIONS[name]
    backbone = replace(configuration.backbone, width=WIDTH, layers=LAYERS, heads=HEADS,
                       hidden=8 * WIDTH // 3, max_length=LENGTH)
    return replace(configuration, backbone=backbone, vocabulary=VOCABULARY).model()


def _backbone(public: Weights) -> Weights:
    """Translate all weights except those of the residuals."""
    ours = {"embedding.weight": public["transformer.wte.weight"],
            "trunk.norm.weight": public["ln_f.weight"]}
    for block in range(LAYERS):
        theirs, attention, mlp = _block(block)
        qkv = [public[f"{theirs}.attn.{name}.weight"] for name in ("c_q", "c_k", "c_v")]
        ours |= {f"{attention}.norm.weight": public[f"{theirs}.ln_1.weight"],
                 f"{attention}.mix.qkv.weight": torch.cat(qkv),
                 f"{attention}.mix.out.weight": public[f"{theirs}.attn.c_proj.weight"],
                 f"{attention}.mix.q_norm.weight": public[f"{theirs}.attn.q_rms.weight"],
                 f"{attention}.mix.k_norm.weight": public[f"{theirs}.attn.k_rms.weight"],
                 f"{mlp}.norm.weight": public[f"{theirs}.ln_2.weight"],
                 f"{mlp}.mix.gate.weight": public[f"{theirs}.mlp.c_fc1.weight"],
                 f"{mlp}.mix.up.weight": public[f"{theirs}.mlp.c_fc2.weight"],
                 f"{mlp}.mix.out.weight": public[f"{theirs}.mlp.c_proj.weight"]}
    return ours


def _delta(public: Weights) -> Weights:
    """Translate models with d_v = 1, which have heads of β and v at each sublayer."""
    ours = _backbone(public)
    for block in range(LAYERS):
        theirs, *sublayers = _block(block)
        for sublayer, rule in zip(sublayers, ("ddl_attn", "ddl_mlp"), strict=True):
            ours |= {f"{sublayer}.residual.{head}.{part}": public[f"{theirs}.{rule}.{name}.{part}"]
                     for head, name in HEADS_OF_RULE.items() for part in ("weight", "bias")}
    return ours


def _matrix(public: Weights) -> Weights:
    """Translate models with d_v = 4: also the blocks' compressors, the readout and any expander.

    A kernel over positions is in a module "shortconv", a kernel over channels beside the weights
    of the sum.
    """
    ours = _delta(public)
    kernel = "shortconv.weight" if "readout.shortconv.weight" in public else "weight"
    last = f"trunk.layers.{2 * LAYERS - 1}.residual.readout"
    places = {f"trunk.layers.{2 * block}.residual.compressor": f"transformer.h.{block}.compress"
              for block in range(LAYERS)} | {last: "readout"}
    for place, theirs in places.items():
        ours |= {f"{place}.kernel": public[f"{theirs}.{kernel}"],
                 f"{place}.read": public[f"{theirs}.read"]}
    if "input_embed.conv.weight" in public:
        expander = "trunk.layers.0.residual.expander.weight"
        ours[expander] = public["input_embed.conv.weight"].squeeze(1)
    return ours


def _block(block: int) -> tuple[str, str, str]:
    """The public name of a block, and our names of its two sublayers."""
    first, second = 2 * block, 2 * block + 1
    return f"transformer.h.{block}", f"trunk.layers.{first}", f"trunk.layers.{second}"


def _public(label: str, name: str, variant: str, translate: Callable[[Weights], Weights],
            differs: str = STARTS + TRAINING) -> Public:
    configuration = f"ddl-small-{variant}"

    def build() -> nn.Module:
        return _small(configuration)
    return Public(label, "DDL", name, f'CONFIGURATIONS["{configuration}"]', build, translate,
                  differs)


PUBLIC = [
    _public("ddl-additive", "Baseline", "additive", _backbone, TRAINING),
    _public("ddl-vdim1", "DDL (d_v = 1)", "delta", _delta),
    _public("ddl-tc", "DDL (d_v = 4)", "delta-matrix", _matrix),
    _public("ddl-ec", "DDL-EC", "delta-matrix-ec", _matrix),
    _public("ddl-cc", "DDL-CC", "delta-matrix-cc", _matrix),
    _public("ddl-cc-ec", "DDL-CC-EC", "delta-matrix-cc-ec", _matrix),
    _public("ddl-cc-ec-accelerated", "DDL-CC-EC, fused kernels", "delta-matrix-cc-ec", _matrix,
            FUSED + STARTS + TRAINING),
]
