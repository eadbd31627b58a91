import gc
from collections import Counter
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from shared_kernels import TOLERANCE, check, distance, generated, normal, with_gradients
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from triton import next_power_of_2

from benchmarks.cases import split
from benchmarks.traffic import traffic
from geolab import kernels, operators
from geolab.graft import graft
from geolab.kernels import joined, launch, streams
from geolab.models import Transformer, TransformerConfig
from geolab.residuals import MHC
from geolab.residuals.constrained import MAPS
from geolab.residuals.mgt_forms import MHCDelta

HALF, SINGLE = torch.bfloat16, torch.float32
NAMES = ("stream_join", "stream_generate")
MANY = 70 if launch.INTERPRETED else 137  # tokens: more than a tile, and the last one isn't full
every_operator = pytest.mark.parametrize("name", NAMES)
interpreted = pytest.mark.skipif(not launch.INTERPRETED,
                                 reason="only Triton's interpreter counts addresses")


def inputs(name, lead, n, d, device, dtype=SINGLE):
    """The tensors of the operator."""
    x = normal(*lead, n, d, seed=1, dtype=dtype, device=device)
    weight = normal(n * (n + 2), n * d, seed=5, device=device) / (n * d)**0.5
    given = (normal(*lead, n, n, seed=2, device=device), normal(*lead, n, seed=3, device=device),
             normal(*lead, d, seed=4, dtype=dtype, device=device))
    return (x, *given, weight) if name == "stream_join" else (x, weight)


def read(function, reads, generated=generated):
    """The state, what is read of it, and its coefficients."""
    def run(*given):
        z, numbers, ports = function(*given, 1e-6)
        a, *others = generated(numbers)
        return z, reads(z, a, ports), a, *others

    return run


def both(name, generated=generated):
    """The kernels and the operators."""
    return [read(getattr(joined, name), streams.stream_read, generated),
            read(getattr(operators, name), operators.stream_read, generated)]


@pytest.mark.parametrize("n, d", [(1, 1), (2, 1100), (3, 130), (4, 1024)])
@pytest.mark.parametrize("dtype", [SINGLE, HALF])
@every_operator
def test_any_number_of_streams_and_features(device, name, dtype, n, d):
    check(*both(name), *inputs(name, (MANY,), n, d, device, dtype))


@every_operator
def test_more_streams_are_served_by_one_kernel_after_the_other(device, name):
    with kernels.use("always"), patch.dict(kernels.TWINS, {name: None}):
        check(both(name)[1], both(name)[1],
              *inputs(name, (5,), kernels.MOST_JOINED + 1, 8, device))


@every_operator
def test_tokens_may_share_what_is_read(device, name):
    def shared(numbers):
        read, *others = generated(numbers)
        return read.mean(0), *others

    check(*both(name, shared), *inputs(name, (3, 37), 4, 20, device))


def test_a_half_precision_update_of_a_float32_state(device):
    x, matrix, weights, update, weight = inputs("stream_join", (3, 37), 4, 50, device)
    check(*both("stream_join"), x, matrix, weights, update.to(HALF), weight,
          tolerance=TOLERANCE[HALF])


@every_operator
def test_gradients_where_some_outputs_are_not_used(device, name):
    given = inputs(name, (37,), 4, 20, device)
    for used in ([0], [1], [2], [3, 4], [0, 3]):
        kernel, operator = both(name)
        grads = [_gradients(f, x, used) for f, x in ((kernel, given),
                                                     (operator, [t.double() for t in given]))]
        for ours, theirs in zip(*grads, strict=True):
            assert distance(ours, theirs) < 4e-6


def _gradients(function, given, used):
    leaves = [t.detach().requires_grad_() for t in given]
    outputs = [function(*leaves)[place] for place in used]
    seeds = [normal(*y.shape, seed=i, device=y.device).to(y.dtype) for i, y in enumerate(outputs)]
    return torch.autograd.grad(outputs, leaves, seeds, materialize_grads=True)


