"""`hardware_key=auto`: the chip of the server's own machine, found as the command line finds it, never by torch."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from reports.api.catalog.chip_lookup import find_chip
from reports.api.catalog.this_machine import ThisMachine, handle_of, own_chip
from reports.api.http.app import create_app
from roofline_model.chips.hardware import create_custom_asic, doubt_of_ideals, get_hardware
from roofline_model.chips.machine_constants import Calibration, Constant
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import short_text

SHAPE = {"M": 1, "N": 4096, "K": 4096}
QUESTIONS = [
    ("/api/recommend", SHAPE),
    ("/api/tiling", {**SHAPE, "M": 512}),
    ("/api/attention", {"Hq": 8, "D": 64}),
    ("/api/attention/recommend", {"Hq": 8, "D": 64}),
    ("/api/models/llama-3.1-8b/predict", {}),
    ("/api/models/llama-3.1-8b/recommend", {}),
]


def own_device():
    """A chip that no catalog has: a GB10 that measured half its bandwidth."""
    chip = get_hardware("gb10")
    return replace(
        chip, key="gb10-here", name="GB10 here", bandwidth=replace(chip.bandwidth, value=chip.bandwidth.value / 2)
    )


@pytest.fixture(scope="module")
def client():
    with TestClient(create_app(None, this_chip=own_device)) as test_client:
        yield test_client


@pytest.mark.parametrize("name", ["auto", "AUTO", " auto"])
def test_auto_is_the_chip_that_was_found(client, name):
    here = client.post("/api/analyze", params={"hardware_key": name}, json=SHAPE).json()
    there = client.post("/api/analyze?hardware_key=gb10", json=SHAPE).json()
    assert (here["hardware"], there["hardware"]) == ("gb10-here", "gb10")
    assert here["memory_time_s"] == pytest.approx(there["memory_time_s"] * 2)


@pytest.mark.parametrize(("path", "body"), QUESTIONS)
def test_every_question_may_be_about_it(client, path, body):
    assert client.post(f"{path}?hardware_key=auto", json=body).json()["hardware"] == "gb10-here"


def test_no_answer_is_given_from_ceilings_of_a_busy_machine():
    measured = Constant("B/s", 2e10, 2e10, 2e10, 0.01, 9)
    calibration = Calibration(
        measured_at="2026-11-22T10:00:00+00:00",
        subject="test CPU",
        kind="cpu",
        dram={"read": measured},
        peaks={"BF16": replace(measured, unit="FLOP/s", best_value=4e11)},
        disturbed_by=("contended",),
    )
    rates = {"FP16": 0.1, "BF16": 0.4}
    busy = replace(create_custom_asic("busy cpu", 20, rates), kind="cpu", calibration=calibration)
    with TestClient(create_app(None, this_chip=lambda: busy)) as client:
        for path, body in (("/api/analyze", SHAPE), *QUESTIONS):
            if path != "/api/tiling":  # a CPU has no tiles
                response = client.post(f"{path}?hardware_key=auto", json=body)
                assert response.status_code == 422, path
                assert short_text(doubt_of_ideals(busy)) in response.text, path


def test_the_catalog_names_it(client):
    catalog = client.get("/api/hardware").json()
    assert catalog["this_machine"]["key"] == "gb10-here"
    assert catalog["this_machine_reason"] is None
    assert catalog["this_machine"]["baseline_format"] == "FP16"
    assert catalog["this_machine"]["model_baseline_formats"] == {"BF16": "BF16", "FP16": "FP16"}
    for name in ("auto", "gb10-here", "GB10_here"):  # the key that the list gives is one to ask with
        assert client.get(f"/api/hardware/{name}").json()["content_hash"] == own_device().content_hash
        assert client.post(f"/api/analyze?hardware_key={name}", json=SHAPE).json()["hardware"] == "gb10-here"
    assert "auto is the chip of this server" in client.get("/api/hardware/gb10-there").json()["detail"]


def test_a_sweep_takes_it_along_to_its_worker(client):
    body = {**SHAPE, "formats": ["FP16"], "hardware": ["auto", "gb10", "auto"]}
    answer = client.post("/api/sweep", json=body).json()
    assert [series["hardware"] for series in answer["series"]] == ["gb10-here", "gb10"]
    assert pickle.loads(pickle.dumps(own_device())) == own_device()


def test_a_handle_tells_the_numbers_and_a_catalog_chip_keeps_its_key():
    handle = handle_of(own_device())
    assert own_chip(handle).name == find_chip(handle).name == "GB10 here"
    assert handle_of(get_hardware("gb10")) == "gb10"
    assert own_chip("auto:0000") is None


def nothing_found():
    raise UnsupportedError(
        "--hw auto: this machine is a CPU; name a chip, e.g. --hw gb10, or measure: roofline calibrate"
    )


@pytest.mark.parametrize(
    ("find", "words"), [(None, "was not told"), (nothing_found, "e.g. hardware_key=gb10, or measure")]
)
def test_without_one_the_reason_is_told(find, words):
    with TestClient(create_app(None, this_chip=find)) as client:
        answer = client.post("/api/analyze?hardware_key=auto", json=SHAPE)
        shown = client.get("/api/hardware/auto")
        listed = client.get("/api/hardware").json()
    assert (answer.status_code, shown.status_code) == (422, 404)
    assert answer.json()["errors"][0]["field"] == "hardware_key"
    assert words in answer.json()["detail"]
    assert words in listed["this_machine_reason"]
    assert listed["this_machine"] is None


def test_it_is_looked_for_once():
    calls = []

    def find():
        calls.append(1)
        return own_device()

    machine = ThisMachine(find)
    assert machine.handle() == machine.handle()
    assert len(calls) == 1


def test_the_command_line_finds_it_without_torch():
    code = (
        "import sys\nfrom roofline_cli.shared.options import this_chip\ntry:\n  this_chip()\nexcept Exception as e:\n  "
        "print(type(e).__name__)\nprint('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
