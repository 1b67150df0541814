"""Write docs/theory/choices.md: the plan that `roofline recommend --model` takes on each chip, and what stands beside
it.

`python scripts/docs/make_choices.py` writes the file; `--check` writes nothing and exits 1 with one line when the
committed file is stale. The text depends on the model's constants only: chips, formats, fitted tables, published
losses.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs" / "theory" / "choices.md"

# The checkout this script stands in, whatever else is installed, and what stands beside it.
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from written_page import write_or_check  # noqa: E402

from roofline_model.core.answer import Option, Ranking  # noqa: E402
from roofline_model.recommend.model import recommend_model  # noqa: E402
from roofline_model.recommend.plan_formats import plan_name  # noqa: E402
from roofline_model.recommend.ranking import MAX_LOSS_PCT  # noqa: E402

CHIPS = (
    "gb10", "b200", "gb200", "b300", "h100-sxm", "h200-sxm", "a100-sxm-80gb", "l40s", "l4", "rtx-4090", "rtx-5090", "rtx-pro-6000",
    "orin-agx-64gb",
)  # fmt: skip
MODELS = ("llama-3.1-8b", "llama-3.1-70b", "qwen3-32b", "mixtral-8x7b", "gpt-oss-20b")
BATCHES = (1, 8, 64)
EARLIER_LOSS_PCT = 16.0
"""The limit of a published loss before the one of today: what it chose is what changed."""
INTRODUCTION = f"""\
# Default choices

What `roofline recommend --model MODEL --hw CHIP` takes at a context of 4,096 tokens, with the default limit of the loss
({MAX_LOSS_PCT:g} %, measured or published alike; [decision 9](../development/decisions/0009-loss-limit.md)). In brackets what is faster and loses
more. A dash: nothing within the limits. **Bold**: another plan than the earlier default, which let published losses up to
{EARLIER_LOSS_PCT:g} % pass. Written by `scripts/docs/make_choices.py` (`make choices`).
"""


def render() -> str:
    """Return the whole document."""
    changed_count = total_count = 0
    parts = []
    for model in MODELS:
        for phase in ("decode", "prefill"):
            lines = [
                f"## {model}, {phase}\n",
                f"| Chip | {' | '.join(f'batch {batch}' for batch in BATCHES)} |",
                f"|---|{'---|' * len(BATCHES)}",
            ]
            for chip in CHIPS:
                line, count = row(chip, model, phase)
                lines.append(line)
                changed_count += count
                total_count += len(BATCHES)
            parts.append("\n".join(lines) + "\n")
    summary = f"{changed_count} of {total_count} choices differ from the earlier default.\n"
    return "\n".join([INTRODUCTION, summary, *parts])


def row(chip: str, model: str, phase: str) -> tuple[str, int]:
    """Return a line of a table, one cell per batch, and how many of its choices the earlier default made otherwise."""
    cells = [_cell(chip, model, phase, batch) for batch in BATCHES]
    return f"| {chip} | {' | '.join(text for text, _ in cells)} |", sum(is_changed for _, is_changed in cells)


def _cell(chip: str, model: str, phase: str, batch: int) -> tuple[str, bool]:
    """Return the plan to take with what is faster for more loss, and whether the earlier default was another."""
    today = recommend_model(chip, model, phase=phase, batch=batch)
    earlier = recommend_model(chip, model, phase=phase, batch=batch, max_loss_pct=EARLIER_LOSS_PCT)
    is_changed = _key(today.choice) != _key(earlier.choice)
    taken = "–" if today.choice is None else plan_name(today.choice)
    riskier = _riskier(today)
    text = f"**{taken}**" if is_changed else taken
    return (f"{text} ({riskier})" if riskier else text), is_changed


def _key(option: Option | None) -> str:
    return "" if option is None else option.key


def _riskier(ranking: Ranking) -> str:
    return next((plan_name(each.option) for each in ranking.alternatives if each.role == "riskier"), "")


def main(arguments: Sequence[str] | None = None, target: Path = TARGET) -> int:
    """Write the document, or check it: see `write_or_check`."""
    return write_or_check(render, target, "make choices", __doc__, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
