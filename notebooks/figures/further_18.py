"""The part of Going further that belongs to chapter 18: a card for each of the twelve residuals."""

import torch
from IPython.display import HTML

from geolab import residuals
from geolab.show.diagrams import BLOCKS, SOURCES, describe, diagram
from geolab.show.figures import show
from notebooks.figures.ch18 import WORDS

FACTS = {  # name -> what the operator acts on, when it is orthogonal, when it is singular
    "additive": ("nothing", "always", "never"),
    "emhc-cayley": ("slices", "always", "never"),
    "emhc-exact": ("slices", "always", "never"),
    "emhc-geodesic": ("halves of slices", "always", "never"),
    "delta": ("features", "at β = 0 and 2 only", "at β = 1"),
    "delta-matrix": ("features", "at β = 0 and 2 only", "at β = 1"),
    "mhc": ("streams", "in the limit of permutations", "for example, if two rows are equal"),
    "emhc-hybrid": ("slices", "in the limits γ = 0 and 1", "at γ = ½"),
    "emhc-stream": ("streams", "in the limits γ = 0 and 1", "at γ = ½"),
    "jpmhc": ("streams", "nearly, for small generators", "never"),
    "hyper": ("streams", "whenever the learned A is", "whenever the learned A is"),
    "mgt": ("features", "if each αβᵢ is 0 or 2", "if an αβᵢ is 1"),
}


def cost(name: str, width: int = 64) -> str:
    """The size of one token's state, and the learned numbers of one sublayer's residual."""
    residual = residuals.make_residual(name, width, index=1, count=3)  # neither first nor last
    state = torch.zeros(1, 1, 4, width) if name == "jpmhc" \
        else residual.expand(torch.zeros(1, 1, width))
    learned = sum(p.numel() for p in residual.parameters())
    return f"{' × '.join(map(str, state.shape[2:]))} numbers per token, {learned:,} learned"


def card(name: str) -> str:
    """One residual: its wiring, its operator and its cost, to unfold."""
    acts, orthogonal, singular = FACTS[name]
    came = [SOURCES[source] for source, targets in BLOCKS[name].sources if "operator" in targets]
    lines = {"acts on": acts, "spectrum": residuals.REGISTRY[name].spectrum,
             "orthogonal": orthogonal, "singular": singular,
             "computed": "; ".join(came) or "not at all",
             "reads the future": "no; as published, yes" if BLOCKS[name].leaks else "no",
             "at width 64": f"{cost(name)} per sublayer"}
    body = "".join(f"<tr><td>{what}</td><td>{said}</td></tr>" for what, said in lines.items())
    return (f"<details{' open' * (name == 'mhc')}><summary><code>{name}</code>, {WORDS[name]}"
            f"</summary>{show(diagram(name), describe(name)).data}"
            f"<table class='table'>{body}</table></details>")


def cards() -> HTML:
    """The twelve residuals of the library, by their places on the map of chapter 18."""
    return HTML("".join(map(card, WORDS)))
