"""The examples in docstrings print what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("roofline_model", "results", "reports", "plugin", "bench_cases", "roofline_cli")


def modules_with_examples() -> list[str]:
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    with_examples = (path for path in paths if ">>> " in path.read_text(encoding="utf-8"))
    return [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in with_examples]


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_of_a_module_hold(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_what_users_call_first_has_an_example() -> None:
    first = {"chips.hardware", "expected.predict", "recommend.shape", "recommend.model"}
    assert {f"roofline_model.{name}" for name in first} <= set(modules_with_examples())
