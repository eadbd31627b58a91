"""What the tests of the residuals and of the probes have in common."""

import re
import sys
from pathlib import Path
from types import ModuleType

import torch
from torch import nn

from geolab import residuals
from geolab.models import Transformer, TransformerConfig

WIDTH, STREAMS = 8, 4
CLOSE = dict(rtol=1e-10, atol=1e-10)


def shaken(module, size=0.3, seed=1):
    """All parameters away from their start, so that no zero hides a wrong term."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.add_(size * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return module


def sublayer():
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()).double()


def vectors(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def networks(residual, layers=2, **options):
    """A Transformer with the residual and a plain one with the same sublayers."""
    config = TransformerConfig.ddl(width=WIDTH, layers=layers, heads=2)
    torch.manual_seed(0)
    network, plain = Transformer(config, residual, **options).double(), Transformer(config).double()
    plain.load_state_dict(network.state_dict(), strict=False)
    return network, plain


def train(network, steps, lr=1.0):
    for _ in range(steps):
        network.zero_grad()
        network(vectors(2, 5, WIDTH)).cos().sum().backward()
        torch.optim.SGD(network.parameters(), lr=lr).step()


def register_the_guide_s_residual(monkeypatch):
    """Do what CONTRIBUTING says: one file, one import, one line of REGISTRY. Returns its name."""
    guide = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    file, source = re.search(r"```python\n# (geolab/residuals/\w+\.py)\n(.*?)```", guide,
                             re.DOTALL).groups()
    path, imported, name, value = re.search(
        r'`from (geolab\.residuals\.\w+) import (\w+)` and `"(\w+)": (\w+),`', guide).groups()
    assert path == file.removesuffix(".py").replace("/", ".") and imported == value
    module = ModuleType(path)
    exec(compile(source, file, "exec"), vars(module))
    monkeypatch.setitem(sys.modules, path, module)
    monkeypatch.setitem(residuals.REGISTRY, name, getattr(module, value))
    return name
