"""Residual connections: what stands in the place of x + F(x). A new one is one file and one line of REGISTRY.

The registered classes are importable from here, by their own names: `from geolab.residuals import Delta`.
"""

import inspect
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from geolab.residuals.base import Residual, Sublayer, add_penalty, collect_penalties

REGISTRY: dict[str, type[Residual]] = {name: resolve_name(f"geolab.residuals.{place}") for name, place in {
    "additive": "additive:Additive",  # name: file and class
    "delta": "delta:Delta",
    "delta-matrix": "delta_matrix:DeltaMatrix",
    "hyper": "hyper:HyperConnections",
    "mhc": "mhc:MHC",
    "jpmhc": "jpmhc:JPmHC",
    "emhc-cayley": "emhc:Cayley",
    "emhc-hybrid": "emhc:Hybrid",
    "emhc-geodesic": "emhc:Geodesic",
    "emhc-exact": "emhc:Exact",
    "emhc-stream": "emhc:Stream",
    "emhc-mixer": "emhc_mixer:Mixer",
    "mgt": "mgt:MGT",
    "benchmark-delta": "benchmark:BenchmarkDelta",
    "benchmark-mhc": "benchmark:BenchmarkMHC",
    "benchmark-jpmhc": "benchmark:BenchmarkJPmHC",
}.items()}

_classes = {residual.__name__: residual for residual in REGISTRY.values()}
globals().update(_classes)
if TYPE_CHECKING:
    def __getattr__(name: str) -> Any: ...  # for editors and type checkers, which can't see the line above

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


__all__ = [*_classes, "REGISTRY", "Residual", "Sublayer", "add_penalty", "collect_penalties", "make_residual"]
