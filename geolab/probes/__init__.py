"""Measurements. A probe takes functions and tensors, knows no model class, and returns what it measured."""

from geolab.probes.causality import future_influence, influence
from geolab.probes.depth import gradient_norms, states
from geolab.probes.norms import norm_by_depth, norm_drift
from geolab.probes.rank import effective_rank
from geolab.probes.spectrum import Spectrum, jacobian, spectrum

__all__ = ["Spectrum", "effective_rank", "future_influence", "gradient_norms", "influence", "jacobian",
           "norm_by_depth", "norm_drift", "spectrum", "states"]
