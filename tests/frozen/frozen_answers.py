"""Today's answers to the frozen questions, as numbers and identities; never words.

`python tests/frozen/frozen_answers.py` records them, for new questions or for an answer that is meant to differ: see
docs/development/decisions/0010-frozen-answers.md.
"""

from __future__ import annotations

import json
import lzma
import math
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from questions import QUESTIONS
from typer.testing import CliRunner

from results import open_store
from results.exchange.exported.load import import_file
from roofline_cli.main import app
from roofline_model.chips.device_text import device_text
from roofline_model.chips.stored_profile import device_from_profile

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples" / "runs" / "cpu-amd-epyc-2t"
GOLDEN = HERE / "answers.json.xz"
EPSILON = 1e-12
"""Relative difference that another platform's arithmetic may make."""
LONGEST_IDENTITY = 80
CLOCK = "seconds"
"""What a sweep took: the only number of the machine that answers."""


def prepare(folder: Path) -> None:
    """Fill the folder that questions are asked in: databases of stored runs, and the chip that a run calibrated."""
    (profile,) = json.loads((EXAMPLES / "calibrated.json").read_text(encoding="utf-8"))["profiles"]
    text = device_text(device_from_profile(profile["profile"]))
    (folder / "epyc.toml").write_text(text, encoding="utf-8")
    for name, files in {"cpu": sorted(EXAMPLES.glob("*.json")), "nights": [], "history": []}.items():
        packed = HERE / "runs" / f"{name}.json.xz"
        if packed.exists():
            files = [folder / f"{name}.json"]
            files[0].write_bytes(lzma.decompress(packed.read_bytes()))
        with open_store(str(folder / f"{name}.sqlite")) as store:
            for file in files:
                import_file(store, file)


def ask(question: str) -> dict[str, Any]:
    """Return the exit code and what the JSON document of a command holds, path → number or identity."""
    done = CliRunner().invoke(app, [*shlex.split(question), "--json"])
    document = json.loads(done.stdout) if done.stdout.startswith(("{", "[")) else None
    return {"exit_code": done.exit_code, **dict(_leaves(document, ""))}


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            if name == CLOCK:
                continue
            yield from _leaves(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _leaves(item, f"{path}[{place}]")
    elif not isinstance(value, str) or (" " not in value and len(value) <= LONGEST_IDENTITY):
        yield path, value


def differences(frozen: dict[str, Any], today: dict[str, Any]) -> list[str]:
    """Return what was answered and is not any more; what an answer has gained is no difference."""
    return [
        f"{path}: {value!r} was, {today.get(path, 'nothing')!r} is"
        for path, value in frozen.items()
        if path not in today or not _is_equal(value, today[path])
    ]


def _is_equal(value: Any, other: Any) -> bool:
    if isinstance(value, float) and isinstance(other, float | int):
        return math.isclose(value, other, rel_tol=EPSILON)
    return bool(value == other)


def read() -> dict[str, dict[str, Any]]:
    """Return question → frozen answer."""
    answers: dict[str, dict[str, Any]] = json.loads(lzma.decompress(GOLDEN.read_bytes()))
    return answers


def record() -> None:
    """Write today's answers to all questions."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(ROOFLINE_CACHE=f"{folder}/cache")
        os.chdir(folder)
        prepare(Path(folder))
        answers = {}
        for family, questions in QUESTIONS.items():
            answers |= {question: ask(question) for question in questions}
            print(f"{family}: {len(questions)}", file=sys.stderr)
        os.chdir(HERE)
    GOLDEN.write_bytes(lzma.compress(json.dumps(answers, ensure_ascii=False).encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    record()
