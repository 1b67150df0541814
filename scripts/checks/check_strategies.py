"""Print how the search does against the six named strategies on the trained tiny decoder: python
scripts/checks/check_strategies.py

Trains the decoder (a minute), measures what every group of it loses in every format, and looks for plans that are
faster than each strategy at no more loss, all measured as a whole. Three parts of the unseen text are kept apart: one
for the losses, one for the choice, one for what is printed. About eight minutes on one core; `--quick` takes one and
shows that it works. docs/theory/quality.md sums this output up.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the checkout this script stands in, whatever else is installed

import torch  # noqa: E402

from bench_cases.quality import text_windows, train_tiny_decoder  # noqa: E402
from bench_cases.quality.sensitivity.part_losses import measured_losses  # noqa: E402
from bench_cases.quality.sensitivity.strategy_check import StrategyCheck, check_strategies  # noqa: E402
from bench_cases.quality.texts.tiny_decoder import FULL_RUN, SHORT_RUN, TINY_DECODER  # noqa: E402
from roofline_model.core.units import format_time  # noqa: E402
from roofline_model.models.strategies.strategies import list_strategies  # noqa: E402
from roofline_model.recommend.search.losses import LossTable  # noqa: E402
from roofline_model.recommend.search.model_problem import ModelProblem, model_problem, traffic_share  # noqa: E402

WIDE = "FP16"
"""The strategies' 16-bit format; the decoder's BF16 stands for it, they have the same bytes and rates."""
FORMATS = (
    "INT8",
    "INT8.INT8",
    "FP8_E4M3",
    "FP8_E4M3.BF16",
    "MXFP6.BF16",
    "NVFP4",
    "NVFP4.BF16",
    "NF4",
    "MXFP4.BF16",
    "INT4",
    "INT4.INT8",
)
KV_FORMATS = ("INT8", "FP8_E4M3", "NVFP4")
CONTEXT = 512
WORKLOADS = (("gb10", 8, True), ("gb10", 64, False), ("h100", 64, False))
"""Chip, sequences of a decode step, and whether times are ideal. Below these batches launches cover the bytes."""


def main(arguments: Sequence[str]) -> int:
    """Run the check and print it as Markdown; returns 1 when fewer than four strategies were beaten on some chip."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a short training and few windows")
    parser.add_argument("--windows", type=int, default=160, help="windows of 128 bytes in each part (default 160)")
    given = parser.parse_args(arguments)
    count = 12 if given.quick else given.windows
    decoder = train_tiny_decoder(SHORT_RUN if given.quick else FULL_RUN)
    model, text = decoder.loaded.model, list(decoder.text.held_out)
    windows = text_windows(text, decoder.loaded.tokenizer, window_elems=128, max_tokens=None)
    for_losses, for_choice, for_report = windows.thinned(3 * count).parted(3)
    losses = measured_losses(model, for_losses.thinned(max(12, count // 3)), FORMATS, kv_formats=KV_FORMATS, wide=WIDE)
    print(f"{date.today()}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"{len(losses.values)} losses: {losses.source}; reported on {for_report.scored_count:,} others")
    is_enough = True
    for chip, batch, is_ideal in WORKLOADS:
        problem = _problem(chip, batch, losses, is_ideal=is_ideal)
        checks = check_strategies(
            model, problem, list_strategies(num_layers=TINY_DECODER.layers_count), for_choice, unseen=for_report
        )
        kind = "ideal" if is_ideal else "+".join(problem.problem.time_sources)
        print(f"\n{chip}, {kind} times, a decode step of {batch} sequences with {CONTEXT} tokens\n")
        print("\n".join(_table(checks)), end="\n\n")
        print("\n".join(_contents(problem, checks)))
        is_enough &= sum(check.is_beaten for check in checks) >= 4
    return 0 if is_enough else 1


def _problem(chip: str, batch: int, losses: LossTable, *, is_ideal: bool) -> ModelProblem:
    traffic = [traffic_share("decode", batch=batch, context=CONTEXT)]
    shape = TINY_DECODER.shape(WIDE)
    return model_problem(chip, shape, losses, traffic=traffic, kv_formats=KV_FORMATS, is_ideal=is_ideal, wide=WIDE)


def _table(checks: Sequence[StrategyCheck]) -> list[str]:
    rows = ["| strategy | time | KL | plan found | its KL | difference | faster by |", "|---|---|---|---|---|---|---|"]
    for check in checks:
        better = check.better_plan
        cells = [check.strategy, format_time(check.time_s), _figure(check.kl)]
        if better is None:
            cells += ["none", "", "", ""]
        else:
            faster = f"{100 * (1 - better.time_s / check.time_s):.0f} %"
            cells += [format_time(better.time_s), _figure(better.kl), _figure(better.kl_difference), faster]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _contents(problem: ModelProblem, checks: Sequence[StrategyCheck]) -> list[str]:
    """Return a line per found plan: how many groups of weights, and layers of the cache, got each format."""
    lines = []
    for check in checks:
        if check.better_plan is None:
            continue
        chosen = problem.choices(check.better_plan.plan)
        weights = Counter(label for name, label in chosen.items() if not name.endswith(".kv"))
        caches = Counter(label for name, label in chosen.items() if name.endswith(".kv"))
        lines.append(f"- found for {check.strategy}: weights {_counted(weights)}; cache {_counted(caches)}")
    return lines


def _counted(labels: Counter[str]) -> str:
    return ", ".join(f"{count} × {label}" for label, count in labels.most_common())


def _figure(estimate: object) -> str:
    return str(estimate).replace(" nats/token", "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
