"""`--roofline-baseline`: this very run against an earlier one when it ends, and `--roofline-fail-on`, which fails
it.
"""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from plugin.run.pending import clean
from reports.present.layout import MOST_WIDTH, Line, wrapped
from roofline_model.core.errors import RooflineError, StoreError
from roofline_model.core.finding import finding, short_text

if TYPE_CHECKING:
    from plugin.run.options import BenchOptions
    from results.diff.case_diff import SuiteDiff
    from results.diff.gate import GateResult
    from results.records.records import Record, RunInfo
    from results.watch.annotations import Annotation
    from results.watch.quarantine import Quarantine


@dataclass(slots=True)
class BaselineCheck:
    """One run and what it is compared with.

    Made when the run begins, so that an unknown baseline costs no measuring.
    """

    options: BenchOptions
    run: RunInfo
    quarantine: Quarantine | None = None
    annotations: Sequence[Annotation] = ()
    lines: list[Line] = field(default_factory=list)
    """What the summary shows; empty before `finish`."""

    @classmethod
    def begin(cls, options: BenchOptions, run: RunInfo, report: Callable[[str], None]) -> BaselineCheck | None:
        """Return the check of a run against `options.baseline`; None where it is not there yet, which is said.

        Raises `RooflineError` for a baseline nobody knows or that is incomplete, and for a list that cannot be read.
        """
        assert options.baseline is not None
        from results.diff.baseline import find_baseline
        from results.store.store import open_store
        from results.watch.annotations import load_annotations
        from results.watch.quarantine import load_quarantine

        listed, expected = options.quarantine_path, options.annotations_path
        today = datetime.datetime.now(datetime.UTC).date()
        quarantine = None if listed is None else load_quarantine(listed, today)
        annotations = () if expected is None else load_annotations(expected)
        with open_store(options.db, create=False, read_only=True) as store:
            baseline = find_baseline(options.baseline, (run,), store.runs, store.resolve_run)
        if not baseline.chosen:
            report(short_text(finding("no-baseline", baseline=options.baseline)))
            return None
        return cls(options, run, quarantine, annotations)

    def finish(self, records: Sequence[Record]) -> bool:
        """Compare the finished run, keep the lines for the summary, and return whether `--roofline-fail-on` fails
        it.
        """
        try:
            diff, result = self._compared(records)
        except RooflineError as error:
            self.lines = [Line(short_text(finding("comparison-failed", error=str(error))), "yellow")]
            return bool(self.options.fail_on)
        from plugin.terminal.comparison import comparison_lines
        from results.diff.gate import EXIT_SAME

        width = min(max(shutil.get_terminal_size((80, 24)).columns, 80), MOST_WIDTH)
        self.lines = [
            part
            for line in comparison_lines(diff, result)
            for part in wrapped(
                f"{'  ' * line.text.startswith('  ')}{clean(line.text)}", line.colour, width, indent="    "
            )
        ]
        return bool(self.options.fail_on) and result.exit_code != EXIT_SAME

    def _compared(self, records: Sequence[Record]) -> tuple[SuiteDiff, GateResult]:
        from results.diff.gate import gate, parse_fail_on, rules_for
        from results.diff.rules import DiffRules
        from results.diff.stored_sides import baseline_side
        from results.diff.suites import SuiteSide, compare_suites
        from results.store.store import open_store

        with open_store(self.options.db, create=False, read_only=True) as store:
            run = store.resolve_run(self.run.run_id)
            noise = store.noise_floors(run.environment.class_hash)
            newer = SuiteSide((run,), tuple(records))
            fails = parse_fail_on(self.options.fail_on) if self.options.fail_on else ()
            rules = rules_for(fails, DiffRules())
            older = baseline_side(store, self.options.baseline or "latest", newer, noise, rules, self.annotations)
        if older is None:
            raise StoreError(f"the runs of --roofline-baseline {self.options.baseline} are no longer there")
        diff = compare_suites(older, newer, noise, rules, quarantine=self.quarantine, annotations=self.annotations)
        return diff, gate(diff, fails)
