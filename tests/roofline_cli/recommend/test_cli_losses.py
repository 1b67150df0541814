"""`roofline losses`: measured losses go to a file that `recommend` reads; slips cost nothing."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_model.recommend.search.losses_file import read_losses

runner = CliRunner()


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("losses")
    path = folder / "losses.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bench_cases.models.step_quality.WINDOWS_COUNT", {"cpu": 2, "cuda": 2})
        done = runner.invoke(
            app, ["losses", "--model", "seeded-llama-1m", "--formats", "INT8,INT4", "--kv", "INT8", "-o", str(path)]
        )
    assert done.exit_code == 0, done.output
    return path, done.output


def test_every_group_and_format_has_a_loss(measured):
    losses = read_losses(measured[0])
    groups = {name for name, _ in losses.values}
    assert {"layers.0.qkv_proj", "layers.1.down_proj", "layers.1.kv", "lm_head"} <= groups
    assert {label for name, label in losses.values if not name.endswith(".kv")} == {"INT8.BF16", "INT4.BF16"}
    assert all(
        losses.values[name, "INT4.BF16"] > losses.values[name, "INT8.BF16"] for name in ("lm_head", "layers.0.o_proj")
    )
    assert "say nothing about language" in losses.note


def test_the_table_says_what_is_worst_and_what_to_do_next(measured):
    output = measured[1]
    assert "INT4.BF16" in output
    assert "cache INT8" in output
    assert "random tokens" in output
    assert "roofline recommend --model seeded-llama-1m --losses" in " ".join(output.split())


def test_the_file_starts_the_search(measured):
    done = runner.invoke(
        app,
        [
            "recommend",
            "--model",
            "seeded-llama-1m",
            "--context",
            "128",
            "--hw",
            "gb10",
            "--losses",
            str(measured[0]),
            "--json",
        ],
    )
    assert done.exit_code == 0, done.output
    document = json.loads(done.output)
    assert "layer-wise KL" in document["findings"][0]["text"]
    int4 = next(candidate for candidate in document["candidates"] if candidate["plan"] == "INT4.BF16")
    assert int4["quality"]["source"] == "measured"


@pytest.mark.parametrize(
    ("given", "message"),
    [(["--formats", "INT8,INT5"], "INT5"), (["--formats", "INT8,BF16"], "BF16"), (["--kv", "INT8,MXFP4"], "--kv takes"), (["--kv", "INT5"], "INT5")],
)  # fmt: skip
def test_formats_are_read_before_anything_is_loaded(tmp_path, monkeypatch, given, message):
    monkeypatch.setattr("bench_cases.models.sources.load_model", lambda *a, **k: pytest.fail("loaded"))
    done = runner.invoke(app, ["losses", "--model", "seeded-llama-1m", "-o", str(tmp_path / "x.json"), *given])
    assert (done.exit_code, message in done.output) == (2, True), done.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "nobody/none", "-o", "x.json"], "cannot load model 'nobody/none'"),
        (["--model", "seeded-llama-1m", "-o", "nowhere/x.json"], "there is not a folder"),
        (["--model", "seeded-llama-1m", "--formats", "INT5", "-o", "x.json"], "INT5"),
        (["--model", "seeded-llama-1m", "--formats", "BF16", "-o", "x.json"], "BF16"),
    ],
)  # fmt: skip
def test_slips_are_one_line_and_write_nothing(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    done = runner.invoke(app, ["losses", *arguments])
    assert done.exit_code == 2, done.output
    assert message in done.output
    assert len(done.output.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
