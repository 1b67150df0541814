"""Every finding that the code builds has an entry in the catalog, with the values that its line needs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from roofline_model.core.finding import catalog, value_names

ROOT = Path(__file__).parents[2]
PACKAGES = ("roofline_model", "results", "plugin", "reports", "roofline_cli", "bench_cases")


def literal_calls() -> Iterator[tuple[str, str, ast.Call]]:
    """Yield where each call of `finding` with a literal code stands, the code, and the call."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "finding(" not in text:  # reading is quicker than parsing
                continue
            for node in ast.walk(ast.parse(text)):
                match node:
                    case ast.Call(func=ast.Name(id="finding"), args=[ast.Constant(value=str(code)), *_]):
                        yield f"{path.relative_to(ROOT)}:{node.lineno}", code, node


def missing_values(code: str, call: ast.Call) -> set[str]:
    """Return the values that the line of a code and the words of its kind need, and `call` does not give."""
    given = {keyword.arg for keyword in call.keywords}
    if len(call.args) > 1 or "subject" in given:
        given |= {"subject"}
    lines = [catalog()[code].short]
    match next((keyword.value for keyword in call.keywords if keyword.arg == "kind"), None):
        case ast.Constant(value=str(kind)):
            lines.append(catalog()[code].kinds[kind])
    needed = {name for line in lines for name in value_names(line, is_optional=False)}
    return set() if None in given else needed - given


def test_codes_are_in_the_catalog_and_their_values_are_given() -> None:
    calls = list(literal_calls())
    assert len(calls) > 60  # else this test means nothing
    assert [(where, code) for where, code, _ in calls if code not in catalog()] == []
    missing = {where: missing_values(code, call) for where, code, call in calls}
    assert {where: values for where, values in missing.items() if values} == {}
