"""Plan files: slips are told before anything is loaded, with the file and the key."""

from __future__ import annotations

import dataclasses
import json

import pytest

from bench_cases.models.plan_file import read_plan
from bench_cases.models.reference import find_model
from roofline_model.core.errors import DefinitionError

SEEDED = find_model("seeded-llama-1m")
FOLDER = dataclasses.replace(SEEDED, text="/models/mine", name="mine-0a1b2c")
UNKNOWN = dataclasses.replace(FOLDER, shape=None)


@pytest.fixture
def plan_file(tmp_path):
    def write(text):
        path = tmp_path / "plan.json"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"ffn": "INT4", "ffn": "INT8"}', "'ffn' is given twice"),
        ('{"zzz": "INT4"}', "'zzz' matches no layer of seeded-llama-1m"),
        ('{"ffn": "INT4", "re:model.layers.9.*": "INT8"}', "must match a whole name"),
        ('{"re:(": "INT4"}', "not a regular expression"),
        ('{"model.layers.2.mlp.up_proj": "INT4"}', "no such name"),
        ('{"layers.2.qkv_proj": "INT4"}', "matches no layer"),
        ('{"router": "INT4"}', "matches no layer"),
        ('{"ffn": "INT5"}', "'ffn': unknown format 'INT5'"),
        ('{"ffn": NaN}', "cannot be read as JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_slip_is_one_line_with_file_and_key(plan_file, text, message):
    with pytest.raises(DefinitionError) as caught:
        read_plan(plan_file(text), SEEDED)
    assert message in str(caught.value)
    assert "plan.json" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "key",
    [
        "*",
        "ffn",
        "lm_head",
        "layers.1.gate_up_proj",
        "model.layers.1.self_attn.q_proj",
        "re:.*mlp.*",
        r"re:model\.layers\.1\..*",
    ],
)
def test_keys_that_some_layer_has_are_kept(plan_file, key):
    assert read_plan(plan_file(json.dumps({key: "INT4"})), SEEDED) == ((key, "INT4"),)


@pytest.mark.parametrize(
    ("key", "is_known"),
    [
        ("re:anything", True),
        ("transformer.odd.one", True),
        ("model.layers.2.mlp.up_proj", False),
        ("zzz", False),
        ("router", False),
    ],
)
def test_of_another_model_only_what_its_shape_tells_is_refused(plan_file, key, is_known):
    path = plan_file(json.dumps({key: "INT4"}))
    assert read_plan(path, UNKNOWN) == ((key, "INT4"),)
    if is_known:
        assert read_plan(path, FOLDER) == ((key, "INT4"),)
    else:
        with pytest.raises(DefinitionError, match="mine-0a1b2c"):
            read_plan(path, FOLDER)


def test_a_byte_order_mark_is_read_over(plan_file):
    assert read_plan(plan_file("\ufeff" + '{"ffn": "INT4"}'), SEEDED) == (("ffn", "INT4"),)
