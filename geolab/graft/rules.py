"""The rules say which sublayers x ← x + F(norm x) a block consists of: the norm and the F of each.

A rule is a function of the block and of the further arguments of its forward. So masks, positions
and caches reach F as they do in the library's own forward. Dropout, layer scale and stochastic
depth belong to F.

Legend: B batch, T positions, D width.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

from torch import Tensor, nn

from geolab.checks import require_count, require_option

Sublayers = Callable[..., list[tuple]]


def positions_second(block: nn.Module) -> bool:
    return True


def positions_first(block: nn.Module) -> bool:
    return False


@dataclass(frozen=True)
class Rule:
    """A rule for one class of blocks: it says how forward is made of sublayers.

    Arguments:
        sublayers: `sublayers(block, ...)` gives a tuple for each sublayer, where ... are the
            arguments of forward besides x: (norm, F), or (None, F) where there is no norm, or
            (None, F, norm) for a post-norm, x ← norm(x + F(x)). Where F returns a tuple, its first
            entry is added to x, and the block returns the others behind x.
        batch_first: `batch_first(block)` says whether x is (B, T, D) or (T, B, D).
        package: the library and its lowest version that the rule fits.
        width: `width(block)` is D. By default the first norm with a weight says it.
    """

    sublayers: Sublayers
    batch_first: Callable[[nn.Module], bool] = positions_second
    package: tuple[str, str] | None = None
    width: Callable[[nn.Module], int] | None = None


OWN: dict[type[nn.Module], Rule] = {}  # the rules that users gave by `rule`


def rule(block: type[nn.Module], sublayers: Sublayers, *, width: int | None = None,
         batch_first: bool = True) -> None:
    """Tell `graft` which sublayers a block of your own has.

        rule(Block, lambda block: [(block.ln_1, block.attn), (block.ln_2, block.mlp)])

    If forward takes more than x, the function gets those arguments too, and passes them on:

        rule(Block, lambda block, mask=None: [(block.norm1, lambda x: block.attn(x, mask)),
                                              (block.norm2, block.mlp)])

    A parallel block, x ← x + attn(norm x) + mlp(norm x), has one sublayer:

        rule(Block, lambda block: [(block.norm, lambda x: block.attn(x) + block.mlp(x))])

    If forward requires x alone, `graft` compares rule and forward, and refuses a rule that computes
    something else. Otherwise give `graft` an example of the model's inputs.

    Arguments:
        block: the class of the block, or a parent of it, (B, T, D) -> (B, T, D). A rule for a class
            counts for its subclasses too, until one of them defines another forward. x is the first
            argument of forward.
        sublayers: as in `Rule`.
        width: D, where no norm has a weight of that length.
        batch_first: False for a block (T, B, D) -> (T, B, D).
    """
    if not (isinstance(block, type) and issubclass(block, nn.Module)):
        raise ValueError(f"block must be a class of nn.Module, got {block!r}")
    if not callable(sublayers):
        raise ValueError(f"sublayers must be a function of the block, got {sublayers!r}")
    if width is not None:
        require_count("width", width)
    require_option("batch_first", batch_first, (True, False))
    OWN[block] = Rule(sublayers, positions_second if batch_first else positions_first,
                      width=None if width is None else lambda _: width)


def noted(f: Callable, others: list[tuple]) -> Callable:
    """Wrap the F of a rule, so that it returns its update alone and appends a tuple of its other
    results to `others`.
    """
    def run(x: Tensor) -> Tensor:
        found = f(x)
        if not isinstance(found, tuple):
            return found
        others.append(found[1:])
        return found[0]

    return run


def find_rule(block: nn.Module) -> Rule | None:
    """Find the rule for a block's forward: that of its class, or of the nearest parent with one, or
    None.

    The search ends at the class that defines forward: a rule of its parents is for another forward.
    """
    known = known_rule(type(block))
    if known is None and {name for name, _ in block.named_children()} == CHILDREN:
        known = NANOGPT if requires_x_alone(block) else None
    if known is not None and known.package is not None:
        _require_version(*known.package)
    return known


def known_rule(block: type[nn.Module]) -> Rule | None:
    """The rule for a class of blocks, told or built in, or None."""
    for cls in block.__mro__:
        known = OWN.get(cls) or RULES.get(f"{cls.__module__}.{cls.__qualname__}")
        if known is not None or "forward" in vars(cls):
            return known
    return None


def is_own(known: Rule) -> bool:
    """Return whether a user gave this rule by `rule`."""
    return any(known is told for told in OWN.values())


def requires_x_alone(block: nn.Module) -> bool:
    """Return whether forward can be called with x alone."""
    first, *others = inspect.signature(block.forward).parameters.values()
    return all(p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
               for p in others) and first.kind in (first.POSITIONAL_OR_KEYWORD,
                                                   first.POSITIONAL_ONLY)


def _require_version(package: str, lowest: str) -> None:
    got = metadata.version(package)
    numbers, wanted = (list(map(int, re.findall(r"\d+", text)[:3])) for text in (got, lowest))
    if numbers < wanted:
        raise ValueError(f"{package} must be at least {lowest}, whose blocks graft knows, "
                         f"got {got}")


# ---------------------------------------------------------------- torch

def encoder_layer(block, src_mask=None, src_key_padding_mask=None, is_causal=False):
    def attend(x: Tensor) -> Tensor:
        return block._sa_block(x, src_mask, src_key_padding_mask, is_causal)

    return _placed(block, (block.norm1, attend), (block.norm2, block._ff_block))


def decoder_layer(block, memory=None, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                  memory_key_padding_mask=None, tgt_is_causal=False, memory_is_causal=False):
    def attend(x: Tensor) -> Tensor:
        return block._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

    def listen(x: Tensor) -> Tensor:
        return block._mha_block(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal)

    return _placed(block, (block.norm1, attend), (block.norm2, listen),
                   (block.norm3, block._ff_block))


def _placed(block: nn.Module, *sublayers: tuple) -> list[tuple]:
    return list(sublayers) if block.norm_first else [(None, f, norm) for norm, f in sublayers]


def _batch_first(block: nn.Module) -> bool:
    return block.self_attn.batch_first


# ---------------------------------------------------------------- transformers, timm, nanoGPT

def gpt2_block(block, past_key_values=None, attention_mask=None, encoder_hidden_states=None,
               encoder_attention_mask=None, **more):
    if hasattr(block, "crossattention"):
        raise ValueError("add_cross_attention must be False in a GPT-2 that is grafted, got True")

    def attend(x: Tensor) -> Tensor:
        return block.attn(x, past_key_values=past_key_values, attention_mask=attention_mask,
                          **more)[0]

    return [(block.ln_1, attend), (block.ln_2, block.mlp)]


def llama_layer(block, **more):
    return [(block.input_layernorm, lambda x: block.self_attn(x, **more)[0]),
            (block.post_attention_layernorm, block.mlp)]


def gpt_oss_layer(block, **more):
    """The MLP also returns the scores of its experts, which nobody reads."""
    return [(block.input_layernorm, lambda x: block.self_attn(x, **more)[0]),
            (block.post_attention_layernorm, lambda x: block.mlp(x)[0])]


def granite_layer(block, **more):
    """What is added is scaled by one number, the same in all blocks."""
    return [(block.input_layernorm,
             lambda x: block.residual_multiplier * block.self_attn(x, **more)[0]),
            (block.post_attention_layernorm,
             lambda x: block.residual_multiplier * block.mlp(x))]


def phi3_layer(block, **more):
    return [(block.input_layernorm,
             lambda x: block.resid_attn_dropout(block.self_attn(x, **more)[0])),
            (block.post_attention_layernorm, lambda x: block.resid_mlp_dropout(block.mlp(x)))]


def gemma2_layer(block, **more):
    """Each F ends with a norm of its own."""
    return [(block.input_layernorm,
             lambda x: block.post_attention_layernorm(block.self_attn(x, **more)[0])),
            (block.pre_feedforward_layernorm,
             lambda x: block.post_feedforward_layernorm(block.mlp(x)))]


def olmo2_layer(block, **more):
    """F reads x as it is, and ends with a norm."""
    return [(None, lambda x: block.post_attention_layernorm(block.self_attn(x, **more)[0])),
            (None, lambda x: block.post_feedforward_layernorm(block.mlp(x)))]


def phi_layer(block, **more):
    """A parallel block: one sublayer, attention and MLP side by side."""
    def both(x: Tensor) -> Tensor:
        return (block.resid_dropout(block.self_attn(x, **more)[0])
                + block.resid_dropout(block.mlp(x)))

    return [(block.input_layernorm, both)]


def cohere_layer(block, **more):
    """A parallel block without dropout."""
    return [(block.input_layernorm, lambda x: block.self_attn(x, **more)[0] + block.mlp(x))]


def neox_layer(block, **more):
    """One sublayer where attention and MLP stand side by side, each with its norm; else two."""
    def attend(x: Tensor) -> Tensor:
        return block.post_attention_dropout(
            block.attention(block.input_layernorm(x), **more)[0])

    def think(x: Tensor) -> Tensor:
        return block.post_mlp_dropout(block.mlp(block.post_attention_layernorm(x)))

    if block.use_parallel_residual:
        return [(None, lambda x: think(x) + attend(x))]
    return [(None, attend), (None, think)]


def timm_block(block, **masks):
    return [(block.norm1, lambda x: block.drop_path1(block.ls1(block.attn(x, **masks)))),
            (block.norm2, lambda x: block.drop_path2(block.ls2(block.mlp(x))))]


def nanogpt_block(block):
    return [(block.ln_1, block.attn), (block.ln_2, block.mlp)]


def _norm_width(name: str) -> Callable[[nn.Module], int]:
    return lambda block: len(getattr(block, name).weight)


TRANSFORMERS, TIMM = ("transformers", "5.5"), ("timm", "1.0.16")


def _decoders(sublayers: Sublayers, width: Callable[[nn.Module], int] | None = None,
              **prefixes: str) -> dict[str, Rule]:
    """Rules for the layers of models: the module of each, and the prefix of its classes."""
    return {f"transformers.models.{model}.modeling_{model}.{prefix}DecoderLayer":
            Rule(sublayers, package=TRANSFORMERS, width=width)
            for model, prefix in prefixes.items()}


RULES: dict[str, Rule] = {  # by the name of the class, so that no library is imported
    "torch.nn.modules.transformer.TransformerEncoderLayer": Rule(encoder_layer, _batch_first),
    "torch.nn.modules.transformer.TransformerDecoderLayer": Rule(decoder_layer, _batch_first),
    "transformers.models.gpt2.modeling_gpt2.GPT2Block":
        Rule(gpt2_block, package=TRANSFORMERS),
    **_decoders(llama_layer, arcee="Arcee", deepseek_v2="DeepseekV2", deepseek_v3="DeepseekV3",
                gemma="Gemma", glm="Glm", glm4_moe="Glm4Moe", helium="Helium",
                hunyuan_v1_dense="HunYuanDenseV1", llama="Llama", minimax_m2="MiniMaxM2",
                ministral="Ministral", ministral3="Ministral3", mistral="Mistral",
                mixtral="Mixtral", nemotron="Nemotron", olmo="Olmo", olmoe="Olmoe",
                phimoe="Phimoe", qwen2="Qwen2", qwen2_moe="Qwen2Moe", qwen3="Qwen3",
                qwen3_moe="Qwen3Moe", seed_oss="SeedOss", smollm3="SmolLM3",
                starcoder2="Starcoder2"),
    **_decoders(gpt_oss_layer, gpt_oss="GptOss"),
    **_decoders(granite_layer, granite="Granite"),
    **_decoders(gemma2_layer, gemma2="Gemma2", gemma3="Gemma3"),
    **_decoders(phi3_layer, phi3="Phi3"),
    **_decoders(phi_layer, phi="Phi"),
    **_decoders(cohere_layer, cohere="Cohere", cohere2="Cohere2"),
    **_decoders(olmo2_layer, _norm_width("post_attention_layernorm"), exaone4="Exaone4",
                olmo2="Olmo2", olmo3="Olmo3"),
    "transformers.models.gpt_neox.modeling_gpt_neox.GPTNeoXLayer":
        Rule(neox_layer, package=TRANSFORMERS, width=_norm_width("input_layernorm")),
    "timm.models.vision_transformer.Block": Rule(timm_block, package=TIMM),
}
CHILDREN = {"ln_1", "attn", "ln_2", "mlp"}  # nanoGPT is a file, not a package
NANOGPT = Rule(nanogpt_block)
# blocks of another kind, and why none of the rules fits them
POST_NORM = "its blocks are post-norm, x ← norm(x + F(x)), and mix sum and norm in one module"
SHARED_BIAS = ("its blocks return tuples and share the position bias of the first one, and its "
               "decoder listens to the encoder")
MIXER = "its blocks are state-space mixers, whose cache isn't one of keys and values"
REFUSED = {"BertLayer": POST_NORM, "RobertaLayer": POST_NORM, "ElectraLayer": POST_NORM,
           "TransformerBlock": POST_NORM, "BartEncoderLayer": POST_NORM,
           "BartDecoderLayer": POST_NORM, "T5Block": SHARED_BIAS, "MT5Block": SHARED_BIAS,
           "UMT5Block": SHARED_BIAS, "MambaBlock": MIXER, "Mamba2Block": MIXER}
