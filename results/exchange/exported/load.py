"""Exported runs back into a store: exactly, all or nothing, and never twice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from results.exchange.exported.export import EXPORT_FORMAT, EXPORT_VERSION, RUNS_FORMAT, ExportedRun
from results.exchange.exported.import_checks import check_contents, differing_statistics
from results.exchange.exported.import_differences import differing_records, is_other_run
from results.records.plain_form import FormError, OtherVersionFormError, UnclearFormError, from_plain
from results.records.records import HardwareProfile, ProcessInfo, Record, RunInfo
from results.records.state_records import CanaryReading, NoiseFloor
from roofline_model.core.definition_text import shown, whole_number
from roofline_model.core.errors import StoreError

if TYPE_CHECKING:
    from results.store.store import ResultStore


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ImportReport:
    """Result of an import."""

    run_ids: tuple[str, ...]
    added: int
    """Records stored now."""
    duplicates: int
    """Records that were there already, recognised by their id."""
    differing_count: int = 0
    """Of these, records that are stored with other contents: the stored ones stay, nothing is overwritten."""
    differing_runs: tuple[str, ...] = ()
    """Runs that are stored with another label, start, commit or machine; they stay, too."""
    inconsistent_count: int = 0
    """Records of the file with a statistic that the samples beside it do not have."""
    stored_records: tuple[Record, ...] = ()
    """Measurements of another program that were there already, as they are stored."""


def import_file(store: ResultStore, path: str | Path) -> ImportReport:
    """Add the runs of an exported JSON file to the store; records it already has keep their numbers (see `add_run`).

    The whole file is checked first. Raises `StoreError` for a file that is missing, damaged, not ours or of a newer
    version; nothing is imported then.
    """
    return add_exported(store, read_exports(path))


def add_exported(store: ResultStore, runs: Sequence[ExportedRun]) -> ImportReport:
    """Add checked runs to the store, each all or nothing. Raises `StoreError` as `add_run` does."""
    added = duplicates = differing = inconsistent = 0
    other_runs = []
    for run in runs:
        differing += differing_records(store, run.records)
        measurements = [record.measurement for record in run.records if record.measurement is not None]
        inconsistent += sum(bool(differing_statistics(measurement)) for measurement in measurements)
        if is_other_run(store, run.run):
            other_runs.append(run.run.run_id)
        new, present = store.add_run(
            run.run,
            run.profiles,
            run.records,
            processes=run.processes,
            canaries=run.canaries,
            noise_floors=run.noise_floors,
        )
        added, duplicates = added + new, duplicates + present
    return ImportReport(
        tuple(exported.run.run_id for exported in runs), added, duplicates, differing, tuple(other_runs), inconsistent
    )


def read_export(path: str | Path) -> ExportedRun:
    """Return the run of a JSON file that holds one. Raises `StoreError` as `import_file` does."""
    runs = read_exports(path)
    if len(runs) != 1:
        raise StoreError(f"{path} holds {len(runs)} runs, not one: import it and name the run")
    return runs[0]


def read_exports(path: str | Path) -> list[ExportedRun]:
    """Return the runs of an exported JSON file. Raises `StoreError` as `import_file` does."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # Windows editors put a byte order mark first
    except (OSError, UnicodeDecodeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise StoreError(
            f"{path} cannot be read ({why}): give a file that `roofline export --format json` wrote"
        ) from None
    with reading_errors(path):
        try:
            document = json.loads(text, parse_int=whole_number)
        except ValueError as error:  # a number of 5,000 digits is one, too
            raise StoreError(
                f"{path} is not JSON ({str(error)[:120]}): the file is damaged, export the run again. Nothing was "
                "imported."
            ) from None
        return parse_exports(document)


@contextmanager
def reading_errors(path: str | Path, *, is_ours: bool = True) -> Iterator[None]:
    """Turn what is wrong inside a file into a `StoreError` of one line that names the file.

    `is_ours`: what no export of ours holds means damage. Of another program's file the reason alone is known.
    """
    try:
        yield
    except FormError as error:
        # These two say themselves what to do.
        is_damaged = is_ours and not isinstance(error, OtherVersionFormError | UnclearFormError)
        advice = "; the file is damaged: write it again" if is_damaged else ""
        raise StoreError(f"{path}: {error}{advice}. Nothing was imported.") from None
    except RecursionError:
        raise StoreError(f"{path} is nested too deeply to be an exported run. Nothing was imported.") from None


def parse_exports(document: Any) -> list[ExportedRun]:
    """Return the runs of a parsed export, which holds one or a list of them. Raises `FormError` naming the field."""
    if not isinstance(document, dict) or document.get("format") != RUNS_FORMAT:
        return [parse_export(document)]
    runs = document.get("runs")
    if not isinstance(runs, list):
        raise FormError("runs is missing or not a list")
    exports: dict[str, ExportedRun] = {}
    for number, run_document in enumerate(runs):
        try:
            exported = parse_export(run_document)
            if exported.run.run_id in exports:
                raise FormError(f"run {exported.run.run_id[:12]} is in the file twice")
        except OtherVersionFormError:
            raise
        except FormError as error:
            raise type(error)(f"runs[{number}]: {error}") from None
        exports[exported.run.run_id] = exported
    if not exports:
        raise FormError("runs is empty")
    return list(exports.values())


def parse_export(document: Any) -> ExportedRun:
    """Return the run of a parsed export. Raises `FormError` naming the field that is wrong."""
    if not isinstance(document, dict) or document.get("format") != EXPORT_FORMAT:
        raise FormError("this is not a run exported by roofline-bench")
    version = document.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FormError(f"schema_version is {shown(version)}, not a whole number from 1 on")
    if version != EXPORT_VERSION:
        raise OtherVersionFormError(
            f"another roofline-bench exported it (schema_version {shown(version)}, this one reads {EXPORT_VERSION}): "
            "update this project (git pull, make venv) if that one is newer; what an unreleased one wrote has to be "
            "measured again"
        )
    exported = ExportedRun(
        from_plain(RunInfo, document.get("run"), "run", with_limits=True),
        _listed(document, "profiles", HardwareProfile),
        _listed(document, "processes", ProcessInfo),
        _listed(document, "records", Record),
        _listed(document, "canaries", CanaryReading),
        _listed(document, "noise_floors", NoiseFloor),
    )
    check_contents(exported)
    return exported


def _listed(document: dict[str, Any], name: str, kind: type[T]) -> tuple[T, ...]:
    items = document.get(name)
    if not isinstance(items, list):
        raise FormError(f"{name} is missing or not a list")
    return tuple(from_plain(kind, item, f"{name}[{number}]", with_limits=True) for number, item in enumerate(items))
