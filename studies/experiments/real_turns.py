"""The angles by which a real network's sublayers turn its states, and what they hear of the past.

    angle of (x, x + F),   the eigenvalues of I + J,   ‖∂x_60 at t / ∂x_0 at s‖

J is the Jacobian of a sublayer's update at one token in its context. The matrix I + J maps a small
change of the state before the sublayer to the change behind it. For a rotation all its eigenvalues
have length 1, and for a mirror one of them is −1.
"""

from collections.abc import Callable, Mapping
from functools import partial, reduce

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.graft import residual_stream
from geolab.probes import delta_rate, influence, token_jacobian
from studies.engine.measurement import Measurement
from studies.experiments.real import over_windows
from studies.experiments.real_network import LENGTH, OTHERS, network, numbers, short, windows

CONTEXT, PLACE = 32, 28        # the tokens that a Jacobian is taken in, and its own
PAST = 48                      # the tokens of a causal measurement
FEW = 2                        # of each text's windows, for what takes long
SHOWN = ("A15", "F15")         # the sublayers whose eigenvalues are kept
CLOSE = 0.1                    # a singular value this close to 1 counts as kept


@torch.no_grad()
def turns(kind: str, tokens: Tensor) -> dict:
    """Angles between neighbouring states, in degrees, and β of each write along itself."""
    s = residual_stream(network(kind)[0], tokens)
    states, writes = s.states(), s.writes()[1:]
    angles = torch.stack([_angle(a[0], b[0]) for a, b in zip(states, states[1:], strict=False)])
    beta = torch.stack([delta_rate(x[0], w[0]) for x, w in zip(states, writes, strict=False)])
    others, whole = angles[:, OTHERS], _angle(states[0][0], states[-1][0])
    rate = beta[:, OTHERS]
    return {"median": numbers(others.median(1).values), "most": numbers(others.max(1).values),
            "first": numbers(angles[:, 0]), "from the first state": short(whole[1:].median()),
            "share above 90": short((others > 90).double().mean()),
            "erasing": numbers((rate > 0).double().mean(1)),
            "share erasing": short((rate > 0).double().mean()),
            "share beyond 1": short((rate > 1).double().mean()),
            "share beyond 2": short((rate > 2).double().mean())}


def _angle(a: Tensor, b: Tensor) -> Tensor:
    cosine = F.cosine_similarity(a.double(), b.double(), dim=-1)
    return torch.rad2deg(torch.arccos(cosine.clamp(-1, 1)))


def eigenvalues(tokens: Tensor) -> dict:
    """Numbers about the eigenvalues and singular values of I + J, sublayer by sublayer."""
    tokens = tokens[:, :CONTEXT]
    s = residual_stream(network("trained")[0], tokens)
    found: dict = {"negative": [], "sign of the determinant": [], "above 1": [], "widest angle": [],
                   "kept lengths": [], "longest": [], "shortest": [], "kept": {}}
    for step, x in zip(s.sublayers, s.states(), strict=False):
        J = token_jacobian(step.update, x[:, PLACE:PLACE + 1], 0) if step.name.startswith("F") \
            else token_jacobian(step.update, x, PLACE)     # an MLP reads one token
        matrix = (J + torch.eye(len(J))).double()
        values = torch.linalg.eigvals(matrix)
        negative = (values.imag == 0) & (values.real < 0)
        lengths = torch.linalg.svdvals(matrix)
        found["negative"].append(negative.sum())
        found["sign of the determinant"].append(torch.linalg.slogdet(matrix).sign)
        found["above 1"].append((values.abs() > 1).double().mean())
        found["widest angle"].append(torch.rad2deg(values.angle()[values.imag > 0].max()))
        found["kept lengths"].append(((lengths - 1).abs() < CLOSE).double().mean())
        found["longest"].append(lengths[0])
        found["shortest"].append(lengths[-1])
        if step.name in SHOWN:
            found["kept"][step.name] = [[short(v.real.item()), short(v.imag.item())]
                                        for v in values if v.imag >= 0]
    return {name: values if name == "kept" else numbers(values) for name, values in found.items()}


def past(tokens: Tensor) -> dict:
    """The influence of the future, of itself and of earlier tokens on each token's last state."""
    s = residual_stream(network("trained")[0], tokens[:, :PAST])
    felt = influence(lambda x: reduce(lambda x, step: step(x), s.sublayers, x), s.x)   # (T, T)
    future = felt.triu(1).max().item()
    share = felt[1:] / felt[1:].sum(1, keepdim=True)
    by_distance = [share.diagonal(1 - d)[max(0, 1 - d):] for d in range(PAST // 2)]
    return {"future": future, "itself": short(share.diagonal(1).mean()),
            "first": short(share[:, 0].mean()),
            "by distance": numbers(row.mean() for row in by_distance)}


def parts(_: Mapping[str, dict]) -> dict[str, Callable[[], dict]]:
    every = windows()
    few = {name: tokens for name, tokens in every.items() if int(name.split()[1]) < FEW}
    return {**{f"turns/{name}": partial(turns, "trained", tokens)
               for name, tokens in every.items()},
            **{f"untrained/{name}": partial(turns, "untrained", tokens)
               for name, tokens in every.items()},
            **{f"past/{name}": partial(past, tokens) for name, tokens in few.items()},
            **{f"eigenvalues/{name}": partial(eigenvalues, tokens)
               for name, tokens in few.items()}}


def arrange(found: dict[str, dict]) -> dict:
    """Return means over windows, as `real` does, and one window's eigenvalues as they are."""
    shown = {key: row.pop("kept") for key, row in found.items() if "kept" in row}
    return {"network": network("trained")[2], "windows": list(windows()), "tokens": LENGTH,
            "eigenvalues shown": next(iter(shown.values())), **over_windows(found)}


STUDY = Measurement("real_turns", "Do the sublayers of a real network rotate, mirror and erase, "
                    "and what do they hear of the past?", parts, arrange, __file__)
