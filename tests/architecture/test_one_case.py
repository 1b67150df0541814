"""One case of one stored run, asked on every surface: one time, one interval, one error, the same flags.

A run of three processes, whose median of medians (1.610 ms) is no centre of the interval beside it, and one of a single
process. Each surface is read by one small function, so that a change of its keys touches that function alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'roofline-bench[api]'")

from fastapi.testclient import TestClient

from plugin.terminal.summary import summary_lines
from reports.api.http.app import create_app
from reports.page.page_data import case_rows_data
from reports.view.views import ReportView, report_view
from results.cases.run import stored_profiles
from results.exchange.exported.load import import_file
from results.store.store import open_store
from roofline_cli.main import app

EXAMPLES = Path(__file__).parents[2] / "examples" / "runs" / "cpu-amd-epyc-2t"
CASE_KEY = "76f1746876d7e780"
"""BF16 gemv 1x4096x4096."""
SHAPE = {"M": 1, "N": 4096, "K": 4096}
FIGURES = ("time_s", "low_s", "high_s", "half_width_ratio", "error_ideal_ratio", "error_expected_ratio")


class Facts(NamedTuple):
    """What a surface says of the case; None for what it does not show."""

    time_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    half_width_ratio: float | None = None
    error_ideal_ratio: float | None = None
    error_expected_ratio: float | None = None
    flags: frozenset[str] | None = None


class Texts(NamedTuple):
    """The same as texts print it."""

    time: str
    short_time: str
    """To three digits, as beside other times."""
    ends: tuple[str, str] | None
    plus_minus: str
    errors: tuple[str, ...]
    """Of the ideal and, where there is one, the expected time."""


class Run(NamedTuple):
    """A run of the case, and what is true of it."""

    facts: Facts
    texts: Texts


RUNS = {
    "calibrated": Run(
        Facts(0.0017157008, 0.0014810602, 0.0019875149, 0.14759411, -0.52956675, -0.08696841,
              frozenset({"few-samples", "drift", "bimodal", "autocorrelated"})),
        Texts("1.716 ms", "1.72 ms", ("1.481 ms", "1.988 ms"), "14.8 %", ("-53.0 %", "-8.7 %")),
    ),
    "quick": Run(
        Facts(0.0020065935, 0.001993474, 0.002026112, 0.0081326886, -0.72995288, None, frozenset()),
        Texts("2.007 ms", "2.01 ms", None, "0.8 %", ("-73.0 %",)),
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=RUNS)
def run(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def alone(run: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a database that holds the run only."""
    path = str(tmp_path_factory.mktemp(run) / "results.db")
    with open_store(path) as store:
        import_file(store, EXAMPLES / f"{run}.json")
    return path


