"""`fit` makes AdamW's updates, and a run that was stopped goes on to the same bits."""

import itertools
import math
import os
import signal
import threading
from dataclasses import replace

import pytest
import torch
from torch import nn

from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.penalties import add_penalty
from geolab.tasks import Negation
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


def assert_same_run(one, other):
    for p, q in zip(*(network.state_dict().values() for network, _ in (one, other)), strict=True):
        assert torch.equal(p, q)
    assert replace(one[1], seconds=0.0) == replace(other[1], seconds=0.0)


def interrupt(prediction, loss):
    os.kill(os.getpid(), signal.SIGINT)
    return loss


def crash(prediction, loss):
    raise MemoryError("the machine dies")


# ---------------------------------------------------------------- goes on to the same bits

class Partly(nn.Module):
    """Only `used` gets a gradient at first, so an early checkpoint has no moments of `late`."""

    def __init__(self):
        super().__init__()
        self.used, self.late, self.frozen = (nn.Linear(4, 4) for _ in range(3))
        self.frozen.requires_grad_(False)
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x):
        self.calls += self.training
        return self.used(self.frozen(x)) + (self.late(x) if self.calls > 6 else 0)


class Number(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        return self.a * x


class Echoing(nn.Module):
    """A transformer for the task, whose four numbers are a sequence."""

    def __init__(self, residual="delta", **options):
        super().__init__()
        config = TransformerConfig.ddl(width=8, layers=1, heads=2)
        self.inside = ContinuousModel(Transformer(config, residual, **options), 1)

    def forward(self, x):
        return self.inside(x[..., None])[..., 0]


@pytest.mark.parametrize("build", [
    model, Partly, Number, Echoing, lambda: nn.Linear(4, 4, bias=False),
    lambda: nn.LayerNorm(4, bias=False)])
@pytest.mark.parametrize("step, action, error, saved", [
    (0, interrupt, KeyboardInterrupt, 1), (4, interrupt, KeyboardInterrupt, 5),
    (11, interrupt, KeyboardInterrupt, 12),  # in the last step it lets the run end
    (4, crash, MemoryError, 3), (11, crash, MemoryError, 9)])
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path, build, step, action, error,
                                                              saved):
    path, steps, networks = tmp_path / "run", [], []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        networks.append(build())
    whole, first, other = networks
    with pytest.raises(error):
        train(at(step, action), network=first, checkpoint=path, save_every=3)
    other(torch.ones(4, 4)).sum().backward()  # its weights and its gradients must not matter
    if build is Echoing:
        other.inside.trunk.recompute = 1  # which saves memory, and changes no result
    if build is Partly:
        other.frozen.load_state_dict(whole.frozen.state_dict())
    resumed = train(counted(steps), network=other, checkpoint=path)
    assert len(steps) == 12 - saved
    assert_same_run(resumed, train(network=whole))


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


@pytest.mark.parametrize("step, action, keeps, error, message", [
    (3, interrupt, True, KeyboardInterrupt, "after step 4 of 12, saved to .*run; the same call "
                                            "goes on"),
    (3, interrupt, False, KeyboardInterrupt, "after step 4 of 12, not saved; give fit a check"),
    (11, interrupt, True, KeyboardInterrupt, "^$"), (3, crash, True, MemoryError, "^the machine")])
def test_ctrl_c_is_answered_and_means_what_it_meant_before(tmp_path, step, action, keeps, error,
                                                           message):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(error, match=message):
        train(at(step, action), checkpoint=tmp_path / "run" if keeps else None)
    assert signal.getsignal(signal.SIGINT) is before


def test_fit_runs_outside_the_main_thread():
    results = []
    thread = threading.Thread(target=lambda: results.append(train()))
    thread.start()
    thread.join()
    assert_same_run(results[0], train())


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


@pytest.mark.parametrize("first, change, message", [
    ({}, {"seed": 6}, "its seed is 5, asked for 6"),
    ({}, {"budget": replace(BUDGET, lr=0.5)}, "its budget.lr is 0.01, asked for 0.5"),
    ({}, {"task": replace(TASK, train=31)}, "its task.train is 32, asked for 31"),
    ({}, {"network": nn.Linear(4, 4)}, "its model is Sequential, asked for Linear"),
    ({"network": Echoing("mhc", iterations=20)}, {"network": Echoing("mhc", iterations=10)},
     r"its model\.inside.*residual\..*iterations.* is 20, asked for 10")])
def test_a_checkpoint_of_another_run_is_refused(tmp_path, first, change, message):
    path = tmp_path / "run.pt"
    train(**first, checkpoint=path)
    with pytest.raises(ValueError, match=f"checkpoint .*run.pt is of another run: {message}"):
        train(**change, checkpoint=path)


def test_a_checkpoint_of_another_version_is_refused_by_its_missing_entry(tmp_path):
    torch.save({"identity": {}, "model": model().state_dict()}, tmp_path / "run")
    message = "checkpoint .*run has no entry 'options': another version of geolab wrote it"
    with pytest.raises(ValueError, match=message):
        train(checkpoint=tmp_path / "run")


# ---------------------------------------------------------------- what is drawn

