"""Quantises the winner as it was measured, saves it with its tokenizer, and loads it again to compare to the last
bit.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import torch
from torch import Tensor, nn

from bench_cases.models.held_models import HeldModel, HeldModels
from bench_cases.models.model_cases import ModelCase
from bench_cases.models.model_step import ModelStep, make_step, step_ids, vocabulary_size
from bench_cases.models.step_quality import quality_text
from bench_cases.pipeline.facts import SavedModel
from bench_cases.pipeline.state import MODEL_FOLDER, PARTIAL_FOLDER
from bench_cases.quantization.saved.save_load import load_quantized, save_quantized
from bench_cases.quantization.saved.serving import serving_engines
from results.cases.case_result import CaseResult
from roofline_model.core.errors import InvalidValueError, UnsupportedError

SPARE_RATIO = 1.05
"""Bytes that a saved model takes on the disk over what it holds in memory, at most: names and headers."""


def save_winner(case: ModelCase, measured: CaseResult, folder: Path, device: str, text: str) -> SavedModel:
    """Write the quantised model to `folder`/model, whole or not at all, and return what was checked.

    Raises `InvalidValueError` when the disk has no room, `UnsupportedError` when the reloaded model computes something
    else. Other `OSError`s are left to the caller.
    """
    models = HeldModels()
    calibration = None
    if case.method == "AWQ":
        original = models.reference(case.model, device).loaded
        calibration = quality_text(
            original, vocabulary_size(original.model), device, Path(text) if text else None
        ).calibration
    held_model = models.of(case, device, calibration, has_original=False)
    assert held_model.result is not None, "a winner is a quantised model"
    vocabulary = vocabulary_size(held_model.loaded.model)
    _check_room(folder, held_model.held_bytes)
    ids = step_ids(case.batch_count, case.context_count, vocabulary, device)
    step = _step(held_model.loaded.model, case, ids)
    logits = step.fn()
    partial, target = folder / PARTIAL_FOLDER, folder / MODEL_FOLDER
    shutil.rmtree(partial, ignore_errors=True)
    try:
        _write(held_model, partial)
        reloaded = load_quantized(partial, device=device)
        is_equal = torch.equal(_step(reloaded, case, ids).fn(), logits)
        if not is_equal:
            raise UnsupportedError(
                f"the saved {case.precision} model computes other logits after reloading: it was not kept; please "
                "report this"
            )
        if target.exists():  # left by a run that was killed between naming and noting it
            shutil.rmtree(target)
        os.replace(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return SavedModel(
        precision=case.precision,
        folder=MODEL_FOLDER,
        saved_bytes=sum(file.stat().st_size for file in target.rglob("*") if file.is_file()),
        is_equal_after_reload=is_equal,
        is_as_measured=_is_as_measured(measured, held_model, step.check(logits)),
        summary=held_model.result.summary(),
        engines=tuple(
            (support.engine, support.answer, support.reason) for support in serving_engines(held_model.result)
        ),
    )


def _step(model: nn.Module, case: ModelCase, ids: Tensor) -> ModelStep:
    return make_step(model, ids, case.workload, case.kv)


def _write(held_model: HeldModel, partial: Path) -> None:
    assert held_model.result is not None, "a winner is a quantised model"
    try:
        save_quantized(held_model.loaded.model, partial, held_model.result, tokenizer=held_model.loaded.tokenizer)
    except InvalidValueError as error:
        raise InvalidValueError(
            f"the model cannot be written to {partial.parent}: {error} (free space if the disk is full, then give the "
            "same command again)"
        ) from None


def _is_as_measured(measured: CaseResult, held_model: HeldModel, check_error: float) -> bool | None:
    """Compare what identifies a model without its weights: bytes held, and the error of its pass in every digit."""
    measurement, figures = measured.lead.measurement, measured.model
    if measurement is None or measurement.max_error is None or figures is None or figures.held_bytes is None:
        return None
    return figures.held_bytes == held_model.held_bytes and measurement.max_error == check_error


def _check_room(folder: Path, size_bytes: int) -> None:
    free_bytes = shutil.disk_usage(folder).free
    if SPARE_RATIO * size_bytes > free_bytes:
        raise InvalidValueError(
            f"{folder} has {free_bytes / 1e9:.3g} GB free, the model takes {SPARE_RATIO * size_bytes / 1e9:.3g} GB: "
            "free space, then give the same command again"
        )
