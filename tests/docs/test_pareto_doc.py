"""docs/theory/pareto.md: its examples run, and its table is what the engine answers."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import typer
from trained_run import as_trained

from roofline_cli.main import app
from roofline_model.recommend.engine import MAX_QUALITY_LOSS_PCT, IntegratedQuantizationEngine
from roofline_model.recommend.ranking import LEVEL_RATIO
from roofline_model.recommend.search.losses_file import read_losses_text
from roofline_model.recommend.search.search import TIE_BREAK_CHOICES

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "theory" / "pareto.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"(?:^(?:    .*)?\n)+", TEXT, flags=re.MULTILINE)
EXAMPLES = [textwrap.dedent(block) for block in BLOCKS if "import" in block]
LLAMA = {"H": 4096, "L": 32, "nh": 32, "nkv": 8, "dh": 128, "dff": 14336}


def example_with(text: str) -> str:
    """Return the page's one example that has this text."""
    (example,) = [example for example in EXAMPLES if text in example]
    return example


def run(example: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    exec(compile(example, "docs/theory/pareto.md", "exec"), namespace)
    return namespace


def test_the_search_example_keeps_its_budgets(capsys):
    namespace = run(example_with("choose_formats("))
    answer = namespace["answer"]
    assert answer.plan.time_s <= 0.75 * namespace["wide_s"] * (1 + 1e-9)
    assert answer.plan.memory_bytes <= 24e9
    assert namespace["model"].pass_time_s(namespace["plan"]) == pytest.approx(answer.plan.time_s)
    assert namespace["front"].points
    assert "layers.0.qkv_proj" in capsys.readouterr().out


def test_the_engine_example_runs(capsys):
    answer = run(example_with("IntegratedQuantizationEngine("))["answer"]
    assert answer.config.strategy_name in capsys.readouterr().out


def test_the_example_of_a_whole_model_finds_a_plan_by_search(capsys):
    ranking = run(example_with("recommend_model("))["ranking"]
    assert ranking.choice.kind == "search"
    assert ranking.choice.estimate.time_s <= 0.05
    fastest = ranking.option("pareto-fastest").estimate.time_s
    assert f"pareto-fastest {fastest}" in capsys.readouterr().out


def test_the_losses_file_of_the_page_is_read():
    (text,) = [textwrap.dedent(block) for block in BLOCKS if '"losses":' in block]
    losses = read_losses_text(text)
    assert (losses.confidence, losses.tokens_count, len(losses.values)) == ("high", 4096, 4)


def test_every_option_for_a_whole_model_is_on_the_page():
    options = {
        option for parameter in typer.main.get_command(app).commands["recommend"].params for option in parameter.opts
    }
    named = {
        "--losses",
        "--traffic",
        "--layers",
        "--strategy",
        "--formats",
        "--max-latency-ms",
        "--max-quality-loss",
        "--memory-headroom",
    }
    assert named <= options
    assert [option for option in sorted(named) if option not in TEXT] == []


def test_the_table_is_what_the_engine_answers():
    engine = IntegratedQuantizationEngine("b10")
    rows = re.findall(r"^\| (decode|prefill), (\d+)K \|.*\| `(\w+)`, ([\d.]+) times", TEXT, flags=re.MULTILINE)
    assert len(rows) == 3
    for phase, tokens, strategy, speedup in rows:
        ranking = engine.recommend(LLAMA, phase, int(tokens) * 1024)
        assert (ranking.config.strategy_name, f"{ranking.predicted_speedup:.2f}") == (strategy, speedup)
        if tokens == "32":
            assert f"{ranking.memory_savings_pct:.1f} % saved" in TEXT


def test_the_numbers_are_those_of_the_code():
    assert f"up to {TIE_BREAK_CHOICES} choices" in TEXT
    assert f"`max_quality_loss_pct`, default {MAX_QUALITY_LOSS_PCT:g}" in TEXT
    assert f"Times within {LEVEL_RATIO * 100:g} % are equal" in TEXT


def test_the_example_of_stored_runs_prints_what_the_examples_measured(tmp_path, monkeypatch, capsys):
    from results import open_store
    from results.exchange.exported.load import import_file

    with open_store(str(tmp_path / "results.db")) as store:
        run_file = Path(__file__).parents[2] / "examples" / "runs" / "cpu-amd-epyc-2t" / "model_quant.json"
        import_file(store, as_trained(run_file, tmp_path))
    monkeypatch.chdir(tmp_path)
    assert run(example_with("recommend_from_store("))["advice"].rankings[0].options
    assert "decode, batch 1, 128 tokens take INT8 (W8A16)" not in (printed := capsys.readouterr().out)
    assert "seeded-llama-156m, decode, batch 1, 128 tokens stay with BF16: measured 25.23 ms" in printed
