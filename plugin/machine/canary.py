"""The canary: one fixed kernel between groups of cases, which shows a machine that is slow although no sensor says so.

GB10 has such a state: same clocks, no throttle reason, device copy unchanged, and every matrix-vector product 3.3 times
slower (research on DGX Spark, docs/reference/measuring.md). A slow reading quarantines the cases measured since the
last good one and those until the next good one: they are kept and flagged, never dropped.

The kernel is a matrix-vector product that reads a matrix larger than the cache, because the slow state it must find
leaves copies alone. On a CPU in a suite that does not use torch it is a copy by numpy, so that torch is not loaded for
it.

It also shows whether this still is the machine that was calibrated (`calibration_mismatch`). A calibration is kept per
CPU model, counts, cache, memory and torch: two hosts that agree in all of these can still differ, and one host differs
from itself under other clocks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from plugin.timers.clock import time
from results.records.state_records import CanaryReading
from roofline_model.chips.hardware import Device
from roofline_model.core.finding import Finding, finding

SLOW_RATIO = 1.5
"""A reading this many times its reference is a slow state; ordinary clock and bandwidth noise stays below it."""
EVERY_S = 5.0
MIN_EARLIER = 3
"""Readings of earlier runs that make a reference; with fewer, the fastest of this run is it."""
RECOVERY_RESTS_S = (0.5, 2.0)
"""After a slow reading: rest and look again, so that a moment's disturbance quarantines nothing."""
OTHER_MACHINE_SLOW_RATIO = 6.0
"""The fastest canary over the calibrated ideal, from which on this is another machine: healthy ones take 1.5 to 3."""
OTHER_MACHINE_FAST_RATIO = 0.7
"""Below this the calibrated bandwidth is too low: a canary cannot beat its ideal."""
_CPU_CANARY = re.compile(r"gemv-fp32-(\d+)x(\d+)-torch")
_ELEMENT_BYTES = 4


@dataclass(slots=True)
class CanaryKeeper:
    """Runs the canary when one is due; lives in the process that measures."""

    name: str
    """Names kernel and size; readings of another kernel are no reference."""
    run_kernel: Callable[[], float]
    """Runs it a few times and returns the fastest call's seconds."""
    earlier_s: Sequence[float]
    """Healthy readings of earlier runs on this machine and software."""
    deliver: Callable[[CanaryReading], None]
    utc_now: Callable[[], str]
    process_ordinal: int = 0
    power_w: Callable[[], float | None] = lambda: None
    sm_clock_hz: Callable[[], float | None] = lambda: None
    now: Callable[[], float] = time.monotonic
    rest: Callable[[float], None] = time.sleep
    _last_s: float | None = None
    _own_s: list[float] = field(default_factory=list)
    _count: int = 0

    def before_case(self) -> None:
        """Run the canary when none ran for `EVERY_S`; a slow reading is looked at again after a rest."""
        if self._last_s is not None and self.now() - self._last_s < EVERY_S:
            return
        self.look()

    def look(self) -> None:
        """Run the canary now, and again after a rest while it is slow; every reading is delivered."""
        reading = self._read()
        for seconds in RECOVERY_RESTS_S:
            if not reading.is_slow:
                break
            self.rest(seconds)
            reading = self._read()
        self._last_s = self.now()

    def _read(self) -> CanaryReading:
        elapsed_s = self.run_kernel()
        self._own_s.append(elapsed_s)
        reference = reference_s(self.earlier_s, self._own_s)
        reading = CanaryReading(
            ordinal=self._count,
            process_ordinal=self.process_ordinal,
            created_at=self.utc_now(),
            kernel=self.name,
            time_s=elapsed_s,
            reference_s=reference,
            is_slow=elapsed_s > SLOW_RATIO * reference,
            power_w=self.power_w(),
            sm_clock_hz=self.sm_clock_hz(),
        )
        self._count += 1
        self.deliver(reading)
        return reading


def reference_s(earlier_s: Sequence[float], own_s: Sequence[float]) -> float:
    """Return the reference of a reading: the median of earlier runs, or this run's fastest if that is lower.

    A machine whose first runs were all in the slow state would otherwise call it healthy for ever.
    """
    fastest = min(own_s)
    return min(median(earlier_s), fastest * SLOW_RATIO) if len(earlier_s) >= MIN_EARLIER else fastest