def test_batches_and_dropout_follow_the_seed():
    assert train(network=model(dropout=0))[1].train_loss != \
        train(network=model(dropout=0), seed=6)[1].train_loss
    # with one training example all batches are alike, and only dropout differs
    task = Negation(dim=4, train=1, validation=4)
    first, again, other = (train(task, seed=seed)[1].train_loss for seed in (5, 5, 6))
    assert first == again != other


# ---------------------------------------------------------------- one update

def test_learning_rate_rises_in_a_line_and_falls_as_a_cosine():
    budget = Budget(steps=110, warmup=10, lr=0.4, lr_end=0.25)
    wanted = {9: 0.4, 10: 0.4, 60: (0.4 + 0.1) / 2, 110: 0.1,
              **{t: 0.04 * (t + 1) for t in range(10)}}
    assert {t: budget.learning_rate(t) for t in wanted} == pytest.approx(wanted)


@pytest.mark.parametrize("clip", [1e9, 1e-3])
def test_the_update_is_that_of_adamw_and_gradients_are_measured_before_they_are_clipped(clip):
    """In float64, with the gradient of a penalty; weight decay is for matrices alone."""
    class Double:
        loss = TASK.loss

        def sample(self, split):
            return [t.double() for t in Negation(dim=4, train=1, validation=4).sample(split)]

    class Network(nn.Sequential):
        def forward(self, x):
            add_penalty(0.3 * self[0].weight.square().sum())
            return super().forward(x)

    network = Network(nn.Linear(4, 4), nn.LayerNorm(4)).double()
    task, budget = Double(), Budget(6, 1, lr=0.1, warmup=2, clip=clip, weight_decay=0.5)
    inputs, targets = task.sample("train")
    weights = [p.detach().clone().requires_grad_() for p in network.parameters()]
    means, squares = ([torch.zeros_like(p) for p in weights] for _ in range(2))
    losses, norms = [], []
    for t in range(budget.steps):
        matrix, bias, scale, shift = weights
        y = nn.functional.layer_norm(inputs @ matrix.mT + bias, (4,), scale, shift)
        loss = task.loss(y, targets)
        gradients = torch.autograd.grad(loss + 0.3 * matrix.square().sum(), weights)
        losses.append(loss.item())
        norms.append(torch.cat([g.flatten() for g in gradients]).norm().item())
        rate = budget.learning_rate(t)
        for k, (p, g) in enumerate(zip(weights, gradients, strict=True)):
            g = g * min(1, clip / (norms[-1] + 1e-6))
            means[k] = 0.9 * means[k] + 0.1 * g
            squares[k] = 0.95 * squares[k] + 0.05 * g**2
            first, second = means[k] / (1 - 0.9 ** (t + 1)), squares[k] / (1 - 0.95 ** (t + 1))
            with torch.no_grad():
                p *= 1 - rate * budget.weight_decay * (p.ndim == 2)
                p -= rate * first / (second.sqrt() + 1e-8)
    history = train(task, budget, network)[1]
    torch.testing.assert_close(list(network.parameters()), weights, rtol=1e-8, atol=1e-10)
    assert history.train_loss == pytest.approx(losses, rel=1e-8), "without the penalty"
    assert history.gradient_norm == pytest.approx(norms, rel=1e-8)


# ---------------------------------------------------------------- numbers that are not finite

def nan_penalty(prediction, loss):
    add_penalty(loss * float("nan"))
    return loss


@pytest.mark.parametrize("action, message", [
    (lambda prediction, loss: loss * float("nan"), "loss is nan"),
    (lambda prediction, loss: loss / 0, "loss is inf"), (nan_penalty, "loss is nan"),
    # 0 in value; its derivative is 0 · ∞
    (lambda prediction, loss: loss + (0 * prediction).sum().sqrt(), "gradient norm is nan")])
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


# ---------------------------------------------------------------- what it reports

def test_the_history_and_the_bar(capsys):
    network, history = train()
    assert (history.steps, history.seed, history.device) == (12, 5, "cpu")
    assert (history.budget, history.task) == (BUDGET, repr(TASK))
    assert len(history.train_loss) == len(history.gradient_norm) == 12
    assert history.evaluated_at == [5, 10, 12] and len(history.validation_loss) == 3
    x, y = TASK.sample("validation")
    assert not network.training and history.seconds > 0
    assert history.final == history.validation_loss[-1] == TASK.loss(network(x), y).item()
    often = train(budget=replace(BUDGET, evaluate_every=1))[1]
    assert often.evaluated_at == list(range(1, 13))
    assert often.train_loss == history.train_loss, "an evaluation doesn't move the training"
    assert capsys.readouterr().err == ""
    fit(model(), TASK, BUDGET)
    assert "/12" in capsys.readouterr().err


@pytest.mark.parametrize("name, value, message", [
    *((name, 0, "at least 1") for name in ("steps", "batch", "evaluate_every")),
    *((name, 0.0, "positive") for name in ("lr", "clip")),
    *((name, math.nan, "a finite number") for name in ("lr", "clip", "lr_end", "weight_decay")),
    *((name, -1, "at least 0") for name in ("warmup", "lr_end", "weight_decay")),
    ("lr", "3", "a finite number"), ("warmup", 1.5, "a whole number")])
def test_a_budget_refuses_by_name(name, value, message):
    with pytest.raises(ValueError, match=f"^{name} must be {message}, got {value!r}$"):
        Budget(**{name: value})
