"""The residual of a published model: read its tensors, and no others.

    found = survey("deepseek-ai/DeepSeek-V4-Flash")   # or a folder, a file, a URL
    checkpoint = read(found)
    a, b, H = static_maps(checkpoint)

`python -m geolab.checkpoints ADDRESS` prints their numbers.
"""

from geolab.checkpoints.maps import maps_at, maps_of, of_model, readout, static_maps
from geolab.checkpoints.record import numbers, record, store
from geolab.checkpoints.survey import Checkpoint, Survey, read, survey

__all__ = ["Checkpoint", "Survey", "maps_at", "maps_of", "numbers", "of_model", "read", "readout",
           "record", "static_maps", "store", "survey"]
