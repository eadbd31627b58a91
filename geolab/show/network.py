"""`network(weights, hashes, still)`: small language models that a page runs on a reader's sentence.

network.js computes the networks and network_page.js is the panel. On the book's pages both are
files that a page loads once, and the weights are files that it loads when a reader asks for them; a
notebook's output brings all of them along.
"""

import html
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from IPython.display import HTML

from geolab.checks import require_option
from geolab.show.figures import printed

HERE = Path(__file__).parent
FILES = HERE / "core.js", HERE / "network.js", HERE / "network_page.js", HERE / "network.css"
LABELS = {"additive": "plain residual", "delta": "delta", "mhc": "mHC", "mgt": "MGT",
          "attnres": "attention residuals"}
UNTYPED = "A sentence of your own can be typed where JavaScript runs."
QUESTION = "What does each residual do to your sentence?"


def network(weights: Mapping[str, Path], hashes: Mapping[str, str], still: str,
            text: str = "In the beginning God created", left: str = "delta",
            right: str = "additive", caption: str = "", folder: str = "") -> HTML:
    """A field for a sentence, and what two networks do to it, side by side.

    Arguments:
        weights: residual -> its file, network_RESIDUAL.js, as studies.experiments.page_network
            writes it.
        hashes: residual -> the SHA-256 of the text in its file. The page refuses another text.
        still: the HTML that stands there until the first network is loaded, and without JavaScript.
        text: what stands in the field at first.
        left, right: the two residuals that are chosen at first.
        caption: one or two sentences under it.
        folder: the address of the files, that of the page's scripts by default.
    Raises: ValueError for a residual that isn't in weights, or that has no hash or no label;
        FileNotFoundError for a file that isn't there.
    """
    require_option("left", left, weights)
    require_option("right", right, weights)
    for name, file in weights.items():
        require_option("weights", name, LABELS)
        if name not in hashes:
            raise ValueError(f"hashes must have one for each network, got none for {name!r}")
        if not file.exists():
            raise FileNotFoundError(f"weights of {name!r} must be a file, got {file}: "
                                    "python -m studies.experiments.page_network writes it")
    about = {name: {"label": LABELS[name], "sha256": hashes[name]} for name in weights}
    page = os.environ.get("GEOLAB_EXPLORE") == "static"
    sides = "".join(_side(which, name, weights)
                    for which, name in (("left", left), ("right", right)))
    under = f'<div class="geolab-caption">{printed(caption)}</div>' if caption else ""
    largest = max(file.stat().st_size for file in weights.values()) / 1e6
    data = {"networks": json.dumps(about), "left": left, "right": right, "files": folder}
    data |= {"address": ""} if page else {}
    told = "".join(f' data-{key}="{html.escape(value)}"' for key, value in data.items())
    return HTML(
        f'<div class="geolab-network" id="network" role="group" aria-label="{QUESTION}"{told}>'
        f'<p>{QUESTION}</p><div class="geolab-fields" hidden><label>Your sentence '
        f'<textarea name="network.text" rows="2" maxlength="400" autocomplete="off" '
        f'autocapitalize="off" spellcheck="false">{html.escape(text)}</textarea></label>'
        '<p class="geolab-wants" role="alert"></p>'
        f'<button type="button" class="geolab-run">Load both networks (at most {largest:.1f} MB '
        f'each)</button><div class="geolab-sides">{sides}</div></div>'
        f'<div class="geolab-still">{still}<p class="geolab-untyped">{UNTYPED}</p></div>'
        f'<p class="geolab-said" role="status" aria-live="polite"></p>{under}'
        f'{"" if page else _brought(weights)}</div>')


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """The HTML of a table whose rows begin with a name."""
    top = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in head)
    body = "".join(f'<tr><th scope="row">{html.escape(str(row[0]))}</th>' + "".join(
        f"<td>{html.escape(str(cell))}</td>" for cell in row[1:]) + "</tr>" for row in rows)
    return (f'<div class="geolab-table"><table><thead><tr>{top}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>")


def _side(which: str, chosen: str, weights: Mapping[str, Path]) -> str:
    options = "".join(f'<option value="{name}"{" selected" if name == chosen else ""}>'
                      f"{LABELS[name]}</option>" for name in weights)
    first = {"left": "First", "right": "Second"}[which]
    return (f'<section data-side="{which}" aria-label="{first} network"><label>'
            f'{first} residual <select name="network.{which}" autocomplete="off">{options}</select>'
            '</label><div class="geolab-out"></div></section>')


def _brought(weights: Mapping[str, Path]) -> str:
    """The scripts and the style of an output that stands alone. The panel comes last, and takes
    weights that are there without a file.
    """
    core, networks, page, style = (file.read_text() for file in FILES)
    files = "".join(file.read_text() for file in weights.values())
    return f"<style>{style}</style><script>{core}{networks}{page}{files}</script>"
