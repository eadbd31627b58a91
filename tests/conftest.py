"""Every run of the tests draws the same examples, on one thread.

GEOLAB_STANDIN makes it draw and compute as another machine would:

    GEOLAB_STANDIN='{"seeds": 1000}' ATEN_CPU_CAPABILITY=default python -m pytest tests/operators
"""

import os
import signal
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import settings

if "GEOLAB_STANDIN" in os.environ:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
    import standin
    sys.path.pop(0)
    standin.apply()


def helpers_find_the_language_patched() -> None:
    """Triton's interpreter puts its own functions into `triton.language` for a kernel, and looks
    through all of it again for each helper that the kernel calls: half of the time that it takes.
    """
    import triton.language as tl
    from triton.runtime import interpreter

    def patch(function, patch=interpreter._patch_lang):
        named = vars(sys.modules[function.__module__]).values()
        own = [module for module in named if module is tl or module is tl.core]
        if any(tl.core.is_builtin(module.load) for module in own):
            return patch(function)
        return interpreter._LangPatchScope()

    interpreter._patch_lang = patch


if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
    helpers_find_the_language_patched()

settings.register_profile("geolab", max_examples=30, deadline=None, derandomize=True, database=None)
settings.load_profile("geolab")
torch.set_num_threads(1)
# A shell starts a background job with interruptions ignored, and all processes inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def the_same_draws():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def torchvision():
    """torchvision, which transformers and timm import where it is installed.

    Its wheel for CUDA can't load its operators beside a torch for the CPU, and fails where it
    describes two of them. No test calls them, so it is enough that they have a name.
    """
    try:
        import torchvision
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor a, Tensor b, float c) -> Tensor")
        import torchvision
        torchvision.names = library  # which must live as long as they do
    return torchvision


@pytest.fixture(scope="session")
def transformers(torchvision):
    import transformers
    transformers.logging.set_verbosity_error()
    return transformers


@pytest.fixture(scope="session")
def timm(torchvision):
    import timm
    return timm
