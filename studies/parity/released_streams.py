"""Released models with several streams: DeepSeek-V4, GLM-5.3-Flash, Hy4 and Qwen4-Exp.

Their guards are 1e-6, which a comparison to 1e-5 would not show. Here they are 1e-2.
"""

from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from geolab.residuals import make_residual
from studies.parity.installed import WIDTH, Installed, fixed, library, randomise

LAYERS, STREAMS, RANK, EPS = 2, 4, 6, 1e-2
COUNT = 2 * LAYERS   # sublayers
SIZES: dict[str, Any] = dict(
    vocab_size=3, hidden_size=WIDTH, intermediate_size=2, moe_intermediate_size=2,
    num_hidden_layers=LAYERS, num_attention_heads=1, num_key_value_heads=1, rms_norm_eps=EPS,
    bos_token_id=None, eos_token_id=None, pad_token_id=None)

Weights = dict[str, Tensor]


# ------------------------------------------------------------ theirs

class Place(nn.Module):
    """A fixed map in the place of the library's attention or MLP.

    Arguments:
        number: that of the sublayer.
        outputs: how many the library's gives: a tensor, or a tuple that is filled up with None.
    """

    def __init__(self, number: int, outputs: int = 1):
        super().__init__()
        self.f, self.outputs = fixed(number), outputs

    def forward(self, hidden_states: Tensor, **_: object) -> Tensor | tuple:
        y = self.f(hidden_states)
        return y if self.outputs == 1 else (y, *[None] * (self.outputs - 1))


class Theirs(nn.Module):
    """The library's decoder layers and exit, with fixed maps for normed sublayers.

    Arguments:
        layers: the decoder layers.
        head: what reads the streams at the exit.
        outputs: how many an attention gives.
        attention: where a layer keeps it.
        flat: whether the streams are one row of n · D features.
    """

    def __init__(self, layers: list[nn.Module], head: nn.Module, outputs: int,
                 attention: str = "self_attn", flat: bool = False):
        super().__init__()
        self.layers, self.head, self.flat = nn.ModuleList(layers), head, flat
        for number, layer in enumerate(self.layers):
            setattr(layer, attention, Place(2 * number, outputs))
            layer.mlp = Place(2 * number + 1)
            layer.input_layernorm = layer.post_attention_layernorm = nn.Identity()
        for weight in self.parameters():   # some have no start of their own
            nn.init.zeros_(weight)
        randomise(self, std=0.2)

    def forward(self, x: Tensor) -> Tensor:
        state = x.unsqueeze(2).expand(-1, -1, STREAMS, -1)
        state = state.flatten(2) if self.flat else state.contiguous()
        for layer in self.layers:
            found = layer(state, position_embeddings=None)
            state = found[0] if isinstance(found, tuple) else found
        return self.head(state)


def opened(model: str, config: str, **options: Any) -> tuple[ModuleType, Any]:
    """The code of a model, and its configuration at our sizes."""
    made = getattr(library(f"models.{model}.configuration_{model}"), config)
    return library(f"models.{model}.modeling_{model}"), made(**SIZES, **options)


def deepseek() -> nn.Module:
    code, config = opened("deepseek_v4", "DeepseekV4Config", hc_eps=EPS)
    layers = [code.DeepseekV4DecoderLayer(config, number) for number in range(LAYERS)]
    return Theirs(layers, code.DeepseekV4HyperHead(config), outputs=2)


def glm() -> nn.Module:
    code, config = opened("glm5_next", "Glm5NextTextConfig", hc_eps=EPS,
                          layer_types=["indexed_attention"] * LAYERS)
    layers = [code.Glm5NextTextDecoderLayer(config, number) for number in range(LAYERS)]
    return Theirs(layers, code.Glm5NextTextHyperHead(), outputs=3)


def hy() -> nn.Module:
    code, config = opened("hy_v4", "HYV4Config", hc_eps=EPS)
    layers = [code.HYV4DecoderLayer(config, number) for number in range(LAYERS)]
    return Theirs(layers, code.HYV4HyperHead(config), outputs=3)


def qwen() -> nn.Module:
    code, config = opened("qwen4_exp", "Qwen4ExpTextConfig", hc_lowrank=RANK, ple_layer_ids=[],
                          layer_types=["linear_attention"] * LAYERS)
    layers = [code.Qwen4ExpTextDecoderLayer(config, number) for number in range(LAYERS)]
    return Theirs(layers, code.Qwen4ExpTextGatedResidual(config, use_combine=False), outputs=1,
                  attention="linear_attn", flat=True)


