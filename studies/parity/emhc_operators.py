"""E-MHC-Geo's public mixers for ARC and its models of the negation diagnostic, beside ours."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from geolab.models import reflectors
from geolab.residuals import Residual, make_residual
from studies.claims.configurations import EMHC_MIXERS
from studies.parity.public import Public

STREAMS, WIDTH, HIDDEN = 4, 2, 8
Weights = dict[str, Tensor]


class OneSublayer(nn.Module):
    """One step of a residual around x -> tanh(linear x): (B, T, n D) -> (B, T, n D)."""

    def __init__(self, residual: Residual):
        super().__init__()
        self.residual, self.layer = residual, nn.Linear(residual.width, residual.width)

    def forward(self, x: Tensor) -> Tensor:
        state = self.residual.expand(x)
        return self.residual.reduce(self.residual(state, lambda h: self.layer(h).tanh()))


def absorbed(public: Weights, norm: str, linear: str, name: str) -> Weights:
    """Return the linear map composed with the weight and bias of the norm before it."""
    weight = public[f"{linear}.weight"]
    return {f"{name}.weight": weight * public[f"{norm}.weight"],
            f"{name}.bias": public[f"{linear}.bias"] + weight @ public[f"{norm}.bias"]}


# ---------------------------------------------------------------- their weights -> ours

def _renamed(public: Weights, names: dict[str, str]) -> Weights:
    """Rename weights: {beginning of a public name: beginning of ours}."""
    return {ours + name.removeprefix(theirs): weight for theirs, ours in names.items()
            for name, weight in public.items() if name.startswith(theirs)}


def _jpmhc(public: Weights) -> Weights:
    return _renamed(public, {"layer.": "layer.", "mixer.norm.": "residual.norm.",
                             "mixer.fused_proj.": "residual.generate."})


def _hybrid(public: Weights) -> Weights:
    """Translate a hybrid, whose norms may have weights and biases. Its code adds 1e-8 to k."""
    ours = _renamed(public, {"layer.": "layer.", "mixer.geo_proj.0": "residual.generator.0.down",
                             "mixer.geo_proj.2": "residual.generator.1",
                             "mixer.route_proj": "residual.router"})
    if "mixer.geo_norm.weight" in public:
        ours |= absorbed(public, "mixer.geo_norm", "mixer.geo_proj.0", "residual.generator.0.down")
        ours |= absorbed(public, "mixer.route_norm", "mixer.route_proj", "residual.router")
    ours["residual.generator.1.bias"] = _guarded(ours["residual.generator.1.bias"])
    return ours


def _guarded(bias: Tensor) -> Tensor:
    """Reorder rows so that u, v and β come before k, and the gate after it."""
    guard = torch.zeros_like(bias)
    guard[2 * STREAMS + 1:-1] = 1e-8
    return bias + guard


def _as_they_are(names: dict[str, str]) -> Callable[[Weights], Weights]:
    return lambda public: _renamed(public, names)


def _mhc_reflector(public: Weights) -> Weights:
    ours = _renamed(public, {"phi_pre.": "read.", "phi_post.": "write.", "phi_res.": "mix.",
                             "b_pre": "read_bias", "b_post": "write_bias", "b_res": "mix_bias",
                             "mlp.": "branch."})
    scales = [public[f"alpha_{name}"] for name in ("pre", "post", "res")]
    return ours | {"scales": torch.stack(scales)}


def _stream_reflector(public: Weights) -> Weights:
    return {**absorbed(public, "norm", "geo_proj.0", "generator.0"),
            "generator.2.weight": public["geo_proj.2.weight"],
            "generator.2.bias": _guarded(public["geo_proj.2.bias"])}


# ---------------------------------------------------------------- rows

TRAINER = "Its AdamW has 0.999 for its second beta, and decays biases too."
RECURSIVE = "It is trained inside a recursive model, by AdamATan2 or AdamW."
UNUSED = "No script of its repository trains it."
NORMS = "There the norms have weights and biases of their own."
STILL = ("There the generator's last layer starts at zero, where no gradient reaches u, v and β: "
         "its rotation stays the identity. Ours starts near zero.")


def _mixer(name: str, called: str, translate: Callable[[Weights], Weights], differs: str,
           **sizes: int) -> Public:
    residual, options = EMHC_MIXERS[name]

    def build() -> nn.Module:
        return OneSublayer(make_residual(residual, WIDTH, streams=STREAMS, **options, **sizes))
    return Public(f"emhc-{name}", "E-MHC-Geo", called, f'EMHC_MIXERS["{name}"]', build, translate,
                  differs)


def _reflector(label: str, name: str, ours: str, translate: Callable[[Weights], Weights],
               differs: str = TRAINER, dim: int = 4) -> Public:
    def build() -> nn.Module:
        return getattr(reflectors, ours)(dim)
    return Public(f"emhc-reflector-{label}", "E-MHC-Geo", f"negation diagnostic, {name}",
                  f"geolab.models.reflectors.{ours}", build, translate, differs)


PUBLIC = [
    _mixer("arc-jpmhc", "JPmHC mixer for ARC", _jpmhc, RECURSIVE),
    _mixer("arc-jpmhc-layer-norm", "JPmHC mixer for ARC, layer norm", _jpmhc, UNUSED),
    _mixer("arc-hybrid", "hybrid mixer for ARC", _hybrid, f"{RECURSIVE} {STILL}", hidden=HIDDEN),
    _mixer("arc-hybrid-layer-norm", "hybrid mixer for ARC, layer norm", _hybrid,
           f"{UNUSED} {STILL} {NORMS}", hidden=HIDDEN),
    _reflector("additive", "GPT", "AdditiveReflector", _as_they_are({"mlp.": "branch."}),
               UNUSED),
    _reflector("delta", "DDL", "DeltaReflector",
               _as_they_are({"k_net.": "direction.", "beta_net.": "beta."})),
    _reflector("hybrid", "hybrid", "HybridReflector", _as_they_are(
        {"u_net.": "u.", "v_net.": "v.", "cayley_beta_net.": "beta.", "k_net.": "direction.",
         "gate_linear.": "gate."})),
    _reflector("jpmhc", "JPmHC", "JPmHCReflector", _as_they_are({"W_net.": "generator."})),
    _reflector("mhc", "mHC", "MHCReflector", _mhc_reflector, UNUSED, dim=8),
    _reflector("stream-hybrid", "stream hybrid", "StreamHybridReflector", _stream_reflector,
               f"{UNUSED} There the generator starts at zero, and only its last biases ever learn: "
               "k and γ never read x.", dim=8),
]
