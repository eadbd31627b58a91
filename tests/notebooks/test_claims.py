"""A sentence that compares trained models points at a row of the ledger of hypotheses.

What such a sentence is, a test can't know. It takes one that names a model, a comparison, and
something that only training gives. A paragraph or an item of a list has a link to the row.
"""

import re

import pytest

MODEL = re.compile(
    r"additive|delta|mHC|hyper-connection|MGT|hybrid|[Tt]ransformer|GT-|GPT|-LN|-norm|maps only|"
    r"d_v|\bEC\b|\bCC\b|erasing|erasure|convolution|gate|hint|block|model|network|\barm\b|residual")
COMPARES = re.compile(
    r"\b(beats?|better|worse|lower|higher|lowest|highest|best|worst|wins?|won|loses?|gains?|gained|"
    r"leads?|faster|slower|sooner|later|ahead|behind|told apart|as good as|tell \w+ apart)\b")
TRAINED = re.compile(
    r"\b(trained|training|learns?|learned|learnt|loss|losses|nats|seeds?|runs|perplexity|accuracy|"
    r"copies|blanks)\b")
# what is no sentence of ours: code, formulas, statements and their proofs, figures' options
APART = re.compile(r"```.*?```|\$\$.*?\$\$|^:::\{prf:.*?^:::$|\{prf:ref\}`[^`]*`|^\|.*?$|"
                   r"\{footcite:\w\}`[^`]*`|\[[^\]]*\]\([^)]*\)", re.S | re.M)
# beginnings of paragraphs that only sound like a comparison of trained models
SOUNDS_LIKE = {
    "12": ("The energy falls with the fourth power",),
    "14": ("The floor is the lowest expected loss of any model.",),
    "18": ("In the stored runs each residual ends",),
    "19": ("With noise in the data no model",),
    "20": ("The formula leaves out the scores",),
}


def paragraphs(notebook):
    for cell in notebook.cells:
        if cell["cell_type"] == "markdown":
            text = APART.sub(" ", cell["source"])
            found = re.split(r"\n\s*\n|\n(?=\s*(?:-|\d+\.) )", text)
            yield from filter(None, map(str.strip, found))


def compares(paragraph):
    sentences = re.split(r"(?<=[.!?])\s+", paragraph)
    return [s for s in sentences
            if MODEL.search(s) and COMPARES.search(s) and TRAINED.search(s) and not s.endswith("?")
            and "**Predict" not in s]


def test_what_compares_trained_models_points_at_the_ledger(notebook):
    number = notebook.path.stem[:2]
    without = [found for text in paragraphs(notebook) if "{row}`" not in text
               and not text.startswith(SOUNDS_LIKE.get(number, ("\0",)))
               for found in compares(text)]
    assert not without, "\n".join(without)


@pytest.mark.parametrize("text, found", [
    ("After training, delta has a lower loss than the additive model.", True),
    ("The gate gains nothing over eight seeds.", True),
    ("The delta operator has a lower rank.", False),
    ("Does the trained hybrid win? Two lines of algebra decide it.", False)])
def test_such_a_sentence_is_found(text, found):
    assert bool(compares(text)) == found
