"""What is asked for and can't be done, apart from what fails in a model, a task or a study.

    with asked():
        require_count("jobs", jobs)
"""

from collections.abc import Iterator
from contextlib import contextmanager


class Refused(ValueError):
    """What is asked for can't be done, and the message says why. The command prints it alone.

    Any other error is one of the code, and keeps its traceback.
    """


@contextmanager
def asked() -> Iterator[None]:
    """A context that checks what is asked for, and runs no code of a model, a task or a study.

    Raises: Refused in place of ValueError, ImportError and OSError.
    """
    try:
        yield
    except (ValueError, ImportError, OSError) as problem:
        raise Refused(str(problem)) from problem
