"""What holds for every command: help, --json, exit codes, one-line errors, quick start, quiet pipes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_cli.shared import group
from roofline_cli.shared.group import LazyGroup

runner = CliRunner()
ROOT = Path(__file__).parents[3]

COMMANDS = {
    "demo",
    "doctor",
    "calibrate",
    "predict gemv",
    "predict gemm",
    "predict model",
    "predict serve",
    "check",
    "predict attention",
    "predict ffn",
    "recommend",
    "compare gemv",
    "compare gemm",
    "formats",
    "explain",
    "hardware list",
    "hardware new",
    "hardware show",
    "hardware check",
    "runs",
    "runs relabel",
    "runs delete",
    "show",
    "diff",
    "history",
    "nightly",
    "pr",
    "export",
    "import",
    "report",
    "db upgrade",
    "db check",
    "push",
    "prune",
    "tiling",
    "sweep",
    "fit",
    "validate",
    "pipeline",
    "losses",
    "serve",
}
WITHOUT_JSON = {"export"}
READING = {
    "demo",
    "recommend",
    "pipeline",
    "runs",
    "runs relabel",
    "runs delete",
    "show",
    "diff",
    "history",
    "nightly",
    "export",
    "report",
    "serve",
    "compare gemv",
    "compare gemm",
    "import",
    "doctor",
    "db upgrade",
    "db check",
    "push",
    "prune",
}
WRITING = {
    "demo",
    "recommend",
    "diff",
    "nightly",
    "pr",
    "losses",
    "pipeline",
    "export",
    "report",
    "calibrate",
    "tiling",
    "sweep",
    "fit",
    "hardware new",
}


def leaves(command, prefix=""):
    for name, child in getattr(command, "commands", {}).items():
        path = f"{prefix} {name}".strip()
        if getattr(child, "commands", None):
            yield from leaves(child, path)
        if not getattr(child, "commands", None) or child.invoke_without_command:
            yield path, child


def all_commands():
    return dict(leaves(typer.main.get_command(app)))


def run_roofline(*arguments: str, environment: dict[str, str] | None = None, **options):
    env = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
    env.pop("COLUMNS", None)
    return subprocess.run(
        [sys.executable, "-m", "roofline_cli", *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


def test_all_promised_commands_exist_with_help_and_options():
    commands = all_commands()
    assert set(commands) == COMMANDS
    for name, command in commands.items():
        flags = {flag for parameter in command.params for flag in parameter.opts}
        assert command.help, name
        assert ("--json" in flags) == (name not in WITHOUT_JSON), name
        assert ("--db" in flags) == (name in READING), name
        assert ("-o" in flags) == (name in WRITING), name
        for parameter in command.params:
            assert parameter.help, f"{name}: {parameter.name} has no help"


def test_a_run_typed_where_an_option_takes_it_is_pointed_there():
    result = runner.invoke(app, ["report", "nightly"])
    assert result.exit_code == 2
    assert "name the run with `--run nightly`" in result.stderr


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_of_every_command_is_readable(name):
    result = runner.invoke(app, [*name.split(), "--help"])
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: roofline {name}") or name.split()[-1] in result.stdout.splitlines()[0]
    assert "\x1b" not in result.stdout


def test_the_root_lists_every_command_under_the_task_that_its_reference_names():
    text = runner.invoke(app, []).stdout
    listed = re.findall(r"^(\w[\w ]*):\n((?:  .+\n)+)", text, re.M)
    tasks = {task: [line.split()[0] for line in lines.splitlines()] for task, lines in listed if task != "Options"}
    document = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    sections = re.findall(r"^\| \*\*(.+?)\*\* \| \|\n((?:\| `.+\n)+)", document, re.M)
    assert list(tasks) == [task for task, _ in sections]
    for task, rows in sections:
        assert set(tasks[task]) <= set(re.findall(r"`roofline (\w+)", rows)), task
    assert {name.split()[0] for name in COMMANDS} == {name for names in tasks.values() for name in names}


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("show", "RUN [CASE...]"), ("diff", "RUN..."), ("export", "[RUN]"), ("import", "FILE..."), ("hardware show", "NAME|FILE"), ("hardware check", "[NAME|FILE]"),
        ("validate", "FILE"), ("push", "URL|PATH [RUN...]"),
    ],
)  # fmt: skip
def test_arguments_are_named_without_python_types(command, usage):
    text = runner.invoke(app, [*command.split(), "--help"]).stdout
    assert text.splitlines()[0].endswith(f"{command} [OPTIONS] {usage}")
    assert "<" not in text
    assert "Path" not in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("predict gemv -M 0 -N 4 -K 4", "M must be a whole number from 1 to 1,000,000,000, got 0"),
        ("predict gemv -M -5 -N 4 -K 4", "got -5"),
        ("predict gemv -M 17 -N 4 -K 4", "use `roofline predict gemm`"),
        ("predict gemm -M 1e12 -N 4 -K 4", "got '1e12'"),
        ("predict gemm -M 1000000000000 -N 4 -K 4", "got 1000000000000"),
        ("predict gemm -M 4 -N four -K 4", "N must be a whole number"),
        (f"predict gemm -M {'9' * 5000} -N 4 -K 4", "M must be a whole number"),
        ("predict gemm -M 4 -N 4", "Missing option '-K'"),
        ("predict gemm -M 4 -N 4 -K 4 --hw h101", "Did you mean h100"),
        ("predict gemm -M 4 -N 4 -K 4 --formats FP17", "Did you mean FP16"),
        ("predict gemm -M 4 -N 4 -K 4 --formats INT4.BF17", "unknown format 'BF17'"),
        ("predict gemm -M 4 -N 4 -K 4 --formats FP16,,INT8", "empty entry"),
        ("predict gemm -M 4 -N 4 -K 4 --formats-file absent.toml", "does not exist"),
        ("predict gemm -M 4 -N 4 -K 4 --what", "--what"),
        ("predict gemmm", "Did you mean 'gemm'"),
        ("predict", "Missing command"),
        ("nonsense", "No such command 'nonsense'"),
        ("recommend -M 4 -N 4 -K 4 --phase both", "--phase must be decode or prefill"),
        ("recommend -M 4 -N 4 -K 4 --memory-limit-gb many", "--memory-limit-gb must be a positive number"),
        ("recommend -M 4 -N 4 -K 4 --memory-limit-gb -1", "--memory-limit-gb must be a positive number"),
        ("recommend -M 4 -N 4 -K 4 --model-parameters nan", "--model-parameters must be a positive number"),
        ("compare gemv -M 17 -N 4 -K 4 --no-measure", "use `roofline compare gemm`"),
        ("compare gemv -N 4 -K 4 --cache lukewarm", "--cache must be cold, flushed or warm"),
        ("compare gemv -N 4 -K 4 --formats FP17", "Did you mean FP16"),
        ("pipeline -o out", "Missing option '--model'"),
        ("pipeline --model seeded-llama-1m", "Missing option '-o'"),
        ("pipeline --model seeded-llama-1m -o out --phase both", "--phase must be decode or prefill"),
        ("pipeline --model seeded-llama-1m -o out --memory-limit-gb 0", "--memory-limit-gb must be a positive number"),
        ("pipeline --model seeded-llama-1m -o out --max-quality-loss much", "--max-quality-loss must be percent"),
        ("pipeline --model seeded-llama-1m -o out --candidates 0", "--candidates must be a whole number from 1 to"),
        ("pipeline --model seeded-llama-1m -o out --processes two", "--processes must be a whole number from 1 to"),
        ("runs delete", "Missing argument 'RUN'"),
        ("runs relabel latest", "Missing argument 'LABEL'"),
        ("prune", "Missing option '--older-than'"),
        ("prune --older-than soon", "an age is a whole number"),
        ("push", "Missing argument"),
        ("export latest --format xml", "--format must be json, csv or parquet"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, words):
    typed = arguments.split()
    if typed[0] in ("predict", "recommend", "compare") and len(typed) > 2 and "--hw" not in typed:
        typed += ["--hw", "b10"]
    result = runner.invoke(app, typed)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr
    assert len(result.stderr) < 900


def test_an_error_cannot_send_escape_sequences_to_the_terminal():
    result = runner.invoke(app, ["predict", "gemv", "-N", "4", "-K", "4", "--hw", "\x1b[2Jgb10\n[red]x"])
    assert result.exit_code == 2
    assert "\x1b" not in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_bug_is_not_hidden_behind_a_one_line_error(monkeypatch):
    monkeypatch.setattr("roofline_model.predictions.catalog.FORMATS", None)
    result = runner.invoke(app, ["formats"])
    assert isinstance(result.exception, AttributeError)


def test_interruption_exits_130(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("roofline_cli.machine.hardware.list_hardware", interrupted)
    result = runner.invoke(app, ["hardware", "list"])
    assert result.exit_code == 130
    assert "Traceback" not in result.output


def test_version_starts_without_anything_heavy():
    code = (
        "import sys; sys.argv = ['roofline', '--version']\n"
        "from roofline_cli.main import run\n"
        "try:\n    run()\nexcept SystemExit as stop:\n    assert stop.code == 0\n"
        "heavy = {'numpy', 'sqlalchemy', 'torch', 'rich', 'pandas', 'matplotlib', 'alembic', 'ml_dtypes', 'pytest', "
        "'pynvml'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    version, loaded = result.stdout.splitlines()
    assert version.startswith("roofline-bench ")
    assert loaded == "[]"


def loaded_by(*arguments: str) -> set[str]:
    """Return the modules of ours that a command line loads."""
    code = (
        f"import sys; sys.argv = ['roofline', *{arguments!r}]\n"
        "from roofline_cli.main import run\n"
        "try:\n    run()\nexcept SystemExit:\n    pass\n"
        "print(*(name for name in sys.modules if name.startswith('roofline_cli.')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def lazy_groups():
    root = typer.main.get_command(app)
    return [root, *(child for child in root.commands.values() if isinstance(child, LazyGroup))]


@pytest.mark.parametrize("arguments", [["--help"], ["predict", "--help"]])
def test_listing_commands_loads_none_of_them(arguments):
    places = {entry.place.split(":")[0] for listed in lazy_groups() for entry in listed.entries.values()}
    assert not loaded_by(*arguments) & (places - {"roofline_cli.main"})


def test_a_command_loads_no_other():
    assert not loaded_by("predict", "gemv", "--help") & {"roofline_cli.predict.model", "roofline_cli.runs.show"}


def test_the_list_of_commands_says_what_each_says_of_itself():
    for listed in lazy_groups():
        for name, command in listed.commands.items():
            assert command.get_short_help_str() == listed.entries[name].summary, name


def test_predicting_needs_no_database_no_torch_no_plots():
    code = (
        "import sys; from typer.testing import CliRunner; from roofline_cli.main import app\n"
        "result = CliRunner().invoke(app, ['predict', 'gemv', '-N', '64', '-K', '64', '--hw', 'b10'])\n"
        "assert result.exit_code == 0, result.output\n"
        "print(sorted({'sqlalchemy', 'torch', 'pandas', 'matplotlib'} & set(sys.modules)))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout == "[]\n"


def test_piped_output_is_plain_even_when_colour_is_forced():
    result = run_roofline(
        "predict",
        "gemv",
        "-N",
        "4096",
        "-K",
        "4096",
        "--hw",
        "b10",
        environment={"FORCE_COLOR": "1", "PYTHONIOENCODING": "utf-8"},
    )
    assert result.returncode == 0
    assert "\x1b" not in result.stdout
    assert "33.57 µs" in result.stdout


def test_a_locale_without_micro_signs_loses_the_sign_not_the_table():
    result = run_roofline(
        "predict", "gemv", "-N", "4096", "-K", "4096", "--hw", "b10", environment={"PYTHONIOENCODING": "ascii"}
    )
    assert result.returncode == 0, result.stderr
    assert "33.57 ?s" in result.stdout


@pytest.mark.parametrize("columns", ["", "80"])  # plain text, and a table by rich
def test_a_closed_pipe_is_silent(columns):
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": columns}
    with os.fdopen(writer, "wb") as stdout:
        result = subprocess.run(
            [sys.executable, "-m", "roofline_cli", "hardware", "list"],
            env=environment,
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert result.stderr == b""
    assert result.returncode == group.EXIT_BROKEN_PIPE == 128 + signal.SIGPIPE
