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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roofline_model.core.errors import InvalidValueError, RooflineError
from roofline_model.core.finding import Finding, finding
from roofline_model.core.table_file import TextTable, cut, read_table
from roofline_model.formats.catalog import get_format
from roofline_model.operators.product import GEMV_MAX_ROWS, MAX_DIMENSION

if TYPE_CHECKING:
    import pandas as pd


FORMAT_COLUMNS = ("weight_format", "activation_format", "kv_format", "output_format")
REQUIRED_COLUMNS = ("device", "op")
OPS = ("gemm", "attention", "model", "copy")
PHASES = ("decode", "prefill")
MIN_TIME_S, MAX_TIME_S = 1e-12, 1e9
"""No kernel is shorter than a clock or longer than decades: other times are slips of a unit."""
MAX_NUMBER = 1e18
"""The same for bytes and counts; far from where their products leave float64."""
MAX_DECODE_QUERIES = 64

_ALIASES = {"gemv": "gemm"}
_EMPTY = ("", "none", "null", "na", "<na>")
_DECIMAL = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
"""A number as exporters write it; Python's `float` also reads other scripts' digits and 1_000."""
_NEEDED = {
    "gemm": ("m", "n", "k"),
    "attention": ("batch", "q_len", "kv_len", "heads", "kv_heads", "head_dim"),
    "model": (),
    "copy": ("bytes",),
}


class _Number(NamedTuple):
    """What a column of numbers may hold."""

    what: str
    low: float
    high: float
    description: str = ""
    """Said in place of `what` where a number that is not negative is out of range."""
    is_whole: bool = False
    empty: tuple[str, ...] = (*_EMPTY, "nan")
    words: Mapping[str, float] | None = None
    """Words in place of numbers."""