@every_operator
def test_all_that_reads_the_state_counts_in_its_gradient(device, name):
    def step(function):
        def twice(*given):
            z, heard, read, write, mix = function(*given)
            z = operators.stream_mix_write(z, mix, write, heard.cos()) + z.sin()
            return z, operators.stream_read(z, read)

        return twice

    kernel, operator = map(step, both(name))
    with kernels.use("always"):
        check(kernel, operator, *inputs(name, (3, 37), 4, 50, device))


@pytest.mark.skipif(not launch.INTERPRETED, reason="a device computes with halves in every test")
def test_halves_carry_sixteen_bits(halves):
    given = inputs("stream_join", (MANY,), 4, 520, "cpu", HALF)
    kernel, operator = both("stream_join", split)
    z, _, *numbers = (found := with_gradients(kernel, given, 0))[:5]
    # the numbers are those of the Z that is written
    wanted = operators.rms_linear(z.flatten(-2).double(), given[-1].double(), 1e-6)
    assert distance(torch.cat([t.flatten(1) for t in numbers], -1), wanted) < 2.0**-16
    *_, grad_w = found
    *_, exact = with_gradients(operator, [t.double() for t in given], 0)
    assert distance(grad_w, exact) < 2.0**-7
    check(kernel, operator, *given)


def test_it_refuses_what_is_generated_in_another_shape(device):
    x, weight = inputs("stream_generate", (3,), 4, 8, device)
    for mode in ("always", "never"):
        for bad in (lambda y: (y[..., :3],), lambda y: (y[:, None, :4],)):
            with kernels.use(mode), pytest.raises(ValueError, match="weights must have"):
                both("stream_generate", bad)[1](x, weight)
    with pytest.raises(TypeError, match="x must be float32, bfloat16 or float16"):
        joined.stream_generate(x.double(), weight, 1e-6)


# ---------------------------------------------------------------- bytes

def vectors(run, n, dtype=HALF, N=40):
    """How many vectors of d numbers per token each pass moves: what grows with d, but for W, which
    the forward pass also writes and reads in another form.

    run(d) gives what the forward pass computes and the tensors whose gradients the backward pass
    computes.
    """
    moved = []
    for d in (64, 192):
        with kernels.use("always"):
            with traffic() as there:
                given, leaves = run(d, N, dtype)
            with traffic() as back:
                torch.autograd.grad([y.sum() for y in given], leaves)
        outputs = n * (n + 2)
        packed = 4 * max(16, next_power_of_2(outputs)) * next_power_of_2(n) * d
        moved.append((there.distinct - 4 * outputs * n * d - 2 * packed,
                      back.distinct - 8 * outputs * n * d))
    return [(b - a) / (128 * dtype.itemsize * N) for a, b in zip(*moved, strict=True)]


@interpreted
@pytest.mark.parametrize("dtype", [HALF, SINGLE])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_joined_sublayers_move_3n_plus_2_and_4n_plus_4_vectors(n, dtype):
    def run(d, N, dtype):
        given = [t.requires_grad_() for t in inputs("stream_join", (N,), n, d, "cpu", dtype)]
        return both("stream_join")[1](*given), given

    assert vectors(run, n, dtype) == [3 * n + 2, 4 * n + 4]


@interpreted
@pytest.mark.parametrize("n", [2, 4])
def test_alone_a_sublayer_moves_4n_plus_2_and_7n_plus_4_vectors_and_adds_nothing_up(n):
    def run(d, N, dtype):
        x, weight = (t.requires_grad_()
                     for t in inputs("stream_generate", (N,), n, d, "cpu", dtype))
        x_, heard, _, write, mix = both("stream_generate")[1](x, weight)
        update = heard.detach().requires_grad_()  # F lies in between
        return [operators.stream_mix_write(x_, mix, write, update), heard], [x, weight, update]

    assert vectors(run, n) == [4 * n + 2, 7 * n + 4]


@interpreted
def test_autograd_keeps_no_more_than_of_one_operator_after_the_other():
    def kept(join):
        x, *given, weight = (t.requires_grad_() for t in inputs("stream_join", (40,), 4, 96, "cpu"))
        found = {}
        with (kernels.use("always"),
              saved_tensors_hooks(lambda t: found.setdefault(
                  t.untyped_storage().data_ptr(), t.untyped_storage()) and t, lambda t: t)):
            if join:
                outputs = both("stream_join")[1](x, *given, weight)
            else:
                z = operators.stream_mix_write(x, *given)
                numbers = generated(operators.rms_linear(z.flatten(-2), weight, 1e-6))
                outputs = z, operators.stream_read(z, numbers[0]), *numbers
        return sum(storage.nbytes() for storage in found.values()), outputs

    (joined_bytes, _), (separate_bytes, _) = kept(True), kept(False)
    assert joined_bytes <= separate_bytes


