"""The weight decay of stored runs, which reaches every parameter of a residual with two axes."""

from typing import TypeVar

from torch import nn

from geolab.residuals import Residual

Model = TypeVar("Model", bound=nn.Module)


def every_matrix_decays(model: Model) -> Model:
    """Let all parameters with two or more axes decay, also those that `fit` leaves alone.

    The stored runs of these studies were trained so: the entry and the exit of JPmHC, and the
    kernels of the delta residual with several channels, shrink a little.
    Returns: the model.
    """
    for residual in (module for module in model.modules() if isinstance(module, Residual)):
        for part in residual.modules():
            part.decayed = tuple(name for name, p in part.named_parameters(recurse=False)
                                 if p.ndim >= 2)
    return model
