"""Every command that we print is one worth typing: it parses, those that measure nothing run, and the question of the
command that printed it is carried on.
"""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_cli.shared.group import remembering, typed
from roofline_model.chips.hardware import get_hardware
from roofline_model.chips.usable_memory import usable_bytes
from roofline_pytest_options import OPTIONS

ROOT = Path(__file__).resolve().parents[3]
SERVED = {"--kv-cache-dtype", "--max-model-len", "--gpu-memory-utilization", "--tensor-parallel-size"}
"""Options of `vllm serve` that we print (docs.vllm.ai, Engine Arguments)."""
PYTEST = {"-k", "-q", "-n", "--hw", "--benchmark-json", *(name for name, _ in OPTIONS)}
PREDICTING = ("predict", "recommend", "tiling", "formats", "hardware", "explain", "sweep")
"""Commands that measure nothing and need no database."""

PRODUCT = "-M 64 -N 4096 -K 4096"
QUESTIONS = [
    "predict model --model llama-3.1-8b --hw gb10",
    "predict model --model llama-3.1-70b --hw h100 --tensor-parallel 2 --link-gb-s 450 --batch 8 --context 8192",
    "predict model --model llama-3.1-8b --hw gb10 --formats BF16,INT4 --batch 4,8 --context 8192 --memory-headroom 0.1",
    "predict model --model qwen3-8b --hw h100 --kv FP8 --phase prefill --context 2048",
    "predict model --model llama-3-8b --hw gb10 --strategy fp8_balanced",
    "predict gemv -N 4096 -K 4096 --hw gb10",
    f"predict gemm {PRODUCT} --hw h100 --formats INT4,FP8",
    "predict ffn --hidden 4096 --ffn-dim 14336 --tokens 8 --hw h100",
    "predict attention --heads 32 --kv-heads 8 --head-dim 128 --kv-len 8192 --hw h100",
    f"tiling {PRODUCT} --hw gb10 --formats INT4 --cache warm",
    "hardware show gb10",
    f"recommend {PRODUCT} --hw gb10",
    f"recommend {PRODUCT} --hw gb10,h100 --max-quality-loss 6",
    "recommend --model llama-3.1-8b --hw gb10",
    "recommend --model gpt-oss-120b --hw gb10 --batch 8 --context 8192",
    "recommend --model qwen3-32b --hw gb10 --batch 4 --max-latency-ms 200 --max-quality-loss 2",
    "recommend --model llama-3.1-70b --hw l4 --batch 4 --context 8192 --max-quality-loss 2",
    "recommend --model llama-3.1-8b --hw l4,h100 --phase prefill --context 2048",
    "recommend --model deepseek-v3 --hw gb10",
    "recommend --model llama-3.1-8b --hw gb10 --memory-limit-gb 2",
]
OF_OUTPUT = {"--all", "--json", "-o"}


def run(arguments: list[str]):
    return CliRunner().invoke(app, arguments)


def next_of(text: str) -> tuple[list[str], str]:
    """Return the words of the next command and the line with its comment; no words where none is printed."""
    lines, command = iter(text.splitlines()), ""
    for line in lines:
        if line.startswith("Next: "):
            command = line.removeprefix("Next: ")
            while command.endswith("\\"):
                command = command[:-1] + next(lines).strip()
    return shlex.split(command, comments=True), command


def check(words: list[str], *, is_run: bool) -> None:
    """Parse a command by its own program; run it where it is ours, measures nothing and its files are not made up."""
    program, *arguments = words
    options = [word.partition("=")[0] for word in arguments if re.match(r"--?[a-zA-Z]", word)]
    if program == "vllm":
        assert arguments[0] == "serve"
        assert set(options) <= SERVED, words
    elif program == "pytest":
        assert set(options) <= PYTEST, words
    else:
        assert program == "roofline", words
        parse(arguments)
        is_predicting = arguments[0] in PREDICTING or "--no-measure" in arguments
        if is_run and is_predicting and not {"--stored", "--plot"} & set(arguments):
            done = run(arguments)
            assert done.exit_code in (0, 1), (words, done.output)
            assert done.exception is None or isinstance(done.exception, SystemExit), words


