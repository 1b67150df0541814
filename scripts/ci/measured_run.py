"""What a night's run was, from the file that pytest wrote of it when it ended: its id, its chip, its counts. Standard
library only.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

FAILED, MEASURED, SKIPPED, PREDICTED = "failed", "measured", "skipped", "predicted"
_WORST_FIRST = (FAILED, MEASURED, SKIPPED, PREDICTED)
"""What a case is whose processes ended differently: a failure is never hidden, and one measurement is enough."""
MOST_FAILURES = 20


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run as its exported file tells it. Counts are of cases, however many processes measured each."""

    run_id: str
    status: str
    hardware: str
    commit: str
    """Empty where the tests were in no git repository."""
    is_dirty: bool
    counts: dict[str, int]
    """Status → cases."""
    failures: tuple[str, ...] = ()
    """`CASE: reason`, the first few."""
    warnings: tuple[str, ...] = ()
    """What pytest found to be wrong with the state of the machine."""
    is_simulated: bool = False

    @property
    def measured_count(self) -> int:
        """Cases with a time."""
        return self.counts.get(MEASURED, 0)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> MeasuredRun:
        """Return what `to_dict` described."""
        given = {field.name: values[field.name] for field in fields(cls) if field.name in values}
        given |= {name: tuple(given.get(name, ())) for name in ("failures", "warnings")}
        return cls(**given)

    @classmethod
    def read(cls, path: Path) -> MeasuredRun | None:
        """Return the run that a file of `--roofline-json` describes; None where there is none, or it is no such
        file.
        """
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            run, records = document["run"], document["records"]
            return cls(
                run_id=run["run_id"],
                status=run["status"],
                hardware=run["hardware_key"] or "",
                commit=run["git_commit"] or "",
                is_dirty=bool(run["git_is_dirty"]),
                counts=_counts(records),
                failures=tuple(_failures(records))[:MOST_FAILURES],
                warnings=tuple(map(_warning, run["environment"]["facts"].get("warnings") or ())),
                is_simulated=any(
                    "simulated" in ((record["measurement"] or {}).get("flags") or ()) for record in records
                ),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    @property
    def counts_text(self) -> str:
        """The counts in words: `12 measured, 1 skipped, 1 failed`."""
        return (
            ", ".join(
                f"{self.counts[status]} {status}"
                for status in (MEASURED, SKIPPED, PREDICTED, FAILED)
                if self.counts.get(status)
            )
            or "no case"
        )


def _status(record: Mapping[str, Any]) -> str:
    """Return a record's status; a case that was measured and then failed its test has failed."""
    return FAILED if record["extra"].get("test_failure") else str(record["status"])


def _counts(records: list[Mapping[str, Any]]) -> dict[str, int]:
    counts: dict[str, set[str]] = {}
    for record in records:
        counts.setdefault(json.dumps(record["case"], sort_keys=True), set()).add(_status(record))
    worst = (
        next((verdict for verdict in _WORST_FIRST if verdict in those), sorted(those)[0]) for those in counts.values()
    )
    return dict(Counter(worst))


def _failures(records: list[Mapping[str, Any]]) -> list[str]:
    """Return the cases that failed, each once, with the first line of the reason."""
    failures: dict[str, str] = {}
    for record in records:
        if _status(record) == FAILED:
            why = str(record["extra"].get("test_failure") or record["reason"] or "no reason is known")
            failures.setdefault(str(record["test_id"]), (why.strip().splitlines() or [""])[0][:200])
    return [f"{name}: {why}" for name, why in failures.items()]


def _warning(item: Mapping[str, Any] | str) -> str:
    """Return a stored finding as its code and values, which `roofline explain` explains; older versions stored
    sentences.
    """
    if isinstance(item, str):
        return item
    values = ", ".join(f"{name} {value}" for name, value in item["values"].items())
    return f"{item['code']}{f' ({values})' if values else ''}"
