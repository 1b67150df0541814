"""Traffic as a line or a file: read back equal, mistakes named."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model.core.errors import DefinitionError, InvalidValueError, RooflineError
from roofline_model.recommend.search.model_problem import traffic_share
from roofline_model.recommend.search.traffic_file import read_traffic, traffic_from_text, traffic_text


@given(
    phase=st.sampled_from(["decode", "prefill"]),
    batch=st.integers(1, 4096),
    context=st.integers(2, 10**6),
    share=st.floats(1e-6, 1e6),
    new=st.none() | st.integers(1, 2),
)
def test_a_line_reads_back_equal(phase, batch, context, share, new):
    single = traffic_share(phase, batch=batch, context=context, new_tokens=new, share=share)
    assert traffic_from_text(traffic_text(single)) == (single,)


def test_what_a_line_leaves_out_has_the_defaults_of_a_share():
    assert traffic_from_text("Prefill: context=2_048 , share=.5") == (
        traffic_share("prefill", context=2048, share=0.5),
    )
    assert traffic_from_text("decode") == traffic_from_text("decode:") == (traffic_share(),)


def test_a_file_holds_several_passes(tmp_path):
    path = tmp_path / "traffic.json"
    passes = [
        {"phase": "decode", "batch": 8, "context": 4096, "share": 0.7},
        {"phase": "prefill", "context": 2048, "new_tokens": 512},
    ]
    path.write_text(json.dumps({"schema": 1, "traffic": passes}))
    wanted = (traffic_share(batch=8, share=0.7), traffic_share("prefill", context=2048, new_tokens=512))
    assert traffic_from_text(str(path)) == read_traffic(path) == wanted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("chat:batch=1", "neither PHASE:FIELD=VALUE"),
        ("decod", "neither PHASE:FIELD=VALUE"),
        ("decode:batch=0", "batch must be a whole number from 1"),
        ("decode:batch=1.5", "batch must be a whole number, got '1.5'"),
        ("decode:batch=2,batch=3", "batch is given twice"),
        ("decode:phase=prefill", "with a field of batch, context, new_tokens, share"),
        ("decode:8", "is not FIELD=VALUE"),
        ("decode:share=much", "share must be a positive number, got 'much'"),
        ("decode:share=0", "share of a pass must be a positive number"),
        ("decode:context=4,new_tokens=5", "must not exceed context"),
    ],
)
def test_a_bad_line_is_told(text, words):
    with pytest.raises(InvalidValueError) as error:
        traffic_from_text(text)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "expected an object of fields"),
        ({"schema": 2, "traffic": []}, "schema must be 1"),
        ({"schema": 1}, "traffic must be a list of passes, got None"),
        ({"schema": 1, "traffic": []}, "traffic must be a list of passes"),
        ({"schema": 1, "traffic": [3]}, "pass 1: is 3, not a table"),
        ({"schema": 1, "traffic": [{"phase": "chat"}]}, "pass 1: phase is 'chat', not one of decode, prefill"),
        ({"schema": 1, "traffic": [{"phase": "decode", "bach": 1}]}, "unknown field 'bach'"),
        (
            {"schema": 1, "traffic": [{"phase": "decode"}, {"phase": "decode", "batch": "8"}]},
            "pass 2: batch is '8', not a whole number",
        ),
        ({"schema": 1, "traffic": [{"phase": "decode", "share": "1"}]}, "share is '1', not a number"),
    ],
)
def test_a_bad_file_is_told_with_the_pass(tmp_path, data, words):
    path = tmp_path / "traffic.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    with pytest.raises(RooflineError) as error:
        read_traffic(path)
    assert isinstance(error.value, DefinitionError)
    assert str(path) in str(error.value)
    assert words in str(error.value)
