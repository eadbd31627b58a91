"""The kernels between two sublayers: the write of one, joined with the generator of the next,

    Z = H X + b ⊗ h        y = W (z / rms z)        then u = aᵀZ, with a from y

and the gradient of all three, which forms ∂Z on chip and never writes it.

The forward pass has two phases, because a depends on y, and y depends on all of Z. The first phase
reads X and h, and writes Z and its products with W. The second phase reads Z for u. Together they
move 3n + 2 vectors per token.

The backward pass has two phases too. The first phase reads Z and ∂u for ∂a = Z ∂u. From ∂a, ∂b and
∂H autograd forms ∂y. The second phase reads G, the gradient of Z from later sublayers, and X, h and
∂u. It forms Z again, and ∂Z, on chip,

    ∂Z = G + a ⊗ ∂u + (the gradient through y)      ∂X = Hᵀ∂Z        ∂h = bᵀ∂Z
                                                    ∂H = ∂Z Xᵀ       ∂b = ∂Z h

and writes ∂X and ∂h. The phases move n + 1 and 3n + 3 vectors per token. Autograd would write three
tensors as large as Z (a ⊗ ∂u, the gradient through y, and G), then read and add them.

So the read doesn't write its gradient with respect to Z. It hands the factors a and ∂u back to the
kernel that needs them, as the gradients of two more outputs of the first phase. These two outputs
are its ports. They take no memory, and `stream_read` alone takes them.

Legend: N tokens, n streams, d features per stream, O outputs y per token, padded to OUTPUTS;
r = 1 / rms z. Outputs, W, r, coefficients and sums are float32.
"""

import torch
from torch import Tensor

from geolab import kernels
from geolab.kernels import generate, launch
from geolab.kernels.launch import expanded, twin
from geolab.kernels.tiles import Layout, ReadGradients, Write, WriteGradients

# for bfloat16 states of up to four streams
FORWARD, BACKWARD = Layout(64, 64, 8, stages=3), Layout(16, 128, 8, 3, programs=1)
# for more streams that are mixed, whose W has up to 128 rows
WIDE_FORWARD, WIDE_BACKWARD = Layout(64, 16, 8), Layout(32, 16, 8, programs=1)
# the same where each stream has a length, and for other dtypes: in larger tiles they would spill,
# or not fit into shared memory
APART_FORWARD, APART_BACKWARD = Layout(32, 16, 8), Layout(32, 16, 8, 1, programs=1)
WIDE_SINGLE = Layout(32, 8, 8, programs=1)


@twin
def stream_generate(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, tuple]:
    """X, y and the ports, as `operators.stream_generate`, for n up to 4.

    With `stream_read` the forward pass moves (2n + 1) d numbers per token. The backward pass adds
    up the gradients from all readers of X, and moves (n + 1) d and (3n + 1) d numbers.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    launch.require("x", x=x, weight=weight)
    x = x.contiguous()
    port, y, *ports, _ = _stream_join(x, weight.float().contiguous(), eps, None, None)
    return Ported.apply(x, port), y, tuple(ports)


@twin
def stream_join(x: Tensor, matrix: Tensor, weights: Tensor, update: Tensor, weight: Tensor,
                eps: float) -> tuple[Tensor, Tensor, tuple]:
    """Z, y and the ports, as `operators.stream_join`, for n up to 4.

    With `stream_read` the forward pass moves (3n + 2) d numbers per token, and the backward pass
    (4n + 4) d.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    launch.require("x", x=x, matrix=matrix, weights=weights, update=update, weight=weight)
    *tokens, n, d = x.shape
    given = torch.cat([expanded(matrix, *tokens, n, n).flatten(-2),
                       expanded(weights, *tokens, n)], dim=-1).float()
    z, y, *ports, _ = _stream_join(x.contiguous(), weight.float().contiguous(), eps, given,
                                   expanded(update, *tokens, d).contiguous())
    return z, y, tuple(ports)


