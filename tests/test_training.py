import itertools
import math
import os
import signal
import threading
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import nn

from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.penalties import add_penalty
from geolab.tasks import Echo, Negation
from geolab.training import Budget, fit

TASK = Negation(dim=4, train=32, validation=16)
BUDGET = Budget(steps=12, batch=4, lr=1e-2, warmup=3, evaluate_every=5)


def watched(before, task=TASK):
    """A copy of a task whose training losses are what `before(step, prediction, loss)` returns.

    To a checkpoint it is the same task, since it has the same fields.
    """
    copy, steps = replace(task), itertools.count()

    def loss(prediction, target):
        loss = task.loss(prediction, target)
        return before(next(steps), prediction, loss) if torch.is_grad_enabled() else loss

    object.__setattr__(copy, "loss", loss)  # the dataclass is frozen
    return copy


class Double:
    """A task in float64."""

    def __init__(self, task):
        self.task, self.loss = task, task.loss

    def sample(self, split):
        return [t.double() for t in self.task.sample(split)]


def at(step, action, task=TASK):
    """A watched task in which `action(prediction, loss)` replaces the loss at one step."""
    return watched(lambda now, *found: action(*found) if now == step else found[1], task)


def counted(steps):
    """The task, whose training steps are noted in a list."""
    return watched(lambda now, prediction, loss: steps.append(now) or loss)


def model(seed=0, dropout=0.2):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Dropout(dropout), nn.Linear(16, 4))


def train(task=TASK, budget=BUDGET, network=None, seed=5, **options):
    network = network or model()
    return network, fit(network, task, budget, seed=seed, progress=False, **options)


def measured(history):
    """All that a run measured, except its wall time."""
    return replace(history, seconds=0.0)


def same_weights(a, b):
    a, b = (network.state_dict().values() for network in (a, b))
    return all(torch.equal(p, q) for p, q in zip(a, b, strict=True))


def assert_same_run(one, other):
    assert same_weights(one[0], other[0])
    assert measured(one[1]) == measured(other[1])


def interrupt(prediction, loss):
    os.kill(os.getpid(), signal.SIGINT)
    return loss


def crash(prediction, loss):
    raise MemoryError("the machine dies")


# ---------------------------------------------------------------- reproducibility


def test_another_seed_draws_other_batches():
    assert train()[1].train_loss != train(seed=6)[1].train_loss


def test_dropout_follows_the_seed():
    # with one training example all batches are alike, and only dropout differs
    task = Negation(dim=4, train=1, validation=4)
    first, again, other = (train(task, seed=seed)[1].train_loss for seed in (5, 5, 6))
    assert first == again != other


@pytest.mark.parametrize("residual", ["additive", "delta"])
def test_a_transformer_resumes_to_the_same_bits(tmp_path, residual):
    def network():
        torch.manual_seed(0)
        config = TransformerConfig.ddl(width=8, layers=1, heads=2)
        return ContinuousModel(Transformer(config, residual), 3)

    task = Echo(dim=3, length=5, train=20, validation=10)
    whole = train(task, network=network())
    with pytest.raises(MemoryError):
        train(at(7, crash, task), network=network(), checkpoint=tmp_path / "run", save_every=4)
    resumed = network()
    resumed.trunk.recompute = 1  # which saves memory, and changes no result
    assert_same_run(whole, train(task, network=resumed, checkpoint=tmp_path / "run"))


# ---------------------------------------------------------------- interruptions

@pytest.mark.parametrize("step", [0, 4, 10, 11])
def test_interrupted_by_ctrl_c_and_resumed_is_uninterrupted(tmp_path, step):
    path, steps = tmp_path / "run.pt", []
    message = f"after step {step + 1} of 12, saved to .*run.pt; the same call goes on"
    # in the last step it lets the run end
    with pytest.raises(KeyboardInterrupt, match=message if step < 11 else "^$"):
        train(at(step, interrupt), checkpoint=path)
    # the weights come from the checkpoint
    resumed = train(counted(steps), network=model(seed=99), checkpoint=path)
    assert len(steps) == 11 - step
    assert_same_run(resumed, train())


def test_ctrl_c_from_outside_again_and_again(tmp_path):
    budget, done, interruptions = replace(BUDGET, steps=100), threading.Event(), 0

    def press():
        while not done.wait(0.005):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    before = signal.signal(signal.SIGINT, lambda *_: None)  # between two calls of fit, ignore it
    thread = threading.Thread(target=press)
    thread.start()
    try:
        while True:
            try:
                resumed = train(budget=budget, checkpoint=tmp_path / "run")
                break
            except KeyboardInterrupt:
                interruptions += 1
    finally:
        done.set()
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert interruptions > 0
    assert_same_run(resumed, train(budget=budget))


