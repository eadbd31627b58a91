"""The panels of `compute`: their questions, their fields, and the texts that stand there at first.

A panel's `results` and the function of its name in compute.js give the same list: a label, how it
is shown ("matrix", "numbers" or "plane"), and the values.
"""

from collections.abc import Callable
from math import cos, degrees, radians, sin
from typing import NamedTuple

import torch
from torch import Tensor

from geolab import operators

Result = tuple[str, str, Tensor]


class Field(NamedTuple):
    """A field that a reader fills."""

    label: str
    start: str
    kind: str = "number"              # or "count", "vector", "matrix"
    low: float = -100
    high: float = 100
    step: float = 0.01
    sizes: tuple[int, ...] = (2, 3, 4)  # how many numbers a vector has, or rows a matrix
    like: str = ""                    # the field whose size it has
    nonzero: bool = False

    @property
    def wants(self) -> str:
        """The kind of value that the field takes, in words."""
        bounds = f"from {self.low:g} to {self.high:g}".replace("-", "−")
        sizes = " or ".join(", ".join(map(str, self.sizes)).rsplit(", ", 1))
        same = f", as many as {self.like}" if self.like else ""
        return {"number": f"a number {bounds}", "count": f"a whole number {bounds}",
                "vector": f"{sizes} numbers {bounds}{same}, with spaces between them"
                          + (", not all of them 0" if self.nonzero else ""),
                "matrix": f"{sizes} rows{same}, with a semicolon between rows, each of as many "
                          f"numbers {bounds}"}[self.kind]


class Panel(NamedTuple):
    """A question, the fields, and what is made of them."""

    question: str
    fields: dict[str, Field]
    results: Callable[..., list[Result]]


def spectrum(a: Tensor) -> Tensor:
    """The eigenvalues by real part, then imaginary part, largest first: (n, n) -> (n,)."""
    values, scale = torch.linalg.eigvals(a).tolist(), float(a.abs().max()) or 1.0
    # two that are conjugate have the same real part but for rounding
    ordered = sorted(values, key=lambda z: (-round(z.real / scale * 1e9), -z.imag))
    return torch.tensor(ordered, dtype=torch.complex128)


def delta(k, beta, x):
    k = operators.unit_direction(k)
    a = operators.delta_matrix(k, beta)
    after = operators.delta_shortcut(x, k, beta)
    return [("A = I − β k kᵀ, where k has length 1", "matrix", a),
            ("Eigenvalues of A", "plane", spectrum(a)), ("A x", "numbers", after),
            ("Length of x, and of A x", "numbers", torch.stack([x.norm(), after.norm()]))]


def gain(H, a, b, f, L):
    one = H + f * torch.outer(b, a)
    all_layers = torch.linalg.matrix_power(one, L)
    return [("One layer, M = H + f b aᵀ", "matrix", one),
            (f"All layers, M to the power L = {L}", "matrix", all_layers),
            ("Eigenvalues of M", "plane", spectrum(one)),
            ("Gain, the largest sum of sizes in a row", "numbers",
             all_layers.abs().sum(-1).max()[None])]


def sinkhorn(z, s):
    p = operators.sinkhorn(z, s, form="log")
    return [(f"P at s = {s}", "matrix", p), ("Row sums", "numbers", p.sum(1)),
            ("Column sums", "numbers", p.sum(0)),
            ("Second singular value", "numbers", torch.linalg.svdvals(p)[1:2])]


def consensus(z, w, L):
    odd, even = operators.sinkhorn(z), operators.sinkhorn(w)
    product = torch.eye(len(z), dtype=z.dtype)
    for layer in range(L):
        product = (even if layer % 2 else odd) @ product
    return [("H of layers 1, 3, …", "matrix", odd), ("H of layers 2, 4, …", "matrix", even),
            (f"Product of all layers, L = {L}", "matrix", product),
            ("Second singular value of the product", "numbers",
             torch.linalg.svdvals(product)[1:2]),
            ("Largest distance of an entry from 1/n", "numbers",
             (product - 1 / len(z)).abs().max()[None])]


