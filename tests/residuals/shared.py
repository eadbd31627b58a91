"""What the tests of the residuals, operators and probes have in common."""

from itertools import pairwise

import torch
from torch import nn

from geolab import residuals
from geolab.models import Transformer, TransformerConfig

WIDTH, STREAMS = 8, 4
CLOSE = dict(rtol=1e-10, atol=1e-10)
# start as the plain network, without options
AS_THEY_ARE = ["additive", "hyper", "mhc", "jpmhc", "single-pass", "laurel", "scaled",
               "denseformer", "muddformer"]


def shaken(module, size=0.3, seed=1):
    """All parameters away from their start, so that no zero hides a wrong term."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.add_(size * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return module


def trained(model, size=0.05):
    """A grafted model to be used, whose residuals are away from their start: streams differ."""
    with torch.no_grad():
        for key, p in model.named_parameters():
            if ".residuals." in key:
                p.add_(size * torch.randn_like(p))
    return model.eval()


def sublayer(width=WIDTH):
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(width, width), nn.Tanh()).double()


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, dtype=torch.float64,
                       generator=torch.Generator().manual_seed(seed)).to(dtype)


vectors = normal  # of a network: (B, T, D)


def networks(residual, layers=2, **options):
    """A Transformer with the residual and a plain one with the same sublayers."""
    config = TransformerConfig.ddl(width=WIDTH, layers=layers, heads=2)
    torch.manual_seed(0)
    network, plain = Transformer(config, residual, **options).double(), Transformer(config).double()
    plain.load_state_dict(network.state_dict(), strict=False)
    return network, plain


# options with which a residual has other parameters, or starts them elsewhere
_SERIES = [{"start": "published"}, {"nets": "separate"}, {"maps": "published"}]
_OTHER = {
    "delta": [{"map": "v", "value": "sigmoid"}, {"gate": "mlp"}],
    "delta-matrix": [{"expand": "conv"}, {"compress": "channel"}, {"compress": "channel-conv"},
                     {"kernel_init": "published"}, {"tied": True}, {"beta_reads": "flatten"},
                     {"map": "v", "value": "linear", "direction_reads": "attention"}],
    "hyper": [{"dynamic": False}],
    "mhc": [{"readout": "learned"}, {"without": ("mix",)}, {"without": ("read", "write", "mix")},
            {"start": "published"}, *({"mix": mix} for mix in (
                "permutations", "circulant", "kronecker", "orthostochastic"))],
    "jpmhc": [{"norm": "rms", "write_scale": False}, {"mix": "kronecker"}],
    "mgt": [{"gate": False}, {"erase": False}],
    "scaled": [{"learned": ()}], "norm-preserving": [{"share": "depth"}],
    "emhc-cayley": _SERIES, "emhc-geodesic": _SERIES, "emhc-exact": [{"maps": "published"}],
    "emhc-hybrid": [*_SERIES, {"gate_head": "linear"}],
    "attnres": [{"block": 2, "values": "normed", "scaled": True}, {"read": "sum"}],
    "delta-product": [{"factors": 3, "beta_fixed": 2.0}], "denseformer": [{"block": 1}],
    "muddformer": [{"block": 1}],
    "emhc-stream": [{"start": "published"}], "emhc-mixer": [{"start": "published"}],
    "benchmark-delta": [{"pool": "sequence"}],
}
# those that may stand around any sublayer
ANYWHERE = [name for name, residual in residuals.REGISTRY.items() if not residual.needs_values]
FORMS = [(name, options) for name in sorted(ANYWHERE)
         for options in [{}, *_OTHER.get(name, [])]]


def stack(residual, width=16, count=3, **options):
    """The residuals of a network of so many sublayers."""
    made = nn.ModuleList(residuals.make_residual(residual, width, index, count, **options)
                         for index in range(count))
    for before, after in pairwise(made):
        after.follow(before)
    return made


def through(made, x, sublayer=torch.tanh):
    """x through residuals around an RMS norm and a sublayer."""
    state = made[0].expand(x)
    for residual in made:
        state = residual(state, residuals.Normed(
            sublayer, lambda x: nn.functional.rms_norm(x, x.shape[-1:])))
    return made[-1].reduce(state)
