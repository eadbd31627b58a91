"""Rank what teams hand in for the project "Twenty-five blocks of thirty", on the real network.

    python tools/leaderboard.py submitted/ --text a_text_that_nobody_knows.txt

A team hands in a JSON file and no program:

    {"team": "Anna and Ben", "blocks": [0, 1, 2, 5, …], "scales": [1, 1, 0.8, 1, …]}

`blocks` are at most five sixths of SmolLM2's blocks, in the order in which they run. `scales`,
which may be missing, are one number for each: the block's answer F(x) is added as x + s F(x).
A score is the mean loss in nats per token. Two teams whose losses on the same windows differ by
less than two standard errors share a rank.
"""

import argparse
import json
import math
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))
from studies.experiments.real_network import LENGTH, network, windows  # noqa: E402

LARGEST = 10.0   # of a scale
UNRANKED = ("baseline", "the whole")  # how the rows begin that no team has
PUBLIC = 3       # windows of each of the three texts that everybody has
WINDOWS = 8      # of the teacher's text


class Entry(NamedTuple):
    team: str
    blocks: list[int]
    scales: list[float]


class Scaled(nn.Module):
    """A block whose answer is multiplied: x + s (block(x) − x)."""

    def __init__(self, block: nn.Module, scale: float):
        super().__init__()
        self.block, self.scale = block, scale

    def forward(self, x: Tensor, *others, **named) -> Tensor:
        return x + self.scale * (self.block(x, *others, **named) - x)


def read(path: Path, count: int) -> Entry:
    """A team's file, for a network of `count` blocks.

    Raises: ValueError that says what is wrong with it.
    """
    try:
        data = json.loads(path.read_bytes())
        team, blocks = " ".join(str(data["team"]).replace("|", " ").split())[:60], data["blocks"]
        scales = data.get("scales", [1.0] * len(blocks))
    except (ValueError, LookupError, TypeError, AttributeError, OSError, RecursionError) as error:
        raise ValueError(f"{path.name} isn't a JSON file with team and blocks: {error}") from error
    if not team or team.startswith(UNRANKED):
        raise ValueError(f"{path.name}: team must be a name that no row without a rank has")
    most = 5 * count // 6
    if not (isinstance(blocks, list) and 1 <= len(blocks) <= most
            and all(type(block) is int and 0 <= block < count for block in blocks)):
        raise ValueError(f"{path.name}: blocks must be 1 to {most} numbers from 0 to {count - 1}")
    if not (isinstance(scales, list) and len(scales) == len(blocks)
            and all(type(s) in (int, float) and abs(s) <= LARGEST for s in scales)):
        raise ValueError(f"{path.name}: scales must be a number for each block, at most {LARGEST}")
    return Entry(team, blocks, [float(scale) for scale in scales])


def baselines(count: int) -> list[Entry]:
    """The table's rows that need no idea: the whole network, and cuts that anybody can make.
    """
    most, whole = 5 * count // 6, list(range(count))
    spread = [block for block in whole if block % 6 != 3]
    drawn = sorted(random.Random(0).sample(whole, most))
    cuts = {"the whole network": whole, "baseline: the first blocks": whole[:most],
            "baseline: the last blocks": whole[-most:], "baseline: no fourth of six": spread,
            "baseline: drawn at random": drawn}
    return [Entry(name, blocks, [1.0] * len(blocks)) for name, blocks in cuts.items()]


@torch.no_grad()
def losses(model, entry: Entry, texts: Sequence[Tensor]) -> list[float]:
    """Nats per token of each text. The first token's prediction has no context and doesn't count.
    """
    usual = model.model.layers
    model.model.layers = nn.ModuleList(
        usual[block] if scale == 1 else Scaled(usual[block], scale)
        for block, scale in zip(entry.blocks, entry.scales, strict=True))
    count, model.config.num_hidden_layers = model.config.num_hidden_layers, len(entry.blocks)
    try:
        found = []
        for tokens in texts:
            logits = model(tokens, use_cache=False).logits[0, 1:-1]
            found.append(F.cross_entropy(logits, tokens[0, 2:]).item())
    finally:
        model.model.layers, model.config.num_hidden_layers = usual, count
    return [loss if math.isfinite(loss) else math.inf for loss in found]


def cut(text: str, tokenizer) -> list[Tensor]:
    """Windows of tokens that lie evenly in a text. Raises ValueError for a text that is too short.
    """
    tokens = tokenizer(text, return_tensors="pt").input_ids[0]
    if len(tokens) < WINDOWS * LENGTH:
        raise ValueError(f"--text must have {WINDOWS * LENGTH} tokens, got {len(tokens)}")
    starts = torch.linspace(0, len(tokens) - LENGTH, WINDOWS).long().tolist()
    return [tokens[start:start + LENGTH][None] for start in starts]


def deviation(found: list[float]) -> float:
    """The standard error of a mean, which is infinite where a loss is."""
    return stdev(found) / math.sqrt(len(found)) if all(map(math.isfinite, found)) else math.inf


def tied(one: list[float], other: list[float]) -> bool:
    """Return whether two lists of losses on the same windows lie within two standard errors."""
    if math.inf in (*one, *other):
        return mean(one) == mean(other)
    gaps = [a - b for a, b in zip(one, other, strict=True)]
    return abs(mean(gaps)) < 2 * deviation(gaps)


def table(scored: dict[str, tuple[int, list[float]]]) -> str:
    """The ranking as Markdown, for {name: (blocks, losses)}. Only teams have ranks."""
    order = sorted(scored, key=lambda name: mean(scored[name][1]))
    lines = ["| Rank | Who | Blocks | Nats per token | Standard error |", "|---|---|---|---|---|"]
    rank, seen, first = 0, 0, None
    for name in order:
        blocks, found = scored[name]
        place = "–"
        if not name.startswith(UNRANKED):
            seen += 1
            if first is None or not tied(found, first):  # the best of its rank is what it meets
                rank, first = seen, found
            place = str(rank)
        numbers = f"{mean(found):.3f} | {deviation(found):.3f}"
        lines.append(f"| {place} | {name} | {blocks} | {numbers} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the teams' JSON files")
    parser.add_argument("--text", type=Path, help="score on this text, not on the public windows")
    given = parser.parse_args()
    model, tokenizer, source = network("trained")
    texts = [text for name, text in windows().items() if int(name.split()[-1]) < PUBLIC]
    if given.text:
        texts = cut(given.text.read_text(encoding="utf-8"), tokenizer)
    count = len(model.model.layers)
    entries, refused = baselines(count), []
    for path in sorted(given.folder.glob("*.json")):
        try:
            entries.append(read(path, count))
        except ValueError as error:
            refused.append(str(error))
    names = [entry.team for entry in entries]
    scored = {}
    for k, entry in enumerate(entries):
        print(f"{k + 1} of {len(entries)}: {entry.team}", file=sys.stderr)
        name = entry.team if names.count(entry.team) == 1 else f"{entry.team} ({k})"
        scored[name] = (len(entry.blocks), losses(model, entry, texts))
    print(f"{source}; {len(texts)} windows of {texts[0].shape[1]} tokens. A uniform guess scores "
          f"{math.log(model.config.vocab_size):.3f}.\n\n{table(scored)}")
    print("".join(f"✗ {said}\n" for said in refused), end="")
    return int(bool(refused))


if __name__ == "__main__":
    sys.exit(main())
