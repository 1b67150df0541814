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

from roofline_model.core.answer import Ranking  # noqa: E402
from roofline_model.recommend.model import recommend_model  # noqa: E402
from roofline_model.recommend.plan_formats import plan_name  # noqa: E402
from roofline_model.recommend.ranking import MAX_LOSS_PCT  # noqa: E402

CHIPS = (
    "gb10", "b200", "gb200", "b300", "h100-sxm", "h200-sxm", "a100-sxm-80gb", "l40s", "l4", "rtx-4090", "rtx-5090", "rtx-pro-6000",
    "orin-agx-64gb",
)  # fmt: skip
MODELS = ("llama-3.1-8b", "llama-3.1-70b", "qwen3-32b", "mixtral-8x7b", "gpt-oss-20b")
BATCHES = (1, 8, 64)
INTRODUCTION = f"""\
# Default choices

What `roofline recommend --model MODEL --hw CHIP` takes at a context of 4,096 tokens, with the default limit of the loss
({MAX_LOSS_PCT:g} %, measured or published alike; [decision 9](../development/decisions/0009-loss-limit.md)). In brackets what is faster and loses
more. A dash: nothing within the limits. Written by `scripts/docs/make_choices.py` (`make choices`).
"""


def render() -> str:
    """Return the whole document."""
    parts = [INTRODUCTION]
    for model in MODELS:
        for phase in ("decode", "prefill"):
            head = f"| Chip | {' | '.join(f'batch {batch}' for batch in BATCHES)} |\n|---|{'---|' * len(BATCHES)}\n"
            parts.append(f"## {model}, {phase}\n\n{head}{''.join(row(chip, model, phase) for chip in CHIPS)}")
    return "\n".join(parts)


def row(chip: str, model: str, phase: str) -> str:
    """Return a line of a table: per batch the plan to take, with what is faster for more loss."""
    return f"| {chip} | {' | '.join(_cell(chip, model, phase, batch) for batch in BATCHES)} |\n"


def _cell(chip: str, model: str, phase: str, batch: int) -> str:
    ranking = recommend_model(chip, model, phase=phase, batch=batch)
    taken = "–" if ranking.choice is None else plan_name(ranking.choice)
    riskier = _riskier(ranking)
    return f"{taken} ({riskier})" if riskier else taken


def _riskier(ranking: Ranking) -> str:
    return next((plan_name(each.option) for each in ranking.alternatives if each.role == "riskier"), "")


def main(arguments: Sequence[str] | None = None, target: Path = TARGET) -> int:
    """Write the document, or check it: see `write_or_check`."""
    return write_or_check(render, target, "make choices", __doc__, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
