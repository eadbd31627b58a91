"""The eleven networks of chapter 17, which see the same batches, and where their jumps end.

An arrow is x + (t − u) f(x, t, u). Its loss is the error of the long side, where something is
given, and λ times the mismatch of the triangle.
"""

import math

import numpy as np
import torch
from IPython.display import HTML
from matplotlib.axes import Axes
from torch import Tensor, nn

from geolab.consistency import Diagram
from geolab.show.figures import ACCENT, show, subplots
from geolab.show.schematic import TINT
from notebooks.figures.ch17 import BUMP, HEIGHT, TASK, flow
from studies.engine.live import stored_runs

PENALTIES = [0, 1, 3, 10, 30, 100, 300]
RULES = [("denoise", lam) for lam in PENALTIES]
RULES += [("alone", 1), ("flow", 0), ("flow", 10), ("held", 1)]
END = 0.9                                          # the latest time
SHORT = 0.1                                        # the longest leg that is held


def arm(rule: str, weight: float) -> str:
    """The name of a network."""
    return f"{rule}, λ = {weight}" if rule in ("denoise", "flow") else rule


NETWORKS = [arm(*rule) for rule in RULES]


class Arrows(nn.Module):
    """A small network for each rule. x, t and u have the shape (rules, N)."""

    def __init__(self, width: int = 32):
        super().__init__()

        def start(*shape: int, std: float) -> nn.Parameter:
            return nn.Parameter((std * torch.randn(1, *shape)).repeat(len(RULES), 1, 1))
        self.w1, self.b1 = start(3, width, std=3**-0.5), start(1, width, std=0.5)
        self.w2, self.b2 = start(width, width, std=width**-0.5), start(1, width, std=0)
        self.w3, self.b3 = start(width, 1, std=width**-0.5), start(1, 1, std=0)

    def forward(self, x: Tensor, t: Tensor, u: Tensor) -> Tensor:
        z = torch.stack(torch.broadcast_tensors(x, 2 * t - 1, 2 * u - 1), -1)
        z = nn.functional.silu(torch.baddbmm(self.b1, z, self.w1))
        z = nn.functional.silu(torch.baddbmm(self.b2, z, self.w2))
        return x + (t - u) * torch.baddbmm(self.b3, z, self.w3)[..., 0]