# ------------------------------------------------------------ ours

class Ours(nn.Module):
    """Residuals around the same fixed maps, (B, T, D) -> (B, T, D)."""

    def __init__(self, name: str, **options: Any):
        super().__init__()
        self.residuals = nn.ModuleList(
            make_residual(name, WIDTH, index, COUNT, streams=STREAMS, **options)
            for index in range(COUNT))

    def forward(self, x: Tensor) -> Tensor:
        state = self.residuals[0].expand(x)
        for number, residual in enumerate(self.residuals):
            state = residual(state, fixed(number))
        return self.residuals[-1].reduce(state)


def sites(first: str, second: str) -> dict[str, str]:
    """Our names of the residuals by the library's: {"layers.0.attn_hc": "residuals.0", …}."""
    return {f"layers.{k // 2}.{(first, second)[k % 2]}": f"residuals.{k}" for k in range(COUNT)}


def ours_mhc(weights: Weights) -> Weights:
    """Rows for a and b are as they are. Those for C, whose transpose acts, are sorted as H's."""
    transposed = 2 * STREAMS + torch.arange(STREAMS**2).view(STREAMS, STREAMS).mT.flatten()
    order = torch.cat([torch.arange(2 * STREAMS), transposed])
    found = {}
    for theirs, ours in sites("attn_hc", "ffn_hc").items():
        fn, base = weights[f"{theirs}.fn"], weights[f"{theirs}.base"]
        rows = order[:len(base)]   # Hy4 has no C
        found |= {f"{ours}.maps.generate.weight": fn[rows], f"{ours}.maps.bias": base[rows],
                  f"{ours}.maps.scale": weights[f"{theirs}.scale"]}
    head = {"hc_fn": "weight", "hc_scale": "scale", "hc_base": "bias"}
    return found | {f"residuals.{COUNT - 1}.head.{ours}": weights[f"head.{theirs}"]
                    for theirs, ours in head.items() if f"head.{theirs}" in weights}


def ours_gated(weights: Weights) -> Weights:
    parts = {"hc_norm": "norm", "input_mix_weight_down": "down", "input_mix_weight_up": "up"}
    found = {}
    for theirs, ours in sites("attn_hyper_connection", "mlp_hyper_connection").items():
        found[f"{ours}.write.weight"] = weights[f"{theirs}.block_inject_weight.weight"]
        found |= {f"{ours}.read.{part}.weight": weights[f"{theirs}.{name}.weight"]
                  for name, part in parts.items()}
    found |= {f"residuals.{COUNT - 1}.exit.{part}.weight": weights[f"head.{name}.weight"]
              for name, part in parts.items()}
    return {name: weight.view(STREAMS, WIDTH) if ".norm." in name else weight
            for name, weight in found.items()}


MHC = {"eps": EPS, "norm_eps": EPS}
BUILT: dict[str, dict[str, Any]] = {
    "deepseek-v4": {"name": "mhc", "readout": "learned", **MHC},
    "glm-5.3-flash": {"name": "mhc", **MHC},
    "hy4": {"name": "mhc", "without": ("mix",), "readout": "learned", "write_eps": EPS, **MHC},
    "qwen4-exp": {"name": "gated-streams", "rank": RANK, "eps": EPS},
}
NORMS = "the norm in front of a sublayer"
ROWS = [
    Installed("deepseek-v4", "DeepSeek-V4", "models.deepseek_v4",
              'MHC(readout="learned", eps=1e-6, norm_eps=1e-6)', deepseek,
              partial(Ours, **BUILT["deepseek-v4"]), ours_mhc, NORMS),
    Installed("glm-5.3-flash", "GLM-5.3-Flash", "models.glm5_next",
              "MHC(eps=1e-6, norm_eps=1e-6)", glm,
              partial(Ours, **BUILT["glm-5.3-flash"]), ours_mhc, NORMS),
    Installed("hy4", "Hy4", "models.hy_v4",
              'MHC(without=("mix",), readout="learned", eps=1e-6, write_eps=1e-6, norm_eps=1e-6)',
              hy, partial(Ours, **BUILT["hy4"]), ours_mhc,
              f"{NORMS}; a largest b other than 2"),
    Installed("qwen4-exp", "Qwen4-Exp", "models.qwen4_exp", "GatedStreams(rank=320)", qwen,
              partial(Ours, **BUILT["qwen4-exp"]), ours_gated,
              "what it adds to the streams of some layers for groups of tokens (PLE)"),
]
