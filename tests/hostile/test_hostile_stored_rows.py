"""Rows that an older version let in: no reader fails over a profile or a prediction that nothing has, and `db check`
names it.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import diff_runs
import pytest
from counts import sampled
from typer.testing import CliRunner

from results.operations.check import check_store
from results.records.records import HardwareProfile, PredictionRecord, Record
from results.store.store import open_store
from roofline_cli.main import app
from roofline_model.chips.hardware import get_hardware
from roofline_model.ideal.roofline import predict
from roofline_model.operators.product import gemm

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'roofline-bench[api]'")

CHIP = get_hardware("b10")
COMMANDS = (
    ("recommend", "--stored"),
    ("recommend", "--stored", "--json"),
    ("report", "--format", "json"),
    ("report", "--format", "md"),
    ("show", "latest"),
    ("show", "latest", "--json"),
    ("runs",),
    ("history", "--all", "--metric", "error"),
)
PATHS = ("/api/recommendations", "/api/runs/latest", "/api/runs/latest/cases", "/api/runs/latest/report")


def profile_with(place: tuple[str, ...], value: Any) -> HardwareProfile:
    plain = CHIP.to_dict()
    part = plain
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    return HardwareProfile(CHIP.key, CHIP.name, CHIP.content_hash, plain)


def records_of(run_id: str) -> list[Record]:
    """One shape in two formats, the narrow one faster."""
    made = []
    for weight, time_s in (("BF16", 2e-4), ("INT8", 1.2e-4)):
        work = gemm(1, 4096, 4096, a="BF16", b=weight)
        ideal = PredictionRecord.from_prediction(predict(work, CHIP), CHIP.content_hash, time_s)
        made.append(
            Record(
                record_id=uuid.uuid4().hex,
                run_id=run_id,
                case=work.case("matmul"),
                status="measured",
                method=diff_runs.METHOD,
                measurement=replace(diff_runs.measurement(time_s), std_s=0.0),
                predictions=(ideal,),
            )
        )
    return made


@pytest.fixture
def database(tmp_path: Path) -> Callable[..., Path]:
    def stored(profile: HardwareProfile, **odd: Any) -> Path:
        path = tmp_path / "results.db"
        run = diff_runs.run_info("odd")
        first, *others = records_of(run.run_id)
        bad = replace(first, predictions=(replace(first.predictions[0], **odd),))
        with open_store(path) as store:
            store.add_run(run, [profile], [bad, *others])
        return path

    return stored


def read_by_all(path: Path) -> None:
    from fastapi.testclient import TestClient

    from reports.api.http.app import create_app

    for command in COMMANDS:
        answer = CliRunner().invoke(app, [*command, "--db", str(path)])
        assert answer.exit_code == 0, (command, answer.output, answer.exception)
    client = TestClient(create_app(path), base_url="http://127.0.0.1", raise_server_exceptions=False)
    assert {address: client.get(address).status_code for address in PATHS} == dict.fromkeys(PATHS, 200)


def problems(path: Path) -> list[str]:
    with open_store(path, read_only=True) as store:
        return [problem.what for problem in check_store(store)]


def test_rows_as_they_should_be(database: Callable[..., Path]) -> None:
    path = database(profile_with(("name",), CHIP.name))
    read_by_all(path)
    assert problems(path) == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("bandwidth", "value"), "x"),
        (("bandwidth", "value"), -1),
        (("bandwidth", "value"), math.nan),
        (("bandwidth", "value"), 10**400),
        (("paths", "BF16"), "x"),
        (("paths", "BF16", "dense", "value"), None),
        (("paths", "BF16", "compute_format"), []),
        (("levels",), 3),
    ],
)
def test_a_profile_of_no_chip(database: Callable[..., Path], place: tuple[str, ...], value: object) -> None:
    path = database(profile_with(place, value))
    read_by_all(path)
    (problem,) = problems(path)
    assert ".".join(("profile", *place)) in problem


FIELDS = ("time_s", "flops", "read_bytes", "low_s", "bandwidth_bytes_per_s")


@pytest.mark.parametrize(("field", "value"), sampled(product(FIELDS, (-1.0, math.nan, math.inf)), 6))
def test_a_prediction_of_nothing(database: Callable[..., Path], field: str, value: float) -> None:
    path = database(profile_with(("name",), CHIP.name), **{field: value})
    read_by_all(path)
    (problem,) = problems(path)
    assert f"predictions[0].{field}" in problem
