"""What holds for every task: it is enough to register one in `TASKS`."""

import math
import pickle
import pkgutil
from dataclasses import FrozenInstanceError, fields, is_dataclass
from importlib import import_module

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from geolab import tasks
from geolab.tasks import (
    TASKS,
    Copy,
    Denoising,
    Gyroscope,
    Moons,
    NearPi,
    Pairs,
    Regression,
    Stream,
    Sudoku,
    Task,
    Text,
    Words,
    corpora,
)
from geolab.tasks.base import IGNORED

# Fields that make a task small. More givens would leave too few open cells to measure a floor.
SMALL = {"corpus": "sample", "train": 400, "validation": 400, "dim": 4, "length": 6, "context": 16,
         "givens": 2}
OPTIONS = [  # forms of a task that its defaults don't reach
    ("copy", {"noise": 0.3}),
    ("denoising", {"schedule": "linear"}),
    ("gyroscope", {"noise": 0.1}),
    ("near-pi", {"noise": 0.1, "per_sequence": True}),
    ("sudoku", {"split": "by grid"}),
]
FORMS = [pytest.param(name, options, id=", ".join([name, *options]))
         for name, options in [*((name, {}) for name in TASKS), *OPTIONS]]
SPLITS = "train", "validation"


def small(name, **options):
    known = {field.name for field in fields(TASKS[name])}
    return TASKS[name](**{key: value for key, value in SMALL.items() if key in known} | options)


