"""Which calls use a kernel, which use the reference, and which are refused."""

import inspect
from contextlib import nullcontext
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
from shared_kernels import check, normal
from torch import func
from torch.distributed.tensor import DTensor, Shard, distribute_tensor, init_device_mesh
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.cases import CASES, draws
from geolab import kernels, operators
from geolab.kernels import streams

HALF, SINGLE = torch.bfloat16, torch.float32
every_case = pytest.mark.parametrize("name", CASES)


def given(name, N=3, n=4, d=8, device="cpu"):
    return CASES[name].inputs(N, n, d, *draws(device, SINGLE, seed=0))


def squares(outputs):
    """The sum of the squares of all numbers of an output, or of several."""
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    return sum(y.square().sum() for y in outputs)


class Seen(TorchDispatchMode):
    """The operations of PyTorch inside it: a list of their names, inputs and outputs."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        self.calls.append((function.__name__, args, out))
        return out


def test_the_device_and_the_dtype_decide_unless_told():
    x = torch.ones(1)
    assert not kernels.serves(x)
    with kernels.use("always"):
        assert all(kernels.serves(x.to(dtype)) for dtype in (SINGLE, HALF, torch.float16))
        assert not kernels.serves(x.double())
        with kernels.use("never"):
            assert not kernels.serves(x)
        assert kernels.serves(x)
    with pytest.raises(ValueError, match="mode must be one of"), kernels.use("maybe"):
        pass
    assert not kernels.serves(x)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@every_case
def test_what_torch_func_transforms_takes_the_reference(name):
    function, inputs = CASES[name].function, given(name, N=5)
    places = tuple(range(len(inputs)))
    with kernels.use("always"):
        got = func.grad(lambda *x: squares(function(*x)), places)(*inputs)
        # α and W belong to all tokens
        dims = tuple(0 if len(x) == 5 else None for x in map(torch.atleast_1d, inputs))
        each = func.vmap(function, in_dims=dims)(*inputs)
    with kernels.use("never"):
        leaves = [x.requires_grad_() for x in inputs]
        wanted = function(*leaves)
        back = torch.autograd.grad(squares(wanted), leaves)
    assert_close(each, wanted)
    for ours, theirs in zip(got, back, strict=True):
        assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("watch", [nullcontext, Seen])
@every_case
def test_a_kernel_refuses_second_derivatives_and_batched_gradients_by_name(name, watch):
    function, inputs = CASES[name].function, [x.requires_grad_() for x in given(name)]
    with kernels.use("always"), watch():
        loss = squares(function(*inputs))
    ways = {"second derivatives": dict(create_graph=True),
            "batched gradients": dict(grad_outputs=torch.ones(2), is_grads_batched=True)}
    for what, asked in ways.items():
        with pytest.raises(RuntimeError, match=rf"the kernel of \w+ has no {what}: .*'never'"):
            torch.autograd.grad(loss, inputs, retain_graph=True, **asked)
    kept = torch.autograd.grad(loss, inputs, retain_graph=True)
    assert_close(torch.autograd.grad(loss, inputs), kept, rtol=0, atol=0)


@pytest.fixture
def mesh():
    """One process as a group of processes."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


# a DTensor doesn't meet the constant tables of the others' reference
@pytest.mark.parametrize("name", ["stream_read", "stream_mix_write", "stream_join", "delta_update",
                                  "rms_linear", "sinkhorn"])
def test_a_dtensor_takes_the_reference(mesh, name):
    function = CASES[name].function
    inputs = [distribute_tensor(x, mesh, [Shard(0)]).requires_grad_() for x in given(name)]
    with kernels.use("always"):
        y = function(*inputs)
        assert all(isinstance(part, DTensor) for part in (y if isinstance(y, tuple) else (y,)))
        grads = torch.autograd.grad(squares(y), inputs)
    assert all(isinstance(grad, DTensor) for grad in grads)


def test_every_twin_has_the_name_of_an_operator():
    assert kernels.TWINS and all(hasattr(operators, name) for name in kernels.TWINS)
    # the case of stream_join measures both joined kernels
    assert {case.twin for case in CASES.values()} == set(kernels.TWINS) - {"stream_generate"}


# ---------------------------------------------------------------- arguments

