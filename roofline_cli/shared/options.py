"""Options that several commands share, and what is typed for them: sizes, formats, the chip of `--hw`, a model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roofline_cli.shared import completions
from roofline_model.chips.hardware import get_hardware
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.finding import short_text
from roofline_model.formats.catalog import load_formats
from roofline_model.operators.product import MAX_DIMENSION, check_dimension

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofline_model.chips.hardware import Device
    from roofline_model.formats.catalog import NumberFormat
    from roofline_model.models.model_shapes import ModelShape
    from roofline_model.models.tensor_parallel import Parallel


# Sizes are taken as text: our own message names the letter and the allowed range, whatever was typed.
RowsOption = Annotated[str, typer.Option("-M", metavar="INT", help="Rows of A and C: tokens in flight.")]
GemvRowsOption = Annotated[str, typer.Option("-M", metavar="INT", help="Tokens decoded together, 1 to 16.")]
ColumnsOption = Annotated[str, typer.Option("-N", metavar="INT", help="Columns of B and C: output features.")]
InnerOption = Annotated[str, typer.Option("-K", metavar="INT", help="Columns of A, rows of B: input features.")]
HardwareOption = Annotated[
    str,
    typer.Option(
        "--hw",
        metavar="NAME|FILE|auto",
        help="Chip: key, alias, path of a TOML file, or auto (this machine).",
        autocompletion=completions.chips,
    ),
]
FormatsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--formats",
        metavar="LIST",
        help="Comma-separated formats; WEIGHT.ACTIVATION for mixed ones, e.g. FP16,INT8,INT4.BF16.",
        autocompletion=completions.formats,
    ),
]
FormatsFileOption = Annotated[
    Path | None,
    typer.Option("--formats-file", metavar="FILE.toml", help="Register your own formats from a TOML file first."),
]
DevicesOption = Annotated[
    str | None,
    typer.Option("--tensor-parallel", metavar="INT", help="Devices that share every layer (default: 1)."),
]
LinkOption = Annotated[
    str | None,
    typer.Option(
        "--link-gb-s",
        metavar="GB/S",
        help="One direction of one device's link to the others, in GB/s (default: the chip's own, e.g. NVLink).",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
AllOption = Annotated[bool, typer.Option("--all", help="Add every column, note and source.")]
MeasuredTimeOption = Annotated[
    str | None,
    typer.Option(
        "--measured-us",
        metavar="µS",
        help="A time of your own for this shape in one format: is it good? Microseconds a call.",
    ),
]
PlotOption = Annotated[bool, typer.Option("--plot", help="Draw the roofline in text, too.")]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="URL|PATH", help="Results database (default: ROOFLINE_DB, else .roofline/results.db here)."
    ),
]


def parse_size(letter: str, text: str) -> int:
    """Return the dimension typed for `letter`; raises `InvalidValueError` unless it is a whole number in range."""

    typed = text.strip().replace("_", "")
    digits = typed.removeprefix("-").removeprefix("+")
    # Longer numbers are out of range anyway, and int() refuses thousands of digits with an error of its own.
    if not (digits.isdecimal() and digits.isascii()) or len(digits) > 24:
        shown = text if len(text) <= 40 else f"{text[:40]}…"
        raise InvalidValueError(f"{letter} must be a whole number from 1 to {MAX_DIMENSION:,}, got {shown!r}")
    size = int(typed)
    check_dimension(letter, size)
    return size


def check_max_context(contexts: Iterable[int], max_context: int) -> None:
    """Raise `InvalidValueError` for a context that is longer than the `--max-context` beside it."""
    for context in contexts:
        if context > max_context:
            raise InvalidValueError(
                f"a context of {context:,} is longer than --max-context {max_context:,}: give a shorter one, or a "
                "larger --max-context"
            )


def check_plot(wants_plot: bool, as_json: bool) -> None:
    """Raise `InvalidValueError` for a drawing in a JSON document."""

    if wants_plot and as_json:
        raise InvalidValueError("--plot draws text and --json prints one JSON document; give one of them")


def parse_number(name: str, text: str, what: str, *, below: float) -> float:
    """Return a number from 0 to below `below` typed for an option; raises `InvalidValueError` otherwise."""

    value = float_or_nan(text)
    if not 0 <= value < below:
        raise InvalidValueError(f"{name} must be {what} from 0 to below {below:g}, got {text[:40]!r}")
    return value


def parse_link(text: str, *, below: float) -> float:
    """Return the bytes per second of `--link-gb-s`; raises `InvalidValueError` unless it is positive and below
    `below` GB/s.
    """
    value = float_or_nan(text)
    if not 0 < value < below:
        raise InvalidValueError(f"--link-gb-s must be a positive number of GB/s, got {text[:40]!r}")
    return value * 1e9


def parse_parallel(devices: str | None, link_gb_s: str | None, all_reduce_us: str | None = None) -> Parallel:
    """Return the devices of `--tensor-parallel`, `--link-gb-s` and `--all-reduce-us`."""
    from roofline_model.models.tensor_parallel import ALL_REDUCE_LATENCY_S, Parallel

    link = None if link_gb_s is None else parse_link(link_gb_s, below=1e6)
    latency_s = ALL_REDUCE_LATENCY_S
    if all_reduce_us is not None:
        latency_s = 1e-6 * parse_number("--all-reduce-us", all_reduce_us, "a number of microseconds", below=1e6)
    if devices is None:
        for option, given in (("--link-gb-s", link_gb_s), ("--all-reduce-us", all_reduce_us)):
            if given is not None:
                raise InvalidValueError(f"{option} is about several devices, which needs --tensor-parallel INT")
        return Parallel()
    return Parallel(parse_size("--tensor-parallel", devices), link, latency_s)


def checked_phase(phase: str | None) -> str | None:
    """Return the phase typed for `--phase`; raises `InvalidValueError` for anything but decode and prefill."""

    if phase is not None and phase not in ("decode", "prefill"):
        raise InvalidValueError(f"--phase must be decode or prefill, got {phase[:40]!r}")
    return phase


def parse_amount(option: str, text: str | None, what: str) -> float | None:
    """Return a positive number typed as `24` or `8.03e9`, None when it was left out; raises `InvalidValueError`
    otherwise.
    """
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or not 0 < value <= 1e15:
        raise InvalidValueError(f"{option} must be a positive number of {what}, got {text[:40]!r}")
    return value


def parse_loss_limit(text: str | None) -> float | None:
    """Return the limit of `--max-quality-loss` in percent; None for the default."""
    return None if text is None else parse_number("--max-quality-loss", text, "a percentage", below=1e6)


def float_or_nan(text: str) -> float:
    """Return the number, NaN where it is none: it fails every comparison. Digits of other scripts, which Python reads,
    are none.
    """
    try:
        return float(text) if text.isascii() else float("nan")
    except ValueError:
        return float("nan")


def register_formats(path: Path | None) -> list[NumberFormat]:
    """Register the formats of `--formats-file`, if one was given, and return them."""
    if path is None:
        return []

    return load_formats(path)


def split_list(values: list[str] | None) -> list[str] | None:
    """Return the items of a repeatable, comma-separated option, or None when it was not given."""
    if values is None:
        return None

    items = [item.strip() for value in values for item in value.split(",")]
    if not all(items):
        raise InvalidValueError(
            f"--formats has an empty entry: {','.join(values)!r}; write e.g. --formats FP16,INT8,INT4"
        )
    return list(dict.fromkeys(items))


def with_user_formats(
    names: list[str] | None, user_formats: list[NumberFormat], defaults: tuple[str, ...]
) -> list[str] | None:
    """Return the formats to weigh: those asked for, else the defaults with the user's own behind them (None: no
    change).
    """
    if names is not None or not user_formats:
        return names
    return [*defaults, *(fmt.key for fmt in user_formats)]


def find_chip(name: str) -> Device:
    """Return the chip named by `--hw`; raises a `RooflineError` that says what to type instead."""
    if name.strip().lower() == "auto":
        return this_chip()

    return get_hardware(name)


def this_chip() -> Device:
    """Return this machine's chip: the registry's entry for its GPU, or the measured profile of its CPU."""
    from plugin.calibrate.cpu_calibration import cached_cpu_device
    from plugin.calibrate.gpu_calibration import calibrated_gpu
    from plugin.machine.facts import find_machine

    here = find_machine()
    if here.kind == "cuda":
        chip, why = here.match()
        if chip is None:
            raise UnsupportedError(
                f"--hw auto: {short_text(why)}; name a chip with --hw, or describe this one in a TOML file: --hw FILE.toml"
            )
        return calibrated_gpu(here, chip)
    profile = cached_cpu_device(here)
    if profile is None:
        raise UnsupportedError(
            f"--hw auto: this machine is a CPU ({here.cpu_name}) whose ceilings have not been measured yet; name a "
            "chip, e.g. --hw gb10, "
            "or measure: roofline calibrate"
        )
    return profile


def find_model_shape(name: str) -> ModelShape:
    """Return the shape named by `--model`; raises a `RooflineError` that says what to type instead."""
    from bench_cases.models.reference import SEEDED_LLAMAS
    from roofline_model.models.model_registry import get_model

    seeded = SEEDED_LLAMAS.get(name.strip())
    return get_model(name) if seeded is None else seeded.shape()
