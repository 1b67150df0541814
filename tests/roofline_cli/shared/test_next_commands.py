"""Every command that we print is one worth typing: it parses, those that measure nothing run, and the question of the
command that printed it is carried on.
"""

from __future__ import annotations

import json
import re
import shlex
from functools import cache
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
TRAFFIC = "--traffic decode:batch=16,context=8192,share=0.9 --traffic prefill:batch=1,context=8192,share=0.1"
TOO_SLOW = f"recommend --model llama-3.1-70b --hw h100-sxm {TRAFFIC} --max-latency-ms decode=30,prefill=500"
TOO_LOSSY = "recommend --model llama-3.1-70b --hw gb10 --phase prefill --batch 16 --context 8192 --formats NVFP4"
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
    "recommend --model llama-3.3-70b --hw gb10",
    "recommend --model qwen3-32b --hw gb10 --max-latency-ms decode=900",
    "recommend --model llama-3.1-8b --hw gb10 --max-latency-ms 10",
    "recommend --model llama-3.1-70b --hw h100 --tensor-parallel 8 --batch 32 --max-latency-ms 20",
    "recommend --model llama-3.1-405b --hw h100 --tensor-parallel 4",
    "recommend --model llama-3.1-405b --hw h100,b200 --tensor-parallel 8",
    TOO_SLOW,
    "recommend --model llama-3.1-70b --hw h200-sxm --traffic decode:batch=16,context=8192 --traffic prefill:context=99",
    TOO_LOSSY,
    "compare gemm -M 4096 -N 4096 -K 4096 --hw h100-sxm --formats FP8 --no-measure",
    f"compare gemm {PRODUCT} --hw gb10 --cache warm --no-measure",
    "predict model --model llama-3.1-8b --hw gb10 --batch 16,1 --formats FP8,INT4",
    "predict model --model llama-3.1-70b --hw h100 --formats FP8.FP8.FP8 --tensor-parallel 8 --link-gb-s 450",
]
OF_OUTPUT = {"--all", "--json", "-o"}


def run(arguments: list[str]):
    """Run a command that stores nothing, once: what one test asks, another types after it."""
    return _run(tuple(arguments))


@cache
def _run(arguments: tuple[str, ...]):
    return CliRunner().invoke(app, [*arguments])


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
    words, line = next_of(done.output)
    assert done.output.count("Next: ") <= 1
    if not words:
        assert asked[0] == "recommend", question  # nothing to type where no chip has room, or the limit is the caller's
        assert done.exit_code == 1
        return
    check(words, is_run=True)
    if words[0] != "roofline":
        return
    assert words[1:] != asked
    single = [word for word in words if word.startswith("-") and word != "--traffic"]
    assert len(single) == len(set(single)), words
    pairs = [(option, value) for option, value in pairwise(asked) if option.startswith("-")]
    carried = [(option, value) for option, value in pairwise(words) if option.startswith("-")]
    dropped = {option for option, value in pairs if (option, value) not in carried}
    pairs = dict(pairs)
    changed = {"--no-measure"}
    if asked[0] == "recommend" and words[1] == "recommend":
        is_loss_moved = dict(carried).get("--max-quality-loss") != pairs.get("--max-quality-loss")
        changed |= {"--max-quality-loss"} if is_loss_moved else {"--hw"}
    if words[1] == "recommend" and asked[0] == "predict":
        is_several = "," in pairs.get("--batch", "")
        assert ("at batch" in line) is is_several
        changed |= {"--batch"} if is_several else set()  # that of the headline
        changed |= {"--hidden", "--ffn-dim", "--tokens"}  # they are the sizes of its product
    if words[1] == "pipeline":
        changed |= {"--model", "--hw", "--max-latency-ms"}  # FOLDER; it measures where it runs, one kind of pass
    if words[1] == "predict":
        changed |= {"--formats"}  # and others beside them
    if words[1] == "compare":
        changed |= {"--max-quality-loss", "--hw"} if asked[0] == "recommend" else set()
    if "--kv" in pairs:
        assert "compares formats" in done.output
    assert dropped <= changed, (question, words)


def test_a_model_without_room_is_sent_to_chips_with_room_only() -> None:
    words, _ = next_of(run(shlex.split("recommend --model llama-3.1-70b --hw l4")).output)
    names = words[words.index("--hw") + 1].split(",")
    rooms = [usable_bytes(get_hardware(name)) for name in names]
    assert names == [name for _, name in sorted(zip(rooms, names, strict=True))]
    assert min(rooms) > 71e9 > usable_bytes(get_hardware("l4"))
    assert next_of(run(shlex.split("recommend --model deepseek-v3 --hw gb10")).output)[0] == []


@pytest.mark.parametrize(
    ("question", "is_named"),
    [("llama-3.3-70b", False), ("meta-llama/Llama-3.3-70B-Instruct", False), ("Meta-Llama-3.1-70B-Instruct", True)],
)
def test_no_checkpoint_of_another_model_is_served(question: str, is_named: bool) -> None:
    words, line = next_of(run(["recommend", "--model", question, "--hw", "gb10"]).output)
    assert (words[:2] == ["vllm", "serve"]) is is_named
    assert ("3.1" in line) is is_named
    document = json.loads(run(["recommend", "--model", question, "--hw", "gb10", "--json"]).output)
    assert ("vllm serve" in document["short_answer"]["next_command"]) is is_named


