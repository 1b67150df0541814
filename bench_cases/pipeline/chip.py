"""The chip that a pipeline predicts for, as the measuring plugin sees it: asked of pytest, which predicts and measures nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench_cases.models.model_cases import ModelCase
from bench_cases.pipeline.pytest_run import (
    case_arguments,
    export_of,
    pytest_command,
    run_pytest,
    what_pytest_said,
)
from roofline_model.chips.hardware import Device, device_from_profile
from roofline_model.core.errors import UnsupportedError

CHIP_TIMEOUT_S = 900.0
"""A CPU that was never calibrated is measured first."""


def find_chip(hw: str, case: ModelCase) -> Device:
    """Return the chip that `hw` means here, calibrated as measurements will see it.

    Raises `UnsupportedError` in one line when pytest does not know it or this machine is not it.
    """
    with tempfile.TemporaryDirectory(prefix="roofline-pipeline-") as text:
        folder = Path(text)
        command = pytest_command(
            *case_arguments(case),
            "--roofline-hw",
            hw,
            "--roofline-predict-only",
            "--roofline-db",
            str(folder / "predictions.db"),
            "--roofline-json",
            str(folder / "predictions.json"),
        )
        code = run_pytest(command, folder / "pytest.log", timeout_s=CHIP_TIMEOUT_S)
        document = export_of(folder / "predictions.json")
        if document is None or not document.get("profiles"):
            raise UnsupportedError(f"no prediction for --hw {hw[:60]}: {what_pytest_said(folder / 'pytest.log', code)}")
        key = document["run"]["hardware_key"]
        profile = next(one for one in document["profiles"] if one["key"] == key)
        return device_from_profile(profile["profile"])