def parse(arguments: list[str]) -> None:
    """Raise for a command that typer does not know, and for an option that it has not or that misses its value."""
    command, rest = typer.main.get_command(app), list(arguments)
    context = command.make_context("roofline", [], resilient_parsing=True)
    while hasattr(command, "get_command") and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        command = command.get_command(context, name)
        assert command is not None, arguments
        context = command.make_context(name, [], parent=context, resilient_parsing=True)
    if not hasattr(command, "get_command"):
        command.make_context("command", rest, parent=context)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_next_command_runs_and_carries_the_question(question: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked = shlex.split(question)
    done = run(asked)
    assert done.exit_code in (0, 1), done.output
    words, _ = next_of(done.output)
    if not words:
        assert asked[0] == "recommend", question  # nothing to type where no chip has room, or the limit is the caller's
        assert done.exit_code == 1
        return
    check(words, is_run=True)
    if words[0] != "roofline":
        return
    pairs = {option: value for option, value in pairwise(asked) if option.startswith("-")}
    carried = {option: value for option, value in pairwise(words) if option.startswith("-")}
    dropped = {option for option, value in pairs.items() if carried.get(option) != value}
    is_other_chip = asked[0] == "recommend" and words[1] == "recommend"
    changed = {"--hw"} if is_other_chip else set()
    if words[1] == "recommend" and asked[0] == "predict":
        changed |= {"--batch"} if "," in pairs.get("--batch", "") else set()  # that of the headline
        changed |= {"--hidden", "--ffn-dim", "--tokens"}  # they are the sizes of its product
    if words[1] in ("pipeline", "compare"):
        changed |= {"--model", "--hw"}  # FOLDER; and it measures where it runs
    if "--tensor-parallel" in pairs or "--kv" in pairs:
        assert "compares formats" in done.output
    assert dropped <= changed, (question, words)


def test_a_model_without_room_is_sent_to_chips_with_room_only() -> None:
    words, _ = next_of(run(shlex.split("recommend --model llama-3.1-70b --hw l4")).output)
    names = words[words.index("--hw") + 1].split(",")
    rooms = [usable_bytes(get_hardware(name)) for name in names]
    assert names == [name for _, name in sorted(zip(rooms, names, strict=True))]
    assert min(rooms) > 71e9 > usable_bytes(get_hardware("l4"))
    assert next_of(run(shlex.split("recommend --model deepseek-v3 --hw gb10")).output)[0] == []


def test_no_length_of_context_is_printed_that_nobody_asked_for() -> None:
    question = "recommend --model gpt-oss-120b --hw h200"
    plain, _ = next_of(run(shlex.split(question)).output)
    asked, _ = next_of(run(shlex.split(f"{question} --context 16384")).output)
    assert plain[:2] == asked[:2] == ["vllm", "serve"]
    assert "--max-model-len" not in plain
    assert asked[asked.index("--max-model-len") + 1] == "16384"


def test_this_machine_is_said_of_this_machine_alone() -> None:
    for question in (
        f"recommend {PRODUCT}",
        "predict attention --heads 8 --head-dim 64",
        "recommend --model qwen3-32b",
    ):
        _, line = next_of(run(shlex.split(f"{question} --hw gb10")).output)
        assert "this machine" not in line, line
        assert "on a machine with gb10" in line


def test_a_password_that_was_typed_is_not_printed_again(capsys) -> None:
    tiny = typer.Typer()

    @tiny.command()
    def show(db: str = typer.Option("", "--db")) -> None:
        print(typed("--db"), len(db))

    remembering(typer.main.get_command(tiny)).main(["--db", "postgresql://me:SECRET9@h/x"], standalone_mode=False)
    printed = capsys.readouterr().out
    assert "--db" in printed
    assert "SECRET9" not in printed


def printed_commands() -> list[str]:
    """Return every command of README and the pages that a reader would copy: consoles, and what commands print next."""
    commands: dict[str, None] = {}
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        if "decisions" in page.parts:
            continue
        for line in page.read_text(encoding="utf-8").splitlines():
            match = re.match(r"\s*(?:\$|Next:) ((?:roofline|pytest|vllm) [^|>&;…]*)$", line)
            if match and not re.search(r"\.\.\.|<|\\$", match[1]):
                commands[match[1]] = None
    return list(commands)


def test_every_command_of_the_pages_parses_and_those_that_predict_run(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = printed_commands()
    assert len(commands) > 80
    for command in commands:
        words = shlex.split(command, comments=True)
        if words[0] == "pytest" and not {word for word in words if word.startswith("--roofline")}:
            continue  # of others' suites
        is_made_up = any(re.search(r"\.(toml|json|csv|md|png)\b|^\./|^[A-Z_]{4,}$", word) for word in words)
        check(words, is_run=not is_made_up)
