"""A network in a page computes what PyTorch computes with its weights, and a panel shows it."""

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import torch
from shared_sliders import location, write_page
from tokenizers import Tokenizer

from geolab.models import TransformerConfig
from geolab.show.network import FILES, UNTYPED, network
from studies.engine.results import FOLDER, stored
from studies.experiments.page_model import LINE, Pieces, build, tokenizer
from studies.experiments.page_network import RESIDUALS
from studies.experiments.page_weights import as_text, read_text, script, sha256

pytestmark = pytest.mark.browser
CONFIG = TransformerConfig.ddl(width=16, layers=2, heads=2, hidden=24, max_length=16)


@pytest.fixture(scope="module")
def pieces() -> Tokenizer:
    return tokenizer(Pieces(vocabulary=300, context=16, corpus="sample"))


@pytest.fixture(scope="module")
def texts(pieces) -> dict[str, str]:
    """Of networks whose every weight is random, so that no residual is at its start."""
    found = {}
    for seed, (name, options) in enumerate(RESIDUALS.items()):
        torch.manual_seed(seed)
        model = build(CONFIG, 300, name, options)
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.3 * torch.randn_like(p))
        found[name] = as_text(model, pieces)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory, texts) -> Path:
    folder = tmp_path_factory.mktemp("network")
    for name, text in texts.items():
        (folder / f"network_{name}.js").write_text(script(text, {"study": "a test"}))
    return folder


@pytest.fixture(scope="module")
def page_file(static, folder, texts) -> Path:
    """The panel as a page of the book has it."""
    return write_page(folder / "page.html", FILES, panel(folder, texts))


def panel(folder, texts) -> str:
    files = {name: folder / f"network_{name}.js" for name in texts}
    hashes = {name: sha256(text) for name, text in texts.items()}
    return network(files, hashes, "<table><tr><td>still</td></tr></table>",
                   text="In the beginning", folder=f"{folder.as_uri()}/").data


@pytest.fixture(scope="module")
def address(page_file) -> str:
    return page_file.as_uri()


@pytest.fixture(scope="module")
def chromium(window, address):
    window.goto(address)
    return window


# ---------------------------------------------------------------- the networks

def sentences(count: int = 100) -> list[str]:
    """Of the text and of no language: capitals, digits, marks, spaces, other letters."""
    generator = torch.Generator().manual_seed(0)
    text = Pieces(vocabulary=300, context=16, corpus="sample").text("validation")
    starts = torch.randint(len(text) - 40, (count,), generator=generator).tolist()
    found = [text[start:start + 5 + k % 30] for k, start in enumerate(starts)]
    odd = ["", " ", "   a  b ", "don't", "I'm 42% “sure” — naïve, Ωμέγα 🜂!", "日本語",
           "a\tb\u00a0c"]
    return [LINE + sentence for sentence in odd + found[:count - len(odd)]]


COMPUTED = """([text, sentences, silent]) => {
    const {encode, decode, open, reader} = geolabNetwork, net = open(text);
    return sentences.map(sentence => {
        const ids = encode(net, sentence), read = reader(net, new Set(silent));
        const last = ids.slice(0, net.context).map(id => read(id)).pop();
        return {ids, back: decode(net, ids), logits: [...last.logits],
                seen: JSON.stringify(last.seen, (_, x) => x instanceof Float64Array ? [...x] : x)};
    });
}"""


@torch.no_grad()
def agrees(page, text: str, pieces: Tokenizer, silent=()) -> None:
    model, given = read_text(text), sentences(100 if not silent else 10)
    for k in silent:
        model.trunk.layers[k].mix.register_forward_hook(lambda *args: torch.zeros_like(args[2]))
    found = page.evaluate(COMPUTED, [text, given, list(silent)])
    ids = [pieces.encode(sentence).ids for sentence in given]
    # what stands behind a sentence changes nothing in it, so that all are one batch
    whole = torch.tensor([(one + 16 * [0])[:CONFIG.max_length] for one in ids])
    for sentence, one, logits, got in zip(given, ids, model(whole), found, strict=True):
        assert got["ids"] == one and got["back"] == sentence
        wanted = logits[min(len(one), CONFIG.max_length) - 1]
        error = (torch.tensor(got["logits"]) - wanted).abs().max()
        assert error < 1e-4 * max(1, wanted.abs().max()), sentence


@pytest.mark.parametrize("residual", RESIDUALS)
def test_a_browser_computes_the_logits_of_pytorch(in_both, residual, texts, pieces):
    agrees(in_both, texts[residual], pieces)
    agrees(in_both, texts[residual], pieces, silent=[1, 2])


@pytest.mark.parametrize("residual, names", [
    ("delta", ("beta", "value")), ("mhc", ("read", "write", "mix")), ("mgt", ("gate", "beta")),
    ("attnres", ())])
