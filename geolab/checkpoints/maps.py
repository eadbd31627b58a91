"""a, b and H of a released model: of a zero state, or of given states.

    logits = s · fn x̂ + base, with x̂ = X / √(mean X² + ε_norm) over all n D numbers of a token
    a = σ(logits_a) + ε,  b = c σ(logits_b),  H = Cᵀ
    C = softmax over rows of logits_C, + ε, normalised by columns; then rows and columns in turn

The released code multiplies streams by Cᵀ, so H acts as in x ← H x + b ⊗ F(aᵀx). c is 2. Hy4 has no
C: its H is the identity, c is a number of config.json, and b has + ε too. At a zero state x̂ is
zero, and the logits are the base alone: these maps are called static.

Source: `DeepseekV4HyperConnection`, `Glm5NextTextHyperConnection`, `HYV4HyperConnection` of
transformers 5.23, all in float32; Xie et al. (2025), section 4.

Legend: L sublayers, n streams, D width, ... any axes between (batch, position).
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from geolab.checkpoints.names import PARTS, Settings, find_names, settings_of
from geolab.checkpoints.survey import Checkpoint
from geolab.operators import rms_linear, sinkhorn
from geolab.residuals.streams import StreamCoefficients


def static_maps(checkpoint: Checkpoint) -> StreamCoefficients:
    """a (L, n), b (L, n) and H (L, n, n) of all sublayers at a zero state."""
    return _stacked([coefficients(checkpoint.part(site, "base").float(), checkpoint.settings)
                     for site in checkpoint.sublayers])


def maps_at(checkpoint: Checkpoint, site: str, states: Tensor) -> StreamCoefficients:
    """a (..., n), b (..., n) and H (..., n, n) of one sublayer at states (..., n, D).

    Raises: ValueError for states of another shape, another site, or if fn wasn't read.
    """
    if site == "head":
        raise ValueError("site must be a sublayer: readout gives the weights of the head")
    return coefficients(_logits(checkpoint, site, states), checkpoint.settings)


def readout(checkpoint: Checkpoint, states: Tensor | None = None) -> Tensor:
    """The weights of the streams in the sum at the end: (n,) at a zero state, or (..., n).

    Raises: ValueError as `maps_at` does.
    """
    settings = checkpoint.settings
    if not settings.kind.head:
        return torch.full((settings.streams,), 1 / settings.streams)
    logits = (checkpoint.part("head", "base").float() if states is None
              else _logits(checkpoint, "head", states))
    return logits.sigmoid() + settings.eps


def coefficients(logits: Tensor, settings: Settings) -> StreamCoefficients:
    """a, b and H of logits (..., 2 n + n²), or (..., 2 n) where H is the identity."""
    n, eps = settings.streams, settings.eps
    read, write, mix = logits.split([n, n, logits.shape[-1] - 2 * n], dim=-1)
    if settings.kind.mixes:
        return StreamCoefficients(read.sigmoid() + eps, settings.magnitude * write.sigmoid(),
                                  sinkhorn(mix.unflatten(-1, (n, n)).mT, settings.iterations,
                                           eps=eps))
    return StreamCoefficients(read.sigmoid() + eps, settings.magnitude * write.sigmoid() + eps,
                              torch.eye(n).to(logits).expand(*logits.shape[:-1], n, n))


def of_model(model: nn.Module, like: str | None = None) -> Checkpoint:
    """The residual's tensors of a loaded model of transformers, not copied.

    Raises: ValueError for a model that has none.
    """
    settings = settings_of(model.config.to_dict(), like)
    tensors = model.state_dict()
    whose, sites = find_names(tensors, settings)
    kept = {name: tensors[name] for site in sites.values() for name in site.values()}
    return Checkpoint(type(model).__name__, "", whose, settings, sites, kept, 0)


def maps_of(model: nn.Module, *inputs: Any, like: str | None = None,
            **named: Any) -> StreamCoefficients:
    """a (L, B, T, n), b (L, B, T, n) and H (L, B, T, n, n) of what a loaded model reads.

    `maps_of(model, **tokenizer("a sentence", return_tensors="pt"))` runs the model once, without
    gradients, and catches the state before each sublayer.

    Arguments:
        model: of transformers, with its `config`.
        inputs, named: what the model is called with.
        like: as for `survey`.
    Raises: ValueError for a model without such a residual, or one that doesn't call each once.
    """
    checkpoint = of_model(model, like)
    caught: dict[str, list[Tensor]] = {site: [] for site in checkpoint.sublayers}
    hooks = []
    try:
        for site, states in caught.items():
            path = checkpoint.sites[site]["base"].rpartition(".")[0]
            hooks.append(model.get_submodule(path).register_forward_pre_hook(_keep(states)))
        with torch.no_grad():
            model(*inputs, **named)
    finally:
        for hook in hooks:
            hook.remove()
    if odd := {site: len(states) for site, states in caught.items() if len(states) != 1}:
        raise ValueError(f"model must call the residual of each sublayer once, got {odd}")
    return _stacked([maps_at(checkpoint, site, states[0]) for site, states in caught.items()])


def _keep(states: list[Tensor]) -> Callable[[nn.Module, tuple], None]:
    def hook(module: nn.Module, arguments: tuple) -> None:
        states.append(arguments[0].detach())
    return hook


def _logits(checkpoint: Checkpoint, site: str, states: Tensor) -> Tensor:
    settings = checkpoint.settings
    fn, base, scale = (checkpoint.part(site, part).detach().float().to(states.device)
                       for part in PARTS)
    wanted = (settings.streams, settings.width)
    if states.shape[-2:] != wanted:
        raise ValueError(f"states must be (..., {wanted[0]}, {wanted[1]}), got shape "
                         f"{tuple(states.shape)}")
    sizes = torch.tensor([settings.streams] * min(2, len(scale))
                         + [settings.streams ** 2] * (len(scale) - 2), device=states.device)
    numbers = rms_linear(states.float().flatten(-2), fn, settings.norm_eps)
    return scale.repeat_interleave(sizes) * numbers + base


def _stacked(maps: Sequence[StreamCoefficients]) -> StreamCoefficients:
    return StreamCoefficients(*(torch.stack(found) for found in zip(*maps, strict=True)))
