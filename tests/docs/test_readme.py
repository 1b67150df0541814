"""What README, Get started and the how-to pages print is true: commands run, outputs are today's, Python runs."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import typer.main
import warm_start
from loaded_scripts import load_script

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
MEASURING = ROOT / "docs" / "reference" / "measuring.md"
START = ROOT / "docs" / "index.md"
HOW_TO = tuple(ROOT / "docs" / "how_to" / f"{name}.md" for name in ("whole_model", "own_kernel", "own_chip"))
PAGES = (README, START, *HOW_TO)
SLOW = {
    "calibrate": "times every kernel of a CPU for minutes",
    "demo": "measures a trained model for minutes; tests/roofline_cli/recommend/test_cli_demo.py runs it on a small one",
    "pipeline": "measures a model for minutes; tests/roofline_cli/recommend/test_cli_pipeline.py runs it",
    "serve": "runs until it is stopped",
    "compare": "measures",
}
"""Commands whose words are only parsed here, with the reason."""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def commands(page: Path) -> list[list[str]]:
    """Return the commands of a page whose outputs are not printed below them."""
    text = re.sub(r"<!-- output: \d+ -->\n```console\n.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    shown = re.findall(r"^\$ (.*)$", text, flags=re.MULTILINE)
    return [shlex.split(part, comments=True) for line in shown for part in line.split(" && ")]


@pytest.fixture(scope="module")
def make_readme() -> ModuleType:
    return load_script("make_readme")


@pytest.fixture(scope="module")
def folder(make_readme: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database of the runs that the pages speak of, a chip file and a model folder."""
    place = tmp_path_factory.mktemp("pages")
    make_readme.import_examples(place, warm_start.run)
    (place / "roofline_model").symlink_to(ROOT / "roofline_model")
    (place / "my-model").mkdir()
    config = """{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 512, "intermediate_size": 1024,
        "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 32000,
        "max_position_embeddings": 8192, "torch_dtype": "bfloat16", "tie_word_embeddings": false, "hidden_act": "silu",
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0}"""
    (place / "my-model" / "config.json").write_text(config, encoding="utf-8")
    return place


@pytest.mark.parametrize("page", [README, START, MEASURING], ids=lambda page: page.name)
def test_the_outputs_are_those_of_today(page: Path, make_readme: ModuleType, folder: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert make_readme.BLOCK.search(text) or make_readme.SUMMARY.search(text)
    assert make_readme.with_outputs(text, folder, warm_start.run) == text, "run `make readme`"


def parse(words: list[str]) -> None:
    """Parse the options of a `roofline` command without running it. Raises on a word that it does not know."""
    from roofline_cli.main import app

    command, rest = typer.main.get_command(app), words[1:]
    while hasattr(command, "commands"):
        command, rest = command.commands[rest[0]], rest[1:]
    command.make_context("roofline", list(rest))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_runs(page: Path, make_readme: ModuleType, folder: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    environment = make_readme.environment(folder)
    for words in commands(page):
        program, *rest = words
        if program == "make":
            assert f"\n{rest[0]}:" in makefile, words
        elif program == ".":
            assert rest == [".venv/bin/activate"]
        elif program == "pip":
            assert set(re.findall(r"[\w]+", rest[-1])) <= set(extras), words
        elif program == "cp":
            (folder / rest[1]).write_bytes((ROOT / rest[0]).read_bytes())
        elif program == "pytest":
            plan = [part for part in rest if part != "--roofline-plan" and not part.endswith(".json")]
            arguments = (
                str(ROOT / "bench_cases"),
                *plan[1:],
                "--roofline-predict-only",
                "-q",
                "-p",
                "no:cacheprovider",
            )
            done = warm_start.run("pytest", *arguments, cwd=folder, env={**environment, "ROOFLINE_DB": "pytest.db"})
            assert done.returncode == 0, (words, done.stdout[-2000:])
        elif rest[0] in SLOW:
            parse(words)
        else:
            assert program == "roofline", words
            done = warm_start.run("roofline_cli", *rest, cwd=folder, env=environment)
            assert done.returncode == 0, (words, done.stderr)


def test_python_of_the_model_runs_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = [block for block in blocks(README, "python") if "create_custom_asic(" in block]
    expression, _, promised = next(line for line in block.splitlines() if "predicted_time_us" in line).partition("#")
    scope: dict[str, object] = {}
    exec(block, scope)
    assert eval(expression, scope) == pytest.approx(float(promised), abs=0.05)
    assert capsys.readouterr().out.strip() == "INT8 (PTQ) 2.0x speedup"


def test_the_chip_of_the_how_to_is_predicted(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = [block for page in HOW_TO for block in blocks(page, "python") if "create_custom_asic(" in block]
    exec(block, {})
    assert float(capsys.readouterr().out) > 0


@pytest.mark.parametrize("page", [README, HOW_TO[1]], ids=lambda page: page.name)
def test_the_suites_that_are_printed_pass_a_good_kernel_and_fail_a_slow_one(page: Path, tmp_path: Path) -> None:
    (block,) = [block for block in blocks(page, "python") if "roofline.measure(" in block]
    (tmp_path / "test_printed.py").write_text(block, encoding="utf-8")
    for efficiency, outcome in (("0.6", "1 passed"), ("0.06", "1 failed")):  # a good kernel, and one ten times as slow
        timer = f"simulated:efficiency={efficiency}"
        options = ("-p", "roofline_pytest", "-p", "no:cacheprovider", "--hw", "b10", "--roofline-timer", timer)
        done = warm_start.run("pytest", "test_printed.py", *options, cwd=tmp_path)
        assert outcome in done.stdout, done.stdout[-3000:]


def test_old_imports_have_the_new_home() -> None:
    text = (ROOT / "docs" / "development" / "originals.md").read_text(encoding="utf-8")
    listed = re.findall(r"`from roofline_model import ([\w, ]+)`", text)
    assert listed
    for names in listed:
        module = __import__("roofline_model", fromlist=names.split(", "))
        for name in names.split(", "):
            assert getattr(module, name) is not None


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").split()) <= 1200


def test_every_page_finding_and_screen_keeps_the_style() -> None:
    check_words = load_script("check_words")
    broken = [f"{path.name}: {line}" for path in check_words.files() for line in check_words.problems(path)]
    broken += [f"--help: {line}" for line in check_words.broken_rules(check_words.help_paragraphs())]
    assert broken == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One short sentence. Another one.", 0),
        ("word " * 31 + "end.", 1),
        ("```text\n" + "word " * 40 + "\n```", 0),
        ("INT4 is level with INT8.", 1),
        ("The level of the cache.", 0),
    ],
)
def test_the_style_is_checked(text: str, count: int, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    assert len(list(load_script("check_words").problems(page))) == count
