"""The residuals of released models in the place of x + F(norm x), as rows: released/models.yml.

A row says where a form can be read: in the installed transformers, in other public code, or only in
a report. `table`
draws the rows for a page.
"""

import html
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from geolab.checks import require_option
from studies.claims.files import entries

PARITY, READ, REPORTED = "parity", "read, not run", "reported"
SCHEMES = {
    "one stream": "x and F's output come in, x and F's next input go out",
    "streams": "as one stream, for n of them, and the new state comes in once more, since it says "
               "how it is read",
    "single pass": "as one stream, for n of them",
    "depth": "all earlier sums and F's output come in, one sum and F's next input go out",
    "blocks": "once in a block, which isn't counted here",
}


@dataclass(frozen=True)
class Released:
    """One architecture.

    Arguments:
        label: its anchor, and the label of its row of parity.
        date: of the release, or what is known.
        form, read, write, mix, start: the residual in the book's letters; what became of a, b and
            H; where they start.
        scheme: a key of SCHEMES.
        module, configuration, keys: where the installed transformers has it, and the defaults of
            its configuration.
        code, reported: the source of a form that this library doesn't have: public code that was
            read, or a report. One of module, code and reported is given.
        streams: n.
        width, layers: the configuration's names of D and of the number of layers.
        features, depth: those numbers, where no configuration is installed.
        block: layers per block, where the outputs of blocks are kept.
        bytes: per number of the state.
    Raises: ValueError for an unknown scheme, or unless one of `module`, `code` and `reported` is
        given.
    """

    label: str
    name: str
    date: str
    section: str
    form: str
    read: str
    write: str
    mix: str
    start: str
    scheme: str
    module: str = ""
    configuration: str = ""
    keys: Mapping[str, float] = field(default_factory=dict)
    code: str = ""
    reported: str = ""
    streams: int = 1
    width: str = ""
    layers: str = ""
    features: int = 0
    depth: int = 0
    block: int = 0
    bytes: int = 2

    def __post_init__(self):
        require_option("scheme", self.scheme, SCHEMES)
        sources = self.module, self.code, self.reported
        if sum(map(bool, sources)) != 1:
            raise ValueError("one of module, code and reported must be given, got "
                             f"{', '.join(map(repr, sources))}")

    def kept(self, depth: int) -> int:
        """The vectors of D numbers that a token keeps between two sublayers, at the most."""
        return math.ceil(depth / self.block) + 1 if self.block else self.streams

    def moved(self, depth: int) -> int | None:
        """The vectors that a sublayer's residual reads and writes forward, at the most, as SCHEMES
        counts them; None where it isn't counted. Coefficients aren't counted.
        """
        n = self.kept(depth)
        return {"one stream": 2 * n + 2, "streams": 3 * n + 2, "single pass": 2 * n + 2,
                "depth": n + 3, "blocks": None}[self.scheme]

    def kept_bytes(self, depth: int, features: int) -> int:
        """The bytes of those vectors, per token."""
        return self.kept(depth) * features * self.bytes

    def evidence(self, compared: Collection[str]) -> str:
        """PARITY for a label among those compared, READ for another form whose code was read, and
        REPORTED for one whose code wasn't.
        """
        return REPORTED if self.reported else PARITY if self.label in compared else READ


RELEASED: list[Released] = list(entries("released", ("models",), Released))


def table(sizes: Mapping[str, tuple[int, int]], compared: Collection[str]) -> str:
    """Return the rows as HTML, a closed box for each model, which a phone shows without scrolling.

    Arguments:
        sizes: (features, layers) by label, of rows whose row doesn't say them.
        compared: the labels of the rows of parity.
    """
    return "".join(
        f'<p style="margin: 1.2em 0 0.4em"><strong>{html.escape(section)}</strong></p>'
        + "".join(_box(row, *sizes.get(row.label, (row.features, row.depth)), compared)
                  for row in rows)
        for section, rows in groupby(RELEASED, key=lambda row: row.section))


def _box(row: Released, features: int, depth: int, compared: Collection[str]) -> str:
    moved, kept = row.moved(depth), row.kept(depth)
    cost = f"{kept} D kept between sublayers" + (f", {moved} D moved per sublayer" * bool(moved))
    if features:
        cost += (f"; at D = {features:,} and {row.bytes} bytes, {row.kept_bytes(depth, features):,}"
                 " bytes kept per token")
    keys = ", ".join(f"{key} = {value}" for key, value in row.keys.items())
    where = row.code or row.reported or f"transformers.{row.module}" + f" ({keys})" * bool(keys)
    lines = {"Read": row.read, "Write": row.write, "Mix": row.mix, "Start": row.start,
             "Cost": cost, "Source": where, "Date": row.date}
    said = "".join(f"<br>{name}: {html.escape(line)}" for name, line in lines.items())
    return (f'<details id="{row.label}" style="overflow-wrap: anywhere"><summary>'
            f"<strong>{html.escape(row.name)}</strong> ({row.evidence(compared)})<br>"
            f"{html.escape(row.form)}</summary><p>{said.removeprefix('<br>')}</p></details>")
