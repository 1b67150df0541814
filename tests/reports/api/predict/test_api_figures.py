"""POST /api/figures/roofline: the figure of options and of a run's measured cases, as JSON for Plotly."""

from __future__ import annotations

import pytest

from reports.api.predict.figures import FigureAnswer, RunFigure, RunFigures

OPTION = {
    "key": "INT4.FP16",
    "label": "INT4 (W4A16)",
    "compute_format": "FP16",
    "path": "dequantize",
    "peak_flops_per_s": 125e12,
    "bandwidth_bytes_per_s": 273e9,
    "intensity_flop_per_byte": 4.0,
    "flops": 33_554_432,
    "time_s": 30.7e-6,
    "bound": "memory",
    "expected_s": 40e-6,
    "expected_low_s": 36e-6,
    "expected_high_s": 46e-6,
}


def roofline_figure(client, **body):
    response = client.post("/api/figures/roofline", json=body)
    assert response.status_code == 200, response.text
    FigureAnswer.model_validate(response.json())  # it is sent without being checked: what is declared is what is sent
    return response.json()


def test_an_option_has_its_roof_its_ideal_and_its_expected_rate(api_client):
    figure = roofline_figure(api_client, options=[OPTION], focus=OPTION["key"])
    points = [trace for trace in figure["data"] if trace["customdata"] == [OPTION["key"]]]
    unit = 1e12  # TFLOP/s: the roof is above ten
    expected, ideal = (trace["y"][0] * unit for trace in points)
    assert expected == pytest.approx(OPTION["flops"] / OPTION["expected_s"], rel=1e-6)
    assert ideal == pytest.approx(OPTION["flops"] / OPTION["time_s"], rel=1e-6)
    low = points[0]["y"][0] - points[0]["error_y"]["arrayminus"][0]
    assert low * unit == pytest.approx(OPTION["flops"] / OPTION["expected_high_s"], rel=1e-6)
    (roof,) = [trace for trace in figure["data"] if trace["name"] == "roof INT4 (W4A16)"]
    assert max(roof["y"]) * unit == pytest.approx(OPTION["peak_flops_per_s"])
    assert len(figure["colours"]["INT4 (W4A16)"]) == 2
    assert not any("<b>" in line for label in figure["labels"] for line in label["lines"])
    assert not any(label["is_bold"] for label in figure["labels"])  # the explorer's policy forbids Plotly's styles


def test_measured_cases_of_a_run_are_drawn_and_narrowed_by_words(api_client):
    every = roofline_figure(api_client, run="cases")
    names = [trace for trace in every["data"] if trace["name"].startswith("measured ")]
    case_rows = api_client.get("/api/runs/cases/cases?status=measured&limit=100").json()["cases"]
    plotted = {f"case:{case['case_key']}" for case in case_rows if case["achieved_flops_per_s"]}
    assert {key for trace in names for key in trace["customdata"]} == plotted
    assert any(trace["name"].startswith("roof ") for trace in every["data"])
    fewer = roofline_figure(api_client, run="cases", words="gemm")
    count = sum(len(trace["x"]) for trace in fewer["data"] if trace["name"].startswith("measured "))
    assert 0 < count < len(plotted)


def test_nothing_to_draw_is_no_error_and_an_unknown_run_is_one(api_client):
    assert roofline_figure(api_client)["data"] == []
    response = api_client.post("/api/figures/roofline", json={"run": "no-such-run"})
    assert response.status_code == 404
    assert response.json()["errors"][0]["field"] == "run"


def test_the_efficiency_over_n_marks_the_question(api_client):
    question = {"M": 512, "N": 4096, "K": 4096, "precision": "BF16"}
    response = api_client.post("/api/figures/tiling", json=question)
    assert response.status_code == 200, response.text
    FigureAnswer.model_validate(response.json())
    answer = api_client.post("/api/tiling", json=question).json()["tiling"]
    (marked,) = [trace for trace in response.json()["data"] if trace["name"] == "asked for"]
    assert marked["x"] == [4096]
    assert marked["y"][0] == pytest.approx(100 * answer["efficiency_ratio"], rel=1e-6)
    assert api_client.post("/api/figures/tiling?hardware_key=mi300x", json=question).status_code == 422


def test_every_figure_of_a_report_is_served_as_it_is_drawn_in_files(api_client):
    listed = RunFigures.model_validate(api_client.get("/api/runs/cases/figures").json()).figures
    assert {"roofline", "errors"} <= {figure.name for figure in listed}
    for figure in listed:
        answer = api_client.get(f"/api/runs/cases/figures/{figure.name}").json()
        assert RunFigure.model_validate(answer).kind == figure.kind
        assert answer["figure"]["data"]
        assert ("rows" in answer["figure"]) == (figure.kind == "rows")
    assert api_client.get("/api/runs/cases/figures/no-such-figure").status_code == 404
    assert api_client.get("/api/runs/no-such-run/figures").status_code == 404
