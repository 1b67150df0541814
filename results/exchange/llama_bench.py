"""llama-bench's outputs as rows of one layout: JSON, JSON lines, CSV and the Markdown table that people paste.

Field names and units: tools/llama-bench/llama-bench.cpp and its README in ggml-org/llama.cpp, read 2026-11-21. Times
are nanoseconds of one whole repetition: `n_prompt` tokens in passes of `n_ubatch`, then `n_gen` decode steps, on a
cache that holds `n_depth`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from results.exchange.fields import Located
from results.records.plain_form import FormError
from roofline_model.core.table_file import check_extent, read_table

KIND = "llama-bench"

_CONVERT: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(
        (
            "build_number",
            "model_size",
            "model_n_params",
            "n_batch",
            "n_ubatch",
            "n_threads",
            "poll",
            "n_gpu_layers",
            "n_cpu_moe",
            "main_gpu",
            "n_prompt",
            "n_gen",
            "n_depth",
            "avg_ns",
            "stddev_ns",
            "flash_attn",
            "no_op_offload",
            "fit_target",
            "fit_min_ctx",
        ),
        int,
    ),
    **dict.fromkeys(("avg_ts", "stddev_ts"), float),
    **dict.fromkeys(
        ("no_kv_offload", "cpu_strict", "embeddings", "use_mmap", "no_host", "repack"),
        lambda text: text not in ("0", "false"),
    ),
}
"""Fields that are no text."""

# Column of the Markdown table → field; the table leaves out what has its default.
_SHORT_NAMES = {
    "model": "model_type", "backend": "backends", "ngl": "n_gpu_layers", "threads": "n_threads", "sm": "split_mode",
    "nkvo": "no_kv_offload", "fa": "flash_attn", "mmap": "use_mmap", "embd": "embeddings", "nopo": "no_op_offload",
    "dev": "devices", "ts": "tensor_split", "ot": "tensor_buft_overrides", "lm": "load_mode", "noh": "no_host",
    "size": "model_size", "params": "model_n_params",
}  # fmt: skip
_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d+)?) (Ki|Mi|Gi|Ti|K|M|B|T)B?")
_RATE = re.compile(r"(\d+(?:\.\d+)?)(?: ± (\d+(?:\.\d+)?))?")
_TEST = re.compile(r"(?:pp ?(\d+))?\+?(?:tg ?(\d+))?(?: @ d(\d+))?")
_BUILD = re.compile(r"build: ([0-9a-f]{6,40}) \((\d+)\)")
_MULTIPLES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


def is_row(value: Any) -> bool:
    """Return whether a JSON value looks like a test of llama-bench."""
    return isinstance(value, Mapping) and "n_gen" in value and ("avg_ns" in value or "samples_ns" in value)


def is_csv_header(cells: list[str]) -> bool:
    """Return whether a CSV's first line is llama-bench's."""
    return {"model_type", "n_prompt", "n_gen", "avg_ns"} <= set(cells)


def is_markdown_header(line: str) -> bool:
    """Return whether a line is the header of llama-bench's table."""
    return {"model", "backend", "test", "t/s"} <= set(_cells(line))


def tests_of_csv(path: Path) -> Iterator[Located]:
    """Yield the tests of a CSV file as the JSON has them, each with where it stands.

    Raises `FormError` naming the line and the field, `InvalidValueError` for more than a table may be.
    """
    table = read_table(path, "llama-bench table")
    for number, cells in zip(table.line_numbers, table.rows, strict=True):
        where = f"line {number}"
        yield where, _typed(_row(where, table.header, cells), where)


def tests_of_markdown(text: str) -> Iterator[Located]:
    """Yield the tests of the tables in a text; other lines are passed over, but for the build that stands below them.

    A table has rounded rates and no date: everything else is in the other forms. One that was pasted as a quotation
    (`> `), with cells in bold, is read as it was printed.
    """
    header: list[str] = []
    tests: list[tuple[str, dict[str, Any]]] = []
    build: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), 1):
        cells, where = _cells(line), f"line {number}"
        if (match := _BUILD.search(line)) is not None:
            build = {"build_commit": match.group(1), "build_number": int(match.group(2))}
        if not line.lstrip("> \t").startswith("|"):
            continue
        if is_markdown_header(line):
            header = cells
            check_extent("the table", 0, len(header))
        elif header and not set("".join(cells)) <= set("-: "):
            tests.append((where, _from_cells(_row(where, header, cells), where)))
    for where, fields in tests:
        yield where, fields | build


def _row(where: str, header: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    if len(cells) != len(header):
        raise FormError(f"{where} has {len(cells)} cells, the header {len(header)}")
    return dict(zip(header, cells, strict=True))


def _typed(row: Mapping[str, str], where: str) -> dict[str, Any]:
    """Return a row of texts with numbers as numbers, so that it equals the same test's JSON."""
    fields: dict[str, Any] = {}
    for name, text in row.items():
        try:
            fields[name] = _CONVERT.get(name, str)(text)
        except ValueError:
            raise FormError(f"{where}.{name} is {text[:40]!r}, not a number") from None
    return fields


def _from_cells(row: dict[str, str], where: str) -> dict[str, Any]:
    """Return a row of the table under the names of the other forms."""
    test, rate = _TEST.fullmatch(row["test"]), _RATE.fullmatch(row["t/s"])
    if test is None or not any(test.groups()[:2]):
        raise FormError(f"{where}.test is {row['test'][:40]!r}, not pp512, tg128 or pp512+tg128")
    if rate is None:
        raise FormError(f"{where}.t/s is {row['t/s'][:40]!r}, not tokens per second as in 1000.00")
    named = {"avg_ts": rate[1]} | ({"stddev_ts": rate[2]} if rate[2] else {})
    named |= {name: text or "0" for name, text in zip(("n_prompt", "n_gen", "n_depth"), test.groups(), strict=True)}
    named |= {_SHORT_NAMES.get(name, name): text for name, text in row.items() if name not in ("test", "t/s")}
    amounts = {name: _AMOUNT.fullmatch(named.pop(name, "")) for name in ("model_size", "model_n_params")}
    return _typed(named, where) | {
        name: round(float(amount[1]) * _MULTIPLES[amount[2]]) for name, amount in amounts.items() if amount is not None
    }


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.replace("**", "").strip("> \t\r\n").strip("|").split("|")]
