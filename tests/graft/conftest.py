"""Small networks of real libraries, at random weights: `net("gpt2")`."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn

WIDTH, VOCABULARY, LENGTH = 32, 50, 7


@pytest.fixture
def net(request):
    """`net(name, ...)`: a `model`, its `inputs`, and `run(model)`, which gives its output."""
    def make(name, layers=3, dropout=0.0, **options):
        torch.manual_seed(0)
        if name in LANGUAGE:
            library = request.getfixturevalue("transformers")
            return language_model(library, name, layers, dropout, options)
        if name == "vit":
            return vit(request.getfixturevalue("timm"), layers, dropout, options)
        return MAKERS[name](layers, dropout, **options)
    return make


GROUPED = dict(num_key_value_heads=2)
EXPERTS = dict(num_experts_per_tok=2, moe_intermediate_size=16)
ROUTED = dict(n_routed_experts=4, n_group=1, topk_group=1)
LANGUAGE = {  # the prefix of a family's classes in transformers, and its options
    **{model: (prefix, GROUPED) for model, prefix in {
        "arcee": "Arcee", "cohere": "Cohere", "cohere2": "Cohere2",
        "exaone4": "Exaone4", "llama": "Llama",
        "mistral": "Mistral", "nemotron": "Nemotron", "olmo": "Olmo", "olmo2": "Olmo2",
        "olmo3": "Olmo3", "phi3": "Phi3", "qwen2": "Qwen2", "smollm3": "SmolLM3",
        "starcoder2": "Starcoder2"}.items()},
    **{model: (prefix, GROUPED | dict(head_dim=8)) for model, prefix in {
        "gemma": "Gemma", "gemma2": "Gemma2", "gemma3": "Gemma3", "glm": "Glm",
        "helium": "Helium", "hunyuan_v1_dense": "HunYuanDenseV1", "ministral": "Ministral",
        "ministral3": "Ministral3", "qwen3": "Qwen3", "seed_oss": "SeedOss"}.items()},
    "granite": ("Granite", GROUPED | dict(residual_multiplier=0.5)),
    **{model: (prefix, GROUPED | EXPERTS | own) for model, (prefix, own) in {
        "glm4_moe": ("Glm4Moe", ROUTED | dict(head_dim=8, first_k_dense_replace=1)),
        "gpt_oss": ("GptOss", dict(head_dim=8, num_local_experts=4)),
        "minimax_m2": ("MiniMaxM2", dict(head_dim=8, num_local_experts=4)),
        "mixtral": ("Mixtral", dict(num_local_experts=4)),
        "olmoe": ("Olmoe", dict(num_experts=4)),
        "phimoe": ("Phimoe", dict(num_local_experts=4)),
        "qwen2_moe": ("Qwen2Moe", dict(num_experts=4, shared_expert_intermediate_size=16)),
        "qwen3_moe": ("Qwen3Moe", dict(head_dim=8, num_experts=4))}.items()},
    **{model: (prefix, EXPERTS | ROUTED | dict(
        num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=4,
        qk_nope_head_dim=4, v_head_dim=8, first_k_dense_replace=1)) for model, prefix in {
            "deepseek_v2": "DeepseekV2", "deepseek_v3": "DeepseekV3"}.items()},
    "phi": ("Phi", {}),
    "gpt_neox": ("GPTNeoX", {}), "gpt_neox, serial": ("GPTNeoX", dict(use_parallel_residual=False)),
    "gpt2": ("GPT2", {})}


def language_model(library, name, layers, dropout, options):
    prefix, own = LANGUAGE[name]
    if name == "gpt2":
        sizes = dict(n_embd=WIDTH, n_layer=layers, n_head=4, n_positions=32, resid_pdrop=dropout,
                     embd_pdrop=dropout, attn_pdrop=dropout)
    else:
        sizes = dict(hidden_size=WIDTH, num_hidden_layers=layers, num_attention_heads=4,
                     intermediate_size=48, attention_dropout=dropout)
    config = getattr(library, prefix + ("TextConfig" if name == "gemma3" else "Config"))(
        vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=None, pad_token_id=0,
        **sizes, **own | options)
    head = "LMHeadModel" if name == "gpt2" else "ForCausalLM"
    model = shaken(getattr(library, prefix + head)(config))
    tokens = torch.randint(1, VOCABULARY, (2, LENGTH))
    return SimpleNamespace(model=model, inputs=tokens, run=lambda m: m(tokens).logits)


def vit(timm, layers, dropout, options):
    from timm.models.vision_transformer import VisionTransformer
    model = VisionTransformer(img_size=16, patch_size=8, num_classes=10, embed_dim=WIDTH,
                              depth=layers, num_heads=4, proj_drop_rate=dropout, init_values=0.3,
                              drop_path_rate=dropout, **options)
    shaken(model)
    x = torch.randn(2, 3, 16, 16)
    return SimpleNamespace(model=model, inputs=x, run=lambda m: m(x))


def torch_stack(kind, layers, dropout, batch_first=True, norm_first=True):
    """nn.TransformerEncoder, or nn.TransformerDecoder with a memory of 4 positions."""
    layer = getattr(nn, f"{kind}Layer")(WIDTH, 4, 48, dropout, batch_first=batch_first,
                                        norm_first=norm_first)
    encodes = kind == "TransformerEncoder"
    more = dict(enable_nested_tensor=batch_first and not norm_first) if encodes else {}
    norm = nn.LayerNorm(WIDTH) if encodes else None
    model = shaken(getattr(nn, kind)(layer, layers, norm=norm, **more))
    read = [torch.randn(2, length, WIDTH) for length in ((LENGTH,) if encodes else (LENGTH, 4))]
    read = read if batch_first else [x.transpose(0, 1) for x in read]
    return SimpleNamespace(model=model, inputs=read[0], run=lambda m, **more: m(*read, **more))


class Attention(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.mix = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]).to(x)
        return self.dropout(self.mix(x, x, x, attn_mask=mask, need_weights=False)[0])


class Block(nn.Module):
    """As nanoGPT has it: four children of these names, and a forward of x alone."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(WIDTH), Attention(dropout)
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 48), nn.GELU(), nn.Linear(48, WIDTH))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


def nanogpt(layers, dropout):
    model = shaken(nn.Sequential(*(Block(dropout) for _ in range(layers))))
    x = torch.randn(2, LENGTH, WIDTH)
    return SimpleNamespace(model=model, inputs=x, run=lambda m: m(x))


MAKERS = {"encoder": partial(torch_stack, "TransformerEncoder"),
          "decoder": partial(torch_stack, "TransformerDecoder"), "nanogpt": nanogpt}


@torch.no_grad()
def shaken(model):
    """Weights of ordinary size, as trained ones are: a start at 0.02 would hide a lost F."""
    for p in model.parameters():
        p.add_(0.1 * torch.randn_like(p))
    return model