@pytest.mark.parametrize("action, error, message", [
    (interrupt, KeyboardInterrupt, "after step 4 of 12, not saved; give fit a checkpoint"),
    (crash, MemoryError, "the machine dies")])
def test_ctrl_c_means_what_it_meant_before(action, error, message):
    before = signal.getsignal(signal.SIGINT)
    train()
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(error, match=message):
        train(at(3, action))
    assert signal.getsignal(signal.SIGINT) is before


def test_fit_runs_outside_the_main_thread():
    results = []
    thread = threading.Thread(target=lambda: results.append(train()))
    thread.start()
    thread.join()
    assert_same_run(results[0], train())


@pytest.mark.parametrize("step, saved", [(4, 3), (7, 6), (11, 9)])
def test_killed_between_saves_goes_on_from_the_last_one(tmp_path, step, saved):
    with pytest.raises(MemoryError):
        train(at(step, crash), checkpoint=tmp_path / "run", save_every=3)
    steps = []
    resumed = train(counted(steps), checkpoint=tmp_path / "run", save_every=3)
    assert len(steps) == 12 - saved
    assert_same_run(resumed, train())


def test_killed_in_the_middle_of_a_save_keeps_the_last_one(tmp_path, monkeypatch):
    def half_a_save(content, path):
        path.write_bytes(b"half a check")
        raise OSError("no space left on device")

    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(at(4, interrupt), checkpoint=path)
    with monkeypatch.context() as patch, pytest.raises(OSError):
        patch.setattr(torch, "save", half_a_save)
        train(checkpoint=path, save_every=2)
    assert_same_run(train(checkpoint=path), train())


def test_a_finished_run_is_read_and_not_repeated(tmp_path):
    path = tmp_path / "new" / "folder" / "run.pt"
    first = train(checkpoint=path)
    written, steps = path.stat().st_mtime_ns, []
    again = train(counted(steps), network=model(seed=99), checkpoint=str(path))
    assert_same_run(again, first)
    assert again[1].seconds == first[1].seconds and not steps
    assert path.stat().st_mtime_ns == written
    assert [p.name for p in path.parent.iterdir()] == ["run.pt"]


def test_what_a_model_prints_and_says_of_itself_is_no_part_of_a_run(tmp_path):
    def network(words):
        class Linear(nn.Linear):
            __doc__ = words

            def extra_repr(self):
                return words

        torch.manual_seed(0)
        return Linear(4, 4)

    first = train(network=network("a map"), checkpoint=tmp_path / "run")
    assert_same_run(train(network=network("an affine map"), checkpoint=tmp_path / "run"), first)


class Plain:
    """A task that is no dataclass."""

    def __init__(self, train):
        self.train, self._read = train, 0

    def sample(self, split):
        self._read += 1
        return Negation(dim=4, train=self.train, validation=16).sample(split)

    def loss(self, prediction, target):
        return TASK.loss(prediction, target)


def test_a_task_that_is_no_dataclass_is_known_by_its_class_and_attributes(tmp_path):
    first = train(Plain(32), checkpoint=tmp_path / "run")
    again = train(Plain(32), network=model(seed=99), checkpoint=tmp_path / "run")
    assert same_weights(first[0], again[0]) and first[1].train_loss == again[1].train_loss


def test_a_checkpoint_of_another_version_is_refused_by_its_missing_entry(tmp_path):
    torch.save({"identity": {}, "model": model().state_dict()}, tmp_path / "run")
    message = "checkpoint .*run has no entry 'options': another version of geolab wrote it"
    with pytest.raises(ValueError, match=message):
        train(checkpoint=tmp_path / "run")


class Partly(nn.Module):
    """Only `used` gets a gradient at first, so an early checkpoint has no moments of `late`."""

    def __init__(self, start=6):
        super().__init__()
        torch.manual_seed(0)
        self.used, self.late, self.frozen = (nn.Linear(4, 4) for _ in range(3))
        self.frozen.requires_grad_(False)
        self.register_buffer("calls", torch.tensor(0))
        self.start = start

    def forward(self, x):
        self.calls += self.training
        return self.used(self.frozen(x)) + (self.late(x) if self.calls > self.start else 0)


