"""`roofline calibrate`: measure this CPU's own ceilings again and keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline_cli.options import JsonOption
from roofline_cli.screen import Column, show_json, show_line, show_table

if TYPE_CHECKING:
    from roofline_model.hardware import Device


def calibrate(
    forget: Annotated[
        bool, typer.Option("--forget", help="Start anew instead of keeping the best value ever seen.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure this CPU's ceilings: memory, cache, each format.

    Takes about 12 s. A ceiling is the best this machine has shown, so a busy moment never lowers one. The result is what
    --hw auto means here.
    """
    from plugin.calibration import cpu_device
    from plugin.machine import find_machine
    from roofline_model.errors import MissingDependencyError

    machine = find_machine()
    if machine.torch_version is None:
        raise MissingDependencyError("torch", "measure", "calibrating this CPU")

    def report(text: str) -> None:
        typer.echo(text, err=True)

    device = cpu_device(machine, report, refresh=True, forget=forget)
    if as_json:
        show_json({"hardware": device.to_dict()})
    else:
        _show(device)


def _show(device: Device) -> None:
    from roofline_model.units import format_bandwidth, format_bytes, format_flops

    show_line(f"{device.key}: {device.name}", "bold")
    rows = [["memory", format_bandwidth(device.bandwidth.value), device.bandwidth.note]]
    for level in device.levels:
        speed = "not faster than memory" if level.bandwidth is None else format_bandwidth(level.bandwidth.value)
        rows.append([f"{level.name}, {format_bytes(level.capacity_bytes)}", speed, ""])
    for key, path in device.paths.items():
        if path.kind == "native":
            rows.append(
                [
                    f"{key} product",
                    format_flops(path.dense.value),
                    f"ridge {device.critical_intensity(key):.3g} FLOP/byte",
                ]
            )
    show_table((Column("Ceiling"), Column("Measured", "right"), Column("Note", is_prose=True)), rows)
