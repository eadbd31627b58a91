"""The mathematics: pure functions of tensors, one file per family, each function one equation of
the book.
"""

from geolab.operators.attend import attend, attend_on
from geolab.operators.birkhoff import sinkhorn
from geolab.operators.cayley import cayley_iterated, cayley_rank2, cayley_skew4, skew
from geolab.operators.delta import (
    delta_layer,
    delta_matrix,
    delta_shortcut,
    delta_update,
    diagonal_update,
    unit_direction,
)
from geolab.operators.gate import blend, gated_matrix, gated_mix, geodesic, midpoint_penalty
from geolab.operators.gated_read import gated_read
from geolab.operators.generate import rms_linear
from geolab.operators.householder import householder_matrix, reflect
from geolab.operators.hyper import hyper_join
from geolab.operators.joined import constrained_join, recomputed, stream_generate, stream_join
from geolab.operators.jpmhc import jpmhc_join
from geolab.operators.polytope import (
    circulant_mixture,
    kronecker_mixture,
    orthostochastic,
    permutation_mixture,
)
from geolab.operators.post_norm import post_norm
from geolab.operators.precision import outside_autocast, widened
from geolab.operators.streams import (
    stream_mix,
    stream_mix_write,
    stream_read,
    stream_write,
    stream_write_read,
)

__all__ = ["attend", "attend_on", "blend", "cayley_iterated", "cayley_rank2", "cayley_skew4",
           "circulant_mixture", "constrained_join", "delta_layer", "delta_matrix",
           "delta_shortcut", "delta_update", "diagonal_update", "gated_matrix", "gated_mix",
           "gated_read", "geodesic", "householder_matrix", "hyper_join", "jpmhc_join",
           "kronecker_mixture", "midpoint_penalty", "orthostochastic", "outside_autocast",
           "permutation_mixture", "post_norm", "recomputed", "reflect", "rms_linear", "sinkhorn",
           "skew", "stream_generate", "stream_join", "stream_mix", "stream_mix_write",
           "stream_read", "stream_write", "stream_write_read", "unit_direction", "widened"]
