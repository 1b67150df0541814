"""The `roofline` fixture: declare what is measured, measure it, compare kernels; one instance per test, and what it
returns.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import FrameType
from typing import Any

import pytest

from plugin.machine.facts import find_machine
from plugin.run import benchmark_bridge
from plugin.run.instruments import Instruments
from plugin.run.later_calls import cleans_up, is_enclosed, is_same, program_state
from plugin.run.observe import observe, with_attribution, with_energy
from plugin.run.pending import Pending
from plugin.run.session import BenchSession
from plugin.run.visits import VISIT_RATIO, VISITS, OpenCase, Settings
from plugin.samples.correctness import Check
from plugin.samples.kernel_call import KernelCall, make_kernel_call
from plugin.samples.plan import MeasurePlan
from plugin.samples.series import MeasuredKernel, Series
from plugin.timers.profiler import is_profiled, profile_one_call
from plugin.timers.timers import Timer
from results.records.flags import DOUBTFUL_FLAGS
from results.records.records import Measurement, Record
from roofline_model.chips.hardware import Device, doubt_of_ideals
from roofline_model.core.cost import OpCost
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.finding import Finding, advice_text, reason_text
from roofline_model.expected.predict import has_gpu_model, predict_expected
from roofline_model.expected.prediction import ExpectedPrediction
from roofline_model.ideal.roofline import Prediction, error_ratio, predict
from roofline_model.kernels.described_kernels import why_not_described
from roofline_model.models.model_pass import ModelPass
from roofline_model.operators.case import Case
from roofline_model.operators.product import Operator


class RooflineFixture:
    """Measures kernels; see `measure`. Call `declare` first when a case may be skipped, so that its prediction is
    stored.
    """

    def __init__(self, session: BenchSession, request: pytest.FixtureRequest, benchmark: Any) -> None:
        self._session = session
        self._request = request
        self._benchmark = benchmark
        self._defaults = marker_defaults(request.node)
        self._threshold = threshold_facts(self._defaults)
        self._state_before = program_state(getattr(request.node, "function", None))
        self.pending: list[Pending] = []

    @property
    def hardware(self) -> Device:
        """The chip that predictions are for."""
        return self._session.target.hardware

    @property
    def torch_device(self) -> str:
        """Where operands are built and kernels run: `cuda`, or `cpu` on a machine without an NVIDIA device.

        A test that builds its tensors here works with `--hw` of any chip: it reaches `measure`, which predicts and
        skips.
        """
        return "cuda" if self._session.target.device == "cuda" and find_machine().kind == "cuda" else "cpu"

    @property
    def free_bytes(self) -> float | None:
        """Free memory of the measured device, bytes; None where unknown."""
        return self._instruments.free_bytes()

    @property
    def may_measure(self) -> bool:
        """Whether this machine measures in this session, or only predicts."""
        return not self._why_not

    @property
    def _why_not(self) -> str:
        """Why nothing is measured in this session; empty where it is."""
        options, target = self._session.options, self._session.target
        if options.predict_only:
            return "--roofline-predict-only"
        if options.profiler is not None:
            return f"--roofline-profile {options.profiler} prints commands and measures nothing"
        return "" if target.why_not is None else advice_text(target.why_not)

    def declare(
        self,
        case: Case,
        work: Work | None = None,
        *,
        unavailable: Finding | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Prediction | None:
        """Name the case and its work before anything is built; returns the prediction.

        `unavailable` says why the chip of --hw has no such kernel: the case is then skipped with that reason, its
        prediction stored. `extra` (JSON values) is stored with the record, e.g. the layer a shape comes from. Skips the
        test, with the prediction stored, when this machine is not the chip of --hw or only predictions are wanted.
        """
        pending = Pending(case, None, extra=json_values("declare: extra", extra or {}))
        self.pending.append(pending)
        with _skipping(pending):
            self._predict(pending, work)
            if unavailable is not None:
                raise UnsupportedError(reason_text(unavailable), unavailable)
        self._stop_unless_measuring([pending])
        self._session.declared(pending)  # building its operands may already end a worker
        return pending.prediction

    def keep(self, *facts: Mapping[str, Any], **more: Any) -> None:
        """Store facts (JSON values) with the declared case that were found after it was declared; later ones replace
        earlier.

        Raises `InvalidValueError` before `declare`, and for what is not JSON value.
        """
        if not self.pending:
            raise InvalidValueError("keep: nothing is declared yet; call declare(case, work) first")
        for fact in (*facts, more):
            self.pending[-1].extra |= json_values("keep", fact)

    def refine(self, work: ModelPass) -> None:
        """Replace the expected prediction of the declared case by that of the same pass with more known about it.

        For what can only be found with the model at hand (the framework's own time); call it before `measure`. Nothing
        is predicted where the machine was busy when its ceilings were measured.
        """
        if not self.pending or self.pending[-1].status:
            raise InvalidValueError("refine: no declared case waits to be measured; call declare(case, work) first")
        if doubt_of_ideals(self.hardware) is not None:
            return
        self.pending[-1].prediction = self.pending[-1].prediction or work.ideal(self.hardware)
        self.pending[-1].expected = work.expected(self.hardware)

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
        again: Settings | bool = True,
    ) -> Outcome:
        """Check `fn`, time it, and store the result beside its prediction.

        - `make_args(i)`: returns the arguments of operand set i, in memory of their own; their data may differ where
          `reference` is a function. The case is then cold, because calls rotate the sets past the cache. `args` gives
          one set: the case is warm (or flushed, with --roofline-cache flushed).
        - `work`: an operator of `roofline_model` or a plain `OpCost`; without it nothing is predicted.
        - `reference`: the expected output of set 0, or a callable that computes it from the same arguments, which is
          better: it also tells how large the terms are that the output is made of. The output may not be narrower than
          `work` says, or else the arguments and the reference. `check(output)` returns the relative error instead.
          Later calls are held against a checked output, and array arguments are changed for a moment after timing, to
          see whether the result follows.
        - `tolerance`: relative error (ratio) that all numbers together may have, and a single one a few times
          (`plugin.samples.correctness`). Default: what rounding explains. Integers are equal in any case.
        - `again`: on a CPU a part of the samples is taken later, between those of other cases. The stored record and
          pytest-benchmark's row get them all, `Outcome` has the first visit. True: where nothing that the kernel may
          need ends with the test (`plugin.run.later_calls`). A context to enter (`contextlib.nullcontext`) says that
          the kernel may be called after the test inside it. False: all samples lie in the test.
        - `mutates`: positions of arguments that `fn` overwrites; when it returns nothing, they are checked.

        Times are seconds per call. The first call is timed apart (`first_call_s`), so compilation and autotuning never
        reach the samples. Raises `WrongResultError` when the result is wrong, `InvalidValueError` for arguments that
        contradict each other.
        """
        __tracebackhide__ = True
        pending = self._current(work, name, make_args is not None)
        call = make_kernel_call(
            fn,
            args=args,
            make_args=make_args,
            reference=reference,
            check=check,
            tolerance=self._tolerance(tolerance),
            work=pending.work,
            mutates=mutates,
            setup=setup,
        )
        plan = self._plan([pending], call.can_rotate)
        timer = self._timer(pending)
        if is_profiled():
            arguments = call.make_args(0)
            call.run_setup()
            profile_one_call(lambda: call.kernel(*arguments), timer.synchronize)
            pytest.skip("run under a profiler: one call was made for it, nothing is timed")
        pool, opened = self._session.visits, None
        may_keep = again is not False and setup is None and not mutates and pool.may_keep(timer, plan)
        if may_keep and (again is not True or self._may_call_later(sys._getframe(1))):
            pending.visit_count, opened = VISITS, dict[str, Series]()
        state = partial(program_state, fn) if opened is not None and again is True else None
        test_state = {} if state is None else state()
        pool.pay()
        with _skipping(pending):
            kernel = self._observe([pending], {"": (call, timer)}, plan, opened)[""]
            if self._session.options.power:
                kernel = with_energy(kernel, call, timer, plan, self._instruments)
            if self._session.options.attribution == "cupti" and timer.runs_kernel:
                kernel = with_attribution(kernel, call, timer, plan)
        if opened is not None:
            settings = contextlib.nullcontext if isinstance(again, bool) else again
            case = OpenCase(
                pending=pending,
                first=kernel,
                series=opened[""],
                timer=timer,
                plan=plan,
                settings=settings,
                budget_s=self._session.options.max_seconds,
                target_ratio=self._session.options.target_ci_ratio,
                first_s=opened[""].elapsed_s,
                state=state,
                test_state=test_state,
            )
            kernel = pool.keep(case)
        measurement = pending.measured(self._session, kernel, timer, plan)
        self._session.declared(pending)  # measured: a crash later in this test does not cost it
        row = benchmark_bridge.feed(self._benchmark, self._request.node, measurement.samples_s)
        self._session.benchmark_rows[pending.record_id] = row
        return Outcome(measurement, pending.prediction, pending.expected)

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
        if len({kernel_name(f"{prefix}{label}") for label in kernels}) < len(kernels):
            raise InvalidValueError(
                f"compare: the names {', '.join(map(repr, kernels))} are the same once stored; change one"
            )
        entries = {
            label: self._current(work, f"{prefix}{label}", make_args is not None, last=False) for label in kernels
        }
        members = list(entries.values())
        self._stop_unless_measuring(members)
        plan = self._plan(members, make_args is not None, share=len(kernels))  # each holds operands of its own
        contestants = {
            label: (
                make_kernel_call(
                    fn,
                    args=args,
                    make_args=make_args,
                    reference=reference,
                    check=check,
                    tolerance=self._tolerance(tolerance),
                    work=entries[label].work,
                    mutates=mutates,
                    label=label,
                ),
                self._timer(entries[label]),
            )
            for label, fn in kernels.items()
        }
        with _skipping(*members):
            kernels_measured = self._observe(members, contestants, plan)
        outcomes = {}
        for label, entry in entries.items():
            measurement = entry.measured(self._session, kernels_measured[label], contestants[label][1], plan)
            self._session.declared(entry)
            outcomes[label] = Outcome(measurement, entry.prediction, entry.expected)
        first = next(iter(outcomes.values())).measurement
        benchmark_bridge.feed(self._benchmark, self._request.node, first.samples_s)
        return outcomes

    # Steps ---------------------------------------------------------------------------------------------------

    @property
    def _instruments(self) -> Instruments:
        return self._session.instruments

    def _plan(self, members: Sequence[Pending], can_rotate: bool, share: int = 1) -> MeasurePlan:
        """Return how the members are timed, all alike; skips the test where this machine cannot do it."""
        with _skipping(*members):
            plan = self._instruments.plan(members[0].case, can_rotate)
        free_bytes = None if plan.free_bytes is None else plan.free_bytes / share
        return replace(plan, free_bytes=free_bytes, wants_read_bytes=all(each.prediction is None for each in members))

    def _may_call_later(self, frame: FrameType) -> bool:
        """Return whether a kernel may be called after this test though the test does not say so; `frame` calls
        `measure`.
        """
        item = self._request.node
        test = getattr(item, "function", None)
        is_free = not cleans_up(item) and not is_enclosed(frame, test)
        return is_free and is_same(self._state_before, program_state(test))

    def _observe(
        self,
        members: Sequence[Pending],
        kernels: Mapping[str, tuple[KernelCall, Timer]],
        plan: MeasurePlan,
        opened: dict[str, Series] | None = None,
    ) -> dict[str, MeasuredKernel]:
        """Look at the canary when it is due, then measure."""
        __tracebackhide__ = True
        for pending in members:
            self._session.declared(pending)
        if self._session.canary is not None:
            self._session.canary.before_case()
        if self._session.options.power:
            _ = self._instruments.idle_power_w  # read while the device has not worked yet
        share = 1.0 if opened is None else VISIT_RATIO
        return observe(members[0].case.id, kernels, plan, self._instruments, share=share, opened=opened)

    def _current(
        self, work: Operator | OpCost | None, name: str | None, can_rotate: bool, last: bool = True
    ) -> Pending:
        """Return the case to measure: the one declared, or one made from the work and the test's name."""
        if last and self.pending and not self.pending[-1].status and work is None and name is None:
            return self.pending[-1]
        work = work if work is not None else self._defaults.get("work")
        label = name or self._defaults.get("name") or self._request.node.name
        kernel = kernel_name(str(label))
        cache, mode = self._state(can_rotate), self._mode()
        custom = Case("custom", (), (), kernel, cache, mode)
        case = work.case(kernel, cache=cache, mode=mode) if isinstance(work, Operator) else custom
        pending = next((entry for entry in self.pending if entry.case.case_key == case.case_key), None)
        if pending is not None and not pending.status:
            return pending  # declared, and now measured
        if pending is not None:
            raise InvalidValueError(f"{label!r} was measured in this test already; give each measurement its own name=")
        if last:
            self.declare(case, work)
            return self.pending[-1]
        entry = Pending(case, None)
        self.pending.append(entry)
        with _skipping(entry):
            self._predict(entry, work)
        return entry

    def _state(self, can_rotate: bool) -> str:
        """Return the cache state of a case made here: what was asked for, as far as the arguments allow it."""
        cache_option = self._session.options.cache
        if cache_option == "both":
            raise InvalidValueError(
                "one measure() is one measurement: give --roofline-cache cold, warm or flushed, and run pytest once "
                "for each"
            )
        if cache_option == "flushed":
            return "flushed"
        return "cold" if can_rotate and cache_option != "warm" else "warm"

    def _mode(self) -> str:
        modes = self._session.options.modes
        if len(modes) > 1:
            raise InvalidValueError(
                f"one measure() is one measurement: give one --roofline-mode, not {','.join(modes)}, and run pytest "
                "once for each"
            )
        return modes[0]

    def _stop_unless_measuring(self, entries: Sequence[Pending]) -> None:
        reason = self._why_not
        if not reason:
            return
        for entry in entries:
            entry.status, entry.reason = "predicted", reason
        pytest.skip(f"predicted only: {reason}")

    def _predict(self, pending: Pending, work: Work | None) -> None:
        """Give a case its ideal prediction, and the expected one where a model or this machine's own constants know
        it; none where the machine was busy when its ceilings were measured.
        """
        pending.work = work
        if doubt_of_ideals(self.hardware) is not None:
            return
        if isinstance(work, ModelPass):
            pending.prediction, pending.expected = work.ideal(self.hardware), work.expected(self.hardware)
            return
        if work is not None and not isinstance(work, Operator | OpCost):
            raise InvalidValueError(
                f"work must be an operator of roofline_model or an OpCost, got {type(work).__name__}; e.g. gemm(1, "
                "4096, 4096)"
            )
        if work is None:
            return
        chip, cache, kernel = self._session.target.hardware, pending.case.cache, pending.case.kernel
        pending.prediction = predict(work, chip, cache=cache)
        pending.expected = predict_expected(work, chip, cache=cache, kernel=kernel)
        if pending.expected is None and has_gpu_model(chip):
            pending.why_no_expected = why_not_described(pending.case.op, kernel)

    def _timer(self, pending: Pending) -> Timer:
        with _skipping(pending):
            case = pending.case
            timer = self._instruments.make_timer(case.mode, f"{case.op} {case.id}")
            timer.begin_case(case.case_key, pending.prediction.time_s if pending.prediction else None)
        return timer

    def _tolerance(self, given: float | None) -> float | None:
        return given if given is not None else self._defaults.get("tolerance")

    def records(self, test_id: str, failure: tuple[str, str] | None) -> list[Record]:
        """Return the records of this test; `failure` is the (status, reason) of cases that never got a measurement."""
        for entry in self.pending:
            entry.extra |= self._threshold
        pending_records = [entry.record(self._session, test_id, failure) for entry in self.pending]
        return [record for record in pending_records if record is not None]


@contextlib.contextmanager
def _skipping(*pending: Pending) -> Iterator[None]:
    """Turn what this machine or chip cannot do into skipped cases with their reason."""
    try:
        yield
    except UnsupportedError as error:
        for entry in pending:
            entry.status, entry.reason = "skipped", str(error)
        pytest.skip(str(error))


Work = Operator | OpCost | ModelPass
"""What a case does: an operator, a plain cost, or a whole pass of a model."""

_MARKER_KEYS = ("work", "name", "tolerance", "threshold")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `measure` returns: the record's measurement and predictions, for a test's own assertions."""

    measurement: Measurement
    prediction: Prediction | None
    """The ideal time."""
    expected: ExpectedPrediction | None = None
    """The time of a good kernel; None where no model knows one: without `work`, for a plain `OpCost`, on a CPU that
    `roofline calibrate` has not timed, and of a GPU kernel of bench_cases that no constants describe.
    """

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
        """(ideal − measured) / measured; None without an ideal time."""
        return None if self.prediction is None else error_ratio(self.prediction.time_s, self.median_s)

    @property
    def expected_error_ratio(self) -> float | None:
        """(expected − measured) / measured: −0.5 for a kernel that takes twice its expected time. None without one."""
        return None if self.expected is None else error_ratio(self.expected.time_s, self.median_s)

    @property
    def roof_ratio(self) -> float | None:
        """Share of the roof reached: ideal time over measured time."""
        return None if self.prediction is None else self.prediction.time_s / self.median_s


def json_values(where: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts as a dict of their own; raises `InvalidValueError` beginning with `where` for what JSON cannot
    hold.
    """
    try:
        json.dumps(dict(facts), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidValueError(f"{where} must hold JSON values only: {error}") from None
    return dict(facts)


def kernel_name(label: str) -> str:
    """Return a name that may stand in a test id; raises `InvalidValueError` when nothing of it may."""
    kernel = re.sub(r"[^A-Za-z0-9._]+", "_", label).strip("_")[:120]
    if not kernel:
        raise InvalidValueError(f"kernel name {label[:60]!r} has no letter or digit of ASCII; give another name=")
    return kernel


def marker_defaults(node: pytest.Item) -> dict[str, Any]:
    """Return the arguments of a test's `roofline` marker; raises `InvalidValueError` for one that it does not have."""
    marker = node.get_closest_marker("roofline")
    if marker is None:
        return {}
    if marker.args:
        raise InvalidValueError(
            "the roofline marker takes keyword arguments only: work=, name=, tolerance=, threshold="
        )
    for key in marker.kwargs:
        if key not in _MARKER_KEYS:
            raise InvalidValueError(f"the roofline marker has no argument {key!r}; known: {', '.join(_MARKER_KEYS)}")
    return dict(marker.kwargs)


def threshold_facts(defaults: Mapping[str, Any]) -> dict[str, float]:
    """Return the facts that a marker's `threshold` adds to each record of the test; empty without one.

    `0.05` or `"5%"`: the smallest change of this case's time that counts in a diff. Raises `InvalidValueError` for
    anything else.
    """
    value = defaults.get("threshold")
    if value is None:
        return {}
    text = value.strip() if isinstance(value, str) else ""
    if re.fullmatch(r"[0-9]{1,2}(\.[0-9]{1,6})? ?%", text):
        value = float(text.rstrip("% ")) / 100
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise InvalidValueError(
            "the roofline marker's threshold must be a share such as 0.05, or a text such as '5%', got "
            f"{str(value)[:40]!r}"
        )
    return {"threshold_ratio": float(value)}
