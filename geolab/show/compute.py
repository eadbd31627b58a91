"""`compute("delta")`: a panel for numbers of one's own, which the page computes without a kernel.

core.js has the operators, compute.js the panels. On the book's pages both are files that a page
loads once; a notebook's output brings them along. What stands there before a script runs is
computed here, by geolab.operators, so that a page without JavaScript shows it too.
"""

import html
import os
import re
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import torch
from IPython.display import HTML
from torch import Tensor

from geolab.show.figures import printed
from geolab.show.panels import PANELS, Field

HERE = Path(__file__).parent
FILES = HERE / "core.js", HERE / "compute.js", HERE / "compute.css"
NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?", re.I)
UNTYPED = "These numbers can be changed where JavaScript runs; here they stay at their start."


def compute(name: str, caption: str = "", **start) -> HTML:
    """A panel with fields to type into, and what the page computes from them.

    Arguments:
        name: a key of `panels.PANELS`.
        caption: one or two sentences under it.
        start: what stands in a field at first, as text such as k="0.6 0.8" or H="1 0; 0 1", or as a
            number; the panel's own start by default.
    Raises: ValueError for an unknown panel or field, or a start that the field doesn't accept.
    """
    if name not in PANELS:
        raise ValueError(f"name must be one of {', '.join(PANELS)}, got {name!r}")
    panel = PANELS[name]
    for key in start:
        if key not in panel.fields:
            raise ValueError(f"start of {name} has the fields {', '.join(panel.fields)}, "
                             f"got {key!r}")
    texts = {key: str(start.get(key, field.start)) for key, field in panel.fields.items()}
    values, sizes = {}, {}
    for key, field in panel.fields.items():
        values[key] = value = read(field, texts[key], sizes.get(field.like))
        if value is None:
            raise ValueError(f"{key} must be {field.wants}, got {texts[key]!r}")
        sizes[field.label] = len(value) if isinstance(value, Tensor) else None
    fields = "".join(_field(f"{name}.{key}", field, texts[key])
                     for key, field in panel.fields.items())
    results = "".join(_result(*result) for result in panel.results(**values))
    under = f'<div class="geolab-caption">{printed(caption)}</div>' if caption else ""
    page = os.environ.get("GEOLAB_EXPLORE") == "static"
    core, panels, style = (file.read_text() for file in FILES)
    brought = "" if page else f"<style>{style}</style><script>{core}{panels}</script>"
    question = printed(panel.question)
    return HTML(
        f'<div class="geolab-compute" id="compute-{name}" data-panel="{name}" role="group" '
        f'aria-label="{question}"{" data-address" if page else ""}><p>{question}</p>'
        f'<div class="geolab-fields" hidden>{fields}</div>'
        f'<div class="geolab-results">{results}</div>'
        f'<p class="geolab-said" role="status" aria-live="polite"></p>'
        f'<p class="geolab-untyped">{UNTYPED}</p>{under}{brought}</div>')


def read(field: Field, text: str, size: int | None = None):
    """The number, vector or matrix that a field's text says, in float64; None if it says none.

    Arguments:
        size: how many numbers, or rows, the field must have; None leaves the choice.
    """
    plain = text.strip().replace("−", "-").replace(", ", " ").replace(",", ".")
    rows = [row.split() for row in plain.split(";")]
    try:
        found = [[_number(entry) for entry in row] for row in rows]
    except (ValueError, ZeroDivisionError):
        return None
    if not all(field.low <= x <= field.high for row in found for x in row):
        return None
    if field.kind == "matrix":
        fits = len(found) in field.sizes and all(len(row) == len(found) for row in found)
        return torch.tensor(found, dtype=torch.float64) if fits and size in (
            None, len(found)) else None
    if len(found) != 1:
        return None
    if field.kind == "vector":
        fits = len(found[0]) in field.sizes and size in (None, len(found[0]))
        fits = fits and (any(found[0]) or not field.nonzero)
        return torch.tensor(found[0], dtype=torch.float64) if fits else None
    if len(found[0]) != 1 or (field.kind == "count" and found[0][0] % 1):
        return None
    return int(found[0][0]) if field.kind == "count" else found[0][0]


def _number(text: str) -> float:
    """A decimal number, or a fraction of two."""
    top, _, bottom = text.partition("/")
    if not (NUMBER.fullmatch(top) and NUMBER.fullmatch(bottom or "1")) or text.endswith("/"):
        raise ValueError(f"{text!r} is no number")
    return float(top) / float(bottom or "1")


def _field(name: str, field: Field, text: str) -> str:
    told = {"kind": field.kind, "low": f"{field.low:g}", "high": f"{field.high:g}",
            "sizes": " ".join(map(str, field.sizes)), "wants": field.wants, "like": field.like}
    told |= {"nonzero": "1"} if field.nonzero else {}
    data = "".join(f' data-{key}="{html.escape(value)}"' for key, value in told.items() if value)
    label = html.escape(field.label)
    drag = (f'<input type="range" aria-label="{label}, by dragging" min="{field.low:g}" '
            f'max="{field.high:g}" step="{field.step:g}" value="{text}" autocomplete="off">'
            if field.kind in ("number", "count") else "")
    return (f'<div class="geolab-field"><label>{label} <input type="text" name="{name}" '
            f'value="{html.escape(text)}" autocomplete="off" autocapitalize="off" '
            f'spellcheck="false"{data}></label>{drag}'
            '<p class="geolab-wants" role="alert"></p></div>')


# ---------------------------------------------------------------- results, as in compute.js

def shown(x: float) -> str:
    """Three decimals, or three digits and a power of ten."""
    if abs(x) < 1e-12:
        return "0.000"
    if 5e-4 <= abs(x) < 1e5:
        text = str(Decimal(x).quantize(Decimal("0.001"), ROUND_HALF_UP))
    else:
        digits, power = f"{x:.2e}".split("e")
        text = f"{digits}e{int(power)}"
    return text.replace("-", "−")


def shown_complex(z: complex) -> str:
    if abs(z.imag) < 5e-4:
        return shown(z.real)
    return f"{shown(z.real)} {'−' if z.imag < 0 else '+'} {shown(abs(z.imag))}i"


def _result(label: str, kind: str, values: Tensor) -> str:
    name = html.escape(label)
    if kind == "matrix":
        rows = "".join("<tr>" + "".join(f"<td>{shown(x)}</td>" for x in row) + "</tr>"
                       for row in values.tolist())
        return (f'<div class="geolab-result"><div>{name}</div><table aria-label="{name}"><tbody>'
                f"{rows}</tbody></table></div>")
    text = ", ".join(map(shown_complex if kind == "plane" else shown, values.tolist()))
    picture = _plane(name, values.tolist()) if kind == "plane" else ""
    return (f'<div class="geolab-result"><div>{name}</div>{picture}'
            f'<div class="geolab-numbers">{text}</div></div>')


def _plane(name: str, values: list[complex]) -> str:
    """The unit circle and the eigenvalues, 200 units wide."""
    one = 90 / max(1.2, *map(abs, values))
    points = "".join(f'<circle cx="{one * z.real:.1f}" cy="{-one * z.imag:.1f}" r="5" '
                     'fill="#0072b2"></circle>' for z in values)
    return ('<svg viewBox="-100 -100 200 200" role="img" '
            f'aria-label="{name} beside the unit circle">'
            '<path d="M-100 0H100M0 -100V100" stroke="#999"></path>'
            f'<circle r="{one:.1f}" fill="none" stroke="#555"></circle>{points}</svg>')
