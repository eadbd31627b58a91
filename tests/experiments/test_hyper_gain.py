"""The gain that is noted while a model trains."""

import torch

from geolab.experiments import hyper_gain
from geolab.experiments.hyper_gain import Watched, gain
from geolab.models import TokenModel, Transformer, TransformerConfig
from geolab.tasks import Copy
from geolab.training import Budget, fit

TASK = Copy(half=4, alphabet=5, train=40, validation=12)
INPUTS = TASK.sample("validation").inputs[:2]


def watched(residual: str, evaluations: int = 3) -> Watched:
    torch.manual_seed(0)
    model = TokenModel(Transformer(TransformerConfig.ddl(width=8, layers=1, heads=2), residual), TASK.vocabulary)
    return Watched(model, INPUTS, evaluations)


def test_each_evaluation_is_noted_once_and_a_checkpoint_keeps_it(tmp_path):
    model = watched("hyper")
    fit(model, TASK, Budget(steps=6, evaluate_every=2, lr=0.1, warmup=1), checkpoint=tmp_path / "run.pt", progress=False)
    assert model.evaluations == 3 and (model.gain[:, 1:] != model.gain[:, :-1]).any(0).all()
    again = watched("hyper")
    again.load_state_dict(torch.load(tmp_path / "run.pt", weights_only=True)["model"])
    assert gain(again) == gain(model)


def test_an_evaluation_in_parts_is_one():
    model = watched("hyper")
    for _ in range(2):
        model.train()
        model(INPUTS)
        model.eval()
        model(INPUTS), model(INPUTS), model.eval()
    assert model.evaluations == 2


def test_the_additive_stream_has_gain_one():
    model = watched("additive").eval()
    assert gain(model) == {name: [1.0, 1.0, 1.0] for name in ("forward", "backward", "single")}


def test_a_model_has_room_for_each_of_its_evaluations():
    for budget in ("cpu", "gpu"):
        for comparison in hyper_gain.EXPERIMENT.plan(budget).values():
            model = comparison.models["additive, 8 blocks" if budget == "cpu" else "additive, 30 blocks"]()
            assert model.gain.shape[1] * comparison.budget.evaluate_every == comparison.budget.steps
