"""Residual connections: what stands in the place of x + F(x). A new one is one file and one line of REGISTRY."""

from geolab.residuals.additive import Additive
from geolab.residuals.base import Residual, Sublayer
from geolab.residuals.delta import Delta

REGISTRY: dict[str, type[Residual]] = {
    "additive": Additive,
    "delta": Delta,
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


__all__ = ["REGISTRY", "Additive", "Delta", "Residual", "Sublayer", "make_residual"]
