"""What is stored beside and after the records: canaries, noise floors, flags in hindsight, how processes ended."""

from __future__ import annotations

import json
import sqlite3
import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from results.exchange.exported.export import ExportedRun, export_document, export_run_json
from results.exchange.exported.load import import_file
from results.records.flags import FLAGS
from results.records.records import EnvironmentInfo, Measurement, ProcessInfo, Record, RunInfo
from results.records.state_records import CanaryReading, MachineState, NoiseFloor
from results.store.store import ResultStore, open_store
from roofline_model.core.errors import InvalidValueError, StoreError

MakeRun = Callable[..., RunInfo]
MakeRecord = Callable[..., Record]

KERNEL = "gemv-bf16-4096x4096"


def reading(minute: int, time_s: float = 3.5e-5, **changes: Any) -> CanaryReading:
    created_at = f"2026-03-01T10:{minute:02}:00.000000+00:00"
    return replace(CanaryReading(minute, 0, created_at, KERNEL, time_s, None, False), **changes)


def floor(minute: int, **changes: Any) -> NoiseFloor:
    created_at = f"2026-03-01T10:{minute:02}:00.000000+00:00"
    return replace(NoiseFloor("class", "case", "method", 0.03, 0.01, 12, created_at, ("r1", "r2")), **changes)


def flags_of(store: ResultStore, run_id: str) -> list[tuple[str, ...] | None]:
    return [record.measurement and record.measurement.flags for record in store.records(run_id)]


# Records with the new parts ----------------------------------------------------------------------------------


def test_every_part_of_a_measurement_comes_back(
    store: ResultStore, run: RunInfo, make_record: MakeRecord, full_measurement: Measurement
) -> None:
    parts: tuple[dict[str, Any], ...] = (
        {},
        {"energy": None},
        {"state": MachineState()},
        {"state": MachineState(throttled_s={})},
        {"state": None, "attribution": None},
        {"clocks_hz": (), "effective_sample_count": None, "outlier_count": None},
    )
    given = [make_record(run.run_id, measurement=replace(full_measurement, **part)) for part in parts]
    for record in given:
        store.add_record(record)
    assert store.records(run.run_id) == given
    bare = store.records(run.run_id, with_samples=False)[0].measurement
    assert bare == replace(full_measurement, samples_s=(), clocks_hz=())


def test_a_record_without_them_writes_no_further_row(
    tmp_path: Path, make_run: MakeRun, make_record: MakeRecord, full_measurement: Measurement
) -> None:
    run = make_run()
    statements: list[str] = []
    with open_store(tmp_path / "r.db") as store:
        store.begin_run(run)
        store.add_record(make_record(run.run_id))
        from sqlalchemy import event

        event.listen(store._engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
        store.add_record(make_record(run.run_id))
        assert [statement.split()[:3] for statement in statements if statement.startswith("INSERT")] == [
            ["INSERT", "INTO", name] for name in ("record", "measurement", "prediction", "telemetry")
        ]
        store.add_record(make_record(run.run_id, measurement=full_measurement))
    with sqlite3.connect(tmp_path / "r.db") as raw:
        for table in ("energy", "machine_state", "attribution"):
            assert raw.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,), table
        assert raw.execute("SELECT count(*) FROM measurement WHERE clocks IS NULL").fetchone() == (2,)


def test_deleting_a_run_deletes_its_state_and_keeps_the_noise_floors(
    tmp_path: Path, make_run: MakeRun, make_record: MakeRecord, full_measurement: Measurement
) -> None:
    gone, other_run = make_run(), make_run()
    with open_store(tmp_path / "r.db") as store:
        for run in (gone, other_run):
            store.begin_run(run)
            store.add_record(make_record(run.run_id, measurement=full_measurement))
            store.add_canary(run.run_id, reading(1))
        store.add_noise_floors([floor(1, run_ids=(gone.run_id,))])
        with sqlite3.connect(tmp_path / "r.db") as raw:
            raw.execute("PRAGMA foreign_keys = ON")
            raw.execute("DELETE FROM run WHERE run_id = ?", (gone.run_id,))
            for table in ("energy", "machine_state", "attribution", "canary", "noise_floor"):
                assert raw.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,), table


