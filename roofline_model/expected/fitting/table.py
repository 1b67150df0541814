"""The measured-kernel table: one row per timed kernel, read from CSV (or Parquet) into typed columns.

The columns are those of the format's description (docs/theory/validation.md, "The table"). A column nobody knows is
carried
through untouched. A row that cannot be used does not stop the others: it gets a reason that names its line and field.
Numbers are float64 with NaN for an empty cell (sizes are exact up to 2**53), flags are 1, 0 or NaN. When rows are
grouped, `phase_of` and `formats_label` say what a row is called.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline_model.core.errors import InvalidValueError, RooflineError
from roofline_model.core.finding import Finding, finding
from roofline_model.core.table_file import read_table
from roofline_model.formats.catalog import get_format
from roofline_model.operators.product import GEMV_MAX_ROWS, MAX_DIMENSION

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


SIZE_COLUMNS = (
    "m",
    "n",
    "k",
    "batch",
    "q_len",
    "kv_len",
    "heads",
    "kv_heads",
    "head_dim",
    "window",
    "n_tokens",
    "n_devices",
)
COUNT_COLUMNS = ("context",)
"""Sizes that may be 0: a pass with nothing in its cache."""
TIME_COLUMNS = ("time_s",)
NUMBER_COLUMNS = ("weight_bytes", "bytes", "weight_copies")
ASIDE_COLUMNS = ("power_w", "energy_j", "clock_hz", "weight")
"""Numbers that no prediction needs: one that cannot be read counts as empty. `weight` is what a row counts in a fit."""
FLAG_COLUMNS = ("causal", "dynamic_activation_quantization")
FORMAT_COLUMNS = ("weight_format", "activation_format", "kv_format", "output_format")
REQUIRED_COLUMNS = ("device", "op")
OPS = ("gemm", "attention", "model", "copy")
PHASES = ("decode", "prefill")
MIN_TIME_S, MAX_TIME_S = 1e-12, 1e9
"""No kernel is shorter than a clock or longer than decades: other times are slips of a unit."""
MAX_NUMBER = 1e18
"""The same for bytes and counts; far from where their products leave float64."""

_ALIASES = {"gemv": "gemm"}
_EMPTY = frozenset({"", "none", "null", "na", "<na>"})
_NEEDED = {
    "gemm": ("m", "n", "k"),
    "attention": ("batch", "q_len", "kv_len", "heads", "kv_heads", "head_dim"),
    "model": (),
    "copy": ("bytes",),
}


@dataclass(frozen=True, slots=True, eq=False)
class KernelTable:
    """A table as it was read. All sequences have one entry per row, in the file's order."""

    name: str
    """The file's name, without its folder."""
    sha256: str
    """Of the file's bytes."""
    header: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    """Every cell as written, for carrying through."""
    line_numbers: tuple[int, ...]
    """Where a row stands in the file: its line in a CSV (the header is line 1), its ordinal in a Parquet file."""
    numbers: Mapping[str, NDArray[np.float64]]
    """Sizes, times and flags by column name; NaN where empty or the column is absent."""
    texts: Mapping[str, tuple[str, ...]]
    """Every other column: `device` and `op` in lower case, formats as catalog keys, "" where empty."""
    reasons: tuple[Finding | None, ...]
    """Why a row cannot be predicted; None where it can."""
    time_problems: tuple[Finding | None, ...]
    """Why a row's measured time cannot be compared with; None where it can, or where there is none."""

    def __len__(self) -> int:
        return len(self.cells)

    def take(self, rows: Sequence[int]) -> KernelTable:
        """Return a table of some of the rows; line numbers and the file's name and hash stay."""
        import numpy as np

        index = np.asarray(rows, dtype=np.intp)
        chosen = index.tolist()
        return replace(
            self,
            cells=tuple(self.cells[i] for i in chosen),
            line_numbers=tuple(self.line_numbers[i] for i in chosen),
            numbers={name: values[index] for name, values in self.numbers.items()},
            texts={name: tuple(values[i] for i in chosen) for name, values in self.texts.items()},
            reasons=tuple(self.reasons[i] for i in chosen),
            time_problems=tuple(self.time_problems[i] for i in chosen),
        )

    def text(self, column: str) -> tuple[str, ...]:
        """Return a text column, "" everywhere when the table has none of that name."""
        texts = self.texts.get(column)
        return _blank(len(self)) if texts is None else texts


@lru_cache(maxsize=2)
def _blank(count: int) -> tuple[str, ...]:
    """Return an empty column; remembered, because it is asked for once per row."""
    return ("",) * count


def read_kernel_table(path: str | Path) -> KernelTable:
    """Read a measured-kernel table; the ending `.parquet` means Parquet, anything else CSV with a header line.

    Raises `InvalidValueError` when the file as a whole cannot be used (absent, not text, no header, a required column
    missing or given twice, no row, beyond the limits of `core.table_file`), `MissingDependencyError` for Parquet
    without pyarrow.
    """
    file = Path(path)
    read = read_table(file, "kernel table")
    _check_header(file, read.header)
    if not read.rows:
        raise InvalidValueError(f"kernel table {_cut(str(file))} has a header but no row; nothing can be compared")
    # The name goes into files and messages, which bytes that are no text would stop.
    return _typed(_cut(file.name), read.sha256, read.header, read.rows, read.line_numbers)


