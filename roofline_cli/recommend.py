"""`roofline recommend`: which format to quantize to for one shape, or for a whole model, on one chip."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline_cli.options import (
    FormatsFileOption,
    JsonOption,
    operands_label,
    parse_size,
    register_formats,
    with_user_formats,
)
from roofline_cli.recommend_model import (
    BatchOption,
    ContextOption,
    HeadroomOption,
    LatencyOption,
    LayersOption,
    LossesOption,
    LossOption,
    MaxContextOption,
    ModelOption,
    ModelQuestion,
    PlanOutputOption,
    StrategyOption,
    TrafficOption,
    UniformOption,
    recommend_for_model,
)
from roofline_cli.recommend_stored import (
    OperatorOption,
    StoredDatabaseOption,
    StoredOption,
    StoredRequest,
    recommend_from_database,
)
from roofline_cli.screen import Column, show_json, show_line, show_table

if TYPE_CHECKING:
    from roofline_model.recommendation import Candidate, Recommendation

ONE_PRODUCT_NOTE = "the limit was applied to the operands of this one product only; --model-parameters COUNT applies it to a whole model's weights"


_RowsOption = Annotated[str | None, typer.Option("-M", metavar="INT", help="Rows of A and C: tokens in flight.")]
_ColumnsOption = Annotated[str | None, typer.Option("-N", metavar="INT", help="Columns of B and C: output features.")]
_InnerOption = Annotated[str | None, typer.Option("-K", metavar="INT", help="Columns of A, rows of B: input features.")]
_ChipOption = Annotated[
    str | None,
    typer.Option(
        "--hw",
        metavar="NAME|FILE|auto",
        help="Chip: key, alias, path of a TOML file, or auto, this machine (default; with --stored: every stored chip).",
    ),
]
_PhaseOption = Annotated[
    str | None, typer.Option("--phase", metavar="decode|prefill", help="Default: decode (of a shape: up to M = 16).")
]
_LimitOption = Annotated[
    str | None,
    typer.Option(
        "--memory-limit-gb",
        metavar="GB",
        help="Exclude what needs more decimal gigabytes (with --model, default: the chip's).",
    ),
]
_ParametersOption = Annotated[
    str | None,
    typer.Option(
        "--model-parameters",
        metavar="COUNT",
        help="Of a shape: parameters of the whole model, e.g. 8.03e9, for the limit.",
    ),
]


def recommend(
    M: _RowsOption = None,
    N: _ColumnsOption = None,
    K: _InnerOption = None,
    model: ModelOption = None,
    hw: _ChipOption = None,
    phase: _PhaseOption = None,
    memory_limit_gb: _LimitOption = None,
    model_parameters: _ParametersOption = None,
    batch: BatchOption = None,
    context: ContextOption = None,
    max_context: MaxContextOption = None,
    memory_headroom: HeadroomOption = None,
    max_latency_ms: LatencyOption = None,
    max_quality_loss: LossOption = None,
    losses: LossesOption = None,
    traffic: TrafficOption = None,
    formats: UniformOption = None,
    strategy: StrategyOption = None,
    layers: LayersOption = False,
    output: PlanOutputOption = None,
    formats_file: FormatsFileOption = None,
    stored: StoredOption = False,
    op: OperatorOption = None,
    db: StoredDatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rank formats for a shape, a model, or by stored runs.

    A shape is -M -N -K; of a model, plans for weights, activations and cache are ranked. By expected time where the chip
    has one, else by the ideal, and says which; quality is a claim until somebody measures it. --stored ranks what the
    runs of a database measured, and says what changed since the run before. Exits 1 when nothing keeps the limits.
    """
    shape = {"-M": M, "-N": N, "-K": K}
    of_model = {
        "--batch": batch,
        "--context": context,
        "--max-context": max_context,
        "--memory-headroom": memory_headroom,
        "--max-latency-ms": max_latency_ms,
        "--max-quality-loss": max_quality_loss,
        "--losses": losses,
        "--traffic": traffic,
        "--formats": formats,
        "--strategy": strategy,
        "--layers": layers or None,
        "-o": output,
    }
    phase = checked_phase(phase)
    limit_gb = parse_amount("--memory-limit-gb", memory_limit_gb, "gigabytes such as 24")
    if stored:
        check_stored_form({**of_model, "--model-parameters": model_parameters, "--formats-file": formats_file})
        request = StoredRequest((M, N, K), model, hw, phase, op, limit_gb, max_quality_loss, losses, db)
        recommend_from_database(request, as_json=as_json)
        return
    check_form({**shape, "--model-parameters": model_parameters}, model, of_model, {"--op": op, "--db": db})
    hw = hw or "auto"
    if model is not None:
        latency_ms = parse_amount("--max-latency-ms", max_latency_ms, "milliseconds such as 30")
        latency_s = None if latency_ms is None else latency_ms * 1e-3
        question = ModelQuestion(
            model,
            phase,
            batch,
            context,
            max_context,
            limit_gb,
            memory_headroom,
            latency_s,
            max_quality_loss,
            losses,
            traffic,
            formats,
            strategy,
            formats_file,
            layers,
            output,
        )
        recommend_for_model(question, hw, as_json=as_json)
        return
    sizes = parse_size("M", M or ""), parse_size("N", N or ""), parse_size("K", K or "")
    parameters = parse_amount("--model-parameters", model_parameters, "parameters such as 8.03e9")
    recommend_for_shape(sizes, hw, phase, limit_gb, parameters, formats_file, as_json=as_json)


