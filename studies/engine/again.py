"""A stored measurement beside the same one made again."""

from collections.abc import Iterator
from typing import NamedTuple

# Relative, for a last validation loss. Another processor adds in another order, and hundreds of
# training steps enlarge the difference.
TOLERANCE = 0.02
KEYS = ("model", "train", "seed", "lr", "warmup", "steps")


class Difference(NamedTuple):
    where: str          # the run
    # |new − old| / |old| of the last validation loss; infinite if one of them diverged
    difference: float


def differences(old: dict, new: dict) -> list[Difference]:
    """The difference for every run that both hold, by place and by KEYS."""
    before = dict(_runs(old))
    return [Difference(", ".join(map(str, key)), _relative(before[key], loss))
            for key, loss in _runs(new) if key in before]


def _runs(content: dict | list, place: tuple = ()) -> Iterator[tuple[tuple, float | None]]:
    """Every entry with a model and a seed, and its last validation loss: None if it diverged."""
    if isinstance(content, list):
        for entry in content:
            yield from _runs(entry, place)
    elif isinstance(content, dict):
        if "model" in content and "seed" in content:
            loss = content.get("validation_loss")
            told = [f"{key} {content[key]}" for key in KEYS if key in content]
            yield (*place, *told), loss[-1] if isinstance(loss, list) else loss
        for key, value in content.items():
            yield from _runs(value, (*place, key))


def _relative(old: float | None, new: float | None) -> float:
    if old is None or new is None:
        return 0.0 if old == new else float("inf")
    return abs(new - old) / abs(old)
