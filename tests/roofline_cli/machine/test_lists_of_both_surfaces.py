"""The command line and the API list chips, formats and tiles with the same keys and numbers: one declaration each."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient
from typer.testing import CliRunner

from reports.api.answer_models import answer_bytes, document_model
from reports.api.http.app import create_app
from reports.present.encoder import SCHEMA_VERSION
from roofline_cli.main import app
from roofline_model.chips.curve import CurvePoint, KernelCurve
from roofline_model.chips.hardware import get_hardware
from roofline_model.chips.machine_constants import Calibration, Constant
from roofline_model.predictions.catalog import HardwareDetail, hardware_detail


@pytest.fixture(scope="module")
def client():
    return TestClient(create_app())


def ask_command(*arguments: str):
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert next(iter(document.items())) == ("schema_version", SCHEMA_VERSION)
    return document


def test_chips(client):
    served = client.get("/api/hardware").json()
    assert ask_command("hardware", "list")["hardware"] == served["hardware"]
    assert set(served) == {"schema_version", "hardware", "default_key", "this_machine", "this_machine_reason"}


@pytest.mark.parametrize("key", ["b10", "gb10", "h100-sxm", "mi300x"])
def test_a_chip(client, key):
    assert ask_command("hardware", "show", key) == client.get(f"/api/hardware/{key}").json()


@pytest.mark.parametrize("chip", ["gb10", "a100-sxm-80gb"])
def test_a_recommendation_for_a_model(client, chip):
    answer = ask_command("recommend", "--model", "llama-3.1-8b", "--hw", chip, "--batch", "4")
    assert (
        answer == client.post(f"/api/models/llama-3.1-8b/recommend?hardware_key={chip}", json={"batch_count": 4}).json()
    )
    assert answer["prediction"]["expected"]["time_s"] == answer["candidates"][0]["time_s"]


def test_formats(client):
    assert ask_command("formats") == client.get("/api/formats").json()


@pytest.mark.parametrize(
    ("shape", "chip", "weight", "cache"),
    [((512, 7168, 4096), "h100-sxm", "BF16", "cold"), ((512, 7168, 4096), "gb10", "INT4", "warm"), ((1, 4096, 4096), "gb10", "BF16", "cold")],
)  # fmt: skip
def test_a_tile(client, shape, chip, weight, cache):
    sizes = dict(zip("MNK", shape, strict=True))
    options = [part for name, size in sizes.items() for part in (f"-{name}", str(size))]
    formats = "BF16" if weight == "BF16" else f"{weight}.BF16"
    answer = ask_command("tiling", *options, "--hw", chip, "--formats", formats, "--cache", cache)
    assert answer.pop("plot") is None
    question = {**sizes, "precision": "BF16", "weight_precision": weight, "cache": cache}
    assert answer == client.post(f"/api/tiling?hardware_key={chip}", json=question).json()
    assert (answer["tiling"] is None) == (shape[0] == 1)


def test_a_chip_that_a_machine_calibrated_is_one_of_its_model():
    curve = KernelCurve("gemv", "mv", ("BF16",), {"1": (CurvePoint(1e6, (1e-4, 1.1e-4)),)}, 0.1)
    ceiling = Constant("B/s", 5e10, 4.5e10, 4e10, 0.02, 9)
    calibration = Calibration(
        "2026-11-01T00:00:00Z", "a chip", "cuda", {"read": ceiling}, kernels=(curve,), conditions={"threads": 2}
    )
    answer = answer_bytes(hardware_detail(replace(get_hardware("gb10"), calibration=calibration)))
    document_model(HardwareDetail).model_validate_json(answer, strict=True)
    assert json.loads(answer)["calibration"]["dram"]["read"]["best_value"] == 5e10
