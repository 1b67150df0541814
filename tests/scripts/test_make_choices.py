"""docs/theory/choices.md is what scripts/docs/make_choices.py writes: some of its lines are made anew here, all by
`make choices`.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from loaded_scripts import load_script

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def make_choices() -> ModuleType:
    return load_script("make_choices")


@pytest.mark.parametrize(
    ("chip", "model", "phase"),
    [("gb10", "llama-3.1-8b", "decode"), ("l4", "llama-3.1-8b", "decode"), ("h100-sxm", "llama-3.1-70b", "prefill")],
)
def test_the_committed_line_is_what_the_model_recommends(make_choices, chip: str, model: str, phase: str) -> None:
    text = make_choices.TARGET.read_text(encoding="utf-8")
    section = text.partition(f"## {model}, {phase}\n")[2].partition("\n## ")[0]
    assert make_choices.row(chip, model, phase) in section.splitlines(keepends=True)


def test_every_chip_model_and_phase_has_its_line(make_choices) -> None:
    text = make_choices.TARGET.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| Chip")]
    assert len(lines) == len(make_choices.CHIPS) * len(make_choices.MODELS) * 2