# ---------------------------------------------------------------- networks

def network(device, layers=2, residual="mhc", options=None, **changes):
    """A network of mHC, or of another residual, whose parameters are not at their initial values.
    """
    torch.manual_seed(0)
    config = TransformerConfig.benchmark(width=16, layers=layers, heads=2, max_length=8, **changes)
    options = {"iterations": 2} if options is None and residual == "mhc" else options or {}
    made = Transformer(config, residual, **options).to(device)
    with torch.no_grad():
        for i, p in enumerate(made.parameters()):
            p.add_(normal(*p.shape, seed=10 + i, device=device), alpha=0.1)
    return made, normal(2, 5, 16, seed=1, device=device)


def called(run, mode="always"):
    """How often each kernel of TWINS was called."""
    calls = Counter()

    def counted(name, twin):
        return lambda *args, **options: (calls.update([name]), twin(*args, **options))[1]

    with (patch.dict(kernels.TWINS, {name: counted(name, twin)
                                     for name, twin in kernels.TWINS.items()}), kernels.use(mode)):
        run()
    return calls


def test_a_network_joins_all_its_sublayers(device):
    model, x = network(device)
    calls = called(lambda: model(x))
    assert calls == {"constrained_join": 4, "stream_mix_write": 1}
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            assert called(lambda: model(x)) == calls
    behind, x = network(device, norm_at="post")  # the norm needs each state
    assert called(lambda: behind(x)) == {"constrained_join": 4, "post_norm": 4}


@pytest.mark.parametrize("residual, options", [
    ("mhc", {"iterations": 2}), ("mhc", {"iterations": 2, "eps": 1e-6}),
    ("mhc", {"without": ("mix",)}), ("mhc", {"mix": "permutations"}),
    ("mhc", {"mix": "kronecker"}), ("single-pass", {"iterations": 2}), ("hyper", {}),
    ("hyper", {"dynamic": False}), ("jpmhc", {})], ids=str)
def test_kernels_take_the_norm_of_a_sublayer_unless_somebody_looks_at_it(device, residual, options):
    model, x = network(device, residual=residual, options=options, norm="rms")
    wanted, seen = outputs_and_gradients(model, x, "never"), []
    with patch.object(F, "rms_norm", wraps=F.rms_norm) as taken:
        assert_close(outputs_and_gradients(model, x, "always"), wanted, rtol=1e-4, atol=1e-5)
        # at the network's end, and where the first sublayer's u isn't read
        by_torch = 1 + (residual == "single-pass")
        assert taken.call_count == by_torch
        model.layers[1].norm.register_forward_hook(lambda *given: seen.append(given))
        assert_close(outputs_and_gradients(model, x, "always"), wanted, rtol=1e-4, atol=1e-5)
        assert taken.call_count == 2 * by_torch + 1 and len(seen) == 1


@pytest.mark.parametrize("options", [
    {"streams": 2}, {"eps": 1e-6, "write_eps": 1e-6, "iterations": 2}, {"without": ("mix",)},
    {"without": ("mix",), "streams": 8}, {"mix": "permutations"}, {"mix": "circulant"}], ids=str)
def test_one_operator_makes_the_coefficients_of_these_forms(device, options):
    model, x = network(device, options=options)
    assert called(lambda: model(x)) == {"constrained_join": 4, "stream_mix_write": 1}


@pytest.mark.parametrize("residual, options", [
    ("hyper", {}), ("hyper", {"tanh": False, "streams": 2}), ("hyper", {"streams": 1}),
    ("jpmhc", {}), ("jpmhc", {"steps": 3, "streams": 3}), ("jpmhc", {"retraction": "exact"})],
    ids=str)
