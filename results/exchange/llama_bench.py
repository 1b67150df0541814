"""llama-bench's outputs as rows of one layout: JSON, JSON lines, CSV and the Markdown table that people paste.

Field names and units: tools/llama-bench/llama-bench.cpp and its README in ggml-org/llama.cpp, read 2026-11-21. Times
are nanoseconds of one whole repetition: `n_prompt` tokens in passes of `n_ubatch`, then `n_gen` decode steps, on a
cache that holds `n_depth`.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results.exchange.fields import Fields
from results.records.plain_form import FormError
from roofline_model.core.table_file import check_extent, read_table

KIND = "llama-bench"
MAX_ROWS = 200_000

_INTEGERS = frozenset(
    {
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
    }
)
_FLOATS = frozenset({"avg_ts", "stddev_ts"})
_FLAGS = frozenset({"no_kv_offload", "cpu_strict", "embeddings", "use_mmap", "no_host", "repack"})

# Column of the Markdown table → field; the table leaves out what has its default.
_SHORT_NAMES = {
    "model": "model_type", "backend": "backends", "ngl": "n_gpu_layers", "threads": "n_threads", "sm": "split_mode",
    "nkvo": "no_kv_offload", "fa": "flash_attn", "mmap": "use_mmap", "embd": "embeddings", "nopo": "no_op_offload",
    "dev": "devices", "ts": "tensor_split", "ot": "tensor_buft_overrides", "lm": "load_mode", "noh": "no_host",
}  # fmt: skip
_SIZE = re.compile(r"([0-9.]+) (K|M|G|T)iB")
_COUNT = re.compile(r"([0-9.]+) (K|M|B|T)")
_RATE = re.compile(r"([0-9.]+)(?: ± ([0-9.]+))?")
_TEST = re.compile(r"(?:pp ?(\d+))?\+?(?:tg ?(\d+))?(?: @ d(\d+))?")
_BUILD = re.compile(r"build: ([0-9a-f]{6,40}) \((\d+)\)")
_DISAGREEMENT_RATIO = 0.01
"""Between a test's own figures: they are rounded to whole nanoseconds and to two digits of a token."""
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4}
_THOUSANDS = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One test of llama-bench, whatever the file's form."""

    fields: Fields
    prompt_count: int
    new_count: int
    depth_count: int
    samples_s: tuple[float, ...]
    """Seconds of whole repetitions; one value, their mean, where the form keeps no more."""
    is_mean: bool
    rate_std_per_s: float | None
    """Standard deviation of tokens/s as printed."""


def is_row(value: Any) -> bool:
    """Return whether a JSON value looks like a test of llama-bench."""
    return isinstance(value, Mapping) and "n_gen" in value and ("avg_ns" in value or "samples_ns" in value)


def is_csv_header(cells: list[str]) -> bool:
    """Return whether a CSV's first line is llama-bench's."""
    return {"model_type", "n_prompt", "n_gen", "avg_ns"} <= set(cells)


def is_markdown_header(line: str) -> bool:
    """Return whether a line is the header of llama-bench's table."""
    return {"model", "backend", "test", "t/s"} <= set(_cells(line))


def rows_of_objects(values: Iterable[tuple[str, Any]]) -> Iterator[BenchRow]:
    """Yield the tests of JSON objects, each with where it stands."""
    for where, value in values:
        fields = Fields(value, where)
        samples = fields.times_s("samples_ns", 1e-9)
        if any(time_s <= 0 for time_s in samples):
            raise FormError(f"{where}.samples_ns holds 0: no repetition takes no time")
        yield _row(fields, samples)


def rows_of_csv(path: Path) -> Iterator[BenchRow]:
    """Yield the tests of a CSV file.

    Raises `FormError` naming the line and the field, `InvalidValueError` for more than a table may be.
    """
    table = read_table(path, "llama-bench table")
    for line, cells in zip(table.line_numbers, table.rows, strict=True):
        where = f"line {line}"
        if len(cells) != len(table.header):
            raise FormError(f"{where} has {len(cells)} cells, the header {len(table.header)}")
        yield _row(Fields(_typed(dict(zip(table.header, cells, strict=True)), where), where), ())


def rows_of_markdown(lines: Iterable[str]) -> Iterator[BenchRow]:
    """Yield the tests of the tables in a text; other lines are passed over, but for the build that stands below them.

    A table has rounded rates and no date: everything else is in the other forms. One that was pasted as a quotation
    (`> `), with cells in bold, is read as it was printed.
    """
    header: list[str] = []
    rows: list[tuple[str, dict[str, Any]]] = []
    build: dict[str, Any] = {}
    for number, line in enumerate(lines, 1):
        if (match := _BUILD.search(line)) is not None:
            build = {"build_commit": match.group(1), "build_number": int(match.group(2))}
        if not line.lstrip("> \t").startswith("|"):
            continue
        cells = _cells(line)
        if is_markdown_header(line):
            header = cells
            check_extent("the table", 0, len(header))
        elif header and not set("".join(cells)) <= set("-: "):
            if len(cells) != len(header):
                raise FormError(f"line {number} has {len(cells)} cells, the header {len(header)}")
            if len(rows) == MAX_ROWS:
                raise FormError(f"it holds more than {MAX_ROWS:,} tests: split it")
            rows.append((f"line {number}", _from_cells(dict(zip(header, cells, strict=True)), f"line {number}")))
    for where, values in rows:
        yield _row(Fields({**values, **build}, where), ())


