"""All kernels, by the name of their operator. This file can be imported only with Triton."""

from collections.abc import Callable

from geolab.kernels.birkhoff import sinkhorn
from geolab.kernels.cayley import cayley_rank2, cayley_skew4
from geolab.kernels.delta import delta_update, diagonal_update
from geolab.kernels.gated import gated_mix
from geolab.kernels.generate import rms_linear
from geolab.kernels.joined import stream_generate_read, stream_join
from geolab.kernels.streams import stream_mix, stream_mix_write, stream_read

TWINS: dict[str, Callable] = {twin.__name__: twin for twin in (
    cayley_rank2, cayley_skew4, delta_update, diagonal_update, gated_mix, rms_linear, sinkhorn,
    stream_generate_read, stream_join, stream_mix, stream_mix_write, stream_read)}
