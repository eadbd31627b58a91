import pytest

from geolab.residuals import REGISTRY, Additive, Delta, Residual, make_residual


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_name_makes_a_residual_of_its_class(name):
    residual = make_residual(name, 8)
    assert type(residual) is REGISTRY[name] and isinstance(residual, Residual) and residual.width == 8


def test_a_class_and_its_options_pass_through():
    assert isinstance(make_residual(Additive, 8), Additive)
    residual = make_residual(Delta, 8, map="v", beta_fixed=2.0)
    assert (residual.map, residual.beta_fixed) == ("v", 2.0)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="^unknown residual 'detla'; known: ") as error:
        make_residual("detla", 8)
    assert all(name in str(error.value) for name in REGISTRY)


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="gamma"):
        make_residual("delta", 8, gamma=1)
