"""The table of all residuals: their costs, their effect on the state, and whether they read the
future.
"""

import argparse
import random
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from torch import Tensor, nn

from geolab.models import Transformer, TransformerConfig
from geolab.probes import future_influence
from geolab.residuals import REGISTRY
from studies.claims.configurations import EMHC, EMHC_STREAM

ABOUT = """
The table has one row per registered residual with its default options, in the same Transformer.

  parameters   of the whole network, without an embedding
  state        numbers per token that the network carries from sublayer to sublayer
  causal       "yes" if no output depends on a later input, by derivatives of a tiny model
  step         CPU time of a training step (forward, backward, optimizer), divided by that of the
               first row. The models take turns on one thread, one step each per round, in a new
               order in every round. The median of the rounds' ratios counts
  ±            half the distance between the least and the largest of these ratios
  floor        for a state that is n times as wide: the least that "step" could be, if the sublayers
               were as fast as the first row's, and each pass over the state as fast as a copy that
               is measured in the same run. A sublayer reads the streams, then mixes and writes
               them. This moves 3n + 2 vectors of width D per token, and 5n + 3 backward
  shortcut     eigenvalues (or singular values) of the matrix that the state is multiplied by, while
               everything that is computed from the state is held fixed

The last row is the plain network, made of PyTorch's own modules: nn.TransformerEncoder. The one
before it is a copy of the first row's model: by so much two equal models differ.

  python -m benchmarks.models --layers 2 --batch 8    a first look, in seconds
  python -m benchmarks.models --table5 --repeats 3    the models of E-MHC-Geo's table 5 and its
                                                      stream variant, relative to its GPT
  python -m benchmarks.models --variants              residuals with other options, some of them
                                                      published ones that read the future, relative
                                                      to the additive residual
"""

CHANNEL_CONV, EXPAND_CONV = {"compress": "channel-conv"}, {"expand": "conv"}
VARIANTS: dict[str, tuple[str, dict]] = {  # row -> residual and options
    "delta-v": ("delta", {"map": "v"}),
    "delta-matrix-cc": ("delta-matrix", CHANNEL_CONV),
    "delta-matrix-ec": ("delta-matrix", EXPAND_CONV),
    "delta-matrix-cc-ec": ("delta-matrix", CHANNEL_CONV | EXPAND_CONV),
    "hyper-static": ("hyper", {"dynamic": False}),
    "jpmhc-exact": ("jpmhc", {"retraction": "exact"}),
    "mgt-gate": ("mgt", {"erase": False}),
    "mgt-erase": ("mgt", {"gate": False}),
    "emhc-hybrid-hard": ("emhc-hybrid", {"gate": "hard"}),
    "emhc-stream-hard": ("emhc-stream", {"gate": "hard"}),
} | {f"{name}-sequence": (name, {"pool": "sequence"}) for name in (
    "emhc-cayley", "emhc-hybrid", "emhc-geodesic", "emhc-exact", "emhc-stream", "benchmark-delta")}

SHORTCUTS = {  # of rows whose options change the property of the class
    "jpmhc-exact": "on the unit circle, −1 left out",
    "mgt-gate": "1",
    "emhc-hybrid-hard": "on the unit circle",
    "emhc-stream-hard": "on the unit circle",
}


