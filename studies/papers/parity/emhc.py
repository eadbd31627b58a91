"""E-MHC-Geo's public models, beside ours."""

from dataclasses import replace

from torch import Tensor, nn

from geolab.models import ContinuousModel, Transformer
from studies.papers.configurations import CONFIGURATIONS
from studies.papers.parity.public import Public

DIM, WIDTH, HEADS, LAYERS, LENGTH = 4, 8, 2, 2, 6


def _small(name: str) -> ContinuousModel:
    """A named configuration with nothing but its size changed."""
    configuration = CONFIGURATIONS[name]
    backbone = replace(configuration.backbone, width=WIDTH, layers=LAYERS, heads=HEADS,
                       hidden=4 * WIDTH, max_length=LENGTH)
    return ContinuousModel(Transformer(backbone, configuration.residual, **configuration.options),
                           DIM)


def _wrapper(public: dict[str, Tensor]) -> dict[str, Tensor]:
    """The maps around the trunk and the last norm."""
    return {"read.weight": public["input_proj.weight"], "read.bias": public["input_proj.bias"],
            "write.weight": public["output_proj.weight"],
            "write.bias": public["output_proj.bias"],
            "trunk.position": public["pos_emb"],
            "trunk.norm.weight": public["core.transformer.ln_f.weight"]}


def _gpt(public: dict[str, Tensor]) -> dict[str, Tensor]:
    ours = _wrapper(public)
    for block in range(LAYERS):
        theirs = f"core.transformer.h.{block}"
        attention, mlp = f"trunk.layers.{2 * block}", f"trunk.layers.{2 * block + 1}"
        ours |= {f"{attention}.norm.weight": public[f"{theirs}.ln_1.weight"],
                 f"{attention}.mix.qkv.weight": public[f"{theirs}.attn.c_attn.weight"],
                 f"{attention}.mix.out.weight": public[f"{theirs}.attn.c_proj.weight"],
                 f"{mlp}.norm.weight": public[f"{theirs}.ln_2.weight"],
                 f"{mlp}.mix.up.weight": public[f"{theirs}.mlp.c_fc.weight"],
                 f"{mlp}.mix.out.weight": public[f"{theirs}.mlp.c_proj.weight"]}
    return ours


def _public(label: str, name: str, configuration: str, translate, **more) -> Public:
    def build() -> nn.Module:
        return _small(configuration)
    return Public(label, "E-MHC-Geo", name, f'CONFIGURATIONS["{configuration}"]', build, translate,
                  **more)


PUBLIC = [_public("emhc-gpt", "GPT", "emhc-gpt", _gpt)]
