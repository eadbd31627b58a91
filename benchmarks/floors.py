"""The floors that chapters and `benchmarks.cost` read, by the operator's name.

A floor is the fewest bytes that an operator moves. It stands beside its case in `benchmarks.cases`.
"""

from benchmarks.cases.birkhoff import sinkhorn
from benchmarks.cases.case import Bytes
from benchmarks.cases.cayley import cayley_rank2, cayley_skew4
from benchmarks.cases.delta import delta_layer, delta_update, diagonal_update
from benchmarks.cases.gate import gated_mix
from benchmarks.cases.generate import rms_linear
from benchmarks.cases.streams import stream_join, stream_mix, stream_mix_write, stream_read

__all__ = ["Bytes", "cayley_rank2", "cayley_skew4", "delta_layer", "delta_update",
           "diagonal_update", "gated_mix", "rms_linear", "sinkhorn", "stream_join", "stream_mix",
           "stream_mix_write", "stream_read"]
