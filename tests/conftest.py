"""Every run of the suite draws the same examples, on one thread."""

import os

import pytest
import torch
from hypothesis import settings

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported

settings.register_profile("geolab", max_examples=30, deadline=None, derandomize=True, database=None)
settings.load_profile("geolab")
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def the_same_draws():
    torch.manual_seed(0)