def _check_header(file: Path, header: Sequence[str]) -> None:
    missing = [name for name in REQUIRED_COLUMNS if name not in header]
    if missing:
        raise InvalidValueError(
            f"kernel table {_cut(str(file))} has no column {' and no column '.join(missing)}; its first line names "
            f"{_cut(', '.join(header))}. Needed: device, op, time_s and the sizes of each op "
            "(docs/theory/validation.md)"
        )
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise InvalidValueError(f"kernel table {_cut(str(file))} names column {_cut(twice[0])} twice; keep one")


class _Rows:
    """The rows while they are read: cells in, typed columns and reasons out."""

    def __init__(self, header: Sequence[str], rows: Sequence[Sequence[str]], lines: Sequence[int]) -> None:
        self.lines = lines
        self.reasons: list[Finding | None] = [None] * len(rows)
        width = len(header)
        self.cells: list[tuple[str, ...]] = []
        for i, row in enumerate(rows):
            if len(row) != width:
                self.refuse(i, finding("cells-miscounted", cell_count=len(row), header_count=width))
            self.cells.append(tuple((*row, *[""] * width)[:width]))
        self.column = {name: [row[j].strip() for row in self.cells] for j, name in enumerate(header)}

    def refuse(self, i: int, reason: Finding) -> None:
        """Give row `i` a reason, unless it has one."""
        self.reasons[i] = self.reasons[i] or reason

    def parsed(
        self, name: str, parse: Callable[[str], float | str], on_error: Callable[[int, Finding], None]
    ) -> list[Any]:
        """Return a column parsed cell by cell; the few distinct texts of a long column are parsed once."""
        parsed_texts: dict[str, tuple[Any, str]] = {}
        values = []
        for i, text in enumerate(self.column[name]):
            value = parsed_texts.get(text)
            if value is None:
                try:
                    value = parse(text), ""
                except (ValueError, RooflineError) as error:
                    value = (math.nan, str(error))
                parsed_texts[text] = value
            if value[1]:
                on_error(i, finding("cell-refused", column=name, problem=value[1]))
            values.append(value[0])
        return values


def _typed(
    name: str, sha256: str, header: Sequence[str], raw: Sequence[Sequence[str]], lines: Sequence[int]
) -> KernelTable:
    import numpy as np

    rows = _Rows(header, raw, lines)
    time_problems: list[Finding | None] = [None] * len(raw)

    numbers: dict[str, NDArray[np.float64]] = {}
    kinds = (
        (SIZE_COLUMNS, _size),
        (COUNT_COLUMNS, _count),
        (TIME_COLUMNS, _seconds),
        (NUMBER_COLUMNS, _positive),
        (FLAG_COLUMNS, _flag),
        (ASIDE_COLUMNS, _aside),
    )
    for columns, parse in kinds:
        for column in columns:
            values: list[Any] = [math.nan] * len(raw)
            if column in rows.column:
                values = rows.parsed(column, parse, time_problems.__setitem__ if column == "time_s" else rows.refuse)
            numbers[column] = np.asarray(values, dtype=np.float64)
    texts = {
        column: tuple(_text(rows, column))
        for column in rows.column
        if column not in numbers or column in FORMAT_COLUMNS
    }
    _check_rows(rows, numbers, texts)
    return KernelTable(
        name,
        sha256,
        tuple(header),
        tuple(rows.cells),
        tuple(lines),
        numbers,
        texts,
        tuple(rows.reasons),
        tuple(time_problems),
    )


def _text(rows: _Rows, column: str) -> list[str]:
    if column == "device":
        # A path keeps its letters; a key has none that matter.
        return [text if text.endswith(".toml") else text.lower() for text in rows.column[column]]
    if column in ("op", "phase"):
        return [_ALIASES.get(text.lower(), text.lower()) for text in rows.column[column]]
    if column not in FORMAT_COLUMNS:
        return rows.column[column]
    parsed = rows.parsed(column, lambda text: "" if text.lower() in _EMPTY else get_format(text).key, rows.refuse)
    return [value if isinstance(value, str) else "" for value in parsed]


def _check_rows(rows: _Rows, numbers: Mapping[str, Any], texts: Mapping[str, Sequence[str]]) -> None:
    """Give a reason to every row whose operator is unknown or whose sizes are missing or contradict each other."""
    phases = texts.get("phase") or ("",) * len(rows.lines)
    for i, (op, phase) in enumerate(zip(texts["op"], phases, strict=True)):
        if rows.reasons[i]:
            continue
        if not texts["device"][i]:
            rows.refuse(i, finding("device-empty"))
        elif op not in _NEEDED:
            rows.refuse(i, finding("value-not-listed", column="op", value=_quoted(op), choices=OPS))
        elif phase and phase not in PHASES:
            rows.refuse(i, finding("value-not-listed", column="phase", value=_quoted(phase), choices=PHASES))
        else:
            missing = tuple(name for name in _NEEDED[op] if math.isnan(numbers[name][i]))
            if missing:
                rows.refuse(i, finding("sizes-empty", op=op, columns=missing))
            elif op == "attention":
                _check_attention(rows, numbers, phase, i)


