"""Quality loss of a case's quantised model against its 16-bit original: plain values for the stored record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_cases.models.held_models import HeldModel
from bench_cases.models.model_step import predicts_tokens
from bench_cases.models.sources import LoadedModel
from bench_cases.quality.embedding_quality import compare_embeddings
from bench_cases.quality.model_quality import compare_models, window_logits
from bench_cases.quality.texts.estimates import Estimate
from bench_cases.quality.texts.python_help import tiny_text
from bench_cases.quality.texts.token_windows import TextWindows, read_text, synthetic_windows, text_windows
from roofline_model.core.errors import RooflineError, UnsupportedError

WINDOW_ELEMS = 128
WINDOWS_COUNT = {"cpu": 8, "cuda": 64}
"""Windows that are scored, and as many others that an activation-aware method may look at."""
LARGE_PARAMETERS_COUNT = 1_500_000_000
LARGE_WINDOWS_COUNT = {"cpu": 2, "cuda": 32}
"""The same for larger models: a CPU needs a minute for a thousand tokens of 7 B."""


SENTENCE_ELEMS = 32
SENTENCES_COUNT = 64
"""Of an encoder: its embeddings are of short texts, and their order of likeness needs many."""


@dataclass(frozen=True, slots=True)
class QualityText:
    """The tokens quality is measured on, other tokens to calibrate with, and where both are from."""

    windows: TextWindows
    calibration: TextWindows
    source: str
    is_language: bool
    """False: random tokens, because the model has no tokenizer; its figures say nothing about language."""


def quality_text(loaded: LoadedModel, vocabulary: int, device: str, text_path: Path | None) -> QualityText:
    """Return the tokens for a model: of the given file, else of Python's help, else random ones.

    Every other window of a file is for calibration, none for both. Raises `InvalidValueError` for a file that is too
    short.
    """
    device_kind = "cuda" if device.startswith("cuda") else "cpu"
    large = loaded.parameters_count > LARGE_PARAMETERS_COUNT
    count, width = (LARGE_WINDOWS_COUNT if large else WINDOWS_COUNT)[device_kind], WINDOW_ELEMS
    if not predicts_tokens(loaded.model):
        count, width = SENTENCES_COUNT, SENTENCE_ELEMS
    if loaded.tokenizer is None:
        if text_path is not None:
            raise UnsupportedError(
                f"--roofline-text: {loaded.name} has no tokenizer, no text can be read with it; leave the option out"
            )
        windows = synthetic_windows(vocabulary, windows_count=count, window_elems=width // 2)
        calibration = synthetic_windows(vocabulary, windows_count=count, window_elems=width // 2, seed=1)
        return QualityText(windows, calibration, "random tokens", is_language=False)
    if text_path is not None:
        every = text_windows(read_text(text_path), loaded.tokenizer, window_elems=width)
        measured, learned = _every_other(every, 0), _every_other(every, 1)
        return QualityText(measured.thinned(count), learned.thinned(count), text_path.name, is_language=True)
    text = tiny_text()
    measured = text_windows(text.held_out, loaded.tokenizer, window_elems=width)
    learned = text_windows(text.training, loaded.tokenizer, window_elems=width)
    return QualityText(measured.thinned(count), learned.thinned(count), text.source, is_language=True)


def measured_quality(
    original: HeldModel, quantized: HeldModel, text: QualityText, make_cache: Callable[[], Any] | None = None
) -> dict[str, Any]:
    """Return the figures of a quantised model, or of a narrow cache on the original: see docs/reference/torchao.md for
    the keys."""
    if not predicts_tokens(original.loaded.model):
        return _encoder_quality(original.loaded, quantized.loaded, text)
    if original.logits is None:
        original.logits = window_logits(original.loaded.model, text.windows)
    quality = compare_models(
        original.loaded.model,
        quantized.loaded.model,
        text.windows,
        quantized_cache=make_cache,
        reference_logits=original.logits,
    )
    return {
        "source": "measured",
        "text": text.source,
        "is_language": text.is_language,
        "tokens_count": quality.tokens_count,
        "kl_nats_per_token": _plain(quality.kl),
        "top1_agreement_ratio": _plain(quality.top1_agreement),
        "perplexity_ratio": _plain(quality.perplexity_ratio),
        "reference_perplexity": _plain(quality.reference_perplexity),
    }


def _encoder_quality(reference: LoadedModel, quantized: LoadedModel, text: QualityText) -> dict[str, Any]:
    quality = compare_embeddings(reference.model, quantized.model, text.windows)
    return {
        "source": "measured",
        "text": text.source,
        "is_language": text.is_language,
        "tokens_count": quality.tokens_count,
        "sentences_count": quality.sentences_count,
        "embedding_cosine_ratio": _plain(quality.cosine),
        "rank_agreement_ratio": _plain(quality.rank_agreement),
        "nearest_kept_ratio": _plain(quality.nearest_kept),
    }


def quality_or_reason(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the figures, or why there are none: a time without them is still worth storing."""
    try:
        return measure()
    except RooflineError as error:
        return {"source": "none", "reason": str(error)}


def _every_other(windows: TextWindows, first: int) -> TextWindows:
    picked = list(range(first, windows.windows_count, 2)) or [0]
    return TextWindows(
        windows.ids[picked], tuple(windows.documents[index] for index in picked), windows.dropped_tokens_count
    )


def _plain(estimate: Estimate) -> dict[str, Any]:
    return {"value": estimate.value, "low": estimate.low_value, "high": estimate.high_value}
