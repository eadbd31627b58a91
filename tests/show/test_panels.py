"""What panels and questions show before a script runs, and which texts their fields take."""

import pytest
import torch
from bs4 import BeautifulSoup

from geolab.show import ask, compute, network
from geolab.show.compute import read, shown, shown_complex
from geolab.show.network import table
from geolab.show.panels import PANELS, Field


def parsed(text: str) -> BeautifulSoup:
    return BeautifulSoup(text, "html.parser")


@pytest.mark.parametrize("name", PANELS)
@pytest.mark.usefixtures("static")
def test_a_page_gets_numbers_a_caption_and_no_script(name):
    page = parsed(compute(name, "A caption.").data)
    assert not page.find_all(["script", "style"]) and "A caption." in page.text
    results = page.find(class_="geolab-results")
    assert results.table and not any("nan" in cell.text for cell in results.find_all("td"))


def test_the_start_of_a_panel_can_be_chosen():
    page = parsed(compute("delta", k="0 1", beta=2, x="3 4").data)
    cells = [cell.text for cell in page.table.find_all("td")]
    assert cells == ["1.000", "0.000", "0.000", "−1.000"]
    assert page.find(attrs={"name": "delta.beta"})["value"] == "2"


def test_numbers_are_read_as_they_are_written_and_shown_with_three_digits():
    field = Field("k", "1 0", "vector")
    for text in ("-0.5 1.5", "−0,5 1,5", "-1/2 3/2", " -.5, 1.5 ", "-5e-1  15e-1"):
        assert torch.equal(read(field, text), torch.tensor([-0.5, 1.5], dtype=torch.float64)), text
    for text in ("", "1", "1;2", "1 x", "1 nan", "1 1/0", "1 2 3 4 5", "1 1e9", "1 1/2/3", "1_0 2"):
        assert read(field, text) is None, text
    assert [shown(x) for x in (0, -1e-17, 0.0625, -1.5, 2e-7, -3.14159e8)] == [
        "0.000", "0.000", "0.063", "−1.500", "2.00e−7", "−3.14e8"]
    assert shown_complex(0.5 - 0.25j) == "0.500 − 0.250i"


@pytest.mark.parametrize("where", ["live", "static"])
def test_a_notebook_brings_a_networks_weights_and_a_page_does_not(request, tmp_path, where):
    request.getfixturevalue(where)
    files = {name: tmp_path / f"network_{name}.js" for name in ("additive", "delta")}
    for name, file in files.items():
        file.write_text(f"weights of {name}")
    made = network(files, dict.fromkeys(files, "0"), "<p>still</p>", text="</textarea><b>",
                   caption="a < b", folder='"><b>').data
    brought = [name for name in files if f"weights of {name}" in made]
    assert brought == (list(files) if where == "live" else [])
    page = parsed(made)
    assert bool(page.script) == (where == "live")
    # what is typed is text and no markup
    assert page.textarea.text == "</textarea><b>" and not page.find("b")
    assert not parsed(table(["<b>"], [["<b>", "<b>"]])).find("b")


def test_every_answer_opens_its_reply_with_the_quotation_marks_of_print():
    page = ask('Why can\'t it say "no"?', {"It's (\"shy\") < 1": "No.", "The rows' sums": "Yes."})
    assert parsed(page.data).div["aria-label"] == "Why can’t it say “no”?"
    assert page.data.count("<details>") == 2
    assert "<summary>It’s (“shy”) &lt; 1</summary><p>No.</p>" in page.data
    assert "<summary>The rows’ sums</summary><p>Yes.</p>" in page.data
