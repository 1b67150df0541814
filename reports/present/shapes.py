"""A verdict on a shape in words that are fit to be shown."""

from __future__ import annotations

from reports.present.cases import option_label
from reports.present.display_text import shown
from reports.present.words.verdict_text import verdict_text
from results.cases.shape_verdict import ShapeVerdict
from roofline_model.operators.case import sizes_text

VERDICT_CHARACTERS = 500
"""A verdict holds up to four names of 60 characters; what is longer came from hostile labels."""


def shape_judgement(judged: ShapeVerdict) -> str:
    """Return the line on a shape, the same on every surface."""
    return shown(verdict_text(judged), VERDICT_CHARACTERS)


def shape_sentence(judged: ShapeVerdict) -> str:
    """Return the title and the line."""
    return f"{shape_title(judged)}: {shape_judgement(judged)}"


def shape_title(judged: ShapeVerdict) -> str:
    """Return `1x4096x4096`; warm cache, other modes and other operators than products are named."""
    model = judged.model
    words = [] if judged.question.op in ("gemv", "gemm") else [shown(judged.question.op, 60)]
    words = [*words, shown(sizes_text(judged.question.sizes), 60)] if model is None else [shown(model.title, 140)]
    # Passes of a model follow each other on the same weights: warm is the only state they have.
    unnamed = ("cold", "none") if model is None else ("cold", "none", "warm")
    words += [] if judged.question.cache in unnamed else [judged.question.cache]
    words += [] if judged.question.mode == "eager" else [shown(judged.question.mode, 30)]
    return " ".join(words)


def shape_operator(judged: ShapeVerdict) -> str:
    """Return the operator in words: `gemv`, `seeded-llama-156m decode`."""
    model = judged.model
    return (
        shown(judged.question.op, 60)
        if model is None or not judged.options
        else shown(f"{model.model_name} {model.phase}", 80)
    )


def standing_text(judged: ShapeVerdict) -> str:
    """Return the place of the best among all: `fastest`, `fastest, tied with INT8 (W8A8) · int_mm and 2 more`; empty
    where nothing competes.
    """
    if judged.best is None or not judged.is_contest:
        return ""
    return ", ".join(filter(None, ("fastest", tie_text(judged))))


def tie_text(judged: ShapeVerdict) -> str:
    """Return what the intervals leave open: `tied with INT8 (W8A8) · int_mm and 2 more`; empty where they name a best.
    The first name is the one that the verdict gives.
    """
    if judged.is_clear:
        return ""
    named = judged.level_with or next(iter(judged.leaders[1:]), None)
    if named is None:  # only expected: further behind than what is tied, inside the interval
        return "by less than its interval"
    more = len(judged.leaders) - 2
    return f"tied with {option_label(named)}{f' and {more} more' if more > 0 else ''}"
