"""v = height σ(V u + b) and β = 2 σ(w c + b′), the numbers of a delta update, and their gradients.

A program holds V and w in registers and goes along the tokens, while the next tokens are on their
way into its shared memory. So the maps are read once per program, and u and c once per pass. The
backward pass also adds up the gradients of the maps in registers.

`delta_update` then reads the state. One kernel for both would move the same vectors: u and c have
no part in the state's pass, nor has the state in theirs. Compiled for Hopper, it would fill all
registers of a multiprocessor with one token of 4096 features and 4 channels. In the backward pass
it would spill 48 of a thread's registers, 98 KB per token, beside 147 KB of vectors.

Legend: N tokens, d features, d_v value channels. v, β, sums and their gradients are float32.
"""

from functools import cache
from math import ceil

import torch
import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels import launch, tiles
from geolab.kernels.delta import delta_update
from geolab.kernels.launch import INTERPRETED, differentiate, op, require, twin
from geolab.kernels.totals import add_up

# A thread has 8 features in each of so many tokens, and so many tiles are in use or being loaded.
FORWARD, BACKWARD = dict(tokens=2, stages=3), dict(tokens=1, stages=4)


@twin
def delta_layer(x: Tensor, direction: Tensor, value_of: Tensor, rate_of: Tensor, value_map: Tensor,
                value_bias: Tensor, rate_map: Tensor, rate_bias: Tensor, eps: float,
                height: float = 4.0) -> Tensor:
    """The update, as `operators.delta_layer`, for maps that registers hold.

    The forward pass moves (2 d_v + 3) d numbers per token, and the backward pass (3 d_v + 6) d.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    given = dict(value_of=value_of, rate_of=rate_of, value_map=value_map, value_bias=value_bias,
                 rate_map=rate_map, rate_bias=rate_bias)
    require("x", x=x, direction=direction, **given)
    value, rate = _coefficients_of(*(t.contiguous() for t in given.values()), height)
    value = value if x.ndim > direction.ndim else value.squeeze(-1)
    return delta_update(x, direction, value, rate, eps=eps)


@cache
def plan(d: int, tokens: int, stages: int) -> dict[str, int]:
    """The tile of a program: whole tokens, as many in each thread as asked."""
    features = max(1 << (d - 1).bit_length(), 8)
    warps = min(max(features // 256, 4), 16)
    return dict(TOKENS=(8 if INTERPRETED else 1) * tokens * max(256 * warps // features, 1),
                FEATURES=features, STAGES=stages, num_warps=warps)


def _grid(u: Tensor, tile: dict[str, int]) -> tuple[int]:
    """As many programs as run at once, with 16 warps on a multiprocessor."""
    at_once = 16 // tile["num_warps"] * launch.describe(u.device).multiprocessors
    return (min(ceil(u.shape[:-1].numel() / tile["TOKENS"]), at_once),)


def _launch(u: Tensor, c: Tensor, value_map: Tensor, value_bias: Tensor, rate_map: Tensor,
            rate_bias: Tensor, height: float, v: Tensor, beta: Tensor) -> None:
    N, d = u.shape[:-1].numel(), u.shape[-1]
    tile = plan(d, **FORWARD)
    _coefficients[_grid(u, tile)](u, c, value_map, value_bias, rate_map, rate_bias, v, beta, N, d,
                                  height, len(value_map), **tile)


def _launch_backward(of_v: Tensor, of_beta: Tensor, u: Tensor, c: Tensor, value_map: Tensor,
                     value_bias: Tensor, rate_map: Tensor, rate_bias: Tensor, height: float,
                     v: Tensor, beta: Tensor, of_u: Tensor, of_c: Tensor, *of_maps: Tensor) -> None:
    N, d = u.shape[:-1].numel(), u.shape[-1]
    tile = plan(d, **BACKWARD)
    grid = _grid(u, tile)
    parts = [v.new_empty((*grid, *of.shape)) for of in of_maps]
    _coefficients_backward[grid](of_v, of_beta, u, c, value_map, rate_map, v, beta, of_u, of_c,
                                 *parts, N, d, height, len(value_map), **tile)
    add_up(*zip(parts, of_maps, strict=True))


@op("geolab::delta_coefficients", _launch)
def _coefficients_of(u: Tensor, c: Tensor, value_map: Tensor, value_bias: Tensor, rate_map: Tensor,
                     rate_bias: Tensor, height: float) -> tuple[Tensor, Tensor]:
    *tokens, _ = u.shape
    return (u.new_empty((*tokens, len(value_map)), dtype=torch.float32),
            u.new_empty(tokens, dtype=torch.float32))


@op("geolab::delta_coefficients_backward", _launch_backward)
def _coefficients_of_backward(
        of_v: Tensor, of_beta: Tensor, u: Tensor, c: Tensor, value_map: Tensor, value_bias: Tensor,
        rate_map: Tensor, rate_bias: Tensor, height: float, v: Tensor, beta: Tensor,
        ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    maps = (value_map, value_bias, rate_map, rate_bias)
    return tuple(t.new_empty(t.shape) for t in (u, c, *maps))


differentiate(_coefficients_of, _coefficients_of_backward, outputs=2,
              keep=lambda inputs, outputs: (*inputs, *outputs))


# ---------------------------------------------------------------- in Triton

@triton.jit
def _rows(V, W, d, d_v: tl.constexpr, FEATURES: tl.constexpr):
    """The rows of V, and w, as d_v + 1 tiles (1, FEATURES)."""
    feature, rows = tl.arange(0, FEATURES)[None, :], ()
    for i in tl.static_range(d_v):
        rows += (tl.load(V + i * d + feature, mask=feature < d, other=0.0).to(tl.float32),)
    return rows + (tl.load(W + feature, mask=feature < d, other=0.0).to(tl.float32),)


@triton.jit(do_not_specialize=["N"])
def _coefficients(U, C, VALUE_MAP, VALUE_BIAS, RATE_MAP, RATE_BIAS, V, BETA, N, d, height,
                  d_v: tl.constexpr, TOKENS: tl.constexpr, FEATURES: tl.constexpr,
                  STAGES: tl.constexpr):
    COLUMNS: tl.constexpr = triton.next_power_of_2(d_v + 1)  # v, then β
    column, feature = tl.arange(0, COLUMNS)[None, :], tl.arange(0, FEATURES)[None, :]
    rows = _rows(VALUE_MAP, RATE_MAP, d, d_v, FEATURES)
    bias = tl.where(column < d_v, tl.load(VALUE_BIAS + column, mask=column < d_v, other=0.0),
                    tl.load(RATE_BIAS)).to(tl.float32)
    most = tl.where(column < d_v, height, 2.0)
    for start in tl.range(tl.program_id(0) * TOKENS, N, tl.num_programs(0) * TOKENS,
                          num_stages=STAGES):
        token = (start + tl.arange(0, TOKENS)).to(tl.int64)[:, None]
        inside = token < N
        mask = inside & (feature < d)
        u = tl.load(U + token * d + feature, mask=mask, other=0.0).to(tl.float32)
        c = tl.load(C + token * d + feature, mask=mask, other=0.0).to(tl.float32)
        sums = tiles.zeros(d_v + 1, U, TOKENS, FEATURES)
        for i in tl.static_range(d_v):
            sums = tiles.added(sums, i, u, rows[i])
        sums = tiles.added(sums, d_v, c, rows[d_v])
        # side by side they cross lanes and warps together
        side = tl.reshape(tiles.side_by_side(sums), [TOKENS, sums[0].shape[1], COLUMNS])
        numbers = most * tl.sigmoid(tl.sum(side, axis=1) + bias)
        tl.store(V + token * d_v + column, numbers, mask=inside & (column < d_v))
        tl.store(BETA + token + 0 * column, numbers, mask=inside & (column == d_v))


@triton.jit(do_not_specialize=["N"])
def _coefficients_backward(GV, GBETA, U, C, VALUE_MAP, RATE_MAP, V, BETA, GU, GC, GVALUE_MAP,
                           GVALUE_BIAS, GRATE_MAP, GRATE_BIAS, N, d, height, d_v: tl.constexpr,
                           TOKENS: tl.constexpr, FEATURES: tl.constexpr, STAGES: tl.constexpr):
    """Write the gradients of u and c, and a part of those of the maps."""
    feature, program = tl.arange(0, FEATURES)[None, :], tl.program_id(0)
    rows, of_rows, of_biases = _rows(VALUE_MAP, RATE_MAP, d, d_v, FEATURES), (), ()
    for _ in tl.static_range(d_v + 1):
        of_rows += (tl.zeros([1, FEATURES], tl.float32),)
        of_biases += (tl.zeros([TOKENS, 1], tl.float32),)
    for start in tl.range(program * TOKENS, N, tl.num_programs(0) * TOKENS, num_stages=STAGES):
        token = (start + tl.arange(0, TOKENS)).to(tl.int64)[:, None]
        inside = token < N
        mask = inside & (feature < d)
        u = tl.load(U + token * d + feature, mask=mask, other=0.0).to(tl.float32)
        c = tl.load(C + token * d + feature, mask=mask, other=0.0).to(tl.float32)
        gu, moved, biased = tl.zeros_like(u), (), ()
        for i in tl.static_range(d_v):
            v = tl.load(V + token * d_v + i, mask=inside, other=0.0)
            g = tl.load(GV + token * d_v + i, mask=inside, other=0.0) * v * (1 - v / height)
            gu += g * rows[i]
            moved += (of_rows[i] + tl.sum(g * u, axis=0, keep_dims=True),)
            biased += (of_biases[i] + g,)
        beta = tl.load(BETA + token, mask=inside, other=0.0)
        g = tl.load(GBETA + token, mask=inside, other=0.0) * beta * (1 - beta / 2)
        of_rows = moved + (of_rows[d_v] + tl.sum(g * c, axis=0, keep_dims=True),)
        of_biases = biased + (of_biases[d_v] + g,)
        tl.store(GU + token * d + feature, gu.to(GU.dtype.element_ty), mask=mask)
        tl.store(GC + token * d + feature, (g * rows[d_v]).to(GC.dtype.element_ty), mask=mask)
    for i in tl.static_range(d_v):
        tl.store(GVALUE_MAP + (program * d_v + i) * d + feature, of_rows[i], mask=feature < d)
        tl.store(GVALUE_BIAS + program * d_v + i, tl.sum(of_biases[i]))
    tl.store(GRATE_MAP + program * d + feature, of_rows[d_v], mask=feature < d)
    tl.store(GRATE_BIAS + program, tl.sum(of_biases[d_v]))
