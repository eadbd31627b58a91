"""What a page and a notebook bring of networks, and what is refused."""

import pytest
from bs4 import BeautifulSoup

from geolab.show import network
from geolab.show.network import table


@pytest.fixture
def given(tmp_path):
    files = {name: tmp_path / f"network_{name}.js" for name in ("additive", "delta")}
    for name, file in files.items():
        file.write_text(f"weights of {name}")
    return {"weights": files, "hashes": dict.fromkeys(files, "0" * 64), "still": "<p>still</p>"}


def shown(**given) -> BeautifulSoup:
    return BeautifulSoup(network(**given).data, "html.parser")


@pytest.mark.usefixtures("static")
def test_a_page_brings_no_weights(given):
    assert shown(**given).find("script") is None


@pytest.mark.usefixtures("live")
def test_a_notebook_brings_all_weights(given):
    assert all(f"weights of {name}" in network(**given).data for name in given["weights"])


def test_what_is_typed_is_text_and_no_markup(given):
    page = shown(**given | {"text": "</textarea><b>", "caption": "a < b"})
    assert page.textarea.text == "</textarea><b>" and not page.find("b")
    assert not BeautifulSoup(table(["<b>"], [["<b>", "<b>"]]), "html.parser").find("b")


@pytest.mark.parametrize("change, error, message", [
    (lambda g: g | {"left": "mhc"}, ValueError, "left must be one of 'additive', 'delta'"),
    (lambda g: g | {"right": "x"}, ValueError, "right must be one of"),
    (lambda g: g | {"hashes": {"delta": ""}}, ValueError, "none for 'additive'"),
    (lambda g: g | {"weights": g["weights"] | {"hyper": None}}, ValueError, "weights must be one"),
    (lambda g: g | {"weights": {name: file.with_name("gone.js")
                                for name, file in g["weights"].items()}},
     FileNotFoundError, "page_network writes it")])
def test_what_cannot_be_shown_is_refused(given, change, error, message):
    with pytest.raises(error, match=message):
        network(**change(given))
