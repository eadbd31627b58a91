"""Residuals of released models that look back: the installed transformers' code beside ours."""

from torch import Tensor, nn

from geolab.graft.block import make_residuals, through
from geolab.models.pretrained import without_foreign_torchvision
from studies.parity.installed import WIDTH, Installed, fixed, randomise

LAYERS, LAYERS_PER_BLOCK = 5, 2
INKLING = dict(block=2 * LAYERS_PER_BLOCK, values="normed", scaled=True, eps=1e-6)


class Sublayer(nn.Module):
    """The fixed map of a number, called and answering as attention or as an MLP of theirs."""

    def __init__(self, seed: int, attends: bool):
        super().__init__()
        self.f, self.attends = fixed(seed), attends

    def forward(self, hidden_states: Tensor, **_: object) -> Tensor | tuple[Tensor, None]:
        update = self.f(hidden_states)
        return (update, None) if self.attends else update


class Unchanged(nn.Module):
    """In place of the short convolution behind a sublayer, which belongs to F."""

    def forward(self, hidden_states: Tensor, **_: object) -> Tensor:
        return hidden_states


class Inkling(nn.Module):
    """Inkling-2's own text model, from the embedding to its last norm."""

    def __init__(self):
        super().__init__()
        with without_foreign_torchvision():
            from transformers.models.inkling2.configuration_inkling2 import Inkling2TextConfig
            from transformers.models.inkling2.modeling_inkling2 import Inkling2TextModel

        sizes = dict(head_dim=4, num_attention_heads=1, num_key_value_heads=1, swa_head_dim=4,
                     swa_num_attention_heads=1, swa_num_key_value_heads=1, vocab_size=2,
                     n_routed_experts=2, num_experts_per_tok=1, moe_intermediate_size=4,
                     eos_token_id=1)
        self.model = Inkling2TextModel(Inkling2TextConfig(
            hidden_size=WIDTH, num_hidden_layers=LAYERS, layer_types=["hybrid_sliding"] * LAYERS,
            n_layers_per_attn_res_block=LAYERS_PER_BLOCK, **sizes))
        self.model.embed_tokens, self.model.norm = nn.Identity(), nn.Identity()
        for index, layer in enumerate(self.model.layers):
            layer.self_attn = Sublayer(2 * index, attends=True)
            layer.mlp = Sublayer(2 * index + 1, attends=False)
            layer.post_attention_convolution = layer.post_mlp_convolution = Unchanged()
        randomise(self)

    def forward(self, x: Tensor) -> Tensor:
        return self.model(inputs_embeds=x, use_cache=False).last_hidden_state


class Ours(nn.Module):
    """The same sublayers and norms inside attention residuals."""

    def __init__(self, **options: object):
        super().__init__()
        self.residuals = nn.ModuleList(make_residuals("attnres", WIDTH, 2 * LAYERS, **options))
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH, eps=1e-6) for _ in self.residuals)

    def forward(self, x: Tensor) -> Tensor:
        return through(self.residuals, x, ((norm, fixed(number))
                                           for number, norm in enumerate(self.norms)))


def translate(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Inkling-2's weights by our names."""
    ours = {f"residuals.{2 * LAYERS - 1}.exit.weight": theirs["model.final_input.query"]}
    for layer in range(LAYERS):
        for number, (read, norm) in enumerate([("attention_input", "input_layernorm"),
                                               ("mlp_input", "post_attention_layernorm")]):
            sublayer, path = 2 * layer + number, f"model.layers.{layer}"
            ours[f"norms.{sublayer}.weight"] = theirs[f"{path}.{norm}.weight"]
            if sublayer:  # the first one reads the embedding
                ours[f"residuals.{sublayer}.query"] = theirs[f"{path}.{read}.query"]
    return ours


ROWS = [Installed(
    label="inkling-2", name="Inkling-2", module="models.inkling2",
    ours='AttnRes(block=12, values="normed", scaled=True, eps=1e-6)',
    theirs=Inkling, build=lambda: Ours(**INKLING), translate=translate,
    differs="layers with full attention, whose q, k and v have a query each; here a block has "
            f"{2 * LAYERS_PER_BLOCK} sublayers in place of 12")]
