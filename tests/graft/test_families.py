"""Every decoder of transformers that has a rule: the same function, with a cache too; and the way
back.
"""

import pytest
import torch
from shared import trained
from torch import nn
from torch.testing import assert_close

from geolab.graft import graft, residual_stream, ungraft
from geolab.graft.rules import RULES

SIZES = dict(vocab_size=50, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
             intermediate_size=48, bos_token_id=1, eos_token_id=None, pad_token_id=0)
GROUPED = dict(num_key_value_heads=2)
EXPERTS = dict(num_experts_per_tok=2, moe_intermediate_size=16)
FAMILIES = {  # a family of `RULES`: the prefix of its classes in transformers, and its options
    "llama": ("Llama", GROUPED), "qwen2": ("Qwen2", GROUPED),
    "qwen3": ("Qwen3", GROUPED | dict(head_dim=8)),
    "qwen3_moe": ("Qwen3Moe", GROUPED | EXPERTS | dict(head_dim=8, num_experts=4)),
    "mistral": ("Mistral", GROUPED), "mixtral": ("Mixtral", GROUPED | dict(num_local_experts=4)),
    "gemma": ("Gemma", GROUPED | dict(head_dim=8)),
    "gemma2": ("Gemma2", GROUPED | dict(head_dim=8)),
    "gemma3": ("Gemma3", GROUPED | dict(head_dim=8)), "smollm3": ("SmolLM3", GROUPED),
    "phi": ("Phi", {}), "phi3": ("Phi3", GROUPED), "olmo2": ("Olmo2", GROUPED),
    "gpt_neox": ("GPTNeoX", {}), "gpt_neox, serial": ("GPTNeoX", dict(use_parallel_residual=False)),
    "deepseek_v3": ("DeepseekV3", EXPERTS | dict(
        num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=4,
        qk_nope_head_dim=4, v_head_dim=8, n_routed_experts=4, n_group=1, topk_group=1,
        first_k_dense_replace=1)),
    "gpt2": ("GPT2", dict(n_embd=32, n_layer=3, n_head=4, n_positions=32)),
}


@pytest.fixture
def family(transformers):
    def make(name):
        prefix, options = FAMILIES[name]
        torch.manual_seed(0)
        text = "Text" if name == "gemma3" else ""
        sizes = SIZES if name != "gpt2" else {k: SIZES[k] for k in SIZES if "token" in k
                                              or k == "vocab_size"}
        config = getattr(transformers, f"{prefix}{text}Config")(**sizes, **options)
        head = "LMHeadModel" if name == "gpt2" else "ForCausalLM"
        model = getattr(transformers, prefix + head)(config).eval()
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.1 * torch.randn_like(p))
        return model, torch.randint(1, 50, (2, 7))
    return make


def test_every_rule_for_a_decoder_of_transformers_has_a_family():
    ruled = {name.split(".")[2] for name in RULES if name.startswith("transformers")}
    assert ruled == {name.partition(",")[0] for name in FAMILIES}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_grafted_decoder_is_the_plain_one_with_a_cache_too_and_comes_back(family, name):
    model, tokens = family(name)
    wanted, keys = model(tokens).logits, list(model.state_dict())
    graft(model, "mhc", example=tokens)
    assert_close(model(tokens).logits, wanted, rtol=1e-5, atol=2e-5)
    trained(model)
    whole = model(tokens, use_cache=False).logits
    first = model(tokens[:, :4], use_cache=True)
    rest = model(tokens[:, 4:], past_key_values=first.past_key_values, use_cache=True)
    assert_close(torch.cat([first.logits, rest.logits], 1), whole, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(whole, wanted, atol=1e-4)
    whole.square().mean().backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
    ungraft(model)
    assert list(model.state_dict()) == keys
    assert_close(model(tokens).logits, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("name, reason", [("Bert", "post-norm"), ("T5", "position bias")])
def test_a_model_of_another_kind_is_refused_by_name(transformers, name, reason):
    sizes = dict(d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, vocab_size=50) \
        if name == "T5" else SIZES
    model = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**sizes))
    with pytest.raises(ValueError, match=f"^graft takes no {name}Model: .*{reason}"):
        graft(model, "mhc")


def test_a_residual_that_reads_positions_stops_at_a_cache_with_every_rule(family):
    for name in FAMILIES:
        model, tokens = family(name)
        graft(model, "delta-matrix", plain=False)
        first = model(tokens[:, :4], use_cache=True)
        with pytest.raises(ValueError, match=r"^use_cache must be False: DeltaMatrix reads other "
                           r"positions .* holds 4 positions"):
            model(tokens[:, 4:], past_key_values=first.past_key_values, use_cache=True)


def test_a_block_of_another_class_with_a_known_name_is_told_apart():
    class Block(nn.Module):
        def forward(self, x):
            return x

    with pytest.raises(ValueError, match=r"\(.*timm\.models\.vision_transformer\.Block.*\), got "
                       r"Sequential with \S+<locals>\.Block;"):
        graft(nn.Sequential(Block(), Block()), "mhc")


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_a_decoder_taken_apart_is_the_whole_one(family, name):
    model, tokens = family(name)
    stream = residual_stream(model, tokens)
    assert len(stream.sublayers) in (3, 6)
    assert_close(sum(stream.writes()), stream.states()[-1], rtol=1e-4, atol=1e-4)
    assert_close(stream.head(stream.states()[-1]), model(tokens).logits, rtol=1e-4, atol=1e-4)
