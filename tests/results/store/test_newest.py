"""The newest nights of every case out of a store: as many as asked for, by case and chip, measured ones apart."""

from __future__ import annotations

from dataclasses import replace

from results import open_store
from results.store.newest import LOST_NIGHT_COUNT, measuring_runs, newest_records


def test_the_newest_nights_of_each_case_and_chip(tmp_path, make_run, make_record) -> None:
    with open_store(str(tmp_path / "results.db")) as store:
        wanted = set()
        for day in range(6):
            for chip in ("gb10", "h100"):
                run_id = f"{day:02d}{chip.encode().hex()}".ljust(32, "0")
                run = replace(
                    make_run(),
                    run_id=run_id,
                    started_at=f"2026-11-{day + 1:02d}T02:00:00.000000+00:00",
                    hardware_key=chip,
                )
                measured, lost = make_record(run_id), make_record(run_id)
                other = replace(measured.case, kernel="another")
                lost = replace(lost, case=other, status="skipped", reason="no kernel", measurement=None)
                store.add_run(run, (), (measured, lost))
                wanted |= {measured.record_id} if day >= 3 else set()
                wanted |= {lost.record_id} if day >= 6 - LOST_NIGHT_COUNT else set()
        records = newest_records(store, night_count=3)
        assert {record.record_id for record in records.records} == wanted
        assert {run.hardware_key for run in records.runs.values()} == {"gb10", "h100"}
        assert {record.run_id for record in records.records} == set(records.runs)
        only = newest_records(store, lambda case: case.kernel == "another")
        assert {record.case.kernel for record in only.records} == {"another"}
        assert newest_records(store, lambda case: False).records == ()


def test_the_newest_run_of_each_chip_that_measured_something_on_it(tmp_path, make_run, make_record) -> None:
    with open_store(str(tmp_path / "results.db")) as store:
        for day, chip, status, is_forced in (
            (1, "gb10", "measured", False),
            (2, "gb10", "measured", False),
            (3, "gb10", "skipped", False),
            (4, "gb10", "measured", True),
            (1, "h100", "measured", False),
        ):
            run_id = f"{day:02d}{chip.encode().hex()}".ljust(32, "0")
            started_at = f"2026-11-{day:02d}T02:00:00.000000+00:00"
            run = replace(make_run(), run_id=run_id, started_at=started_at, hardware_key=chip, is_forced=is_forced)
            record = make_record(run_id)
            lost = {} if status == "measured" else {"measurement": None, "reason": "no kernel"}
            store.add_run(run, (), (replace(record, status=status, **lost),))
        started_of_chip = {run.hardware_key: run.started_at[:10] for run in measuring_runs(store)}
    assert started_of_chip == {"gb10": "2026-11-02", "h100": "2026-11-01"}
