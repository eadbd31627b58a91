"""What the tests of the residuals have in common."""

import torch
from torch import nn

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
