"""The code of README.md and of book/use.md runs as it stands there, and the page's numbers hold."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from statistics import stdev

import pytest
import torch

from benchmarks import cost
from geolab.graft import distance_from_plain, graft, ungraft
from geolab.graft.block import make_residuals
from geolab.graft.rules import OWN
from studies import ledger
from studies.claims.hypothesis import HYPOTHESES
from studies.claims.table import TABLES
from studies.engine import results

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "book/use.md").read_text()


def python(text):
    return re.findall(r"```python\n(.*?)```", text, re.S)


@pytest.fixture
def run(transformers, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("geolab.graft.rules.OWN", OWN.copy())

    def run(blocks):
        names = {"__name__": "page"}
        for block in blocks:
            exec(block, names)
        return names
    return run


def test_the_code_of_the_readme_and_of_the_page(run):
    section = (ROOT / "README.md").read_text().partition("## In your own network\n")[2]
    block, = python(section.partition("\n## ")[0])
    assert len(block.splitlines()) <= 12
    page = run([block for block in python(PAGE) if not block.startswith("# mine.py")])
    for names in (run([block]), page):
        assert (names["after"] - names["before"]).abs().max() < 1e-5
    model, again, tokens = page["model"].eval(), page["again"].eval(), page["tokens"]
    assert torch.equal(again(tokens).logits, model(tokens).logits)
    assert len(page["mine"][0].residuals) == 2


def test_a_residual_of_your_own(monkeypatch, capsys, tmp_path):
    """The page's file trains and judges, and a second run reads what the first one kept: in this
    process, since each one takes seconds to start.
    """
    monkeypatch.chdir(tmp_path)
    own, = (block for block in python(PAGE) if "class Highway" in block)
    file, = (block for block in python(PAGE) if block.startswith("# mine.py"))
    made = tmp_path / "mine.py"
    made.write_text(f"{own}\n\n{file}")
    first = subprocess.run([sys.executable, made], capture_output=True, text=True,
                           env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert first.returncode == 0, first.stderr
    runpy.run_path(str(made), run_name="__main__")
    assert "seeds=3" in first.stdout and first.stdout == capsys.readouterr().out


def test_the_calls_of_the_table(transformers):
    """Those for a trained model start plain, the others are refused without `plain=False`."""
    config = transformers.GPT2Config(n_layer=1, n_embd=32, n_head=2, vocab_size=50)
    calls = re.findall(r"^\| `(graft\(.*\))` \| (yes|from scratch only) \|$", PAGE, re.M)
    assert len(calls) == 13
    for call, told in calls:
        names = {"graft": graft, "model": transformers.GPT2LMHeadModel(config)}
        if told != "yes":
            with pytest.raises(ValueError, match="plain"):
                eval(call.replace(", plain=False", ""), names)
        eval(call, names)


# ---------------------------------------------------------------- numbers

def table(heading):
    """name -> the row of the page's table whose first line begins so."""
    lines = PAGE.partition(f"| residual | {heading}")[2].partition("\n\n")[0].splitlines()[2:]
    return {line.split(" | ")[0].strip("|` "): line.partition(" | ")[2] for line in lines}


def test_the_distances_from_the_plain_start_and_the_new_weights():
    told = {name: match[1] for name, line in table("starts as").items()
            if (match := re.search(r"(0\.\d\d) away", line))}
    assert told == {name: f"{distance_from_plain(name, 768):.2f}"
                    for name in ("mgt", "delta", "delta-matrix", "emhc-hybrid")}
    for name, line in table("new weights").items():
        for text, options in (("", {}), ("with two streams ", {"streams": 2}),
                              ("with `gate=False` ", {"gate": False})):
            if number := re.search(rf"(?:^|; ){text}([\d.]+)", line):
                made = make_residuals(name, 768, 24, **options)
                count = sum(p.numel() for residual in made for p in residual.parameters())
                assert float(number[1]) == round(count / 1e6, 2), (name, options)


