"""The same question put to every surface that answers it: one order, one choice, the same numbers.

Predicted products and models are asked of Python, the command line and the API; stored runs of the test run's table,
the report, `compare`, `recommend --stored`, the API and Python. Each surface is read by one small function, so that a
change of its keys touches that function alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import warm_start
from trained_run import as_trained
from typer.testing import CliRunner

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'roofline-bench[api]'")

from fastapi.testclient import TestClient

import roofline_model as rm
from reports.api.http.app import create_app
from reports.document.report_json import report_json
from reports.view.views import report_view
from results.cases.case_result import case_results
from results.cases.model_results import model_results
from results.cases.shape_verdict import groups, judge
from results.exchange.exported.load import import_file
from results.rankings import StoredQuestion, recommend_from_store
from results.rankings.shape import recommend_from_run
from results.store.store import open_store
from roofline_cli.main import app
from roofline_model.chips.stored_profile import device_from_profile
from roofline_model.core.answer import Option, Ranking
from roofline_model.core.finding import has_code
from roofline_model.expected.predict import expected_times
from roofline_model.formats.catalog import format_name
from roofline_model.recommend.cache import rank_caches
from roofline_model.recommend.ranking import MAX_LOSS_PCT

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "runs" / "cpu-amd-epyc-2t"
GEMV_SHAPES = ((1, 4096, 4096), (8, 4096, 4096), (1, 28672, 4096))
"""What `-k gemv` runs of the quick shapes; M, N, K."""
PRODUCTS = [
    ("gb10", shape) for shape in (*GEMV_SHAPES, (512, 4096, 4096))
] + [("h100-sxm", (1, 4096, 4096)), ("h100-sxm", (2048, 4096, 4096)), ("a100-sxm-80gb", (16, 11008, 4096))]  # fmt: skip
DESCRIBED = ("NVFP4", "FP8_E4M3", "MXFP8_E4M3")
"""Narrow formats whose kernel in the run has an expected time; predictions without a kernel have more of them."""
MODELS = [("gb10", "llama-3.1-8b"), ("h100-sxm", "llama-3.1-70b"), ("a100-sxm-80gb", "llama-3.1-8b")]


class Row(NamedTuple):
    """One ranked option as a surface shows it."""

    name: str
    time_s: float
    speedup_ratio: float | None


def command_json(*arguments: str) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def gb10_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return the database of `pytest bench_cases -k gemv --hw gb10`, and what the run printed."""
    path = str(tmp_path_factory.mktemp("gb10") / "results.db")
    options = ("-k", "gemv", "--hw", "gb10", "--roofline-predict-only", "--roofline-db", path, "-q", "-n", "0")
    finished = warm_start.run("pytest", "bench_cases", *options, cwd=ROOT)
    assert finished.returncode == 0, finished.stdout[-2000:]
    return path, finished.stdout