def same(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_what_is_public_in_a_tasks_file_is_registered():
    for file in pkgutil.iter_modules(tasks.__path__, "geolab.tasks."):
        for name, made in vars(import_module(file.name)).items():
            if is_dataclass(made) and made.__module__ == file.name and issubclass(made, Task):
                assert made in TASKS.values(), f"{name} is not registered"
                assert getattr(tasks, name) is made


@pytest.mark.parametrize("name, options", FORMS)
class TestEveryTask:
    def test_it_gives_pairs_of_float32_or_int64(self, name, options):
        task = small(name, **options)
        for split in SPLITS:
            pairs = task.sample(split)
            assert isinstance(pairs, Pairs) and len(pairs.inputs) == len(pairs.targets) > 0
            assert {pairs.inputs.dtype, pairs.targets.dtype} <= {torch.float32, torch.int64}
            assert torch.isfinite(pairs.inputs).all() and torch.isfinite(pairs.targets).all()
            if isinstance(task, Regression):
                assert pairs.inputs.dtype == pairs.targets.dtype == torch.float32
            if hasattr(task, "train"):
                assert len(pairs.inputs) == getattr(task, split)

    def test_a_seed_decides_the_draw(self, name, options):
        task = small(name, **options)
        for split in SPLITS:
            published, drawn = task.sample(split), task.sample(split, seed=7)
            assert same(published, task.sample(split)) and same(drawn, task.sample(split, seed=7))
            assert not torch.equal(drawn.inputs, published.inputs)
            assert not torch.equal(drawn.inputs, task.sample(split, seed=8).inputs)

    def test_validation_is_not_what_it_trains_on(self, name, options):
        train, validation = (small(name, **options).sample(split).inputs for split in SPLITS)
        count = min(len(train), len(validation))
        assert not torch.equal(train[:count], validation[:count])
        if train.dtype == torch.float32 and name != "sudoku":  # there are few puzzles
            distances = torch.cdist(train.double().flatten(1), validation.double().flatten(1))
            assert distances.min() > 1e-4

    def test_it_leaves_the_global_generators_alone(self, name, options):
        torch.manual_seed(0), np.random.seed(0)
        expected = torch.rand(1), np.random.rand()
        torch.manual_seed(0), np.random.seed(0)
        small(name, **options).sample("train")
        assert (torch.rand(1), np.random.rand()) == expected

    def test_no_baseline_is_below_the_floor(self, name, options):
        """The tolerance of 3 % is for a loss that is measured on only 400 examples."""
        task = small(name, **options)
        floor, baselines = task.bayes_floor(), task.baselines()
        assert isinstance(floor, float) and math.isfinite(floor) and floor >= 0
        assert baselines and all(type(loss) is float and math.isfinite(loss)
                                 for loss in baselines.values())
        assert min(baselines.values()) >= 0.97 * floor

    def test_its_loss_is_that_of_a_regression_or_of_a_classification(self, name, options):
        task = small(name, **options)
        _, target = task.sample("validation")
        if isinstance(task, Regression):
            error = torch.randn(target.shape, generator=torch.Generator().manual_seed(0))
            expected = (error.double() ** 2).mean().item()
            assert task.loss(target, target) == 0
            assert task.loss(target + error, target).item() == pytest.approx(expected, rel=1e-5)
        else:
            classes = int(target.max()) + 1
            logits = torch.zeros(*target.shape, classes)
            assert task.loss(logits, target).item() == pytest.approx(math.log(classes), rel=1e-5)
            certain = 50 * F.one_hot(target.clamp(min=0), classes).double()
            assert task.loss(certain, target) < 1e-12 and task.accuracy(certain, target) == 1

    def test_its_fields_say_all_about_it(self, name, options):
        task, again = small(name, **options), small(name, **options)
        assert task == again and hash(task) == hash(again)
        assert pickle.loads(pickle.dumps(task)) == task
        with pytest.raises(FrozenInstanceError):
            setattr(task, fields(task)[0].name, 0)

    def test_an_unknown_split_is_refused(self, name, options):
        with pytest.raises(ValueError, match="^split must be one of 'train', 'validation', got"):
            small(name, **options).sample("test")


@pytest.mark.parametrize("name", ["copy", "echo", "gyroscope", "near-pi", "random-tokens", "stream",
                                  "text", "words"])
@pytest.mark.parametrize("seed", [None, 3])
def test_the_target_is_the_next_input(name, seed):
    inputs, targets = small(name).sample("validation", seed)
    scored = targets[:, :-1] != IGNORED
    assert torch.equal(inputs[:, 1:][scored], targets[:, :-1][scored])
    if name in ("stream", "text", "words") and seed is None:
        assert torch.equal(inputs[1:, 0], targets[:-1, -1])  # windows lie side by side


def test_a_copy_repeats_its_first_half_after_a_separator_and_only_the_second_half_is_scored():
    inputs, targets = Copy(half=5, alphabet=7, train=20).sample("train")
    assert (inputs[:, 5] == 7).all() and inputs.max() == 7 and (targets[:, :5] == IGNORED).all()
    assert torch.equal(inputs[:, :5], targets[:, 5:])


@pytest.mark.parametrize("name", [name for name in TASKS if hasattr(TASKS[name], "train")])
def test_a_split_may_be_empty(name):
    for split in SPLITS:
        assert len(small(name, **{split: 0}).sample(split).inputs) == 0


# ---------------------------------------------------------------- what is refused

LEAST = {  # the smallest number of what a task counts; of examples it is 0, but for a stream
    "copy": {"half": 1, "alphabet": 1}, "denoising": {"modes": 1},
    "echo": {"dim": 1, "length": 2, "noise": 0},
    "gyroscope": {"dim": 2, "length": 2, "noise": 0}, "moons": {"points": 1},
    "near-pi": {"dim": 2, "length": 2, "planes": 1, "noise": 0}, "negation": {"dim": 1},
    "random-tokens": {"vocabulary": 1, "length": 1}, "stream": {"context": 1, "validation": 1},
    "sudoku": {"givens": 0}, "text": {"size": 1, "context": 1},
    "words": {"types": 1, "size": 1, "context": 1}}


@pytest.mark.parametrize("name", TASKS)
def test_a_count_below_the_smallest_is_refused_by_name(name):
    own = LEAST.get(name, {})
    counts = {field.name: 0 for field in fields(TASKS[name])
              if field.type is int and not field.name.endswith("seed")} | own
    for count, least in counts.items():
        for value in (least - 1, float("nan"), True):
            with pytest.raises(ValueError, match=f"^{count} must be .*, got {value}$"):
                small(name, **{count: value})
        if count in own:
            small(name, **{count: least})


REFUSED = [
    (lambda: NearPi(angle=math.nan), "angle must be a finite number, got nan"),
    (lambda: Gyroscope(fastest=math.inf), "fastest must be a finite number, got inf"),
    (lambda: Gyroscope(slowest=2.5), "slowest must be below 2.5, got 2.5"),
    (lambda: Copy(noise=1.5), "noise must be from 0 to 1, got 1.5"),
    (lambda: Sudoku(givens=16), "givens must be from 0 to 15, got 16"),
    (lambda: Denoising(spread=0), "spread must be positive, got 0"),
    (lambda: Moons(noise=0), "noise must be positive, got 0"),
    (lambda: Denoising(schedule="sigmoid"), "schedule must be one of 'cosine', 'linear', got"),
    (lambda: Sudoku(split="random"), "split must be one of 'published', 'by grid', got"),
    (lambda: Text(corpus="wikipedia"), "corpus must be one of 'sample', .* got 'wikipedia'"),
    *((lambda corpus=corpus: Text(corpus=corpus), "corpus must be one of 'sample', .* got")
      for corpus in ("", None, 5)),
    (lambda: Words(corpus="a/b"), "corpus must be one of 'sample', .* got 'a/b'"),
    (lambda: Stream(corpus="nowhere"), "corpus must be one of 'sample', .* got 'nowhere'"),
    (lambda: Denoising(end=1.0), "end must lie strictly between 0 and 1, got 1.0"),
    (lambda: Denoising().flow(torch.zeros(1, 2), 0.9, 0.1, 0), "steps must be at least 1, got 0"),
    (lambda: NearPi(dim=4, planes=3), "planes must be at most 2, got 3"),
    (lambda: Words(context=30_000).sample("validation"),
     r"context must be shorter than the \d+ tokens of the text, got 30000"),
    (lambda: Stream("sample", tokenizer="words"), "tokenizer must be one of"),
    (lambda: next(Stream("sample").batches(3, 0, 0, 3)), "must divide 64, got 3"),
    (lambda: corpora.folder("vulgate"), "name must be one of 'king-james'.*got 'vulgate'"),
    (lambda: corpora.sha256("ptb"), "corpus must be 'sample' or a folder, got 'ptb'")]


@pytest.mark.parametrize("call, message", REFUSED, ids=[message for _, message in REFUSED])
def test_what_makes_no_data_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
