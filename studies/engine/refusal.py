"""Requests that can't be met, told apart from failures inside a model, a task or a study.

    with asked():
        require_count("jobs", jobs)
"""

from collections.abc import Iterator
from contextlib import contextmanager


class Refused(ValueError):
    """A request can't be met. The message says why, and the command prints only the message.

    Any other error is an error of the code, and keeps its traceback.
    """


@contextmanager
def asked() -> Iterator[None]:
    """A context for checks of a request. It must run no code of a model, a task or a study.

    Raises: Refused in place of ValueError, ImportError and OSError.
    """
    try:
        yield
    except (ValueError, ImportError, OSError) as problem:
        raise Refused(str(problem)) from problem