@pytest.fixture(scope="module")
def cpu_run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a database with the measured run of a CPU under `examples/`."""
    path = str(tmp_path_factory.mktemp("cpu") / "results.db")
    with open_store(path) as store:
        import_file(store, EXAMPLES / "quick.json")
    return path


# Predicted products and models
# -------------------------------------------------------------------------------------------


def rows_of_ranking(ranking: Ranking) -> list[Row]:
    return [Row(option.key, option.estimate.time_s, option.speedup_ratio) for option in ranking.options]


def rows_of_product(document: Any) -> list[Row]:
    return [Row(each["format"], each["time_s"], each["speedup_ratio"]) for each in document["candidates"]]


@pytest.fixture(scope="module")
def client(cpu_run: str):
    with TestClient(create_app(Path(cpu_run))) as client:
        yield client


@pytest.mark.parametrize(("chip", "shape"), PRODUCTS, ids=str)
def test_a_predicted_product_has_one_answer(client, chip: str, shape: tuple[int, int, int]) -> None:
    device = rm.get_hardware(chip)
    ranking = rm.recommend_quantization(device, *shape, times=expected_times(device))
    sizes = [part for name, size in zip(("-M", "-N", "-K"), shape, strict=True) for part in (name, str(size))]
    body = dict(zip(("M", "N", "K"), shape, strict=True))
    documents = {
        "recommend": command_json("recommend", *sizes, "--hw", chip),
        "compare": command_json("compare", "gemm", *sizes, "--hw", chip, "--no-measure")["recommendation"],
        "API": client.post(f"/api/recommend?hardware_key={chip}", json=body).json(),
    }
    for surface, document in documents.items():
        assert rows_of_product(document) == rows_of_ranking(ranking), surface
        assert ranking.choice is not None
        assert document["best"]["format"] == ranking.choice.key, surface
        assert [each["format"] for each in document["excluded"]] == [each.key for each in ranking.excluded], surface


@pytest.mark.parametrize(("chip", "model"), MODELS, ids=str)
def test_a_predicted_model_has_one_answer(client, chip: str, model: str) -> None:
    ranking = rm.recommend_model(rm.get_hardware(chip), model, batch=1, context=4096)
    documents = {
        "recommend": command_json("recommend", "--model", model, "--hw", chip, "--context", "4096"),
        "API": client.post(
            f"/api/models/{model}/recommend?hardware_key={chip}", json={"batch_count": 1, "context_tokens": 4096}
        ).json(),
    }
    assert ranking.choice is not None
    for surface, document in documents.items():
        rows = [Row(each["plan"], each["time_s"], each["speedup_ratio"]) for each in document["candidates"]]
        assert rows == rows_of_ranking(ranking), surface
        assert document["chosen"] == ranking.choice.key, surface


NAMES = [
    ("gb10", "llama-3.1-8b", "INT4", "INT4.BF16"),
    ("gb10", "llama-3.1-8b", "INT4.BF16", "INT4.BF16"),
    ("gb10", "llama-3.1-8b", "int8", "INT8.BF16"),
    ("h100-sxm", "llama-3.2-1b", "FP8", "FP8_E4M3"),
    ("h200-sxm", "mixtral-8x7b", "INT8.INT8", "INT8.INT8"),
]
"""Chip, model (a head of its own, a tied one, a router), what is typed, and the plan that it names."""


@pytest.mark.parametrize(("chip", "model", "name", "plan"), NAMES)
def test_a_plan_of_one_name_has_one_time_and_one_size_at_every_door(client, chip, model, name, plan) -> None:
    path, question = f"/api/models/{model}", ("--model", model, "--hw", chip, "--formats", name)
    predicted = {
        "predict": command_json("predict", "model", *question)["predictions"][0],
        "API": client.post(f"{path}/predict?hardware_key={chip}", json={"formats": name}).json(),
    }
    ideal = rm.predict_model(chip, model, formats=name)
    step = rm.expected_step(ideal, rm.get_hardware(chip))
    wanted = (step.time_s, ideal.memory.total_bytes, ideal.memory.fits)
    for surface, answer in predicted.items():
        memory = answer["memory"]
        assert (answer["expected"]["time_s"], memory["total_bytes"], memory["fits"]) == wanted, surface
        assert (answer["coverage"]["values"]["head"], answer["coverage"]["values"]["embedding"]) == ("BF16", "BF16")
    ranked = {
        "recommend": command_json("recommend", *question, "--max-quality-loss", "90")["candidates"],
        "API": client.post(
            f"{path}/recommend?hardware_key={chip}", json={"formats": [name], "max_loss_pct": 90}
        ).json()["candidates"],
        "Python": [{"plan": option.key, "time_s": option.estimate.time_s, "memory": {"total_bytes": option.memory.total_bytes}}
                   for option in rm.recommend_model(chip, model, formats=[name], max_loss_pct=90).options],
    }  # fmt: skip
    for surface, candidates in ranked.items():
        (same,) = (candidate for candidate in candidates if candidate["plan"] == plan)
        assert (same["time_s"], same["memory"]["total_bytes"]) == wanted[:2], surface
    curves = client.post(f"{path}/batches?hardware_key={chip}", json={"max_loss_pct": 90}).json()["curves"]["curves"]
    drawn = [curve["points"][0] for curve in curves if curve["plan"] == plan]
    assert [(point["token_s"], point["memory_bytes"]) for point in drawn] == [wanted[:2]] * len(drawn)


def test_the_first_token_is_of_one_request_alone_at_every_door(client) -> None:
    sizes = ("--model", "gpt-oss-120b", "--hw", "gb10", "--batch", "16", "--context", "8192")
    document = command_json("predict", "model", *sizes)
    ideal = rm.predict_model("gb10", "gpt-oss-120b", batch=16, context=8192)
    alone = rm.predict_model("gb10", "gpt-oss-120b", "prefill", context=8191)
    together = rm.predict_model("gb10", "gpt-oss-120b", "prefill", batch=16, context=8191)
    chip = rm.get_hardware("gb10")
    assert document["time_to_first_token_s"] == rm.time_to_first_token_s(ideal, chip) == alone.time_s
    assert document["expected_time_to_first_token_s"] == rm.expected_step(alone, chip).time_s
    assert document["expected_all_prompts_time_s"] == rm.expected_step(together, chip).time_s
    curves = client.post("/api/models/gpt-oss-120b/batches?hardware_key=gb10", json={"context_tokens": 8192}).json()
    (curve,) = (curve for curve in curves["curves"]["curves"] if curve["plan"] == "checkpoint")
    (point,) = (point for point in curve["points"] if point["batch_count"] == 16)
    assert point["first_token_s"] == document["expected_time_to_first_token_s"]
    assert point["token_s"] == document["predictions"][0]["expected"]["time_s"]
    assert point["arriving_first_token_s"] == point["token_s"] + point["first_token_s"]


@pytest.mark.parametrize(("name", "weight", "activation"), [("INT4", "INT4", "BF16"), ("INT4.INT4", "INT4", "INT4"), ("FP8", "FP8", "FP8")])  # fmt: skip
def test_a_pair_of_one_name_is_one_product_at_every_door(client, name, weight, activation) -> None:
    sizes = ("-M", "64", "-N", "4096", "-K", "4096", "--hw", "gb10", "--formats", name)
    body = {"M": 64, "N": 4096, "K": 4096}
    sweep = {**body, "formats": [name], "hardware": ["gb10"]}
    series = client.post("/api/sweep", json=sweep).json()["series"][0]
    times = {
        "predict": command_json("predict", "gemm", *sizes)["predictions"][0]["time_s"],
        "sweep": command_json("sweep", *sizes)["rows"][0]["ideal_s"],
        "API": client.post(
            "/api/analyze?hardware_key=gb10", json={**body, "precision": activation, "weight_precision": weight}
        ).json()["time_s"],
        "API sweep": series["ideal_s"][0],
        "Python": rm.predict_gemm("gb10", 64, 4096, 4096, f"{weight}.{activation}").time_s,
    }
    assert len({f"{time_s:.9e}" for time_s in times.values()}) == 1, times


CACHES = [("gb10", 1, 32768), ("h100-sxm", 1, 8192), ("mi300x", 8192, 8192)]
"""Chip, new tokens, tokens in the cache."""


@pytest.mark.parametrize(("chip", "query_count", "key_count"), CACHES, ids=str)
def test_a_cache_has_one_answer(client, chip: str, query_count: int, key_count: int) -> None:
    sizes = {"B": 1, "Hq": 32, "Hkv": 8, "Sq": query_count, "Skv": key_count, "D": 128}
    ranking = rank_caches(rm.get_hardware(chip), lambda kv: rm.attention(**sizes, q="FP16", kv=kv), "FP16")
    body = {**sizes, "precision": "FP16"}
    document = client.post(f"/api/attention/recommend?hardware_key={chip}", json=body).json()
    rows = [Row(each["kv_format"], each["time_s"], each["speedup_ratio"]) for each in document["candidates"]]
    assert rows == rows_of_ranking(ranking)
    assert ranking.choice is not None
    assert document["best"]["kv_format"] == ranking.choice.key


# Stored runs
# -------------------------------------------------------------------------------------------------------------


class ShapeAnswers(NamedTuple):
    """The rows of one shape by surface, the options of the stored cases only."""

    rows: dict[str, list[Row]]
    choices: dict[str, str]
    """What stands first."""
    taken: dict[str, str | None]
    """What surfaces say to take, by surface; None where they name nothing."""
    riskier: dict[str, str | None]
    """What they call faster and riskier."""


def stored_answers(path: str, hardware: str, op: str) -> dict[str, ShapeAnswers]:
    """Return the answers of every surface by shape."""
    with open_store(path, create=False, read_only=True) as store:
        run = store.runs(limit=1)[0]
        records = [each for each in store.records(run.run_id) if each.case.op == op]
        hashes = {each.profile_hash for record in records for each in record.predictions}
        profiles = {each.profile_hash: each for each in map(store.profile, hashes) if each is not None}
        stored = recommend_from_store(store, StoredQuestion(hardware_key=hardware, op=op))
    device = device_from_profile(next(iter(profiles.values())).profile)
    labels = {each.case.configuration_label for each in records}
    answers: dict[str, ShapeAnswers] = {}

    def take(surface: str, shape: str, choice: str | None, riskier: str | None) -> None:
        answers[shape].taken[surface], answers[shape].riskier[surface] = choice, riskier

    def take_of_roles(surface: str, shape: str, roles: dict[str, str | None]) -> None:
        named = {role: label for label, role in roles.items() if role is not None}
        take(surface, shape, named.get("take"), named.get("riskier"))

    def add(surface: str, shape: str, rows: list[Row], choice: str) -> None:
        answer = answers.setdefault(shape, ShapeAnswers({}, {}, {}, {}))
        answer.rows[surface] = [row for row in rows if row.name in labels]
        answer.choices[surface] = choice

    for members in groups(case_results(records)).values():
        verdict = judge(members)
        assert verdict.best is not None
        rows = [Row(each.label, each.estimate.time_s, None) for each in verdict.options]
        add("test run", verdict.question.shape_label, rows, verdict.best.label)
        chosen = (verdict.choice, verdict.riskier)
        take("test run", verdict.question.shape_label, *(None if each is None else each.label for each in chosen))
    for ranking in recommend_from_run(case_results(records), device):
        rows = [Row(each.label, each.estimate.time_s, each.speedup_ratio) for each in ranking.options]
        add("compare", ranking.question.shape_label, rows, ranking.options[0].label)
        take_of_roles(
            "compare",
            ranking.question.shape_label,
            {each.label: ranking.roles.get(each.key) for each in ranking.options},
        )
    for ranking in stored.rankings:
        rows = [Row(each.label, each.estimate.time_s, each.speedup_ratio) for each in ranking.options]
        add("Python", ranking.question.shape_label, rows, ranking.options[0].label)
        take_of_roles(
            "Python",
            ranking.question.shape_label,
            {each.label: ranking.roles.get(each.key) for each in ranking.options},
        )
    with TestClient(create_app(Path(path))) as client:
        answered = client.get(f"/api/recommendations?hardware_key={hardware}&op={op}").json()
    printed = command_json("recommend", "--stored", "--db", path, "--hw", hardware, "--op", op)
    for surface, document in (("API", answered), ("recommend --stored", printed)):
        for ranking in document["rankings"]:
            rows = [Row(each["label"], each["time_s"], each["speedup_ratio"]) for each in ranking["rows"]]
            add(surface, ranking["shape"], rows, rows[0].name)
            take_of_roles(surface, ranking["shape"], {each["label"]: each["role"] for each in ranking["rows"]})
    (chip,) = report_json(report_view(run, records, profiles))["chips"]
    for ranking in chip["recommendations"]:
        rows = [Row(each["label"], each["time_s"], each["speedup_ratio"]) for each in ranking["ranked"]]
        add("report", ranking["shape"], rows, rows[0].name)
        take_of_roles("report", ranking["shape"], {each["label"]: each["role"] for each in ranking["ranked"]})
    for shape in chip["shapes"]:
        add("report's shapes", shape["title"], [], shape["best"]["label"])
        named = (shape["choice"], shape["riskier"])
        take("report's shapes", shape["title"], *(each and each["label"] for each in named))
    for shape, group in page_points(chip, op).items():
        add("page's points", shape, rows_of_points(group), group["points"][0]["label"])
    return answers


def page_points(chip: Any, op: str) -> dict[str, Any]:
    """Return the points that the page and the explorer draw of a run's shapes, by shape."""
    groups = [group for group in chip["trade_offs"] if group["origin"] == "this run"]
    titles = {group["title"].removeprefix(f"{op} ").partition(":")[0].partition(",")[0]: group for group in groups}
    return {title: group for title, group in titles.items() if title[0].isdigit()}


