"""Domain code returns numbers and finding codes: it holds no sentences and looks for no words in a text.

Words live in the catalog of findings and in the rooms that render. Apart from these stand errors (what `raise`, an
error's constructor, a helper that only raises and a function that returns an error hold), documentation, citations, and
the modules listed below. The lists only shrink: a module
without sentences that stands on one fails, too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOMAIN = ("roofline_model", "results", "plugin", "bench_cases")
RENDERING = (
    "roofline_model/core/finding.py",  # renders the catalog
    "plugin/terminal/",
    "plugin/pytest_glue/",  # options, errors and lines of pytest
    "bench_cases/pipeline/report.py",
    "bench_cases/pipeline/words.py",
)
"""Files, and folders with a slash at the end, whose work is words."""

OF_OTHERS: dict[str, int] = {
    "plugin/isolation/device_errors.py": 1,
    "bench_cases/quantization/failures.py": 1,
}
"""Module → how many words of CUDA's and torch's own messages it looks for: they have no codes."""

OF_SOURCES: dict[str, int] = {
    "roofline_model/kernels/known_kernels.py": 1,
    "roofline_model/recommend/loss.py": 10,
    "results/cases/case_result.py": 1,
    "results/records/metrics.py": 5,
    "plugin/calibrate/cpu_calibration.py": 5,
    "bench_cases/kernels/spec.py": 1,
    "bench_cases/quality/embedding_quality.py": 1,
    "bench_cases/quality/texts/estimates.py": 2,
    "bench_cases/quantization/plans/recipes.py": 18,
    "bench_cases/shapes/attention.py": 3,
}
"""Module → how many of its texts say where a number comes from, name the row of a catalog, or are a value in JSON."""

LISTED = {**OF_OTHERS, **OF_SOURCES}
WORDS_OF_A_SENTENCE = 4
_WORD = re.compile(r"(?:^|(?<=[\s(]))[A-Za-z][a-z'’-]*(?=[\s,.;:)?!]|$)")
_CITATION = re.compile(
    r"arXiv|\bread 20\d\d|\b20\d\d-\d\d-\d\d|\bdocs?\.\w|\b[\w.-]+/[\w.-]+ \d|issue \d|https?:|\(\w+ \d\.\d|README"
)
"""What a source names: a paper, a date it was read, a repository with the number of a thread, a page."""
_PROGRAM = re.compile(r"^(SELECT |\nimport )")
"""How a text in another language than English begins: SQL, Python."""
_DOCUMENTING = frozenset({"fix", "source", "doc", "help", "description", "match", "epilog", "heading"})
"""Keywords of calls: an error's remedy, a citation, the documentation of a column, an option or a written file."""
_TELLING = frozenset({"warning", "info", "debug", "exit", "fail", "skip", "filterwarnings"})
"""Calls of a logger, and of pytest."""
_SEARCHES = frozenset({"startswith", "endswith", "removeprefix", "removesuffix", "find", "index", "count", "partition"})
_PROSE = frozenset(
    {"note", "notes", "reason", "reasons", "text", "sentence", "message", "why", "words", "said", "missing"}
)


def text_of(node: ast.AST) -> str | None:
    """Return a literal text, with a gap for each value of an f-string; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


def is_sentence(text: str) -> bool:
    """Return whether a text has the words of a sentence and is no citation.

    >>> is_sentence("torch has no kernel for it"), is_sentence("--roofline-db PATH")
    (True, False)
    >>> is_sentence("arXiv:1, read it there now")
    False
    """
    return len(_WORD.findall(text)) >= WORDS_OF_A_SENTENCE and not (_CITATION.search(text) or _PROGRAM.match(text))


def name_of(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _stands_apart(node: ast.AST, helpers: frozenset[str]) -> bool:
    """Return whether the texts in a node are an error, a documentation, or what a logger or pytest is told."""
    if isinstance(node, ast.Expr):
        return text_of(node.value) is not None
    if isinstance(node, ast.Call):
        name = name_of(node.func)
        is_pattern = name == "compile" and isinstance(node.func, ast.Attribute) and name_of(node.func.value) == "re"
        return is_pattern or name.endswith(("Error", "Problem", "warn")) or name in _TELLING | helpers
    if isinstance(node, ast.ClassDef):
        return node.name.endswith("Error")
    if isinstance(node, ast.FunctionDef):
        return _gives_an_error(node)
    return isinstance(node, ast.Raise) or (isinstance(node, ast.keyword) and node.arg in _DOCUMENTING)


def _gives_an_error(function: ast.FunctionDef) -> bool:
    """Return whether a function builds the error that its callers raise, by the type it says to return."""
    types = {name_of(part) for part in ast.walk(function.returns or function) if isinstance(part, ast.Name)}
    return function.returns is not None and all(name.endswith("Error") for name in types) and bool(types)


def _only_refuses(function: ast.FunctionDef) -> bool:
    """Return whether all that a function does is to raise, always or on a condition."""
    statements = [part for part in ast.walk(function) if isinstance(part, ast.stmt) and part is not function]
    allowed = (ast.If, ast.Raise, ast.Assign, ast.Expr, ast.Pass)
    return any(isinstance(part, ast.Raise) for part in statements) and all(
        isinstance(part, allowed) for part in statements
    )


def exempt_nodes(tree: ast.Module) -> set[int]:
    """Return the nodes, by `id`, that belong to an error or a documentation: also what a name holds that is used for
    nothing else.
    """
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    helpers = frozenset(function.name for function in functions if _only_refuses(function))
    exempt: set[int] = set()
    for node in ast.walk(tree):
        if _stands_apart(node, helpers):
            exempt |= {id(part) for part in ast.walk(node)}
        if isinstance(node, ast.Assert) and node.msg is not None:
            exempt |= {id(part) for part in ast.walk(node.msg)}
    before = -1
    while len(exempt) != before:  # a text may reach its error through several names
        before = len(exempt)
        for scope in (*functions, tree):
            exempt |= {id(part) for value in _used_up(scope, exempt) for part in ast.walk(value)}
    return exempt


def _used_up(scope: ast.AST, exempt: set[int]) -> Iterator[ast.expr]:
    """Yield what is assigned to the names of a scope all of whose uses are exempt."""
    names = [part for part in ast.walk(scope) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)]
    used = {part.id for part in names}
    elsewhere = {part.id for part in names if id(part) not in exempt}
    own = scope.body if isinstance(scope, ast.Module) else list(ast.walk(scope))
    for statement in own:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            if name in used - elsewhere:
                yield statement.value


def sentences(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of the sentences of a module."""
    exempt = exempt_nodes(tree)
    for node in ast.walk(tree):
        text = text_of(node)
        if text is None or id(node) in exempt:
            continue
        exempt |= {id(part) for part in ast.walk(node)}
        if is_sentence(text):
            yield node.lineno, text  # type: ignore[attr-defined]


