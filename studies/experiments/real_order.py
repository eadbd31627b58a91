"""The text that SmolLM2-135M writes when two neighbouring blocks change places.

The sentence is that of the page "What a residual stream looks like". Every word is the likeliest.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import nn

from studies.engine.measurement import Measurement
from studies.experiments.real_network import network
from studies.experiments.real_sentence import SENTENCE, tokens_of

TOKENS = 16   # that are written


@torch.no_grad()
def written(order: Sequence[int]) -> dict:
    """Return what follows the sentence when the blocks run in this order."""
    model, tokenizer, _ = network("trained")
    blocks, tokens = model.model.layers, tokens_of(SENTENCE)
    model.model.layers = nn.ModuleList(blocks[k] for k in order)
    try:
        ids = model.generate(tokens, attention_mask=torch.ones_like(tokens), do_sample=False,
                             max_new_tokens=TOKENS, use_cache=False)
    finally:
        model.model.layers = blocks
    return {"text": tokenizer.decode(ids[0, tokens.shape[1]:])}


def parts(_: Mapping[str, dict]) -> dict[str, Callable[[], dict]]:
    usual = list(range(len(network("trained")[0].model.layers)))
    return {"usual": partial(written, usual),
            **{f"swapped {k}": partial(written, [*usual[:k], k + 1, k, *usual[k + 2:]])
               for k in usual[:-1]}}


def arrange(found: dict[str, dict]) -> dict:
    """Return the text of the usual order, and those of the swaps of blocks k and k + 1 in order."""
    return {"network": network("trained")[2], "sentence": SENTENCE, "usual": found["usual"]["text"],
            "swapped": [one["text"] for key, one in found.items() if key != "usual"]}


STUDY = Measurement("real_order", "What does a real network write when two neighbouring blocks "
                    "change places?", parts, arrange, __file__)