_OF_STORED = frozenset({"--max-quality-loss", "--losses"})
"""Options of a model that narrow what is stored, too."""


def check_stored_form(others: Mapping[str, object]) -> None:
    """Raise `InvalidValueError` for an option that stored runs do not answer to."""
    from roofline_model.errors import InvalidValueError

    astray = [option for option, value in others.items() if value is not None and option not in _OF_STORED]
    if astray:
        raise InvalidValueError(
            f"{astray[0]} does not go with --stored, which ranks what was run: leave it out, or leave --stored out"
        )


def check_form(
    shape: Mapping[str, str | None], model: str | None, of_model: Mapping[str, object], of_stored: Mapping[str, object]
) -> None:
    """Raise `InvalidValueError` unless the options are those of one shape or those of one model."""
    from roofline_model.errors import InvalidValueError

    stray = [option for option, value in of_stored.items() if value is not None]
    if stray:
        raise InvalidValueError(f"{stray[0]} is about stored runs: add --stored")
    given = [option for option, value in shape.items() if value is not None]
    if model is not None and given:
        raise InvalidValueError(
            f"--model asks about a whole model and {given[0]} about one shape; give either --model or -M -N -K"
        )
    if model is not None:
        return
    missing = [option for option, value in shape.items() if value is None and len(option) == 2]
    if len(missing) == 3:
        raise InvalidValueError(
            "give a shape, -M -N -K, or a whole model, --model NAME; see `roofline recommend --help`"
        )
    if missing:
        raise InvalidValueError(
            f"Missing option '{missing[0]}'; a shape is -M, -N and -K; see `roofline recommend --help`"
        )
    astray = [option for option, value in of_model.items() if value is not None]
    if astray:
        raise InvalidValueError(f"{astray[0]} is about a whole model: give --model NAME in place of -M -N -K")


def recommend_for_shape(
    shape: tuple[int, int, int],
    hw: str,
    phase: str | None,
    limit_gb: float | None,
    parameters: float | None,
    formats_file: Path | None,
    *,
    as_json: bool,
) -> None:
    """Rank the formats for one product; exits 1 when nothing fits the memory limit."""
    from roofline_cli.chips import find_chip
    from roofline_model.auto_quantize import DEFAULT_FORMATS, recommend_quantization
    from roofline_model.expected.case_times import expected_times

    names = with_user_formats(None, register_formats(formats_file), DEFAULT_FORMATS)
    chip = find_chip(hw)
    found = recommend_quantization(
        chip, *shape, phase, limit_gb, model_parameters=parameters, formats=names, times=expected_times(chip)
    )
    fits = None if limit_gb is None else found.best.memory_bytes <= limit_gb * 1e9
    note = ONE_PRODUCT_NOTE if limit_gb is not None and parameters is None else ""
    if as_json:
        document = recommendation_json(found)
        notes = [*document["notes"], *([note] if note else [])]
        summary = document["summary"] if fits is not False else nothing_fits_sentence(found, limit_gb)
        show_json({**document, "summary": summary, "notes": notes, "fits_memory_limit": fits})
    elif fits is False:
        show_line(nothing_fits_sentence(found, limit_gb), "bold red")
        for name, reason in found.excluded:
            show_line(f"  excluded: {name}: {reason}")
    else:
        print_recommendation(found)
    if note and not as_json:
        show_line(f"note: {note}", "yellow")
    if fits is False:
        raise typer.Exit(1)


def nothing_fits_sentence(found: Recommendation, limit_gb: float | None) -> str:
    """Say by how much the smallest candidate (the only one kept then) misses the limit."""
    from roofline_cli.numbers import decimal_bytes

    smallest, limit_bytes = found.best, (limit_gb or 0.0) * 1e9
    missing = decimal_bytes(smallest.memory_bytes - limit_bytes)
    operands = operands_label(smallest.weight_format, smallest.activation_format)
    needed = f"needs {decimal_bytes(smallest.memory_bytes)}, {missing} more"
    return f"Nothing fits in {decimal_bytes(limit_bytes)}: the smallest, {smallest.precision} {operands}, {needed}"