def searches(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of what looks for words: literals of several words, or any literal in a name for prose."""

    def is_words(literal: ast.AST, place: ast.AST) -> bool:
        text = text_of(literal)
        if text is None or not re.match("[A-Za-z]{2}", text):  # a suffix such as `.toml` is no word
            return False
        return name_of(place) in _PROSE or re.search(r"[A-Za-z]{2,} [A-Za-z]{2,}", text) is not None

    def searched(node: ast.AST) -> tuple[ast.AST, ast.AST] | None:
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            return node.left, node.comparators[0]
        is_search = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SEARCHES
        return (node.args[0], node.func.value) if is_search and node.args else None  # type: ignore[attr-defined]

    for node in ast.walk(tree):
        pair = searched(node)
        if pair is not None and is_words(*pair):
            yield node.lineno, f"looks for {text_of(pair[0])!r}"  # type: ignore[attr-defined]


def found_in(path: Path) -> list[tuple[int, str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return sorted({*sentences(tree), *searches(tree)})


def domain_modules() -> Iterator[str]:
    """Yield the modules of domain code, relative to the root."""
    for package in DOMAIN:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(RENDERING) and not path.name.startswith("test_"):
                yield name


def test_domain_code_holds_no_sentences_and_looks_for_no_words() -> None:
    sentences_of = {module: found_in(ROOT / module) for module in domain_modules()}
    more = [
        f"{module}:{line}: {text[:100]!r}"
        for module, lines in sentences_of.items()
        if len(lines) > LISTED.get(module, 0)
        for line, text in lines
    ]
    assert not more, "\n".join(more)
    fewer = {module: len(lines) for module, lines in sentences_of.items() if len(lines) < LISTED.get(module, 0)}
    assert not fewer, "fewer sentences than the list says: lower the number, or drop the line"


def test_what_is_listed_exists() -> None:
    assert set(LISTED) <= set(domain_modules())
    assert len(LISTED) == len(OF_OTHERS) + len(OF_SOURCES)


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ('def f():\n    return "no kernel is known for it"', 1),
        ('def f(a):\n    return f"{a} takes longer than that of {a}"', 1),
        ('def f():\n    """What a documentation says of it."""\n    raise ValueError("this is not a number")', 0),
        ('X = InvalidValueError("this is not a number")', 0),
        ('Y = "--roofline-db PATH"', 0),
        ('Z = Row(source="a page that somebody has read")', 0),
        ('def f(note):\n    return "widened" in note', 1),
        ('def f(line):\n    return line.startswith("no serving engine")', 1),
        ('def f(name):\n    return name.startswith("cpu-")', 0),
        ('def f():\n    hint = "give a file that exists"\n    raise ValueError(hint)', 0),
        ('def f():\n    hint = "give a file that exists"\n    print(hint)\n    raise ValueError(hint)', 1),
        ('def f(a):\n    if a:\n        raise ValueError(a)\nf("this is not a number")', 0),
        ('def f(a) -> OwnError:\n    text = "this is not a number"\n    return OwnError(text)', 0),
        ('X = "this is not a number"\ndef f():\n    return X', 1),
    ],
)
def test_the_rule(code: str, count: int) -> None:
    tree = ast.parse(code)
    assert len([*sentences(tree), *searches(tree)]) == count
