"""No cell asserts what it trained, unless the assertion holds for any weights.

The test follows names through a notebook. What `fit` or an optimiser's step has touched is
trained, and so is what a cell computes from it. An `assert` about it needs the words
`# for any weights`, and must be a theorem. Everything else that is trained goes to `live`.
"""

import ast

MARK = "# for any weights"
GROWS = ("append", "extend", "update", "setdefault", "add")  # methods that put something in


def trains(node: ast.AST, trainers: set[str]) -> bool:
    """Whether the code calls `fit`, a function that trains, or an optimiser's step."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            if isinstance(call.func, ast.Name) and call.func.id in trainers:
                return True
            if isinstance(call.func, ast.Attribute) and call.func.attr == "step" \
                    and "opt" in ast.unparse(call.func.value):
                return True
    return False


class Taint(ast.NodeVisitor):
    """The names that training has touched so far, and the asserts about them."""

    def __init__(self):
        self.trainers, self.names, self.asserts = {"fit"}, set(), []

    def touched(self, node: ast.AST | None) -> bool:
        return node is not None and (trains(node, self.trainers) or self.speaks(node))

    def speaks(self, node: ast.AST) -> bool:
        """Whether the code names something that was trained."""
        return bool(self.free(node) & self.names)

    def free(self, node: ast.AST) -> set[str]:
        """The names in the code, except those that it binds itself to something untrained."""
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            own = {part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)}
            body = node.body if isinstance(node.body, list) else [node.body]
            own |= {part.id for line in body for part in ast.walk(line)
                    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
            return set().union(*map(self.free, body)) - own
        if isinstance(node, ast.Name):
            return {node.id}
        inner = set().union(*map(self.free, ast.iter_child_nodes(node)))
        for made in getattr(node, "generators", ()):
            if not self.touched(made.iter):
                inner -= {part.id for part in ast.walk(made.target) if isinstance(part, ast.Name)}
        return inner

    def mark(self, target: ast.AST, touched: bool) -> None:
        if isinstance(target, ast.Name):
            (self.names.add if touched else self.names.discard)(target.id)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self.mark(part, touched)
        elif isinstance(target, ast.Starred):
            self.mark(target.value, touched)
        elif touched:  # an entry or an attribute of something
            base = target
            while isinstance(base, (ast.Subscript, ast.Attribute, ast.Call)):
                base = base.func if isinstance(base, ast.Call) else base.value
            if isinstance(base, ast.Name):
                self.names.add(base.id)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if trains(node, self.trainers):
            self.trainers.add(node.name)
        self.mark(ast.Name(node.name), self.speaks(node))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        pass

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self.mark(target, self.touched(node.value))
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if self.touched(node.value):
            self.mark(node.target, True)

    def visit_For(self, node: ast.For) -> None:
        touched = self.touched(node.iter)
        for part in ast.walk(node.target):
            if isinstance(part, ast.Name):
                self.mark(part, touched)
        for _ in range(2):  # the start of the body sees what its end has touched
            for statement in node.body:
                self.visit(statement)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id == "fit" and node.args:
            self.mark(node.args[0], True)
        if isinstance(node.func, ast.Attribute) and node.func.attr in GROWS \
                and any(map(self.touched, node.args)):
            self.mark(node.func, True)
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        if self.touched(node.test):
            self.asserts.append((node.lineno, node.end_lineno))


def about_training(sources: list[str]) -> list[str]:
    """The asserts about what was trained that don't have the mark."""
    taint, found = Taint(), []
    for source in sources:
        taint.asserts = []
        taint.visit(ast.parse(source))
        lines = source.splitlines()
        texts = ["\n".join(lines[first - 1:last]) for first, last in sorted(set(taint.asserts))]
        found += [text for text in texts if MARK not in text]
    return found


def test_no_cell_asserts_what_it_trained(notebook):
    assert not about_training([cell["source"] for cell in notebook.code])
