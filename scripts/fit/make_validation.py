"""Write the tables of docs/theory/validation.md anew from a table of measured kernels: python
scripts/fit/make_validation.py KERNELS.csv

The rows are not in this repository, so CI does not run this; what it writes says which file it was (SHA-256) and how
many rows. Takes about four minutes for 27,000 rows. Text between the markers `<!-- NAME -->` and `<!-- end -->` is
replaced.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "theory" / "validation.md"
FEW = 30
"""Rows of the chip's own, per kernel family (attention: per phase)."""

sys.path.insert(0, str(ROOT))  # the checkout this script stands in, whatever else is installed

from roofline_model.expected.attention.fitted.library import DRIFT as ATTENTION_DRIFT  # noqa: E402
from roofline_model.expected.fitting.accuracy import Accuracy, GroupAccuracy, accuracy  # noqa: E402
from roofline_model.expected.fitting.fit import FitPlan, TableFit, fit_table, planned_sets  # noqa: E402
from roofline_model.expected.fitting.table import (  # noqa: E402
    KernelTable,
    phase_of,
    read_kernel_table,
)
from roofline_model.expected.fitting.transfer_drift import ATTENTION, PRODUCTS, estimated, transfers  # noqa: E402
from roofline_model.expected.intervals import DRIFT  # noqa: E402
from roofline_model.validation.crossed_table import ChipLeftOut, chips_left_out, cross_validated_table  # noqa: E402
from roofline_model.validation.table_prediction import (  # noqa: E402
    KnownConstants,
    TablePrediction,
    group_accuracies,
    predict_table,
    total_accuracy,
)

PLAN = FitPlan(date="", source="", is_generic=True)
"""Fits that begin at plausible values: shipped constants have seen the rows."""


def main(arguments: Sequence[str]) -> int:
    """Write the page's tables; returns the exit code."""
    if len(arguments) != 1:
        print("usage: python scripts/fit/make_validation.py KERNELS.csv", file=sys.stderr)
        return 2
    table = read_kernel_table(arguments[0])
    shipped = predict_table(table)
    crossed = cross_validated_table(shipped, progress=_tell)
    fitted = fit_table(table, PLAN, progress=_tell)
    left_out = chips_left_out(table, fitted)
    print(file=sys.stderr)
    text = PAGE.read_text(encoding="utf-8")
    few = few_rows_table(table, fitted)
    parts = {
        "file": f"`{table.name}`, {len(table):,} rows, SHA-256 `{table.sha256}`.",
        "summary": summary(crossed),
        "groups": groups_table(crossed),
        "sizes": sizes_table(crossed),
        "shipped": shipped_line(shipped),
        "chips": chips_table(left_out),
        "drift": drift_table(table, fitted),
        "few": few,
    }
    for name, body in parts.items():
        text = replaced(text, name, body)
    PAGE.write_text(text, encoding="utf-8")
    print(PAGE)
    return 0


