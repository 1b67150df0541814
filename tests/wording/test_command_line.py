"""The words of the command line at 80 columns; `make wording` rewrites them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app

ANSWERS = """
predict gemv -N 4096 -K 14336 --hw gb10
predict gemm -M 512 -N 4096 -K 14336 --hw h100
predict gemm -M 512 -N 4096 -K 14336 --hw orin-agx-64gb --formats BF16,FP8,NVFP4
predict attention --heads 32 --kv-heads 8 --head-dim 128 --kv-len 8192 --batch 8 --hw gb10
predict ffn --hidden 4096 --ffn-dim 14336 --hw gb10
predict model --model llama-3.1-8b --hw gb10
predict model --model llama-3.1-70b --hw h100 --formats BF16,FP8 --batch 1,8
predict serve --model gpt-oss-120b --hw gb10 --concurrency 1,16
predict serve --model llama-3.1-70b --hw b200 --formats FP8,NVFP4 --max-ttft-ms 500 --max-tpot-ms 50
predict serve --model qwen3-32b --hw gb10 --formats NVFP4 --measured-tokens-s 6 --measured-ttft-ms 3000
check '70B Q4_K_M gb10 47 tok/s'
recommend -M 1 -N 4096 -K 14336 --hw gb10
recommend -M 4096 -N 4096 -K 14336 --hw b200
recommend --model llama-3.1-8b --hw gb10
recommend --model llama-3.1-70b --hw h100
recommend --stored --db bench.sqlite
tiling -M 512 -N 4096 -K 14336 --hw gb10
formats
explain nothing-fits
hardware list
hardware show gb10
hardware check gb10
runs --db bench.sqlite
show calibrated --db bench.sqlite
show model_quant --db bench.sqlite
show 00000000 --db bench.sqlite
report --run calibrated --db bench.sqlite --format md -o /dev/stdout
report --run model_quant --db bench.sqlite --format md -o /dev/stdout
db check --db bench.sqlite
push pushed.sqlite --db bench.sqlite
history --all --db bench.sqlite
history 2a78cac4 --db bench.sqlite
diff calibrated later --db bench.sqlite
diff calibrated later --format md --db bench.sqlite
report --run later --baseline calibrated --db bench.sqlite --format md -o /dev/stdout
""".strip().splitlines()

ERRORS = """
diff quick calibrated --db bench.sqlite
nothing
predict gemv -N 4096 -K 4096 --hw gb11
predict gemv -N 0 -K 4096 --hw gb10
predict gemv -N 4096 -K 4096 --hw gb10 --formats INT5
predict gemm -M 1 -N 4096 --hw gb10
predict attention --heads 32 --kv-heads 7 --head-dim 128 --kv-len 8192 --hw gb10
predict model --model llama-9b --hw gb10
recommend --hw gb10
recommend --model llama-3.1-8b --hw gb10 --max-quality-loss nan
recommend --model llama-3.1-8b --hw gb10 --memory-limit-gb -1
tiling -M 512 -N 4096 -K 14336 --hw nowhere
sweep -M 1:2:0 -N 4096 -K 4096 --hw gb10
hardware show a11
show nobody --db bench.sqlite
show quick gemmv --db bench.sqlite
diff quick nobody --db bench.sqlite
history gemmv --db bench.sqlite
report --run quick --format docx --db bench.sqlite
import missing.json --db bench.sqlite
runs --db missing.sqlite
runs relabel quick latest --db bench.sqlite
db check --db missing.sqlite
""".strip().splitlines()


def run(command: str, folder: Path) -> tuple[int, str]:
    """Run a command in this process; return its exit code and its output without the folder's name."""
    result = CliRunner().invoke(app, shlex.split(command))
    return result.exit_code, result.output.replace(str(folder), "FOLDER")


@pytest.mark.parametrize("command", ANSWERS)
def test_answers(command, in_folder, snapshot):
    exit_code, text = run(command, in_folder)
    assert exit_code in (0, 1), text
    assert text == snapshot


@pytest.mark.parametrize("command", ERRORS)
def test_errors(command, in_folder, snapshot):
    exit_code, text = run(command, in_folder)
    assert exit_code in (2, 4), text
    assert text == snapshot