class Ported(torch.autograd.Function):
    """x, with its gradient sent to a port."""

    @staticmethod
    def forward(ctx, x: Tensor, port: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[None, Tensor]:
        return None, grad


def _launch(x: Tensor, weight: Tensor, eps: float, c: Tensor | None, h: Tensor | None, z: Tensor,
            y: Tensor, _, __, r: Tensor) -> None:
    generate.join(x.flatten(-2), eps, y, r, *products(x, weight, eps, c, h, z, y, r))


def products(x: Tensor, weight: Tensor, eps: float, c: Tensor | None, h: Tensor | None, z: Tensor,
             y: Tensor, r: Tensor, norms: int = 0) -> tuple[Tensor, Tensor]:
    """Fill Z, and y and r or parts of them, as `generate.state_forward` returns them."""
    if h is None and norms < 2:
        x = x.flatten(-2)
        return generate.state_forward(x.unsqueeze(-2), weight, eps, y, r, None,
                                      generate.layout_of(x, weight), norms)
    streams = 1 << (x.shape[-2] - 1).bit_length()
    # three tiles with a float32 update don't fit into shared memory
    fitting = FORWARD if (x if h is None else h).element_size() == 2 else FORWARD._replace(stages=2)
    layout = (fitting._replace(features=min(64, 256 // streams)) if x.dtype == torch.bfloat16
              else Layout(64, min(32, 128 // streams), 8))
    if streams > kernels.MOST_JOINED and len(weight) > 32:
        layout = _wide(x, WIDE_FORWARD, APART_FORWARD, norms)
    elif len(weight) > 32:
        layout = layout._replace(features=layout.features // 2)
    write = None if h is None else Write(c, h, z)
    return generate.state_forward(x, weight, eps, y, r, write, layout, norms)


def _wide(x: Tensor, layout: Layout, apart: Layout, lengths: int) -> Layout:
    if x.dtype != torch.bfloat16:
        return WIDE_SINGLE
    return apart if lengths > 1 else layout


def _launch_backward(gz: Tensor, gy: Tensor, gu: Tensor, a: Tensor, x: Tensor, weight: Tensor,
                     c: Tensor | None, h: Tensor | None, y: Tensor, r: Tensor, gx: Tensor,
                     gw: Tensor, gc: Tensor, gh: Tensor) -> None:
    scaled = generate.scale(gy, x.flatten(-2), y, r)
    backward(scaled, ReadGradients(gz, gu, a), x, weight, c, h, gx, gw, gc, gh)


def backward(scaled: generate.Scaled, read: ReadGradients, x: Tensor, weight: Tensor,
             c: Tensor | None, h: Tensor | None, gx: Tensor, gw: Tensor, gc: Tensor, gh: Tensor,
             *others: tuple[Tensor, Tensor]) -> None:
    """Fill the gradients of X and W, and those of a write, as `generate.state_backward`."""
    write = None if h is None else WriteGradients(c, h, gc, gh)
    layout = BACKWARD if x.dtype == torch.bfloat16 else Layout(32, 32, 8, programs=1)
    wide, many = x.shape[-2] > kernels.MOST_JOINED, len(weight) > 32
    if wide and many:
        lengths = scaled.shrink.numel() // x.shape[:-2].numel()
        layout = _wide(x, WIDE_BACKWARD, APART_BACKWARD, lengths)
    elif wide or many:
        layout = layout._replace(features=layout.features // 2)
    generate.state_backward(scaled, x, weight, gx, gw, read, write, layout, *others)


@launch.op("geolab::stream_join", _launch)
def _stream_join(x: Tensor, weight: Tensor, eps: float, c: Tensor | None,
                 h: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return Z, y, the ports of ∂u and a, and r. If nothing is written, a port for the gradient of
    X stands in place of Z.

    c has the rows of H, and then b.
    """
    *tokens, n, d = x.shape
    z = x.new_empty(1).expand(x.shape) if h is None else x.new_empty(x.shape)
    return (z, weight.new_empty((*tokens, len(weight))), x.new_empty(1).expand(*tokens, d),
            weight.new_empty(1).expand(*tokens, n), weight.new_empty(tokens))


@launch.op("geolab::stream_join_backward", _launch_backward)
def _stream_join_backward(
        gz: Tensor, gy: Tensor, gu: Tensor, a: Tensor, x: Tensor, weight: Tensor, c: Tensor | None,
        h: Tensor | None, y: Tensor, r: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    given = [a.new_empty(0) if given is None else given for given in (c, h)]
    return tuple(of.new_empty(of.shape) for of in (x, weight, *given))


def _vjp(gz, gy, gu, a, x, weight, c, h, y, r):
    found = _stream_join_backward(gz, gy, gu, a, x, weight, c, h, y, r)
    return *found[:2], None, *(found[2:] if h is not None else ())


launch.differentiate(_stream_join, _vjp, outputs=4, keep=lambda inputs, outputs: (
    *inputs[:2], *inputs[3:], outputs[1], outputs[4]))
