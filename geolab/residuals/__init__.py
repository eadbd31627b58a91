"""Residual connections: what stands in the place of x + F(x). A new one is one file and one line of REGISTRY."""

from geolab.residuals.additive import Additive
from geolab.residuals.base import Residual, Sublayer, add_penalty, collect_penalties
from geolab.residuals.benchmark import BenchmarkDelta, BenchmarkJPmHC, BenchmarkMHC
from geolab.residuals.delta import Delta
from geolab.residuals.delta_matrix import DeltaMatrix
from geolab.residuals.emhc import Cayley, Exact, Geodesic, Hybrid, Stream
from geolab.residuals.hyper import HyperConnections
from geolab.residuals.jpmhc import JPmHC
from geolab.residuals.mgt import MGT
from geolab.residuals.mhc import MHC

REGISTRY: dict[str, type[Residual]] = {
    "additive": Additive,
    "delta": Delta,
    "delta-matrix": DeltaMatrix,
    "hyper": HyperConnections,
    "mhc": MHC,
    "jpmhc": JPmHC,
    "emhc-cayley": Cayley,
    "emhc-hybrid": Hybrid,
    "emhc-geodesic": Geodesic,
    "emhc-exact": Exact,
    "emhc-stream": Stream,
    "mgt": MGT,
    "benchmark-delta": BenchmarkDelta,
    "benchmark-mhc": BenchmarkMHC,
    "benchmark-jpmhc": BenchmarkJPmHC,
}


def make_residual(residual: str | type[Residual], width: int, **options) -> Residual:
    """A residual by its registered name, or by its class.

    Raises: ValueError for an unknown name; TypeError for an option that the residual does not have.
    """
    if isinstance(residual, str):
        if residual not in REGISTRY:
            raise ValueError(f"unknown residual {residual!r}; known: {', '.join(sorted(REGISTRY))}")
        residual = REGISTRY[residual]
    return residual(width, **options)


__all__ = ["Additive", "BenchmarkDelta", "BenchmarkJPmHC", "BenchmarkMHC", "Cayley", "Delta", "DeltaMatrix", "Exact",
           "Geodesic", "Hybrid", "HyperConnections", "JPmHC", "MGT", "MHC", "REGISTRY", "Residual", "Stream",
           "Sublayer", "add_penalty", "collect_penalties", "make_residual"]
