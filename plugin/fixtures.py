"""The `roofline` fixture: declare what is measured, measure it, compare kernels. One instance per test."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from plugin import benchmark_bridge
from plugin.correctness import Check
from plugin.kernel_call import make_kernel_call
from plugin.load import LoadWatch
from plugin.machine import find_machine
from plugin.pending import Pending
from plugin.runner import CaseTiming, KernelCall, run_case, run_interleaved
from plugin.session import BenchSession
from plugin.telemetry import MIN_POWER_WINDOW_S, PowerReading, Telemetry
from plugin.timers import Timer
from results.flags import DOUBTFUL_FLAGS
from results.records import Measurement, Record
from roofline_model.case import Case
from roofline_model.cost import OpCost
from roofline_model.errors import InvalidValueError, UnsupportedError
from roofline_model.hardware import Device
from roofline_model.operators import Operator
from roofline_model.roofline import Prediction, predict

_MARKER_KEYS = ("work", "name", "tolerance")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `measure` returns: the record's measurement and prediction, for a test's own assertions."""

    measurement: Measurement
    prediction: Prediction | None

    @property
    def median_s(self) -> float:
        """Median seconds per call."""
        return self.measurement.median_s

    @property
    def doubts(self) -> tuple[str, ...]:
        """Flags that put the time in doubt (contended, noisy, drift, …); empty for a time to rely on."""
        return tuple(flag for flag in self.measurement.flags if flag in DOUBTFUL_FLAGS)

    @property
    def error_ratio(self) -> float | None:
        """(predicted − measured) / measured, or None without a prediction."""
        if self.prediction is None:
            return None
        return (self.prediction.time_s - self.median_s) / self.median_s

    @property
    def roof_ratio(self) -> float | None:
        """Share of the roof reached: ideal time over measured time."""
        return None if self.prediction is None else self.prediction.time_s / self.median_s


