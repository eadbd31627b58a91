"""In a browser, a panel shows for what is typed what geolab computes from the same text."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from bs4 import BeautifulSoup
from shared_sliders import location, write_page

from geolab.show import compute
from geolab.show.compute import FILES, UNTYPED
from geolab.show.panels import PANELS

pytestmark = pytest.mark.browser
ROOT = Path(__file__).resolve().parents[2]
TYPED = {  # another size where there is one, and numbers that are hard
    "delta": {"k": "1 2 -2", "beta": "1.7", "x": "3,5 −4 1/3"},
    "gain": {"H": "1 0.25 0; 0 1 0.25; 0 0 1", "a": "0 1 0", "b": "1 0 2", "f": "-0.3", "L": "20"},
    "sinkhorn": {"z": "30 0 1 0; 0 0 30 2; 2 1 -40 0; 0 5 0 1", "s": "7"},
    "consensus": {"z": "1 0; 0 3", "w": "0 2; 1 0", "L": "9"},
    "cayley": {"z": "1 2 -0.5 0.3 1 4"},
    "gate": {"turn": "-125", "mirror": "70", "gamma": "0.35"},
    "commutator": {"A": "0 1 0; 0 0 1; 1 0 0", "B": "1 2 3; 3 1 2; 2 3 1"},
}


@pytest.fixture(scope="module")
def page_of_all(static, tmp_path_factory) -> Path:
    """All panels as the book's pages have them."""
    panels = "".join(compute(name).data for name in PANELS)
    return write_page(tmp_path_factory.mktemp("panels") / "all.html", FILES,
                      f'<h2 id="part">A section</h2>{panels}')


@pytest.fixture
def opened(open_phone, page_of_all):
    return open_phone(page_of_all)


def results(page, name: str) -> tuple[str, list[str]]:
    return told(BeautifulSoup(page.inner_html(f"#compute-{name} .geolab-results"), "html.parser"))


def computed(name: str, typed: dict[str, str]) -> tuple[str, list[str]]:
    page = BeautifulSoup(compute(name, **typed).data, "html.parser")
    return told(page.find(class_="geolab-results"))


def told(results) -> tuple[str, list[str]]:
    """The elements with their texts, and all coordinates, without the sign of a zero."""
    circles = [f"{float(circle.attrs.pop(key)):.0f}".replace("-0", "0")
               for circle in results.find_all("circle") for key in ("cx", "cy", "r")
               if key in circle.attrs]
    return results.decode_contents(), circles


def fill(page, name: str, typed: dict[str, str]) -> None:
    for key, text in typed.items():
        page.fill(f'[name="{name}.{key}"]', text)
        page.press(f'[name="{name}.{key}"]', "Enter")


@pytest.mark.parametrize("panel", PANELS)
def test_what_is_typed_is_computed_as_geolab_does(opened, panel):
    assert results(opened, panel) == computed(panel, {})
    fill(opened, panel, TYPED[panel])
    assert results(opened, panel) == computed(panel, TYPED[panel])
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
    # the address keeps it, and opens the same panel; the other panels are at their start
    address = location(opened)
    assert parse_qs(urlsplit(address).query) == {f"{panel}.{key}": [text]
                                                 for key, text in TYPED[panel].items()}
    assert address.endswith(f"#compute-{panel}")
    opened.goto("about:blank")
    opened.goto(address)
    for name in PANELS:
        assert results(opened, name) == computed(name, TYPED[name] if name == panel else {})


def test_firefox_computes_what_is_typed(firefox, page_of_all):
    page = firefox.new_page()
    page.goto(page_of_all.as_uri())
    for name in PANELS:
        fill(page, name, TYPED[name])
        assert results(page, name) == computed(name, TYPED[name])
    page.close()


def test_an_address_keeps_its_section_and_a_wrong_one_shows_the_start(opened, page_of_all):
    opened.goto(page_of_all.as_uri() + "?other=1#part")
    fill(opened, "delta", {"beta": "1"})
    assert location(opened).endswith("?other=1&delta.beta=1#part")
    fill(opened, "delta", {"beta": "0.4"})  # its start
    assert location(opened).endswith("?other=1#part")
    opened.goto(page_of_all.as_uri() + "?delta.beta=%3Cb%3E")
    assert "β wants a number" in opened.inner_text("#compute-delta .geolab-wants >> nth=1")
    assert results(opened, "delta") == computed("delta", {})