@torch.no_grad()
def test_what_is_seen_are_the_coefficients_of_the_residual(chromium, residual, names, texts):
    model = read_text(texts[residual])
    got, = chromium.evaluate(COMPUTED, [texts[residual], [LINE + "In the"], []])
    noted = []
    for layer in model.trunk.layers:
        layer.register_forward_pre_hook(lambda layer, args: noted.append(
            (args[0], layer.residual.observe(args[0], layer.sublayer))))
    model(torch.tensor([got["ids"]]))
    for (state, wanted), seen in zip(noted, json.loads(got["seen"]), strict=True):
        for name in names:
            value = getattr(wanted, name)[0, -1]
            assert torch.allclose(torch.tensor(seen[name]), value, atol=1e-4), name
        if residual == "delta":
            along = (wanted.direction * state).sum(-1)[0, -1]
            assert seen["along"] == pytest.approx(along.item(), abs=1e-4)
        if residual == "mgt":
            assert seen["alpha"] == pytest.approx(wanted.alpha.item(), abs=1e-6)
        if residual == "attnres":
            there = wanted.read[0, -1].tolist()
            assert seen["weights"] == pytest.approx(there[:len(seen["weights"])], abs=1e-4)


@pytest.mark.parametrize("change, said", [
    (lambda told: {"residual": "hyper"}, "doesn't compute the residual “hyper”"),
    (lambda told: {"residual": "toString"}, "doesn't compute the residual “toString”"),
    (lambda told: {"residual": "additive"}, "and the network wants none"),
    (lambda told: {"hidden": 25}, "have the shape"),
    (lambda told: {"tensors": told["tensors"][1:]}, "weights, and the network wants"),
    (lambda told: {"tensors": told["tensors"][:1] + told["tensors"][:-1]}, "weights, and"),
    (lambda told: {"numbers": told["numbers"][:-8]}, "bytes of weights")])
def test_a_text_of_another_shape_is_refused(chromium, texts, change, said):
    told = json.loads(texts["delta"])
    assert said in chromium.evaluate(
        "text => { try { geolabNetwork.open(text); } catch (error) { return error.message; } }",
        json.dumps(told | change(told)))


@pytest.mark.parametrize("residual", RESIDUALS)
def test_a_stored_network_says_what_the_result_says(chromium, residual):
    run, = (run for run in stored("page_network")["runs"] if run["model"] == residual)
    file = (FOLDER / f"page_network/network_{residual}.js").read_text()
    text = json.loads(file[file.index('"{'):file.rindex(")")])
    assert sha256(text) == run["measured"]["sha256"] and len(file) < 1.5e6
    spoken = run["measured"]["speaks"]
    found = chromium.evaluate("""([text, sentences]) => {
        const {encode, decode, open, reader, softmax} = geolabNetwork, net = open(text);
        return sentences.map(sentence => {
            const {logits} = encode(net, sentence).map(reader(net)).pop();
            return softmax([...logits]).map((p, i) => [decode(net, [i]), p])
                .sort((a, b) => b[1] - a[1]).slice(0, 5);
        });
    }""", [text, [LINE + begin for begin in spoken]])
    for one, got in zip(spoken.values(), found, strict=True):
        assert [p for _, p in got] == pytest.approx([p for _, p in one["next"]], abs=2e-4)
        assert got[0][0] == one["next"][0][0]


# ---------------------------------------------------------------- the panel

@pytest.fixture
def opened(open_phone, page_file):
    return open_phone(page_file)


def out(page, side: str):
    return page.locator(f'[data-side="{side}"] .geolab-out')


def begin(page) -> None:
    page.click(".geolab-run")
    out(page, "right").locator("li").first.wait_for()


def test_weights_are_loaded_when_a_reader_asks_and_the_first_picture_stays_till_then(opened):
    loaded, still = opened.locator('script[src*="/network_"]'), opened.locator(".geolab-still")
    before = loaded.count()
    assert still.is_visible()
    opened.focus("textarea")
    out(opened, "right").locator("li").first.wait_for()
    assert not still.is_visible() and loaded.count() == before + 2
    opened.locator(".geolab-said").filter(has_text="delta: ").wait_for(state="attached")


@pytest.mark.parametrize("residual, word", [
    ("additive", "cosine"), ("delta", "k·x"), ("mhc", "rows of H"), ("mgt", "gate G"),
    ("attnres", "weights")])
