"""A stored run and its cases as answers: what `roofline runs`, `show` and `report --json` give, and the API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from reports.present.display_text import stored_text
from reports.present.encoder import Keys, answer_json
from results.cases.case_result import CaseResult
from results.records.records import STATUSES, Measurement, Record, RunInfo


@dataclass(frozen=True, slots=True)
class RunDetail:
    """One run with its counts, its machine and that machine's state."""

    JSON_KEYS: ClassVar[Keys] = {
        "run": "run",
        "counts": "counts",
        "case_count": "case_count",
        "environment": "run.environment.facts",
        "canary_sentence": "canary_sentence",
    }

    run: RunInfo
    """The run itself."""
    cases: Sequence[CaseResult]
    canary_sentence: str
    """What the canary kernel says of the machine's state; may be empty."""

    @property
    def counts(self) -> Mapping[str, int]:
        """measured, predicted, skipped, failed → cases, count."""
        counts = Counter(case.status for case in self.cases)
        return {status: counts[status] for status in STATUSES}

    @property
    def case_count(self) -> int:
        """Cases, count."""
        return len(self.cases)


def case_detail_json(result: CaseResult) -> dict[str, Any]:
    """Return everything about one case as JSON: the pooled case, and each process with all its statistics."""
    return {
        **answer_json(result, stored_text),
        "processes": [
            {
                **answer_json(record, stored_text),
                "process_role": record.process.role,
                "process_end_reason": record.process.end_reason or None,
                "created_at": record.created_at,
                "method": _method_json(record),
                "measurement": _measurement_json(record.measurement),
                "predictions": [asdict(prediction) for prediction in record.predictions],
            }
            for record in result.records
        ],
    }


def _method_json(record: Record) -> dict[str, Any] | None:
    method = record.method
    if method is None:
        return None
    return {**asdict(method), "settings": dict(method.settings), "method_hash": method.method_hash}


def _measurement_json(measurement: Measurement | None) -> dict[str, Any] | None:
    if measurement is None:
        return None
    energy, attribution = measurement.energy, measurement.attribution
    data = asdict(measurement)
    if energy is not None:
        data["energy"]["disagreement_ratio"] = energy.disagreement_ratio
    if attribution is not None:
        data["attribution"]["gap_s"] = attribution.gap_s
    return data