def rows_of_points(group: Any) -> list[Row]:
    return [Row(point["label"], point["time_s"], point["speedup_ratio"]) for point in group["points"]]


def assert_one_answer(answers: dict[str, ShapeAnswers]) -> None:
    for shape, answer in answers.items():
        assert len(answer.rows) == 8, (shape, list(answer.rows))
        assert len(set(answer.choices.values())) == 1, (shape, answer.choices)
        assert len(answer.taken) == 7, (shape, list(answer.taken))
        assert len(set(answer.taken.values())) == 1, (shape, answer.taken)
        assert len(set(answer.riskier.values())) == 1, (shape, answer.riskier)
        reference = answer.rows["Python"]
        for surface, rows in answer.rows.items():
            if surface == "report's shapes":
                continue
            names = [row.name for row in rows]
            # A case that another one of its formats speaks for has no row of its own in a ranking.
            assert names == [row.name for row in reference if row.name in names], (shape, surface)
            times = {row.name: row.time_s for row in reference}
            assert [row.time_s for row in rows] == pytest.approx([times[name] for name in names], rel=1e-12), surface
            speedups = {row.name: row.speedup_ratio for row in reference}
            for row in rows:
                if row.speedup_ratio is not None and speedups[row.name] is not None:
                    assert row.speedup_ratio == pytest.approx(speedups[row.name], rel=1e-12), (shape, surface, row)