class RooflineFixture:
    """See `measure`; `declare` first when a case may have to be skipped, so that its prediction is stored all the same."""

    def __init__(self, session: BenchSession, request: pytest.FixtureRequest, benchmark: Any) -> None:
        self._session = session
        self._request = request
        self._benchmark = benchmark
        self._defaults = _marker_defaults(request.node)
        self.pending: list[Pending] = []

    @property
    def hardware(self) -> Device:
        """The chip that predictions are for."""
        return self._session.target.hardware

    @property
    def torch_device(self) -> str:
        """Where operands are built and kernels run: `cuda`, or `cpu` on a machine without an NVIDIA device.

        A test that builds its tensors here works with `--hw` of any chip: it reaches `measure`, which predicts and skips.
        """
        return "cuda" if self._session.target.device == "cuda" and find_machine().kind == "cuda" else "cpu"

    @property
    def may_measure(self) -> bool:
        """Whether this machine measures in this session, or only predicts."""
        return self._session.target.can_measure and not self._session.options.predict_only

    def declare(
        self,
        case: Case,
        work: Operator | OpCost | None = None,
        *,
        unavailable: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Prediction | None:
        """Name the case and its work before anything is built; returns the prediction.

        `unavailable` says why the chip of --hw has no such kernel: the case is then skipped with that reason, its
        prediction stored. `extra` (JSON values) is stored with the record, e.g. the layer a shape comes from.
        Skips the test, with the prediction stored, when this machine is not the chip of --hw or only predictions are wanted.
        """
        try:
            json.dumps(dict(extra or {}), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidValueError(f"declare: extra must hold JSON values only: {error}") from None
        pending = Pending(case, None, extra=dict(extra or {}))
        self.pending.append(pending)
        with _skipping(pending):
            pending.prediction = self._predict(work, case)
            if unavailable is not None:
                raise UnsupportedError(unavailable)
        if not self.may_measure:
            pending.status = "predicted"
            pending.reason = (
                "--roofline-predict-only" if self._session.options.predict_only else self._session.target.reason
            )
            pytest.skip(f"predicted only: {pending.reason}")
        return pending.prediction

    def measure(
        self,
        fn: Callable[..., Any],
        *,
        args: Sequence[Any] | None = None,
        make_args: Callable[[int], Sequence[Any]] | None = None,
        work: Operator | OpCost | None = None,
        reference: Any = None,
        check: Check | None = None,
        tolerance: float | None = None,
        mutates: Sequence[int] = (),
        setup: Callable[[], Any] | None = None,
        name: str | None = None,
    ) -> Outcome:
        """Check `fn`, time it, and store the result beside its prediction.

        `make_args(i)` returns the arguments of operand set i (equal data in distinct memory): with it the case is cold,
        because the sets are rotated past the cache. `args` (or nothing) gives one set: the case is warm, and says so.
        `work` is an operator of `roofline_model` or a plain `OpCost`; without it nothing is predicted. `reference` is the
        expected output or a callable that computes it from the same arguments; `check(output)` returns the relative error
        instead. `mutates` lists the positions of arguments that `fn` overwrites; when it returns nothing, they are what is
        checked. The first call is timed apart (`first_call_s`): compilation and autotuning never reach the samples.
        Raises `WrongResultError` when the result is wrong, `InvalidValueError` for arguments that contradict each other.
        """
        __tracebackhide__ = True
        pending = self._current(work, name, make_args is not None)
        call = make_kernel_call(
            fn, args=args, make_args=make_args, reference=reference, check=check,
            tolerance=self._tolerance(tolerance), mutates=mutates, setup=setup,
        )  # fmt: skip
        with _skipping(pending):
            timer = self._timer(pending)
        cold = pending.case.cache == "cold"
        with _skipping(pending), Telemetry(self._session.nvml) as telemetry, LoadWatch() as load:
            timing = run_case(
                call,
                timer,
                self._session.make_rule(),
                cold=cold,
                cache_bytes=self._session.cache_bytes(),
                free_bytes=self._session.free_bytes(),
            )
        window = self._power_window(call, timer, timing)
        measurement = pending.measured(self._session, timing, timer, telemetry.samples, window, load.flags())
        benchmark_bridge.feed(self._benchmark, self._request.node, timing.samples_s)
        return Outcome(measurement, pending.prediction)

    def compare(
        self,
        kernels: Mapping[str, Callable[..., Any]],
        *,
        args: Sequence[Any] | None = None,
        make_args: Callable[[int], Sequence[Any]] | None = None,
        work: Operator | OpCost | None = None,
        reference: Any = None,
        check: Check | None = None,
        tolerance: float | None = None,
        mutates: Sequence[int] = (),
        name: str | None = None,
    ) -> dict[str, Outcome]:
        """Measure several kernels on the same work, sample by sample in turn, each stored as a case of its own.

        The keys name the kernels. Each is checked like in `measure`; the first wrong one fails the test.
        """
        __tracebackhide__ = True
        if len(kernels) < 2:
            raise InvalidValueError(f"compare needs at least two kernels, got {len(kernels)}; use measure for one")
        prefix = f"{name}." if name else ""
        if len({_kernel_name(f"{prefix}{label}") for label in kernels}) < len(kernels):
            raise InvalidValueError(
                f"compare: the names {', '.join(map(repr, kernels))} are the same once stored; change one"
            )
        entries = {
            label: self._current(work, f"{prefix}{label}", make_args is not None, last=False) for label in kernels
        }
        members = list(entries.values())
        self._stop_unless_measuring(members)
        free_bytes = self._session.free_bytes()
        with _skipping(*members):
            timers = {label: self._timer(entry) for label, entry in entries.items()}
        calls = {
            label: make_kernel_call(
                fn,
                args=args,
                make_args=make_args,
                reference=reference,
                check=check,
                tolerance=self._tolerance(tolerance),
                mutates=mutates,
                label=label,
            )
            for label, fn in kernels.items()
        }
        with _skipping(*members), Telemetry(self._session.nvml) as telemetry, LoadWatch() as load:
            timings = run_interleaved(
                {label: (calls[label], timers[label], self._session.make_rule()) for label in kernels},
                cold=members[0].case.cache == "cold",
                cache_bytes=self._session.cache_bytes(),
                free_bytes=None if free_bytes is None else free_bytes / len(kernels),  # each holds operands of its own
            )
        outcomes = {}
        for label, entry in entries.items():
            measurement = entry.measured(
                self._session, timings[label], timers[label], telemetry.samples, None, load.flags()
            )
            outcomes[label] = Outcome(measurement, entry.prediction)
        benchmark_bridge.feed(self._benchmark, self._request.node, next(iter(timings.values())).samples_s)
        return outcomes

    # Steps ---------------------------------------------------------------------------------------------------

    def _current(
        self, work: Operator | OpCost | None, name: str | None, can_rotate: bool, last: bool = True
    ) -> Pending:
        """Return the case to measure: the one declared, or one made from the work and the test's name."""
        if last and self.pending and not self.pending[-1].status and work is None and name is None:
            return self.pending[-1]
        work = work if work is not None else self._defaults.get("work")
        label = name or self._defaults.get("name") or self._request.node.name
        kernel = _kernel_name(str(label))
        cache = "cold" if can_rotate and self._session.options.cache != "warm" else "warm"
        custom = Case("custom", (), (), kernel, cache)
        case = work.case(kernel, cache=cache) if isinstance(work, Operator) else custom
        known = next((entry for entry in self.pending if entry.case.case_key == case.case_key), None)
        if known is not None and not known.status:
            return known  # declared, and now measured
        if known is not None:
            raise InvalidValueError(f"{label!r} was measured in this test already; give each measurement its own name=")
        if last:
            self.declare(case, work)
            return self.pending[-1]
        entry = Pending(case, None)
        self.pending.append(entry)
        with _skipping(entry):
            entry.prediction = self._predict(work, case)
        return entry

    def _stop_unless_measuring(self, entries: Sequence[Pending]) -> None:
        if self.may_measure:
            return
        reason = "--roofline-predict-only" if self._session.options.predict_only else self._session.target.reason
        for entry in entries:
            entry.status, entry.reason = "predicted", reason
        pytest.skip(f"predicted only: {reason}")

    def _predict(self, work: Operator | OpCost | None, case: Case) -> Prediction | None:
        if work is not None and not isinstance(work, Operator | OpCost):
            raise InvalidValueError(
                f"work must be an operator of roofline_model or an OpCost, got {type(work).__name__}; e.g. gemm(1, 4096, 4096)"
            )
        return None if work is None else predict(work, self._session.target.hardware, cache=case.cache)

    def _timer(self, pending: Pending) -> Timer:
        timer = self._session.make_timer()
        timer.begin_case(pending.case.case_key, pending.prediction.time_s if pending.prediction else None)
        return timer

    def _tolerance(self, given: float | None) -> float | None:
        return given if given is not None else self._defaults.get("tolerance")

    def _power_window(self, call: KernelCall, timer: Timer, timing: CaseTiming) -> PowerReading | None:
        """Repeat the kernel alone for long enough that its power means something."""
        if not self._session.options.power or self._session.nvml is None or not timer.runs_kernel:
            return None
        schedule = timing.rotation.schedule(0, min(20_000, max(1, int(0.2 / timing.stats.median_s))))
        calls = 0
        with Telemetry(self._session.nvml) as telemetry:
            deadline = time.perf_counter() + MIN_POWER_WINDOW_S + 0.2
            while time.perf_counter() < deadline:
                for args in schedule:  # not through the timer: its blocking kernel would be in the window
                    call.kernel(*args)
                timer.synchronize()
                calls += len(schedule)
        return telemetry.power(calls)

    def records(self, test_id: str, failure: tuple[str, str] | None) -> list[Record]:
        """Return the records of this test; `failure` is the (status, reason) of cases that never got a measurement."""
        found = [entry.record(self._session, test_id, failure) for entry in self.pending]
        return [record for record in found if record is not None]


def _kernel_name(label: str) -> str:
    """Return a name that may stand in a test id; raises `InvalidValueError` when nothing of it may."""
    kernel = re.sub(r"[^A-Za-z0-9._]+", "_", label).strip("_")[:120]
    if not kernel:
        raise InvalidValueError(f"kernel name {label[:60]!r} has no letter or digit of ASCII; give another name=")
    return kernel


@contextlib.contextmanager
def _skipping(*pending: Pending) -> Iterator[None]:
    """Turn what this machine or chip cannot do into skipped cases with their reason."""
    try:
        yield
    except UnsupportedError as error:
        for entry in pending:
            entry.status, entry.reason = "skipped", str(error)
        pytest.skip(str(error))


def _marker_defaults(node: pytest.Item) -> dict[str, Any]:
    marker = node.get_closest_marker("roofline")
    if marker is None:
        return {}
    if marker.args:
        raise InvalidValueError("the roofline marker takes keyword arguments only: work=, name=, tolerance=")
    for key in marker.kwargs:
        if key not in _MARKER_KEYS:
            raise InvalidValueError(f"the roofline marker has no argument {key!r}; known: {', '.join(_MARKER_KEYS)}")
    return dict(marker.kwargs)
