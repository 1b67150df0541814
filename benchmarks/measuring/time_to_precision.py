"""How far off is a measured median when a background load comes and goes, and how long did it take?

Eight real kernels, measured by each contestant once a round: ours in visits, ours in one stay (a foreign test's
`measure`), pytest-benchmark and torch's timers with their defaults. Beside them runs a load that uses all CPUs for
stretches of seconds. True is what the kernel takes alone: the tenth percentile of medians of short reference windows,
which lie between the contestants over all rounds.

Kernels have one thread. With more, threads that wait for each other under load take a hundred times as long, and the
contest is one of who meets no load at all.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

from benchmarks.timing.rows import Figure, Row
from plugin.machine.cpu_state import LoadWatch
from plugin.run.observe import Observed
from plugin.run.runner import run_interleaved
from plugin.run.visits import VISIT_RATIO, OpenCase, VisitPool
from plugin.samples.kernel_call import KernelCall
from plugin.samples.plan import MeasurePlan
from plugin.samples.series import MedianInterval, Series
from plugin.timers.timers import MonotonicTimer
from results.records.state_records import MachineState

ROUNDS, QUICK_ROUNDS = 12, 1
TARGET_RATIO, BUDGET_S = 0.01, 0.7
"""Our defaults."""
KERNELS = (
    "GEMV 1x1024x1024",
    "add 65536",
    "GEMM 256x256x256",
    "softmax 64x4096",
    "GEMV 1x512x2048",
    "exp 100000",
    "GEMM 16x1024x1024",
    "layer norm 32x4096",
)
REFERENCE_S, REFERENCE_SHARE = 0.02, 0.1
VISITED, ONE_STAY, RIVAL = "ours, visits", "ours, one stay", "pytest-benchmark"
CONTESTANTS = (VISITED, ONE_STAY, RIVAL, "torch blocked_autorange", "torch adaptive_autorange")

_LOAD = """
import random, sys, time
from multiprocessing import Process
def work(until):
    while time.time() < until:
        sum(i * i for i in range(1000))
source = random.Random(int(sys.argv[1]))
while True:
    time.sleep(source.uniform(0.5, 4.0))
    until = time.time() + source.uniform(0.3, 3.0)
    workers = [Process(target=work, args=(until,), daemon=True) for _ in range(int(sys.argv[2]))]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
"""


@contextmanager
def background_load(seed: int) -> Iterator[None]:
    """Use every CPU for stretches of 0.3 to 3 s, with pauses of 0.5 to 4 s, while the block runs."""
    from plugin.machine.facts import usable_cpus

    load = subprocess.Popen([sys.executable, "-c", _LOAD, str(seed), str(usable_cpus())], start_new_session=True)
    try:
        yield
    finally:
        import os
        import signal

        os.killpg(load.pid, signal.SIGKILL)
        load.wait()


@cache
def kernel(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a kernel and its operands, always the same."""
    import torch

    generator = torch.Generator().manual_seed(1)
    kind, _, size_text = name.rpartition(" ")
    sizes = [int(size) for size in size_text.split("x")]

    def operand(*shape: int) -> Any:
        return torch.rand(*shape, generator=generator)

    if kind == "add":
        return torch.add, (operand(*sizes), operand(*sizes))
    if kind == "exp":
        return torch.exp, (operand(*sizes),)
    if kind == "softmax":
        return torch.softmax, (operand(*sizes), -1)
    if kind == "layer norm":
        return torch.nn.functional.layer_norm, (operand(*sizes), (sizes[-1],))
    return torch.matmul, (operand(sizes[0], sizes[2]), operand(sizes[2], sizes[1]))


def measure(folder: Path, *, quick: bool) -> list[Row | Figure]:
    """Take the rounds; the aim is that ours has the lowest p90 error, in no more than pytest-benchmark's time."""
    import torch

    torch.set_num_threads(1)
    rounds, kernels = (QUICK_ROUNDS, KERNELS[:3]) if quick else (ROUNDS, KERNELS)
    seconds: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    medians: dict[str, dict[str, list[float]]] = {name: {each: [] for each in kernels} for name in CONTESTANTS}
    windows: dict[str, list[float]] = {each: [] for each in kernels}
    for each in kernels:  # what is compiled or loaded once is nobody's
        function, operands = kernel(each)
        function(*operands)
    with background_load(1):
        for turn in range(rounds):
            shift = turn % len(CONTESTANTS)
            for contestant in CONTESTANTS[shift:] + CONTESTANTS[:shift]:
                for each in kernels:
                    windows[each].append(reference(each))
                begin = time.perf_counter()
                for each, median_s in estimates(contestant, kernels).items():
                    medians[contestant][each].append(median_s)
                seconds[contestant].append((time.perf_counter() - begin) / len(kernels))
            print(f"time_to_precision: round {turn + 1} of {rounds}", file=sys.stderr, flush=True)
    truths = {each: quantile(values, REFERENCE_SHARE) for each, values in windows.items()}
    errors = {
        name: [abs(value / truths[each] - 1) for each in kernels for value in medians[name][each]]
        for name in CONTESTANTS
    }
    return figures(errors, {name: median(values) for name, values in seconds.items()}, rounds)


