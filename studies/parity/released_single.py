"""Released models with a single stream, whose residual scales the state or what is added to it."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from geolab.residuals import Normed, Residual, make_residual
from studies.parity.installed import WIDTH, Installed, fixed, library, randomise

LAYERS = 2
COUNT = 2 * LAYERS   # sublayers
EPS = 0.01           # of every norm: large, so that a row shows where it stands
SIZES: dict[str, Any] = dict(
    vocab_size=3, hidden_size=WIDTH, intermediate_size=2, num_hidden_layers=LAYERS,
    num_attention_heads=1, num_key_value_heads=1, head_dim=2, rms_norm_eps=EPS,
    bos_token_id=None, eos_token_id=None, pad_token_id=None)
ALPHA, BETA, MULTIPLIER = (1.7, 1.3), (0.6, 0.8), 0.22   # of attention and MLP; of both

Weights = dict[str, Tensor]


# ------------------------------------------------------------ theirs

class Attended(nn.Module):
    """A fixed map in the place of the library's attention, which returns its weights too."""

    def __init__(self, number: int):
        super().__init__()
        self.f = fixed(number)

    def forward(self, hidden_states: Tensor, *_: object, **__: object) -> tuple[Tensor, None]:
        return self.f(hidden_states), None


class Mapped(nn.Module):
    """A fixed map in the place of the library's MLP."""

    def __init__(self, number: int):
        super().__init__()
        self.f = fixed(number)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.f(hidden_states)


class Routed(Mapped):
    """The same in the place of ZAYA1's, which also takes and returns what its router saw."""

    def forward(self, hidden_states: Tensor, seen: Tensor | None) -> tuple[Tensor, Tensor | None]:
        return super().forward(hidden_states), seen


class Theirs(nn.Module):
    """The library's decoder layers with fixed maps for sublayers, (B, T, D) -> (B, T, D)."""

    def __init__(self, layers: Iterable[nn.Module], mlp: type[Mapped] = Mapped):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        for number, layer in enumerate(self.layers):
            layer.self_attn, layer.mlp = Attended(2 * number), mlp(2 * number + 1)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, position_embeddings=None)
            x = x[0] if isinstance(x, tuple) else x
        return x


def theirs(model: str, layer: str, config: str, mlp: type[Mapped] = Mapped,
           std: float = 0.5, **options: Any) -> nn.Module:
    """The network of a model's own layers, of this configuration and these options.

    `std` is that of its weights, or of what a norm's weight differs from 0 or 1 by.
    """
    made = getattr(library(f"models.{model}.configuration_{model}"), config)(**SIZES, **options)
    make = getattr(library(f"models.{model}.modeling_{model}"), layer)
    network = Theirs((make(made, number) for number in range(LAYERS)), mlp).eval()
    for weight in network.parameters():   # some have no start of their own
        nn.init.zeros_(weight)
    return randomise(network, std)


# ------------------------------------------------------------ ours

class Ours(nn.Module):
    """Residuals around the same fixed maps, (B, T, D) -> (B, T, D).

    Arguments:
        residuals: one per sublayer.
        normed_state: whether the state itself is normalised before each residual, as in MiniMax.
        gains: the sublayers whose F has a weight per feature after the fixed map.
    """

    def __init__(self, residuals: list[Residual], normed_state: bool = False,
                 gains: tuple[int, ...] = ()):
        super().__init__()
        self.residuals, self.normed_state = nn.ModuleList(residuals), normed_state
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH, eps=EPS) for _ in residuals)
        self.gains = nn.ParameterDict({str(k): nn.Parameter(torch.ones(WIDTH)) for k in gains})

    def forward(self, x: Tensor) -> Tensor:
        for k, (residual, norm) in enumerate(zip(self.residuals, self.norms, strict=True)):
            f = fixed(k)
            if str(k) in self.gains:
                gain = self.gains[str(k)]
                x = residual(x, Normed(lambda x, f=f, gain=gain: gain * f(x), norm))
            elif self.normed_state:
                x = residual(norm(x), f)
            else:
                x = residual(x, Normed(f, norm))
        return x


def ours(name: str, **options) -> list[Residual]:
    return [make_residual(name, WIDTH, index, COUNT, **options) for index in range(COUNT)]


def alternating(alpha: tuple[float, float] = ALPHA, beta: tuple[float, float] = BETA) -> nn.Module:
    """MiniMax, whose constants differ between attention and MLP."""
    return Ours([make_residual("scaled", WIDTH, index, COUNT, state=alpha[index % 2],
                               update=beta[index % 2], learned=()) for index in range(COUNT)],
                normed_state=True)


# ------------------------------------------------------------ their weights -> ours

