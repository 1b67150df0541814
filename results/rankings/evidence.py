"""What the rankings are made of: records by ranking, chips, noise floors. Read from a store, or given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from results.cases.run import stored_profiles
from results.rankings.levels import chip_of, is_of_this_chip
from results.rankings.question import StoredQuestion, subject_of
from results.records.impossible import possible_records, without_contended
from results.records.records import HardwareProfile, Record, RunInfo
from results.records.state_records import NoiseFloor
from results.statistics.replication import FloorKey
from roofline_model.chips.hardware import Device
from roofline_model.core.grouping import grouped
from roofline_model.operators.case import Case

if TYPE_CHECKING:
    from results.store.store import ResultStore

GroupKey = tuple[str, str, tuple[tuple[str, int], ...], str]
"""(chip, operator, sizes, mode) of a shape; of a model (chip, model, batch and context, mode)."""


@dataclass(frozen=True, slots=True)
class StoredEvidence:
    """Runs, their records, and what is known of their machines."""

    runs: Mapping[str, RunInfo]
    """By run id."""
    records: tuple[Record, ...]
    """Those of a run that `runs` does not hold are passed over."""
    profiles: Mapping[str, HardwareProfile] = field(default_factory=dict)
    """By hash."""
    floors: Mapping[str, Mapping[FloorKey, NoiseFloor]] = field(default_factory=dict)
    """A/A floors by environment class."""
    read_run: Callable[[str], Iterable[Record]] = field(default=lambda _: ())
    """Run id → all records of a run, those that the question leaves out too: what is known of a run may not depend on
    what was asked, or the same case would have another interval and another age in every answer.
    """
    newest: Mapping[str, RunInfo] = field(default_factory=dict)
    """Chip → the newest run that measured something on it, none that was forced onto another machine."""
    simulated_run_ids: frozenset[str] = frozenset()
    """Runs whose simulated times are not used, because their chip has real ones."""

    def narrowed(self, question: StoredQuestion) -> StoredEvidence:
        """Return the evidence on the cases that a question is about, on every chip, without `simulated_beside_real`
        times and `without_contended` predictions.
        """
        records = [record for record in self.records if record.run_id in self.runs and question.is_about(record.case)]
        unused = simulated_beside_real(records, self.runs)
        return replace(
            self,
            records=without_contended(
                (record for record in records if record.record_id not in unused), self.profiles.values()
            ),
            simulated_run_ids=frozenset(record.run_id for record in records if record.record_id in unused),
        )

    def measured(self, run: RunInfo, hardware_key: str) -> tuple[Record, ...]:
        """Return all that a run measured on a chip. Raises `StoreError` where it cannot be read."""
        return tuple(
            record
            for record in self.read_run(run.run_id)
            if record.status == "measured" and chip_of(record, run) == hardware_key and is_of_this_chip(record, run)
        )

    def groups(self) -> dict[GroupKey, list[Record]]:
        """Return the records by what competes: a chip's shape in one mode, or its model at one batch and context."""
        return grouped(self.records, lambda record: group_key(record.case, chip_of(record, self.runs[record.run_id])))

    def device(self, hardware_key: str, records: Iterable[Record]) -> Device | None:
        """Return the chip as the newest of these records knew it; None where no description is stored or it cannot be
        read.
        """
        newest = sorted(
            records, key=lambda candidate: (self.runs[candidate.run_id].started_at, candidate.record_id), reverse=True
        )
        for record in newest:
            for prediction in record.predictions:
                profile = self.profiles.get(prediction.profile_hash)
                if profile is not None and prediction.hardware_key == hardware_key:
                    return profile.device
        return next((profile.device for profile in self.profiles.values() if profile.key == hardware_key), None)

    def chip_name(self, hardware_key: str) -> str:
        """Return the name of a chip, else its key."""
        return next(
            (profile.name for profile in self.profiles.values() if profile.key == hardware_key and profile.name),
            hardware_key,
        )


def simulated_beside_real(records: Iterable[Record], runs: Mapping[str, RunInfo]) -> frozenset[str]:
    """Return the records of simulated or replayed times on chips of which real times are stored: the two never meet."""
    simulated: dict[str, set[str]] = {}
    real_chips = set()
    for record in records:
        if record.measurement is None or record.status != "measured":
            continue
        chip = chip_of(record, runs[record.run_id])
        if "simulated" in record.measurement.flags:
            simulated.setdefault(chip, set()).add(record.record_id)
        else:
            real_chips.add(chip)
    return frozenset(key for chip, keys in simulated.items() if chip in real_chips for key in keys)


def group_key(case: Case, hardware_key: str) -> GroupKey:
    """Return what cases of one ranking share."""
    name, sizes = subject_of(case)
    return (hardware_key, name, sizes, case.mode)


def given_evidence(
    runs: Iterable[RunInfo], records: Iterable[Record], profiles: Mapping[str, HardwareProfile]
) -> StoredEvidence:
    """Return runs and records in hand as evidence."""
    runs_by_id = {run.run_id: run for run in runs}
    by_run = grouped(records, lambda record: record.run_id)
    measuring = [
        run
        for run_id, run in runs_by_id.items()
        if any(record.status == "measured" for record in by_run.get(run_id, ()))
    ]
    every = tuple(record for members in by_run.values() for record in members)
    return StoredEvidence(
        runs_by_id, every, profiles, read_run=lambda run_id: by_run.get(run_id, ()), newest=newest_by_chip(measuring)
    )


def read_evidence(store: ResultStore, question: StoredQuestion) -> StoredEvidence:
    """Return what the newest runs of a store hold of a question. Raises `StoreError` where it cannot be read."""
    from results.store.newest import measuring_runs, newest_records

    newest = newest_records(store, question.is_about)
    if not newest.records:
        # The newest run tells an empty store from one that does not hold what was asked for.
        return StoredEvidence({run.run_id: run for run in store.runs(limit=1)}, ())
    classes = dict.fromkeys(run.environment.class_hash for run in newest.runs.values())
    return StoredEvidence(
        newest.runs,
        possible_records(newest.records),
        stored_profiles(store, newest.records),
        {class_hash: store.noise_floors(class_hash) for class_hash in classes},
        cache(lambda run_id: possible_records(store.records(run_id, with_samples=False))),
        newest_by_chip(measuring_runs(store)),
    ).narrowed(question)


def newest_by_chip(runs: Iterable[RunInfo]) -> dict[str, RunInfo]:
    """Return the newest run of each chip, none that was forced onto another machine."""
    ordered = sorted(runs, key=lambda candidate: (candidate.started_at, candidate.run_id))
    return {run.hardware_key: run for run in ordered if not run.is_forced}
