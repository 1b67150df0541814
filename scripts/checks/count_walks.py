"""Count the project's files that a question passes on its way to the answer: how far a reader has to walk.

    python scripts/checks/count_walks.py [--list] [predict-gemm | case-to-report]

A file is passed when one of its functions is called; importing it does not count, nor what runs while a module of the
project is imported (class bodies, decorators, tables built from functions). `predict-gemm` asks the command line,
`case-to-report` measures three GEMV cases on the CPU (host timer, one process), stores them and writes the HTML report.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("roofline_model", "bench_cases", "plugin", "results", "reports", "roofline_cli")
LIMITS = {"predict-gemm": 35, "case-to-report": 140}
"""Walk → files it may pass."""


def passed_files(work: Callable[[], None]) -> tuple[set[str], set[str]]:
    """Return the project's files with a function that `work` calls, and those functions as `file:name`."""
    files: set[str] = set()
    functions: set[str] = set()
    prefix = f"{ROOT}/"

    def is_ours(frame: FrameType) -> bool:
        name = frame.f_code.co_filename.removeprefix(prefix)
        return frame.f_code.co_filename.startswith(prefix) and name.startswith((*PACKAGES, "roofline_pytest"))

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event != "call" or not is_ours(frame):
            return
        name = frame.f_code.co_filename.removeprefix(prefix)
        function = f"{name}:{frame.f_code.co_qualname}"
        if function in functions:
            return
        caller: FrameType | None = frame
        while caller is not None:
            if caller.f_code.co_name == "<module>" and is_ours(caller):
                return
            caller = caller.f_back
        files.add(name)
        functions.add(function)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # typeshed knows no None
    return files, functions


def predict_gemm() -> None:
    """Ask for one product in the default formats of a chip."""
    _command("predict", "gemm", "-M", "16", "-N", "4096", "-K", "4096", "--hw", "gb10")


def case_to_report() -> None:
    """Measure three cases, store them, report them."""
    import pytest

    with tempfile.TemporaryDirectory() as folder:
        database = f"{folder}/results.db"
        arguments = ("-k", "gemv and cold", "--roofline-formats", "BF16,INT8,INT4", "--roofline-shapes", "1x1024x1024")
        options = ("--roofline-db", database, "--roofline-isolate", "none", "--roofline-max-seconds", "0.2")
        status = pytest.main([f"{ROOT}/bench_cases/test_gemv.py", "-q", "-p", "no:cacheprovider", *arguments, *options])
        if status:
            raise SystemExit(f"the measuring run ended with {status}")
        _command("report", "--db", database, "-o", f"{folder}/report.html")


def _command(*arguments: str) -> None:
    from roofline_cli.main import app

    with contextlib.suppress(SystemExit):
        app(list(arguments), prog_name="roofline", standalone_mode=False)


WALKS = {"predict-gemm": predict_gemm, "case-to-report": case_to_report}


def main() -> int:
    """Print a line for each walk; 1 where one passes more files than its limit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("walks", nargs="*", choices=[*WALKS, []], help="default: all")
    parser.add_argument("--list", action="store_true", help="name the files")
    options = parser.parse_args()
    too_long = False
    for name in options.walks or WALKS:
        with contextlib.redirect_stdout(io.StringIO()):
            files, functions = passed_files(WALKS[name])
        too_long |= len(files) > LIMITS[name]
        print(f"{name}: {len(files)} files (at most {LIMITS[name]}), {len(functions)} functions")
        if options.list:
            print("".join(f"  {file}\n" for file in sorted(files)), end="")
    return int(too_long)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
