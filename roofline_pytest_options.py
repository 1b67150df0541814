"""The pytest options of roofline-bench.

Standard library only: pytest reads them before anything of ours is imported.
"""

from __future__ import annotations

from typing import Any

_GROUP = "roofline_bench"

OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--roofline-hw", {"metavar": "NAME|FILE|auto", "help": (
        "Chip to predict for: a name of `roofline hardware list`, a TOML file, or auto = this machine (default). Short "
        "form: --hw."
    )}),
    ("--hw", {"metavar": "NAME|FILE|auto", "dest": "roofline_bench_hw", "help": "Short form of --roofline-hw."}),
    ("--roofline-device", {"metavar": "cpu|cuda", "help": "Where kernels run. Default: cuda when an NVIDIA device is present, else cpu."}),
    ("--roofline-db", {"metavar": "URL|PATH", "help": "Results database. Default: $ROOFLINE_DB, else .roofline/results.db in the current folder."}),
    ("--roofline-run", {"metavar": "LABEL", "help": "Label of this run, for `roofline show LABEL`."}),
    ("--roofline-predict-only", {"action": "store_true", "default": None, "help": "Store and show predictions; measure nothing."}),
    ("--roofline-formats", {"metavar": "F1,F2", "help": (
        "Only cases with these weight formats (keys or aliases of `roofline formats`). For attention: of the cache; "
        "for casts: of the narrow side; for model_quant also WEIGHT.ACTIVATION."
    )}),
    ("--roofline-shapes", {"metavar": "SET", "help": "quick (default) | standard | full | llm:NAME | MxNxK,… | FILE.csv (the last two: products only)."}),
    ("--roofline-model", {"metavar": "ID|PATH", "help": (
        "Model of the model_quant cases: a seeded one (seeded-llama-156m, default), a folder as save_pretrained writes "
        "it, or a hub id."
    )}),
    ("--roofline-batch", {"metavar": "LIST", "help": "Sequences of the model_quant cases, e.g. 1,8 (default: by --roofline-shapes)."}),
    ("--roofline-context", {"metavar": "LIST", "help": (
        "Tokens of a sequence in the model_quant cases, e.g. 128,2048: of the prompt, and of the cache in decode "
        "(default: by --roofline-shapes)."
    )}),
    ("--roofline-kv", {"metavar": "LIST", "help": (
        "KV-cache formats of the model_quant cases beside the model's own: INT8, FP8, NVFP4 (with 16-bit weights, in "
        "decode)."
    )}),
    ("--roofline-plan", {"metavar": "FILE.json,…", "help": "Per-layer plans as further model_quant cases: JSON of layer, pattern or role to precision."}),
    ("--roofline-method", {"metavar": "METHOD", "help": "How the model_quant cases choose codes: round-to-nearest (default), HQQ, or AWQ with --roofline-text."}),
    ("--roofline-compile", {"action": "store_true", "default": None, "help": (
        "Run the model_quant cases through torch.compile: other kernels, cases of their own; the first call takes "
        "minutes."
    )}),
    ("--roofline-text", {"metavar": "FILE.txt", "help": "Text on which the model_quant cases measure quality (default: help texts that ship with Python)."}),
    ("--roofline-cache", {"metavar": "cold|warm|flushed|both", "help": (
        "Operands from memory by rotation (cold, default), left in cache (warm), caches overwritten before each call "
        "(flushed), or cold and warm as separate cases (both)."
    )}),
    ("--roofline-mode", {"metavar": "MODE,…", "help": (
        "How calls are issued, each mode a case of its own: eager (default), graph (CUDA graph replay), burst (short, "
        "after recovery), sustained (after power and clock are flat), or all."
    )}),
    ("--roofline-target-ci", {"metavar": "PERCENT", "help": "Stop sampling when the 95 %% interval of the median is within ± this (default 1)."}),
    ("--roofline-max-seconds", {"metavar": "SECONDS", "help": "Sampling budget of one case (default 0.7)."}),
    ("--roofline-processes", {"metavar": "N", "help": "Measure every case in N fresh processes, in interleaved order (default: in this one)."}),
    ("--roofline-isolate", {"metavar": "auto|case|none", "help": (
        "Measure cases in a worker that is replaced after a crash, hang or device error (auto, default), in a fresh worker "
        "each (case), or in pytest's own process (none)."
    )}),
    ("--roofline-timeout", {"metavar": "SECONDS", "help": "Watchdog of one case (default 60): a worker that needs longer is killed and the case FAILS."}),
    ("--roofline-timer", {"metavar": "TIMER", "help": "auto (default) | monotonic | cuda-event | simulated[:k=v,…] | replay:RUN.json"}),
    ("--roofline-attribution", {"metavar": "none|cupti", "help": "Trace each case's kernels after timing it: number, device-busy time and gaps (needs cupti-python)."}),
    ("--roofline-no-canary", {"action": "store_true", "default": None, "help": "Run no canary kernel between cases."}),
    ("--roofline-profile-file", {"metavar": "FILE", "help": "Ceilings of this machine as `roofline calibrate -o FILE` wrote them, instead of its own measured ones."}),
    ("--roofline-profile", {"metavar": "ncu", "help": "Measure nothing; print the Nsight Compute command of each selected case."}),
    ("--roofline-power", {"action": "store_true", "dest": "roofline_bench_power", "default": None, "help": "Add a window of 2 s per case to measure power and energy (NVML)."}),
    ("--roofline-no-power", {"action": "store_false", "dest": "roofline_bench_power", "default": None, "help": "Read no power sensor at all."}),
    ("--roofline-json", {"metavar": "FILE", "help": "Export this run to FILE when it ends."}),
    ("--roofline-baseline", {"metavar": "RUN", "help": (
        "Compare this run with an earlier one when it ends: latest, BASELINE[:N] (the newest N, 5), branch:NAME, a "
        "label or an id."
    )}),
    ("--roofline-fail-on", {"metavar": "RULES", "help": (
        "Exit 1 when the comparison with --roofline-baseline finds one of these: slower, gone, energy, memory, "
        "quality, error; with a size: slower:5%%."
    )}),
    ("--roofline-quarantine", {"metavar": "FILE.toml", "help": "Cases that the comparison with --roofline-baseline shows and that fail nothing."}),
    ("--roofline-annotations", {"metavar": "FILE.toml", "help": "Expected changes, which fail nothing in the comparison with --roofline-baseline."}),
    ("--roofline-require-measured", {"metavar": "N", "nargs": "?", "const": "1", "help": "Exit 1 when fewer than N cases (default 1) were measured; write it last or as =N."}),
    ("--roofline-force-measure", {"action": "store_true", "default": None, "help": "Measure although this machine is not the chip of --hw; the run is marked forced for ever."}),
)  # fmt: skip


def option_name(flag: str) -> str:
    """Return the attribute of `config.option` that holds our option: nobody else's `--roofline-…` shares it."""
    return flag.replace("--roofline", "roofline_bench").replace("-", "_")


def add_options(parser: Any, of_values: dict[str, str]) -> None:
    """Add each option of ours whose name is free; `of_values` are attributes of those that take a value."""
    groups = (parser._anonymous, *parser._groups)
    taken = {name for group in groups for option in group.options for name in option.names()}
    group = parser.getgroup(_GROUP, "roofline: predict, measure and compare kernels")
    for flag, attributes in OPTIONS:
        if flag not in taken:
            ours = {"default": None, "dest": option_name(flag), **attributes}
            group.addoption(flag, **(ours if "action" in ours else {**ours, **of_values}))


def withdraw_options(parser: Any) -> None:
    """Take our options back, so that others may add some of the same names."""
    group = parser.getgroup(_GROUP)
    for option in group.options:
        action = getattr(option, "_action", None)  # since pytest 9; before, argparse is told of options later
        if action is not None:
            group._arggroup._remove_action(action)
            for flag in option.names():
                del parser.optparser._option_string_actions[flag]
    group.options.clear()
