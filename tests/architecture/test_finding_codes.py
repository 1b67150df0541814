"""Every finding that the model builds has an entry in the catalog, with the values that its line needs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from roofline_model.core.finding import catalog, value_names

ROOT = Path(__file__).parents[2]
PACKAGES = ("roofline_model", "results", "plugin", "reports", "roofline_cli", "bench_cases")


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Yield where each call of `finding` stands, and the call."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "finding":
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node


LITERAL = [(where, call) for where, call in calls() if isinstance(call.args[0], ast.Constant)]


@pytest.mark.parametrize(("where", "call"), LITERAL, ids=[where for where, _ in LITERAL])
def test_the_code_is_in_the_catalog_and_its_values_are_given(where: str, call: ast.Call) -> None:
    code = call.args[0].value  # type: ignore[attr-defined]
    assert code in catalog(), where
    given = {keyword.arg for keyword in call.keywords}
    if len(call.args) > 1 or "subject" in given:
        given |= {"subject"}
    if None not in given:
        assert value_names(catalog()[code].short, is_optional=False) <= given, where


def test_the_model_builds_enough_findings_for_this_test_to_mean_something() -> None:
    assert len(LITERAL) > 60
