"""A network taken apart at one input computes what it computes whole."""

import pytest
import torch

from geolab.graft import graft, residual_stream


@pytest.mark.parametrize("name", ["gpt2", "llama", "vit", "nanogpt"])
def test_a_map_can_be_left_out_and_has_a_gradient(name, net):
    made = net(name)
    model = made.model.eval()
    stream = residual_stream(model, made.inputs)
    states = stream.states(stream.sublayers[:-1])
    torch.testing.assert_close(states[-1], stream.states()[-2], rtol=0, atol=0)
    x = stream.x.clone().requires_grad_()
    stream.sublayers[0](x).square().sum().backward()
    assert x.grad.abs().min() > 0


def test_a_stack_of_another_library_is_taken_apart_as_it_takes_x():
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, norm_first=False)
    model = torch.nn.TransformerEncoder(layer, 2).eval()   # (T, B, D), post-norm
    x = torch.randn(5, 3, 16)
    stream = residual_stream(model, x)
    torch.testing.assert_close(stream.states()[-1], model(x), rtol=1e-4, atol=1e-5)
    assert [step.name for step in stream.sublayers] == ["A0", "F0", "A1", "F1"]


class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.one = torch.nn.TransformerEncoder(layer, 1)
        self.other = torch.nn.TransformerEncoder(layer, 1)

    def forward(self, x):
        return self.other(self.one(x))


@pytest.mark.parametrize("change, message", [
    (lambda model: model.train(), "model must be in eval mode"),
    (lambda model: graft(model, "additive"), "must not be grafted yet"),
    (lambda model: torch.nn.Linear(2, 2).eval(), "must have blocks that graft knows"),
    (lambda model: Twice().eval(), "must have one stack of blocks"),
])
def test_what_cannot_be_taken_apart_is_refused(change, message, net):
    made = net("llama")
    with pytest.raises(ValueError, match=message):
        residual_stream(change(made.model.eval()), made.inputs)
