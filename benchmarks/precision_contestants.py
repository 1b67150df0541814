"""What is measured in `time_to_precision`, and by whom: our runner, pytest-benchmark and torch's timers on one kernel.

Runs inside the pytest process that `time_to_precision` starts. Every contestant gives the seconds it took in all, its own
calibration and warm-up included, and its median.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from plugin.plan import MeasurePlan
from plugin.runner import run_case
from plugin.simulation.simulated_timer import SimulatedTimer
from plugin.timing.kernel_call import KernelCall
from plugin.timing.stats import summarize
from plugin.timing.stopping import MedianInterval
from plugin.timing.timers import MonotonicTimer

TARGET_RATIO = 0.01
SIMULATED_TRUE_S = 1e-3
PRECISE = "pytest-benchmark precision"
"""pytest-benchmark with --benchmark-precision=0.01: on the mean, at 99 %."""
CONTESTANTS = ("ours", "pytest-benchmark", PRECISE, "torch adaptive_autorange", "torch blocked_autorange")
REAL = ("add 65536", "GEMV 1x1024x1024", "GEMV 1x4096x4096", "GEMM 256x256x256")
SIMULATED = {
    "simulated, quiet 0.5 %": "noise=0.005",
    "simulated, independent 5 %": "noise=0.05",
    "simulated, noisy 10 %": "noise=0.1",
    "simulated, spikes": "noise=0.02,kind=spikes",
    "simulated, autocorrelated 0.8": "noise=0.02,correlation=0.8",
}
_CLOCK_LOOK_S = 5e-8


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one contestant spent and found."""

    seconds: float
    median_s: float


@dataclass(slots=True)
class SimulatedKernel:
    """A kernel on the simulated device, with the device's clock as a timer that anybody can be given."""

    timer: SimulatedTimer

    @classmethod
    def create(cls, settings: str, case: str) -> SimulatedKernel:
        """Make one whose noise is its own."""
        timer = SimulatedTimer.from_text(f"{settings},true_s={SIMULATED_TRUE_S}")
        timer.begin_case(case, None)
        return cls(timer)

    def __call__(self) -> None:
        """Take the next sample's time."""
        self.timer.sample(lambda: None, [()])

    def clock(self) -> float:
        """Return the device's time; looking takes as long as it does on a real host."""
        self.timer.idle(_CLOCK_LOOK_S)
        return self.timer.now()


@cache
def real_kernel(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a kernel and its operands, always the same: what is compared is the timing, not the kernel."""
    import torch

    generator = torch.Generator().manual_seed(1)

    def operand(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator)

    if name.startswith("add"):
        return torch.add, (operand(65536), operand(65536))
    sizes = [int(size) for size in name.split()[1].split("x")]
    return torch.matmul, (operand(sizes[0], sizes[2]), operand(sizes[2], sizes[1]))


def reference_samples(name: str, seconds: float) -> list[float]:
    """Return samples of a real kernel over some time, taken as ours are: the truth of its round."""
    kernel, operands = real_kernel(name)
    timer = MonotonicTimer()
    calls = max(1, math.ceil(timer.min_sample_s / max(timer.sample(kernel, [operands] * 20), 1e-9)))
    samples = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(samples) < 5:
        samples.append(timer.sample(kernel, [operands] * calls))
    return samples


def ours_on(name: str, case: str) -> Estimate:
    """Run our runner with its default rule and budget."""
    rule = MedianInterval(target_ratio=TARGET_RATIO)
    if name in SIMULATED:
        kernel = SimulatedKernel.create(SIMULATED[name], case)
        begin = kernel.timer.now()
        timing = run_case(KernelCall(lambda: None, lambda _: (), False), kernel.timer, rule, MeasurePlan())
        return Estimate(kernel.timer.now() - begin, timing.stats.median_s)
    function, operands = real_kernel(name)
    began = time.perf_counter()
    timing = run_case(KernelCall(function, lambda _: operands, False), MonotonicTimer(), rule, MeasurePlan())
    return Estimate(time.perf_counter() - began, timing.stats.median_s)


def pytest_benchmark_on(name: str, case: str, benchmark: Any) -> Estimate:
    """Run the `benchmark` fixture as it was configured; its estimate is the median of its rounds."""
    if name in SIMULATED:
        kernel = SimulatedKernel.create(SIMULATED[name], case)
        benchmark._timer = kernel.clock  # what its marker's `timer=` sets, for a clock made in the test
        begin = kernel.timer.now()
        benchmark(kernel)
        seconds = kernel.timer.now() - begin
    else:
        function, operands = real_kernel(name)
        began = time.perf_counter()
        benchmark(function, *operands)
        seconds = time.perf_counter() - began
    return Estimate(seconds, benchmark.stats.stats.median)


def torch_on(name: str, case: str, method: str) -> Estimate:
    """Run `torch.utils.benchmark.Timer` with the method's defaults."""
    from torch.utils.benchmark import Timer

    if name in SIMULATED:
        kernel = SimulatedKernel.create(SIMULATED[name], case)
        begin = kernel.timer.now()
        found = getattr(Timer("kernel()", globals={"kernel": kernel}, timer=kernel.clock), method)()
        return Estimate(kernel.timer.now() - begin, found.median)
    function, operands = real_kernel(name)
    names = ", ".join(f"x{index}" for index in range(len(operands)))
    scope = {"kernel": function, **{f"x{index}": value for index, value in enumerate(operands)}}
    import torch

    # Its default of one thread would measure another kernel than the others do.
    timer = Timer(f"kernel({names})", globals=scope, num_threads=torch.get_num_threads())
    began = time.perf_counter()
    found = getattr(timer, method)()
    return Estimate(time.perf_counter() - began, found.median)


def estimate(contestant: str, name: str, case: str, benchmark: Any) -> Estimate:
    """Let one contestant measure one kernel."""
    if contestant == "ours":
        return ours_on(name, case)
    if contestant.startswith("torch "):
        return torch_on(name, case, contestant.removeprefix("torch "))
    return pytest_benchmark_on(name, case, benchmark)


def truth_of(name: str, samples: list[float]) -> float:
    """Return the true median: known on the simulated device, else that of the reference samples."""
    return SIMULATED_TRUE_S if name in SIMULATED else summarize(samples).median_s
