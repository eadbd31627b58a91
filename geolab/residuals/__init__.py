"""Residual connections: the replacements of x + F(x).

A new residual is one file, one import and one line of REGISTRY.
"""

import torch

from geolab.residuals.additive import Additive
from geolab.residuals.attnres import AttnRes
from geolab.residuals.base import Normed, Residual, Sublayer, Views, decaying, options_of
from geolab.residuals.benchmark import BenchmarkDelta, BenchmarkJPmHC, BenchmarkMHC
from geolab.residuals.deepnorm import DeepNorm
from geolab.residuals.delta import Delta
from geolab.residuals.delta_matrix import DeltaMatrix
from geolab.residuals.delta_product import DeltaProduct
from geolab.residuals.denseformer import DenseFormer
from geolab.residuals.emhc import Cayley, Exact, Geodesic, Hybrid
from geolab.residuals.emhc_stream import Mixer, Stream
from geolab.residuals.gated_streams import GatedStreams
from geolab.residuals.hyper import HyperConnections
from geolab.residuals.jpmhc import JPmHC
from geolab.residuals.laurel import LAuReL
from geolab.residuals.layer_scale import LayerScale
from geolab.residuals.mgt import MGT
from geolab.residuals.mgt_forms import MHCDelta, Projected, TokenRate
from geolab.residuals.mhc import MHC
from geolab.residuals.muddformer import MUDDFormer
from geolab.residuals.norm_preserving import NormPreserving
from geolab.residuals.rezero import ReZero
from geolab.residuals.scaled import Scaled
from geolab.residuals.single_pass import SinglePass
from geolab.residuals.value_residual import ValueResidual
from geolab.residuals.weights import Linear, Weight

REGISTRY: dict[str, type[Residual]] = {
    "additive": Additive,
    "delta": Delta, "delta-matrix": DeltaMatrix, "delta-product": DeltaProduct,
    "hyper": HyperConnections, "mhc": MHC, "jpmhc": JPmHC,
    "single-pass": SinglePass, "gated-streams": GatedStreams,
    "emhc-cayley": Cayley, "emhc-hybrid": Hybrid, "emhc-geodesic": Geodesic,
    "emhc-exact": Exact, "emhc-stream": Stream, "emhc-mixer": Mixer,
    "layer-scale": LayerScale, "rezero": ReZero, "deepnorm": DeepNorm, "laurel": LAuReL,
    "scaled": Scaled, "norm-preserving": NormPreserving,
    "attnres": AttnRes, "denseformer": DenseFormer, "muddformer": MUDDFormer,
    "value-residual": ValueResidual,
    "mgt": MGT, "mgt-token": TokenRate, "mgt-projected": Projected, "mhc-delta": MHCDelta,
    "benchmark-delta": BenchmarkDelta, "benchmark-mhc": BenchmarkMHC,
    "benchmark-jpmhc": BenchmarkJPmHC,
}

__all__ = ["REGISTRY", "Linear", "Normed", "Residual", "Sublayer", "Views", "Weight", "decaying",
           "make_residual", *(residual.__name__ for residual in REGISTRY.values())]


def make_residual(residual: str | type[Residual], width: int, index: int = 0, count: int = 1,
                  **options) -> Residual:
    """Make a residual by its registered name, or of its class.

    Its attribute `options` keeps the options, sorted by name. A checkpoint compares models by these
    options, including those that only set the start. Its parameters are float32 where the default
    dtype is narrower.

    Arguments:
        residual: a name in REGISTRY, or a class.
        width, index, count: as for `Residual`.
        options: those of the residual's constructor.
    Raises: ValueError for an unknown name, an object of another kind, or an option that another
        one leaves without effect;
        TypeError for an option that the residual doesn't have.
    """
    if isinstance(residual, str) and residual not in REGISTRY:
        raise ValueError(f"unknown residual {residual!r}; known: {', '.join(sorted(REGISTRY))}")
    make = REGISTRY[residual] if isinstance(residual, str) else residual
    if not (isinstance(make, type) and issubclass(make, Residual)):
        raise ValueError("residual must be a name in geolab.residuals.REGISTRY or a class of "
                         f"Residual, got {residual!r}")
    known = options_of(make)
    unknown = [option for option in options if option not in known]
    if unknown:
        name = residual if isinstance(residual, str) else residual.__name__
        raise TypeError(f"residual {name!r} has no option {', '.join(map(repr, unknown))}; "
                        f"its options: {', '.join(known) or 'none'}")
    before = torch.get_default_dtype()  # where it is narrower: a QR needs float32, too
    torch.set_default_dtype(torch.promote_types(before, torch.float32))
    try:
        made = make(width, index=index, count=count, **options)
    finally:
        torch.set_default_dtype(before)
    made.options = dict(sorted(options.items()))
    return made
