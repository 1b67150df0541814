"""Whether a machine still is the one that was calibrated: its canary against the bandwidth that the calibration found.

A calibration is kept per CPU model, counts, cache, memory and torch. Two hosts that agree in all of these can still
differ, and one host differs from itself under other clocks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from results.records.state_records import CanaryReading
from roofline_model.chips.hardware import Device
from roofline_model.core.finding import Finding, finding

SLOW_RATIO = 6.0
"""The fastest canary over the calibrated ideal, from which on this is another machine: healthy ones take 1.5 to 3."""
FAST_RATIO = 0.7
"""Below this the calibrated bandwidth is too low: a canary cannot beat its ideal."""
_CPU_CANARY = re.compile(r"gemv-fp32-(\d+)x(\d+)-torch")
_ELEMENT_BYTES = 4


def calibration_mismatch(readings: Sequence[CanaryReading], device: Device) -> Finding | None:
    """Return that the canary of a CPU and its calibration disagree; None where they agree or nothing can be said."""
    calibration = device.calibration
    if device.kind != "cpu" or calibration is None or calibration.provenance != "measured-here":
        return None
    sizes = [
        (reading.time_s, _ELEMENT_BYTES * int(match[1]) * int(match[2]))
        for reading in readings
        if (match := _CPU_CANARY.fullmatch(reading.kernel)) and reading.time_s > 0
    ]
    if not sizes:
        return None
    time_s, read_bytes = min(sizes)
    ideal_s = read_bytes / device.bandwidth.value
    if FAST_RATIO * ideal_s <= time_s <= SLOW_RATIO * ideal_s:
        return None
    return finding("calibration-of-other-machine", device.key, time_s=time_s, ideal_s=ideal_s)
