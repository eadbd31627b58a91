"""Networks: one backbone that takes any residual, the geometric Transformers, and the reflection diagnostic's small models."""

from geolab.models.backbone import ContinuousModel, PointModel, TokenModel, Transformer, TransformerConfig
from geolab.models.diagnostics import (AdditiveReflector, DeltaReflector, HybridReflector, JPmHCReflector, MHCReflector,
                                       StreamHybridReflector)
from geolab.models.geometric import KINDS, GeometricConfig, GeometricDecoder, GeometricTransformer
from geolab.models.messages import MessagePassing, RelationGraph, path_graph
from geolab.models.regimes import REGIMES, RegimeModel

__all__ = ["KINDS", "REGIMES", "AdditiveReflector", "ContinuousModel", "DeltaReflector", "GeometricConfig", "GeometricDecoder",
           "GeometricTransformer", "HybridReflector", "JPmHCReflector", "MHCReflector", "MessagePassing", "PointModel",
           "RegimeModel", "RelationGraph", "StreamHybridReflector", "TokenModel", "Transformer", "TransformerConfig",
           "path_graph"]
