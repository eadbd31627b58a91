"""The table of Going further: what a survey says of three residual connections, and what we find.
"""

import html
from collections.abc import Mapping

from IPython.display import HTML

from geolab.show.figures import table
from studies.claims import COMPARISON


def survey(found: Mapping[str, str]) -> HTML:
    """The survey's table in words, and what we find for each of its rows."""
    said = ("<br>".join(f"<b>{name}:</b> {html.escape(words)}" for name, words in row.items())
            for row in COMPARISON.values())
    return table(("row", "what the survey says", "what we find"),
                 zip(COMPARISON, said, (found[row] for row in COMPARISON), strict=True))