def _row(fields: Fields, samples_s: tuple[float, ...]) -> BenchRow:
    depth = fields.count("n_depth") if fields.has("n_depth") else 0
    prompt, new = fields.count("n_prompt"), fields.count("n_gen")
    if prompt + new == 0:
        raise FormError(f"{fields.where}: n_prompt and n_gen are both 0: nothing was computed")
    if fields.has("model_size"):
        fields.count("model_size", least=1)
    is_mean = not samples_s
    if is_mean and fields.has("avg_ns"):
        samples_s = (fields.time_s("avg_ns", 1e-9),)
    elif is_mean:
        rate = fields.number("avg_ts", least=0)
        if rate == 0:
            raise FormError(f"{fields.where}.avg_ts is 0 tokens/s: no time follows from it")
        samples_s = ((prompt + new) / rate,)
    std = fields.number("stddev_ts", least=0) if fields.has("stddev_ts") else None
    _check_agreement(fields, samples_s, prompt + new, is_mean=is_mean)
    return BenchRow(fields, prompt, new, depth, samples_s, is_mean, std)


def _check_agreement(fields: Fields, samples_s: tuple[float, ...], tokens: int, *, is_mean: bool) -> None:
    """Raise `FormError` where the repetitions, their mean time and their mean rate are not of the same test.

    avg_ts is the mean of the rates (`get_ts` in llama-bench.cpp), by Jensen's inequality at least the rate of the mean
    time; how much more, only the repetitions tell.
    """
    rates = [tokens / time_s for time_s in samples_s]
    if fields.has("avg_ns") and not is_mean:
        mean_s = statistics.fmean(samples_s)
        if not _agree(fields.time_s("avg_ns", 1e-9), mean_s):
            raise FormError(
                f"{fields.where}.avg_ns is {fields.data['avg_ns']}, but the mean of samples_ns {mean_s * 1e9:.0f}"
            )
    if not fields.has("avg_ts") or (is_mean and not fields.has("avg_ns")):
        return
    rate = fields.number("avg_ts", least=0)
    least = statistics.fmean(rates)
    spread = fields.number("stddev_ts", least=0) / rate if rate and is_mean and fields.has("stddev_ts") else 0.0
    if not least * (1 - _DISAGREEMENT_RATIO) <= rate <= least * (1 + _DISAGREEMENT_RATIO + 4 * spread**2):
        source = "avg_ns" if is_mean else "samples_ns"
        raise FormError(f"{fields.where}.avg_ts is {rate:g} tokens/s, but {source} says {least:g}")


def _agree(value: float, other: float) -> bool:
    return abs(value - other) <= _DISAGREEMENT_RATIO * other + 1e-9


def _typed(row: Mapping[str, str], where: str) -> dict[str, Any]:
    """Return a CSV row with numbers as numbers, so that it equals the same test's JSON."""
    values: dict[str, Any] = {}
    for name, text in row.items():
        if name in _INTEGERS or name in _FLOATS:
            try:
                values[name] = float(text) if name in _FLOATS else int(text)
            except ValueError:
                raise FormError(f"{where}.{name} is {text[:40]!r}, not a number") from None
        else:
            values[name] = text not in ("0", "false") if name in _FLAGS else text
    return values


def _from_cells(row: Mapping[str, str], where: str) -> dict[str, Any]:
    """Return a row of the table under the names of the other forms."""
    test = _TEST.fullmatch(row["test"])
    if test is None or not any(test.groups()[:2]):
        raise FormError(f"{where}.test is {row['test'][:40]!r}, not pp512, tg128 or pp512+tg128")
    rate = _RATE.fullmatch(row["t/s"])
    if rate is None:
        raise FormError(f"{where}.t/s is {row['t/s'][:40]!r}, not tokens per second as in 1000.00")
    prompt, new, depth = (int(text or 0) for text in test.groups())
    values: dict[str, str] = {
        _SHORT_NAMES.get(name, name): text
        for name, text in row.items()
        if name not in ("size", "params", "test", "t/s")
    }
    fields = _typed(values, where)
    fields |= {"n_prompt": prompt, "n_gen": new, "n_depth": depth, "avg_ts": _float(rate.group(1), f"{where}.t/s")}
    if rate.group(2):
        fields["stddev_ts"] = _float(rate.group(2), f"{where}.t/s")
    size, count = _SIZE.fullmatch(row.get("size", "")), _COUNT.fullmatch(row.get("params", ""))
    if size is not None:
        fields["model_size"] = round(_float(size.group(1), f"{where}.size") * 1024 ** _POWERS[size.group(2)])
    if count is not None:
        fields["model_n_params"] = round(_float(count.group(1), f"{where}.params") * _THOUSANDS[count.group(2)])
    return fields


def _float(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise FormError(f"{where} is {text[:40]!r}, not a number") from None


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.replace("**", "").strip("> \t\r\n").strip("|").split("|")]
