"""Measurements. A probe takes functions and tensors, knows no model class, and returns what it measured."""

from geolab.probes.causality import future_influence, influence
from geolab.probes.depth import gradient_norms, states
from geolab.probes.norms import norm_by_depth, norm_drift
from geolab.probes.rank import effective_rank
from geolab.probes.spectrum import Spectrum, jacobian, spectrum
from geolab.probes.statistics import Statistics, statistics_by_layer
from geolab.probes.streams import Gain, composite_gain, stream_consensus

__all__ = ["Gain", "Spectrum", "Statistics", "composite_gain", "effective_rank", "future_influence", "gradient_norms",
           "influence", "jacobian", "norm_by_depth", "norm_drift", "spectrum", "states", "statistics_by_layer",
           "stream_consensus"]
