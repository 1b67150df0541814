"""Benchmarks of this software itself: `python benchmarks/run.py [--quick] [--json FILE] [--strict] [NAME…]`.

Prints one table: aim, measured, rival, ratio, pass or miss. See README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

if not __package__:  # run as a file: make this checkout importable
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.timing.contention import Contention
from benchmarks.timing.rows import Figure, Row, table_lines

BENCHMARKS = {
    "per_case": "measuring",
    "collecting": "measuring",
    "importing": "surfaces",
    "foreign_suite": "surfaces",
    "committing": "store",
    "prediction": "predictions",
    "array_rate": "predictions",
    "model_step": "predictions",
    "opening": "store",
    "importing_results": "store",
    "exporting": "store",
    "loop_overhead": "measuring",
    "codec_rate": "predictions",
    "pareto_rate": "predictions",
    "model_choice_rate": "predictions",
}
"""Name → folder."""
ON_REQUEST = {
    "labelled_truth": "watch",
    "report_page": "surfaces",
    "serving": "surfaces",
}
"""Only when named: they measure kernels for many minutes, drive a browser or a server, or simulate for a minute or
two.
"""
JSON_VERSION = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for and print it; returns 1 with --strict when an aim was missed."""
    options = _parsed(arguments)
    rows: list[Row | Figure] = []
    with tempfile.TemporaryDirectory(prefix="roofline-benchmarks-", dir=options.folder) as folder:
        for name in options.names or BENCHMARKS:
            rows += _measured(name, Path(folder) / name, options.quick)
    print()
    for line in table_lines(rows):
        print(line)
    if options.json is not None:
        options.json.write_text(json.dumps(_document(rows, options.quick), indent=1) + "\n", encoding="utf-8")
    return int(options.strict and any(row.verdict == "MISS" for row in rows))


def _measured(name: str, folder: Path, quick: bool) -> list[Row | Figure]:
    """Run one benchmark in a folder of its own and say in its rows whether the machine was ours meanwhile."""
    folder.mkdir()
    measure: Callable[..., list[Row | Figure]] = import_module(
        f"benchmarks.{(BENCHMARKS | ON_REQUEST)[name]}.{name}"
    ).measure
    begin = time.perf_counter()
    with Contention() as contention:
        rows = measure(folder, quick=quick)
    print(f"{name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    return [replace(row, others_ratio=contention.others_ratio, is_contended=contention.is_contended) for row in rows]


def _document(rows: Sequence[Row | Figure], is_quick: bool) -> dict[str, Any]:
    from plugin.machine.facts import cpu_name, usable_cpus

    packages = ("pytest", "pytest-benchmark", "sqlalchemy")
    return {
        "version": JSON_VERSION,
        "is_quick": is_quick,
        "cpu": cpu_name(),
        "cpu_count": usable_cpus(),
        "python": platform.python_version(),
        "packages": {package: metadata.version(package) for package in packages},
        "rows": [row.to_dict() for row in rows],
    }


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments; ends with exit code 2 and one line for a bad one, before anything is timed."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="Time this software itself.")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"which of {', '.join(BENCHMARKS)} (default: all of these) or, minutes each, {', '.join(ON_REQUEST)}",
    )
    parser.add_argument("--quick", action="store_true", help="few rounds: shows that it works, not what it costs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE as well")
    parser.add_argument("--strict", action="store_true", help="exit 1 when an aim is missed")
    parser.add_argument(
        "--folder", metavar="FOLDER", help="where databases and suites are made; default: the system's temporary folder"
    )
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in BENCHMARKS | ON_REQUEST:
            parser.error(f"there is no benchmark {name!r}; known: {', '.join(BENCHMARKS | ON_REQUEST)}")
    if options.folder is not None and not Path(options.folder).is_dir():
        parser.error(f"--folder {options.folder} is not a folder; create it first")
    if options.json is not None:
        try:
            options.json.open("a").close()
        except OSError as error:
            parser.error(f"--json {options.json} cannot be written: {error.strerror}")
    return options


if __name__ == "__main__":
    sys.exit(main())
