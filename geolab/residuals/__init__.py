"""Residual connections: what replaces x + F(x). A new one is one file, one import and one line of REGISTRY."""

import inspect

from geolab.residuals.additive import Additive
from geolab.residuals.base import Residual, Sublayer
from geolab.residuals.benchmark import BenchmarkDelta, BenchmarkJPmHC, BenchmarkMHC
from geolab.residuals.delta import Delta
from geolab.residuals.delta_matrix import DeltaMatrix
from geolab.residuals.emhc import Cayley, Exact, Geodesic, Hybrid, Stream
from geolab.residuals.emhc_mixer import Mixer
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
    "emhc-mixer": Mixer,
    "mgt": MGT,
    "benchmark-delta": BenchmarkDelta,
    "benchmark-mhc": BenchmarkMHC,
    "benchmark-jpmhc": BenchmarkJPmHC,
}

_PLACE = ("self", "width", "index", "count")  # what a constructor is told of its place: no options


def make_residual(residual: str | type[Residual], width: int, **options) -> Residual:
    """A residual by its registered name, or by its class.

    Raises: ValueError for an unknown name; TypeError for an option that the residual does not have.
    """
    if isinstance(residual, str) and residual not in REGISTRY:
        raise ValueError(f"unknown residual {residual!r}; known: {', '.join(sorted(REGISTRY))}")
    make = REGISTRY[residual] if isinstance(residual, str) else residual
    try:
        return make(width, **options)
    except TypeError as error:
        known = _options(make)
        unknown = [option for option in options if option not in {*known, *_PLACE}]
        if not unknown:
            raise
        name = residual if isinstance(residual, str) else residual.__name__
        raise TypeError(f"residual {name!r} has no option {', '.join(map(repr, unknown))}; "
                        f"its options: {', '.join(known) or 'none'}") from error


def _options(residual: type[Residual]) -> list[str]:
    """What the constructor of a residual can be told by name, and, where it hands options on, that of its base class.

    An option without a default is left out there: the residual gives it itself, as `Delta` gives its one channel.
    """
    names = []
    for owner in residual.__mro__:
        if "__init__" not in vars(owner):
            continue
        given = inspect.signature(owner.__init__).parameters.values()
        names += [p.name for p in given if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name not in _PLACE
                  and (owner is residual or p.default is not p.empty)]
        if all(p.kind is not p.VAR_KEYWORD for p in given):
            break
    return list(dict.fromkeys(names))


__all__ = ["MGT", "MHC", "REGISTRY", "Additive", "BenchmarkDelta", "BenchmarkJPmHC", "BenchmarkMHC",
           "Cayley", "Delta", "DeltaMatrix", "Exact", "Geodesic", "Hybrid", "HyperConnections", "JPmHC",
           "Mixer", "Residual", "Stream", "Sublayer", "make_residual"]