class Number(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        return self.a * x


@pytest.mark.parametrize("build", [
    Partly, Number, lambda: nn.Linear(4, 4, bias=False), lambda: nn.LayerNorm(4, bias=False)])
def test_any_set_of_parameters_resumes_to_the_same_bits(tmp_path, build):
    networks = []
    for _ in range(3):
        torch.manual_seed(0)
        networks.append(build())
    with pytest.raises(KeyboardInterrupt):
        train(at(3, interrupt), network=networks[0], checkpoint=tmp_path / "run")
    networks[1](torch.ones(4)).sum().backward()  # old gradients must not matter
    networks[1].load_state_dict(networks[2].state_dict())
    resumed = train(network=networks[1], checkpoint=tmp_path / "run")
    assert_same_run(resumed, train(network=networks[2]))


def with_residual(residual, **options):
    """What `train` takes for a small network with a residual."""
    trunk = Transformer(TransformerConfig.ddl(width=8, layers=1, heads=1), residual, **options)
    return dict(task=Echo(dim=4, length=5, train=4, validation=2), budget=Budget(steps=1, batch=2),
                network=ContinuousModel(trunk, 4))


@pytest.mark.parametrize("first, change, message", [
    (dict, partial(dict, seed=6), "its seed is 5, asked for 6"),
    (dict, partial(dict, budget=replace(BUDGET, lr=0.5)), "its budget.lr is 0.01, asked for 0.5"),
    (dict, partial(dict, task=replace(TASK, train=31)), "its task.train is 32, asked for 31"),
    (dict, lambda: dict(network=nn.Linear(4, 4)), "its model is Sequential, asked for Linear"),
    (partial(dict, task=Plain(32)), partial(dict, task=Plain(31)),
     "its task.train is 32, asked for 31"),
    (partial(dict, task=Plain(32)), dict, "its task is Plain, asked for Negation"),
    # models of the same shapes
    *((partial(with_residual, residual, **{option: one}),
       partial(with_residual, residual, **{option: other}),
       rf"its model\.trunk\.layers\.0\.residual\..*{option}.*{one}.*, asked for .*{other}")
      for residual, option, one, other in (
          ("delta", "value", "sigmoid", "sigmoid4"), ("mhc", "iterations", 20, 10))),
])
def test_a_checkpoint_of_another_run_is_refused(tmp_path, first, change, message):
    path = tmp_path / "run.pt"
    train(**first(), checkpoint=path)
    with pytest.raises(ValueError, match=f"checkpoint .*run.pt is of another run: {message}"):
        train(**change(), checkpoint=path)


# ---------------------------------------------------------------- numbers that are not finite

def nan_loss(prediction, loss):
    return loss * float("nan")


def infinite_loss(prediction, loss):
    return loss / 0


def nan_gradient(prediction, loss):
    return loss + (0 * prediction).sum().sqrt()  # 0 in value; its derivative is 0 · ∞


@pytest.mark.parametrize("action, message", [
    (nan_loss, "loss is nan"), (infinite_loss, "loss is inf"),
    (nan_gradient, "gradient norm is nan")])
def test_a_number_that_is_not_finite_stops_before_the_update(tmp_path, action, message):
    path, network, kept = tmp_path / "run", model(), {}

    def keep_then_spoil(prediction, loss):
        kept.update({name: p.clone() for name, p in network.state_dict().items()})
        return action(prediction, loss)

    message = f"^{message} at step 8 of 12 .*learning rate .*lower lr"
    with pytest.raises(FloatingPointError, match=message):
        train(at(8, keep_then_spoil), network=network, checkpoint=path, save_every=6)
    for name, p in network.state_dict().items():
        assert torch.equal(p, kept[name]) and p.isfinite().all()
    assert_same_run(train(network=model(seed=99), checkpoint=path), train())  # nothing is lost


# ---------------------------------------------------------------- the schedule and the optimiser

def test_learning_rate_rises_in_a_line_and_falls_as_a_cosine():
    budget = Budget(steps=110, warmup=10, lr=0.4, lr_end=0.25)
    rising = [budget.learning_rate(t) for t in range(10)]
    assert rising == pytest.approx([0.04 * (t + 1) for t in range(10)])
    assert budget.learning_rate(10) == pytest.approx(0.4)
    assert budget.learning_rate(60) == pytest.approx((0.4 + 0.1) / 2)
    assert budget.learning_rate(109) == pytest.approx(0.1, rel=1e-2)
    assert budget.learning_rate(110) == pytest.approx(0.1)
    falling = [budget.learning_rate(t) for t in range(10, 111)]
    assert all(a > b for a, b in pairwise(falling))


def test_the_update_is_that_of_adamw_with_betas_of_09_and_095():
    task, budget = Double(Negation(dim=4, train=1, validation=4)), Budget(6, 1, warmup=2, clip=1e9)
    network = nn.Linear(4, 4, bias=False).double()
    inputs, targets = task.sample("train")
    weight = network.weight.detach().clone().requires_grad_()
    mean = square = torch.zeros(4, 4)
    for t in range(budget.steps):
        gradient, = torch.autograd.grad(task.loss(inputs @ weight.mT, targets), weight)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.95 * square + 0.05 * gradient**2
        first, second = mean / (1 - 0.9 ** (t + 1)), square / (1 - 0.95 ** (t + 1))
        with torch.no_grad():
            weight *= 1 - budget.learning_rate(t) * budget.weight_decay
            weight -= budget.learning_rate(t) * first / (second.sqrt() + 1e-8)
    train(task, budget, network)
    torch.testing.assert_close(network.weight, weight, rtol=1e-10, atol=0)


def test_weight_decay_shrinks_matrices_and_nothing_else():
    budget = replace(BUDGET, weight_decay=0.5)
    network = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 4))
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    flat = watched(lambda now, prediction, loss: 0 * prediction.sum())
    train(flat, budget, network)
    shrunk = math.prod(1 - 0.5 * budget.learning_rate(t) for t in range(budget.steps))
    for name, p in network.named_parameters():
        expected = before[name] * (shrunk if p.ndim == 2 else 1)
        torch.testing.assert_close(p.detach(), expected, rtol=1e-5, atol=0)