def replaced(text: str, name: str, body: str) -> str:
    """Return the page with the text between two markers replaced; raises `ValueError` when the marker is not there."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"{PAGE.name} has no marker <!-- {name} -->")
    return pattern.sub(lambda match: f"{match[1]}{body}\n{match[2]}", text)


def summary(prediction: TablePrediction) -> str:
    """Return the mean over chips by operator and kind of format, as the project's aims count."""
    kinds: dict[str, list[GroupAccuracy]] = {}
    for kind_rows in _rows_by_kind(prediction):
        kinds.setdefault(kind_rows.formats, []).append(kind_rows)
    lines = [
        "| | chips | MAPE | median | bias | in the 80 % interval | ideal roofline's MAPE |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, members in kinds.items():
        expecteds = [member.expected for member in members]
        lines.append(
            f"| {kind} | {len(members)} | **{_mean(expecteds, 'mape_ratio')}** | {_mean(expecteds, 'median_ratio')} | "
            f"{_mean(expecteds, 'bias_ratio', True)} "
            f"| {_mean(expecteds, 'coverage_ratio')} | {_mean([member.ideal for member in members], 'mape_ratio')} |"
        )
    total = total_accuracy(prediction)
    lines.append(
        f"| all rows | | {_percent(total.expected.mape_ratio)} | {_percent(total.expected.median_ratio)} | "
        f"{_percent(total.expected.bias_ratio, True)} "
        f"| {_percent(total.expected.coverage_ratio)} | {_percent(total.ideal.mape_ratio)} |"
    )
    return "\n".join(lines)


def _rows_by_kind(prediction: TablePrediction) -> list[GroupAccuracy]:
    """Return one group per chip and kind: products by kernel family with both phases, attention by phase."""
    table = prediction.table
    members: dict[tuple[str, str], list[int]] = {}
    for i in range(len(table)):
        op, weight = table.texts["op"][i], table.text("weight_format")[i]
        if op == "attention":
            kind = f"attention {table.text('phase')[i]}"
        else:
            words = {
                "FP8_E4M3": "FP8 with its cast",
                "NVFP4": "NVFP4 with its cast",
                "INT8": "weight-only",
                "INT4": "weight-only",
            }
            kind = f"GEMM {words.get(weight, weight)}"
        members.setdefault((kind, table.texts["device"][i]), []).append(i)
    groups = []
    for (kind, device), rows in sorted(members.items()):
        measured = prediction.measured_s[rows]
        figures = accuracy(prediction.expected_s[rows], measured, prediction.low_s[rows], prediction.high_s[rows])
        groups.append(
            GroupAccuracy(device, "", "", kind, len(rows), figures, accuracy(prediction.ideal_s[rows], measured), "")
        )
    return groups


def groups_table(prediction: TablePrediction) -> str:
    """Return the errors per device × op × phase × format."""
    lines = [
        "| op | phase | device | formats | rows | MAPE | median | p90 | bias | in 80 % | ideal MAPE |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {group.op} | {group.phase} | {group.device} | {group.formats} | {group.expected.row_count} | "
        f"{_columns(group.expected)} "
        f"| {_percent(group.ideal.mape_ratio)} |"
        for group in sorted(
            group_accuracies(prediction), key=lambda group: (group.op, group.phase, group.device, group.formats)
        )
    ]
    return "\n".join(lines)


def sizes_table(prediction: TablePrediction) -> str:
    """Return where the error sits: by rows of a product, and by length of attention."""
    table, lines = (
        prediction.table,
        ["| slice | rows | MAPE | median | p90 | bias | in 80 % |", "|---|---|---|---|---|---|---|"],
    )
    numbers, ops = table.numbers, table.texts["op"]
    slices = [
        *(("gemm", "m", low, high) for low, high in ((1, 1), (2, 16), (17, 256), (257, 10**9))),
        *(("attention", "kv_len", low, high) for low, high in ((1, 255), (256, 4095), (4096, 10**9))),
        *(("attention", "head_dim", size, size) for size in (64, 128, 192, 256, 512)),
    ]
    for op, column, low, high in slices:
        rows = [i for i in range(len(table)) if ops[i] == op and low <= numbers[column][i] <= high]
        if rows:
            expected = total_accuracy(prediction, rows).expected
            span = f"{low}" if low == high else f"≥ {low}" if high == 10**9 else f"{low} to {high}"
            lines.append(f"| {op}, {column} {span} | {expected.row_count} | {_columns(expected)} |")
    return "\n".join(lines)


def shipped_line(prediction: TablePrediction) -> str:
    """Return the in-sample figures of the constants that ship, in a sentence."""
    expected = total_accuracy(prediction).expected
    return (
        f"With the shipped constants, which were fitted on these rows: MAPE {_percent(expected.mape_ratio)}, median "
        f"{_percent(expected.median_ratio)}, {_percent(expected.coverage_ratio)} inside the interval. That is no test; "
        "the table above is."
    )


def chips_table(left_out: Sequence[ChipLeftOut]) -> str:
    """Return the errors of whole chips predicted from the constants of others."""
    lines = [
        "| chip left out | what | constants of | provenance | rows | MAPE | median | p90 | bias | in 80 % |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {group.device} | {group.op} {group.part} | {', '.join(group.sources)} | "
        f"{group.provenance.removeprefix('transferred-')} "
        f"| {group.unseen.row_count} | {_columns(group.unseen)} |"
        for group in sorted(left_out, key=lambda group: (group.op, group.part, group.device))
    ]
    return "\n".join(lines)


def drift_table(table: KernelTable, fitted: TableFit) -> str:
    """Return what each step of a transfer adds to an interval: as shipped, and as these rows say."""
    figures = estimated(transfers(planned_sets(table, PLAN)[0], fitted))
    lines = ["| | step | ships, % | these rows, % | transfers | to chips |", "|---|---|---|---|---|---|"]
    for op, shipped in ((PRODUCTS, DRIFT), (ATTENTION, ATTENTION_DRIFT)):
        for step, width in shipped.items():
            estimate = figures.get((op, step))
            rest = (
                "– | – | –"
                if estimate is None
                else (
                    f"{estimate.half_width_log_ratio * 100:.1f} | {estimate.transfer_count} | {estimate.device_count}"
                )
            )
            lines.append(f"| {op} | {step} | {width * 100:.1f} | {rest} |")
    return "\n".join(lines)


def few_rows_table(table: KernelTable, fitted: TableFit) -> str:
    """Return the errors of each chip from other chips' constants, before and after a fit to `FEW` rows of its own."""
    lines = [
        "| chip | what | from other chips alone | after | rows fitted | rows scored |",
        "|---|---|---|---|---|---|",
    ]
    parts: dict[tuple[str, str], list[int]] = {}
    for i, device in enumerate(table.texts["device"]):
        parts.setdefault((device, _part(table, i)), []).append(i)
    for (device, part), rows in sorted(parts.items()):
        constants = KnownConstants(
            gemm=tuple(fitted_constants for fitted_constants in fitted.gemm if fitted_constants.chip.key != device),
            attention=tuple(
                fitted_constants for fitted_constants in fitted.attention if fitted_constants.chip.key != device
            ),
        )
        chosen = _spread(table, rows)
        rest = table.take(sorted(set(rows) - set(chosen)))
        before = predict_table(rest, constants)
        if not before.is_scored.any():
            continue
        began = replace(
            PLAN, is_generic=False, with_folds=False, gemm_library=constants.gemm, attention_library=constants.attention
        )
        fit = fit_table(table.take(chosen), began)
        after = predict_table(
            rest, KnownConstants((*fit.gemm, *(constants.gemm or ())), (*fit.attention, *(constants.attention or ())))
        )
        alone, with_constants = total_accuracy(before).expected, total_accuracy(after).expected
        lines.append(
            f"| {device} | {part} | {_percent(alone.mape_ratio)} / {_percent(alone.median_ratio)} | "
            f"{_percent(with_constants.mape_ratio)} / "
            f"{_percent(with_constants.median_ratio)} | {len(chosen)} | {with_constants.row_count} |"
        )
    return "\n".join(lines)


def _part(table: KernelTable, i: int) -> str:
    if table.texts["op"][i] == "attention":
        return f"attention {phase_of(table, i)}"
    return f"gemm {table.text('weight_format')[i]}"


def _spread(table: KernelTable, rows: Sequence[int]) -> list[int]:
    """Return `FEW` rows of a part spread evenly over its sizes: in the order of bytes, every so many."""
    n = table.numbers
    is_attention = table.texts["op"][rows[0]] == "attention"
    size = n["batch"] * n["kv_heads"] * n["kv_len"] if is_attention else n["n"] * n["k"]
    other = n["q_len"] if is_attention else n["m"]
    ordered = sorted(rows, key=lambda i: (table.text("kv_format")[i], round(float(other[i]) ** 0.3), float(size[i])))
    return [ordered[int((step + 0.5) * len(ordered) / FEW)] for step in range(FEW)]


def _columns(figures: Accuracy) -> str:
    values = (figures.mape_ratio, figures.median_ratio, figures.p90_ratio)
    return " | ".join([*map(_percent, values), _percent(figures.bias_ratio, True), _percent(figures.coverage_ratio)])


def _mean(accuracies: Sequence[Accuracy], name: str, signed: bool = False) -> str:
    values = [value for fitted_constants in accuracies if (value := getattr(fitted_constants, name)) is not None]
    return _percent(sum(values) / len(values), signed) if values else "–"


def _percent(ratio: float | None, signed: bool = False) -> str:
    return "–" if ratio is None else f"{ratio * 100:{'+' if signed else ''}.1f}"


def _tell(what: str, done: int, total: int) -> None:
    print(f"\r{done}/{total} {what:<60}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