@pytest.mark.parametrize("field, text, wanted", [
    ("delta.beta", "abc", "β wants a number from −1 to 3. The results are still those of 0.4."),
    ("delta.beta", "9", "β wants a number"), ("delta.k", "0 0", "k wants 2, 3 or 4 numbers"),
    ("delta.x", "1 2 3", "x wants"), ("gain.L", "2.5", "layers L wants a whole number"),
    ("gain.H", "1 2; 3", "H wants"), ("gain.H", "1 2; 3 1/0", "H wants")])
def test_a_wrong_text_is_told_and_changes_nothing(opened, field, text, wanted):
    (name, key), before = field.split("."), location(opened)
    fill(opened, name, {key: text})
    message = opened.locator(f'.geolab-field:has([name="{field}"]) .geolab-wants').inner_text()
    assert wanted in message
    assert results(opened, name) == computed(name, {}) and location(opened).startswith(before)


def test_keys_step_numbers_and_move_what_can_be_dragged(opened):
    opened.focus('[name="delta.beta"]')
    for key in ("ArrowUp", "ArrowUp", "ArrowDown"):
        opened.keyboard.press(key)
    assert results(opened, "delta") == computed("delta", {"beta": "0.41"})
    opened.keyboard.press("Tab")  # to its range
    opened.keyboard.press("ArrowRight")
    assert results(opened, "delta") == computed("delta", {"beta": "0.42"})
    assert "delta.beta=0.42" in location(opened)
    opened.focus('[name="delta.x"]')
    for key in ("End", "ArrowDown"):
        opened.keyboard.press(key)
    assert opened.input_value('[name="delta.x"]') == "5 -0.1"
    opened.fill('[name="delta.x"]', "5 −0,1")
    opened.keyboard.press("ArrowDown")
    assert opened.input_value('[name="delta.x"]') == "5 -0.2"
    opened.fill('[name="delta.x"]', "4,9, -0.1")
    for key in ("Home", "ArrowUp"):
        opened.keyboard.press(key)
    assert opened.input_value('[name="delta.x"]') == "5 -0.1"
    said = opened.locator("#compute-delta .geolab-said")
    said.filter(has_text="Eigenvalues of A: 1.000, 0.580. A x: ").wait_for(state="attached")


@pytest.mark.parametrize("lost", ["core.js", "compute.js", "JavaScript"])
def test_the_first_numbers_stand_where_no_script_computes(open_phone, page_of_all, lost):
    text, path = page_of_all.read_text(), page_of_all.with_name(f"without-{lost}.html")
    bad = path.with_suffix(".js")
    bad.write_text("throw new Error('on purpose')")
    path.write_text(text.replace(f"{FILES[0].parent.as_uri()}/{lost}", bad.as_uri()))
    page = open_phone(path, raises=True, java_script_enabled=lost != "JavaScript")
    for name in PANELS:
        panel = page.locator(f"#compute-{name}")
        assert panel.locator(".geolab-untyped").inner_text() == UNTYPED
        assert panel.locator(".geolab-untyped").is_visible()
        assert not panel.locator(".geolab-fields").is_visible()
        assert panel.locator("td").first.is_visible()


def test_an_output_of_a_notebook_works_alone(open_phone, tmp_path, monkeypatch):
    monkeypatch.delenv("GEOLAB_EXPLORE", raising=False)
    path, names = tmp_path / "output.html", ("gate", "cayley")
    path.write_text('<!DOCTYPE html><meta charset="utf-8">'
                    + "".join(compute(name).data for name in names))
    page = open_phone(path)
    for name in names:
        fill(page, name, TYPED[name])
        assert results(page, name) == computed(name, TYPED[name])
    assert location(page) == path.as_uri()


def test_a_page_has_the_panels_of_its_notebook(phone):
    source = ROOT / f"{phone.name}.ipynb"
    text = source.read_text() if source.exists() else ""
    count = sum(f'compute(\\"{name}\\"' in text for name in PANELS) + ("network({" in text)
    assert phone.page.locator('script[src*="_static/core.js"]').count() == bool(count)
    assert phone.page.locator(".geolab-fields:not([hidden])").count() == count
