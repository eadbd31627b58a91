"""What a panel shows before a script runs, and which texts its fields take."""

import pytest
import torch
from bs4 import BeautifulSoup

from geolab.show import compute
from geolab.show.compute import read, shown, shown_complex
from geolab.show.panels import PANELS, Field


@pytest.mark.parametrize("name", PANELS)
@pytest.mark.usefixtures("live")
def test_a_notebook_gets_all_that_a_panel_needs(name):
    page = BeautifulSoup(compute(name).data, "html.parser")
    assert "geolabCore" in page.script.text and page.style and not page.find(src=True)


@pytest.mark.parametrize("name", PANELS)
@pytest.mark.usefixtures("static")
def test_a_page_gets_numbers_a_caption_and_no_script(name):
    page = BeautifulSoup(compute(name, "A caption.").data, "html.parser")
    assert not page.find_all(["script", "style"]) and "A caption." in page.text
    results = page.find(class_="geolab-results")
    assert results.table and not any("nan" in cell.text for cell in results.find_all("td"))


def test_the_start_of_a_panel_can_be_chosen():
    page = BeautifulSoup(compute("delta", k="0 1", beta=2, x="3 4").data, "html.parser")
    cells = [cell.text for cell in page.table.find_all("td")]
    assert cells == ["1.000", "0.000", "0.000", "−1.000"]
    assert page.find(attrs={"name": "delta.beta"})["value"] == "2"


@pytest.mark.parametrize("name, start, message", [
    ("beta", {}, "name must be one of delta, gain, .* got 'beta'"),
    ("delta", {"gate": 1}, "delta has the fields k, beta, x, got 'gate'"),
    ("delta", {"beta": "much"}, "beta must be a number from −1 to 3, got 'much'"),
    ("delta", {"beta": 4}, "beta must be a number from −1 to 3, got '4'"),
    ("delta", {"k": "0 0"}, "k must be 2, 3 or 4 numbers .* not all of them 0, got '0 0'"),
    ("delta", {"x": "1 2 3"}, "x must be .* as many as k, .* got '1 2 3'"),
    ("gain", {"L": 1.5}, "L must be a whole number from 1 to 60, got '1.5'"),
    ("gain", {"H": "1 2; 3"}, "H must be 2, 3 or 4 rows.* got '1 2; 3'")])
def test_a_start_that_a_field_refuses_is_named(name, start, message):
    with pytest.raises(ValueError, match=message):
        compute(name, **start)


def test_numbers_are_read_as_they_are_written():
    field = Field("k", "1 0", "vector")
    for text in ("-0.5 1.5", "−0,5 1,5", "-1/2 3/2", " -.5, 1.5 ", "-5e-1  15e-1"):
        assert torch.equal(read(field, text), torch.tensor([-0.5, 1.5], dtype=torch.float64)), text
    for text in ("", "1", "1;2", "1 x", "1 nan", "1 1/0", "1 2 3 4 5", "1 1e9", "1 1/2/3", "1_0 2"):
        assert read(field, text) is None, text


def test_numbers_are_shown_with_three_digits():
    assert [shown(x) for x in (0, -1e-17, 0.0625, -1.5, 2e-7, -3.14159e8)] == [
        "0.000", "0.000", "0.063", "−1.500", "2.00e−7", "−3.14e8"]
    assert shown_complex(0.5 - 0.25j) == "0.500 − 0.250i"