@pytest.mark.parametrize(
    "question", ["recommend --model llama-3.1-8b --hw gb10 --max-latency-ms 10", TOO_SLOW, TOO_LOSSY]
)
def test_where_nothing_meets_the_limits_the_next_command_finds_something(question: str) -> None:
    asked = shlex.split(question)
    done = run(asked)
    assert done.exit_code == 1
    words, _ = next_of(done.output)
    chips = words[words.index("--hw") + 1].split(",")
    for chip in chips:
        words[words.index("--hw") + 1] = chip
        assert run(words[1:]).exit_code == 0, words
    document = json.loads(run([*asked, "--json"]).output)
    assert next_of(f"Next: {document['short_answer']['next_command']}")[0] == next_of(done.output)[0]


def test_no_chip_is_named_where_none_meets_the_limits() -> None:
    done = run(shlex.split("recommend --model llama-3.1-8b --hw gb10 --max-latency-ms 0.1"))
    assert done.exit_code == 1
    assert next_of(done.output)[0] == []


@pytest.mark.parametrize(
    ("question", "longer", "length"),
    [
        (
            "recommend --model llama-3.1-70b --hw h200-sxm --traffic decode:batch=16",
            ",context=8192 --traffic prefill:context=99",
            "8192",
        ),
        ("recommend --model gpt-oss-120b --hw h200", " --context 16384", "16384"),
    ],
)
def test_the_length_that_was_asked_for_is_served_and_no_other(question: str, longer: str, length: str) -> None:
    plain, _ = next_of(run(shlex.split(question)).output)
    asked, _ = next_of(run(shlex.split(question + longer)).output)
    assert plain[:2] == asked[:2] == ["vllm", "serve"]
    assert "--max-model-len" not in plain
    assert asked[asked.index("--max-model-len") + 1] == length


@pytest.mark.parametrize(
    ("question", "length"),
    [
        ("--phase prefill --context 4096", 5120),
        ("--traffic decode:context=4096 --traffic prefill:context=4096", 5120),
        ("--traffic decode:context=6000 --traffic prefill:context=4096", 6000),
        ("--phase prefill --context 131072", 131072),  # the model's longest
    ],
)
def test_a_served_length_leaves_room_for_the_answer_to_the_longest_prompt(question: str, length: int) -> None:
    words, line = next_of(run(shlex.split(f"recommend --model llama-3.1-8b --hw h200 {question}")).output)
    assert words[words.index("--max-model-len") + 1] == str(length)
    if length == 5120:
        assert "prompts of 4,096 tokens and 1,024 of answer" in line


def test_a_latency_of_a_phase_that_is_not_asked_about_names_the_mix_only_for_a_phase() -> None:
    two = run(shlex.split("recommend --model llama-3.1-8b --hw gb10 --max-latency-ms decode=30,prefill=500"))
    assert "--traffic decode:… --traffic prefill:…" in two.output
    unknown = run(shlex.split("recommend --model llama-3.1-8b --hw gb10 --max-latency-ms dec=30"))
    assert unknown.exit_code == 2
    assert "--traffic" not in unknown.output


def test_formats_to_compare_with_are_one_list_that_names_each_once() -> None:
    words, _ = next_of(run(shlex.split("predict model --model llama-3.1-8b --hw gb10 --kv FP8 --formats fp8")).output)
    assert words[words.index("--formats") + 1].upper().split(",") == ["FP8", "BF16", "INT4"]


@pytest.mark.parametrize("named", ["INT4.BF16", "int4", "FP8_E4M3", "BF16.BF16"])
def test_no_format_is_compared_with_itself_under_another_name(named: str) -> None:
    question = f"predict model --model llama-3.1-8b --hw gb10 --kv FP8 --formats {named}"
    words, _ = next_of(run(shlex.split(question)).output)
    rows = json.loads(run([*words[1:], "--json"]).output)["predictions"]
    formats = [(row["weight_format"], row["activation_format"]) for row in rows]
    assert len(formats) == len(set(formats)) == 3


@pytest.mark.parametrize(
    ("question", "length"),
    [
        # 131,072 tokens x 327,680 B of cache = 42.9 GB beside 72.7 GB: more than 0.9 of 85.5 GB, and 0.89 of 128.5 GB
        ("recommend --model llama-3.1-70b --hw h100", "4096"),
        ("recommend --model llama-3.1-70b --hw gb10", "4096"),
        ("recommend --model llama-3.1-70b --hw h200", None),
        ("recommend --model llama-3.1-8b --hw gb10", None),
    ],
)
def test_an_engine_is_given_a_length_where_the_models_longest_has_no_room(question: str, length: str | None) -> None:
    words, _ = next_of(run(shlex.split(question)).output)
    assert words[:2] == ["vllm", "serve"]
    given = words[words.index("--max-model-len") + 1] if "--max-model-len" in words else None
    assert given == length


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
