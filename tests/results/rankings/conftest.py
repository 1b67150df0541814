"""Nights of a shape made to order: the same kernels, other times, drivers, flags."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from results.records.records import EnvironmentInfo, Record, RunInfo

FIRST = datetime(2026, 11, 1, 2, tzinfo=UTC)
BF16, INT8, INT4 = ("BF16", "BF16", "matmul"), ("INT8", "INT8", "int_mm"), ("INT4", "BF16", "tinygemm")
FP8 = ("FP8_E4M3", "FP8_E4M3", "scaled_mm_row")
DECODE = (1, 4096, 4096)
Kernel = tuple[str, str, str]
StoredRun = tuple[RunInfo, list[Record]]


@pytest.fixture(scope="session")
def stored_run(make: SimpleNamespace) -> Callable[..., StoredRun]:
    """A run of a night and its records: `night(3, {BF16: 22e-6, INT4: 9e-6}, driver="580.95", processes=3)`."""

    def of(
        day: int,
        times_s: Mapping[Kernel, float | str | None],
        *,
        driver: str = "580.95",
        processes: int = 3,
        shape: tuple[int, int, int] = DECODE,
        device: object = None,
        flags: tuple[str, ...] = (),
        **run: object,
    ) -> StoredRun:
        chip = make.GPU if device is None else device
        run_id = f"{day:08x}{'0' * 24}"
        facts = {"device": chip.key, "driver": driver}
        fields = {
            "run_id": run_id,
            "started_at": (FIRST + timedelta(days=day)).isoformat(timespec="microseconds"),
            "hardware_key": chip.key,
            "environment": EnvironmentInfo({**facts, "host": "lab"}, facts),
            "git_branch": "main",
            "git_commit": f"{day:09d}" + "0" * 31,
            **run,
        }
        records: list[Record] = []
        for kernel, time_s in times_s.items():
            for ordinal in range(processes if isinstance(time_s, float) else 1):
                number = day * 10_000 + len(records)
                if isinstance(time_s, float):
                    # Processes differ by a little, the same way every night.
                    own_s = time_s * (1 + 0.002 * (ordinal - 1))
                    record = make.record(shape, *kernel, own_s, device=chip, number=number, run_id=run_id, flags=flags)
                elif time_s is None:
                    record = make.record(shape, *kernel, device=chip, number=number, run_id=run_id)
                else:
                    status, _, reason = time_s.partition(": ")
                    record = make.record(
                        shape, *kernel, device=chip, number=number, run_id=run_id, status=status, reason=reason
                    )
                records.append(replace(make.in_process(record, ordinal), created_at=fields["started_at"]))
        return make.run(**fields), records

    return of


@pytest.fixture(scope="session")
def recommend(make: SimpleNamespace) -> Callable[..., object]:
    """`recommend([run, run], **question)`: the answer of some runs. The choice may lose anything: the default limit has
    its own tests.
    """
    from results.rankings import StoredQuestion, recommend_from_runs

    def of(nights: list[StoredRun], *, with_chip: bool = False, chips: tuple[object, ...] = (), **question: object):
        profiles = make.profiles(*chips, *((make.GPU, make.CPU) if with_chip else ()))
        records = [record for _, records in nights for record in records]
        question_asked = StoredQuestion(**{"max_loss_pct": math.inf, **question})
        return recommend_from_runs([run for run, _ in nights], records, profiles, question_asked)

    return of
