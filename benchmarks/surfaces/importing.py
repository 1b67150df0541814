"""What `import roofline_model` costs above a bare Python, and what a first prediction costs above that."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.timing.interleave import differences, interleaved, run_seconds
from benchmarks.timing.rows import Row

IMPORT_AIM_S = 0.040

_PROGRAMS = {
    "bare": "pass",
    "import": "import roofline_model",
    "predict": "from roofline_model import predict_gemv; predict_gemv('gb10', 4096, 4096, 'FP16')",
    "pytest-benchmark": "import pytest_benchmark.plugin",
}


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Time fresh interpreters in turn; the medians of their differences round by round."""
    rounds = 5 if quick else 25
    programs = {name: partial(run_seconds, ["-c", code], folder) for name, code in _PROGRAMS.items()}
    for start in programs.values():  # byte code is compiled by the first import and is nobody's cost afterwards
        start()
    seconds = interleaved(programs, rounds)
    above = {name: median(differences(values, seconds["bare"])) for name, values in seconds.items() if name != "bare"}
    rival, rival_s = "import pytest_benchmark.plugin", above["pytest-benchmark"]
    return [
        Row("import roofline_model, above bare Python", above["import"], rounds, IMPORT_AIM_S, rival, rival_s),
        Row(
            "… and one prediction in that process",
            above["predict"],
            rounds,
            None,
            rival,
            rival_s,
            "names are resolved on first use, so the bare import is not the whole truth; a prediction reads the chip's "
            "file too",
        ),
    ]
