"""`roofline doctor --noise`: how far fresh processes of unchanged code differ on this machine, per case; stored as its
floor.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import TYPE_CHECKING, Any

import typer

from plugin.machine.cpu_state import CONTENDED_RATIO, load_over
from reports.present.blocks import Block, Column, Paragraph, Span, table
from reports.present.screen import present
from roofline_cli.shared.database import writing
from roofline_cli.shared.group import EXIT_FOUND
from roofline_cli.shared.measuring import check_can_measure, run_to_end, workload_command
from roofline_model.core.errors import RooflineError

if TYPE_CHECKING:
    from results.records.records import RunInfo
    from results.statistics.noise_floor import Sensitivity
    from roofline_model.operators.case import Case

SHOWN_PROCESSES = (1, 3, 8)
"""Processes a side of the later diffs whose smallest step is shown."""

QUIET_SD_RATIO = 0.01
NOISY_SD_RATIO = 0.05
MOST_DISTURBED_RATIO = 0.5
"""With more of the measurements disturbed by other processes, what was seen is not stored as the machine's floor."""

CASE_S = 1.2
"""One case in one process, about: its budget, warm-up, checks and operands."""
LOOK_S = 0.3


@dataclass(frozen=True, slots=True)
class NoisePlan:
    """What to measure: which cases, in how many fresh processes, into which database."""

    db: str | None
    process_count: int
    shapes: str
    keyword: str | None

    def command(self, label: str) -> list[str]:
        """Return pytest's command line."""
        arguments = ["--roofline-processes", str(self.process_count), "--roofline-shapes", self.shapes]
        arguments += ["--roofline-run", label]
        arguments += ["-k", self.keyword] if self.keyword is not None else []
        arguments += ["--roofline-db", self.db] if self.db is not None else []
        return workload_command(*arguments)


@dataclass(frozen=True, slots=True)
class CaseNoise:
    """One case and what can be seen of it."""

    case: Case
    sensitivity: Sensitivity

    @property
    def name(self) -> str:
        """Operator and id: what tells it from every other case."""
        return f"{self.case.op} {self.case.id}"


def measure_noise(plan: NoisePlan, *, as_json: bool) -> None:
    """Measure every case in fresh processes, store the floors, print them; exits 1 when a kernel failed."""
    check_can_measure()
    label = f"noise-{uuid.uuid4().hex[:8]}"
    typer.echo(
        f"measuring the cases of {plan.shapes} in {plan.process_count} fresh processes, one pass after the other: "
        f"about {plan.process_count * CASE_S:.0f} s per case; -k and --processes make it shorter",
        err=True,
    )
    others = load_over(LOOK_S).others_ratio
    if others is not None and others > CONTENDED_RATIO:
        typer.echo(
            f"other processes use {others:.0%} of the CPUs now: noise that is theirs is not stored as the machine's "
            "own; `top -o %CPU` names them, stop them first",
            err=True,
        )
    wanted = f"-k {plan.keyword}" if plan.keyword is not None else f"--shapes {plan.shapes}"
    is_correct = run_to_end(
        plan.command(label),
        nothing=f"{wanted} selects no case; `pytest bench_cases --collect-only -q` lists them",
        stopped="pytest's output is above",
    )
    noise = _stored_noise(plan.db, label)
    present(lambda: _document(noise), lambda: _blocks(noise), as_json=as_json)
    if not is_correct:
        raise typer.Exit(EXIT_FOUND)


def verdict_text(cases: Sequence[CaseNoise], disturbed_ratio: float) -> str:
    """Return the one line that says what the numbers mean for whoever compares two runs here."""
    typical = _sd_ratio(cases)
    word = "quiet" if typical < QUIET_SD_RATIO else "usable" if typical < NOISY_SD_RATIO else "noisy"
    worst = max(cases, key=lambda case: case.sensitivity.floor.between_sd_ratio)
    step = median(case.sensitivity.smallest_step_ratio(3) for case in cases)
    disturbed = f". Other processes used the CPUs in {disturbed_ratio:.0%} of the measurements: measure again on a quiet machine"
    return (
        f"{word}: medians of fresh processes differ by {_percent(typical)} (standard deviation of the median case; "
        f"worst {_percent(worst.sensitivity.floor.between_sd_ratio)}, {worst.name}); with 3 processes a side a diff "
        f"sees a step of {_percent(step)} in the median case{disturbed if disturbed_ratio > 0 else ''}"
    )


@dataclass(frozen=True, slots=True)
class _MeasuredNoise:
    """What one run of A/A processes says."""

    run: RunInfo
    cases: tuple[CaseNoise, ...]
    disturbed_ratio: float
    is_stored: bool
    verdict: str


