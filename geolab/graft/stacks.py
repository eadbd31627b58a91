"""Find the blocks of a network that are grafted, and warn of those that stay as they are."""

import re
import warnings
from collections import Counter
from collections.abc import Collection

from torch import nn
from torch.nn.parameter import is_lazy

from geolab.graft.block import Grafted
from geolab.graft.rules import REFUSED, RULES, find_rule

CACHE = re.compile(r"(^|_)(k|v|kv|key|value)_?cache|cache_(k|v|kv)$|past_key")  # none of a rotation


def find_stacks(model: nn.Module, only: Collection[str] = ()) -> dict[str, list[nn.Module]]:
    """Find the blocks that have a rule: {name of their parent: its blocks, in order}."""
    if any(isinstance(module, Grafted) for module in model.modules()):
        raise ValueError("model must not be grafted yet, got one that is; graft a new one and "
                         "load its weights")
    if find_rule(model) is not None:
        return {"": [model]}
    # with repetitions, which `children` leaves out
    found = [(parent, [child for child in parent._modules.values()
                       if child is not None and find_rule(child) is not None])
             for parent in model.modules()]
    names = {module: name for name, module in model.named_modules()}
    _require_ends_once([blocks for _, blocks in found if blocks])
    stacks = {names[parent]: blocks for parent, blocks in found if blocks}
    if not stacks:
        _refuse(model)
    if (isinstance(only, str) or not isinstance(only, Collection)
            or any(name not in stacks for name in only)):
        raise ValueError(f"only must be a list of names among {', '.join(map(repr, stacks))}, "
                         f"got {only!r}")
    wrapped = [blocks for parent, blocks in found
               if len(blocks) == 1 and not isinstance(parent, nn.ModuleList)
               and (not only or names[parent] in only)]
    if len(wrapped) > 1:
        raise ValueError(f"the blocks of a stack must have one parent, got {len(wrapped)} parents "
                         "of one block each; graft before you wrap the blocks")
    return {name: list(dict.fromkeys(blocks)) for name, blocks in stacks.items()
            if not only or name in only}


def _require_ends_once(stacks: list[list[nn.Module]]) -> None:
    """Raise ValueError where a block stands in two stacks, or the first or last one of a stack in
    more than one place. It makes the state or reads it out, which happens once.
    """
    places = Counter(block for blocks in stacks for block in blocks)
    for blocks in stacks:
        for block in blocks:
            inside = places[block] == blocks.count(block) and block not in (blocks[0], blocks[-1])
            if places[block] > 1 and not inside:
                raise ValueError(f"the blocks at the ends of a stack must stand in one place, got "
                                 f"a {type(block).__name__} in {places[block]}: the first block "
                                 "makes the state, and the last one reads it out")


def _refuse(model: nn.Module) -> None:
    inside = {f"{type(child).__module__}.{type(child).__qualname__}" for parent in model.modules()
              if isinstance(parent, (nn.ModuleList, nn.Sequential)) for child in parent.children()}
    for name in map(_short, sorted(inside)):
        if name in REFUSED:
            raise ValueError(f"graft takes no {type(model).__name__}: {REFUSED[name]} ({name})")
    shared = set(map(_short, RULES)) & set(map(_short, inside))  # names of two kinds of block
    known, got = (", ".join(sorted({name if _short(name) in shared else _short(name)
                                    for name in names})) for names in (RULES, inside))
    raise ValueError(f"model must have blocks that graft knows ({known}, or nanoGPT's), got "
                     f"{type(model).__name__} with {got or 'no list of blocks'}; "
                     "geolab.graft.rule tells it of a block of your own")


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def tell_what_stays(model: nn.Module) -> None:
    """Warn of modules that stand between grafted blocks, and of lists of blocks of one class that
    are neither grafted nor inside a grafted block.
    """
    inside = {id(part) for module in model.modules() if isinstance(module, Grafted)
              for part in module.modules()}
    for name, module in model.named_modules():
        children = list(module.children())
        if (isinstance(module, (nn.ModuleList, nn.Sequential)) and id(module) not in inside
                and len(children) > 1 and len({type(child) for child in children}) == 1
                and any(True for _ in children[0].children())
                and not any(isinstance(part, Grafted) for part in module.modules())):
            warnings.warn(f"graft leaves {name or 'the model'}, {len(children)} blocks of class "
                          f"{type(children[0]).__name__}, as it is: it has no rule for them",
                          stacklevel=3)
        grafted = [isinstance(child, Grafted) for child in children]
        if isinstance(module, (nn.ModuleList, nn.Sequential)) and any(grafted):
            last = len(children) - grafted[::-1].index(True)
            for child in children[grafted.index(True):last]:
                if not isinstance(child, Grafted) and any(True for _ in child.parameters()):
                    warnings.warn(f"graft leaves a {type(child).__name__} between the blocks of "
                                  f"{name or 'the model'} as it is: there it gets the state of the "
                                  "residuals, and not x", stacklevel=3)


def tell_of_cache(block: nn.Module) -> None:
    """Warn of a cache that a block keeps in itself, where a residual reads other positions."""
    for part in block.modules():
        for name in filter(CACHE.search, (*vars(part), *part._buffers, *part._modules)):
            warnings.warn(f"graft can't see how many positions {name} of {type(part).__name__} "
                          "holds, and the residual reads other positions than the present one: "
                          "give the network whole texts", stacklevel=4)
            return


def require_bare(model: nn.Module) -> None:
    """Raise ValueError for what is no module, for a wrapped model, whose wrapper has read the
    parameters already and would miss new ones, and for one whose weights have no shapes yet.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"model must be an nn.Module, got {type(model).__name__}")
    if lazy := [name for name, p in model.named_parameters() if is_lazy(p)]:
        raise ValueError(f"model must have weights with shapes, got {lazy[0]} without one: call it "
                         "once, then graft")
    wrapped = {"DistributedDataParallel", "FullyShardedDataParallel", "OptimizedModule",
               "FSDPModule", "DataParallel"}
    for module in model.modules():
        if wrapped & {cls.__name__ for cls in type(module).__mro__}:
            raise ValueError(f"model must be grafted before it is wrapped, got "
                             f"{type(module).__name__}; graft the model inside it, then wrap")
