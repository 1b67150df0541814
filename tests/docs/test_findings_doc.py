"""docs/reference/findings.md is what scripts/docs/make_findings.py writes, and every code has words that a reader can
use."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from loaded_scripts import load_script

from roofline_model.core.finding import catalog

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "docs" / "make_findings.py"


@pytest.fixture(scope="module")
def make_findings() -> ModuleType:
    return load_script("make_findings")


def test_the_committed_file_is_fresh(make_findings: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert make_findings.main(["--check"]) == 0, capsys.readouterr().err


def test_a_stale_file_is_one_line_and_exit_1(
    make_findings: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "findings.md"
    assert make_findings.main(["--check"], target) == 1
    assert "make findings" in capsys.readouterr().err
    assert not target.exists()
    assert make_findings.main([], target) == 0
    assert make_findings.main(["--check"], target) == 0


def test_every_code_has_one_line_and_an_explanation_of_its_own() -> None:
    for code, entry in catalog().items():
        assert "\n" not in entry.short, code
        assert not entry.short.endswith("."), code
        assert len(entry.explanation.split()) >= 4, code
        assert entry.explanation != entry.short, code
