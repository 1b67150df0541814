"""One product and whole grids over HTTP: the same numbers as in Python, and clear refusals."""

from __future__ import annotations

import pytest

from roofline_model import (
    gemm,
    gemm_tiling,
    get_hardware,
    predict,
    predict_expected,
    recommend_quantization,
)
from roofline_model.expected.predict import expected_times
from roofline_model.operators.product import product_of_pair
from roofline_model.sweep import GemmGrid, format_pairs, sweep_gemm

SHAPE = {"M": 1, "N": 4096, "K": 4096}


@pytest.mark.parametrize("cache", ["cold", "warm"])
@pytest.mark.parametrize(("activation", "weight"), [("BF16", "BF16"), ("BF16", "INT4"), ("FP8_E4M3", "FP8_E4M3")])
def test_analyze_gives_the_models_own_numbers(api_client, activation, weight, cache):
    body = {"M": 48, "N": 4096, "K": 1024, "precision": activation, "weight_precision": weight, "cache": cache}
    answer = api_client.post("/api/analyze?hardware_key=h100", json=body).json()
    work, chip = product_of_pair(48, 4096, 1024, weight=weight, activation=activation), get_hardware("h100")
    ideal, expected = predict(work, chip, cache=cache), predict_expected(work, chip, cache=cache)
    assert (answer["time_s"], answer["bound"], answer["path"]) == (ideal.time_s, ideal.bound, ideal.path)
    assert answer["read_bytes"] + answer["write_bytes"] == ideal.read_bytes + ideal.write_bytes
    assert answer["expected"]["time_s"] == expected.time_s
    assert answer["expected"]["low_s"] < expected.time_s < answer["expected"]["high_s"]
    assert sum(answer["expected"]["parts_s"].values()) == pytest.approx(expected.time_s)
    assert answer["speedup_ratio"] == predict(gemm(48, 4096, 1024, a="FP16"), chip, cache=cache).time_s / ideal.time_s


def test_gb10_and_fp16_are_the_defaults(api_client):
    answer = api_client.post("/api/analyze", json=SHAPE).json()
    assert (answer["hardware"], answer["weight_format"], answer["op"], answer["operands"]) == (
        "gb10",
        "FP16",
        "gemv",
        "W16A16",
    )


def test_a_chip_without_an_expected_model_says_why(api_client):
    answer = api_client.post("/api/analyze?hardware_key=mi300x", json=SHAPE).json()
    assert answer["expected"] is None
    assert len(answer["expected_reason"]["text"]) > 10


def test_the_second_answer_is_the_first_one(api_client):
    answers = [api_client.post("/api/recommend", json={**SHAPE, "M": 3}) for _ in range(2)]
    assert answers[0].content == answers[1].content


def test_recommend_gives_the_models_own_ranking(api_client):
    answer = api_client.post("/api/recommend", json=SHAPE).json()
    chip = get_hardware("gb10")
    wanted = recommend_quantization(chip, 1, 4096, 4096, times=expected_times(chip))
    assert [candidate["format"] for candidate in answer["candidates"]] == [option.key for option in wanted.options]
    assert [candidate["time_s"] for candidate in answer["candidates"]] == [
        option.estimate.time_s for option in wanted.options
    ]
    assert (answer["summary"], answer["ranked_by"], answer["fits_memory_limit"]) == (str(wanted), "expected", None)


def test_recommend_says_when_nothing_fits(api_client):
    answer = api_client.post("/api/recommend", json={**SHAPE, "memory_limit_gb": 1e-6}).json()
    assert answer["fits_memory_limit"] is False
    assert (
        answer["best"]["format"] == answer["precision"] not in [exclusion["format"] for exclusion in answer["excluded"]]
    )


def test_tiling_gives_the_models_own_tile(api_client):
    tiling = api_client.post("/api/tiling?hardware_key=h100", json={"M": 512, "N": 7168, "K": 4096}).json()["tiling"]
    wanted = gemm_tiling(gemm(512, 7168, 4096, a="BF16"), get_hardware("h100"))
    assert (tiling["tile_m"], tiling["tile_n"], tiling["wave_count"]) == (
        wanted.tile_m,
        wanted.tile_n,
        wanted.wave_count,
    )
    assert tiling["occupancy"]["limiter"] == wanted.occupancy.limiter
    assert sum(tiling["parts_s"].values()) == pytest.approx(tiling["expected_s"])


def test_a_gemv_kernel_has_no_tiles_and_says_so(api_client):
    answer = api_client.post("/api/tiling", json=SHAPE).json()
    assert answer["tiling"] is None
    assert answer["tiling_reason"]["code"] == "gemv-has-no-tiles"