# Canaries ----------------------------------------------------------------------------------------------------


def test_canaries_of_a_run_in_the_order_stored_and_each_once(store: ResultStore, make_run: MakeRun) -> None:
    run, other = make_run(), make_run()
    for stored_run in (run, other):
        store.begin_run(stored_run)
    given = [reading(5, power_w=40.5, sm_clock_hz=2.4e9, reference_s=3.4e-5), reading(2, is_slow=True), reading(3)]
    for stored_run in given:
        store.add_canary(run.run_id, stored_run)
    store.add_canary(run.run_id, given[0])
    store.add_canary(other.run_id, reading(5))
    assert store.canaries(run.run_id) == given
    assert store.canaries("nobody") == []


def test_a_canary_and_an_end_need_their_run(store: ResultStore) -> None:
    with pytest.raises(StoreError, match="begin_run"):
        store.add_canary("0" * 32, reading(1))
    with pytest.raises(StoreError, match="begin_run"):
        store.end_process("0" * 32, ProcessInfo(), "timeout after 60 s")


def test_canary_times_are_healthy_of_one_class_and_kernel_newest_first(store: ResultStore, make_run: MakeRun) -> None:
    here, later, elsewhere = make_run(), make_run(), make_run(environment=EnvironmentInfo({}, {"cpu": "another"}))
    # The same class on another day: facts that do not decide comparability may differ.
    later = replace(later, environment=EnvironmentInfo({"load": 1.5}, here.environment.class_facts))
    for run in (here, later, elsewhere):
        store.begin_run(run)
    class_hash = here.environment.class_hash
    assert store.canary_times(class_hash, KERNEL) == []
    for run, canary in (
        (later, reading(30, 3.3e-5)),
        (here, reading(10, 3.1e-5)),
        (here, reading(20, 3.2e-5)),
        (here, reading(40, 9e-5, is_slow=True)),
        (here, reading(41, 1e-5, kernel="copy-1GiB")),
        (elsewhere, reading(42, 2e-5)),
    ):
        store.add_canary(run.run_id, canary)
    assert store.canary_times(class_hash, KERNEL) == [3.3e-5, 3.2e-5, 3.1e-5]
    assert store.canary_times(class_hash, KERNEL, limit=2) == [3.3e-5, 3.2e-5]
    assert store.canary_times(class_hash, "copy-1GiB") == [1e-5]
    assert store.canary_times(elsewhere.environment.class_hash, KERNEL) == [2e-5]
    assert store.canary_times("nobody", KERNEL) == []


# Noise floors ------------------------------------------------------------------------------------------------


def test_the_newest_noise_floor_of_a_case_and_method_counts(store: ResultStore) -> None:
    newest, other_method = floor(9, between_sd_ratio=0.05), floor(1, method_hash="other", within_sd_ratio=None)
    assert store.noise_floors("class") == {}
    store.add_noise_floors([newest, floor(3), other_method])
    store.add_noise_floors([floor(5), floor(1, class_hash="another")])
    store.add_noise_floors([])
    assert store.noise_floors("class") == {("case", "method"): newest, ("case", "other"): other_method}
    assert list(store.noise_floors("another").values()) == [floor(1, class_hash="another")]


def test_noise_floors_are_stored_all_or_none(store: ResultStore) -> None:
    broken: Any = floor(2, process_count=2**70)
    with pytest.raises(StoreError, match=r"64-bit|out of range"):
        store.add_noise_floors([floor(1), broken])
    assert store.noise_floors("class") == {}


# Flags in hindsight ------------------------------------------------------------------------------------------


