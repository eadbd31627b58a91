"""Networks: the backbone that takes any residual, and the geometric Transformers."""
# ruff: noqa: I001  (sorted, but not one name per line, which would fill a page)

from geolab.models.backbone import Transformer
from geolab.models.config import TransformerConfig
from geolab.models.decoder import GeometricDecoder
from geolab.models.geometric import KINDS, GeometricConfig, GeometricTransformer
from geolab.models.heads import ContinuousModel, PointModel, TokenModel
from geolab.models.messages import MessagePassing, RelationGraph, path_graph

__all__ = ["KINDS", "ContinuousModel", "GeometricConfig", "GeometricDecoder",
           "GeometricTransformer", "MessagePassing", "PointModel", "RelationGraph", "TokenModel",
           "Transformer", "TransformerConfig", "path_graph"]
