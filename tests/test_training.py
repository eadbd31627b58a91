import math
import os
import signal
import threading
from dataclasses import replace

import pytest
import torch
from torch import nn

from geolab.training import Budget, fit
from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.penalties import add_penalty
from geolab.tasks import Echo, Negation

TASK = Negation(dim=4, train=32, validation=16)
BUDGET = Budget(steps=12, batch=4, lr=1e-2, warmup=3, evaluate_every=5)


class Watched:
    """A task whose training losses are those that `before(step, prediction, loss)` returns."""

    def __init__(self, before, task=TASK):
        self.task, self.before, self.step = task, before, 0

    def __repr__(self):
        return repr(self.task)

    def sample(self, split):
        return self.task.sample(split)

    def loss(self, prediction, target):
        loss = self.task.loss(prediction, target)
        if torch.is_grad_enabled():
            self.step += 1
            return self.before(self.step - 1, prediction, loss)
        return loss


def at(step, action):
    """A Watched task in which `action(prediction, loss)` replaces the loss at one step, counted in this process."""
    return Watched(lambda now, prediction, loss: action(prediction, loss) if now == step else loss)


def model(seed=0, dropout=0.2):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Dropout(dropout), nn.Linear(16, 4))


def train(task=TASK, budget=BUDGET, network=None, seed=5, **options):
    network = network or model()
    return network, fit(network, task, budget, seed=seed, progress=False, **options)


def measured(history):
    """All that a run measured but its wall time."""
    return replace(history, seconds=0.0)


