"""`roofline calibrate`: measure this machine's ceilings and constants, keep them, and write them to a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reports.present.blocks import Block, Column, Paragraph, table
from reports.present.screen import present
from roofline_cli.screen.output_file import check_output, write_text
from roofline_cli.shared.options import JsonOption
from roofline_cli.shared.quiet import WaitOption, begin_when_quiet, stop
from roofline_model.chips.hardware import doubt_of_ideals, doubts_of
from roofline_model.core.errors import InvalidValueError, MissingDependencyError, UnsupportedError
from roofline_model.core.finding import Finding, advice_text, short_text
from roofline_model.core.units import (
    counted,
    format_bandwidth,
    format_flops,
    format_memory,
    format_percent,
    format_time,
)

if TYPE_CHECKING:
    from bench_cases.selection import Family
    from plugin.machine.facts import Machine
    from roofline_model.chips.hardware import Device
    from roofline_model.chips.machine_constants import Calibration, Constant

COMMANDS = {
    "calibrate": ("calibrate", "Measure this machine's real ceilings and constants."),
}

WITH_KERNELS_S, CEILINGS_S = 75.0, 40.0
"""How long it measures on a quiet machine."""
CEILINGS_SHARE = 0.35
"""Of the time, where kernels are timed as well: a ceiling is the best of all looks, so short ones add up."""
OnlyOption = Annotated[
    str | None,
    typer.Option(
        "--only",
        metavar="products|attention|operators",
        help="Time the kernels of one family alone, on ceilings that are known already (else they are measured first).",
    ),
]


def calibrate(
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.toml", help="Write the profile as a chip file, too."),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", metavar="cpu|cuda", help="What to measure (default: the GPU, if any).")
    ] = None,
    kernels: Annotated[
        bool, typer.Option("--kernels/--no-kernels", help="Time a CPU's kernels, too (default), or its ceilings alone.")
    ] = True,
    forget: Annotated[
        bool, typer.Option("--forget", help="Start again instead of keeping the best value so far.")
    ] = False,
    only: OnlyOption = None,
    waits: WaitOption = False,
    if_needed: Annotated[
        bool,
        typer.Option("--if-needed", help="Measure nothing where kernels have expected times already, as on a GPU."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure this machine's real ceilings and constants.

    Measures memory and cache bandwidth, products per format, fixed costs, casts, and bandwidth against active cores,
    each with its spread. On a CPU it then times every kernel at a few sizes, for expected times at other sizes. Later
    runs here use the results. A ceiling is the best that this machine has shown while quiet; of a kernel the median of
    the last five calibrations counts. --hw reads FILE.toml, and in pytest --roofline-profile-file.

    Exits 5 and measures nothing where other processes use more than half of the CPUs. It exits 5, too, where other work
    ran meanwhile; such a look never replaces a quiet one, not even with --forget.
    """
    from plugin.calibrate.profile_file import profile_text
    from plugin.machine.facts import find_machine
    from results.diff.gate import EXIT_MACHINE

    machine = find_machine()
    kind = _kind(device, machine)
    if output is not None:
        check_output(output, None)
    if if_needed and (output is not None or forget or not kernels or as_json or only):
        raise InvalidValueError(
            "--if-needed may measure nothing: leave out -o, --forget, --no-kernels, --only and --json"
        )
    family = _family(only, kind, kernels, forget)
    if if_needed and _has_expected_times(machine, kind):
        return
    if machine.torch_version is None:
        raise MissingDependencyError("torch", "measure", "calibrating this machine")
    if kind == "cpu":
        begin_when_quiet(waits=waits)
    try:
        chip, failed = _looked_at(machine, kind, forget, family, with_kernels=kernels and kind == "cpu", waits=waits)
    except UnsupportedError as error:
        if not isinstance(error.finding, Finding) or error.finding.code != "look-left-out":
            raise
        stop(advice_text(error.finding))
    if output is not None:
        write_text(output, profile_text(chip))
    present(
        lambda: {"hardware": chip.to_dict(), "file": None if output is None else str(output)},
        lambda: _blocks(chip, failed, output),
        as_json=as_json,
    )
    if chip.calibration is not None and chip.calibration.disturbed_by:
        raise typer.Exit(EXIT_MACHINE)


