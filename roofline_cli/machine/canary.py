"""`roofline doctor --canary`: the canary kernel alone, before an hour is measured on a machine in a slow state.

The reading is compared with the healthy ones of earlier runs on this machine and software (docs/reference/measuring.md,
"The state of the machine") and is not stored: every measuring run takes its own before the first case.
"""

from __future__ import annotations

import datetime
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from roofline_model.core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.records.state_records import CanaryReading
    from roofline_model.chips.hardware import Device

EXIT_SLOW = 5


def show_canary(db: str | None, *, as_json: bool) -> int:
    """Look once, again after a rest while it is slow; return 5 where the last reading is slow, else 0."""
    from reports.present.screen import show_json, show_line

    readings, earlier_s = look(db)
    last = readings[-1]
    if as_json:
        show_json({"is_slow": last.is_slow, "earlier_count": len(earlier_s), "readings": list(map(asdict, readings))})
    else:
        show_line(sentence(readings, len(earlier_s)), "bold red" if last.is_slow else "")
    return EXIT_SLOW if last.is_slow else 0


def sentence(readings: Sequence[CanaryReading], earlier_count: int) -> str:
    """Return what the last reading says, with how far from usual it is; `earlier_count`: the readings that "usual"
    stands on.
    """
    from plugin.machine.canary import MIN_EARLIER

    last = readings[-1]
    power = "" if last.power_w is None else f", {last.power_w:.0f} W"
    text = f"canary {last.kernel}: {last.time_s * 1e3:.3f} ms{power}"
    usual_s = last.reference_s or last.time_s
    ratio = f"{last.time_s / usual_s:.{1 if last.is_slow else 2}f}× its usual {usual_s * 1e3:.3f} ms"
    if last.is_slow:
        return (
            f"{text}, {ratio}, in {len(readings)} readings: this machine is in a slow state. Let it rest, "
            "stop what else runs, or switch it off at the wall (docs/how_to/nightly.md#the-machine-is-slow)"
        )
    if earlier_count < MIN_EARLIER:
        earlier = (
            "no earlier reading" if not earlier_count else f"{earlier_count} earlier reading{'s' * (earlier_count > 1)}"
        )
        return f"{text}, not judged: {earlier} on this machine and software, {MIN_EARLIER} make a reference"
    return f"{text}, {ratio}: healthy"


def look(db: str | None) -> tuple[list[CanaryReading], list[float]]:
    """Return the readings, the last one as it is judged, and the earlier ones it was compared with, s.

    Without a database that can be read there is no earlier one.
    """
    from plugin.machine.environment import capture_environment
    from plugin.machine.facts import find_machine
    from plugin.run.instruments import Instruments
    from plugin.run.options import BenchOptions
    from plugin.run.target import Target
    from roofline_cli.shared.database import reading

    machine = find_machine()
    class_hash = capture_environment(machine, machine.kind).class_hash  # before torch is loaded, as a run does
    import torch  # noqa: F401  # the canary of a torch suite is a matrix-vector product

    earlier_s: list[float] = []

    def earlier_times(kernel: str) -> list[float]:
        try:
            with reading(db) as store:
                earlier_s.extend(store.canary_times(class_hash, kernel))
        except StoreError:
            pass
        return earlier_s

    readings: list[CanaryReading] = []
    target = Target(machine.kind, _no_chip)
    keeper = Instruments(BenchOptions(device=machine.kind), Path.cwd(), target).make_canary(
        earlier_times,
        readings.append,
        process_ordinal=0,
        utc_now=lambda: datetime.datetime.now(datetime.UTC).isoformat(),
    )
    assert keeper is not None  # the options above ask for one
    keeper.look()
    return readings, earlier_s


def _no_chip() -> Device:
    raise AssertionError("the canary asks for no prediction")