def test_gradients_are_clipped_and_measured_before():
    network, twin = nn.Linear(4, 4), nn.Linear(4, 4)
    twin.load_state_dict(network.state_dict())
    task = Negation(dim=4, train=1, validation=4)
    history = train(task, Budget(steps=1, batch=1, clip=1e-3), network)[1]
    TASK.loss(twin(task.sample("train").inputs), task.sample("train").targets).backward()
    raw, clipped = (torch.cat([p.grad.flatten() for p in m.parameters()]).norm().item()
                    for m in (twin, network))
    assert history.gradient_norm == [pytest.approx(raw, rel=1e-5)] and raw > 0.1
    assert clipped == pytest.approx(1e-3, rel=1e-3)


# ---------------------------------------------------------------- penalties

def weightless(now, prediction, loss):
    return 0 * loss


class Penalised(nn.Linear):
    """A linear map that asks for small weights: `strength` times half their squared length."""

    def __init__(self, strength):
        super().__init__(4, 4)
        self.strength = strength

    def forward(self, x):
        add_penalty(self.strength * self.weight.square().sum() / 2)
        return super().forward(x)


def test_penalties_are_added_to_the_loss_and_not_to_the_report():
    network = Penalised(3.0)
    before = network.weight.detach().norm().item()
    history = train(watched(weightless), replace(BUDGET, weight_decay=0), network)[1]
    assert history.train_loss == [0] * BUDGET.steps
    assert history.gradient_norm[0] == pytest.approx(3 * before, rel=1e-5)
    assert network.weight.detach().norm() < 0.9 * before


def test_a_penalty_that_is_not_finite_stops_too():
    with pytest.raises(FloatingPointError, match="^loss is nan at step 0 of 12"):
        train(network=Penalised(float("nan")))


# ---------------------------------------------------------------- what it reports

def test_the_history():
    network, history = train()
    assert (history.steps, history.seed, history.device) == (12, 5, "cpu")
    assert (history.budget, history.task) == (BUDGET, repr(TASK))
    assert len(history.train_loss) == len(history.gradient_norm) == 12
    assert history.evaluated_at == [5, 10, 12] and len(history.validation_loss) == 3
    x, y = TASK.sample("validation")
    assert not network.training
    assert history.final == history.validation_loss[-1] == TASK.loss(network(x), y).item()
    assert history.seconds > 0


def test_an_evaluation_does_not_move_the_training():
    often, seldom = (train(budget=replace(BUDGET, evaluate_every=k))[1] for k in (1, 12))
    assert often.train_loss == seldom.train_loss and often.evaluated_at == list(range(1, 13))


def test_the_bar_shows_when_asked_to(capsys):
    fit(model(), TASK, BUDGET, progress=False)
    assert capsys.readouterr().err == ""
    fit(model(), TASK, BUDGET)
    assert "/12" in capsys.readouterr().err


@pytest.mark.parametrize("name, value, message", [
    *((name, 0, "at least 1") for name in ("steps", "batch", "evaluate_every")),
    *((name, value, "positive") for name in ("lr", "clip") for value in (0.0, -1.0, math.nan))])
def test_a_budget_refuses_by_name(name, value, message):
    with pytest.raises(ValueError, match=f"^{name} must be {message}, got {value}$"):
        Budget(**{name: value})