@pytest.fixture(scope="module")
def model_run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a database with the passes of a whole model under `examples/`."""
    folder = tmp_path_factory.mktemp("model")
    path = str(folder / "results.db")
    with open_store(path) as store:
        import_file(store, as_trained(EXAMPLES / "model_quant.json", folder))
    return path


class ModelRow(NamedTuple):
    """One precision of a model's pass as a surface shows it."""

    label: str
    time_s: float
    speedup_ratio: float | None
    loss_pct: float | None


def model_rows(rows: Any) -> list[ModelRow]:
    return [ModelRow(row["label"], row["time_s"], row["speedup_ratio"], row["loss"]["pct"]) for row in rows]


@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_a_measured_model_has_one_answer(model_run: str, phase: str) -> None:
    with open_store(model_run, create=False, read_only=True) as store:
        run = store.runs(limit=1)[0]
        records = list(store.records(run.run_id))
        (ranking,) = recommend_from_store(store, StoredQuestion(phase=phase)).rankings
    (model,) = model_results(case_results(records))
    result = next(each for each in model.phases if each.phase == phase)
    options = [
        ModelRow(row.label, row.estimate.time_s, row.speedup_ratio, row.loss.pct)
        for row in ranking.options
        if row.is_measured
    ]
    keys = {row.label: row.key for row in ranking.options}
    assert len(options) == len(ranking.options) > 2

    in_run = [result.of(each) for each in result.judged.options]
    assert [each.label for each in in_run] == [option.label for option in options]
    assert [each.measured_s for each in in_run] == [option.time_s for option in options]
    gains = [1.0 if each.is_baseline else each.measured_speedup for each in in_run]
    assert gains == pytest.approx([option.speedup_ratio for option in options])
    assert result.of(result.judged.best).label == options[0].label

    with TestClient(create_app(Path(model_run))) as client:
        (phase_ranking,) = client.get(f"/api/recommendations?phase={phase}").json()["rankings"]
    (printed,) = command_json("recommend", "--stored", "--db", model_run, "--phase", phase)["rankings"]
    for surface, document in (("API", phase_ranking), ("recommend --stored", printed)):
        assert model_rows(document["rows"]) == options, surface

    (chip,) = report_json(report_view(run, records, {}))["chips"]
    passes = {
        each["case_key"]: each
        for part in chip["models"][0]["phases"]
        if part["phase"] == phase
        for each in part["passes"]
    }
    (group,) = [each for each in chip["trade_offs"] if each["title"].endswith(phase)]
    points = {point["label"]: point for point in group["points"]}
    for option in options:
        assert passes[keys[option.label]]["measured_s"] == option.time_s
        point = points[option.label]
        assert (point["time_s"], point["loss_pct"]) == (option.time_s, option.loss_pct)
        assert point["speedup_ratio"] == pytest.approx(option.speedup_ratio)