def test_flags_are_added_behind_the_others_and_once(
    store: ResultStore, run: RunInfo, make_record: MakeRecord, full_measurement: Measurement
) -> None:
    given = [
        make_record(run.run_id),
        make_record(run.run_id, measurement=full_measurement),
        make_record(run.run_id, status="failed", measurement=None),
        make_record(run.run_id),
    ]
    for record in given:
        store.add_record(record)
    ids = [record.record_id for record in given[:3]]
    assert store.flag_records((record_id for record_id in [*ids, *ids]), "quarantined") == 2
    assert store.flag_records(ids, "quarantined") == 0
    assert store.flag_records(ids[:1], "drift") == 1
    assert flags_of(store, run.run_id) == [
        ("noisy", "quarantined", "drift"),
        ("capped", "quarantined"),
        None,
        ("noisy",),
    ]
    second = store.records(run.run_id)[1].measurement
    assert second == replace(full_measurement, flags=("capped", "quarantined"))  # and nothing else changed
    assert store.flag_records([], "quarantined") == 0


def test_more_records_than_one_statement_takes(store: ResultStore, make_run: MakeRun, make_record: MakeRecord) -> None:
    run = make_run()
    given = [make_record(run.run_id, predictions=(), telemetry=()) for _ in range(1203)]
    store.add_run(run, [], given)
    assert store.flag_records((record.record_id for record in given), "quarantined") == 1203
    assert set(flags_of(store, run.run_id)) == {("noisy", "quarantined")}


def test_a_flag_nobody_explains_and_a_record_nobody_stored(
    store: ResultStore, run: RunInfo, make_record: MakeRecord
) -> None:
    record = make_record(run.run_id)
    store.add_record(record)
    with pytest.raises(InvalidValueError, match="few-samples") as caught:
        store.flag_records([record.record_id], "quarantine")
    assert "\n" not in str(caught.value)
    with pytest.raises(StoreError, match="'0000"):
        store.flag_records([record.record_id, "0" * 32], "quarantined")
    assert flags_of(store, run.run_id) == [("noisy",)]


def test_flagging_while_others_flag_and_store(target: str | Path, make_run: MakeRun, make_record: MakeRecord) -> None:
    """Two stores on one database flag the same records, in opposite orders, while a third keeps storing."""
    run = make_run()
    wanted = list(FLAGS)[1:9]
    with open_store(target) as first, open_store(target) as two, open_store(target) as writer:
        first.begin_run(run)
        early = [make_record(run.run_id) for _ in range(12)]
        for record in early:
            first.add_record(record)
        late = [make_record(run.run_id) for _ in range(25)]
        errors: list[BaseException] = []

        def guarded(work: Callable[[], object]) -> None:
            try:
                work()
            except BaseException as error:  # a thread's error would be lost
                errors.append(error)

        ids = [record.record_id for record in early]
        jobs: list[Callable[[], object]] = [
            lambda: [first.flag_records(ids, flag) for flag in wanted[::2]],
            lambda: [two.flag_records(reversed(ids), flag) for flag in wanted[1::2]],
            lambda: [writer.add_record(record) for record in late],
        ]
        threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        measurements = {record.record_id: record.measurement for record in first.records(run.run_id)}
        assert len(measurements) == 37
        for record_id in ids:
            measurement = measurements[record_id]
            assert measurement is not None
            assert measurement.flags[0] == "noisy"
            assert sorted(measurement.flags[1:]) == sorted(wanted)
            assert [flag for flag in measurement.flags if flag in wanted[::2]] == wanted[::2]


# Processes ---------------------------------------------------------------------------------------------------


def test_the_end_of_a_process_is_noted_in_its_row(store: ResultStore, run: RunInfo, make_record: MakeRecord) -> None:
    main = ProcessInfo(0, 4711, "box", "2026-03-01T10:00:00.000000+00:00")
    worker = ProcessInfo(1, 4712, "box", "2026-03-01T10:00:05.000000+00:00", role="worker")
    for process in (main, worker, worker):
        store.add_record(make_record(run.run_id, process=process))
    store.end_process(run.run_id, worker, "killed by SIGABRT")
    ended = replace(worker, end_reason="killed by SIGABRT")
    assert store.processes(run.run_id) == [main, ended]
    assert [record.process for record in store.records(run.run_id)] == [main, ended, ended]
    # Whoever still holds the process as it was goes on with the same row, and does not undo its end.
    store.add_record(make_record(run.run_id, process=worker))
    store.add_record(make_record(run.run_id, process=ended))
    assert store.processes(run.run_id) == [main, ended]
    store.end_process(run.run_id, ended, "device lost")
    assert store.processes(run.run_id) == [main, replace(worker, end_reason="device lost")]


