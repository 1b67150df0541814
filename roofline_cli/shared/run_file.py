"""What a run was, from the file that pytest writes of it when it ends (`--roofline-json`).

Read as plain JSON: a checkout under test may write a newer schema than this version knows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results.records.flags import INVALIDATING_FLAGS
from roofline_model.core.finding import advice_text, catalog, from_stored

FAILED, MEASURED, SKIPPED, PREDICTED = "failed", "measured", "skipped", "predicted"
_WORST_FIRST = (FAILED, MEASURED, SKIPPED, PREDICTED)
"""What a case is whose processes ended differently: a failure is never hidden, and one measurement is enough."""
MAX_FAILURES = 20


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run as its exported file describes it. Counts are of cases, however many processes measured each."""

    run_id: str
    status: str
    hardware: str
    commit: str
    """Empty where the tests were in no git repository."""
    is_dirty: bool
    is_simulated: bool
    counts: Mapping[str, int]
    """Status → cases."""
    disturbed_count: int
    """Cases with a time that no diff judges: the machine's state was wrong in more than half of the processes."""
    process_count: int
    """Most records of one case."""
    failures: tuple[str, ...]
    """`CASE: reason`, the first few."""
    warnings: tuple[str, ...]
    """What pytest found to be wrong with the state of the machine."""

    @property
    def measured_count(self) -> int:
        """Cases with a time."""
        return self.counts.get(MEASURED, 0)

    @property
    def counts_text(self) -> str:
        """The counts in words: `12 measured (3 disturbed: no diff judges them), 1 skipped, 1 failed`."""
        disturbed = f" ({self.disturbed_count} disturbed: no diff judges them)" if self.disturbed_count else ""
        shown = [
            f"{self.counts[each]} {each}{disturbed if each == MEASURED else ''}"
            for each in (MEASURED, SKIPPED, PREDICTED, FAILED)
            if each in self.counts
        ]
        return ", ".join(shown) or "no case"


def read_run(path: Path) -> MeasuredRun | None:
    """Return the run of a file; None where there is none, or it is no such file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        run, records = document["run"], document["records"]
        statuses: dict[str, list[str]] = {}
        disturbed: dict[str, list[bool]] = {}
        for record in records:
            case = json.dumps(record["case"], sort_keys=True)
            statuses.setdefault(case, []).append(_status(record))
            if _status(record) == MEASURED:
                flags = (record["measurement"] or {}).get("flags", ())
                disturbed.setdefault(case, []).append(any(flag in INVALIDATING_FLAGS for flag in flags))
        return MeasuredRun(
            run_id=run["run_id"],
            status=run["status"],
            hardware=run["hardware_key"] or "",
            commit=run["git_commit"] or "",
            is_dirty=bool(run["git_is_dirty"]),
            is_simulated=any("simulated" in (record["measurement"] or {}).get("flags", ()) for record in records),
            counts=dict(Counter(min(of_case, key=_WORST_FIRST.index) for of_case in statuses.values())),
            disturbed_count=sum(2 * sum(of_case) > len(of_case) for of_case in disturbed.values()),
            process_count=max(map(len, statuses.values()), default=0),
            failures=_failures(records),
            warnings=tuple(map(_warning, run["environment"]["facts"].get("warnings") or ())),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _status(record: Mapping[str, Any]) -> str:
    """Return a record's status; a case that was measured and then failed its test has failed."""
    return FAILED if record["extra"].get("test_failure") else str(record["status"])


def _failures(records: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the cases that failed, each once, with the first line of the reason."""
    reasons = {
        str(record["test_id"]): str(record["extra"].get("test_failure") or record["reason"] or "no reason is known")
        for record in reversed(records)
        if _status(record) == FAILED
    }
    failures = [f"{name}: {reason.strip().splitlines()[0][:200]}" for name, reason in reversed(reasons.items())]
    return tuple(failures[:MAX_FAILURES])


def _warning(item: Mapping[str, Any]) -> str:
    """Return a stored finding in words; one whose code this version does not know as its code and values."""
    stored = from_stored({"subject": "", **item})
    if stored.code in catalog():
        return advice_text(stored)
    values = ", ".join(f"{name} {value}" for name, value in item["values"].items())
    return f"{item['code']}{f' ({values})' if values else ''}"
