"""A question that a reader answers by a click, before the text does."""

from collections.abc import Mapping

from IPython.display import HTML

from geolab.show.figures import printed


def ask(question: str, replies: Mapping[str, str]) -> HTML:
    """A question with answers to choose from; a click on one opens the reply to it.

    It needs no kernel and no JavaScript.

    Arguments:
        question: ends with a question mark.
        replies: answer -> the reply to a reader who chooses it. It begins with "Yes" or "No", or
            says what is true of the answer.
    Raises: ValueError for fewer than two answers, or an answer without a reply.
    """
    if len(replies) < 2:
        raise ValueError(f"replies must have at least two answers, got {len(replies)}")
    for answer, reply in replies.items():
        if not reply.strip():
            raise ValueError(f"the answer {answer!r} needs a reply")
    folds = "".join(f"<details><summary>{printed(answer)}</summary>"
                    f"<p>{printed(reply)}</p></details>" for answer, reply in replies.items())
    return HTML(f'<div class="geolab-question" role="group" aria-label="{printed(question)}">'
                f"<p>{printed(question)}</p>{folds}</div>")
