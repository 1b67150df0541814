"""The first look at a model: does it load, has it Linears to quantise, are its weights numbers."""

from __future__ import annotations

import gc

import torch

from bench_cases.dtypes import DTYPES
from bench_cases.models.host_time import host_time, loaded_reference
from bench_cases.models.model_cases import ModelCase
from bench_cases.models.model_step import vocabulary_size
from bench_cases.models.reference import ModelReference, find_model
from bench_cases.models.sources import LoadedModel, load_model
from bench_cases.pipeline.facts import ModelFacts
from bench_cases.quantization.held_bytes import model_bytes
from bench_cases.quantization.survey import find_non_finite, survey_linears
from roofline_model.chips.free_memory import free_device_bytes, free_system_bytes
from roofline_model.chips.hardware import Device
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import reason_text
from roofline_model.formats.catalog import get_format
from roofline_model.models.hf.parameters import parameter_counts
from roofline_model.models.model_pass import HostTime, ModelPass


class OpenedModel:
    """The model in memory, loaded when it is first asked for, and given back before anything is measured."""

    def __init__(self, text: str, device: str) -> None:
        self._text, self._device = text, device
        self._loaded: LoadedModel | None = None

    def facts(self) -> ModelFacts:
        """Return the facts of the model. Raises a `RooflineError` for one that does not load or cannot be quantised."""
        loaded = self._model()
        sites = survey_linears(loaded.model)
        find_non_finite(sites)
        vocabulary_size(loaded.model)
        if all(site.obstacle for site in sites):
            raise UnsupportedError(
                f"{loaded.name}: no Linear can be quantised ({reason_text(sites[0].obstacle)}); give the 16-bit model"
            )
        return ModelFacts(
            find_model(self._text).name,
            loaded.source,
            type(loaded.model).__name__,
            loaded.parameters_count,
            len(sites),
            model_bytes(loaded.model),
            loaded.tokenizer is not None,
        )

    def reference(self) -> ModelReference:
        """Return the reference for predictions; a model downloaded just now has one through its configuration."""
        return loaded_reference(find_model(self._text), self._model().model)

    def host_time(self, case: ModelCase, work: ModelPass, chip: Device) -> HostTime | None:
        """Return the framework's own time in one pass of a case; None where it is not part of the time."""
        return host_time(self._model().model, case, work, chip)

    def close(self) -> None:
        """Give the memory back: what is measured next needs it."""
        self._loaded = None
        gc.collect()

    def _model(self) -> LoadedModel:
        if self._loaded is None:
            model = find_model(self._text)
            _check_room(model, self._device)
            self._loaded = load_model(self._text, dtype=DTYPES.get(model.wide, torch.bfloat16), device=self._device)
        return self._loaded


def _check_room(model: ModelReference, device: str) -> None:
    """Raise `UnsupportedError` where a model of known shape does not fit into the memory that is free."""
    if model.shape is None:
        return
    free_bytes = free_device_bytes(torch.cuda) if device == "cuda" else free_system_bytes()
    needed_bytes = parameter_counts(model.shape).total_count * get_format(model.wide).traffic_bytes_per_element
    if free_bytes is not None and needed_bytes > free_bytes:
        raise UnsupportedError(
            f"{model.name} needs {needed_bytes / 1e9:.3g} GB to be loaded, {free_bytes / 1e9:.3g} GB are free; take a "
            "smaller model"
        )
