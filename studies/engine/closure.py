"""The files of the project that a file or a notebook depends on, directly or not.

    closure([Path("notebooks/02_delta_operator.ipynb")])
"""

import ast
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def closure(paths: Iterable[Path]) -> set[Path]:
    """Return these Python files and notebooks, and all modules of the project that they import.

    Imports inside functions count, and so does `import_module` of a literal name.
    """
    waiting, found = [path.resolve() for path in paths], set()
    while waiting:
        if (path := waiting.pop()) not in found:
            found.add(path)
            waiting += imported(path)
    return found


@cache
def imported(path: Path) -> set[Path]:
    """The modules of the project that one file imports, each with the packages that it lies in."""
    return {where for name in _names(path) for where in _files(name)}


@cache
def code(source: str) -> str:
    """A Python source without comments, docstrings and layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) \
                and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _names(path: Path) -> list[str]:
    """Return the full names of a file's imports; `from a import b` gives both a and a.b."""
    package, found = path.parent.relative_to(ROOT).parts if path.is_relative_to(ROOT) else (), []
    for node in (node for source in _sources(path) for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[:len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            found += [module, *(f"{module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found += [ast.literal_eval(name) for name in node.args[:1]
                      if isinstance(name, ast.Constant)]
    return found


def _sources(path: Path) -> list[str]:
    if path.suffix != ".ipynb":
        return [path.read_text()]
    return ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"]
            if cell["cell_type"] == "code"]


def _files(name: str) -> list[Path]:
    """The file of a module of the project, and those of the packages that it lies in."""
    parts = name.split(".")
    places = [ROOT.joinpath(*parts[:k + 1]) for k in range(len(parts))]
    return [path for place in places for path in (place.with_suffix(".py"), place / "__init__.py")
            if path.is_file()]
