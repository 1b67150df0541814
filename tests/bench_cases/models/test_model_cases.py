"""Which cases a model has, by options: ids, precisions of a device, plans, caches. No torch."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bench_cases.models.model_cases import linear_paths, model_cases
from bench_cases.models.reference import find_model
from bench_cases.quantization.target import Target
from roofline_model.core.errors import RooflineError

CPU = Target("cpu")
H100 = Target("cuda", (9, 0))
B200 = Target("cuda", (10, 0))


@pytest.fixture(scope="module")
def seeded():
    return find_model(None)


def test_the_quick_set_is_three_precisions_in_two_phases_the_models_own_first(seeded):
    cases = model_cases(seeded, "cpu", "quick")
    assert [(case.precision, case.phase) for case in cases] == [
        (precision, phase) for precision in ("BF16", "INT8", "INT4") for phase in ("decode", "prefill")
    ]
    assert cases[4].id == "decode-1x1x128-w4a16-INT4.BF16-torchao-warm"
    assert cases[0].case.op == "decode:seeded-llama-156m"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_ids_and_keys_are_unique_in_the_largest_set(seeded, device):
    cases = model_cases(seeded, device, "full", kv_formats=("INT8", "NVFP4"))
    assert len({case.id for case in cases}) == len(cases) > 30
    assert len({case.case.case_key for case in cases}) == len(cases)


def test_formats_keep_and_add_precisions(seeded):
    assert [case.precision for case in model_cases(seeded, "cpu", "quick", formats=("INT4",))] == ["INT4", "INT4"]
    assert {case.precision for case in model_cases(seeded, "cpu", "standard", formats=("INT4",))} == {
        "INT4",
        "INT4.INT8",
    }
    precisions = {case.precision for case in model_cases(seeded, "cuda", "quick", formats=("MXFP4", "BF16"))}
    assert precisions == {"BF16", "MXFP4"}


@pytest.mark.parametrize(
    ("device", "requested", "expected"),
    [
        ("cpu", ("INT4.INT8",), ["INT4.INT8"]),
        ("cpu", ("INT4.FP16",), ["INT4"]),  # any 16-bit activations are the model's own
        ("cpu", ("INT4.INT8", "BF16", "INT4"), ["BF16", "INT4", "INT4.INT8"]),
        ("cpu", ("BF16.BF16",), ["BF16"]),
        ("cpu", ("NF4",), []),
        ("cuda", ("FP8_E4M3",), ["FP8"]),
        ("cuda", ("FP8_E4M3.BF16",), ["FP8.BF16"]),
        ("cuda", ("MXFP8_E4M3",), ["MXFP8"]),
    ],
)
def test_a_weight_alone_is_the_sets_and_a_pair_is_itself(seeded, device, requested, expected):
    cases = model_cases(seeded, device, "quick", formats=requested)
    assert list(dict.fromkeys(case.precision for case in cases)) == expected


def test_a_saved_model_is_kept_by_its_weights_or_its_pair(seeded):
    saved = replace(seeded, saved_precision="INT4")
    assert {len(model_cases(saved, "cpu", "quick", formats=formats)) for formats in (("INT4",), ("INT4.BF16",))} == {2}
    assert model_cases(saved, "cpu", "quick", formats=("INT8", "INT4.INT8")) == []


def test_sizes_of_products_select_no_model_unless_its_own_sizes_are_given(seeded):
    assert model_cases(seeded, "cpu", "1x4096x4096") == []
    assert len(model_cases(seeded, "cpu", "1x4096x4096", batches=(1, 2), contexts=(64,))) == 12


def test_a_narrow_cache_is_a_decode_case_of_the_16_bit_model(seeded):
    case = model_cases(seeded, "cpu", "quick", kv_formats=("INT8",))[-1]
    assert (case.precision, case.phase, case.kernel) == ("BF16", "decode", "transformers.kv_INT8")
    assert dict(case.case.formats)["kv"] == "INT8"


def test_a_plan_and_a_method_are_part_of_the_kernels_name(seeded, tmp_path):
    path = tmp_path / "my plan.json"
    path.write_text(json.dumps({"ffn": "INT4", "lm_head": "INT8", "qkv_proj": "INT4"}))
    cases = model_cases(seeded, "cpu", "quick", plan_paths=(path,), method="hqq")
    assert {case.kernel for case in cases} == {"transformers", "torchao.hqq", "torchao.hqq.plan_my_plan"}
    plan = cases[-1]
    assert dict(plan.plan)["ffn"] == "INT4"
    assert plan.formats == ("INT4", "BF16")
    assert plan.work(CPU) is None
    assert all(case.method == "round-to-nearest" for case in cases if case.is_plain)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "must be a JSON object"),
        ("{}", "must be a JSON object"),
        ("{", "cannot be read as JSON"),
        ('{"ffn": 4}', "must be a JSON object"),
        ('{"ffn": "INT5"}', "INT5"),
    ],
)
def test_a_plan_that_cannot_be_read_is_one_line(seeded, tmp_path, text, message):
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(RooflineError, match=message) as caught:
        model_cases(seeded, "cpu", "quick", plan_paths=(path,))
    assert len(str(caught.value).splitlines()) == 1


def test_methods_and_caches_nobody_knows(seeded):
    with pytest.raises(RooflineError, match="--roofline-method must be round-to-nearest, HQQ, AWQ; got 'GPTQ'"):
        model_cases(seeded, "cpu", "quick", method="GPTQ")
    with pytest.raises(RooflineError, match="--roofline-kv takes INT8, FP8_E4M3, NVFP4; got MXFP4"):
        model_cases(seeded, "cpu", "quick", kv_formats=("MXFP4",))


def test_paths_follow_what_the_device_runs():
    here = {(path.weights, path.activations): path for path in linear_paths(CPU, "BF16")}
    assert here["INT8", "BF16"].decoded == "BF16"
    assert not here["INT8", "BF16"].is_scaled
    assert here["FP8_E4M3", "BF16"].is_scaled
    assert here["INT8", "INT8"].widened_bytes_per_element == 4
    assert ("INT4", "BF16") not in here  # one fused kernel
    assert here["INT4", "INT8"].unmodelled.value("kind") == "path"
    there = {(path.weights, path.activations): path for path in linear_paths(B200, "BF16")}
    assert ("NVFP4", "NVFP4") not in there
    assert ("INT8", "INT8") not in there
    older = {(path.weights, path.activations): path for path in linear_paths(H100, "BF16")}
    assert older["MXFP4", "MXFP4"].unmodelled.value("kind") == "path"


def test_the_embedding_stays_wide_and_so_does_a_head_that_shares_it(seeded):
    case = model_cases(seeded, "cpu", "quick")[-1]
    work = case.work(CPU)
    assert work is not None
    assert work.plan.of("embedding").weights == "BF16"
    assert work.plan.of("lm_head").weights == "INT4"
    tied = model_cases(find_model("seeded-llama-1m-tied"), "cpu", "quick")[-1].work(CPU)
    assert tied is not None
    assert tied.plan.of("lm_head").weights == "BF16"


def test_a_folder_is_called_by_its_name_and_its_configuration_never_by_its_path(tmp_path):
    config = {
        "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
        "vocab_size": 100, "max_position_embeddings": 64, "dtype": "bfloat16", "hidden_act": "silu",
    }  # fmt: skip
    folder = tmp_path / "my <model>"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    model = find_model(str(folder))
    assert model.shape is not None
    assert model.shape.layer_count == 2
    assert model.name.startswith("my__model_-")
    assert str(tmp_path) not in model.name
    (folder / "config.json").write_text(json.dumps(config | {"hidden_size": 128}))
    assert find_model(str(folder)).name != model.name


CONFIG = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 384,
    "vocab_size": 512, "max_position_embeddings": 512, "dtype": "bfloat16", "hidden_act": "silu",
}  # fmt: skip


def test_a_saved_model_is_one_precision_and_nothing_is_applied_to_it(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    layers = [
        {"became": "INT4", "method": "AWQ"},
        {"became": "INT4", "method": "AWQ"},
        {"became": "BF16", "method": ""},
    ]
    (tmp_path / "quantization.json").write_text(json.dumps({"result": {"layers": layers}}))
    saved = find_model(str(tmp_path))
    assert saved.saved_precision == "INT4"
    cases = model_cases(saved, "cpu", "full")
    assert {case.precision for case in cases} == {"INT4"}
    assert {case.kernel for case in cases} == {"torchao.saved"}
    assert {case.kv for case in cases} == {"BF16"}
    with pytest.raises(RooflineError, match=r"is quantised already \(INT4\)"):
        model_cases(saved, "cpu", "quick", method="HQQ")
    (tmp_path / "quantization.json").write_text("[]")
    assert find_model(str(tmp_path)).saved_precision == ""


def test_compiled_cases_are_cases_of_their_own(seeded):
    eager, compiled = model_cases(seeded, "cpu", "quick"), model_cases(seeded, "cpu", "quick", is_compiled=True)
    assert {case.case.case_key for case in eager}.isdisjoint(case.case.case_key for case in compiled)
    assert compiled[2].kernel == "torchao.compiled"
    work = compiled[2].work(CPU)  # INT8: the cast is part of the product
    assert work is not None
    assert all(kernel.name != "dequantize_weights" for kernel in work.executed_kernels())


def test_modes_are_cases_of_their_own_and_none_is_a_graph(seeded):
    cases = model_cases(seeded, "cuda", "quick", modes=("eager", "sustained"))
    assert {case.case.mode for case in cases} == {"eager", "sustained"}
    assert len({case.id for case in cases}) == len(cases)


def test_what_cannot_be_predicted_is_a_reference_with_a_reason(tmp_path):
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "config.json").write_text('{"architectures": ["NobodysModel"]}')
    model = find_model(str(folder))
    assert model.shape is None
    assert "NobodysModel" in model.why_no_shape
    unknown = find_model("nobody/nothing")
    assert (unknown.name, unknown.shape) == ("nobody/nothing", None)
    assert model_cases(unknown, "cpu", "quick")[0].work(CPU) is None
