"""`roofline recommend`: which format to quantize to for one shape on one chip, from predicted times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline_cli.options import (
    ColumnsOption,
    FormatsFileOption,
    HardwareOption,
    InnerOption,
    JsonOption,
    RowsOption,
    parse_size,
    register_formats,
    with_user_formats,
)
from roofline_cli.screen import Column, show_json, show_line, show_table

if TYPE_CHECKING:
    from roofline_model.recommendation import Candidate, Recommendation


def recommend(
    M: RowsOption,
    N: ColumnsOption,
    K: InnerOption,
    hw: HardwareOption = "auto",
    phase: Annotated[
        str | None, typer.Option("--phase", metavar="decode|prefill", help="Default: decode up to M = 16.")
    ] = None,
    memory_limit_gb: Annotated[
        str | None,
        typer.Option("--memory-limit-gb", metavar="GB", help="Exclude formats that need more decimal gigabytes."),
    ] = None,
    model_parameters: Annotated[
        str | None,
        typer.Option(
            "--model-parameters", metavar="COUNT", help="Parameters of the whole model, e.g. 8.03e9, for the limit."
        ),
    ] = None,
    formats_file: FormatsFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rank the formats for one shape and say which wins.

    Ranked by predicted time; quality is a claim until somebody measures it.
    """
    from roofline_cli.chips import find_chip
    from roofline_model.auto_quantize import DEFAULT_FORMATS, recommend_quantization

    shape = parse_size("M", M), parse_size("N", N), parse_size("K", K)
    phase = checked_phase(phase)
    limit_gb = parse_amount("--memory-limit-gb", memory_limit_gb, "gigabytes such as 24")
    parameters = parse_amount("--model-parameters", model_parameters, "parameters such as 8.03e9")
    names = with_user_formats(None, register_formats(formats_file), DEFAULT_FORMATS)
    found = recommend_quantization(find_chip(hw), *shape, phase, limit_gb, model_parameters=parameters, formats=names)
    if as_json:
        show_json(recommendation_json(found))
        return
    print_recommendation(found)


def checked_phase(phase: str | None) -> Any:
    """Return the phase typed for `--phase`; raises `InvalidValueError` for anything but decode and prefill."""
    from roofline_model.errors import InvalidValueError

    if phase is not None and phase not in ("decode", "prefill"):
        raise InvalidValueError(f"--phase must be decode or prefill, got {phase[:40]!r}")
    return phase


def parse_amount(option: str, text: str | None, what: str) -> float | None:
    """Return a positive number typed as `24` or `8.03e9`, None when it was left out; raises `InvalidValueError` otherwise."""
    import math

    from roofline_model.errors import InvalidValueError

    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or not 0 < value <= 1e15:
        raise InvalidValueError(f"{option} must be a positive number of {what}, got {text[:40]!r}")
    return value


def print_recommendation(found: Recommendation) -> None:
    """Print the ranked candidates, what was excluded and why, and the winner in a sentence."""
    from roofline_cli.numbers import common_time, decimal_bytes, speedup

    times = common_time([one.time_s for one in found.candidates])
    columns = (
        Column("", "right"), Column("Format"), Column("Method", drop=2), Column("Path", drop=3), Column("Time", "right"),
        Column("From", drop=4), Column("vs 16-bit", "right"), Column("Memory", "right"), Column("Saved", "right"),
        Column("Bound", drop=1), Column("Quality", is_prose=True, drop=5),
    )  # fmt: skip
    rows = [
        [
            str(rank), one.precision, one.method, one.path, time, one.time_source, speedup(one.speedup), decimal_bytes(one.memory_bytes),
            f"{one.memory_saved_ratio * 100:.0f} %", one.bound, one.quality,
        ]
        for rank, (one, time) in enumerate(zip(found.candidates, times, strict=True), 1)
    ]  # fmt: skip
    show_table(columns, rows, title=f"{found.phase} M={found.M} N={found.N} K={found.K} on {found.hardware}")
    for name, reason in found.excluded:
        show_line(f"  excluded: {name}: {reason}")
    for note in found.notes:
        show_line(f"  note: {note}")
    show_line(winner_sentence(found), "bold")


def winner_sentence(found: Recommendation) -> str:
    """Return the decision in one sentence."""
    return f"Best: {found}, {found.memory_savings_pct:.0f} % of the memory saved: {found.reason}"


def recommendation_json(found: Recommendation) -> dict[str, Any]:
    """Return a recommendation as JSON; every key ends in its unit."""
    return {
        "hardware": found.hardware,
        "phase": found.phase,
        "M": found.M,
        "N": found.N,
        "K": found.K,
        "best": candidate_json(found.best),
        "baseline": candidate_json(found.baseline),
        "reason": found.reason,
        "summary": str(found),
        "notes": list(found.notes),
        "candidates": [candidate_json(one) for one in found.candidates],
        "excluded": [{"format": name, "reason": reason} for name, reason in found.excluded],
    }


def candidate_json(one: Candidate) -> dict[str, Any]:
    """Return one ranked format as JSON."""
    return {
        "format": one.precision,
        "weight_format": one.weight_format,
        "activation_format": one.activation_format,
        "method": one.method,
        "path": one.path,
        "time_s": one.time_s,
        "time_source": one.time_source,
        "ideal_s": one.ideal_s,
        "speedup_ratio": one.speedup,
        "memory_bytes": one.memory_bytes,
        "memory_saved_ratio": one.memory_saved_ratio,
        "bound": one.bound,
        "quality": one.quality,
        "reason": one.reason,
    }