@dataclass(slots=True)
class CanaryLedger:
    """Which records lie between which readings, and which readings were slow in retrospect; lives where records are
    stored.

    Pure. A keeper knows its own process's readings only, and the first of them has nothing faster to be compared with.
    """

    readings: list[CanaryReading] = field(default_factory=list)
    """All readings, as judged by now."""
    rejudged: list[CanaryReading] = field(default_factory=list)
    """Earlier readings that the last one showed to be slow, with what they are now compared with."""
    _groups: list[list[str]] = field(default_factory=lambda: [[]])
    """Group i lies between reading i − 1 and reading i."""
    _places: list[int] = field(default_factory=list)
    """Where in `readings` the readings between the groups are: a second look replaces the first."""
    _flagged: set[str] = field(default_factory=set)

    def add_record(self, record_id: str) -> list[str]:
        """Note a measured record; return it if it must be quarantined at once, because the last reading was slow."""
        self._groups[-1].append(record_id)
        return self._new([record_id]) if self._places and self.readings[self._places[-1]].is_slow else []

    def add_reading(self, reading: CanaryReading) -> list[str]:
        """Note a reading; return the records that it puts into quarantine, earlier groups included.

        When a later reading is much faster than an earlier one, the earlier one was slow all along: `readings` and
        `rejudged` then say so.
        """
        self.readings.append(reading)
        if self._places and not self._groups[-1]:  # the second look after a rest replaces the first
            self._places[-1] = len(self.readings) - 1
        else:
            self._places.append(len(self.readings) - 1)
            self._groups.append([])
        self._judge_again(reading.kernel)
        case_keys: list[str] = []
        for index, cpu in enumerate(self._places):
            if self.readings[cpu].is_slow:
                case_keys += [*self._groups[index], *self._groups[index + 1]]
        return self._new(case_keys)

    def _judge_again(self, kernel: str) -> None:
        """Compare every reading of the kernel with the fastest of them all."""
        fastest_s = min(reading.time_s for reading in self.readings if reading.kernel == kernel)
        self.rejudged = []
        for index, earlier in enumerate(self.readings):
            if earlier.kernel == kernel and not earlier.is_slow and earlier.time_s > SLOW_RATIO * fastest_s:
                self.readings[index] = replace(earlier, reference_s=fastest_s, is_slow=True)
                if index < len(self.readings) - 1:
                    self.rejudged.append(self.readings[index])

    def _new(self, record_ids: Sequence[str]) -> list[str]:
        fresh = [fromkey for fromkey in dict.fromkeys(record_ids) if fromkey not in self._flagged]
        self._flagged.update(fresh)
        return fresh


CALLS = 10
"""Calls of a reading …"""
CPU_CALLS = 3
"""… and on a CPU, where one takes 25 ms if the cache is large."""
_MIN_BYTES = 64 * 1024**2
_MAX_BYTES = 512 * 1024**2
_COLUMNS = 4096


def make_canary_kernel(device: str, cache_bytes: float | None) -> tuple[str, Callable[[], float]]:
    """Return the kernel's name and a function that runs it some times and returns the fastest call's seconds.

    Its operands take twice the cache, from 64 to 512 MiB; they are made by the first call and kept.
    """
    size = min(_MAX_BYTES, max(_MIN_BYTES, 2 * int(cache_bytes or 0)))
    if device == "cuda":
        rows = size // (2 * _COLUMNS)
        return f"gemv-bf16-{rows}x{_COLUMNS}-cuda", _TorchGemv(rows, "cuda", "bfloat16")
    if "torch" in sys.modules:
        rows = size // (4 * _COLUMNS)
        return f"gemv-fp32-{rows}x{_COLUMNS}-torch", _TorchGemv(rows, "cpu", "float32")
    return f"copy-{size // 2 // 1024**2}MiB-numpy", _NumpyCopy(size // 2)


class _TorchGemv:
    def __init__(self, rows: int, device: str, dtype: str) -> None:
        self._rows, self._device, self._dtype = rows, device, dtype
        self._operands: tuple[Any, Any] | None = None

    def __call__(self) -> float:
        import torch

        if self._operands is None:
            dtype = getattr(torch, self._dtype)
            matrix = torch.ones(self._rows, _COLUMNS, dtype=dtype, device=self._device)
            self._operands = matrix, torch.ones(_COLUMNS, dtype=dtype, device=self._device)
            torch.mv(*self._operands)  # lazy loading
        matrix, vector = self._operands
        if self._device == "cpu":
            return _fastest(lambda: torch.mv(matrix, vector))
        from plugin.timers.cuda import CudaEventTimer

        timer = CudaEventTimer.create()
        timer.begin_case("canary", None)
        return min(timer.sample(torch.mv, [(matrix, vector)]) for _ in range(CALLS))


class _NumpyCopy:
    def __init__(self, size: int) -> None:
        self._size = size
        self._arrays: tuple[Any, Any] | None = None

    def __call__(self) -> float:
        import numpy as np

        if self._arrays is None:
            self._arrays = np.ones(self._size, np.uint8), np.ones(self._size, np.uint8)  # every page written
        source, target = self._arrays
        return _fastest(lambda: np.copyto(target, source))


def _fastest(call: Callable[[], Any]) -> float:
    times = []
    for _ in range(CPU_CALLS):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


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
    if OTHER_MACHINE_FAST_RATIO * ideal_s <= time_s <= OTHER_MACHINE_SLOW_RATIO * ideal_s:
        return None
    return finding("calibration-of-other-machine", device.key, time_s=time_s, ideal_s=ideal_s)
