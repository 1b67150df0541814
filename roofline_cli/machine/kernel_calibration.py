"""The second half of `roofline calibrate`: time every kernel at a few sizes.

The workloads run exactly as `pytest bench_cases` runs them, in a process and a database of their own; only cases that
passed their check of correctness count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline_cli.shared.measuring import run_workloads, workload_command
from roofline_model.core.errors import RooflineError
from roofline_model.core.units import counted
from roofline_model.core.whole_file import held_folder

if TYPE_CHECKING:
    import pandas

    from bench_cases.selection import Family
    from roofline_model.chips.curve import TimedCall

SHAPES = "calibration"
DISTURBED_SHARE = 0.25
"""Share of the cases that carry a flag of the CPUs' load from which the whole look counts as disturbed."""
SECONDS_PER_CASE = 0.3
"""About: operands, check of correctness and the fewest samples cost more than the sampling."""
LATE_FACTOR, START_S = 3.0, 60.0
"""From so many times the time it should take, and what Python and torch take to start, it is given up."""
_LEAST_SAMPLING_S, _MOST_SAMPLING_S = 0.04, 1.0
_WORDS: dict[Family, str] = {
    "products": "test_gemv or test_gemm",
    "attention": "test_attention",
    "operators": "test_operators",
}
"""Family → its files of `bench_cases`, for `-k`."""


@dataclass(frozen=True, slots=True)
class KernelLook:
    """What one look at a CPU's kernels found."""

    calls: Sequence[TimedCall]
    failed: tuple[str, ...] = ()
    """The cases whose check failed: they were not timed."""
    disturbed_by: tuple[str, ...] = ()
    """contended, stolen: other work had the CPUs during a quarter of the cases or more."""


def time_kernels(budget_s: float, report: Callable[[str], None], family: Family | None = None) -> KernelLook:
    """Time the CPU's kernels, all in about `budget_s` seconds, or those of one `family` in its share of them.

    A case that other work disturbed is left out of a look that was quiet as a whole. Raises `RooflineError` when
    nothing could be timed, or not in `LATE_FACTOR` times that time.
    """
    from bench_cases.selection import family_of, selected_cases
    from roofline_model.chips.curve import TimedCall

    every = selected_cases(SHAPES, "cpu", None, "cold", ("eager",))
    chosen = [spec for spec in every if family in (None, family_of(spec.case.op))]
    budget_s *= len(chosen) / len(every)
    specs = {spec.case.case_key: spec for spec in chosen}
    kernels = {(spec.work.op, spec.kernel.name, spec.work.formats) for spec in specs.values()}
    report(f"timing {counted(len(kernels), 'kernel')} at {counted(len(specs), 'size')}")
    sampling_s = budget_s / len(specs) - (SECONDS_PER_CASE - _LEAST_SAMPLING_S)
    sampling_s = min(max(sampling_s, _LEAST_SAMPLING_S), _MOST_SAMPLING_S)
    least_s = len(specs) * (SECONDS_PER_CASE + sampling_s)
    measured, failed = _timed(sampling_s, family, START_S + LATE_FACTOR * max(budget_s, least_s))
    disturbed_by = load_flags(measured["flags"])
    if not disturbed_by:
        measured = measured[[not load_flags([flags]) for flags in measured["flags"]]]
    medians = dict(zip(measured.case_key, measured.measured_s, strict=True))
    calls = [TimedCall(spec.work, spec.kernel.name, medians[key]) for key, spec in specs.items() if key in medians]
    return KernelLook(calls, failed, disturbed_by)


def load_flags(flags_of_cases: Iterable[str | None]) -> tuple[str, ...]:
    """Return the flags of the CPUs' load that `DISTURBED_SHARE` of the cases carry; each text holds flags joined by
    `;`.
    """
    flags = [set((text or "").split(";")) for text in flags_of_cases]
    return tuple(
        flag
        for flag in ("contended", "stolen")
        if sum(flag in record_flags for record_flags in flags) > DISTURBED_SHARE * len(flags)
    )


def _timed(
    seconds_per_case: float, family: Family | None, timeout_s: float
) -> tuple[pandas.DataFrame, tuple[str, ...]]:
    """Return the measured cases, and the ids of those that failed."""
    from results.exchange.exported.frame import load_frame

    with held_folder("roofline-calibrate-") as folder:
        database = folder / "kernels.db"
        command = workload_command(
            "--roofline-shapes",
            SHAPES,
            "--roofline-db",
            str(database),
            "--roofline-device",
            "cpu",
            "--roofline-no-power",
            "--roofline-max-seconds",
            f"{seconds_per_case:.3g}",
            *(() if family is None else ("-k", _WORDS[family])),
        )
        exit_code, errors = run_workloads(command, timeout_s=timeout_s)
        if not database.exists():
            lines = errors.strip().splitlines()
            raise RooflineError(
                f"timing the kernels failed (pytest exit code {exit_code}): "
                f"{lines[-1] if lines else 'it said nothing'}. "
                "--no-kernels measures the ceilings alone"
            )
        frame = load_frame(database, columns="all", simulated=True)
    measured = frame[(frame.status == "measured") & frame.measured_s.notna()]
    failed = frame[frame.status == "failed"]
    if measured.empty:
        raise RooflineError(
            f"no kernel could be timed (pytest exit code {exit_code}); `pytest --pyargs bench_cases` shows why, "
            "--no-kernels leaves them out"
        )
    return measured, tuple(failed.case_id)