def _looked_at(
    machine: Machine, kind: str, forget: bool, family: Family | None, *, with_kernels: bool, waits: bool
) -> tuple[Device, tuple[str, ...]]:
    """Return the chip as this look found it, and the cases whose check failed."""
    total_s = WITH_KERNELS_S if with_kernels else CEILINGS_S
    chip = _known_ceilings(machine) if family is not None else None
    if chip is None:
        chip = _measure(machine, kind, forget, total_s * (CEILINGS_SHARE if with_kernels else 1))
    if not with_kernels:
        return chip, ()
    if (doubt := doubt_of_ideals(chip)) is not None:  # times of kernels would be held against these ceilings
        stop(f"{short_text(doubt)}: --wait-until-quiet waits for it")
    begin_when_quiet(waits=waits)
    return _with_kernels(machine, chip, forget, total_s * (1 - CEILINGS_SHARE), family)


def _kind(requested: str | None, machine: Machine) -> str:
    if requested not in (None, "cpu", "cuda"):
        raise InvalidValueError(f"--device must be cpu or cuda, got {requested!r}")
    if requested == "cuda" and machine.kind != "cuda":
        raise UnsupportedError(
            f"--device cuda: this machine has no NVIDIA device ({short_text(machine.reason)}); use --device cpu"
        )
    return requested or machine.kind


def _family(only: str | None, kind: str, kernels: bool, forget: bool) -> Family | None:
    from bench_cases.selection import FAMILIES

    if only is None:
        return None
    family = next((name for name in FAMILIES if name == only.strip().lower()), None)
    if family is None:
        raise InvalidValueError(f"--only must be {', '.join(FAMILIES[:-1])} or {FAMILIES[-1]}, got {only[:40]!r}")
    if kind != "cpu" or not kernels or forget:
        raise InvalidValueError("--only times a CPU's kernels beside earlier ones: leave out --no-kernels and --forget")
    return family


def _known_ceilings(machine: Machine) -> Device | None:
    """Return this CPU with ceilings that were measured while it was quiet, or None."""
    from plugin.calibrate.cpu_calibration import cached_cpu_device

    chip = cached_cpu_device(machine)
    return chip if chip is not None and doubt_of_ideals(chip) is None else None


def _has_expected_times(machine: Machine, kind: str) -> bool:
    """Return whether kernels here have expected times: a GPU's come from fitted models, a CPU's from timed kernels."""
    from plugin.calibrate.cpu_calibration import cached_cpu_device, has_kernel_times

    return kind == "cuda" or has_kernel_times(cached_cpu_device(machine))


def _report(text: str) -> None:
    typer.echo(text, err=True)


def _measure(machine: Machine, kind: str, forget: bool, seconds: float) -> Device:
    if kind == "cpu":
        from plugin.calibrate.cpu_calibration import cpu_device

        return cpu_device(machine, _report, refresh=True, forget=forget, budget_s=seconds, with_scaling=True)
    from plugin.calibrate.gpu_calibration import gpu_device

    if (machine.torch_version or "").endswith("+cpu"):
        raise UnsupportedError(
            f"the installed torch {machine.torch_version} has no CUDA: `roofline doctor` prints the command that "
            "installs one; "
            "--device cpu measures the CPU"
        )
    chip, why = machine.match()
    if chip is None:
        raise UnsupportedError(
            f"{short_text(why)}; constants need a datasheet: describe this chip in a TOML file first "
            "(start: `roofline hardware show gb10 --toml`)"
        )
    return gpu_device(machine, chip, _report, forget=forget, budget_s=seconds)


def _with_kernels(
    machine: Machine, chip: Device, forget: bool, seconds: float, family: Family | None
) -> tuple[Device, tuple[str, ...]]:
    from plugin.calibrate.cpu_calibration import keep_kernel_times
    from roofline_cli.machine.kernel_calibration import time_kernels

    assert chip.calibration is not None
    look = time_kernels(seconds, _report, family)
    device = keep_kernel_times(
        machine, chip.calibration, look.calls, _report, disturbed_by=look.disturbed_by, forget=forget
    )
    return device, look.failed


