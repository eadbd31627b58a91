"""No cell asserts what it trained, unless the assertion holds for any weights.

The test follows names through a notebook. What `fit` or an optimiser's step has touched is
trained, and so is what a cell computes from it. An `assert` about it needs the words
`# for any weights`, and must be a theorem. Everything else that is trained goes to `live`.
"""

import ast
from collections.abc import Iterator

MARK = "# for any weights"
GROWS = ("append", "extend", "update", "setdefault", "add")  # methods that put something in
SCOPES = (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def names(node: ast.AST) -> set[str]:
    """The names in the code, without those that a function or a comprehension binds for itself.

    An optimiser's step counts as the name `fit`.
    """
    if isinstance(node, ast.Name):
        return {node.id}
    found = set().union(*map(names, ast.iter_child_nodes(node)))
    if isinstance(node, ast.Attribute) and node.attr == "step" and "opt" in ast.unparse(node.value):
        found.add("fit")
    if isinstance(node, SCOPES):
        found -= {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
        found -= {part.id for part in ast.walk(node)
                  if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return found


def in_order(node: ast.AST) -> Iterator[ast.AST]:
    """The code as it runs. A loop's body comes twice: its start sees what its end has touched."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (ast.ClassDef, ast.FunctionDef)):
            for _ in range(1 + isinstance(child, ast.For)):
                yield from in_order(child)


def changes(node: ast.AST) -> tuple[list[ast.AST], ast.AST] | None:
    """What a piece of code makes or changes, and from what."""
    match node:
        case ast.FunctionDef(name=name):
            return [ast.Name(name)], node
        case ast.Assign(targets=targets, value=value):
            return targets, value
        case ast.AugAssign(target=target, value=source) | ast.For(target=target, iter=source):
            return [target], source
        case ast.Call(func=ast.Name("fit"), args=[model, *_]):
            return [model], node.func
        case ast.Call(func=ast.Attribute(attr=method)) if method in GROWS:
            return [node.func], ast.Tuple(node.args)
    return None


def owners(target: ast.AST) -> set[str]:
    """The names behind a target, such as `kept` for `kept["delta"][0]`."""
    while isinstance(target, (ast.Subscript, ast.Attribute, ast.Call)):
        target = target.func if isinstance(target, ast.Call) else target.value
    return names(target)


def about_training(sources: list[str]) -> list[str]:
    """The asserts about what was trained that don't have the mark."""
    trained, found = {"fit"}, []
    for source in sources:
        lines = source.splitlines()
        for node in in_order(ast.parse(source)):
            if isinstance(node, ast.Assert) and names(node.test) & trained:
                text = "\n".join(lines[node.lineno - 1:node.end_lineno])
                found += [text] * (MARK not in text)
            if made := changes(node):
                targets, value = made
                if names(value) & trained:
                    trained |= set().union(*map(owners, targets))
                elif isinstance(node, (ast.Assign, ast.For, ast.FunctionDef)):
                    trained -= set().union(*(names(target) for target in targets
                                             if isinstance(target, (ast.Name, ast.Tuple))))
    return found


def test_no_cell_asserts_what_it_trained(notebook):
    assert not about_training([cell["source"] for cell in notebook.code])