class PlainTorch(nn.Module):
    """The benchmark's GPT, made of torch's own modules: (B, T, D) -> (B, T, D)."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            config.width, config.heads, config.hidden, dropout=0.0, activation="gelu",
            batch_first=True, norm_first=True, bias=False)
        norm = nn.LayerNorm(config.width, bias=False)
        self.encoder = nn.TransformerEncoder(layer, config.layers, norm=norm,
                                             enable_nested_tensor=False)
        positions = torch.randn(1, config.max_length, config.width)
        self.position = nn.Parameter(positions * config.init_std)

    def forward(self, x: Tensor) -> Tensor:
        T = x.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(T, device=x.device, dtype=x.dtype)
        return self.encoder(x + self.position[:, :T], mask=mask, is_causal=True)


def step_rounds(models: list[nn.Module], x: Tensor,
                repeats: int) -> tuple[float, list[list[float]]]:
    """Seconds of the first model's fastest training step, and for each model the ratios of its
    steps to those of the first one in the same round.

    A machine's speed changes by the minute, and the steps of a round are close in time. Every round
    has another order, because a step that follows a large model's step finds the memory in another
    state.
    """
    steps = list(enumerate(training_step(model, x) for model in models))
    shuffle = random.Random(torch.initial_seed())
    rounds = [{k: _seconds(step) for k, step in shuffle.sample(steps, len(steps))}
              for _ in range(repeats + 1)][1:]  # the first round warms up
    ratios = [[times[k] / times[0] for times in rounds] for k in range(len(models))]
    return min(times[0] for times in rounds), ratios


def step_times(models: list[nn.Module], x: Tensor, repeats: int) -> list[float]:
    """Seconds of a training step of each model: the first one's fastest step, times the median of
    the model's ratios to it.
    """
    fastest, ratios = step_rounds(models, x, repeats)
    return [fastest * median(each) for each in ratios]


def training_step(model: nn.Module, x: Tensor) -> Callable[[], None]:
    """A function that makes one training step of the model on x: forward, backward, optimizer."""
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)  # as in `fit`

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def _seconds(run: Callable[[], None]) -> float:
    start = time.process_time()  # of this process: other programs on the machine don't count
    run()
    return time.process_time() - start


def copy_bandwidth(numbers: int, repeats: int = 10) -> float:
    """Bytes per second, reads plus writes, of the fastest of some copies of float32 numbers."""
    source = torch.ones(numbers)
    target = torch.empty_like(source)
    return 2 * source.nbytes / min(_seconds(lambda: target.copy_(source)) for _ in range(repeats))


def step_floor(streams: int, seconds: float, sublayers: int, vectors: int, width: int,
               bandwidth: float) -> float:
    """The least seconds of a step whose state is `streams` times as wide.

    The additive step already moves 6 vectors per sublayer. The work of the generators is left out,
    and could only add to the result.

    Arguments:
        seconds: of an additive step with as many sublayers.
        vectors: B T, the tokens of a batch.
        bandwidth: of a copy, in bytes per second.
    """
    moved = (3 * streams + 2) + (5 * streams + 3) - 6
    return seconds + sublayers * moved * vectors * width * 4 / bandwidth


def state_size(trunk: Transformer) -> int:
    """Return the size of the state per token."""
    return trunk.layers[0].residual.expand(torch.zeros(1, 1, trunk.config.width)).numel()


def is_causal(make: Callable[[TransformerConfig], nn.Module]) -> bool:
    """Return whether no output depends on a later input, for `make` on a tiny backbone."""
    model = make(TransformerConfig.benchmark(width=16, layers=2, heads=2, max_length=8)).double()
    return future_influence(model, torch.randn(2, 6, 16, dtype=torch.float64)) == 0


def table(rows: dict[str, tuple[TransformerConfig, str, dict]], batch: int, length: int,
          repeats: int) -> str:
    """The table as text, one row per model and a last one for PlainTorch.

    Arguments:
        rows: name -> a backbone, a residual and its options.
        batch: sequences per step.
        length: positions per sequence.
        repeats: rounds of timing.
    """
    makers = {name: partial(Transformer, residual=residual, **options)
              for name, (_, residual, options) in rows.items()}
    models = [makers[name](config) for name, (config, _, _) in rows.items()]
    first, plain = next(iter(rows)), next(iter(rows.values()))[0]
    x = torch.randn(batch, length, plain.width)
    fastest, ratios = step_rounds([*models, makers[first](plain), PlainTorch(plain)], x, repeats)
    wide = max(16, len(first) + 8, *map(len, rows))  # characters of the first column
    lines = [f"{'residual':<{wide}} {'parameters':>10} {'state':>6} {'causal':>7} {'step':>6} "
             f"{'±':>4} {'floor':>6}  shortcut"]
    for name, model, each in zip(rows, models, ratios, strict=False):
        (config, residual, _), state = rows[name], state_size(model)
        floor = None
        if state > config.width:
            additive = fastest * config.layers / plain.layers
            bandwidth = copy_bandwidth(batch * length * state)
            floor = step_floor(state // config.width, additive, 2 * config.layers, batch * length,
                               config.width, bandwidth) / fastest
        shortcut = SHORTCUTS.get(name, REGISTRY[residual].spectrum)
        lines.append(_line(name.ljust(wide), model, state, is_causal(makers[name]), each, floor,
                           shortcut))
    lines.append(_line(f"({first} again)".ljust(wide), models[0], state_size(models[0]),
                       is_causal(makers[first]), ratios[-2], None,
                       SHORTCUTS.get(first, REGISTRY[rows[first][1]].spectrum)))
    lines.append(_line("(torch's own)".ljust(wide), PlainTorch(plain), plain.width,
                       is_causal(PlainTorch), ratios[-1], None, "1"))
    return "\n".join(lines)


def _line(name: str, model: nn.Module, state: int, causal: bool, ratios: list[float],
          floor: float | None, shortcut: str) -> str:
    parameters = sum(p.numel() for p in model.parameters())
    least = "" if floor is None else f"{floor:.2f}"
    apart = (max(ratios) - min(ratios)) / 2
    return (f"{name} {parameters:>10,} {state:>6} {'yes' if causal else 'no':>7} "
            f"{median(ratios):>6.2f} {apart:>4.2f} {least:>6}  {shortcut}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models",
                                     description=__doc__ + ABOUT,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--width", type=int, default=128,
        help="D, a multiple of 8; ignored with --table5 (default %(default)s)")
    add("--layers", type=int, default=4,
        help="blocks of two sublayers; ignored with --table5 (default %(default)s)")
    add("--batch", type=int, help="sequences per step (default 16; 64 with --table5)")
    add("--length", type=int, default=127, help="positions per sequence (default %(default)s)")
    add("--repeats", type=int, default=5, help="rounds of timing (default %(default)s)")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--table5", action="store_true",
                       help="the models of E-MHC-Geo's table 5, in place of the registry")
    other.add_argument("--variants", action="store_true",
                       help="residuals with other options than their defaults")
    given = parser.parse_args(arguments)
    for name in ("batch", "length", "repeats"):
        if (number := getattr(given, name)) is not None and number < 1:
            parser.error(f"--{name} must be at least 1, got {number}")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if given.table5:
        models = EMHC | {"emhc-stream": EMHC_STREAM}
        rows = {name: (model.backbone, model.residual, model.options)
                for name, model in models.items()}
    else:
        try:
            config = TransformerConfig.benchmark(given.width, given.layers,
                                                 max_length=max(8, given.length))
        except ValueError as error:
            parser.error(str(error))
        chosen = {name: (name, {}) for name in REGISTRY}
        if given.variants:
            chosen = {"additive": ("additive", {})} | VARIANTS
        rows = {name: (config, *which) for name, which in chosen.items()}
    print(table(rows, given.batch or (64 if given.table5 else 16), given.length, given.repeats))


if __name__ == "__main__":
    main()
