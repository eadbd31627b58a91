"""The mathematics: pure functions of tensors, one file a family, each function one equation of the book."""

from geolab.operators.cayley import cayley_iterated, cayley_rank2, cayley_skew4, skew
from geolab.operators.delta import delta_matrix, delta_shortcut, delta_update, unit_direction
from geolab.operators.gate import blend, midpoint_penalty
from geolab.operators.householder import householder_matrix, reflect
from geolab.operators.sinkhorn import sinkhorn
from geolab.operators.streams import stream_mix, stream_read, stream_read_mix, stream_write

__all__ = ["blend", "cayley_iterated", "cayley_rank2", "cayley_skew4", "delta_matrix", "delta_shortcut", "delta_update",
           "householder_matrix", "midpoint_penalty", "reflect", "sinkhorn", "skew", "stream_mix", "stream_read",
           "stream_read_mix", "stream_write", "unit_direction"]