@every_case
def test_an_operator_hands_over_to_its_kernel_and_compiles_in_one_graph(device, name):
    case, inputs, calls = CASES[name], given(name, N=37, d=20, device=device), []
    twin = kernels.TWINS[case.twin]

    def counted(*args, **options):
        calls.append(case.twin)
        return twin(*args, **options)

    torch.compiler.reset()  # the number of recompilations is limited, over all tests
    with kernels.use("always"):
        with patch.dict(kernels.TWINS, {case.twin: counted}):
            case.function(*inputs)
        assert calls == [case.twin]
        compiled = torch.compile(lambda *x: case.function(*x), fullgraph=True,
                                 backend="aot_eager", dynamic=True)
        check(compiled, case.function, *inputs,
              tolerance=1e-2 if any(x.dtype == HALF for x in inputs) else 1e-4)


@pytest.mark.parametrize("name", [name for name in CASES if name in kernels.TWINS])
def test_a_kernel_refuses_other_dtypes_and_devices_by_name(name):
    case, (x, *others) = CASES[name], given(name)
    first = next(iter(inspect.signature(case.operator).parameters))
    with patch.multiple(kernels, serves=lambda *_: True, joins=lambda *_, **__: True):
        with pytest.raises(TypeError, match=f"^{first} must be float32, bfloat16 or float16, got "
                                            "torch.float64"):
            case.function(x.double(), *others)
        for place in range(len(others)):
            moved = [t.to("meta") if i == place else t for i, t in enumerate(others)]
            with pytest.raises(ValueError, match=rf"^\w+ must be on the device of {first}"):
                case.function(x, *moved)


def fewer(x):
    """The last axis without its last number."""
    return x[..., :-1]


def more(x):
    """One more leading axis."""
    return x[None]


BROADCAST = "must have leading axes that broadcast to those of x, "
REFUSED = [  # a case, the place of the argument that is changed, how, and words of the message
    ("stream_read", 1, fewer, "weights must have 4 features"),
    ("stream_read", 1, more, "weights " + BROADCAST),
    ("stream_read", 1, lambda x: x[:2], rf"weights {BROADCAST}\(3,\), got shape \(2, 4\)"),
    ("stream_read, normed", 2, fewer, "norm must have 8 features"),
    ("stream_mix", 1, fewer, "matrix must have 4 features"),
    ("stream_mix", 1, more, "matrix " + BROADCAST),
    ("stream_mix_write", 1, fewer, "matrix must be 4 × 4"),
    ("stream_mix_write", 1, more, "matrix " + BROADCAST),
    ("stream_mix_write", 2, fewer, "weights must have 4 features"),
    ("stream_mix_write", 2, more, "weights " + BROADCAST),
    ("stream_mix_write", 3, fewer, "update must have 8 features"),
    ("stream_mix_write", 3, more, "update " + BROADCAST),
    ("stream_join", 1, fewer, "matrix must be 4 × 4"),
    ("stream_join", 4, fewer, "weight must have 32 features"),
    ("rms_linear", 1, fewer, "weight must have 32 features"),
    ("rms_linear", 1, more, "weight " + BROADCAST),
    ("delta_update", 1, fewer, "direction must have 8 features"),
    ("delta_update", 2, lambda x: x[:, None], "value must be one number per direction"),
    ("delta_update", 3, lambda x: x[:, None],
     r"beta must be one number per direction, got \(3, 1\) with"),
    ("delta_update, d_v = 4", 0, more, "x must have as many axes as direction"),
    ("delta_layer, d_v = 4", 0, more, "x must have the axes of direction"),
    ("delta_layer, d_v = 4", 3, fewer, r"rate_of must have the shape \(3, 8\)"),
    ("delta_layer, d_v = 4", 4, fewer, r"value_map must have the shape \(4, 8\)"),
    ("diagonal_update", 1, fewer, r"update must have the shape of x, \(3, 8\), got \(3, 7\)"),
    ("diagonal_update", 2, lambda x: x[:1], r"beta must have the shape of x, .* got \(1, 8\)"),
    ("diagonal_update", 3, lambda x: x.expand(2), r"alpha must be one number, got shape \(2,\)"),
    ("gated_mix", 1, more, "u " + BROADCAST),
    ("gated_mix", 2, fewer, "v must have 4 features|u and v must have the same shape"),
    ("gated_mix", 4, fewer, "direction must have 4 features"),
    ("gated_mix", 5, more, "gate " + BROADCAST),
    ("gated_mix", 5, lambda x: None, "gate must be given with direction, got None"),
    ("cayley_rank2", 1, fewer, r"u and v must have the same shape, got \(3, 4\) and \(3, 3\)"),
    ("cayley_rank2", 2, fewer, r"beta must be one number per pair, got shape \(2,\)"),
    ("cayley_skew4", 0, fewer, "w must be 4 × 4"),
    ("sinkhorn", 0, fewer, "logits must be n × n"),
]
OPTIONS = [({"iterations": 0}, "iterations must be at least 1, got 0"),
           ({"order": "row"}, "order must be one of"), ({"form": "exp"}, "form must be one of")]