def test_a_process_that_ended_before_its_first_record_is_kept(store: ResultStore, run: RunInfo) -> None:
    worker = ProcessInfo(1, 4712, "box", "2026-03-01T10:00:05.000000+00:00", role="worker")
    store.end_process(run.run_id, worker, "timeout after 60 s")
    assert store.processes(run.run_id) == [replace(worker, end_reason="timeout after 60 s")]


def test_a_record_may_bring_the_end_of_its_process(store: ResultStore, run: RunInfo, make_record: MakeRecord) -> None:
    worker = ProcessInfo(1, 4712, "box", "2026-03-01T10:00:05.000000+00:00", role="worker")
    ended = replace(worker, end_reason="killed by SIGSEGV")
    store.add_record(make_record(run.run_id, process=worker))
    store.add_record(make_record(run.run_id, status="failed", measurement=None, process=ended))
    assert store.processes(run.run_id) == [ended]


# Between databases -------------------------------------------------------------------------------------------


def test_a_later_export_brings_what_was_learnt_since(
    tmp_path: Path, make_run: MakeRun, make_record: MakeRecord, full_measurement: Measurement
) -> None:
    run = make_run()
    worker = ProcessInfo(1, 4712, "box", "2026-03-01T10:00:05.000000+00:00", role="worker")
    record = make_record(run.run_id, process=worker, measurement=full_measurement)
    with open_store(tmp_path / "here.db") as here, open_store(tmp_path / "there.db") as there:
        here.begin_run(run)
        here.add_record(record)
        here.add_canary(run.run_id, reading(1))

        def carry() -> tuple[int, int]:
            path = tmp_path / f"{uuid.uuid4().hex}.json"
            path.write_text(json.dumps(export_run_json(here, run.run_id), allow_nan=False), encoding="utf-8")
            report = import_file(there, path)
            return report.added, report.duplicates

        assert carry() == (1, 0)
        here.add_canary(run.run_id, reading(2, is_slow=True))
        here.flag_records([record.record_id], "quarantined")
        here.end_process(run.run_id, worker, "device lost")
        here.add_noise_floors([floor(1, class_hash=run.environment.class_hash)])
        assert carry() == (0, 1)
        assert export_run_json(there, run.run_id) == export_run_json(here, run.run_id)
        assert carry() == (0, 1)
        assert there.canaries(run.run_id) == [reading(1), reading(2, is_slow=True)]
        assert there.canary_times(run.environment.class_hash, KERNEL) == [3.5e-5]
        assert flags_of(there, run.run_id) == [("capped", "quarantined")]
        assert [process.end_reason for process in there.processes(run.run_id)] == ["device lost"]


def test_an_earlier_export_takes_nothing_back(tmp_path: Path, make_run: MakeRun, make_record: MakeRecord) -> None:
    run = make_run()
    record = make_record(run.run_id)
    early = tmp_path / "early.json"
    with open_store(tmp_path / "here.db") as here:
        here.begin_run(run)
        here.add_record(record)
        early.write_text(json.dumps(export_run_json(here, run.run_id)), encoding="utf-8")
        here.flag_records([record.record_id], "quarantined")
        here.end_process(run.run_id, record.process, "killed by SIGKILL")
        before = export_run_json(here, run.run_id)
        import_file(here, early)
        assert export_run_json(here, run.run_id) == before


def test_a_document_from_memory_names_the_processes_of_its_records(
    tmp_path: Path, make_run: MakeRun, make_record: MakeRecord
) -> None:
    run = make_run()
    record = make_record(run.run_id)
    document = export_document(ExportedRun(run, (), (), (record, make_record(run.run_id)), canaries=(reading(1),)))
    assert [process["pid"] for process in document["processes"]] == [4711]
    (tmp_path / "rescued.json").write_text(json.dumps(document), encoding="utf-8")
    with open_store(tmp_path / "there.db") as there:
        assert import_file(there, tmp_path / "rescued.json").added == 2
        assert there.processes(run.run_id) == [record.process]
        assert there.canaries(run.run_id) == [reading(1)]
