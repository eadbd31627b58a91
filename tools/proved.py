"""The statements of a notebook that its proved assertions need, and how to run them in one process.

A statement is left out if no assertion needs the names that it binds or changes: figures above all.
Training and reading a stored run raise `Apart`, so these and all that rests on them don't count.
"""

import ast
import contextlib
import io
import json
import linecache
import os
import traceback
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported, as in its chapters

import torch

SIDE_EFFECTS = {"print", "show", "explore", "live", "ask", "diagram", "display"}


class Place(NamedTuple):
    chapter: str
    cell: int      # its place in the notebook, from 0
    line: int

    def __str__(self) -> str:
        return f"{self.chapter}, cell {self.cell}, line {self.line}"


class Statement(NamedTuple):
    """One statement of a cell, ready to run."""

    cell: int
    code: CodeType
    changes: set[str]   # the names that it binds, or whose objects it may change
    uses: set[str]
    binds: set[str]
    checks: list[Place]


class Apart(Exception):
    """A call that no proved assertion may rest on: training, or reading a stored run."""


def named(node: ast.AST, context: type) -> set[str]:
    return {part.id for part in ast.walk(node)
            if isinstance(part, ast.Name) and isinstance(part.ctx, context)}


def base(node: ast.AST) -> set[str]:
    """The name that an entry, an attribute or a method belongs to: {"a"} for a.b[0].c()."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def changes(statement: ast.stmt) -> set[str]:
    """The names that the statement binds, or whose object it may change."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
    found = named(statement, ast.Store)
    for node in ast.walk(statement):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            found |= base(node)
        if isinstance(node, ast.For):  # `for layer in one.layers: layer.eps = 0` changes `one`
            given = isinstance(node.iter, (ast.Tuple, ast.List))
            found |= named(node.iter, ast.Load) if given else base(node.iter)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            own = base(call.func)
            if isinstance(call.func, ast.Attribute):
                found |= own
            if not isinstance(call.func, ast.Attribute) or call.func.attr.endswith("_"):
                given = [named(argument, ast.Load) for argument in call.args]
                found |= set().union(*given) if not own & SIDE_EFFECTS else set()
    return found


def asserts(node: ast.AST) -> list[ast.stmt]:
    """The assertions in the code, calls of `assert_close` too."""
    return [part for part in ast.walk(node) if isinstance(part, ast.Assert)
            or isinstance(part, ast.Expr) and "assert_close(" in ast.unparse(part)]


def reach(names: set[str], inside: dict[str, set[str]]) -> set[str]:
    """These names, and those in the functions among them."""
    found, new = set(), names
    while new:
        found |= new
        new = set().union(*(inside.get(name, set()) for name in new)) - found
    return found


def needed(statements: list[ast.stmt]) -> list[set[str] | None]:
    """The names that each statement uses, or None if no assertion needs the statement."""
    inside = {part.name: named(part, ast.Load) for part in statements
              if isinstance(part, (ast.FunctionDef, ast.ClassDef))}
    wanted, found = set(), []
    for statement in reversed(statements):
        grown = set().union(*(named(part.target, ast.Store) for part in ast.walk(statement)
                              if isinstance(part, ast.AugAssign)))
        uses = reach(named(statement, ast.Load) | grown, inside)
        sets = isinstance(statement, ast.Expr) and any(
            word in ast.unparse(statement)
            for word in ("manual_seed(", "set_default_dtype(", ".backward(", "get_ipython(",
                         "save_file(", "write_text("))
        checks = asserts(statement) and not isinstance(statement, (ast.FunctionDef, ast.ClassDef))
        if isinstance(statement, (ast.Import, ast.ImportFrom)) or sets or checks \
                or changes(statement) & wanted:
            wanted |= uses
            found.append(uses)
        else:
            found.append(None)
    return found[::-1]


class Chapter:
    """The statements of a notebook that its proved assertions need."""

    def __init__(self, path: Path, prepare: ast.NodeTransformer):
        self.path = path
        self.steps: list[Statement] = []
        self.failures: dict[Place, list[str]] = {}
        self.left_out: set[Place] = set()
        self.places: dict[tuple[str, int], Place] = {}   # (file name, line) of each assertion
        cells = json.loads(path.read_text())["cells"]
        self.sources = {at: "".join(cell["source"]).splitlines() for at, cell in enumerate(cells)
                        if cell["cell_type"] == "code"}
        statements = [(at, statement) for at, lines in self.sources.items()
                      for statement in ast.parse("\n".join(lines)).body]
        keep = needed([statement for _, statement in statements])
        for (at, statement), uses in zip(statements, keep, strict=True):
            if uses is not None:
                self.add(at, statement, uses, prepare)

    def add(self, at: int, statement: ast.stmt, uses: set[str],
            prepare: ast.NodeTransformer) -> None:
        name = self.remember(f"cell {at}", "\n".join(self.sources[at]))
        checks = []
        for check in asserts(statement):
            checks.append(Place(self.path.stem, at, check.lineno))
            for line in range(check.lineno, (check.end_lineno or check.lineno) + 1):
                self.places[name, line] = checks[-1]
        changed = changes(statement)
        tree = ast.fix_missing_locations(prepare.visit(statement))
        self.steps.append(Statement(at, compile(ast.Module([tree], []), name, "exec"), changed,
                               uses, named(tree, ast.Store), checks))

    def remember(self, cell: str, source: str) -> str:
        """The file name of a cell, under which Python and Triton find its source."""
        name, lines = f"<{self.path.stem}, {cell}>", source.splitlines(keepends=True)
        linecache.cache[name] = len(source), None, lines, name
        return name

    def run(self, names: dict[str, Any]) -> None:
        """Run all statements among these names.

        Errors go to `failures`, by the place that raised them. Assertions that rest on training or
        on a stored run go to `left_out`.
        """
        def run_cell(source: str) -> None:
            name = self.remember(f"cell written by another, {len(source)} letters", source)
            exec(compile(source, name, "exec"), names)

        names |= {"display": lambda *_: None,
                  "get_ipython": lambda: SimpleNamespace(run_cell=run_cell)}
        torch.set_default_dtype(torch.float32)
        torch.manual_seed(0)
        gone: set[str] = set()
        for step in self.steps:
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(step.code, names)
                gone -= step.binds
                continue
            except Exception as error:  # a cell may raise anything, and it is reported
                missing = {getattr(error, "name", None)} if isinstance(error, NameError) else set()
                if not isinstance(error, Apart) and not gone & (step.uses | missing):
                    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
                             if frame.filename == step.code.co_filename]
                    place = Place(self.path.stem, step.cell, lines[-1])
                    self.failures.setdefault(place, []).append(f"{type(error).__name__}: {error}")
            lost = {name for name in step.changes if not isinstance(names.get(name), ModuleType)}
            for name in lost:
                names.pop(name, None)
            gone |= lost
            self.left_out |= set(step.checks)

    def text(self, place: Place) -> str:
        """The line of the assertion, with its comment."""
        return self.sources[place.cell][place.line - 1].strip()


def keep_apart() -> None:
    """Let training, an optimiser and a stored run raise Apart."""
    import geolab.training
    from studies.engine import live, results

    def apart(*_, **__):
        raise Apart

    geolab.training.fit = torch.optim.Optimizer.__init__ = apart
    live.live = live.stored_runs = results.stored = apart