@torch.no_grad()
def test_a_residual_shows_what_it_did_and_the_likeliest_pieces(
        opened, residual, word, texts, pieces):
    opened.select_option('[name="network.left"]', residual)
    opened.fill("textarea", "The word is")
    left, ids = out(opened, "left"), pieces.encode(LINE + "The word is").ids
    best = read_text(texts[residual])(torch.tensor([ids]))[0, -1].topk(5).indices.tolist()
    # what is typed takes effect 150 milliseconds later
    opened.wait_for_function("""wanted => [...document.querySelectorAll(
        "[data-side=left] button[data-next]")].map(one => one.dataset.next).join("|") === wanted
    """, arg="|".join(pieces.decode([k]) for k in best))
    assert left.locator("tbody tr").count() == len(ids)
    assert left.locator("thead button").all_inner_texts() == ["A1", "M1", "A2", "M2"]
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
    told = left.locator(".geolab-told").inner_text()
    assert word in told and "NaN" not in told and "undefined" not in told


def test_a_silent_sublayer_changes_what_comes_next_and_a_click_brings_it_back(opened):
    begin(opened)
    first, other = (out(opened, side).locator("ol").inner_text() for side in ("left", "right"))
    changed = "first => (document.querySelector('[data-side=left] ol').innerText !== first)"
    button = out(opened, "left").locator('[data-off="1"]')
    button.focus()
    opened.keyboard.press("Enter")
    opened.wait_for_function(changed, arg=first)
    assert button.get_attribute("aria-pressed") == "true"
    assert opened.evaluate("document.activeElement.dataset.off") == "1"
    assert out(opened, "right").locator("ol").inner_text() == other
    opened.keyboard.press("Enter")
    opened.wait_for_function(changed.replace("!==", "==="), arg=first)


def test_arrow_keys_go_from_place_to_place_in_both_tables_as_far_as_the_network_reads(opened):
    opened.fill("textarea", "one two three four five six seven eight nine ten")
    opened.locator(".geolab-wants").filter(has_text="first 15 pieces of your text").wait_for()
    assert out(opened, "left").locator("tbody tr").count() == 16
    here = out(opened, "left").locator("td[aria-current]")
    row, column = map(int, here.get_attribute("data-at").split())
    here.focus()
    opened.keyboard.press("ArrowLeft" if column else "ArrowRight")
    place = f"{row} {column - 1 if column else 1}"
    for side in ("left", "right"):
        assert out(opened, side).locator("td[aria-current]").get_attribute("data-at") == place
    assert opened.evaluate("document.activeElement.dataset.at") == place


def test_the_address_keeps_what_was_typed_and_opens_it_again(opened):
    begin(opened)
    opened.select_option('[name="network.right"]', "mhc")
    opened.fill("textarea", "A <b> & c")
    out(opened, "left").locator('[data-off="2"]').click()
    out(opened, "left").locator('[data-off="2"][aria-pressed="true"]').wait_for()
    opened.wait_for_function("location.search.includes('text=A')")
    address = location(opened)
    assert parse_qs(urlsplit(address).query) == {
        "network.text": ["A <b> & c"], "network.right": ["mhc"], "network.left-off": ["2"]}
    before = [out(opened, side).inner_text() for side in ("left", "right")]
    opened.goto("about:blank")
    opened.goto(address)
    assert opened.locator('script[src*="network_delta"]').count() == 0
    begin(opened)
    assert [out(opened, side).inner_text() for side in ("left", "right")] == before


@pytest.mark.parametrize("before, after, said", [
    (None, "", "can't be read"), ('\\"heads\\":2', '\\"heads\\":4', "have the SHA-256"),
    ('take("delta"', 'take("mgt"', "has no network “delta”")])
def test_other_weights_are_refused_with_a_sentence(open_phone, tmp_path, page_file, texts,
                                                   before, after, said):
    for name, text in texts.items():
        if name != "delta" or before:
            content = script(text, {})
            content = content.replace(before, after) if name == "delta" else content
            (tmp_path / f"network_{name}.js").write_text(content)
    path = page_file.with_name("broken.html")
    path.write_text(page_file.read_text().replace(
        f'data-files="{page_file.parent.as_uri()}/"', f'data-files="{tmp_path.as_uri()}/"'))
    page = open_phone(path)
    page.click(".geolab-run")
    page.locator(".geolab-wants").filter(has_text=said).wait_for()
    assert page.locator(".geolab-still").is_visible()


def test_the_first_table_stands_there_without_javascript(open_phone, page_file):
    page = open_phone(page_file, java_script_enabled=False)
    assert page.locator(".geolab-untyped").inner_text() == UNTYPED
    assert page.locator("td").first.is_visible()
    assert not page.locator("textarea").is_visible()


def test_an_output_of_a_notebook_works_alone(open_phone, tmp_path, monkeypatch, folder, texts):
    monkeypatch.delenv("GEOLAB_EXPLORE", raising=False)
    path = tmp_path / "output.html"
    path.write_text(f'<!DOCTYPE html><meta charset="utf-8">{panel(folder, texts)}')
    page = open_phone(path)
    begin(page)
    assert location(page) == path.as_uri()
