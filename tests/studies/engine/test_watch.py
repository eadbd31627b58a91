"""What a model notes of itself is noted once per evaluation, at fixed inputs."""

import pytest
import torch
from torch import nn

from geolab.tasks import Negation
from studies.engine.watch import on_the_way, watch

TASK = Negation(8, 500, 11)
X = torch.zeros(1, 8)


def counting(places=9, **options):
    """A model that notes how many examples it looks at, and their sum."""
    def look(model, x):
        return torch.stack([torch.tensor(float(len(x))), model.forward(x).sum()])
    return watch(nn.Linear(8, 8, bias=False), look, TASK, places, 2, **options)


def test_only_the_first_of_the_passes_between_two_trainings_is_noted_while_there_is_a_place():
    model, counts = counting(places=2), []
    for training in (False, True, True, False, False, True, False, True, False):
        model.train(training)(X)
        counts.append(model.count.item())
    assert counts == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert {"seen", "count"} <= model.state_dict().keys()  # a checkpoint keeps them


@pytest.mark.parametrize("examples", [None, 3])
def test_it_looks_at_its_own_inputs_all_or_the_first(examples):
    inputs = TASK.sample("validation").inputs[:examples]
    model = counting(start=True, examples=examples)
    assert model.count == 1 and not model.training
    assert model.seen[0].tolist() == [len(inputs), model(inputs).sum().item()]
    assert model.seen[1:].isnan().all()


def test_a_compiled_model_notes_the_same():
    plain, compiled = counting(), counting()
    compiled.load_state_dict(plain.state_dict())
    compiled.compile(backend="eager")  # the default one would call a C++ compiler
    for model in (plain, compiled):
        for training in (True, False, False, True, False):
            model.train(training)(X)
    assert compiled.count == 2 and torch.equal(compiled.seen[:2], plain.seen[:2])


def test_on_the_way_sees_what_each_module_is_given_and_leaves_no_hooks():
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    x = torch.randn(3, 8)
    first, second = on_the_way(model, model, x, lambda module, given: given)
    assert torch.equal(first, x) and torch.equal(second, model[0](x))
    assert not model[0]._forward_pre_hooks and not model[1]._forward_pre_hooks
