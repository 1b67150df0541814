"""Modules import one another in one way: no circle inside the packages, imports inside functions included."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("roofline_model", "bench_cases", "plugin", "results", "reports", "roofline_cli")

# Circles that are left, by the modules in them. Take one out when it is gone; none comes in.
REMAINING = {
    frozenset({"roofline_cli.machine.machine_checks", "roofline_cli.machine.state_checks"}),
}

STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)
"""What may hold an import; an expression imports nothing."""


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.Module, modules: Mapping[str, object]) -> Iterator[str]:
    """Yield the modules of the project that run when this one or a function of it does; typing-only ones do not."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in modules or node.module in modules:
                    yield name if name in modules else node.module
        todo += (child for child in ast.iter_child_nodes(node) if isinstance(child, STATEMENTS))


def import_graph(root: Path, packages: tuple[str, ...]) -> dict[str, set[str]]:
    """Return module → modules that it imports, of the packages below a folder."""
    paths = {module_name(path, root): path for name in packages for path in sorted((root / name).rglob("*.py"))}
    return {
        name: set(imported(ast.parse(path.read_text(encoding="utf-8"), str(path)), paths)) - {name}
        for name, path in paths.items()
    }


def circles(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """Return the groups of modules that reach one another (strongly connected components of more than one)."""
    after = {name: _reached(graph, name) for name in graph}
    groups = {frozenset(other for other in after[name] if name in after[other]) for name in graph}
    return {group for group in groups if len(group) > 1}


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    reached, todo = set(), [start]
    while todo:
        for name in graph[todo.pop()] - reached:
            reached.add(name)
            todo.append(name)
    return reached


def test_modules_import_one_another_in_one_way():
    present = circles(import_graph(ROOT, PACKAGES))
    assert present - REMAINING == set(), "a new circle of imports"
    assert REMAINING - present == set(), "this circle is gone: take it out of REMAINING"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a": "from p.b import x", "b": "def f():\n    from p.a import y"}, {frozenset({"p.a", "p.b"})}),
        ({"a": "from p import b", "b": "import p.c", "c": "from p.a import y"}, {frozenset({"p.a", "p.b", "p.c"})}),
        ({"a": "from p.b import x", "b": "import p.c", "c": ""}, set()),
        (
            {"a": "from p.b import x", "b": "if TYPE_CHECKING:\n    from p.a import y"},
            set(),
        ),
    ],
)
def test_the_finder_of_circles_itself(tmp_path, files, expected):
    (tmp_path / "p").mkdir()
    for name, text in {"__init__": "", **files}.items():
        (tmp_path / "p" / f"{name}.py").write_text(text)
    assert circles(import_graph(tmp_path, ("p",))) == expected