def test_hyper_connections_and_jpmhc_join_all_their_sublayers(device, residual, options):
    model, x = network(device, residual=residual, options=options)
    assert called(lambda: model(x)) == {f"{residual}_join": 4, "stream_mix_write": 1}


def test_learned_coefficients_of_all_tokens_join_by_another_operator(device):
    model, x = network(device, residual="hyper", options={"dynamic": False})
    assert called(lambda: model(x)) == {"stream_read": 1, "stream_write_read": 3,
                                        "stream_mix_write": 1}


@pytest.mark.parametrize("residual, options", [
    ("jpmhc", {"norm": "rms"}), ("jpmhc", {"mix": "permutations"}),
    ("jpmhc", {"write_scale": False})], ids=str)
def test_other_forms_of_them_join_none(device, residual, options):
    model, x = network(device, residual=residual, options=options)
    assert not model.joined and not called(lambda: model(x))[f"{residual}_join"]


@pytest.mark.parametrize("options", [
    {"mix": "kronecker"}, {"mix": "orthostochastic", "blocks": 1}, {"without": ("read",)},
    {"without": ("write", "mix")}], ids=str)
def test_of_these_forms_pytorch_makes_the_coefficients(device, options):
    model, x = network(device, options=options)
    calls = called(lambda: model(x))
    calls.pop("sinkhorn", None)
    assert calls == {"stream_generate": 1, "stream_join": 3, "stream_read": 4,
                     "stream_mix_write": 1}


def test_a_single_pass_network_joins_all_but_its_ends(device):
    for options in ({"iterations": 2}, {"without": ("mix",)}):
        model, x = network(device, residual="single-pass", options=options)
        calls = called(lambda model=model, x=x: model(x))
        calls.pop("sinkhorn", None)  # of the first sublayer, whose u isn't read
        assert calls == {"rms_linear": 1, "constrained_join": 3, "stream_mix_write": 1,
                         "stream_read": 1}
    longer, x = network(device, residual="single-pass", options={"mix": "kronecker"})
    assert not longer.joined and not called(lambda: longer(x))["constrained_join"]


def test_who_looks_at_the_states_of_a_network_sees_states(device):
    model, x = network(device)
    seen = []
    with kernels.use("always"):
        wanted = model(x)
        for module in (*model.layers, *(layer.residual for layer in model.layers)):
            hook = module.register_forward_hook(lambda module, args, state: seen.append(state))
            found = called(lambda: assert_close(model(x), wanted))
            assert found["constrained_join"] == found["stream_mix_write"] == 4
            hook.remove()
    assert len(seen) == 2 * len(model.layers)
    assert all(state.shape == (2, 5, 4, 16) for state in seen)


def test_a_network_whose_weights_are_shared_out_joins_its_sublayers(device):
    (model, _), (other, _) = network(device), network(device)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh(torch.device(device).type, (1,))
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)
        assert model.layers[1]._forward_pre_hooks and model.joined
        # a step goes around the hook that would gather the residual's own weights
        fully_shard(other.layers[0].residual, mesh=mesh)
        assert not other.joined
    finally:
        dist.destroy_process_group()


def test_a_grafted_block_joins_its_sublayers(device):
    block = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True,
                                             device=device, dropout=0.0)
    model = graft(torch.nn.TransformerEncoder(block, 2, enable_nested_tensor=False), "mhc",
                  iterations=2)
    x = normal(2, 5, 16, seed=1, device=device)
    with kernels.use("never"):
        wanted = model(x)
    calls = called(lambda: assert_close(model(x), wanted, rtol=1e-4, atol=1e-5))
    assert calls == {"constrained_join": 4, "stream_mix_write": 2}


def test_nothing_is_joined_where_kernels_do_not_run_or_a_subclass_takes_another_step(device):
    model, x = network(device)
    state = model.layers[0].residual.expand(x)
    with kernels.use("always"):
        assert kernels.joins(state, 32) and not kernels.joins(state.double(), 32)
        assert not kernels.joins(state.repeat(1, 1, 2, 1), 32) and not kernels.joins(state, 65)
        small = launch.H200._replace(shared=164 * 2**10)  # an A100's
        with patch.object(launch, "describe", lambda _: small):
            assert not kernels.joins(state, 32)
    assert not called(lambda: model(x).sum().backward(), mode="never")
    assert MHC(16).joins and not MHC(16, without=MAPS).joins and not MHCDelta(16).joins
    assert not type("Still", (MHC,), {"coefficients": lambda self, state: None})(16).joins