def chains(count: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    """The times t₁ < t₂ < t₃, and x at these times, each with the shape (1, count)."""
    t = (END * torch.rand(1, count, 3, generator=generator, dtype=torch.float64)).sort(-1).values
    t[:, ::2, 0] = 0
    side = torch.randint(2, (1, count), generator=generator) * 2 - 1

    def noise() -> Tensor:
        return torch.randn(1, count, generator=generator, dtype=torch.float64)
    x = side + TASK.spread * noise()
    states, (a, s) = [], TASK.scales(0.0)
    for a_next, s_next in map(TASK.scales, t.unbind(-1)):
        fresh = (s_next**2 - (a_next / a * s) ** 2).clamp(min=0).sqrt()
        x = a_next / a * x + fresh * noise()
        states, a, s = [*states, x], a_next, s_next
    return *t.unbind(-1), *states


def triples(count: int, generator: torch.Generator) -> Tensor:
    """t₁, t₂, t₃, x₁, x₃, the flow from x₃ to t₁, the end of a short leg, and the flow to it."""
    t1, t2, t3, x1, _, x3 = chains(count, generator)
    short = torch.maximum(t1, t3 - SHORT)
    return torch.stack([t1, t2, t3, x1, x3, flow(x3, t3, t1), short, flow(x3, t3, short)]).float()


_RULE = np.array([rule for rule, _ in RULES])
_TO_FLOW, _HELD = (torch.tensor(rule == _RULE)[:, None] for rule in ("flow", "held"))
_HAS_TARGET = torch.tensor((_RULE == "denoise") | (_RULE == "flow"))
_WEIGHT = torch.tensor([lam for _, lam in RULES])


def losses(arrows: Arrows, rows: Tensor) -> Tensor:
    """One number for each network, from a batch of triples."""
    t1, t2, t3, x1, x3, flowed, short, carried = rows
    t2 = torch.where(_HELD, short, t2)
    triangle = Diagram((lambda x: arrows(x, t3, t1),),
                       (lambda x: torch.where(_HELD, carried, arrows(x, t3, t2)),
                        lambda x: arrows(x, t2, t1)))
    at_once, by_way = triangle.ends(x3)
    task = (at_once - torch.where(_TO_FLOW, flowed, x1)).square().mean(1)
    return _HAS_TARGET * task + _WEIGHT * (at_once - by_way).square().mean(1)


def train(steps: int = 1200, batch: int = 128, lr: float = 1e-2) -> Arrows:
    """Train the eleven networks, from one start and on the same batches."""
    torch.manual_seed(0)
    arrows, generator = Arrows(), torch.Generator().manual_seed(0)
    pool = triples(20_000, generator)
    optimizer = torch.optim.Adam(arrows.parameters(), fused=True)
    for step in range(steps):
        rows = torch.randint(20_000, (batch,), generator=generator)
        cosine = (1 + np.cos(np.pi * step / steps)) / 2
        optimizer.param_groups[0]["lr"] = lr * min(1, (step + 1) / 50) * cosine
        optimizer.zero_grad()
        losses(arrows, pool[:, :, rows].repeat(1, len(RULES), 1)).sum().backward()
        optimizer.step()
    return arrows.requires_grad_(False)


def jump(arrows: Arrows, x: Tensor, t: float | Tensor, u: float | Tensor) -> Tensor:
    """Where each network takes the points x: (N,), (1, N) or (rules, N) -> (rules, N)."""
    every = [torch.atleast_1d(torch.as_tensor(z)).float().expand(len(RULES), -1) for z in (x, t, u)]
    return arrows(*every)


_RANKS = (torch.arange(2000).double() + 0.5) / 2000
NOISE = flow(torch.special.ndtri(_RANKS), 1.0, END)            # quantiles of the law at END
DATA = flow(NOISE, END, 0.0)


def to_data(ends: Tensor) -> Tensor:
    """W, the distance of the sorted ends to the sorted data: (..., 2000) -> (...)."""
    return (ends.sort(-1).values - DATA).abs().mean(-1)


def outline(axes: Axes, ends: Tensor, color: str, title: str) -> None:
    """Where jumps end, over the two bumps of the data."""
    axes.fill_between(BUMP, 0.5 * HEIGHT / (2 * math.pi) ** 0.5 / TASK.spread, color=TINT)
    heights, edges = np.histogram(ends, np.linspace(-2.5, 2.5, 51), density=True)
    axes.stairs(heights, edges, color=color, linewidth=1.5)
    axes.text(0.98, 0.82, f"W = {to_data(ends):.2f}", transform=axes.transAxes, ha="right",
              fontsize=10.5)
    axes.set(title=title, xlim=(-2.5, 2.5), yticks=[], xticks=[-2, -1, 0, 1, 2])


def own_ends(ends: Tensor, title: str) -> HTML:
    """Where the reader's own network takes NOISE in one jump."""
    figure, axes = subplots(height=2.2)
    outline(axes, ends, ACCENT, title)
    axes.set_xlabel("x at time 0")
    axes.set_ylim(bottom=0)
    return show(figure, "The outline of the ends of one jump, over the two bumps of the data.",
                caption="Where one jump from time 0.9 to 0 ends. Outline: the ends, with their "
                        "distance to the data. Light blue: the data.")


def all_ends(arrows: Arrows) -> HTML:
    """Where one jump of five of the networks ends, and points that don't move."""
    ends = dict(zip(NETWORKS, jump(arrows, NOISE, END, 0.0), strict=True)) | {"not moving": NOISE}
    shown = {"denoise, λ = 0": "#777777", "denoise, λ = 300": "#777777", "alone": "black",
             "not moving": "black", "flow, λ = 10": ACCENT, "held": ACCENT}
    figure, panels = subplots(3, 2, height=4.8, sharex=True, sharey=True)
    for axes, (name, color) in zip(panels.flat, shown.items(), strict=True):
        outline(axes, ends[name], color, name)
    panels[1, 0].set_ylabel("share of the ends")
    panels[0, 0].set_ylim(bottom=0)
    for axes in panels[2]:
        axes.set_xlabel("x at time 0")
    far = stored_runs("17/distance")
    said = "; ".join(f"{far[name].mean():.2f} for {name}" for name in shown if name in far)
    return show(figure, "Six outlines over the two bumps of the data. Networks that guess make one "
                        "lump in the middle, without a penalty and with one. The network alone and "
                        "points that don't move make a broad hill over both bumps. The networks "
                        "with the flow or with a held leg make two bumps.",
                caption="Where one jump from time 0.9 to 0 ends. Outline: the ends, with the "
                        "networks of this page. Light blue: the data. In "
                        f"{len(far['held'])} stored runs the mean W is {said}.")