def same_weights(a, b):
    return all(torch.equal(p, q) for p, q in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def assert_same_run(one, other):
    assert same_weights(one[0], other[0])
    assert measured(one[1]) == measured(other[1])


def interrupt(prediction, loss):
    os.kill(os.getpid(), signal.SIGINT)
    return loss


def crash(prediction, loss):
    raise MemoryError("the machine dies")


# ---------------------------------------------------------------- reproducibility

def test_the_same_seed_gives_the_same_bits():
    first = train()
    torch.rand(17)  # whatever was drawn in between
    assert_same_run(first, train())


def test_another_seed_draws_other_batches():
    assert train()[1].train_loss != train(seed=6)[1].train_loss


def test_dropout_follows_the_seed():
    # one example in the whole training split: batches are alike, only dropout differs
    task = Negation(dim=4, train=1, validation=4)
    first, again, other = (train(task, seed=seed)[1].train_loss for seed in (5, 5, 6))
    assert first == again != other


@pytest.mark.parametrize("residual", ["additive", "delta"])
def test_a_transformer_resumes_to_the_same_bits(tmp_path, residual):
    def network():
        torch.manual_seed(0)
        return ContinuousModel(Transformer(TransformerConfig.ddl(width=8, layers=1, heads=2), residual), 3)

    task = Echo(dim=3, length=5, train=20, validation=10)
    whole = train(task, network=network())
    dying = at(7, crash)
    dying.task = task
    with pytest.raises(MemoryError):
        train(dying, network=network(), checkpoint=tmp_path / "run", save_every=4)
    assert_same_run(whole, train(task, network=network(), checkpoint=tmp_path / "run"))


# ---------------------------------------------------------------- interruptions

@pytest.mark.parametrize("step", range(11))
def test_interrupted_by_ctrl_c_and_resumed_is_uninterrupted(tmp_path, step):
    path = tmp_path / "run.pt"
    with pytest.raises(KeyboardInterrupt, match=f"after step {step + 1} of 12, saved to .*run.pt; the same call goes on"):
        train(at(step, interrupt), checkpoint=path)
    resumed = train(network=model(seed=99), checkpoint=path)  # the weights come from the checkpoint
    assert_same_run(resumed, train())


def test_ctrl_c_from_outside_again_and_again(tmp_path):
    budget, done, interruptions = replace(BUDGET, steps=100), threading.Event(), 0

    def press():
        while not done.wait(0.005):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    before = signal.signal(signal.SIGINT, lambda *_: None)  # a press between two calls of fit is nobody's
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


def test_ctrl_c_twice_still_finishes_the_step(tmp_path):
    def twice(prediction, loss):
        interrupt(prediction, loss)
        return interrupt(prediction, loss)

    with pytest.raises(KeyboardInterrupt):
        train(at(4, twice), checkpoint=tmp_path / "run")
    assert_same_run(train(checkpoint=tmp_path / "run"), train())


def test_ctrl_c_in_the_last_step_lets_the_run_end_and_nothing_begin(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(at(11, interrupt), checkpoint=tmp_path / "run")
    untouched = Watched(lambda now, prediction, loss: pytest.fail("it trains again"))
    assert_same_run(train(untouched, network=model(seed=99), checkpoint=tmp_path / "run"), train())


def test_ctrl_c_without_a_checkpoint_says_that_nothing_is_saved():
    with pytest.raises(KeyboardInterrupt, match="after step 5 of 12, not saved; give fit a checkpoint"):
        train(at(4, interrupt))


@pytest.mark.parametrize("action, error", [(interrupt, KeyboardInterrupt), (crash, MemoryError), (None, None)])
def test_ctrl_c_means_what_it_meant_before(action, error):
    before = signal.getsignal(signal.SIGINT)
    if error:
        with pytest.raises(error):
            train(at(3, action))
    else:
        train()
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
    counting = Watched(lambda now, prediction, loss: loss)
    resumed = train(counting, checkpoint=tmp_path / "run", save_every=3)
    assert counting.step == 12 - saved
    assert_same_run(resumed, train())


def test_killed_before_the_first_save_starts_anew(tmp_path):
    with pytest.raises(MemoryError):
        train(at(4, crash), checkpoint=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert_same_run(train(checkpoint=tmp_path / "run"), train())


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
    written = path.stat().st_mtime_ns

    untouched = Watched(lambda now, prediction, loss: pytest.fail("it trains again"))
    again = train(untouched, network=model(seed=99), checkpoint=str(path))
    assert_same_run(again, first)
    assert again[1].seconds == first[1].seconds
    assert path.stat().st_mtime_ns == written and [p.name for p in path.parent.iterdir()] == ["run.pt"]


def test_a_checkpoint_of_the_same_shapes_but_another_option_is_refused(tmp_path):
    def network(value):
        return ContinuousModel(Transformer(TransformerConfig.ddl(width=8, layers=1, heads=1), "delta", value=value), 4)

    task, budget, path = Echo(dim=4, length=5, train=4, validation=2), Budget(steps=1, batch=2), tmp_path / "run.pt"
    fit(network("sigmoid"), task, budget, checkpoint=path, progress=False)
    with pytest.raises(ValueError, match="its model is"):
        fit(network("sigmoid4"), task, budget, checkpoint=path, progress=False)


@pytest.mark.parametrize("change, message", [
    ({"seed": 6}, "its seed is 5, asked for 6"),
    ({"budget": replace(BUDGET, lr=0.5)}, r"its budget is .*'lr': 0\.01.*, asked for .*'lr': 0\.5"),
    ({"task": replace(TASK, train=31)}, r"its task is Negation\(.*train=32.*asked for Negation\(.*train=31"),
    ({"network": nn.Linear(4, 4)}, "its model is "),
])
def test_a_checkpoint_of_another_run_is_refused(tmp_path, change, message):
    path = tmp_path / "run.pt"
    train(checkpoint=path)
    with pytest.raises(ValueError, match=f"checkpoint .*run.pt is of another run: {message}"):
        train(checkpoint=path, **change)


# ---------------------------------------------------------------- numbers that are not finite

def nan_loss(prediction, loss):
    return loss * float("nan")


def infinite_loss(prediction, loss):
    return loss / 0


def nan_gradient(prediction, loss):
    return loss + (0 * prediction).sum().sqrt()  # 0 in value; its derivative is 0 · ∞


@pytest.mark.parametrize("action, message", [(nan_loss, "loss is nan"), (infinite_loss, "loss is inf"),
                                             (nan_gradient, "gradient norm is nan")])
def test_a_number_that_is_not_finite_stops_before_the_update(tmp_path, action, message):
    path, network, kept = tmp_path / "run", model(), {}

    def keep_then_spoil(prediction, loss):
        kept.update({name: p.clone() for name, p in network.state_dict().items()})
        return action(prediction, loss)

    with pytest.raises(FloatingPointError, match=f"^{message} at step 8 of 12 .*learning rate .*lower lr"):
        train(at(8, keep_then_spoil), network=network, checkpoint=path, save_every=6)
    assert all(torch.equal(p, kept[name]) and p.isfinite().all() for name, p in network.state_dict().items())
    assert_same_run(train(network=model(seed=99), checkpoint=path), train())  # nothing is lost


def test_a_learning_rate_far_too_high_says_so():
    with pytest.raises(FloatingPointError, match="A lower lr is the first thing to try"):
        train(budget=replace(BUDGET, lr=1e30), network=model(dropout=0))


# ---------------------------------------------------------------- the schedule and the optimiser

def test_learning_rate_rises_in_a_line_and_falls_as_a_cosine():
    budget = Budget(steps=110, warmup=10, lr=0.4, lr_end=0.25)
    assert [budget.learning_rate(t) for t in range(10)] == pytest.approx([0.04 * (t + 1) for t in range(10)])
    assert budget.learning_rate(10) == pytest.approx(0.4)
    assert budget.learning_rate(60) == pytest.approx((0.4 + 0.1) / 2)
    assert budget.learning_rate(109) == pytest.approx(0.1, rel=1e-2)
    assert budget.learning_rate(110) == pytest.approx(0.1)
    falling = [budget.learning_rate(t) for t in range(10, 111)]
    assert all(a > b for a, b in zip(falling, falling[1:]))


@pytest.mark.parametrize("budget", [Budget(steps=5, warmup=0), Budget(steps=5, warmup=5), Budget(steps=5, warmup=50)])
def test_any_warm_up_gives_a_schedule(budget):
    rates = [budget.learning_rate(t) for t in range(budget.steps)]
    assert all(0 < rate <= budget.lr for rate in rates)


def test_the_first_step_is_as_long_as_the_schedule_says():
    # AdamW's first step is the sign of the gradient times the learning rate
    network = nn.Linear(4, 4)
    before = network.bias.detach().clone()
    train(budget=Budget(steps=1, batch=32, lr=0.03, warmup=3), network=network)
    assert (network.bias - before).abs().tolist() == pytest.approx([0.01] * 4, rel=1e-3)


def test_weight_decay_shrinks_matrices_and_nothing_else():
    budget = replace(BUDGET, weight_decay=0.5)
    network = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 4))
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    train(Watched(lambda now, prediction, loss: 0 * prediction.sum()), budget=budget, network=network)
    shrunk = math.prod(1 - 0.5 * budget.learning_rate(t) for t in range(budget.steps))
    for name, p in network.named_parameters():
        torch.testing.assert_close(p.detach(), before[name] * (shrunk if p.ndim == 2 else 1), rtol=1e-5, atol=0)


def test_gradients_are_clipped_and_measured_before():
    network, twin = nn.Linear(4, 4), nn.Linear(4, 4)
    twin.load_state_dict(network.state_dict())
    task = Negation(dim=4, train=1, validation=4)
    history = train(task, Budget(steps=1, batch=1, clip=1e-3), network)[1]
    TASK.loss(twin(task.sample("train").inputs), task.sample("train").targets).backward()
    raw, clipped = (torch.cat([p.grad.flatten() for p in m.parameters()]).norm().item() for m in (twin, network))
    assert history.gradient_norm == [pytest.approx(raw, rel=1e-5)] and raw > 0.1
    assert clipped == pytest.approx(1e-3, rel=1e-3)


def test_it_learns():
    network, history = train(Negation(dim=4), Budget(steps=200, lr=0.05, weight_decay=0), nn.Linear(4, 4))
    assert history.final < 1e-3 * history.train_loss[0]
    torch.testing.assert_close(network.weight.detach(), -torch.eye(4), rtol=0, atol=0.05)


# ---------------------------------------------------------------- penalties

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
    history = train(Watched(lambda now, prediction, loss: 0 * loss), replace(BUDGET, weight_decay=0), network)[1]
    assert history.train_loss == [0] * BUDGET.steps
    assert history.gradient_norm[0] == pytest.approx(3 * before, rel=1e-5)
    assert network.weight.detach().norm() < 0.9 * before


def test_each_step_has_its_own_penalties():
    # one term a step: were they kept, the second gradient would be twice the first
    history = train(Watched(lambda now, prediction, loss: 0 * loss), replace(BUDGET, weight_decay=0, lr=1e-9), Penalised(3.0))[1]
    assert history.gradient_norm == pytest.approx([history.gradient_norm[0]] * BUDGET.steps, rel=1e-5)


def test_a_penalty_that_is_not_finite_stops_too():
    with pytest.raises(FloatingPointError, match="^loss is nan at step 0 of 12"):
        train(network=Penalised(float("nan")))


# ---------------------------------------------------------------- what it reports

def test_the_history():
    network, history = train()
    assert (history.steps, history.seed, history.device, history.budget, history.task) == (12, 5, "cpu", BUDGET, repr(TASK))
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


@pytest.mark.parametrize("name", ["steps", "batch", "evaluate_every"])
def test_a_budget_needs_at_least_one(name):
    with pytest.raises(ValueError, match=f"^{name} must be at least 1, got 0$"):
        Budget(**{name: 0})


@pytest.mark.parametrize("name", ["lr", "clip"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_a_budget_needs_positive_numbers(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be positive, got {value}$"):
        Budget(**{name: value})
