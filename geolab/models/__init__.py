"""Networks: one backbone that takes any residual, and the small models of the reflection diagnostic."""

from geolab.models.backbone import ContinuousModel, TokenModel, Transformer, TransformerConfig
from geolab.models.diagnostics import (AdditiveReflector, DeltaReflector, HybridReflector, JPmHCReflector, MHCReflector,
                                       StreamHybridReflector)
from geolab.models.inspect import operators_by_layer, shortcut_matrix

__all__ = ["AdditiveReflector", "ContinuousModel", "DeltaReflector", "HybridReflector", "JPmHCReflector", "MHCReflector",
           "StreamHybridReflector", "TokenModel", "Transformer", "TransformerConfig", "operators_by_layer", "shortcut_matrix"]