def translation(attention: dict[str, str], mlp: dict[str, str]) -> Callable[[Weights], Weights]:
    """Translate a layer's names: ours, with {k} for the sublayer, to theirs."""
    def translate(weights: Weights) -> Weights:
        return {name.format(k=2 * layer + part): weights[f"layers.{layer}.{theirs}"]
                for layer in range(LAYERS) for part, names in enumerate((attention, mlp))
                for name, theirs in names.items()}
    return translate


def around(mlp_norm: str, attention: dict[str, str] | None = None,
           mlp: dict[str, str] | None = None) -> Callable[[Weights], Weights]:
    """Translate the norms before both sublayers, and these weights of the residuals."""
    return translation({"norms.{k}.weight": "input_layernorm.weight", **(attention or {})},
                       {"norms.{k}.weight": f"{mlp_norm}.weight", **(mlp or {})})


def centred(translate: Callable[[Weights], Weights]) -> Callable[[Weights], Weights]:
    """Translate a model whose norms multiply by 1 + w."""
    return lambda weights: translate({name: weight + 1 if "layernorm" in name else weight
                                      for name, weight in weights.items()})


def zaya_scale(place: str) -> dict[str, str]:
    names = {"state": "residual_scale", "state_shift": "residual_bias",
             "update": "hidden_states_scale", "update_shift": "hidden_states_bias"}
    return {f"residuals.{{k}}.{ours}": f"{place}_residual_scale.{theirs}"
            for ours, theirs in names.items()}


WEIGHT = "residuals.{k}.weight"
POST = "post_attention_layernorm"

ROWS: list[Installed] = [
    Installed(
        "muse-spark", "Muse-Spark", "models.muse_spark",
        'NormPreserving(share="learned", temperature=0.3, floor=1e-3)',
        lambda: theirs("muse_spark", "MuseSparkTextDecoderLayer", "MuseSparkTextConfig",
                       std=1.5, moe_intermediate_size=2, num_local_experts=2,
                       num_experts_per_tok=1, moe_hidden_size=2, post_norm_eps=EPS),
        lambda: Ours(ours("norm-preserving", eps=EPS), gains=(1, 3)),
        centred(around("pre_feedforward_layernorm",
                       {WEIGHT: "post_attention_residual_gate.gate"},
                       {WEIGHT: "post_feedforward_residual_gate.gate",
                        "gains.{k}": "post_feedforward_layernorm.weight"})),
        "A weight of the norm after the MLP, which stands before that norm, counts as the MLP's."),
    Installed(
        "beam", "Beam", "models.beam", 'NormPreserving(share="depth")',
        lambda: theirs("beam", "BeamDecoderLayer", "BeamConfig",
                       mlp_layer_types=["dense"] * LAYERS),
        lambda: Ours(ours("norm-preserving", share="depth", eps=EPS)),
        around("pre_feedforward_layernorm", {WEIGHT: f"{POST}.weight"},
               {WEIGHT: "post_feedforward_layernorm.weight"})),
    Installed(
        "zaya1", "ZAYA1", "models.zaya", "Scaled()",
        lambda: theirs("zaya", "ZayaDecoderLayer", "ZayaConfig", Routed, moe_intermediate_size=2,
                       num_experts=2, router_hidden_size=2),
        lambda: Ours(ours("scaled")),
        around(POST, zaya_scale("post_attention"), zaya_scale("post_mlp")),
        "The library also shifts and scales the embedding, before its first layer."),
    Installed(
        "doge", "Doge", "models.doge", 'Scaled(learned=("state",))',
        lambda: theirs("doge", "DogeDecoderLayer", "DogeConfig"),
        lambda: Ours(ours("scaled", learned=("state",))),
        around(POST, {"residuals.{k}.state": "input_residual"},
               {"residuals.{k}.state": "post_attention_residual"})),
    Installed(
        "minimax", "MiniMax", "models.minimax", "Scaled(state=α, update=β, learned=())",
        lambda: theirs("minimax", "MiniMaxDecoderLayer", "MiniMaxConfig", num_local_experts=1,
                       num_experts_per_tok=1, layer_types=["full_attention", "linear_attention"],
                       full_attn_alpha_factor=ALPHA[0], linear_attn_alpha_factor=ALPHA[0],
                       mlp_alpha_factor=ALPHA[1], full_attn_beta_factor=BETA[0],
                       linear_attn_beta_factor=BETA[0], mlp_beta_factor=BETA[1]),
        alternating, around(POST),
        "The norm stands before the residual and not inside F, so that α multiplies norm x."),
    Installed(
        "granite", "Granite", "models.granite", "Scaled(update=c, learned=())",
        lambda: theirs("granite", "GraniteDecoderLayer", "GraniteConfig",
                       residual_multiplier=MULTIPLIER),
        lambda: Ours(ours("scaled", update=MULTIPLIER, learned=())), around(POST),
        "The library also multiplies the embedding by a constant."),
]
