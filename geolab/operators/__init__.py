"""The mathematics: pure functions of tensors, one file a family, each function one equation of the book."""

from geolab.operators.delta import delta_matrix, delta_shortcut, delta_update, unit_direction
from geolab.operators.householder import householder_matrix, reflect

__all__ = ["delta_matrix", "delta_shortcut", "delta_update", "householder_matrix", "reflect", "unit_direction"]
