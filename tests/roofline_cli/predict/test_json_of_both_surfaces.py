"""The command line's `--json` and the API give one object for one question: the same keys, the same numbers."""

from __future__ import annotations

import json

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from reports.api.http.app import create_app
from reports.present.encoder import SCHEMA_VERSION
from roofline_cli.main import app

PRODUCTS = [
    (["predict", "gemv", "-N", "4096", "-K", "4096", "--hw", "gb10"], {"M": 1, "N": 4096, "K": 4096}, "BF16", "INT4"),
    (["predict", "gemm", "-M", "512", "-N", "4096", "-K", "14336", "--hw", "h100"], {"M": 512, "N": 4096, "K": 14336}, "FP8_E4M3", "FP8_E4M3"),
    (["predict", "gemm", "-M", "64", "-N", "8192", "-K", "8192", "--hw", "mi300x"], {"M": 64, "N": 8192, "K": 8192}, "FP16", "FP16"),
    (["predict", "gemv", "-N", "4096", "-K", "4096", "--hw", "b10"], {"M": 1, "N": 4096, "K": 4096}, "NVFP4", "NVFP4"),
]  # fmt: skip
ATTENTIONS = [
    (["--heads", "32", "--kv-heads", "8", "--head-dim", "128", "--kv-len", "8192", "--hw", "h100"], {"Hq": 32, "Hkv": 8, "D": 128, "Skv": 8192}, "BF16", "FP8_E4M3"),
    (["--heads", "16", "--head-dim", "64", "--q-len", "2048", "--causal", "--hw", "gb10", "--kernel", "fa2"], {"Hq": 16, "D": 64, "Sq": 2048, "causal": True, "kernel": "fa2"}, "FP16", "FP16"),
]  # fmt: skip


@pytest.fixture(scope="module")
def client():
    return TestClient(create_app())


def ask_command(*arguments: str, exit_code: int = 0):
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == exit_code, result.output
    document = json.loads(result.stdout)
    assert document.pop("schema_version") == SCHEMA_VERSION
    return document


def pair(activation: str, stored: str) -> str:
    return stored if stored == activation else f"{stored}.{activation}"


@pytest.mark.parametrize(("command", "body", "activation", "weight"), PRODUCTS)
def test_a_product(client, command, body, activation, weight):
    [row] = ask_command(*command, "--formats", pair(activation, weight))["predictions"]
    question = {**body, "precision": activation, "weight_precision": weight}
    assert {"schema_version": SCHEMA_VERSION, **row} == client.post(
        f"/api/analyze?hardware_key={command[-1]}", json=question
    ).json()


@pytest.mark.parametrize(("options", "body", "query", "cache"), ATTENTIONS)
def test_attention(client, options, body, query, cache):
    [row] = ask_command("predict", "attention", *options, "--formats", pair(query, cache))["predictions"]
    chip = options[options.index("--hw") + 1]
    question = {**body, "precision": query, "kv_precision": cache}
    assert {"schema_version": SCHEMA_VERSION, **row} == client.post(
        f"/api/attention?hardware_key={chip}", json=question
    ).json()


@pytest.mark.parametrize(
    ("options", "chip", "body"),
    [
        (["--formats", "INT4.BF16"], "gb10", {"formats": "INT4.BF16"}),
        (["--phase", "prefill", "--context", "2048", "--batch", "4", "--formats", "FP8", "--kv", "FP8"], "h100",
         {"phase": "prefill", "context_tokens": 2048, "batch_count": 4, "formats": "FP8", "kv_format": "FP8"}),
        (["--formats", "NVFP4"], "mi300x", {"formats": "NVFP4"}),
    ],
)  # fmt: skip
def test_a_model(client, options, chip, body):
    [row] = ask_command("predict", "model", "--model", "llama-3.1-8b", "--hw", chip, *options)["predictions"]
    assert {"schema_version": SCHEMA_VERSION, **row} == client.post(
        f"/api/models/llama-3.1-8b/predict?hardware_key={chip}", json=body
    ).json()