def _blocks(chip: Device, failed: tuple[str, ...], output: Path | None) -> Iterator[Block]:
    calibration = chip.calibration
    assert calibration is not None
    conditions = ", ".join(_conditions(calibration)) or "no condition known"
    yield Paragraph(f"{chip.key}: {chip.name}", "verdict")
    yield Paragraph(f"measured {calibration.measured_at} with {conditions}")
    yield from (Paragraph(short_text(doubt), "warning") for doubt in doubts_of(chip))
    yield table("Constants", _CONSTANTS, _constants(calibration))
    yield Paragraph(
        "Best: the best of all calibrations here. The others are of the newest. Typical: the median. Slow: 95 % were "
        "faster. Spread: standard deviation over mean. Of: repetitions.",
        "quiet",
    )
    if curves := calibration.kernels:
        scatter = sorted(curve.sd_ratio for curve in curves)[len(curves) // 2]
        looks = max(len(point.looks_s) for curve in curves for points in curve.points.values() for point in points)
        sizes = counted(sum(curve.point_count for curve in curves), "size")
        yield Paragraph(
            f"kernels: {len(curves)} timed at {sizes}, {counted(looks, 'look')} each; expected to scatter by "
            f"{format_percent(scatter)} (1 sd) in between"
        )
    yield from (Paragraph(f"not calibrated, its check failed: {case}", "warning") for case in failed)
    if output is not None:
        yield Paragraph(f"written to {output}: use it with --hw {output} or --roofline-profile-file {output}")


def _conditions(calibration: Calibration) -> list[str]:
    """Return what the numbers depend on, in words, what matters most first."""

    shown = {
        "torch": "torch {}",
        "driver": "driver {}",
        "threads": "{}",
        "governor": "governor {}",
        "hypervisor": "hypervisor {}",
        "power_limit_w": "power limit {} W",
    }
    values = {**calibration.conditions, "threads": calibration.threads_text}
    conditions = [text.format(values[name]) for name, text in shown.items() if name in calibration.conditions]
    for name, text in (("sm_clock_hz", "SM clock"), ("cpu_clock_hz", "CPU clock")):
        if name in calibration.conditions:
            conditions.append(f"{text} {float(calibration.conditions[name]) / 1e6:.0f} MHz")
    for name, text in (("others_ratio", "others"), ("stolen_ratio", "stolen")):
        if name in calibration.conditions:
            conditions.append(f"{text} {format_percent(float(calibration.conditions[name]))} of the CPUs")
    return conditions + (
        [] if calibration.cache_capacity_bytes is None else [f"cache {format_memory(calibration.cache_capacity_bytes)}"]
    )


def _constants(calibration: Calibration) -> list[tuple[str, Constant]]:
    unit = "SMs" if calibration.kind == "cuda" else "threads"
    words = {
        "call": "smallest call",
        "fork-join": "waking all threads",
        "launch": "launch",
        "host-launch": "launch, host",
    }
    return [
        *((f"memory {mix}", constant) for mix, constant in calibration.dram.items()),
        *((f"cache {mix}", constant) for mix, constant in calibration.cache.items()),
        *(
            (f"memory, {count} {unit if int(count) > 1 else unit[:-1]}", constant)
            for count, constant in calibration.scaling.items()
        ),
        *((f"{key} product", constant) for key, constant in calibration.peaks.items()),
        *((words[name], constant) for name, constant in calibration.floors.items()),
        *((f"{name.replace('>', ' to ')} per element", constant) for name, constant in calibration.casts.items()),
    ]


def _value(value: float, constant: Constant) -> str:
    return {"s": format_time, "B/s": format_bandwidth, "FLOP/s": format_flops}[constant.unit](value, 3)


_CONSTANTS = (
    Column("Constant", lambda item: item[0], is_head=True),
    Column("Best", lambda item: _value(item[1].best_value, item[1]), "number"),
    Column("Typical", lambda item: _value(item[1].median_value, item[1]), "number"),
    Column("Slow", lambda item: _value(item[1].slow_value, item[1]), "number", drop=2),
    Column("Spread", lambda item: format_percent(item[1].sd_ratio), "number"),
    Column("Of", lambda item: str(item[1].repetition_count), "number", drop=3),
    Column("By", lambda item: item[1].kernel or "–", drop=1),
)
