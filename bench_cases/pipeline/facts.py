"""What a pipeline stores of its model and of the winner that it saved; plain values for the state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from roofline_model.core.finding import Finding, from_stored, stored_form


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts of a loaded model that a pipeline needs."""

    name: str
    source: str
    """seeded, folder or hub."""
    class_name: str
    parameters_count: int
    linears_count: int
    model_bytes: int
    has_tokenizer: bool

    @property
    def is_seeded(self) -> bool:
        """Whether its weights are untrained."""
        return self.source == "seeded"

    def plain(self) -> dict[str, Any]:
        """Return JSON values that `facts_from_plain` reads again."""
        return asdict(self)


def facts_from_plain(data: Mapping[str, Any]) -> ModelFacts:
    """Return the facts that `plain` wrote; raises `TypeError` for anything else."""
    return ModelFacts(**data)


@dataclass(frozen=True, slots=True)
class SavedModel:
    """The winner on the disk."""

    folder: str
    """Its name inside the pipeline's folder."""
    saved_bytes: int
    is_equal_after_reload: bool
    """Whether the reloaded model's logits of the measured pass are equal to the last bit."""
    is_as_measured: bool | None
    """Whether its pass and its bytes are those of the measured model, digit by digit; None: too little was stored to
    tell.
    """
    summary: str
    engines: tuple[tuple[str, str, Finding], ...]
    """(engine, yes / no / unverified, why) of those that may serve it."""

    def plain(self) -> dict[str, Any]:
        """Return JSON values that `saved_from_plain` reads again."""
        engines = [[engine, answer, stored_form(reason)] for engine, answer, reason in self.engines]
        return {**asdict(self), "engines": engines}


def saved_from_plain(data: Mapping[str, Any]) -> SavedModel:
    """Return the saved model that `plain` wrote; raises `KeyError` or `TypeError` for anything else."""
    engines = tuple((engine, answer, from_stored(reason)) for engine, answer, reason in data["engines"])
    return SavedModel(**{**data, "engines": engines})