def kept(blocks, x):
    """Bytes that autograd keeps of a forward through the blocks, without the parameters."""
    own, stored = {p.untyped_storage().data_ptr() for p in blocks.parameters()}, {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        stored[storage.data_ptr()] = storage.nbytes(), tensor  # alive, in its place
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        for block in blocks:
            x = block(x)
            x = x[0] if isinstance(x, tuple) else x
    return sum(size for place, (size, _) in stored.items() if place not in own)


def test_the_memory_that_a_block_keeps(transformers):
    config = transformers.GPT2Config(n_layer=2, vocab_size=50, resid_pdrop=0, embd_pdrop=0,
                                     attn_pdrop=0, bos_token_id=0, eos_token_id=0)
    x, model = torch.randn(1, 128, 768), transformers.GPT2LMHeadModel(config)
    plain = kept(model.transformer.h, x)
    for name, told in table("new weights").items():
        for options, text in (({}, r"\| × ([\d.]+)"), ({"streams": 2}, r"two streams × ([\d.]+)")):
            if number := re.search(text, told):
                graft(model, name, plain=False, **options)
                found = kept(model.transformer.h, x) / plain
                assert found == pytest.approx(float(number[1]), abs=0.02), name
                ungraft(model)


def test_the_times():
    device, families = cost.H200, {"hyper": ("streams", 4), "mhc": ("streams", 4),
                                   "jpmhc": ("streams", 4), "delta": ("delta", 1),
                                   "delta-matrix": ("delta", 4)}

    def share(vectors, width=768, utilisation=0.5):
        """Of a step's time, for vectors more than the plain residual moves."""
        return vectors * 2 * utilisation * device.operations / device.memory_rate / (36 * width)

    def more(family, n):
        return sum(cost.residual_vectors(family, n)) - sum(cost.residual_vectors("additive", 1))

    stored = results.read(results.FOLDER / "steps_cpu.json")["rows"]
    on_cpu = {row["residual"]: row["ratio"] for row in stored if row["mode"] == "eager"}
    told = table("step, CPU")
    for name in {*families, "mgt", "emhc-hybrid"}:
        on_gpu = (f"× {1 + share(more(*families[name])):.2f} computed" if name in families
                  else "not known")
        assert told[name].startswith(f"× {on_cpu[name]:.2f} measured | {on_gpu}"), name
    stored = results.read(results.FOLDER / "steps_h100.json")
    on_gpu = {(row["residual"], row["mode"]): row["ratio"] for row in stored["rows"]}
    for name in {name for name, _ in on_gpu} - {"additive"}:
        assert (f"| × {on_gpu[name, 'kernels']:.2f} measured, × {on_gpu[name, 'eager']:.2f} "
                "without kernels") in told[name], name
    assert f"measured at width {stored['size']['width']} |" in PAGE
    for vectors in (14 + 20, 10 + 15):  # two schedules of chapter 20
        assert f"{1 + share(vectors - 6):.2f} times as long" in PAGE


def test_what_the_papers_report():
    def gain(table, column, model):
        values = TABLES[table].rows
        return f"{values['additive'][column][0] - values[model][column][0]:.3f} nats"

    told = table("lower loss")
    for name, row in (("hyper", ("hc-olmo-1b", "loss", "DHC × 4")),
                      ("delta", ("ddl-table-3-loss", "small", "d_v = 1")),
                      ("delta-matrix", ("ddl-table-3-loss", "small", "d_v = 4"))):
        assert told[name].startswith(gain(*row)), name
    assert f"gain is {gain('ddl-table-3-loss', 'small', 'EC')}" in PAGE
    loss, time = (TABLES["mhc-27b-loss"].rows["mHC"][c][0] for c in ("change of loss", "more time"))
    assert told["mhc"].startswith(f"{-loss:.3f} nats") and f"{time} % more time" in PAGE


def test_what_is_measured_here():
    text = results.read(results.FOLDER / "mgt_ablation.cpu.json")["text"]
    losses = [run["validation_loss"][-1] for run in text["runs"] if run["model"] == "Standard"]
    weights = {name: f"{count / 1e6:.2f} million" for name, count in text["parameters"].items()}
    assert f"deviation of {stdev(losses):.3f} nats" in PAGE
    assert f"with {weights['Standard']} weights" in PAGE
    assert f"at {weights['MGT (Full)']} {{row}}`mgt-full`" in PAGE
    for label in ("ddl-one", "ddl-four"):
        said = ledger.said(ledger.finding(label).effect, "").strip().replace(ledger.SPACE, " ")
        assert re.search(rf"{re.escape(said)}[^.]*{{row}}`{label}`", PAGE), (label, said)
    search = results.read(results.FOLDER / "delta.cpu.json")["search"]["best"]
    plain, *deltas = (f"{search[name]['lr']:g}" for name in ("additive", "delta", "delta-matrix"))
    assert deltas == deltas[:1] * 2
    assert (f"plain network was {plain}, and that of both delta residuals was {deltas[0]}."
            ) in PAGE
    labels = re.findall(r"\{row\}`([^`]*)`", PAGE)
    assert len(labels) > 12 and set(labels) <= {h.label for h in HYPOTHESES}


def test_the_cost_in_a_real_network():
    """The table holds the stored numbers, and says of each graft that it changes no prediction."""
    table = PAGE.partition("| residual | new weights, millions | largest change")[2]
    lines = [line.strip("| ").split(" | ") for line in table.partition("\n\n")[0].splitlines()[2:]]
    grafts = results.stored("real_graft")["grafts"]
    assert [line[0].replace("`", "") for line in lines] == list(grafts)
    for line, found in zip(lines, grafts.values()):
        assert float(line[1]) == round(found["new weights"] / 1e6, 2)
        assert abs(found["loss after"] - found["loss before"]) < 1e-5
        for cell, what in zip(line[3:], ("step", "new token")):
            told = [float(number) for number in re.findall(r"\d+\.\d+", cell)]
            assert told == [round(x, 2) for x in (found[f"{what}, ratio"],
                                                  *found[f"{what}, least and most"])]
