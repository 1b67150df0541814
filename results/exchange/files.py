"""Kind of a file to import, recognised by its content: read once, and not at all where it is larger than its kind."""

from __future__ import annotations

import codecs
import csv
import itertools
import json
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results.exchange import llama_bench
from results.exchange.exported.export import EXPORT_FORMAT, RUNS_FORMAT
from results.exchange.fields import Located
from results.exchange.kernel_rows import KIND as KERNEL_TABLE
from results.exchange.kernel_rows import REQUIRED_COLUMNS
from results.exchange.pytest_benchmark import KIND as PYTEST_BENCHMARK
from results.exchange.pytest_benchmark import is_pytest_benchmark
from results.exchange.vllm_bench import vllm_kind
from roofline_model.core.definition_text import whole_number
from roofline_model.core.errors import InvalidValueError, MissingDependencyError
from roofline_model.core.table_file import MAX_CELLS, MAX_ROWS, MAX_TABLE_BYTES, parquet_columns
from roofline_model.core.units import format_memory

MAX_JSON_BYTES = 10**9
"""An export of 100,000 records with all samples is far smaller; the whole file is read into memory."""
MAX_FOREIGN_JSON_BYTES = 250 * 10**6
"""vLLM's detailed results of some 10,000 requests with all texts."""
LONGEST_LINE_CHARS = 2**20
_MOST_LINES_ABOVE = 10_000
"""Among which the header of a Markdown table is looked for."""
_HEAD_BYTES = 2**16
"""Of which it is seen whether a file is JSON."""

OURS = "roofline-bench"
READABLE = (
    "an export of `roofline export --format json`, pytest-benchmark's JSON, a table of measured kernels (CSV or "
    "Parquet), "
    "llama-bench's JSON, JSON lines, CSV or Markdown, or the JSON of vLLM's benchmarks"
)


@dataclass(frozen=True, slots=True)
class Recognised:
    """A file and what it is."""

    path: Path
    kind: str
    """roofline-bench, pytest-benchmark, kernel-table, llama-bench or vllm."""
    content: Any = None
    """An iterable of `Located` objects of llama-bench and vLLM, the document of roofline-bench and pytest-benchmark."""


def recognise(path: Path) -> Recognised:
    """Return the kind of a file. Raises `InvalidValueError` if it cannot be imported: no file, a pipe, too large,
    damaged.

    Looking does not open what is not a regular file: opening a pipe that nobody writes to would wait for ever.
    """
    size = _regular_size(path)
    _check_size(path, size, MAX_JSON_BYTES)
    if path.suffix.lower() == ".parquet":
        _check_size(path, size, MAX_TABLE_BYTES)
        # Without pyarrow reading it will say what to install.
        with suppress(MissingDependencyError):
            if {"run_id", "run_label"} <= set(parquet_columns(path, KERNEL_TABLE.replace("-", " "))):
                raise _part_of_a_run(path, "Parquet")
        return Recognised(path, KERNEL_TABLE)
    text = _bounded_text(path, size).strip()
    if not text:
        raise _refused(path, "is empty")
    return _of_json(path, text) if text.startswith(("{", "[")) else _of_text(path, text)