def _check_attention(rows: _Rows, numbers: Mapping[str, Any], phase: str, i: int) -> None:
    heads, kv_heads, q_len, kv_len = (int(numbers[name][i]) for name in ("heads", "kv_heads", "q_len", "kv_len"))
    if heads % kv_heads:
        rows.refuse(i, finding("heads-not-multiple", query_heads_count=heads, kv_heads_count=kv_heads))
    elif q_len > kv_len and numbers["causal"][i] == 1:
        rows.refuse(i, queries_beyond_keys(q_len, kv_len, "causal mask"))
    elif q_len > kv_len and not math.isnan(numbers["window"][i]):
        rows.refuse(i, queries_beyond_keys(q_len, kv_len, "window"))
    elif phase == "decode" and q_len > 64:
        rows.refuse(i, finding("decode-of-many", query_count=q_len))


def queries_beyond_keys(q_len: int, kv_len: int, mask: str, phase: str | None = None) -> Finding:
    """Return that a row has more queries than its mask allows; `phase`: it is causal because nothing else is given."""
    return finding("queries-beyond-keys", query_count=q_len, cached_count=kv_len, mask=mask, phase=phase)


def _size(text: str) -> float:
    if text.lower() in _EMPTY or text.lower() == "nan":
        return math.nan
    try:
        value = _decimal(text)
    except ValueError:
        raise ValueError(f"must be a whole number, got {_quoted(text)}") from None
    # 4096.0 is how pandas writes a whole number in a column with empty cells.
    if not math.isfinite(value) or value != int(value) or not 1 <= value <= MAX_DIMENSION:
        raise ValueError(f"must be a whole number from 1 to {MAX_DIMENSION:,}, got {_quoted(text)}")
    return value


def _count(text: str) -> float:
    return 0.0 if text in ("0", "0.0") else _size(text)


def _positive(text: str) -> float:
    if text.lower() in _EMPTY:
        return math.nan
    try:
        value = _decimal(text)
    except ValueError:
        raise ValueError(f"must be a positive number, got {_quoted(text)}") from None
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"must be a positive number, got {_quoted(text)}")
    if value > MAX_NUMBER:
        raise ValueError(f"must be a positive number of at most {MAX_NUMBER:g}, got {_quoted(text)}")
    return value


def _seconds(text: str) -> float:
    value = _positive(text)
    if not (math.isnan(value) or MIN_TIME_S <= value <= MAX_TIME_S):
        raise ValueError(f"must be seconds from {MIN_TIME_S:g} to {MAX_TIME_S:g}, got {_quoted(text)}")
    return value


def _decimal(text: str) -> float:
    """Return a number written in ASCII; Python also reads other scripts' digits and 1_000, which no exporter writes."""
    if not text.isascii() or "_" in text:
        raise ValueError(text)
    return float(text)


def _aside(text: str) -> float:
    try:
        value = _decimal(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) and value >= 0 else math.nan


def _flag(text: str) -> float:
    word = text.lower()
    if word in _EMPTY or word == "nan":
        return math.nan
    if word in ("true", "1", "1.0", "yes"):
        return 1.0
    if word in ("false", "0", "0.0", "no"):
        return 0.0
    raise ValueError(f"must be true or false, got {_quoted(text)}")


def _quoted(text: str) -> str:
    return f"'{_cut(text, 40)}'"


def _cut(text: str, limit: int = 160) -> str:
    printable = "".join(ch if ch.isprintable() else "?" for ch in text[: limit + 1])
    return f"{printable[:limit]}…" if len(printable) > limit else printable


def phase_of(table: KernelTable, i: int) -> str:
    """Return the phase of a row: as given; else by its rows (a GEMM), or by its query length (attention)."""
    given = table.text("phase")[i]
    if given:
        return given
    size = {"gemm": "m", "attention": "q_len"}.get(table.texts["op"][i])
    if size is None or math.isnan(table.numbers[size][i]):
        return ""
    return "decode" if table.numbers[size][i] <= (GEMV_MAX_ROWS if size == "m" else 1) else "prefill"


def formats_label(table: KernelTable, i: int) -> str:
    """Return the formats of a row: `BF16`, `INT4.BF16` (weight first), `FP8_E4M3+cast`, attention `BF16/FP8_E4M3`
    (maths/cache).
    """
    activation, kv = table.text("activation_format")[i], table.text("kv_format")[i]
    if table.texts["op"][i] == "attention":
        first = activation or "BF16"
        return first if kv in ("", first) else f"{first}/{kv}"
    weight = table.text("weight_format")[i]
    label = weight if activation in ("", weight) else f"{weight}.{activation}"
    return label + ("+cast" if table.numbers["dynamic_activation_quantization"][i] == 1 else "")
