"""`graft`: find the blocks of a network and give each of them its residuals."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_option
from geolab.graft.block import Grafted, grafted_class, make_residuals, through
from geolab.graft.rules import RULES, find_rule, takes_x_alone
from geolab.graft.start import distance_from_plain, reads_other_positions
from geolab.residuals import Normed, Residual

CLOSE = 1e-5  # the distance up to which a start counts as the plain network's


def graft(model: nn.Module, residual: str | type[Residual], *, plain: bool = True,
          dtype: torch.dtype | None = None, **options) -> nn.Module:
    """Put a residual around every sublayer of a network, in place.

    It knows the blocks of nn.TransformerEncoder and nn.TransformerDecoder, of GPT-2, Llama, Qwen2
    and Qwen3 in transformers, of the ViT in timm, and nanoGPT's; `rule` tells it of others. In each
    stack of blocks the first one makes the state of x, and the last one reads it out. In between
    the network's own loop carries the state, such as (B, T, n, D) for n streams: hidden states
    that it hands out from there are states. Parameters keep their names. Those of the residuals
    are new, and have ".residuals." in theirs.

    The new weights are float32 at least, because the small updates of a coefficient are lost when
    they are rounded to half precision. The state stays in the network's dtype. A later
    `model.to(torch.bfloat16)` rounds them all the same: convert first, then graft.

    A class of transformers may graft itself at the end of its constructor. Where its
    `from_pretrained` finds no weights of the residuals, they start as in a direct graft.

    What a residual adds to the loss reaches it inside `geolab.penalties.collect_penalties`.

    Arguments:
        model: the network, before it is compiled, sharded or wrapped.
        residual: a name in `geolab.residuals.REGISTRY` or a Residual class.
        plain: True refuses a residual that doesn't start as the plain network. Then the model
            computes what it computed before, trained weights included. With False the model starts
            elsewhere: train it from scratch.
        dtype: of the new weights; None is float32, or the block's own dtype where it is wider.
        options: for the residual's constructor.
    Returns: the model.
    Raises: ValueError for a model without known blocks, or one that was grafted before; for a
        residual that doesn't start plain, or whose ends are wider than the network; for a rule that
        computes something else than its block; for a norm after a residual whose state doesn't
        consist of streams; for a residual that doesn't keep the dtype of the state.
    """
    require_option("plain", plain, (True, False))
    stacks = find_stacks(model)
    made = [_residuals(blocks, residual, plain, dtype, options) for blocks in stacks]  # or raise
    for blocks, residuals in zip(stacks, made, strict=True):
        reads = reads_other_positions(residual, residuals[0][0].width, **options)
        for block, around in zip(blocks, residuals, strict=True):
            rule = find_rule(block)
            block.residuals, block.reads_other_positions = nn.ModuleList(around), reads
            block.__class__ = grafted_class(type(block), rule)
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoder):
            module.use_nested_tensor = False  # a fast path around the blocks' own forward
        elif hasattr(module, "_initialize_weights"):  # of transformers
            _tell_transformers(module, in_float32=dtype is None)
    return model


def _tell_transformers(model: nn.Module, in_float32: bool) -> None:
    """Let a PreTrainedModel start and load the residuals inside it as they ask for.

    On the meta device nothing is started yet, and `from_pretrained` starts what it doesn't find.
    Elsewhere all is started, and a later `post_init` leaves it as it is.
    """
    parts = [part for module in model.modules() if isinstance(module, Residual)
             for part in module.modules()]
    if any(p.is_meta for part in parts for p in part.parameters(recurse=False)):
        model._initialize_weights = partial(_initialize_weights, model)
    else:
        for part in parts:
            part._is_hf_initialized = True
    if in_float32:
        kept = model._keep_in_fp32_modules_strict or ()
        model._keep_in_fp32_modules_strict = {*kept, "residuals"}


@torch.no_grad()
def _initialize_weights(model: nn.Module, module: nn.Module, *args) -> None:
    """`PreTrainedModel._initialize_weights`, which comes to the parts of a residual before it."""
    if not isinstance(module, Residual) or getattr(module, "_is_hf_initialized", False):
        type(model)._initialize_weights(model, module, *args)
        return
    tensors = [*module.parameters(), *module.buffers()]
    loaded = [(t, t.clone()) for t in tensors if getattr(t, "_is_hf_initialized", False)]
    if len(loaded) < len(tensors):
        module.reset_parameters()
    for tensor, value in loaded:
        tensor.copy_(value)
    module._is_hf_initialized = True  # so a later `post_init` leaves what was trained


def find_stacks(model: nn.Module) -> list[list[nn.Module]]:
    """The known blocks, those of one parent together, in its order."""
    if any(isinstance(module, Grafted) for module in model.modules()):
        raise ValueError("model must not be grafted yet, got one that is; graft a new one and "
                         "load its weights")
    if find_rule(model) is not None:
        return [[model]]
    found = [(parent, [child for child in parent.children() if find_rule(child) is not None])
             for parent in model.modules()]
    stacks = [blocks for _, blocks in found if blocks]
    if not stacks:
        _refuse(model)
    wrapped = [blocks for parent, blocks in found
               if len(blocks) == 1 and not isinstance(parent, nn.ModuleList)]
    if len(wrapped) > 1:
        raise ValueError(f"the blocks of a stack must have one parent, got {len(wrapped)} parents "
                         "of one block each; graft before you wrap the blocks")
    return stacks


def _refuse(model: nn.Module) -> None:
    inside = sorted({type(child).__name__ for parent in model.modules()
                     if isinstance(parent, (nn.ModuleList, nn.Sequential))
                     for child in parent.children()})
    known = ", ".join(name.rpartition(".")[2] for name in RULES)
    raise ValueError(f"model must have blocks that graft knows ({known}, or nanoGPT's), got "
                     f"{type(model).__name__} with {', '.join(inside) or 'no list of blocks'}; "
                     "geolab.graft.rule tells it of a block of your own")


def _residuals(blocks: list[nn.Module], residual: str | type[Residual], plain: bool,
               dtype: torch.dtype | None, options: dict) -> list[list[Residual]]:
    """The residuals of each block of a stack, once nothing speaks against them."""
    parts = [find_rule(block).sublayers(block) for block in blocks]
    width, post_norm = _width(parts[0]), len(parts[0][0]) == 3
    for block in blocks:
        if "forward" in vars(block):  # as accelerate does for device_map
            raise ValueError(f"the forward of {type(block).__name__} must be that of its class, "
                             "got one that something put over it; graft the model before that")
        if takes_x_alone(block):
            _require_same(block, width)
    count = sum(map(len, parts))
    distance = distance_from_plain(residual, width, min(count, 8), post_norm, **options)
    if plain and not distance <= CLOSE:
        name = residual if isinstance(residual, str) else residual.__name__
        raise ValueError(
            f"residual {name!r} must start as the plain network, with its options "
            f"{options or 'left as they are'}: its output starts {distance:.2g} away, relative to "
            "what the sublayers add. graft(..., plain=False) takes it all the same: a trained "
            "model then forgets what it computed")
    made = iter(make_residuals(residual, width, count, **options))
    found = [[next(made).to(_like(block).device, dtype or _wide(_like(block)))
              for _ in sublayers] for block, sublayers in zip(blocks, parts, strict=True)]
    _require_state(found[0][0], residual, width, _like(blocks[0]))
    return found


def _like(block: nn.Module) -> Tensor:
    """A tensor with the device and the dtype of a block's parameters."""
    return next(p for p in block.parameters() if p.is_floating_point())