def figures(errors: dict[str, list[float]], seconds: dict[str, float], rounds: int) -> list[Row | Figure]:
    """Return a line per contestant and the time beside pytest-benchmark's."""
    lowest = min(quantile(errors[name], 0.9) for name in CONTESTANTS if name not in (VISITED, ONE_STAY))
    lines: list[Row | Figure] = [
        Figure(
            f"p90 error, {name}",
            quantile(errors[name], 0.9),
            rounds,
            "share",
            None,
            lowest if name == VISITED else None,
            note=f"median error {median(errors[name]):.1%}, {seconds[name]:.2f} s a kernel",
        )
        for name in CONTESTANTS
    ]
    return [
        *lines,
        Row("seconds a kernel, ours in visits", seconds[VISITED], rounds, seconds[RIVAL], RIVAL, seconds[RIVAL]),
    ]


def quantile(values: list[float], share: float) -> float:
    """Return a quantile of a list: the value at that rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def reference(name: str) -> float:
    """Return the median of a short window of single calls."""
    function, operands = kernel(name)
    timer, samples = MonotonicTimer(), []
    end = time.perf_counter() + REFERENCE_S
    while time.perf_counter() < end or len(samples) < 3:
        samples.append(timer.sample(function, [operands] * 4))
    return median(samples)


def estimates(contestant: str, kernels: tuple[str, ...]) -> dict[str, float]:
    """Let one contestant measure every kernel."""
    if contestant == VISITED:
        return visited(kernels)
    if contestant == ONE_STAY:
        return {each: one_stay(each) for each in kernels}
    if contestant == RIVAL:
        return {each: by_pytest_benchmark(each) for each in kernels}
    return {each: by_torch(each, contestant.split()[1]) for each in kernels}


class MedianPool(VisitPool):
    """The pool of a run without a store: keeps the medians."""

    def __init__(self) -> None:
        options = SimpleNamespace(power=None, attribution="none", timeout_s=60.0)
        instruments = SimpleNamespace(free_bytes=lambda: None)
        super().__init__(SimpleNamespace(options=options, instruments=instruments))  # type: ignore[arg-type]
        self.medians: dict[str, float] = {}

    def _complete(self, case: OpenCase) -> None:
        self._cases.remove(case)
        self.medians[case.pending.name] = case.completed().timing.stats.median_s


def visited(kernels: tuple[str, ...]) -> dict[str, float]:
    """Measure as a run of our own cases does: a first visit each, visits to the others before it."""
    pool, timer, plan = MedianPool(), MonotonicTimer(), MeasurePlan()
    for each in kernels:
        pool.pay()
        opened: dict[str, Series] = {}
        rule = MedianInterval(target_ratio=TARGET_RATIO, max_seconds=BUDGET_S * VISIT_RATIO)
        load = LoadWatch()
        with load:
            timing = run_interleaved({"": (call_of(each), timer, rule)}, plan, opened=opened)[""]
        observed = Observed(timing, (), MachineState(), load.flags())
        pending: Any = SimpleNamespace(name=each, extra={})
        case = OpenCase(
            pending, observed, opened[""], timer, plan, nullcontext, BUDGET_S, TARGET_RATIO, opened[""].elapsed_s
        )
        case.record = case  # type: ignore[assignment]
        first_visit = pool.keep(case)
        pool.medians.setdefault(each, first_visit.timing.stats.median_s)
    pool.close()
    return pool.medians


def call_of(name: str) -> KernelCall:
    """Return a kernel as our runner takes it."""
    function, operands = kernel(name)
    return KernelCall(function, lambda _: operands, False)


def one_stay(name: str) -> float:
    """Measure with our rule inside one test."""
    rule = MedianInterval(target_ratio=TARGET_RATIO, max_seconds=BUDGET_S)
    timing = run_interleaved({"": (call_of(name), MonotonicTimer(), rule)}, MeasurePlan())[""]
    return timing.stats.median_s


def by_pytest_benchmark(name: str) -> float:
    """Run its fixture with its defaults: rounds for a second, at least five, calibrated to the clock's precision."""
    from pytest_benchmark.fixture import BenchmarkFixture
    from pytest_benchmark.logger import Logger
    from pytest_benchmark.utils import NameWrapper

    function, operands = kernel(name)
    node = SimpleNamespace(name=name, _nodeid=name, keywords={}, nodeid=name)
    added: list[Any] = []
    fixture = BenchmarkFixture(
        node,
        add_stats=added.append,
        logger=Logger(level=Logger.QUIET),
        warner=None,
        disabled=False,
        disable_gc=False,
        min_rounds=5,
        min_time=0.000005,
        max_time=1.0,
        precision=None,
        confidence=0.99,
        timer=NameWrapper(time.perf_counter),
        calibration_precision=10,
        warmup=False,
        warmup_iterations=100000,
        cprofile=None,
        cprofile_loops=None,
        cprofile_dump=None,
    )
    fixture(function, *operands)
    return float(fixture.stats.stats.median)


def by_torch(name: str, method: str) -> float:
    """Run `torch.utils.benchmark.Timer` with the method's defaults."""
    from torch.utils.benchmark import Timer

    function, operands = kernel(name)
    names = ", ".join(f"x{index}" for index in range(len(operands)))
    scope = {"kernel": function, **{f"x{index}": value for index, value in enumerate(operands)}}
    timer = Timer(f"kernel({names})", globals=scope)
    return float(getattr(timer, method)().median)
