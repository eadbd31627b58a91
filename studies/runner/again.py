"""A stored measurement beside one made again."""

from collections.abc import Iterator
from typing import NamedTuple

TOLERANCE = 0.02  # relative, of a last validation loss: sums in another order, by another processor, grow over hundreds of steps


class Difference(NamedTuple):
    where: str          # which run
    difference: float   # |new − old| / |old| of the last validation loss; infinite where one of them diverged


def differences(old: dict, new: dict) -> list[Difference]:
    """For every run that both hold, by their place in the file, model, seed and learning rate."""
    before = dict(_runs(old))
    return [Difference(", ".join(map(str, key)), _relative(before[key], loss)) for key, loss in _runs(new) if key in before]


def _runs(content: dict | list, place: tuple = ()) -> Iterator[tuple[tuple, float | None]]:
    """All entries with a model and a seed: the last validation loss, None for a run that diverged."""
    if isinstance(content, list):
        for entry in content:
            yield from _runs(entry, place)
    elif isinstance(content, dict):
        if "model" in content and "seed" in content:
            loss = content.get("validation_loss")
            yield (*place, *(f"{key} {content[key]}" for key in ("model", "train", "seed", "lr") if key in content)), \
                loss[-1] if isinstance(loss, list) else loss
        for key, value in content.items():
            yield from _runs(value, (*place, key))


def _relative(old: float | None, new: float | None) -> float:
    if old is None or new is None:
        return 0.0 if old == new else float("inf")
    return abs(new - old) / abs(old)