def checked_phase(phase: str | None) -> str | None:
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
    from roofline_cli.format_gaps import print_gaps
    from roofline_cli.numbers import MISSING, decimal_bytes, in_prefix, shared_prefix, speedup
    from roofline_cli.prediction_rows import interval_text, standing_sentence

    better_s = [None if one.time_source == "ideal" else one.time_s for one in found.candidates]
    prefix = shared_prefix([one.ideal_s for one in found.candidates], better_s)
    ideal = [in_prefix(one.ideal_s, prefix) for one in found.candidates]
    better = [in_prefix(time_s, prefix) for time_s in better_s]
    intervals = [
        MISSING if one.low_s is None or one.high_s is None else interval_text(one.low_s, one.high_s, prefix, time)
        for one, time in zip(found.candidates, better, strict=True)
    ]
    # Only where the ranking is by better times than the ideals has the ideal speed-up a column of its own.
    has_better = any(one.time_source != "ideal" for one in found.candidates)
    said = [speedup(one.ideal_speedup) if has_better else MISSING for one in found.candidates]
    columns = (
        Column("", "right"),
        Column("Format"),
        Column("Operands"),
        Column("Method", drop=5),
        Column("Path", drop=6),
        Column("Ideal", "right"),
        Column("Ideal gain", "right", drop=2, hide_empty=True),
        Column("Expected", "right", hide_empty=True),
        Column("80 %", "right", drop=3, hide_empty=True),
        Column("vs 16-bit", "right"),
        Column("From", drop=8, hide_empty=True),
        Column("Memory", "right", drop=3),
        Column("W saved", "right", drop=1),
        Column("Bound", drop=4),
        Column("Quality", is_prose=True, drop=7),
    )
    rows = [
        [
            str(rank),
            one.precision,
            operands_label(one.weight_format, one.activation_format),
            one.method,
            one.path,
            floor,
            gain,
            time,
            interval,
            _gain(one, found.baseline),
            one.time_provenance or MISSING,
            decimal_bytes(one.memory_bytes),
            f"{one.memory_saved_ratio * 100:.0f} %",
            one.bound,
            one.quality,
        ]
        for rank, (one, floor, gain, time, interval) in enumerate(
            zip(found.candidates, ideal, said, better, intervals, strict=True), 1
        )
    ]
    show_table(columns, rows, title=f"{found.phase} M={found.M} N={found.N} K={found.K} on {found.hardware}")
    for name, reason in found.excluded:
        show_line(f"  excluded: {name}: {reason}")
    print_gaps(((one.precision, one.kernel_gap, one.engine_gap) for one in found.candidates), rank=" last")
    for note in found.notes:
        show_line(f"  note: {note}")
    show_line(basis_sentence(found), "dim")
    timed = [one for one in found.candidates if one.time_source == "expected"]
    if said_of := standing_sentence((one.weight_format, one.activation_format, one.time_provenance) for one in timed):
        show_line(said_of, "dim")
    show_line(winner_sentence(found), "bold")


def _gain(one: Candidate, baseline: Candidate) -> str:
    """Return the speed-up, marked where only the ideals can be compared."""
    from roofline_cli.numbers import speedup

    return speedup(one.speedup) if one.time_source == baseline.time_source else f"ideal {speedup(one.speedup)}"


def basis_sentence(found: Recommendation) -> str:
    """Say which kind of time the ranking goes by, and what decides between level ones."""
    from roofline_model.tie_ranking import PREDICTION_RULE

    if all(one.time_source == "ideal" for one in found.candidates):
        return (
            f"Ranked by ideal times, the speed of light (no expected times are known for {found.hardware}); within 5 % by the "
            "smaller loss, then the smaller memory."
        )
    return f"Ranked {PREDICTION_RULE}. Ideal gain: of the speed of light over that of 16 bit."


def winner_sentence(found: Recommendation) -> str:
    """Return the decision in one sentence."""
    if not found.fits:
        return str(found)
    best = found.best
    # `INT8` alone is weight-only to torchao and both operands to the original documents.
    told = (
        str(found).replace(best.precision, named(best), 1) if best.precision != found.baseline.precision else str(found)
    )
    return f"Best: {told}, {found.memory_savings_pct:.0f} % of the weight bytes saved: {found.reason}"


def named(one: Candidate) -> str:
    """Return a format with the widths of its operands, `INT8 W8A8`; 16 bit needs none."""
    operands = operands_label(one.weight_format, one.activation_format)
    return one.precision if one.method == "none" or operands == "–" else f"{one.precision} {operands}"


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
        "name": named(one),
        "weight_format": one.weight_format,
        "activation_format": one.activation_format,
        "operands": operands_label(one.weight_format, one.activation_format),
        "method": one.method,
        "path": one.path,
        "time_s": one.time_s,
        "time_source": one.time_source,
        "low_s": one.low_s,
        "high_s": one.high_s,
        "time_provenance": one.time_provenance or None,
        "ideal_s": one.ideal_s,
        "speedup_ratio": one.speedup,
        "ideal_speedup_ratio": one.ideal_speedup,
        "memory_bytes": one.memory_bytes,
        "memory_saved_ratio": one.memory_saved_ratio,
        "bound": one.bound,
        "quality": one.quality,
        "reason": one.reason,
        "kernel_gap": one.kernel_gap or None,
        "engine_gap": one.engine_gap or None,
    }
