"""What our plugin adds to the start of a suite that does not use it, above the same pytest with `-p no:`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.timing.interleave import differences, interleaved, run_seconds
from benchmarks.timing.rows import Row

START_AIM_S = 0.050
_COMMAND = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_theirs.py")


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Time whole runs of a suite of one test in turn; the median of their differences round by round."""
    rounds = 5 if quick else 25
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_theirs.py").write_text("def test_theirs():\n    pass\n")
    programs = {
        "ours": partial(run_seconds, _COMMAND, folder),
        "without": partial(run_seconds, (*_COMMAND, "-p", "no:roofline_pytest"), folder),
    }
    for start in programs.values():  # byte code is compiled by the first start
        start()
    seconds = interleaved(programs, rounds)
    added_s = median(differences(seconds["ours"], seconds["without"]))
    rival = "the whole start without it"
    return [Row("our plugin in a suite without us", added_s, rounds, START_AIM_S, rival, median(seconds["without"]))]