def _wide(like: Tensor) -> torch.dtype:
    """The dtype of a tensor, or float32 where it is narrower."""
    return like.dtype if like.dtype.itemsize >= 4 else torch.float32


@torch.no_grad()
def _require_state(made: Residual, residual: str | type[Residual], width: int,
                   like: Tensor) -> None:
    """Raise ValueError unless a residual of another dtype than the network's takes its state."""
    own = {p.dtype for p in made.parameters()} - {like.dtype}
    if not own or like.dtype.itemsize < 2 or like.is_meta:
        return
    with torch.random.fork_rng([like.device] if like.is_cuda else []):
        try:
            state = made.expand(torch.randn(1, 2, width).to(like))
            norm = partial(F.rms_norm, normalized_shape=(width,))
            got = made(state, Normed(torch.tanh, norm)).dtype
        except RuntimeError as error:
            got = error
    if got != like.dtype:
        name = residual if isinstance(residual, str) else residual.__name__
        raise ValueError(
            f"residual {name!r} must keep a state of {like.dtype} beside its own weights of "
            f"{own.pop()}, got {got}; let it cast its weights where they meet the state, as "
            f"geolab.residuals.Linear does, or ask for weights of that dtype: graft(..., "
            f"dtype={like.dtype})")


def _width(sublayers: list[tuple]) -> int:
    """D, as the first norm among the sublayers says it."""
    for norm, _, *after in sublayers:
        for module in (norm, *after):
            shape = getattr(module, "normalized_shape", None)
            weight = getattr(module, "weight", None)
            if shape or weight is not None:
                return (shape or weight.shape)[-1]
    raise ValueError("a rule must give a norm with a weight, whose length is the width, "
                     f"got {sublayers}")


@torch.no_grad()
def _require_same(block: nn.Module, width: int) -> None:
    """Raise ValueError unless a rule computes what its block's forward does, on a random x."""
    like = _like(block)
    if like.is_meta:
        return
    sublayers = find_rule(block).sublayers(block)
    plain = make_residuals("additive", width, len(sublayers))
    with torch.random.fork_rng([like.device] if like.is_cuda else []):
        x = torch.randn(1, 2, width).to(like)
        torch.manual_seed(0)  # the same dropout in both
        wanted = block(x)
        torch.manual_seed(0)
        got = through(plain, x, sublayers)
    if not torch.allclose(got, wanted, rtol=1e-2, atol=1e-2 * wanted.abs().max()):
        raise ValueError(f"the rule of {type(block).__name__} must compute what its forward does, "
                         f"got a difference of {(got - wanted).abs().max():.2g} on a random input")
