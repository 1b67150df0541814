"""One stored run and its cases, as every surface reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from results.cases.case_result import CaseResult, run_cases
from results.records.impossible import without_contended
from results.records.records import HardwareProfile, Record, RunInfo
from results.records.state_records import CanaryReading, NoiseFloor
from results.statistics.replication import FloorKey

if TYPE_CHECKING:
    from results.store.store import ResultStore


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """A run as stored, and its cases."""

    run: RunInfo
    records: tuple[Record, ...]
    """As stored, without the predictions of a contended calibration."""
    cases: tuple[CaseResult, ...]
    canaries: tuple[CanaryReading, ...]
    profiles: Mapping[str, HardwareProfile]
    """Of the chips that its predictions are for, by hash."""
    floors: Mapping[FloorKey, NoiseFloor]
    """Of its machine and software."""


class ProfileSource(Protocol):
    """What knows stored chip profiles."""

    def profile(self, profile_hash: str) -> HardwareProfile | None:
        """Return a stored chip profile."""


def stored_profiles(store: ProfileSource, records: Iterable[Record]) -> dict[str, HardwareProfile]:
    """Return the chip profiles that the records' predictions used, by hash; unknown hashes are left out."""
    hashes = dict.fromkeys(each.profile_hash for record in records for each in record.predictions if each.profile_hash)
    return {key: profile for key in hashes if (profile := store.profile(key)) is not None}


def read_run(store: ResultStore, name: str, *, with_samples: bool = False) -> RunAnswer:
    """Return the run of a name (id prefix, label, `latest`, `latest~1`); raises what `store.resolve_run` does."""
    run = store.resolve_run(name)
    stored = store.records(run.run_id, with_samples=with_samples)
    profiles = stored_profiles(store, stored)
    records = tuple(without_contended(stored, profiles.values()))
    floors = store.noise_floors(run.environment.class_hash)
    cases = run_cases(run, records, floors)
    return RunAnswer(run, records, cases, tuple(store.canaries(run.run_id)), profiles, floors)
