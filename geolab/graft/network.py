"""`graft`: give each block of a network its residuals, and take them out again."""

from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_option
from geolab.graft.block import (
    GIVEN,
    Grafted,
    grafted_class,
    make_residuals,
    unwatch_ends,
    watch_ends,
)
from geolab.graft.rules import Rule
from geolab.graft.stacks import find_stacks, require_bare, tell_of_cache, tell_what_stays
from geolab.graft.start import distance, looks_around, require_streams
from geolab.graft.trial import (
    like,
    require_batch_first,
    require_same_block,
    require_same_model,
    sublayers_of,
    untouched,
)
from geolab.residuals import Normed, Residual, decaying

CLOSE = 1e-5  # a start within this distance counts as the plain network's
# methods of timm that run blocks outside of forward, and would take a state for x
BESIDE_FORWARD = ("forward_intermediates", "get_intermediate_layers", "prune_intermediate_layers")


@torch.inference_mode(False)  # the new weights are to be trained
def graft(model: nn.Module, residual: str | type[Residual], *, plain: bool = True,
          dtype: torch.dtype | None = None, example: object = None,
          only: Collection[str] = (), **options) -> nn.Module:
    """Put a residual around every sublayer of a network, in place.

    It knows the blocks of nn.TransformerEncoder and nn.TransformerDecoder, those of transformers'
    decoders that `geolab.graft.rules` lists, timm's ViT, and nanoGPT's; `rule` tells it of others.
    A warning names the lists of blocks that it leaves as they are. In each stack of blocks the
    first one makes the state from x, and the last one reads x out of it. In between, the network's
    own loop carries the state, such as (B, T, n, D) for n streams, so the hidden states that it
    returns are such states. Parameters keep their names. The new ones of the residuals have
    ".residuals." in their names.

    The new weights are float32 at least, because the small updates of a coefficient are lost when
    they are rounded to half precision. The state stays in the network's dtype. A later
    `model.to(torch.bfloat16)` rounds them all the same: convert first, then graft.

    A class of transformers may graft itself at the end of its constructor. Where its
    `from_pretrained` finds no weights of the residuals, they start as in a direct graft.

    A residual's penalty reaches the loss inside `geolab.penalties.collect_penalties` only.

    Arguments:
        model: the network, before it is compiled, sharded or wrapped.
        residual: a name in `geolab.residuals.REGISTRY` or a Residual class.
        plain: True refuses a residual that doesn't start as the plain network. So the model, with
            its trained weights, computes what it computed before. False accepts any residual; a
            model that starts elsewhere must be trained from scratch.
        dtype: of the new weights; None is float32, or the block's own dtype where it is wider.
        example: inputs of the model: a tensor, a tuple of arguments, or a dict of named ones. With
            them the model is compared before and after the graft: with this residual, or with the
            additive one if this residual doesn't start plain. Without them each block whose forward
            requires x alone is compared with its rule.
        only: the names of the lists of blocks that are grafted, such as ["encoder.layers"]; by
            default all of them.
        options: for the residual's constructor.
    Returns: the model.
    Raises: ValueError for a model without known blocks, one that was grafted before, or one that is
        wrapped; for a residual that doesn't start plain, whose ends are wider than the network, or
        that doesn't keep the dtype of the state; for a rule that computes something else than its
        block; for a norm after a residual whose state doesn't consist of streams. The model then
        stays as it was.
    """
    require_option("plain", plain, (True, False))
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise ValueError(f"dtype must be None or a floating dtype such as torch.float32, got "
                         f"{dtype!r}")
    require_bare(model)
    stacks = list(find_stacks(model, only).values())
    plans = [_plan(blocks, residual, plain, dtype, example, options)  # or raise, first
             for blocks in stacks]
    if example is not None:
        same = plans if plain else [_plan(blocks, "additive", True, dtype, example, {})
                                    for blocks in stacks]
        require_same_model(
            model, example,
            lambda: _put(model, [plan._replace(reads_other_positions=False) for plan in same]),
            lambda: ungraft(model))
    _put(model, plans)
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoder):
            # a fast path that skips the blocks' own forward
            _put_over(module, "use_nested_tensor", False)
        elif hasattr(module, "_initialize_weights"):  # of transformers
            _tell_transformers(module, in_float32=dtype is None)
        if any(isinstance(part, Grafted) for part in module.modules()):
            for name in filter(partial(hasattr, module), BESIDE_FORWARD):
                _put_over(module, name, partial(_refuse_beside, name))
    _put_over(model, "grafted_with", {"residual": residual, "dtype": dtype, "only": list(only),
                                      "options": options})
    try:
        tell_what_stays(model)
    except Warning:  # where a filter makes errors of warnings
        ungraft(model)
        raise
    return model