def outputs_and_gradients(model, x, mode, run=lambda model, x: model(x)):
    with kernels.use(mode):
        y = run(model, x)
        return [y, *torch.autograd.grad(y, list(model.parameters()), normal(
            *y.shape, seed=2, device=y.device).to(y.dtype))]


MADE = [None, {"without": ("mix",)}, {"eps": 1e-2, "write_eps": 1e-2},
        {"mix": "permutations", "eps": 1e-2}]  # one operator makes the coefficients


@pytest.mark.parametrize("residual, options", [
    *(("mhc", options) for options in (*MADE, {"without": ("read",)},
                                       {"without": ("write", "mix")})),
    *(("single-pass", options) for options in MADE), ("hyper", {}), ("hyper", {"tanh": False}),
    ("hyper", {"dynamic": False}), ("jpmhc", {}),
    ("jpmhc", {"steps": 1, "temperature": 0.7, "alpha": 0.9}),
    ("jpmhc", {"retraction": "exact", "alpha": 2.0})], ids=str)
def test_a_joined_network_is_the_layers_one_after_the_other(device, residual, options):
    def joined(model, x):
        state = model.layers[0].residual.expand(x + model.position[:, :x.shape[1]])
        for layer in model.layers:
            state = layer(state, joined=True)
        return model.norm(model.layers[-1].residual.reduce(state.written()))

    model, x = network(device, layers=1 if options else 2, residual=residual,
                       options={"iterations": 2} if options is None else options)
    wanted = outputs_and_gradients(model, x, "never")
    # without kernels it is the plain path, bit by bit
    assert_close(outputs_and_gradients(model, x, "never", joined), wanted, rtol=0, atol=0)
    for run in (joined, lambda model, x: model(x)):
        assert_close(outputs_and_gradients(model, x, "always", run), wanted, rtol=1e-4, atol=1e-5)


def test_a_network_compiles_in_one_graph_and_may_be_checkpointed(device):
    model, x = network(device, layers=1)
    wanted = outputs_and_gradients(model, x, "always")
    ways = [torch.compile(model, fullgraph=True, backend="aot_eager").forward,
            lambda x: checkpoint(model, x, use_reentrant=False)]
    for way in ways:
        got = outputs_and_gradients(model, x, "always", lambda model, x, way=way: way(x))
        assert_close(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layers", [1, 2])
def test_states_that_are_recomputed_are_not_kept_and_give_the_same(device, layers):
    model, x = network(device)
    wanted = outputs_and_gradients(model, x, "always")
    model.recompute = layers
    got = outputs_and_gradients(model, x, "always")
    assert_close(got, wanted, rtol=0, atol=0)
    if layers == 1:
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager").forward
        assert_close(outputs_and_gradients(model, x, "always", lambda model, x: compiled(x)),
                     wanted, rtol=1e-4, atol=1e-5)


class Products(TorchDispatchMode):
    """How many products of matrices are computed inside it."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.aten.mm.default
        return function(*args, **(kwargs or {}))


@interpreted
def test_recomputation_keeps_less_and_runs_no_product_of_f_again():
    def seen(recompute):
        model, x = network("cpu", layers=2)
        model.recompute, x = recompute, x.repeat(8, 1, 1)  # so that tokens count, and not weights
        with kernels.use("always"):
            model(x)
            gc.collect()  # what only a cycle holds isn't kept, and what was there isn't freed now
            with torch.profiler.profile(profile_memory=True) as forward:
                y = model(x)
                gc.collect()
        with kernels.use("always"), Products() as products:
            torch.autograd.grad(y.sum(), list(model.parameters()))
        return (sum(event.self_cpu_memory_usage for event in forward.key_averages()),
                products.count)

    (kept, products), (kept_all, products_of_all) = seen(1), seen(0)
    states = 3 * 4 * 8 * network("cpu")[1].nbytes  # of four streams, between four sublayers
    assert kept < kept_all - states and products == products_of_all