def test_at_least_ten_stored_questions_are_asked(gb10_run: tuple[str, str], cpu_run: str, model_run: str) -> None:
    count = 0
    for path in (gb10_run[0], cpu_run, model_run):
        with open_store(path, create=False, read_only=True) as store:
            count += len(recommend_from_store(store, StoredQuestion()).rankings)
    assert count >= 10


def test_a_predicted_run_has_one_answer(gb10_run: tuple[str, str]) -> None:
    answers = stored_answers(gb10_run[0], "gb10", "gemv")
    assert set(answers) == {"x".join(map(str, shape)) for shape in GEMV_SHAPES}
    assert_one_answer(answers)


@pytest.mark.parametrize("op", ["gemv", "gemm"])
def test_a_measured_run_has_one_answer(cpu_run: str, op: str) -> None:
    with open_store(cpu_run, create=False, read_only=True) as store:
        hardware = store.runs(limit=1)[0].hardware_key
    answers = stored_answers(cpu_run, hardware, op)
    assert answers
    assert_one_answer(answers)


def test_gemv_on_gb10_is_answered_alike_by_run_report_and_prediction(gb10_run: tuple[str, str]) -> None:
    """The contradiction of issue 16: the table took NVFP4, the report INT4 at every shape, Python INT4."""
    path, printed = gb10_run
    device = rm.get_hardware("gb10")
    answers = stored_answers(path, "gb10", "gemv")
    verdicts = [line.strip() for line in printed.splitlines() if line.strip().startswith("→ ")]
    assert len(verdicts) == len(GEMV_SHAPES)
    for shape in GEMV_SHAPES:
        answer = answers["x".join(map(str, shape))]
        ranking = rm.recommend_quantization(device, *shape, times=expected_times(device))
        assert ranking.choice is not None
        described = [option for option in ranking.options if option.key in DESCRIBED]
        assert answer.choices["test run"].startswith(described[0].key)  # the fastest, beyond the limit of loss
        taken = answer.taken["test run"]
        assert taken is not None
        assert any(line.startswith(f"→ try {taken}: ") for line in verdicts)
        assert taken.startswith(f"{name_of(ranking.choice)} · ")
        # Of the kernels that a run lists the first of each format: the others are slower ways to the same bytes.
        first = {row.name.partition(" · ")[0]: row for row in reversed(answer.rows["report"])}
        runnable = [option for option in described if not has_code(option.findings, "kernel-gap")]
        narrow = {name_of(option): option for option in runnable if name_of(option) in first}
        assert len(narrow) == len(DESCRIBED)
        ranked = [row.name.partition(" · ")[0] for row in answer.rows["report"]]
        assert [name for name in dict.fromkeys(ranked) if name in narrow] == list(narrow)
        for name, option in narrow.items():
            assert first[name].time_s == pytest.approx(option.estimate.time_s, rel=1e-12)


