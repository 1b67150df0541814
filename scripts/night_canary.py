"""Run the canary kernel alone, before a night begins: exit code 5 when the machine is in a slow state that no sensor shows.

    python scripts/night_canary.py [--db URL|PATH] [--device cpu|cuda]

The reading is compared with the healthy ones of earlier runs on this machine and software (see docs/measuring.md, "The
state of the machine"). It is not stored: every measuring run takes its own before the first case.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from results.state_records import CanaryReading
    from roofline_model.hardware import Device

EXIT_SLOW = 5
EXIT_USAGE = 2


def main(arguments: list[str] | None = None) -> int:
    """Look once, again after a rest while it is slow, and return the exit code."""
    parser = argparse.ArgumentParser(description="Run the canary kernel alone; exits 5 when the machine is slow.")
    parser.add_argument("--db", help="Results database with the earlier readings.")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="Where it runs (default: the GPU, if any).")
    given = parser.parse_args(arguments)
    from roofline_model.errors import RooflineError

    try:
        readings = look(given.db, given.device)
    except RooflineError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    last = readings[-1]
    milliseconds = f"{last.time_s * 1e3:.3f} ms"
    power = "" if last.power_w is None else f", {last.power_w:.0f} W"
    if last.is_slow:
        print(
            f"canary {last.kernel}: {milliseconds}{power}, {last.time_s / (last.reference_s or last.time_s):.1f}× its usual "
            f"{(last.reference_s or 0) * 1e3:.3f} ms, in {len(readings)} readings: this machine is in a slow state. Let it rest, "
            "stop what else runs, or switch it off at the wall (docs/nightly.md#the-machine-is-slow)",
            file=sys.stderr,
        )
        return EXIT_SLOW
    print(f"canary {last.kernel}: {milliseconds}{power}, healthy")
    return 0


def look(db: str | None, device: str | None) -> list[CanaryReading]:
    """Return the readings, the last one as it is judged. Raises `RooflineError` where the database cannot be read."""
    from plugin.instruments import Instruments
    from plugin.machine.environment import capture_environment
    from plugin.machine.facts import find_machine
    from plugin.options import BenchOptions
    from plugin.target import Target
    from results import open_store
    from roofline_model.errors import StoreError

    machine = find_machine()
    kind = device or machine.kind
    class_hash = capture_environment(machine, kind).class_hash  # before torch is loaded, as a run does
    import torch  # noqa: F401  # the canary of a torch suite is a matrix-vector product

    def earlier_times(kernel: str) -> list[float]:
        try:
            with open_store(db, create=False, read_only=True) as store:
                return list(store.canary_times(class_hash, kernel))
        except StoreError as error:
            print(f"no earlier reading: {error}", file=sys.stderr)
            return []

    readings: list[CanaryReading] = []
    target = Target(kind, True, "the canary alone", False, _no_chip)  # type: ignore[arg-type]
    keeper = Instruments(BenchOptions(device=kind), Path.cwd(), target).make_canary(
        earlier_times,
        readings.append,
        process_ordinal=0,
        utc_now=lambda: datetime.datetime.now(datetime.UTC).isoformat(),
    )
    assert keeper is not None  # the options above ask for one
    keeper.look()
    return readings


def _no_chip() -> Device:
    raise AssertionError("the canary asks for no prediction")


if __name__ == "__main__":
    sys.exit(main())