def cayley(z):
    n = {1: 2, 3: 3, 6: 4}[len(z)]
    m = torch.zeros(4, 4, dtype=z.dtype)  # the rest of Q is the identity
    m[tuple(torch.triu_indices(n, n, 1))] = z
    q = operators.cayley_skew4(m.mT - m)[:n, :n]
    values = spectrum(q)
    return [("Q = (I − M)⁻¹ (I + M)", "matrix", q), ("Eigenvalues of Q", "plane", values),
            ("Their angles in degrees", "numbers", values.angle() * degrees(1)),
            ("Distance from −1 to the nearest one", "numbers", (values + 1).abs().min()[None])]


def gate(turn, mirror, gamma):
    c, s = cos(radians(turn)), sin(radians(turn))
    q = torch.tensor([[c, -s], [s, c]], dtype=torch.float64)
    k = torch.tensor([cos(radians(mirror)), sin(radians(mirror))], dtype=torch.float64)
    g = operators.gated_matrix(q, k, gamma)
    return [("G = γ Q + (1 − γ) H", "matrix", g), ("Eigenvalues of G", "plane", spectrum(g)),
            ("Singular values", "numbers", torch.linalg.svdvals(g)),
            ("Determinant", "numbers", torch.linalg.det(g)[None])]


def commutator(A, B):
    one, other = A @ B, B @ A
    return [("A B", "matrix", one), ("B A", "matrix", other),
            ("A B − B A", "matrix", one - other),
            ("Length of A B − B A over that of A B", "numbers",
             torch.stack([(one - other).norm() / (one.norm() or 1)]))]


LAYERS = {"kind": "count", "low": 1, "high": 60, "step": 1}
PANELS = {
    "delta": Panel(
        "Which β takes all of k out of x, and which β keeps the length of every x?",
        {"k": Field("k", "0.6 0.8", "vector", nonzero=True),
         "beta": Field("β", "0.4", low=-1, high=3),
         "x": Field("x", "5 0", "vector", like="k")}, delta),
    "gain": Panel(
        "Each stream gets a tenth of the other one. What do 60 layers make of it, and which H, "
        "other than the identity, keeps the gain at 1?",
        {"H": Field("H", "1 0.1; 0.1 1", "matrix"),
         "a": Field("read weights a", "1 0", "vector", like="H"),
         "b": Field("write weights b", "1 1", "vector", like="H"),
         "f": Field("slope f of the layer", "0", low=-1, high=1),
         "L": Field("layers L", "6", **LAYERS)}, gain),
    "sinkhorn": Panel(
        "How many iterations do the columns need until all sums show 1.000, and how many if the 3 "
        "becomes a 9?",
        {"z": Field("logits z", "3 0 0; 0 0 1; 2 1 0", "matrix", low=-1000, high=1000),
         "s": Field("iterations s", "1", kind="count", low=1, high=100, step=1)}, sinkhorn),
    "consensus": Panel(
        "After how many layers do all streams hold the same? Which logits delay it?",
        {"z": Field("logits of layers 1, 3, …", "2 0 0; 0 2 0; 0 0 2", "matrix"),
         "w": Field("logits of layers 2, 4, …", "3 0 0; 0 1 2; 0 2 1", "matrix",
                    like="logits of layers 1, 3, …"),
         "L": Field("layers L", "1", **LAYERS)}, consensus),
    "cayley": Panel(
        "Which entry turns the plane by 90 degrees, and which one turns it by 180?",
        {"z": Field("numbers above the diagonal of M", "0.4", "vector", low=-1e6, high=1e6,
                    sizes=(1, 3, 6))}, cayley),
    "gate": Panel(
        "At which gate is the smaller singular value 0? Does it depend on the two angles?",
        {"turn": Field("angle of the rotation Q, in degrees", "60", low=-180, high=180, step=1),
         "mirror": Field("angle of the arrow k of the mirror H, in degrees", "20", low=-180,
                         high=180, step=1),
         "gamma": Field("gate γ", "0.9", low=0, high=1)}, gate),
    "commutator": Panel(
        "Which B, other than a multiple of A or of the identity, makes both orders agree?",
        {"A": Field("A", "2 0; 0 1", "matrix"),
         "B": Field("B", "0.8 -0.6; 0.6 0.8", "matrix", like="A")}, commutator),
}
