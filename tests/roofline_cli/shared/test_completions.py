"""What a shell offers after Tab, asked as bash asks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_RUN = "from roofline_cli.main import run; run()"


def completed(typed: str) -> list[str]:
    words = typed.split()
    variables = {"_ROOFLINE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    return subprocess.run(
        [sys.executable, "-c", _RUN],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.split()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("roofline recomm", "recommend"),
        ("roofline predict gem", "gemv"),
        ("roofline predict gemv --hw gb", "gb10"),
        ("roofline recommend --hw gb10,h10", "gb10,h100"),
        ("roofline recommend --model llama-3.1", "llama-3.1-8b"),
        ("roofline predict gemv --formats BF16,NV", "BF16,NVFP4"),
    ],
)
def test_a_shell_completes_commands_chips_models_and_formats(typed: str, offered: str) -> None:
    assert offered in completed(typed)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_documented_shell_names_the_command(shell: str) -> None:
    variables = {**os.environ, "_ROOFLINE_COMPLETE": f"source_{shell}"}
    done = subprocess.run(
        [sys.executable, "-c", _RUN], env=variables, capture_output=True, text=True, timeout=60, check=True
    )
    assert "complete" in done.stdout
    assert "roofline" in done.stdout
