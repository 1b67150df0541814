"""What a pipeline stores of its model and of the winner that it saved."""

from __future__ import annotations

from dataclasses import dataclass

from roofline_model.core.finding import Finding


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


@dataclass(frozen=True, slots=True)
class SavedModel:
    """The winner on the disk."""

    precision: str
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