@pytest.mark.parametrize("mode", ["always", "never"])
@pytest.mark.parametrize("name, place, change, message", REFUSED,
                         ids=[f"{row[0]}: {row[3]}" for row in REFUSED])
def test_a_shape_that_does_not_fit_is_refused_alike(name, place, change, message, mode):
    inputs = list(given(name))
    inputs[place] = change(inputs[place])
    with kernels.use(mode), pytest.raises(ValueError, match=message):
        CASES[name].function(*inputs)


@pytest.mark.parametrize("mode", ["always", "never"])
@pytest.mark.parametrize("options, message", OPTIONS, ids=str)
def test_an_option_that_there_is_not_is_refused_alike(options, message, mode):
    with kernels.use(mode), pytest.raises(ValueError, match=message):
        operators.sinkhorn(torch.ones(3, 4, 4), **options)


def axes(name):
    """The axes of an operator's inputs. Matrices have no d, and those of cayley_skew4 are 4 x 4, as
    are JPmHC's exact ones. No streams have no shifts.
    """
    if "corners" in name or "exact" in name:
        return "N", "d"
    if CASES[name].kind != "matrices":
        return "N", "n", "d"
    return ("N",) if name == "cayley_skew4" else ("N", "n")


@pytest.mark.parametrize(("name", "empty"), [(name, axis) for name in CASES for axis in axes(name)])
def test_an_empty_axis_gives_zeros_or_nothing(device, name, empty):
    # one of the gradients is a single sum, of terms that nearly cancel
    with kernels.use("always"):
        check(CASES[name].function, CASES[name].function, *given(name, **{empty: 0}, device=device),
              tolerance=1e-4)


# ---------------------------------------------------------------- what runs besides the kernel

@pytest.mark.parametrize("mode", ["always", "never"])
def test_no_number_is_copied_from_the_host(device, mode, monkeypatch):
    """A copy would wait for the device, and could not be captured in a CUDA graph."""
    x, u, v, k = (normal(*shape, device=device) for shape in ((5, 3, 8), (5, 3), (5, 3), (5, 3)))
    for copies in ("as_tensor", "asarray", "tensor"):
        monkeypatch.delattr(torch, copies)
    with kernels.use(mode):
        operators.cayley_rank2(u, v, 1.0)
        operators.gated_mix(x, u, v, 0.5, k, 0.3)
        operators.delta_update(u, k, 0.0, 2.0)


@pytest.mark.parametrize("name", ["stream_mix_write", "delta_update", "diagonal_update"])
def test_a_half_precision_update_of_a_float32_state_is_read_as_it_is(device, name):
    x, *others = given(name, N=40, d=64, device=device)
    inputs = [x, *(t.bfloat16() if t.shape == x.shape or t.shape[1:] == x.shape[-1:] else t
                   for t in others)]
    inputs = [t.requires_grad_() for t in inputs]
    with kernels.use("always"), Seen() as seen:
        y = CASES[name].function(*inputs)
        grads = torch.autograd.grad(y, inputs, torch.ones_like(y))
    dtypes = [g.dtype for g in grads]
    assert HALF in dtypes and dtypes == [t.dtype for t in inputs]
    assert "_to_copy.default" not in {called for called, _, _ in seen.calls}
    check(lambda *x: CASES[name].function(*x), CASES[name].function, *inputs, tolerance=1e-2)


def test_eager_code_calls_no_library_and_watched_code_does(device):
    x, a = given("stream_read", device=device)
    with kernels.use("always"), patch.object(streams._stream_read, "library", None):
        alone = operators.stream_read(x, a)
    with kernels.use("always"), Seen() as seen:
        watched = operators.stream_read(x, a)
    assert "stream_read.default" in {name for name, _, _ in seen.calls}
    assert torch.equal(alone, watched)
