"""Networks: one backbone that takes any residual, and the small models of the reflection diagnostic."""

from geolab.models.backbone import ContinuousModel, TokenModel, Transformer, TransformerConfig
from geolab.models.diagnostics import AdditiveReflector, DeltaReflector

__all__ = ["AdditiveReflector", "ContinuousModel", "DeltaReflector", "TokenModel", "Transformer", "TransformerConfig"]
