"""Runs cases of `test_model_quant` with pytest in a process of its own, as a user would, and finds their chip."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from bench_cases.child_process import start_interruptible, stop_child
from bench_cases.models.model_cases import ModelCase
from results.exchange.exported.load import read_export
from roofline_model.chips.hardware import Device
from roofline_model.chips.stored_profile import device_from_profile
from roofline_model.core.errors import StoreError, UnsupportedError
from roofline_model.core.finding import advice_text, first_with, from_stored
from roofline_model.core.whole_file import held_folder

STOP_TIMEOUT_S = 30.0
"""After Ctrl-C pytest gets this long to store what it has."""
_PACKAGE_ROOT = Path(__file__).resolve().parents[2]
_TEST = "bench_cases/test_model_quant.py::test_model_quant"
_SAID_CHARS = 400


def case_arguments(*cases: ModelCase) -> list[str]:
    """Return the arguments that select exactly these cases of one model, phase, batch and context."""
    first = cases[0]
    precisions = dict.fromkeys(case.precision for case in cases)
    methods = [case.method for case in cases if not case.is_plain]
    return [
        *(f"{_PACKAGE_ROOT / _TEST}[{case.id}]" for case in cases),
        "--roofline-model",
        first.model.text,
        "--roofline-formats",
        ",".join(precisions),
        "--roofline-batch",
        str(first.batch_count),
        "--roofline-context",
        str(first.context_count),
        *(("--roofline-method", methods[0]) if methods else ()),
    ]


def pytest_command(*arguments: str) -> list[str]:
    """Return a pytest command line that reads no ini file of the folder it is called in, and writes no cache there."""
    return [
        sys.executable,
        "-P",
        "-m",
        "pytest",
        "-p",
        "roofline_pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:benchmark",
        "--no-header",
        "--tb=short",
        "-c",
        os.devnull,
        "--rootdir",
        str(_PACKAGE_ROOT),
        "--import-mode=importlib",
        *arguments,
    ]


def run_pytest(command: list[str], log: Path, *, timeout_s: float) -> int | None:
    """Run pytest with its output in `log`; return its exit code, None when it took longer than `timeout_s` and was
    ended.

    It ends with this process, whatever ends it: a measurement that nobody waits for would disturb the next one.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    inherited = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = os.pathsep.join([str(_PACKAGE_ROOT), *([inherited] if inherited else [])])
    with log.open("wb") as output:
        process = start_interruptible(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=_end_with_parent if sys.platform.startswith("linux") else None,
        )
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            stop_child(process, STOP_TIMEOUT_S)
            return None
        except BaseException:
            stop_child(process, STOP_TIMEOUT_S)
            raise
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def pytest_failure_text(log: Path, code: int | None) -> str:
    """Return in one line why a run of pytest left no result: its own error where there is one, else the end of its
    output.
    """
    if code is None:
        return "time limit reached"
    try:
        lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        lines = []
    error_lines = [match[1] for line in lines if (match := re.match(r"(?:ERROR:|E )\s*(.+)", line))]
    message_line = (error_lines or [line for line in lines if line] or ["it said nothing"])[
        -1 if not error_lines else 0
    ]
    printable = "".join(ch if ch.isprintable() else "?" for ch in message_line.replace("--roofline-", "--"))
    return f"pytest ended with {code}: {printable[:_SAID_CHARS]}"


def _end_with_parent() -> None:
    set_parent_death_signal = 1  # PR_SET_PDEATHSIG of linux/prctl.h
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)


CHIP_TIMEOUT_S = 900.0
"""A CPU that was never calibrated is measured first."""


def find_chip(hw: str, case: ModelCase) -> Device:
    """Return the chip that `hw` means here, calibrated as measurements will see it.

    Raises `UnsupportedError` in one line when pytest does not know it, this machine is not it, or it was busy when its
    ceilings were measured.
    """
    with held_folder("roofline-pipeline-") as folder:
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
        try:
            exported = read_export(folder / "predictions.json")
        except StoreError:
            exported = None
        warnings = () if exported is None else exported.run.environment.facts.get("warnings") or ()
        if (doubt := first_with(map(from_stored, warnings), "ceilings-contended")) is not None:
            raise UnsupportedError(advice_text(doubt), doubt)
        if exported is None or not exported.profiles:
            raise UnsupportedError(
                f"no prediction for --hw {hw[:60]}: {pytest_failure_text(folder / 'pytest.log', code)}"
            )
        key = exported.run.hardware_key
        return device_from_profile(next(profile.profile for profile in exported.profiles if profile.key == key))