@pytest.fixture(scope="module")
def nights(run: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a database with the run, and a copy of it as of earlier nights."""
    folder = tmp_path_factory.mktemp(run)
    document = json.loads((EXAMPLES / f"{run}.json").read_text(encoding="utf-8"))
    run_id = document["run"]["run_id"]
    text = json.dumps(document).replace(run_id, run_id[::-1]).replace(f'"{run}"', '"before"')
    before = json.loads(text.replace("2026-11-2", "2026-11-1"))
    for record in before["records"]:
        record["record_id"] = record["record_id"][::-1]
    (folder / "before.json").write_text(json.dumps(before), encoding="utf-8")
    path = str(folder / "results.db")
    with open_store(path) as store:
        import_file(store, EXAMPLES / f"{run}.json")
        import_file(store, folder / "before.json")
    return path


def command(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code in (0, 1), result.output
    return result.stdout


def of_case(items: Any) -> Any:
    (item,) = (item for item in items if item["case_key"] == CASE_KEY)
    return item


def of_answer(case: Mapping[str, Any]) -> Facts:
    """Return the facts of a case as `show --json` and the API have them."""
    return Facts(
        case["measured_s"],
        case["interval_total_low_s"],
        case["interval_total_high_s"],
        case["interval_half_width_ratio"],
        case["error_ideal_ratio"],
        case["error_expected_ratio"],
        frozenset(case["flags"]),
    )


def of_blocks(table: Any) -> Facts:
    """Return the facts of the case's row in a table of the explorer."""
    row = next(row for row in table["rows"] if row["anchor"] == f"case-{CASE_KEY}")
    heads = [column["header"] for column in table["columns"]]
    values = {head: cell.get("value") for head, cell in zip(heads, row["cells"], strict=True)}
    return Facts(
        values["Measured"],
        half_width_ratio=values["±"],
        error_ideal_ratio=values["Error"],
        error_expected_ratio=values.get("Exp. error"),
    )


def of_stored(document: Any) -> Facts:
    """Return the facts of the option that a stored ranking makes of the case."""
    (ranking,) = (each for each in document["rankings"] if each["title"] == "gemv 1x4096x4096")
    row = next(each for each in ranking["rows"] if each["label"] == "BF16 · matmul")
    return Facts(row["time_s"], row["low_s"], row["high_s"])


def of_page(rows: Any) -> Facts:
    """Return the facts of the case's row in the page's data."""
    (row,) = (row for row in rows if row["name"] == "1x4096x4096-w16a16-BF16.BF16-matmul-cold")
    ratio = row["within_ratio"] if row["total_ratio"] is None else row["total_ratio"]
    return Facts(
        row["measured_s"],
        half_width_ratio=ratio,
        error_ideal_ratio=row["error_ideal_ratio"],
        error_expected_ratio=row["error_expected_ratio"],
        flags=frozenset(row["flags"]),
    )


@pytest.fixture(scope="module")
def answers(run: str, alone: str, nights: str) -> dict[str, Facts]:
    """Return what each surface that gives numbers says of the case."""
    (chip,) = view_of(run, alone).chips
    shown = json.loads(command("show", run, "--db", alone, "--json"))
    stored = json.loads(command("recommend", "--stored", "--db", alone, "--json"))
    history = json.loads(command("history", CASE_KEY, "--db", nights, "--json"))
    points = [point for segment in history["segments"] for point in segment["nights"]]
    (point,) = (point for point in points if point["label"] == run)
    compared = of_case(json.loads(command("diff", "before", run, "--db", nights, "--json"))["cases"])
    with TestClient(create_app(Path(alone))) as client:
        listed = client.get(f"/api/runs/{run}/cases?limit=100").json()
        explored = client.get(f"/api/explorer/measured?run={run}").json()
    return {
        "show --json": of_answer(of_case(shown["cases"])),
        "report page": of_page(case_rows_data(chip, 1)),
        "recommend --stored": of_stored(stored),
        "history": Facts(point["value"], flags=frozenset(point["flags"])),
        "diff, before": Facts(compared["before_s"], flags=frozenset(compared["flags"])),
        "diff, after": Facts(compared["after_s"]),
        "API": of_answer(of_case(listed["cases"])),
        "explorer": of_blocks(explored["sections"]["measured"][-1]["blocks"][0]),
    }


def view_of(run: str, database: str) -> ReportView:
    with open_store(database, create=False, read_only=True) as store:
        info = store.resolve_run(run)
        records = store.records(info.run_id)
        floors = store.noise_floors(info.environment.class_hash)
        return report_view(info, records, stored_profiles(store, records), floors=floors)


def test_every_surface_that_gives_numbers_gives_the_same(run: str, answers: dict[str, Facts]) -> None:
    wanted = RUNS[run].facts
    for surface, facts in answers.items():
        for name in FIGURES:
            value = getattr(facts, name)
            if value is not None:
                assert value == pytest.approx(getattr(wanted, name), rel=1e-6), (surface, name)
        assert facts.flags in (None, wanted.flags), surface
    for name in FIGURES:  # to the digit
        assert len({getattr(facts, name) for facts in answers.values()} - {None}) <= 1, name


def test_every_text_prints_the_same(run: str, alone: str, tmp_path: Path) -> None:
    texts = RUNS[run].texts
    with open_store(alone, create=False, read_only=True) as store:
        records = store.records(store.resolve_run(run).run_id)
    table = [line.text for line in summary_lines(records, width=120)]
    start = next(place for place, line in enumerate(table) if line.startswith("gemv 1x4096x4096 ·"))
    line = next(line for line in table[start:] if line.split()[:2] == ["BF16", "matmul"])
    row = [cell.strip().removesuffix("*").removeprefix("±") for cell in line.split("  ")]
    case = command("show", run, "gemv 1x4096x4096 bf16 matmul", "--db", alone)
    command("report", "--run", run, "--db", alone, "--format", "md", "-o", str(tmp_path / "report.md"))
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    written = next(line for line in markdown.splitlines() if line.startswith("| gemv 1x4096x4096 | BF16 | matmul |"))
    cells = [cell.strip() for cell in written.strip("|").split("|")]
    ranked = command("recommend", "--stored", "--db", alone, "--op", "gemv", "-M", "1", "-N", "4096", "-K", "4096")
    option = next(line for line in ranked.splitlines() if "BF16 · matmul  " in line)
    history = command("history", CASE_KEY, "--db", alone)
    assert {"terminal": {texts.short_time, texts.plus_minus, *texts.errors} - set(row)} == {"terminal": set()}
    assert f"measured    {texts.time} (" in case
    assert f"±{texts.plus_minus}" in case
    for error in texts.errors:
        assert f"error {error}" in case
    if texts.ends is not None:
        assert f"({texts.ends[0]} to {texts.ends[1]})" in case
    assert {texts.time, *texts.errors} <= set(cells)
    assert texts.short_time in option
    assert f"±{texts.plus_minus}" in option
    assert texts.time in history