def _stored_noise(db: str | None, label: str) -> _MeasuredNoise:
    from results.statistics.noise_floor import noise_floors, sensitivities

    with writing(db) as store:
        run = store.resolve_run(label)
        records = store.records(run.run_id, with_samples=False)
        floors = noise_floors(records, run.environment.class_hash, datetime.now(UTC).isoformat(timespec="microseconds"))
        if not floors:
            raise RooflineError(
                f"no case was measured in two processes, so the noise is unknown; `roofline show {run.run_id[:8]}` "
                "says why"
            )
        flags = [record.measurement.flags for record in records if record.measurement is not None]
        disturbed = [not {"contended", "stolen", "shared-device"}.isdisjoint(each) for each in flags]
        disturbed_ratio = sum(disturbed) / len(flags) if flags else 0.0
        is_stored = disturbed_ratio <= MOST_DISTURBED_RATIO
        if is_stored:
            store.add_noise_floors(floors)
    by_key = {record.case.case_key: record.case for record in records}
    cases = tuple(CaseNoise(by_key[each.floor.case_key], each) for each in sensitivities(floors))
    return _MeasuredNoise(run, cases, disturbed_ratio, is_stored, verdict_text(cases, disturbed_ratio))


def _blocks(noise: _MeasuredNoise) -> Iterator[Block]:
    shapes: dict[str, list[CaseNoise]] = {}
    for each in noise.cases:
        shapes.setdefault(f"{each.case.op} {each.case.shape_label}".rstrip(), []).append(each)
    has_caches = len({(each.case.cache, each.case.mode) for each in noise.cases}) > 1
    for title, members in shapes.items():
        yield _shape_table(title, members, has_caches)
        yield Paragraph("")
    yield Paragraph(
        "Within: standard deviation of the samples inside a process. Between: of the medians of fresh processes."
    )
    yield Paragraph("Step n: the smallest slow-down that 80 % of later diffs with n processes a side would see.")
    yield Paragraph("")
    is_doubtful = noise.disturbed_ratio > 0 or _sd_ratio(noise.cases) >= NOISY_SD_RATIO
    yield Paragraph(noise.verdict, "warning" if is_doubtful else "good")
    if not noise.is_stored:
        yield Paragraph(
            "not stored: this is the noise of other work, not the machine's own; the run itself is kept", "warning"
        )
        return
    counts = sorted({case.sensitivity.floor.process_count for case in noise.cases})
    spread = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    yield Paragraph(
        f"stored as this machine's floor ({spread} processes): later runs in one process take their ± from it"
    )


def _shape_table(title: str, members: Sequence[CaseNoise], has_caches: bool) -> Block:
    def step(count: int) -> Column:
        def cell(member: CaseNoise) -> str:
            return _percent(member.sensitivity.smallest_step_ratio(count))

        return Column(f"Step {count}", cell, "number", drop=abs(count - 3))

    def between(member: CaseNoise) -> Span:
        ratio = member.sensitivity.floor.between_sd_ratio
        return Span(_percent(ratio), "good" if ratio < QUIET_SD_RATIO else "" if ratio < NOISY_SD_RATIO else "warning")

    columns = (
        Column("Format", lambda member: member.case.precision_label or "–", is_head=True),
        Column("Kernel", lambda member: member.case.kernel, "prose", least=13),
        Column("Cache", lambda member: member.case.cache, drop=0 if has_caches else 4),
        Column("Mode", lambda member: member.case.mode, drop=0 if has_caches else 3),
        Column("Within", lambda member: _percent(member.sensitivity.floor.within_sd_ratio), "number"),
        Column("Between", between, "number"),
        *map(step, SHOWN_PROCESSES),
    )
    return table(title, columns, members, title=title)


def _document(noise: _MeasuredNoise) -> dict[str, Any]:
    return {
        "run_id": noise.run.run_id,
        "class_hash": noise.run.environment.class_hash,
        "disturbed_ratio": noise.disturbed_ratio,
        "is_stored": noise.is_stored,
        "verdict": noise.verdict,
        "cases": [
            {
                "case_id": case.name,
                "case_key": case.sensitivity.floor.case_key,
                "method_hash": case.sensitivity.floor.method_hash,
                "process_count": case.sensitivity.floor.process_count,
                "within_sd_ratio": case.sensitivity.floor.within_sd_ratio,
                "between_sd_ratio": case.sensitivity.floor.between_sd_ratio,
                "pooled_between_sd_ratio": case.sensitivity.between_sd_ratio,
                "smallest_step_ratio": {
                    str(count): case.sensitivity.smallest_step_ratio(count) for count in SHOWN_PROCESSES
                },
            }
            for case in noise.cases
        ],
    }


def _sd_ratio(cases: Sequence[CaseNoise]) -> float:
    return median(case.sensitivity.floor.between_sd_ratio for case in cases)


def _percent(ratio: float | None) -> str:
    if ratio is None:
        return "–"
    return "> 999 %" if ratio >= 10 else f"{ratio * 100:.1f} %" if ratio < 0.0995 else f"{ratio * 100:.0f} %"