def ungraft(model: nn.Module) -> nn.Module:
    """Take the residuals out again, in place: each block has its own class and forward.

    If the network was not trained in between, it computes what it computed before the graft.

    Raises: ValueError for a model without grafted blocks, or one whose class was changed since.
    """
    blocks = [module for module in model.modules() if isinstance(module, Grafted)]
    if not blocks:
        raise ValueError(f"model must be grafted, got {type(model).__name__} without a grafted "
                         "block")
    for block in blocks:
        if type(block) is not grafted_class(block.block_class, block.graft_rule):
            raise ValueError("the grafted blocks must have the class that graft gave them, got "
                             f"{type(block).__name__}: take off what changed it, such as a "
                             "parametrization or fully_shard")
    for block in blocks:
        block.__class__ = block.block_class
        for name in GIVEN:
            delattr(block, name)
    unwatch_ends(model)
    for module in model.modules():
        for name, (had, value) in vars(module).pop("before_graft", {}).items():
            delattr(module, name)
            if had:
                setattr(module, name, value)
    return model


def new_parameters(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """Return the parameters that `graft` added, as groups for an optimizer.

    Returns: {"decay": those that weight decay should shrink, "no_decay": the others, such as
        biases, scales and static tables}.
    Raises: ValueError for a model without residuals.
    """
    found: dict[str, list[nn.Parameter]] = {"decay": [], "no_decay": []}
    decays = decaying(model)
    new = {p for module in model.modules() if isinstance(module, Residual)
           for p in module.parameters()}
    for name, p in model.named_parameters():
        if p in new:
            found["decay" if name in decays else "no_decay"].append(p)
    if not any(found.values()):
        raise ValueError(f"model must have residuals with parameters, got {type(model).__name__} "
                         "with none")
    return found


def _put_over(module: nn.Module, name: str, value: object) -> None:
    """Set an attribute of an instance; `ungraft` restores it."""
    before = vars(module).setdefault("before_graft", {})
    before.setdefault(name, (name in vars(module), vars(module).get(name)))
    setattr(module, name, value)


def _refuse_beside(name: str, *_, **__) -> NoReturn:
    raise ValueError(f"{name} runs blocks from outside of the model's forward, and between grafted "
                     "blocks stands a state; call it before graft, or take the states from "
                     "geolab.probes.states")


class Plan(NamedTuple):
    """The residuals that `graft` is going to put into the blocks of a stack."""

    blocks: list[nn.Module]
    rules: Sequence[Rule]             # of each block
    residuals: list[list[Residual]]   # of each block, one per sublayer
    reads_other_positions: bool


def _put(model: nn.Module, plans: list[Plan]) -> None:
    for blocks, rules, residuals, reads in plans:
        axes, stack = _state_axes(residuals[0][0]), object()
        for block, rule, around in zip(blocks, rules, residuals, strict=True):
            block.residuals = nn.ModuleList(around).train(block.training)
            block.reads_other_positions, block.state_axes, block.graft_stack = reads, axes, stack
            block.__class__ = grafted_class(type(block), rule)
    watch_ends(model)


@torch.no_grad()
def _state_axes(residual: Residual) -> tuple[int, ...]:
    """Return the axes of a state behind batch and positions."""
    return tuple(residual.expand(like(residual).new_zeros(1, 1, residual.width)).shape[2:])


def _tell_transformers(model: nn.Module, in_float32: bool) -> None:
    """Let a PreTrainedModel start its residuals by their own `reset_parameters`, and load them in
    float32 if `in_float32`.

    On the meta device no weight has started yet, and `from_pretrained` starts the weights that it
    doesn't find. On other devices all weights have started, and a later `post_init` leaves them.
    """
    parts = [part for module in model.modules() if isinstance(module, Residual)
             for part in module.modules()]
    if any(p.is_meta for part in parts for p in part.parameters(recurse=False)):
        _put_over(model, "_initialize_weights", partial(_initialize_weights, model))
    else:
        for part in parts:
            part._is_hf_initialized = True
    if in_float32:
        kept = model._keep_in_fp32_modules_strict or ()
        _put_over(model, "_keep_in_fp32_modules_strict", {*kept, "residuals"})


@torch.no_grad()
def _initialize_weights(model: nn.Module, module: nn.Module, *args) -> None:
    """Start a residual as a whole, in place of `PreTrainedModel._initialize_weights`. The model
    calls this for the parts of a residual first.
    """
    if not isinstance(module, Residual) or getattr(module, "_is_hf_initialized", False):
        type(model)._initialize_weights(model, module, *args)
        return
    tensors = [*module.parameters(), *module.buffers()]
    loaded = [(t, t.clone()) for t in tensors if getattr(t, "_is_hf_initialized", False)]
    if len(loaded) < len(tensors):
        module.reset_parameters()
    for tensor, value in loaded:
        tensor.copy_(value)
    module._is_hf_initialized = True  # so a later `post_init` keeps trained weights


def _plan(blocks: list[nn.Module], residual: str | type[Residual], plain: bool,
          dtype: torch.dtype | None, example: object, options: dict) -> Plan:
    """Make the residuals of each block of a stack, and raise ValueError where they don't fit it."""
    meta = like(blocks[0]).is_meta
    rules, parts = zip(*map(sublayers_of, blocks), strict=True)
    width, *others = dict.fromkeys(map(_width, blocks, rules, parts))
    if others:
        raise ValueError("the blocks of a stack must have one width, since one state runs through "
                         f"them, got {width} and {others[0]}")
    post_norm = len(parts[0][0]) == 3
    for block, rule in zip(blocks, rules, strict=True):
        if taken := [name for name in Grafted.__annotations__ if hasattr(block, name)]:
            raise ValueError(f"{type(block).__name__} must leave the name {taken[0]!r} to graft, "
                             "got a block that has it; rename it there")
        if "forward" in vars(block):  # as accelerate does for device_map
            raise ValueError(f"the forward of {type(block).__name__} must be that of its class, "
                             "got one that something put over it; graft the model before that")
        if example is None:
            require_same_block(block, rule, width)
    # on the CPU, where they are measured; without storage, nothing is drawn that counts
    with torch.device("cpu"), torch.random.fork_rng([], enabled=meta):
        made = [part.double() for part in
                make_residuals(residual, width, sum(map(len, parts)), **options)]
    # the same numbers are drawn each time, and the residuals stay as they are
    with untouched(nn.ModuleList(made), torch.device("cpu")), torch.device("cpu"):
        if post_norm:
            require_streams(residual, made[0])
        away = distance(made, post_norm) if plain else 0.0
        reads = away <= CLOSE and looks_around(made)
    if not away <= CLOSE:
        name = residual if isinstance(residual, str) else residual.__name__
        raise ValueError(
            f"residual {name!r} must start as the plain network, with its options "
            f"{options or 'left as they are'}: its output starts {away:.2g} away, relative to "
            "what the sublayers add. graft(..., plain=False) takes it all the same: a trained "
            "model then forgets what it computed")
    if reads:
        require_batch_first(blocks[0], rules[0], width)
        tell_of_cache(blocks[0])
    rest = iter(made)
    found = [[next(rest).to(like(block).device, dtype or _wide(like(block)))
              for _ in sublayers] for block, sublayers in zip(blocks, parts, strict=True)]
    _require_state(found[0][0], residual, width, like(blocks[0]))
    return Plan(blocks, rules, found, reads)


def _wide(one: Tensor) -> torch.dtype:
    """The dtype of a tensor, or float32 where it is narrower."""
    return one.dtype if one.dtype.itemsize >= 4 else torch.float32


@torch.no_grad()
def _require_state(made: Residual, residual: str | type[Residual], width: int,
                   x: Tensor) -> None:
    """Raise ValueError unless a residual keeps a state of the network's dtype, also where its own
    dtype differs.
    """
    own = {p.dtype for p in made.parameters()} - {x.dtype}
    if not own or x.dtype.itemsize < 2 or x.is_meta:
        return
    with torch.random.fork_rng([x.device] if x.is_cuda else []):
        try:
            state = made.expand(torch.randn(1, 2, width, device=x.device).to(x.dtype))
            norm = partial(F.rms_norm, normalized_shape=(width,))
            got = made(state, Normed(torch.tanh, norm)).dtype
        except RuntimeError as error:
            got = error
    if got != x.dtype:
        name = residual if isinstance(residual, str) else residual.__name__
        raise ValueError(
            f"residual {name!r} must keep a state of {x.dtype} beside its own weights of "
            f"{own.pop()}, got {got}; let it cast its weights where they meet the state, as "
            f"geolab.residuals.Linear does, or ask for weights of that dtype: graft(..., "
            f"dtype={x.dtype})")


def _width(block: nn.Module, rule: Rule, sublayers: list[tuple]) -> int:
    """The width D: from the rule, or else from the first norm with a weight among the sublayers."""
    if rule.width is not None:
        return rule.width(block)
    for norm, _, *after in sublayers:
        for module in (norm, *after):
            shape = getattr(module, "normalized_shape", None)
            weight = getattr(module, "weight", None)
            if shape or weight is not None:
                return (shape or weight.shape)[-1]
    raise ValueError(f"the rule of {type(block).__name__} must say the width, since none of its "
                     "norms has a weight of that length: geolab.graft.rule(..., width=...)")
