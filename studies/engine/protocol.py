"""The protocol: one rule for every comparison of trained models in the book.

    search     Every arm tries the same grid of learning rates and warm-ups, at full length, on a
               seed that isn't reported, and its three best settings on a second such seed. While
               the best one lies on the edge, the grid gets another row or column.
    report     Every arm trains at its best setting on sixteen other seeds. All arms share these
               seeds and so draw the same batches: differences are taken for each seed.
    vary       The arm trains once more at the next-best setting, at half and at twice the steps,
               and for as many steps as take the time of the comparison's first arm.

`studies.engine.judge` gives the verdicts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from geolab.training import Budget

STEPS = {"half the steps": 0.5, "twice the steps": 2.0}
VARIATIONS = ("next best", *STEPS, "equal time")
WARMUPS = (0.03, 0.1, 0.3, 0.6, 1.0)  # as shares of the steps; at 1 the rate never falls
SLOWEST, FASTEST = 1e-6, 1.0      # learning rates beyond which no search goes
LEADERS = 3                       # the number of settings that the later seeds of a search try


class Setting(NamedTuple):
    """The pair that a search looks for."""

    lr: float
    warmup: float | None   # as a share of the steps; None is the budget's own


@dataclass(frozen=True)
class Protocol:
    """The settings of the protocol.

    Arguments:
        rates: the learning rates that every arm tries; a single one needs no search. If the
            search may widen, they are 1, 2 or 5 times a power of ten.
        warmups: the shares of the steps that warm up, from WARMUPS; None keeps the budget's own.
        search_seeds: the first one tries the whole grid, and the others its best settings.
        seeds: those that report.
        few: the seeds of the variations.
        search_steps: of each run of the search; None means as many as a run that reports.
        widen: whether the grid grows while its best setting lies on the edge.
        variations: names from VARIATIONS.
    Raises: ValueError for no seed, a repeated seed, no rate, a search on seeds that report, and
        unknown rates, warm-ups or variations.
    """

    rates: Sequence[float] = (2e-3, 5e-3, 1e-2)
    warmups: Sequence[float] | None = (0.1, 0.3, 0.6)
    search_seeds: Sequence[int] = (100, 101)
    seeds: Sequence[int] = tuple(range(16))
    few: Sequence[int] = tuple(range(3))
    search_steps: int | None = None
    widen: bool = True
    variations: Sequence[str] = VARIATIONS

    def __post_init__(self) -> None:
        for name in ("rates", "search_seeds", "seeds", "few", "variations"):  # a file gives lists
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name, values in (("seeds", self.seeds), ("rates", self.rates)):
            if not values:
                raise ValueError(f"{name} must hold at least one number, got {values!r}")
        if len(set(self.seeds)) < len(self.seeds):  # a run and its copy don't vary
            raise ValueError(f"seeds must differ, got {', '.join(map(str, self.seeds))}")
        if self.widen and self.searches:
            if set(self.search_seeds) & set(self.seeds):
                raise ValueError("search_seeds must be others than the seeds that report, got "
                                 f"{', '.join(map(str, self.search_seeds))}")
            for lr in self.rates:
                if lr != _rate(_place(lr)):
                    raise ValueError("rates must be 1, 2 or 5 times a power of ten, for a search "
                                     f"that widens, got {lr:g}")
        for name, values, known in (("warmups", self.warmups or (), WARMUPS),
                                    ("variations", self.variations, VARIATIONS)):
            if unknown := set(values) - set(known):
                raise ValueError(f"{name} must be among {', '.join(map(str, known))}, got "
                                 f"{', '.join(map(str, unknown))}")

    @classmethod
    def brief(cls, **changes) -> "Protocol":
        """Eight seeds that report, and the next-best setting alone."""
        return cls(**{"seeds": tuple(range(8)), "variations": ("next best",)} | changes)

    @classmethod
    def eight(cls, **changes) -> "Protocol":
        """Eight seeds that report, and all variations on two of them."""
        return cls(**{"seeds": tuple(range(8)), "few": (0, 1)} | changes)

    @classmethod
    def stated(cls, lr: float, seeds: Sequence[int]) -> "Protocol":
        """The one rate that a source states, for all arms, without search or variations."""
        return cls(rates=(lr,), warmups=None, seeds=seeds, widen=False, variations=())

    @property
    def searches(self) -> bool:
        return len(self.rates) * len(self.warmups or (None,)) > 1

    def grid(self) -> list[Setting]:
        """The settings that every arm tries, in order of their rates."""
        return _grid(self.rates, self.warmups or (None,))

    def search(self, loss: Callable[[Setting, int], float]) -> dict[Setting, float]:
        """The best settings with their mean losses, the lowest first.

        Arguments:
            loss: of a setting on a seed. If all losses are infinite, lower rates are tried.
        """
        rates, shares = sorted(self.rates), list(self.warmups or (None,))
        first, *others = self.search_seeds
        once: dict[Setting, float] = {}
        means: dict[Setting, float] = {}
        while True:
            once |= {s: loss(s, first) for s in _grid(rates, shares) if s not in once}
            for setting in sorted(once, key=lambda s: (once[s], s.lr))[:LEADERS]:
                if setting not in means:
                    found = [once[setting], *(loss(setting, seed) for seed in others)]
                    means[setting] = sum(found) / len(found)
            ranked = sorted(means, key=lambda setting: (means[setting], setting.lr))
            more = beyond(ranked[0], rates, shares) if self.widen else ([], [])
            if more == ([], []):
                return {setting: means[setting] for setting in ranked}
            rates, shares = sorted(rates + more[0]), shares + more[1]


def search_share(comparison: dict) -> float:
    """The steps of a search's runs over those of the runs that report; 0 without a search.

    Below 1 a stored comparison says which setting is best for shorter runs than it reports.
    """
    protocol, steps = comparison["protocol"], comparison["budget"]["steps"]
    if len(protocol["rates"]) * len(protocol["warmups"] or (None,)) < 2:
        return 0.0
    return (protocol["search_steps"] or steps) / steps


def beyond(best: Setting, rates: Sequence[float],
           shares: Sequence[float | None]) -> tuple[list[float], list[float]]:
    """Return the rates and warm-ups to add to a grid whose best setting lies on the edge."""
    place, more_rates, more_shares = _place(best.lr), [], []
    for edge, step in ((min(rates), -1), (max(rates), 1)):
        if best.lr == edge and SLOWEST <= _rate(place + step) <= FASTEST:
            more_rates.append(_rate(place + step))
    if best.warmup is not None:
        k = WARMUPS.index(best.warmup)
        more_shares = [WARMUPS[i] for i in (k - 1, k + 1)
                       if 0 <= i < len(WARMUPS) and WARMUPS[i] not in shares]
    return more_rates, more_shares


def _grid(rates: Sequence[float], shares: Sequence[float | None]) -> list[Setting]:
    return [Setting(lr, share) for lr in sorted(rates) for share in shares]


def at(setting: Setting, budget: Budget, times: float = 1.0) -> Budget:
    """The budget at a setting, with `times` as many steps and as many evaluations as before."""
    steps, every = (max(1, round(count * times)) for count in (budget.steps, budget.evaluate_every))
    share = budget.warmup / budget.steps if setting.warmup is None else setting.warmup
    return replace(budget, lr=setting.lr, steps=steps, evaluate_every=every,
                   warmup=round(share * steps))


def _place(lr: float) -> int:
    """Return a rate's index in … 1, 2, 5, 10, 20 …, with 0 for 1."""
    power = math.floor(math.log10(lr) + 1e-9)
    return 3 * power + min(range(3), key=lambda k: abs((1, 2, 5)[k] - lr / 10.0**power))


def _rate(place: int) -> float:
    return float(f"{(1, 2, 5)[place % 3]}e{place // 3}")
