"""Run the canary kernel alone, before a night begins: exit code 5 when the machine is in a slow state that no sensor
shows.

    python scripts/ci/nightly_canary.py [--db URL|PATH] [--device cpu|cuda]

The reading is compared with the healthy ones of earlier runs on this machine and software (see
docs/reference/measuring.md, "The state of the machine"); with fewer than three of them it is not judged, and exits 0
with those words. It is not stored: every measuring run takes its own before the first case (a simulated one does not).
"""

from __future__ import annotations

import argparse
import datetime
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.records.state_records import CanaryReading
    from roofline_model.chips.hardware import Device

EXIT_SLOW = 5
EXIT_USAGE = 2


def main(arguments: list[str] | None = None) -> int:
    """Look once, again after a rest while it is slow, and return the exit code."""
    parser = argparse.ArgumentParser(description="Run the canary kernel alone; exits 5 when the machine is slow.")
    parser.add_argument("--db", help="Results database with the earlier readings.")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="Where it runs (default: the GPU, if any).")
    given = parser.parse_args(arguments)
    from roofline_model.core.errors import RooflineError

    try:
        readings, earlier_count = look(given.db, given.device)
    except RooflineError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    print(sentence(readings, earlier_count), file=sys.stderr if readings[-1].is_slow else sys.stdout)
    return EXIT_SLOW if readings[-1].is_slow else 0


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


def look(db: str | None, device: str | None) -> tuple[list[CanaryReading], int]:
    """Return the readings, the last one as it is judged, and how many earlier ones it was compared with.

    Raises `RooflineError` where the database cannot be read.
    """
    from plugin.machine.environment import capture_environment
    from plugin.machine.facts import find_machine
    from plugin.run.instruments import Instruments
    from plugin.run.options import BenchOptions
    from plugin.run.target import Target
    from results import open_store
    from roofline_model.core.errors import StoreError

    machine = find_machine()
    kind = device or machine.kind
    class_hash = capture_environment(machine, kind).class_hash  # before torch is loaded, as a run does
    import torch  # noqa: F401  # the canary of a torch suite is a matrix-vector product

    earlier_s: list[float] = []

    def earlier_times(kernel: str) -> list[float]:
        try:
            with open_store(db, create=False, read_only=True) as store:
                earlier_s.extend(store.canary_times(class_hash, kernel))
        except StoreError as error:
            print(f"no earlier reading: {error}", file=sys.stderr)
        return earlier_s

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
    return readings, len(earlier_s)


def _no_chip() -> Device:
    raise AssertionError("the canary asks for no prediction")


if __name__ == "__main__":
    sys.exit(main())