def test_sweep_gives_the_table_of_the_model(api_client):
    body = {"M": "1:16:*2", "N": [64, 4096], "K": "128:256:128", "formats": ["BF16", "INT4.BF16"], "hardware": ["gb10", "h100"]}  # fmt: skip
    answer = api_client.post("/api/sweep", json=body).json()
    grid = GemmGrid(
        (1, 2, 4, 8, 16),
        (64, 4096),
        (128, 256),
        tuple(map(get_hardware, ("gb10", "h100"))),
        format_pairs(body["formats"]),
    )
    table = sweep_gemm(grid)
    assert answer["point_count"] == len(table) == 5 * 2 * 2 * 4
    names = ("ideal_s", "expected_s", "expected_low_s", "expected_high_s")
    for name in names:
        assert [value for series in answer["series"] for value in series[name]] == table[name].tolist()
    first = table.iloc[: grid.shape_count]
    assert [answer["shapes"][name] for name in "MNK"] == [first[name].tolist() for name in "MNK"]
    assert [series["hardware"] for series in answer["series"]] == ["gb10", "gb10", "h100-sxm", "h100-sxm"]
    memory = [value for series in answer["series"] for value in series["is_memory_bound"]]
    assert memory == (table["bound"] == "memory").tolist()


def test_a_sweep_without_expected_times_has_none(api_client):
    series = api_client.post("/api/sweep", json={**SHAPE, "with_expected": False}).json()["series"][0]
    assert (series["expected_s"], series["expected_low_s"], series["expected_high_s"]) == (None, None, None)
    assert series["ideal_s"][0] > 0


def test_what_a_chip_has_no_model_for_is_null_with_a_reason(api_client):
    series = api_client.post("/api/sweep?hardware_key=mi300x", json={**SHAPE, "formats": ["FP16"]}).json()["series"][0]
    assert (series["expected_s"], series["expected_low_s"], series["provenance"]) == ([None], [None], None)
    assert "CDNA3" in series["reason"]
    assert series["ideal_s"][0] > 0


@pytest.mark.parametrize(
    ("axis", "words"),
    [
        ("1:1000000000:1", "1,000,000,000 sizes"),
        ("1:400:1", "predictions"),
        ("0:4", "not a list of sizes"),
        ("x", "not a list of sizes"),
    ],
)
def test_a_sweep_that_is_too_large_or_no_list_names_its_field(api_client, axis, words):
    body = {"M": axis, "N": "1:400:1", "K": 64, "formats": ["BF16"]}
    response = api_client.post("/api/sweep", json=body)
    assert response.status_code == 422
    assert words in response.json()["detail"]
    assert response.json()["errors"][0]["field"] == "M"


def test_attention_is_there_too(api_client):
    response = api_client.post("/api/attention", json={"Hq": 32, "Hkv": 8, "Skv": 4096, "D": 128})
    assert response.status_code == 200
    assert response.json()["time_s"] > 0


def test_a_model_is_predicted_kernel_by_kernel(api_client):
    answer = api_client.post("/api/models/llama-3.1-8b/predict", json={"formats": "INT4.BF16"}).json()
    assert sum(kernel["time_s"] for kernel in answer["kernels"]) == pytest.approx(answer["time_s"])
    assert sum(kernel["expected_s"] for kernel in answer["kernels"]) == pytest.approx(answer["expected"]["time_s"])
    assert answer["memory"]["fits"] is True
    assert answer["coverage"]["text"] == "INT4.BF16 in the matrices of the layers, head in BF16, embedding in BF16"


def test_a_predicted_plan_is_the_plan_that_is_recommended(api_client):
    question = {"formats": "INT4"}
    for model in ("llama-3.1-8b", "llama-3.2-1b", "mixtral-8x7b"):  # a head of its own, a tied one, and a router
        answer = api_client.post(f"/api/models/{model}/predict", json=question).json()
        advice = api_client.post(
            f"/api/models/{model}/recommend", json={"formats": ["INT4.BF16"], "max_loss_pct": 16}
        ).json()
        (same,) = (candidate for candidate in advice["candidates"] if candidate["plan"] == "INT4.BF16")
        assert answer["expected"]["time_s"] == pytest.approx(same["time_s"])
        assert answer["memory"]["total_bytes"] == same["memory"]["total_bytes"]
        assert answer["coverage"]["values"]["head"] == "BF16"
    wide = api_client.post("/api/models/llama-3.1-8b/predict", json={"formats": "BF16"}).json()
    assert (wide["formats"], wide["coverage"]) == ("BF16", None)


def test_catalogs_hold_everything(api_client):
    from roofline_model import FORMATS, list_hardware, list_models

    assert [entry["key"] for entry in api_client.get("/api/formats").json()["formats"]] == list(FORMATS)
    assert len(api_client.get("/api/models").json()["models"]) == len(list_models())
    chips = api_client.get("/api/hardware").json()
    assert (len(chips["hardware"]), chips["default_key"]) == (len(list_hardware()), "gb10")
    for chip in chips["hardware"]:
        answer = api_client.get(f"/api/hardware/{chip['key']}").json()
        assert answer["content_hash"] == get_hardware(chip["key"]).content_hash
        assert set(answer["paths"]) == set(get_hardware(chip["key"]).paths)
