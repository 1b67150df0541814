"""A losses file reads back what was written, names the field that is wrong, and its losses mean perplexity."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model.core.errors import DefinitionError, InvalidValueError
from roofline_model.recommend.search.losses_file import (
    CONFIDENCE_OF,
    METHODS,
    MeasuredLosses,
    loss_in_nats,
    loss_pct,
    losses_text,
    read_losses,
    read_losses_text,
    write_losses,
)

GOOD = {
    "schema": 1,
    "model": "tiny",
    "method": "kl",
    "unit": "nats/token",
    "text": "a text",
    "tokens_count": 512,
    "losses": {
        "layers.0.qkv_proj": {"INT4.BF16": 0.01, "FP8": 0.001},
        "model.layers.1.mlp.down_proj": {"INT4.BF16": 0.02},
    },
}


def text_of(**changes: object) -> str:
    return json.dumps({name: value for name, value in {**GOOD, **changes}.items() if value is not ...})


layer_names = st.integers(0, 40).flatmap(
    lambda layer: st.sampled_from(["qkv_proj", "o_proj", "kv"]).map(lambda part: f"layers.{layer}.{part}")
)


@given(
    values=st.dictionaries(
        st.tuples(layer_names, st.sampled_from(["INT4.BF16", "FP8_E4M3", "NVFP4"])),
        st.floats(-1e-3, 1e6, exclude_max=True),
        min_size=1,
        max_size=12,
    ),
    method=st.sampled_from(list(METHODS)),
    tokens=st.integers(1, 10**9),
    note=st.sampled_from(["", 'weights "only" \\ µ']),
)
def test_what_is_written_reads_back_equal(values, method, tokens, note):
    losses = MeasuredLosses(values, "tiny", method, text="a text", tokens_count=tokens, note=note)
    assert read_losses_text(losses_text(losses)) == losses
    assert losses.table.confidence == CONFIDENCE_OF[method]


def test_a_file_is_written_whole_and_read(tmp_path: Path):
    losses = read_losses_text(text_of())
    path = write_losses(losses, tmp_path / "losses.json")
    assert read_losses(path) == losses
    assert [path.name for path in tmp_path.iterdir()] == ["losses.json"]
    assert losses.source == "layer-wise KL, tiny, 512 tokens of a text, nats/token"
    assert losses.table.values == {
        ("layers.0.qkv_proj", "INT4.BF16"): 0.01,
        ("layers.0.qkv_proj", "FP8"): 0.001,
        ("model.layers.1.mlp.down_proj", "INT4.BF16"): 0.02,
    }
    with pytest.raises(DefinitionError, match="cannot be written"):
        write_losses(losses, tmp_path / "absent" / "losses.json")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
def test_neither_a_device_nor_a_link_is_replaced(tmp_path: Path):
    """As root `-o /dev/null` once made /dev/null a file."""
    losses = read_losses_text(text_of())
    pipe, link, file = tmp_path / "pipe", tmp_path / "link.json", tmp_path / "losses.json"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        write_losses(losses, pipe)
        assert pipe.is_fifo()
        assert read_losses_text(os.read(reading, 65_536).decode()) == losses
    finally:
        os.close(reading)
    link.symlink_to(file.name)
    write_losses(losses, link)
    assert link.is_symlink()
    assert read_losses(file) == losses


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not valid JSON"),
        ("[]", "expected an object of fields"),
        (text_of(schema=2), "schema must be 1, got 2"),
        (text_of(schema=True), "schema must be 1"),
        (text_of(losess={}), "unknown field 'losess'. Known: confidence"),
        (text_of(model=...), "model is missing"),
        (text_of(losses=...), "losses is None, not a table"),
        (text_of(model=" "), "model is empty"),
        (text_of(model=3), "model is 3, not text"),
        (text_of(text="a\nb"), "text must be printable text"),
        (text_of(method="guess"), "method must be kl, fisher, prior, got 'guess'"),
        (text_of(unit="bits"), "unit must be nats/token for method kl"),
        (text_of(tokens_count=0), "tokens_count is 0, but method kl needs tokens"),
        (text_of(tokens_count=1.5), "tokens_count is 1.5, not a whole number"),
        (text_of(confidence="sure"), "confidence must be high, medium, low"),
        (text_of(method="prior", confidence="high"), "confidence high is more than method prior gives; at most low"),
        (text_of(losses={}), "table of losses is empty"),
        (text_of(losses=[1]), "losses is [1], not a table"),
        (text_of(losses={"lm_head": 0.1}), "losses.lm_head is 0.1, not a table"),
        (
            text_of(losses={"lm_head": {"INT4.BF16": "much"}}),
            "losses.lm_head.INT4.BF16 is 'much', not a number",
        ),
        (text_of(losses={"lm_head": {"INT4.BF16": -0.5}}), "a KL is not negative"),
        (
            text_of(losses={"lm_head": {"INT4.BF16": 10**400}}),
            "losses.lm_head.INT4.BF16 is 1000",
        ),
        (text_of(losses={"lm_head": {"INT4.BF16": 1e308}}), "below 1,000,000"),
        (text_of(losses={"lm_head": {"INT4.BF16": True}}), "losses.lm_head.INT4.BF16 is True, not a number"),
        (text_of(losses={"lm\nhead": {"INT4.BF16": "x"}}), "losses.'lm\\nhead'.INT4.BF16 is 'x'"),
        (text_of(method="prior", unit="score", losses={"lm_head": {"INT4.BF16": 1e308}}), "must be a finite number"),
        (text_of(method="prior", unit="score", losses={"lm_head": {"INT4.BF16": 10**400}}), "is 1000"),
        (text_of(losses={"lm_head": {"INT5": 1}}), "unknown format 'INT5'"),
        ('{"schema": 1, "schema": 1}', "'schema' is given twice"),
        (text_of().replace("0.01", "NaN"), "NaN is not a number of a losses file"),
    ],
)
def test_a_mistake_is_told_with_file_field_and_reason(text, words):
    with pytest.raises(DefinitionError) as error:
        read_losses_text(text, "mine.json")
    assert str(error.value).startswith("mine.json: ")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_noise_below_zero_is_read_as_zero():
    losses = read_losses_text(text_of(losses={"lm_head": {"INT4.BF16": -9e-4, "INT8": 0.5}}))
    assert dict(losses.values) == {("lm_head", "INT4.BF16"): 0.0, ("lm_head", "INT8"): 0.5}
    score = {"lm_head": {"INT4.BF16": -2.0}}
    prior = read_losses_text(text_of(method="prior", unit="score", tokens_count=0, losses=score))
    assert prior.values["lm_head", "INT4.BF16"] == -2.0


@pytest.mark.parametrize(
    ("measured", "name", "is_one"),
    [
        ("mymodel-877f89", "mymodel", True), ("mymodel", "mymodel-877f89", True), ("my_model-877f89", "my model", True),
        ("mymodel-877f89", "mymodel-877f88", False), ("mymodel-877f89", "mymodels", False), ("tiny", "tiny", True),
        ("llama-3-8b", "llama-3", False),
    ],
)  # fmt: skip
def test_a_folder_is_known_with_and_without_its_digits(measured, name, is_one):
    losses = MeasuredLosses({("lm_head", "INT4.BF16"): 1.0}, measured, "kl", tokens_count=1)
    assert losses.is_of(name) is is_one


def test_losses_mean_perplexity():
    assert loss_pct(math.log(1.05)) == pytest.approx(5)
    assert loss_in_nats(5) == pytest.approx(math.log(1.05))
    assert loss_pct(0.001) == pytest.approx(0.1, rel=1e-3)  # small: a thousandth of a nat is a tenth of a percent
    assert math.isfinite(loss_pct(1e9))
    scores = MeasuredLosses({("lm_head", "INT4.BF16"): 1.0}, "tiny", "prior", "relative")
    assert not scores.is_in_nats
    with pytest.raises(InvalidValueError, match="unit must be nats/token"):
        MeasuredLosses({("lm_head", "INT4.BF16"): 1.0}, "tiny", "fisher", "relative", tokens_count=1)
