"""Names say what they hold: numbers in public value types end in their unit, and no name stands for just anything."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("roofline_model", "bench_cases", "plugin", "results", "reports", "roofline_cli")
PYTHON = (*PACKAGES, "benchmarks", "examples", "scripts", "tests")

# Suffix → the unit. SI inside; `us`, `gb` and `pct` are the original documents' names, kept as given.
UNITS = {
    "s",
    "ns",
    "us",
    "bytes",
    "bits",
    "elems",
    "flops",
    "count",
    "ratio",
    "pct",
    "gb",
    "mib",
    "w",
    "j",
    "hz",
    "mhz",
    "c",
    "db",
    "version",
    "points",
    "inches",
}
# A user types these into `simulated:…`; short names, SI, each unit in its docstring.
TYPED_BY_USERS = {"SimulatedSettings"}
# Last words that need no unit: dimensionless by meaning, an identity, or a number whose unit stands beside it.
PLAIN_WORDS = {
    # identities and positions
    "ordinal",
    "pid",
    "process",
    "rank",
    "index",
    "offset",
    "limit",
    "code",
    "seed",
    "line",
    "drop",
    # ratios and relative errors by definition
    "speedup",
    "error",
    "tolerance",
    "efficiency",
    "noise",
    "drift",
    "factor",
    "bimodal",
    # plain counts
    "calls",
    "rounds",
    "samples",
    "added",
    "duplicates",
    "attempts",
    "done",
    "look",
    "df",
    "measured",
    "parameters",
    "features",
    "heads",
    "size",
    "dim",
    # unit beside it (`Quantity.unit`), unit spelled out, or a number of a format itself
    "value",
    "seconds",
    "minutes",
    "scale",
    "zero",
    "schema",
    # characters of a table on the screen
    "least",
    "order",  # of a norm
    # coordinates of a figure, in the units of its axes
    "x",
    "y",
    # the dimensions of C(M×N) = A(M×K)·B(K×N)
    "m",
    "n",
    "k",
    # those of attention: Q (B, Hq, Sq, D) with K and V (B, Hkv, Skv, D), keys of a window, tokens of a page
    "b",
    "hq",
    "hkv",
    "sq",
    "skv",
    "d",
    "window",
    "tokens",
}

SAY_NOTHING = ("found", "kept", "known", "night", "one", "thing", "told")
"""Names for which the thing itself has a noun: a run, a record, a row, an answer."""
_SAYS_NOTHING = re.compile(rf"\b_?({'|'.join(SAY_NOTHING)})\b", re.IGNORECASE)


def says_its_unit(name: str) -> bool:
    words = name.lower().split("_")
    return words[-1] in UNITS or words[-1] in PLAIN_WORDS or (len(words) > 2 and words[-2] == "per")


def is_value_type(node: ast.ClassDef) -> bool:
    """Public frozen dataclasses and named tuples: what crosses a border."""
    marks = " ".join(ast.unparse(mark) for mark in [*node.decorator_list, *node.bases])
    return not node.name.startswith("_") and (
        ("dataclass" in marks and "frozen=True" in marks) or "NamedTuple" in marks
    )


STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)
"""What may hold a class."""


def numeric_fields(tree: ast.AST) -> Iterator[tuple[str, str, int]]:
    """Yield (class, field, line) of the fields that hold one number, or None for a missing one."""
    nodes = [tree]
    for node in nodes:
        nodes += (child for child in ast.iter_child_nodes(node) if isinstance(child, STATEMENTS))
        if not isinstance(node, ast.ClassDef) or not is_value_type(node) or node.name in TYPED_BY_USERS:
            continue
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                types = {part.strip() for part in ast.unparse(statement.annotation).split("|")}
                if types & {"int", "float"} and types <= {"int", "float", "None"}:
                    yield node.name, statement.target.id, statement.lineno


def nameless(source: str) -> list[str]:
    fields = numeric_fields(ast.parse(source))
    return [f"{owner}.{field}" for owner, field, _ in fields if not field.startswith("_") and not says_its_unit(field)]


def test_numeric_fields_say_their_unit():
    wrong = [
        f"{path.relative_to(ROOT).as_posix()}: {name} does not say its unit"
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in nameless(path.read_text(encoding="utf-8"))
    ]
    assert not wrong, "\n".join(wrong)


def bound_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield (name, line) of what a module binds: assignments, loops, arguments, functions, classes, imports."""
    field_of = {ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.alias: "asname"}
    for node in ast.walk(tree):
        name = getattr(node, field_of.get(type(node), "name"), None)
        if isinstance(name, str) and not isinstance(getattr(node, "ctx", None), ast.Load):
            yield name, node.lineno  # type: ignore[attr-defined]


def test_no_name_says_nothing():
    paths = [*ROOT.glob("*.py"), *(path for folder in PYTHON for path in sorted((ROOT / folder).rglob("*.py")))]
    wrong = [
        f"{path.relative_to(ROOT).as_posix()}:{line}: {name!r} does not say what it holds"
        for path in paths
        if _SAYS_NOTHING.search(source := path.read_text(encoding="utf-8"))
        for name, line in bound_names(ast.parse(source))
        if _SAYS_NOTHING.fullmatch(name)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_binding_is_seen():
    source = """
one: int = 1
for known in x: (found := known)
def told(kept, *thing): self.night = [one for one in x]
with x as kept: from y import z as told
"""
    assert sorted(name for name, _ in bound_names(ast.parse(source))) == sorted(
        ["one", "known", "found", "told", "kept", "thing", "night", "one", "kept", "told"]
    )


def test_the_rule_sees_what_it_should():
    source = """
@dataclass(frozen=True, slots=True)
class Wrong:
    time: float
    power: float | None = None
    bandwidth: int = 0
    name: str = ""
    time_s: float = 0.0
    bandwidth_bytes_per_s: float = 0.0
@dataclass
class Inner:
    time: float
class Pair(NamedTuple):
    latency: float
"""
    assert nameless(source) == ["Wrong.time", "Wrong.power", "Wrong.bandwidth", "Pair.latency"]
