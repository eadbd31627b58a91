"""The quantities that a claim's contrast adds up, by their names in the files of hypotheses."""

from math import log, log10
from statistics import mean

from studies.engine.judge import Quantity, log_loss, loss, measured


def start(run: dict) -> float:
    """The logarithm of the gradient's mean norm over the first fiftieth of the steps."""
    return log(run["gradient_norm"][0])


def mean_loss(run: dict) -> float:
    """The mean of the validation losses over the training: the lower, the sooner it fell."""
    return mean(run["validation_loss"])


def training_loss(run: dict) -> float:
    """The mean of the training losses over the last tenth of the steps."""
    losses = run["train_loss"]
    return mean(losses[-max(1, len(losses) // 10):])


def last_block(alphas: list[float]) -> float:
    """The mean over a block's two sublayers."""
    return sum(alphas[-2:]) / 2


def preserved(run: dict) -> float:
    """ρ: the rank after the last block over that before the first."""
    ranks = run["measured"]["rank"]["as defined"]
    return ranks[-1] / ranks[0]


def sharpened(run: dict) -> float:
    """How much more of β's variance over blocks a step explains at the end than at a quarter."""
    steps = run["measured"]["step"]
    return steps["100 %"] - steps["25 %"]


def energy(run: dict, block: int | None = None) -> float:
    """log₁₀ E(A, F) at the input of a block, or its mean over blocks."""
    pairs = run["measured"]["blocks"]["energy"]
    found = [log10(pair.get("AF", pair.get("AM"))) for pair in pairs]
    return mean(found) if block is None else found[block]


def growth(run: dict) -> float:
    """The rise of log₁₀ E(A, F) from the second block to the third."""
    return energy(run, 2) - energy(run, 1)


def jacobians(name: str) -> Quantity:
    """The mean over blocks of log₁₀ of a number about A's and F's Jacobians."""
    def value(run: dict) -> float:
        pairs = [block.get("AF", block.get("AM")) for block in run["measured"]["jacobians"]]
        return mean(log10(mean(pair[name]) if isinstance(pair[name], list) else pair[name])
                    for pair in pairs)
    return value


def beside_chance(run: dict) -> float:
    """The commutator of A's and F's Jacobians over that of turned ones, after the first block."""
    return mean(block["AF"]["beside chance"] for block in run["measured"]["jacobians"][1:])


def responses(run: dict) -> float:
    """log₁₀ of the size of A's and F's responses to each other's steps, after the first block.

    The energy is this size times the asymmetry, which says how far the two responses differ.
    """
    blocks = run["measured"]["blocks"]
    return mean(log10(energies["AF"] / asymmetries["AF"])
                for energies, asymmetries in zip(blocks["energy"][1:], blocks["asymmetry"][1:],
                                                 strict=True))


def early_swaps(run: dict) -> float:
    """The sum of two rises of the loss: swapping the first pair of sublayers, or the second."""
    return sum(run["measured"]["reordered"]["swapped"][:2])


def order(run: dict) -> float:
    """The logarithm of the factor by which shuffled positions raise the Dirichlet energy."""
    return log(run["measured"]["Dirichlet, shuffled"] / run["measured"]["Dirichlet"])


def settled(run: dict) -> float:
    """The logarithm of the factor by which training lowered the Dirichlet energy."""
    return log(run["untrained"]["Dirichlet"] / run["measured"]["Dirichlet"])


QUANTITIES: dict[str, Quantity] = {
    "loss": loss, "log loss": log_loss, "mean loss": mean_loss, "training loss": training_loss,
    "start": start, "preserved": preserved, "sharpened": sharpened,
    "widest": measured("widest", of=max), "last alpha": measured("alpha", of=last_block),
    "energy": energy, "growth": growth, "beside chance": beside_chance, "responses": responses,
    "early swaps": early_swaps, "order": order, "settled": settled,
    "jacobians, commutator": jacobians("commutator"),
    "jacobians, size": jacobians("size"),
}


def quantity(said: str | dict) -> Quantity:
    """Return the quantity of a name in QUANTITIES, or one that reads a number that a run keeps.

    Arguments:
        said: the name, or {measured: NAME} or {measured: [NAME, NAME]}.

    Raises: ValueError for an unknown name.
    """
    if isinstance(said, dict):
        names = said["measured"]
        return measured(*names) if isinstance(names, list) else measured(names)
    if said not in QUANTITIES:
        raise ValueError(f"quantity must be one of {', '.join(QUANTITIES)}, or {{measured: NAME}}, "
                         f"got {said!r}")
    return QUANTITIES[said]
