"""geolab: the small library under *The Geometry of Residual Connections*.

    operators   the mathematics, pure functions of tensors
    kernels     the same on a GPU, which operators hand over to
    residuals   what replaces x + F(x), one class a residual
    models      the Transformer that takes any residual
    tasks       data sets that know their floor and their trivial baselines
    probes      measurements
    papers      what the papers claim, as data
    fit         the training loop, on one process or many
    explore     sliders, live and on a static page
"""

from geolab.distributed import Engine
from geolab.explore import explore
from geolab.training import Budget, History, fit

__all__ = ["Budget", "Engine", "History", "explore", "fit"]
