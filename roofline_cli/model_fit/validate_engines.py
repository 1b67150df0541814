"""`roofline validate` on a table of engine runs: errors of time per token, first token and power."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.present.blocks import Block, Column, Paragraph, more, reason_blocks, table
from reports.present.screen import present
from roofline_cli.screen.output_file import write_text
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import subject_text
from roofline_model.core.units import counted, format_percent

if TYPE_CHECKING:
    from roofline_model.validation.engine_rows import EngineAccuracy, EngineTable, RowPrediction

NAMES = {"tpot": "time per token", "ttft": "first token", "power": "power"}
_EXPLANATION = (
    "Error: the larger of predicted and measured over the smaller, less one; 2× and ½× are both 100 %. Bias: median of "
    "predicted over measured, less one; negative is too fast."
)


def validate_engines(
    rows: EngineTable, folder: Path | None, predictions: Path | None, *, show_all: bool, as_json: bool
) -> None:
    """Print how far the engine model is off; write the rows with what it predicts where `predictions` names a file."""
    from roofline_model.validation.engine_rows import engine_accuracies, predict_engine_rows

    if folder is not None and not folder.is_dir():
        raise InvalidValueError(f"--model-dir {folder} is no folder; name one that holds config.json files")
    predicted = predict_engine_rows(rows, folder)
    if predictions is not None:
        write_text(predictions, _predictions_text(rows, predicted), "--predictions")
    groups = engine_accuracies(rows, predicted)
    present(
        lambda: _document(rows, predicted, groups, predictions),
        lambda: _blocks(rows, predicted, groups, predictions, show_all=show_all),
        as_json=as_json,
    )


def _predictions_text(rows: EngineTable, predicted: Sequence[RowPrediction]) -> str:
    """Return the table as CSV with what is predicted of each row behind its own columns."""
    from roofline_model.validation.engine_rows import QUANTITIES

    added = [
        f"{column[:-2]}_expected{end}_{column[-1]}" for column in QUANTITIES.values() for end in ("", "_low", "_high")
    ]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    header = [name for name in rows.header if name not in (*added, "reason")]
    writer.writerow([*header, *added, "reason"])
    for cells, prediction in zip(rows.rows, predicted, strict=True):
        numbers: list[str] = []
        for quantity in QUANTITIES:
            expected = prediction.expected.get(quantity)
            numbers += (
                [""] * 3 if expected is None else [f"{value:.6g}" for value in (expected.value, *expected.interval)]
            )
        writer.writerow([*(cells.get(name, "") for name in header), *numbers, _reason(prediction)])
    return out.getvalue()


def _reason(prediction: RowPrediction) -> str:
    return "" if prediction.reason is None else subject_text(prediction.reason)


def _blocks(
    rows: EngineTable,
    predicted: Sequence[RowPrediction],
    groups: Sequence[EngineAccuracy],
    predictions: Path | None,
    *,
    show_all: bool,
) -> Iterator[Block]:
    scored = [prediction for prediction in predicted if prediction.is_scored]
    answered = sum(bool(prediction.expected) for prediction in scored)
    yield Paragraph(f"{answered:,} of {counted(len(scored), 'comparable row')} predicted.", "verdict")
    yield Paragraph(f"{rows.name}: {counted(len(rows.rows), 'row')}, shipped constants of each engine.", "quiet")
    shown = groups if show_all else [group for group in groups if group.quantity == "tpot"]
    yield table("Errors by engine", _GROUPS, shown)
    yield Paragraph(_EXPLANATION, "quiet")
    yield from more("adds first token and power", is_shown=show_all)
    reasons = Counter(_reason(prediction) for prediction in scored if prediction.reason is not None)
    texts = [f"{text} ({counted(count, 'row')})" for text, count in reasons.most_common()]
    yield from reason_blocks(texts, "--predictions OUT.csv holds the reason of every row")
    if predictions is not None:
        yield Paragraph(f"predictions of {counted(len(rows.rows), 'row')} written to {predictions}")


_GROUPS = (
    Column("Engine", lambda group: group.engine, is_head=True),
    Column("Chip", lambda group: group.chip),
    Column("Models", lambda group: group.model_class or "–"),
    Column("Load", lambda group: group.load or "–"),
    Column("Of", lambda group: NAMES[group.quantity], drop=1),
    Column("Rows", lambda group: str(group.row_count), "number"),
    Column("Median", lambda group: format_percent(group.median_ratio, 1), "number"),
    Column("Mean", lambda group: format_percent(group.mean_ratio, 1), "number", drop=2),
    Column("Bias", lambda group: format_percent(group.bias_ratio, 0, signed=True), "number"),
    Column("In 80 %", lambda group: format_percent(group.coverage_ratio, 0), "number"),
)


def _document(
    rows: EngineTable,
    predicted: Sequence[RowPrediction],
    groups: Sequence[EngineAccuracy],
    predictions: Path | None,
) -> dict[str, Any]:
    reasons = Counter(_reason(prediction) for prediction in predicted if prediction.reason is not None)
    return {
        "file": rows.name,
        "sha256": rows.sha256,
        "row_count": len(rows.rows),
        "scored_count": sum(prediction.is_scored for prediction in predicted),
        "predictions": None if predictions is None else str(predictions),
        "groups": list(map(asdict, groups)),
        "reasons": [{"reason": text, "row_count": count} for text, count in reasons.most_common()],
    }
