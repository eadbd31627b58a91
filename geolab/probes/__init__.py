"""Measurements. A probe takes functions and tensors and knows no model class."""
# ruff: noqa: I001  (sorted, but not one name per line, which would fill a page)

from geolab.probes.causality import future_influence, influence
from geolab.probes.commutators import (Factors, asymmetry, commutator, commutator_energy,
                                       commutator_factors, jacobian_commutator, linear_commutator,
                                       order_sensitivity, pairwise)
from geolab.probes.depth import gradient_norms, states
from geolab.probes.gluing import cech_residual, dirichlet_energy
from geolab.probes.hearing import DepthWeights, depth_weights
from geolab.probes.norms import norm_by_depth, norm_drift
from geolab.probes.rank import effective_rank
from geolab.probes.readout import linear_readout
from geolab.probes.shortcut import operators_by_layer, shortcut_matrix
from geolab.probes.spectra import Spectrum, jacobian, spectrum
from geolab.probes.statistics import Statistics, statistics_by_layer
from geolab.probes.streams import Gain, composite_gain, stream_consensus
from geolab.probes.topology import persistence, total_persistence
from geolab.probes.usage import StreamUsage, stream_usage
from geolab.probes.writes import between_writes, delta_rate, share_along, token_jacobian

__all__ = ["DepthWeights", "Factors", "Gain", "Spectrum", "Statistics", "StreamUsage", "asymmetry",
           "between_writes", "cech_residual", "commutator", "commutator_energy",
           "commutator_factors", "composite_gain", "delta_rate", "depth_weights",
           "dirichlet_energy", "effective_rank", "future_influence", "gradient_norms", "influence",
           "jacobian", "jacobian_commutator", "linear_commutator", "linear_readout",
           "norm_by_depth", "norm_drift", "operators_by_layer", "order_sensitivity", "pairwise",
           "persistence", "share_along", "shortcut_matrix", "spectrum", "states",
           "statistics_by_layer", "stream_consensus", "stream_usage", "token_jacobian",
           "total_persistence"]
