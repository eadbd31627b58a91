"""Run a student's notebook and hand out its answers as plain data. It knows no right answer.

It is a program of its own, which runs inside of the walls (grade_walls.py) and prints lines of JSON
in reply to lines of JSON: first to a task with the cells, a line for each cell that begins and one
for all answers, then one for each call of a function.
"""

import os
import resource
import sys
import types
from json import dumps, loads  # what a cell does to json changes nothing


def main() -> None:
    requests, replies = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # what the cells print is in the notebook that was handed in
        os.dup2(nothing, stream)
    task, me = loads(requests.readline()), os.getpid()
    for name, most in task["limits"].items():
        resource.setrlimit(getattr(resource, name), (most, most))
    sys.path[:0] = task["path"]
    sys.argv = [""]
    room = sys.modules["__main__"] = types.ModuleType("__main__")
    room.__dict__["display"] = lambda *shown, **how: None

    def reply(**said) -> None:
        replies.write(dumps(said) + "\n")
        replies.flush()

    errors = {}
    for place, source in task["cells"]:
        reply(cell=place)
        try:
            run(source, room.__dict__)
        except BaseException as error:  # a cell may raise anything, and the next one still runs
            errors[place] = f"{type(error).__name__}: {error}"[:300]
        if os.getpid() != me:  # a copy that the cell has made of this process
            os._exit(0)
    reply(answers={name: answer(room.__dict__, name) for name in task["names"]}, errors=errors)
    while line := requests.readline():
        asked = loads(line)
        try:
            value = room.__dict__[asked["call"]](*map(unpacked, asked["given"]))
            reply(number=asked["number"], value=plain(value))
        except BaseException as error:
            reply(number=asked["number"], error=f"{type(error).__name__}: {error}"[:300])


def run(source: str, space: dict) -> None:
    """Run a cell, which IPython reads where it is not plain Python."""
    try:
        code = compile(source, "<cell>", "exec")
    except SyntaxError:
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        shell = InteractiveShell.instance(
            config=Config({"HistoryManager": {"enabled": False}, "InteractiveShell": {
                "colors": "NoColor"}}), user_module=sys.modules["__main__"])
        shell.run_cell(source).raise_error()
    else:
        exec(code, space)


def answer(space: dict, name: str) -> dict:
    if name not in space:
        return {"error": f"{name} isn't defined"}
    if space[name] is ...:
        return {"error": f"{name} has no answer"}
    if callable(space[name]):
        return {"function": True}
    try:
        value = plain(space[name])
        if (size := len(dumps(value))) > MOST:
            return {"error": f"{name} takes {size / 1e6:.1f} MB"}
        return {"value": value}
    except BaseException as error:
        return {"error": f"{name} is no plain answer: {type(error).__name__}: {error}"[:300]}


def plain(value):
    """A value as JSON has it. A tensor or an array is its kind, its type and its entries."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    several = isinstance(value, (list, tuple))
    if (several or getattr(value, "shape", ())) and len(value) > MOST // 100:
        raise ValueError(f"it has {len(value)} entries")  # before anything is made of them
    if several:
        return [plain(entry) for entry in value]
    if not hasattr(value, "tolist") or not value.shape:
        return float(value)
    if not hasattr(value, "dtype"):  # a matrix of SymPy
        return plain(value.tolist())
    return {"of": "torch" if hasattr(value, "detach") else "numpy",
            "type": str(value.dtype).split(".")[-1], "entries": plain(value.tolist())}


def unpacked(value):
    """The value that `plain` has packed. Raises ValueError for data that `plain` doesn't make."""
    if isinstance(value, list):
        return [unpacked(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    of, kind = value.get("of"), value.get("type")
    if of not in ("torch", "numpy"):
        raise ValueError(f"an answer is of a library that isn't compared: {str(of)[:40]}")
    library = __import__(of)
    make = library.tensor if of == "torch" else library.array
    kind = getattr(library, kind) if kind in TYPES else None  # others are the library's usual ones
    return make(value.get("entries"), dtype=kind)


TYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "bool")
MOST = 200_000  # bytes of one answer


if __name__ == "__main__":
    main()