def _regular_size(path: Path) -> int:
    try:
        file_stat = path.stat()
    except (OSError, ValueError) as error:
        raise _refused(path, f"cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if stat.S_ISDIR(file_stat.st_mode):
        raise _refused(path, f"is a folder (name its files: {path}/*.json)")
    if not stat.S_ISREG(file_stat.st_mode):
        raise _refused(path, "is not a regular file")
    return file_stat.st_size


def _check_size(path: Path, size: int, most: int) -> None:
    if size > most:
        raise _refused(
            path, f"holds {format_memory(size)}, more than an import reads ({format_memory(most)}): split it, or"
        )


def _bounded_text(path: Path, size: int) -> str:
    """Return the text of a file of a size that its kind may have; JSON is often one line of many megabytes."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            # A spreadsheet or a shell of Windows writes UTF-16, its editors a byte order mark before UTF-8.
            is_wide = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            encoding = "utf-16" if is_wide else "utf-8-sig"
            start = head.decode(encoding, errors="replace").lstrip()
            foreign_most = MAX_FOREIGN_JSON_BYTES if start.startswith(("{", "[")) else MAX_TABLE_BYTES
            _check_size(path, size, MAX_JSON_BYTES if EXPORT_FORMAT in start[:200] else foreign_most)
            return (head + file.read()).decode(encoding)
    except OSError as error:
        raise _refused(path, f"cannot be read ({error.strerror or error})") from None
    except UnicodeDecodeError:
        raise _refused(path, "is not UTF-8 text") from None


def _of_json(path: Path, text: str) -> Recognised:
    # Beyond the two signs of each value its text costs no memory; our own exports have their own, larger limit.
    if EXPORT_FORMAT not in text[:200] and text.count(",") + text.count("[") + text.count("{") > MAX_CELLS:
        raise _refused(path, f"holds more than {MAX_CELLS:,} values: split it, or")
    try:
        document = json.loads(text, parse_int=whole_number)
    except RecursionError:
        raise _refused(path, "is nested too deeply") from None
    except ValueError as error:
        if (of_lines := _of_json_lines(path, text)) is not None:
            return of_lines
        raise _refused(path, f"is not JSON ({str(error)[:120]}): the file is damaged;") from None
    if isinstance(document, dict) and document.get("format") in (EXPORT_FORMAT, RUNS_FORMAT):
        return Recognised(path, OURS, document)
    if is_pytest_benchmark(document):
        return Recognised(path, PYTEST_BENCHMARK, document)
    objects = document if isinstance(document, list) else [document]
    return _of_objects(path, [(f"[{number}]" if len(objects) > 1 else "", each) for number, each in enumerate(objects)])


def _of_json_lines(path: Path, text: str) -> Recognised | None:
    """Return what JSON lines are, None where some line is no JSON."""
    if text.count("\n") > MAX_ROWS:
        return None
    try:
        values = [json.loads(line, parse_int=whole_number) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError):
        return None
    return _of_objects(path, [(f"line {number}", value) for number, value in enumerate(values, 1)])


def _of_objects(path: Path, objects: list[Located]) -> Recognised:
    first = objects[0][1] if objects else None
    if llama_bench.is_row(first):
        return Recognised(path, llama_bench.KIND, objects)
    if vllm_kind(first) is not None:
        return Recognised(path, "vllm", objects)
    raise _refused(path, "is JSON of nothing that is known here")


def _of_text(path: Path, text: str) -> Recognised:
    lines = text.splitlines()
    if max(map(len, lines)) > LONGEST_LINE_CHARS:
        raise _refused(path, f"has a line of more than {LONGEST_LINE_CHARS:,} characters")
    try:
        cells = [cell.strip() for cell in next(csv.reader(lines[:1]))]
    except (csv.Error, StopIteration):
        cells = []  # a line that no CSV begins with
    if set(cells) >= REQUIRED_COLUMNS:
        return Recognised(path, KERNEL_TABLE)
    if llama_bench.is_csv_header(cells):
        return Recognised(path, llama_bench.KIND, llama_bench.tests_of_csv(path))
    if cells[:1] == ["run_id"]:
        raise _part_of_a_run(path, "CSV")
    if any(map(llama_bench.is_markdown_header, lines[:_MOST_LINES_ABOVE])):
        return Recognised(path, llama_bench.KIND, llama_bench.tests_of_markdown(text))
    # Messages of the program, when its errors were sent to the same file.
    records = "\n".join(itertools.dropwhile(lambda line: not line.startswith("{"), lines))
    if records and (of_lines := _of_json_lines(path, records)) is not None:
        return of_lines
    raise _refused(path, "is text of nothing that is known here")


def _part_of_a_run(path: Path, form: str) -> InvalidValueError:
    return _refused(
        path,
        f"is a {form} export: {form} cannot be imported, it holds only a part of a run; export it with --format json;",
    )


def _refused(path: Path, problem: str) -> InvalidValueError:
    shown = str(path) if len(str(path)) <= 160 else f"{str(path)[:160]}…"
    join = " " if problem.endswith((";", "or")) else ": "
    return InvalidValueError(f"{shown} {problem}{join}give {READABLE}. Nothing was imported.")
