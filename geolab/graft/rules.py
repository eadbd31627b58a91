"""What a block is made of: the norm and the F of each sublayer x ← x + F(norm x), in order.

A rule is a function of the block and of what else its forward gets, so masks, positions and caches
reach F as they do in the library's own forward. Dropout, layer scale and stochastic depth belong
to F.

Legend: B batch, T positions, D width.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

from torch import Tensor, nn

Sublayers = Callable[..., list[tuple]]


def positions_second(block: nn.Module) -> bool:
    return True


@dataclass(frozen=True)
class Rule:
    """How the forward of a block is made of sublayers.

    Arguments:
        sublayers: `sublayers(block, ...)` gives a tuple for each sublayer, where ... is what
            forward gets besides x: (norm, F), or (None, F) where there is no norm, or
            (None, F, norm) for a post-norm, x ← norm(x + F(x)).
        batch_first: `batch_first(block)` says whether x is (B, T, D) or (T, B, D).
        package: the library and its lowest version that the rule fits.
    """

    sublayers: Sublayers
    batch_first: Callable[[nn.Module], bool] = positions_second
    package: tuple[str, str] | None = None


OWN: dict[type[nn.Module], Rule] = {}  # what `rule` was told


def rule(block: type[nn.Module], sublayers: Sublayers) -> None:
    """Tell `graft` what a block of your own is made of.

        rule(Block, lambda block: [(block.ln_1, block.attn), (block.ln_2, block.mlp)])

    Where forward gets more than x, the function gets it too, and hands it on:

        rule(Block, lambda block, mask=None: [(block.norm1, lambda x: block.attn(x, mask)),
                                              (block.norm2, block.mlp)])

    A parallel block, x ← x + attn(norm x) + mlp(norm x), has one sublayer:

        rule(Block, lambda block: [(block.norm, lambda x: block.attn(x) + block.mlp(x))])

    Where forward takes x alone, `graft` compares the two, and refuses a rule that computes
    something else.

    Arguments:
        block: the class that defines the forward, (B, T, D) -> (B, T, D).
        sublayers: as in `Rule`.
    """
    OWN[block] = Rule(sublayers)


def find_rule(block: nn.Module) -> Rule | None:
    """The rule for a block's forward, or None. It is that of the class which defines forward."""
    owner = next(cls for cls in type(block).__mro__ if "forward" in vars(cls))
    known = OWN.get(owner) or RULES.get(f"{owner.__module__}.{owner.__qualname__}")
    if known is None and [name for name, _ in block.named_children()] == CHILDREN:
        known = NANOGPT if takes_x_alone(block) else None
    if known is not None and known.package is not None:
        _require_version(*known.package)
    return known


def takes_x_alone(block: nn.Module) -> bool:
    return len(inspect.signature(block.forward).parameters) == 1


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
    _require_whole(block, past_key_values)

    def attend(x: Tensor) -> Tensor:
        return block.attn(x, past_key_values=past_key_values, attention_mask=attention_mask,
                          **more)[0]

    return [(block.ln_1, attend), (block.ln_2, block.mlp)]


def llama_layer(block, **more):
    _require_whole(block, more.get("past_key_values"))
    return [(block.input_layernorm, lambda x: block.self_attn(x, **more)[0]),
            (block.post_attention_layernorm, block.mlp)]


def timm_block(block, **masks):
    return [(block.norm1, lambda x: block.drop_path1(block.ls1(block.attn(x, **masks)))),
            (block.norm2, lambda x: block.drop_path2(block.ls2(block.mlp(x))))]


def nanogpt_block(block):
    return [(block.ln_1, block.attn), (block.ln_2, block.mlp)]


def _require_whole(block: nn.Module, past) -> None:
    """Refuse positions that a cache doesn't give, where a residual reads them."""
    if past is not None and block.reads_other_positions and block.residuals[0].first \
            and past.get_seq_length() > 0:
        raise ValueError(f"use_cache must be False: {type(block.residuals[0]).__name__} reads "
                         "other positions than the present one, and the cache of keys and values "
                         "doesn't keep what it reads")


TRANSFORMERS, TIMM = ("transformers", "5.5"), ("timm", "1.0.16")
RULES: dict[str, Rule] = {  # by the name of the class, so that no library is imported
    "torch.nn.modules.transformer.TransformerEncoderLayer": Rule(encoder_layer, _batch_first),
    "torch.nn.modules.transformer.TransformerDecoderLayer": Rule(decoder_layer, _batch_first),
    "transformers.models.gpt2.modeling_gpt2.GPT2Block":
        Rule(gpt2_block, package=TRANSFORMERS),
    "transformers.models.llama.modeling_llama.LlamaDecoderLayer":
        Rule(llama_layer, package=TRANSFORMERS),
    "transformers.models.qwen2.modeling_qwen2.Qwen2DecoderLayer":
        Rule(llama_layer, package=TRANSFORMERS),
    "transformers.models.qwen3.modeling_qwen3.Qwen3DecoderLayer":
        Rule(llama_layer, package=TRANSFORMERS),
    "timm.models.vision_transformer.Block": Rule(timm_block, package=TIMM),
}
CHILDREN = ["ln_1", "attn", "ln_2", "mlp"]  # nanoGPT is a file, not a package
NANOGPT = Rule(nanogpt_block)