def name_of(option: Option) -> str:
    formats = dict(option.formats)
    return format_name(formats["b"], formats["a"])


def test_the_report_advises_what_its_rankings_put_first_within_the_limit_of_the_loss(gb10_run: tuple[str, str]) -> None:
    with open_store(gb10_run[0], create=False, read_only=True) as store:
        run = store.runs(limit=1)[0]
        records = list(store.records(run.run_id))
        hashes = {each.profile_hash for record in records for each in record.predictions}
        profiles = {each.profile_hash: each for each in map(store.profile, hashes) if each is not None}
    view = report_view(run, records, profiles)
    (chip,) = view.chips
    (phase,) = chip.answers
    firsts = [
        next(each for each in ranking.runnable if each.loss.pct is not None and each.loss.pct <= MAX_LOSS_PCT)
        for ranking in chip.recommendations
    ]
    assert phase.choice is not None
    labels = [each.label for each in firsts]
    assert phase.choice.label == max(labels, key=labels.count)
    (action,) = report_json(view)["verdict"]["actions"]
    assert set(action["record_ids"]) == set(phase.choice.record_ids)
    at_phase = sum(each.estimate.time_s for each in firsts if each.label == phase.choice.label)
    assert labels.count(phase.choice.label) < len(labels) or phase.choice.estimate.time_s == pytest.approx(at_phase)
