"""Residuals of released models that look back: the installed transformers' code beside ours."""

from torch import Tensor, nn

from geolab.models.pretrained import without_foreign_torchvision
from geolab.residuals import Normed, Views, make_residual
from studies.parity.installed import WIDTH, Installed, fixed, randomise

LAYERS, LAYERS_PER_BLOCK = 5, 2
FULL = (2, 4)   # the layers of full attention, with a query each for q, k and v
INKLING = dict(block=2 * LAYERS_PER_BLOCK, values="normed", scaled=True, eps=1e-6)


def attend(seed: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """A fixed map of three inputs, which tells them apart."""
    return fixed(seed)(q) + fixed(seed + 100)(k) * fixed(seed + 200)(v)


class Attention(nn.Module):
    """A fixed map of a number, called and answering as an attention of theirs."""

    def __init__(self, seed: int):
        super().__init__()
        self.seed = seed

    def forward(self, hidden_states: Tensor, key_hidden_states: Tensor | None = None,
                value_hidden_states: Tensor | None = None, **_: object) -> tuple[Tensor, None]:
        if key_hidden_states is None or value_hidden_states is None:
            return fixed(self.seed)(hidden_states), None
        return attend(self.seed, hidden_states, key_hidden_states, value_hidden_states), None


class MLP(nn.Module):
    """A fixed map of a number, called as an MLP of theirs."""

    def __init__(self, seed: int):
        super().__init__()
        self.f = fixed(seed)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.f(hidden_states)


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
            hidden_size=WIDTH, num_hidden_layers=LAYERS,
            layer_types=["hybrid" if k in FULL else "hybrid_sliding" for k in range(LAYERS)],
            n_layers_per_attn_res_block=LAYERS_PER_BLOCK, **sizes))
        self.model.embed_tokens, self.model.norm = nn.Identity(), nn.Identity()
        for index, layer in enumerate(self.model.layers):
            layer.self_attn, layer.mlp = Attention(2 * index), MLP(2 * index + 1)
            layer.post_attention_convolution = layer.post_mlp_convolution = Unchanged()
        randomise(self)

    def forward(self, x: Tensor) -> Tensor:
        return self.model(inputs_embeds=x, use_cache=False).last_hidden_state


class Ours(nn.Module):
    """The same sublayers and norms inside attention residuals."""

    def __init__(self, **options: object):
        super().__init__()
        count = 2 * LAYERS
        self.residuals = nn.ModuleList(
            make_residual("attnres", WIDTH, index, count, **options,
                          queries=3 if index // 2 in FULL else 1) for index in range(count))
        self.norms = nn.ModuleList(
            nn.ModuleList(nn.RMSNorm(WIDTH, eps=1e-6) for _ in range(residual.queries))
            for residual in self.residuals)

    def forward(self, x: Tensor) -> Tensor:
        def sublayer(number: int, norms: nn.ModuleList) -> Normed:
            def of_views(views: Views) -> Tensor:
                return attend(number, *(norm(one) for norm, one in zip(norms, views, strict=True)))

            return (Normed(of_views, takes_views=True) if len(norms) == 3
                    else Normed(fixed(number), norms[0]))

        state = self.residuals[0].expand(x)
        for number, (residual, norms) in enumerate(zip(self.residuals, self.norms, strict=True)):
            state = residual(state, sublayer(number, norms))
        return self.residuals[-1].reduce(state)


def translate(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Inkling-2's weights by our names."""
    ours = {f"residuals.{2 * LAYERS - 1}.exit.weight": theirs["model.final_input.query"]}
    for layer in range(LAYERS):
        before = ([f"{kind}_input_layernorm" for kind in "qkv"] if layer in FULL
                  else ["input_layernorm"])
        for number, (read, norms) in enumerate([("attention_input", before),
                                                ("mlp_input", ["post_attention_layernorm"])]):
            sublayer, path = 2 * layer + number, f"model.layers.{layer}"
            for place, norm in enumerate(norms):
                ours[f"norms.{sublayer}.{place}.weight"] = theirs[f"{path}.{norm}.weight"]
            if sublayer:  # the first one reads the embedding
                ours[f"residuals.{sublayer}.query"] = theirs[f"{path}.{read}.query"]
    return ours


ROWS = [Installed(
    label="inkling-2", name="Inkling-2", module="models.inkling2",
    ours='AttnRes(block=12, values="normed", scaled=True, eps=1e-6, queries=3)',
    theirs=Inkling, build=lambda: Ours(**INKLING), translate=translate,
    differs="one query in layers of sliding attention, three in those of full attention; here a "
            f"block has {2 * LAYERS_PER_BLOCK} sublayers in place of 12")]
