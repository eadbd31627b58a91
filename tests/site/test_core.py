"""core.js computes what geolab.operators compute in float64, in two browsers."""

import pytest
import torch

from geolab import operators
from geolab.show.compute import FILES

pytestmark = pytest.mark.browser
SIZES = (1, 2, 3, 4)


def normal(generator, *shape, scale=1.0):
    return scale * torch.randn(shape, generator=generator, dtype=torch.float64)


def vectors(generator):
    """Of all sizes and scales, with zeros among their entries."""
    found = [normal(generator, n, scale=scale) for n in SIZES for scale in (1e-8, 1, 1, 1, 1e8)]
    return found + [torch.eye(n, dtype=torch.float64)[n - 1] for n in SIZES]


def matrices(generator):
    """Random ones at three scales, and hard ones: zero, equal eigenvalues, singular, graded."""
    found = []
    for n in SIZES:
        eye = torch.eye(n, dtype=torch.float64)
        q = torch.linalg.qr(normal(generator, n, n))[0]
        found += [normal(generator, n, n, scale=scale) for scale in [1e-8, 1e8] + [1] * 8]
        found += [0 * eye, eye, -3 * eye, q, q @ q.mT, eye.roll(1, 0), eye.flip(0),
                  torch.ones(n, n, dtype=torch.float64),
                  q @ torch.diag(torch.tensor([2.0, 2, -1, 2])[:n].double()) @ q.mT,
                  torch.outer(normal(generator, n), normal(generator, n)),
                  normal(generator, n, n) * 10.0 ** torch.arange(0, -2 * n, -2),
                  normal(generator, n, n).triu(), eye + 1e-8 * normal(generator, n, n)]
    return found


def logits(generator):
    """Ordinary, sharp, nearly equal and huge ones."""
    return [normal(generator, n, n, scale=scale) for n in SIZES
            for scale in (0, 1e-8, 1, 1, 3, 10, 100, 1e8)]


def numbers(generator, count: int):
    return [normal(generator, count, scale=scale) for scale in (0, 1e-8, 1, 1, 1, 10, 100)]


def units(generator):
    return [(operators.unit_direction(v),) for v in vectors(generator)]


def with_beta(generator, found):
    betas = (0.0, 1.0, 2.0, -0.5, 1e-8, 3.7)
    return [(*given, betas[k % 6]) for k, given in enumerate(found)]


def pairs(generator):
    """u and v that are alike, parallel, tiny or large are among them."""
    found = [(u, normal(generator, len(u))) for u in vectors(generator)]
    return found + [(u, 2 * u) for u in vectors(generator)[:20]]


def skews(generator):
    """With an upper triangle of any size."""
    return [(z, n) for n in SIZES[1:] for z in numbers(generator, n * (n - 1) // 2)]


def cayley(z, n):
    """A block of the 4 × 4 transform: the rest of the skew matrix is zero."""
    m = torch.zeros(4, 4, dtype=torch.float64)
    m[tuple(torch.triu_indices(n, n, 1))] = z
    return operators.cayley_skew4(m - m.mT)[:n, :n]


# name in core.js -> the JavaScript of a call, the same in Python, and a generator's inputs
CASES = {
    "unit": ("unit(a)", operators.unit_direction, lambda g: [(v,) for v in vectors(g)]),
    "delta": ("delta(a, b)", operators.delta_matrix, lambda g: with_beta(g, units(g))),
    "householder": ("householder(a)", operators.householder_matrix, units),
    "deltaUpdate": ("deltaUpdate(a, b, c, d)", operators.delta_update, lambda g: with_beta(g, [
        (x, operators.unit_direction(normal(g, len(x))), float(normal(g))) for x in vectors(g)])),
    "cayley": ("cayley(skew(a, b))", cayley, skews),
    "cayleyRank2": ("cayleyRank2(a, b, c)", operators.cayley_rank2, lambda g: with_beta(
        g, [(u / u.norm(), v / v.norm()) for u, v in pairs(g)])),
    "blend": ("blend(a, b, c)", operators.blend, lambda g: [
        (a, normal(g, *a.shape), gate) for a in matrices(g)[::4] for gate in (0.0, 0.3, 1.0)]),
    "sinkhorn": ("sinkhorn(a, b)", lambda z, steps: operators.sinkhorn(z, steps, form="log"),
                 lambda g: [(z, steps) for z in logits(g) for steps in (1, 2, 20)]),
    "permutationMixture": ("permutationMixture(a, b)", operators.permutation_mixture, lambda g: [
        (z, n) for n, count in zip(SIZES, (1, 2, 6, 24), strict=True) for z in numbers(g, count)]),
    "circulantMixture": ("circulantMixture(a)", operators.circulant_mixture,
                         lambda g: [(z,) for n in SIZES for z in numbers(g, n)]),
    "kroneckerMixture": ("kroneckerMixture(a)", operators.kronecker_mixture, lambda g: [
        (z.view(-1, 2),) for count in (2, 4) for z in numbers(g, count)]),
    "orthostochastic": ("orthostochastic(a, b, c)", operators.orthostochastic, lambda g: [
        (z, n, s) for n in SIZES for s in (1, 2) for z in numbers(g, n * s * (n * s - 1) // 2)]),
    "product": ("product([a, b])", lambda a, b: b @ a,
                lambda g: [(a, normal(g, *a.shape)) for a in matrices(g)]),
    "singularValues": ("singularValues(a)", torch.linalg.svdvals,
                       lambda g: [(a,) for a in matrices(g)]),
    "eigenvalues": ("eigenvalues(a)", lambda a: torch.view_as_real(torch.linalg.eigvals(a)),
                    lambda g: [(a,) for a in matrices(g)]),
}


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    page = tmp_path_factory.mktemp("core") / "core.html"
    page.write_text(f'<!DOCTYPE html><script src="{FILES[0].as_uri()}"></script>')
    return page.as_uri()


def plain(value):
    return value.tolist() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("operator", CASES)
def test_a_browser_computes_what_geolab_computes(in_both, operator):
    call, function, inputs = CASES[operator]
    script = f"given => {{ with (geolabCore) return given.map(([a, b, c, d]) => {call}); }}"
    given = inputs(torch.Generator().manual_seed(len(operator)))
    found = in_both.evaluate(script, [[plain(value) for value in values] for values in given])
    for values, got in zip(given, found, strict=True):
        wanted = function(*values)
        got = torch.tensor(got, dtype=torch.float64).view(wanted.shape)
        if operator == "eigenvalues":  # in any order: each one has its nearest
            apart = torch.cdist(got, wanted)
            error = max(apart.amin(0).max(), apart.amin(1).max())
            scale = values[0].abs().max()  # that of rounding: a nilpotent matrix has only zeros
        else:
            error, scale = (got - wanted).abs().max(), wanted.abs().max()
        assert error <= 1e-6 * scale, (values, got, wanted)