_SIZE = _Number(
    "a whole number", 1, MAX_DIMENSION, description=f"a whole number from 1 to {MAX_DIMENSION:,}", is_whole=True
)
_POSITIVE = _Number(
    "a positive number",
    1 / MAX_NUMBER,
    MAX_NUMBER,
    description=f"a positive number of at most {MAX_NUMBER:g}",
    empty=_EMPTY,
)
_SECONDS = _Number(
    "a positive number",
    MIN_TIME_S,
    MAX_TIME_S,
    description=f"seconds from {MIN_TIME_S:g} to {MAX_TIME_S:g}",
    empty=_EMPTY,
)
_FLAG = _Number(
    "true or false",
    0,
    1,
    words={**dict.fromkeys(("true", "1", "1.0", "yes"), 1.0), **dict.fromkeys(("false", "0", "0.0", "no"), 0.0)},
)
_ASIDE = _Number("a number", 0, math.inf)
"""No prediction needs it: one that cannot be read counts as empty. `weight` is what a row counts in a fit."""
_SIZE_COLUMNS = (
    *("m", "n", "k", "batch", "q_len", "kv_len", "heads", "kv_heads"),
    *("head_dim", "window", "n_tokens", "n_devices"),
)
_NUMBERS: Mapping[str, _Number] = {
    **dict.fromkeys(_SIZE_COLUMNS, _SIZE),
    "context": _SIZE._replace(low=0),  # a pass may have nothing in its cache
    "time_s": _SECONDS,
    **dict.fromkeys(("weight_bytes", "bytes", "weight_copies"), _POSITIVE),
    **dict.fromkeys(("causal", "dynamic_activation_quantization"), _FLAG),
    **dict.fromkeys(("power_w", "energy_j", "clock_hz", "weight"), _ASIDE),
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
    return kernel_table(file, read_table(file, "kernel table"))


def kernel_table(file: Path, read: TextTable) -> KernelTable:
    """Return a table that was read from `file` as kernels; raises `InvalidValueError` where it holds none."""
    _check_header(file, read.header)
    if not read.rows:
        raise InvalidValueError(f"kernel table {cut(str(file))} has a header but no row; nothing can be compared")
    # The name goes into files and messages, which bytes that are no text would stop.
    return _typed(cut(file.name), read)


def _check_header(file: Path, header: Sequence[str]) -> None:
    missing = [name for name in REQUIRED_COLUMNS if name not in header]
    if missing:
        raise InvalidValueError(
            f"kernel table {cut(str(file))} has no column {' and no column '.join(missing)}; its first line names "
            f"{cut(', '.join(header))}. Needed: device, op, time_s and the sizes of each op "
            "(docs/theory/validation.md)"
        )
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise InvalidValueError(f"kernel table {cut(str(file))} names column {cut(twice[0])} twice; keep one")


def _typed(name: str, read: TextTable) -> KernelTable:
    import pandas as pd

    width, count = len(read.header), len(read.rows)
    cells = tuple(tuple((*row, *[""] * width)[:width]) for row in read.rows)
    columns = dict(zip(read.header, (tuple(map(str.strip, texts)) for texts in zip(*cells, strict=True)), strict=True))
    reasons: dict[int, Finding] = {
        i: finding("row-refused", kind="count", cell_count=len(row), header_count=width)
        for i, row in enumerate(read.rows)
        if len(row) != width
    }
    time_problems: dict[int, Finding] = {}
    numbers = {column: np.full(count, np.nan) for column in _NUMBERS}
    for column, rule in _NUMBERS.items():
        if column in columns:
            numbers[column], problems = _parsed(columns[column], rule)
            place = time_problems if column == "time_s" else {} if rule is _ASIDE else reasons
            for i, problem in problems.items():
                place.setdefault(i, finding("row-refused", kind="cell", column=column, problem=problem))
    texts = {column: values for column, values in columns.items() if column not in numbers}
    # A path keeps its letters; a key has none that matter.
    texts["device"] = tuple(text if text.endswith(".toml") else text.lower() for text in texts["device"])
    for column in texts.keys() & {"op", "phase"}:
        texts[column] = tuple(_ALIASES.get(text.lower(), text.lower()) for text in texts[column])
    for column in FORMAT_COLUMNS:
        if column in texts:
            texts[column] = _format_keys(column, texts[column], reasons)
    checked = {column: texts.get(column, "") for column in ("device", "op", "phase")}
    _check_rows(numbers, pd.DataFrame(checked), reasons)
    return KernelTable(
        name,
        read.sha256,
        read.header,
        cells,
        read.line_numbers,
        numbers,
        texts,
        tuple(map(reasons.get, range(count))),
        tuple(map(time_problems.get, range(count))),
    )


def _parsed(texts: Sequence[str], rule: _Number) -> tuple[NDArray[np.float64], dict[int, str]]:
    """Return the numbers of a column, NaN where there is none, and row → what is wrong with its cell."""
    import pandas as pd

    codes, distinct = pd.factorize(np.array(texts, dtype=object))  # a long column has few
    cells = pd.Series(distinct, dtype=object)
    words = cells.str.lower()
    if rule.words is None:
        # Python's float rounds correctly; the parsers of pandas need not.
        values = cells.where(cells.str.fullmatch(_DECIMAL), "nan").astype(float).to_numpy()
    else:
        values = words.map(rule.words).to_numpy(dtype=float)
    is_right = (values >= rule.low) & (values <= rule.high) & (not rule.is_whole or values == np.floor(values))
    is_wrong = ~is_right & ~words.isin(rule.empty).to_numpy()
    problems = {
        i: f"must be {rule.description if values[codes[i]] >= 0 else rule.what}, got {_quoted(texts[i])}"
        for i in np.flatnonzero(is_wrong[codes]).tolist()
    }
    return np.where(is_right, values, np.nan)[codes], problems


def _format_keys(column: str, texts: Sequence[str], reasons: dict[int, Finding]) -> tuple[str, ...]:
    """Return formats as catalog keys, "" where empty or unknown; unknown ones are a reason."""
    keys: dict[str, str] = {}
    unknown: dict[str, Finding] = {}
    for text in dict.fromkeys(texts):
        try:
            keys[text] = "" if text.lower() in _EMPTY else get_format(text).key
        except RooflineError as error:
            unknown[text] = finding("row-refused", kind="cell", column=column, problem=str(error))
    for i, text in enumerate(texts):
        if text in unknown:
            reasons.setdefault(i, unknown[text])
    return tuple(keys.get(text, "") for text in texts)


def _check_rows(numbers: Mapping[str, Any], texts: pd.DataFrame, reasons: dict[int, Finding]) -> None:
    """Give a reason to every row whose operator is unknown or whose sizes are missing or contradict each other."""

    def refuse(rows: Any, why: Callable[[int], Finding]) -> None:
        for i in np.flatnonzero(rows).tolist():
            if i not in reasons:
                reasons[i] = why(i)

    def unlisted(column: str, choices: tuple[str, ...]) -> Callable[[int], Finding]:
        return lambda i: finding(
            "row-refused", kind="choice", column=column, value=_quoted(texts[column][i]), choices=choices
        )

    def sizes_empty(i: int) -> Finding:
        op = texts["op"][i]
        return finding(
            "row-refused", kind="sizes", op=op, columns=tuple(n for n in _NEEDED[op] if math.isnan(numbers[n][i]))
        )

    def beyond_keys(mask: str) -> Callable[[int], Finding]:
        return lambda i: queries_beyond_keys(int(queries[i]), int(keys[i]), mask)

    refuse(texts["device"] == "", lambda i: finding("row-refused", kind="device"))
    refuse(~texts["op"].isin(OPS), unlisted("op", OPS))
    refuse(~texts["phase"].isin(("", *PHASES)), unlisted("phase", PHASES))
    for op, needed in _NEEDED.items():
        for column in needed:
            refuse((texts["op"] == op) & np.isnan(numbers[column]), sizes_empty)
    heads, kv_heads, queries, keys = (numbers[column] for column in ("heads", "kv_heads", "q_len", "kv_len"))
    is_attention = (texts["op"] == "attention").to_numpy()
    is_beyond = is_attention & (queries > keys)
    refuse(
        is_attention & (heads % kv_heads != 0),
        lambda i: finding(
            "row-refused", kind="heads", query_heads_count=int(heads[i]), kv_heads_count=int(kv_heads[i])
        ),
    )
    refuse(is_beyond & (numbers["causal"] == 1), beyond_keys("causal mask"))
    refuse(is_beyond & ~np.isnan(numbers["window"]), beyond_keys("window"))
    refuse(
        is_attention & (texts["phase"] == "decode") & (queries > MAX_DECODE_QUERIES),
        lambda i: finding("row-refused", kind="decode", query_count=int(queries[i])),
    )


def queries_beyond_keys(q_len: int, kv_len: int, mask: str, phase: str | None = None) -> Finding:
    """Return that a row has more queries than its mask allows; `phase`: it is causal because nothing else is given."""
    return finding("row-refused", kind="queries", query_count=q_len, cached_count=kv_len, mask=mask, phase=phase)


def _quoted(text: str) -> str:
    return f"'{cut(text, 40)}'"


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
