"""The sensors of this machine's GPU, as the API reads them. They are passed in: reports never measure.

However many clients watch, the driver is asked at most once per `least_s`; the readings in between are shared.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from threading import Lock
from typing import Protocol

from reports.api.catalog.catalog_models import NvmlReading, NvmlStatus
from reports.present.display_text import shown


class GpuSensors(Protocol):
    """What the API asks of a GPU: each answer is a number or None, never an exception."""

    def name(self) -> str | None:
        """Return the product name."""

    def power_w(self) -> float | None:
        """Return the power."""

    def sm_clock_hz(self) -> float | None:
        """Return the SM clock."""

    def memory_clock_hz(self) -> float | None:
        """Return the memory clock."""

    def temperature_c(self) -> float | None:
        """Return the temperature."""

    def utilization_ratio(self) -> float | None:
        """Return the share of the last sensor period in which a kernel ran."""

    def memory_used_bytes(self) -> float | None:
        """Return the memory in use."""

    def throttle_reasons(self) -> tuple[str, ...] | None:
        """Return why the clock is below its maximum."""


class SharedSensors:
    """Sensors that many requests read. Safe between threads; `read` may block as long as the driver does."""

    def __init__(self, sensors: GpuSensors | None, reason: str, least_s: float) -> None:
        self._sensors = sensors
        self._reason = reason or "no GPU is watched by this server"
        self._least_s = least_s
        self._lock = Lock()
        self._status: NvmlStatus | None = None
        self._read_at_s = 0.0
        self._name: str | None = None

    @property
    def is_there(self) -> bool:
        """Whether there is a GPU to ask."""
        return self._sensors is not None

    def read(self) -> NvmlStatus:
        """Return what the sensors say, no older than `least_s`; without a GPU, why there is none."""
        if self._sensors is None:
            return NvmlStatus(available=False, reason=self._reason, name=None, measured_at=_now(), reading=None)
        with self._lock:
            if self._status is None or time.monotonic() - self._read_at_s >= self._least_s:
                self._name = self._name or self._sensors.name()
                self._status = _status(self._sensors, self._name)
                self._read_at_s = time.monotonic()
            return self._status


def _status(sensors: GpuSensors, name: str | None) -> NvmlStatus:
    reasons = sensors.throttle_reasons()
    reading = NvmlReading(
        power_w=sensors.power_w(),
        sm_clock_hz=sensors.sm_clock_hz(),
        memory_clock_hz=sensors.memory_clock_hz(),
        temperature_c=sensors.temperature_c(),
        utilization_ratio=sensors.utilization_ratio(),
        memory_used_bytes=sensors.memory_used_bytes(),
        throttle_reasons=None if reasons is None else list(reasons),
    )
    return NvmlStatus(
        available=True,
        reason=None,
        name=None if name is None else shown(name, 100),
        measured_at=_now(),
        reading=reading,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
