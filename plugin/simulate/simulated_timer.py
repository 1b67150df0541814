"""The simulated device as a timer: every rule of the runner can be checked against a truth that is known.

Seconds per call = true time × noise (`simulated_noise`), worked off by a device that heats, throttles and draws power
(`simulated_device`) and can be watched (`simulated_sensors`). What it is like: `simulated_settings`.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

from plugin.simulate.simulated_device import SimulatedDevice
from plugin.simulate.simulated_noise import NoiseSeries, process_factor
from plugin.simulate.simulated_sensors import SimulatedSensors
from plugin.simulate.simulated_settings import SimulatedSettings
from plugin.timers.timers import Kernel, Prepare, Schedule
from roofline_model.core.errors import InvalidValueError

_JUMP_S = 3600.0


@dataclass(slots=True)
class SimulatedTimer:
    """A timer over one imaginary device. Several timers may share the device, as cases of one run share a GPU."""

    device: SimulatedDevice = field(default_factory=lambda: SimulatedDevice(SimulatedSettings()))
    """The device to run on."""
    sensors: SimulatedSensors | None = None
    """The device's sensors; None where no device setting was given."""
    pass_number: int = 1
    """Which fresh process this is: from the second on each draws noise of its own."""
    case_name: str = ""
    """Operator and id of the case, for `slow`."""
    name: str = "simulated"
    min_sample_s: float = 0.0
    runs_kernel: bool = False
    last_clock_hz: float | None = None
    _base_s: float = 0.0
    _noise: NoiseSeries = field(default_factory=lambda: NoiseSeries(SimulatedSettings(), ""))
    _faults: random.Random = field(default_factory=random.Random)
    _is_captured: bool = False

    def __post_init__(self) -> None:
        if self.sensors is None and self.device.settings.has_sensors:
            self.sensors = SimulatedSensors(self.device)

    @classmethod
    def from_text(cls, text: str) -> SimulatedTimer:
        """Build one from `noise=0.02,throttle_after=0.5,…`; raises `InvalidValueError` naming the known settings."""
        return cls(SimulatedDevice(SimulatedSettings.from_text(text)))

    def begin_case(self, case_key: str, ideal_s: float | None) -> None:
        """Seed the case so that its noise depends on its process, and not on the order of cases. The device stays as it
        is.
        """
        settings = self.device.settings
        if settings.true_s is None and ideal_s is None:
            raise InvalidValueError(
                "no prediction tells the simulated timer the true time: give it one, --roofline-timer "
                "simulated:true_s=1e-3, or predict for a chip, --roofline-hw gb10"
            )
        true_s = settings.true_s if settings.true_s is not None else (ideal_s or 0.0) / settings.efficiency
        seed = f"{settings.seed}:{case_key}" + f":{self.pass_number}" * (self.pass_number > 1)
        self._base_s = true_s * settings.slow_ratio(self.case_name) * process_factor(settings, seed)
        self._noise = NoiseSeries(settings, seed)
        self._faults = random.Random(f"fault:{seed}")
        self._is_captured = False
        self.last_clock_hz = None

    def sample(self, kernel: Kernel, schedule: Schedule, prepare: Prepare | None = None) -> float:
        """Return the next simulated seconds per call; the kernel is not run. `prepare` is, and costs device time."""
        device, settings = self.device, self.device.settings
        if prepare is not None:
            prepare()
            device.work(settings.prepare)
        calls = len(schedule)
        stretch = device.work(self._base_s * self._noise.next() * calls)
        seconds = stretch.seconds
        launches_s = 0.0 if self._is_captured else settings.launch * calls
        if launches_s > seconds:  # the device waits for the host
            device.rest(launches_s - seconds)
            seconds = launches_s
        self.last_clock_hz = stretch.clock_hz if self.sensors is not None and "clock" not in settings.refuse else None
        return self._as_the_clock_says(seconds) / calls

    def capture(self, kernel: Kernel, schedule: Schedule) -> list[Any]:
        """Call the kernel once per entry and return the outputs; later samples are replays and wait for no launch."""
        outputs = [kernel(*args) for args in schedule]
        self._is_captured = True
        return outputs

    def synchronize(self) -> None:
        """Nothing runs."""

    def now(self) -> float:
        """Return the device's clock."""
        return self.device.now_s

    def idle(self, seconds: float) -> None:
        """Let the device rest and cool down."""
        self.device.rest(seconds)

    def _as_the_clock_says(self, seconds: float) -> float:
        """Return a time as read from a clock with the requested fault."""
        fault = self.device.settings.fault
        if fault == "none" or self._faults.random() >= self.device.settings.fault_share:
            return seconds
        if fault == "backwards":
            return -seconds
        if fault == "infinite":
            return math.inf
        return seconds + _JUMP_S if fault == "jump" else 0.0
