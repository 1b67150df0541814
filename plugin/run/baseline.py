"""`--roofline-baseline`: this very run against an earlier one when it ends, and `--roofline-fail-on`, which fails it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from plugin.run.outcome import clean
from plugin.terminal.notes import MOST_WIDTH, wrapped
from plugin.terminal.table import Line
from roofline_model.core.errors import RooflineError, StoreError
from roofline_model.core.finding import code_text, short_text

if TYPE_CHECKING:
    from plugin.run.options import BenchOptions
    from results.diff.case_diff import SuiteDiff
    from results.diff.gate import GateResult
    from results.diff.rules import Verdict
    from results.records.records import Record, RunInfo

MOST_LINES = 20
"""Cases listed; `roofline diff` lists all."""
_FAILING = (1, 4, 5)
"""Exit codes of `roofline diff` that fail a session with --roofline-fail-on: a gate that could not judge is not green."""
_COLOURS = {"SLOWER": "red", "GONE": "red", "FASTER": "green"}
_LISTED: tuple[Verdict, ...] = ("SLOWER", "GONE", "FASTER", "INVALID", "AMBIGUOUS")


@dataclass(slots=True)
class BaselineCheck:
    """One run and what it is compared with. Made when the run begins, so that an unknown baseline costs no measuring."""

    options: BenchOptions
    run: RunInfo
    lines: list[Line] = field(default_factory=list)
    """What the summary shows; empty before `finish`."""

    @classmethod
    def begin(cls, options: BenchOptions, run: RunInfo, report: Callable[[str], None]) -> BaselineCheck | None:
        """Return the check of a run; None where no baseline was asked for, or none is there yet (which is said).

        Raises `RooflineError` for a baseline nobody knows or that is incomplete.
        """
        if options.baseline is None:
            return None
        from results.diff.baseline import find_baseline
        from results.store.store import open_store

        with open_store(options.db, create=False, read_only=True) as store:
            wanted = find_baseline(options.baseline, (run,), store.runs, store.resolve_run)
        if not wanted.chosen:
            report(
                f"--roofline-baseline {options.baseline}: nothing to compare with yet; this run can be the first baseline"
            )
            return None
        return cls(options, run)

    def finish(self, records: Sequence[Record]) -> bool:
        """Compare the finished run, keep the lines for the summary, and return whether `--roofline-fail-on` fails it."""
        try:
            diff, result = self._compared(records)
        except RooflineError as error:
            self.lines = [Line(f"no comparison with the baseline: {error}", "yellow")]
            return bool(self.options.fail_on)
        width = min(max(shutil.get_terminal_size((80, 24)).columns, 80), MOST_WIDTH)
        self.lines = [
            part
            for line in _lines(diff, result)
            for part in wrapped(
                f"{'  ' * line.text.startswith('  ')}{clean(line.text)}", line.colour, width, indent="    "
            )
        ]
        return bool(self.options.fail_on) and result.exit_code in _FAILING

    def _compared(self, records: Sequence[Record]) -> tuple[SuiteDiff, GateResult]:
        from results.diff.gate import gate, parse_fail_on
        from results.diff.rules import DiffRules
        from results.diff.stored_sides import baseline_side
        from results.diff.suites import SuiteSide, compare_suites
        from results.store.store import open_store

        with open_store(self.options.db, create=False, read_only=True) as store:
            run = store.resolve_run(self.run.run_id)
            noise = store.noise_floors(run.environment.class_hash)
            newer = SuiteSide((run,), tuple(records))
            older = baseline_side(store, self.options.baseline or "latest", newer, noise, DiffRules())
        if older is None:
            raise StoreError(f"the runs of --roofline-baseline {self.options.baseline} are no longer there")
        rules = parse_fail_on(self.options.fail_on) if self.options.fail_on else ()
        diff = compare_suites(older, newer, noise, DiffRules())
        return diff, gate(diff, rules)


def _lines(diff: SuiteDiff, result: GateResult) -> Sequence[Line]:
    from results.diff.rules import REASONS
    from results.text.diff_text import (
        case_sentence,
        counts_text,
        incomparable_texts,
        listed_headline,
        runs_text,
        sensitivity_text,
    )

    colour = "red" if result.exit_code == 1 else "yellow" if result.exit_code else "green"
    lines = [Line(f"against {runs_text(diff.before)}: {listed_headline(diff, result)}", colour)]
    cases = [case for verdict in _LISTED for case in diff.of(verdict)]
    for case in cases[:MOST_LINES]:
        remarks = "; ".join([case.reason, *([case.detail] if case.detail else []), *map(short_text, case.set_aside)])
        lines.append(Line(f"  {case.verdict} {case_sentence(case)}: {remarks}", _COLOURS.get(case.verdict, "yellow")))
    codes = dict.fromkeys(case.reason for case in cases[:MOST_LINES] if case.reason in REASONS)
    lines += [Line(f"  {code}: {code_text(code)}", "light") for code in codes]
    if len(cases) > MOST_LINES:
        lines.append(
            Line(f"  and {len(cases) - MOST_LINES} more; `roofline diff {diff.after[0].run_id[:8]}` lists all")
        )
    lines += [Line(text) for text in (counts_text(diff), sensitivity_text(diff)) if text and diff.cases]
    lines += [Line(f"differs, not comparable: {text}") for text in incomparable_texts(diff)]
    return [*lines, *(Line(f"differs: {one.text}") for one in diff.permitted)]
