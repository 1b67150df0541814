"""Facts of a pipeline's model and of each measured case, read from a run's export; plain values for the state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from results.cases.pooling import Pooled, Sighting, pool
from roofline_model.core.finding import Finding, code_text, from_stored, stored_form

DOUBTS = {
    "contended": "other work",
    "noisy": "a wide spread",
    "drift": "a drifting median",
    "few-samples": "few samples",
}
"""Flags of a measurement that put its time in doubt → in words; every other flag is told by its name."""
_SPREADS = {
    "kl": "kl_nats_per_token",
    "top1": "top1_agreement_ratio",
    "perplexity": "perplexity_ratio",
    "cosine": "embedding_cosine_ratio",
    "ranks": "rank_agreement_ratio",
    "nearest": "nearest_kept_ratio",
}
"""Figures of `MeasuredQuality` → their names in a stored record."""


@dataclass(frozen=True, slots=True)
class ProcessTime:
    """The time of one pass in one fresh process."""

    process: int
    median_s: float
    low_s: float | None
    """95 % interval of the median inside the process; None with too few samples."""
    high_s: float | None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PredictedTime:
    """A prediction stored with the measurement."""

    time_s: float
    low_s: float | None = None
    high_s: float | None = None
    host_s: float | None = None
    """The framework's own time in it; None where it is not part of the prediction."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure with its 95 % interval; None where the spread is not known."""

    value: float
    low_value: float | None
    high_value: float | None


@dataclass(frozen=True, slots=True)
class MeasuredQuality:
    """Loss against the 16-bit model on the same tokens."""

    source: str
    """measured, reference (the 16-bit model itself), or none."""
    reason: str = ""
    text: str = ""
    is_language: bool = False
    tokens_count: int | None = None
    kl: Spread | None = None
    """KL(16 bit ‖ quantised), nats per token."""
    top1: Spread | None = None
    perplexity: Spread | None = None
    """Quantised over original."""
    cosine: Spread | None = None
    """Of an encoder: mean cosine between both models' embeddings of a sentence."""
    ranks: Spread | None = None
    """Of an encoder: rank agreement of the similarities of all pairs of sentences."""
    nearest: Spread | None = None
    """Of an encoder: share of the sentences whose most similar other one stays the same."""

    @property
    def loss_pct(self) -> Spread | None:
        """Rise of the perplexity in percent; None where nothing was measured.

        On text it is the measured ratio. On random tokens, where perplexity means nothing, it is exp(KL) − 1: the rise
        on text that the 16-bit model writes itself, for there cross-entropy exceeds entropy by exactly KL. An encoder
        has no perplexity: of it, the part of the rank agreement of similarities that is lost.
        """
        if self.ranks is not None:
            low, high = (
                None if end is None else 100 * (1 - end) for end in (self.ranks.high_value, self.ranks.low_value)
            )
            return Spread(100 * (1 - self.ranks.value), low, high)
        perplexity = self.perplexity if self.is_language else self.kl
        if perplexity is None:
            return None
        ends = (perplexity.low_value, perplexity.high_value)
        if self.is_language:
            low, high = (None if end is None else 100 * (end - 1) for end in ends)
            return Spread(100 * (perplexity.value - 1), low, high)
        low, high = (None if end is None else 100 * math.expm1(end) for end in ends)
        return Spread(100 * math.expm1(perplexity.value), low, high)


@dataclass(frozen=True, slots=True)
class MeasuredCase:
    """One precision of the model: measured in one or more processes, or why it was not."""

    precision: str
    status: str
    """measured, skipped, failed."""
    reason: str = ""
    times: tuple[ProcessTime, ...] = ()
    ideal: PredictedTime | None = None
    expected: PredictedTime | None = None
    held_bytes: int | None = None
    original_bytes: int | None = None
    cache_bytes: int | None = None
    peak_bytes: int | None = None
    tokens_per_call: int = 1
    quality: MeasuredQuality = field(default_factory=lambda: MeasuredQuality("none"))
    method: str = ""
    kernels: tuple[str, ...] = ()
    layers: tuple[tuple[str, int], ...] = ()
    """What the Linears became → how many."""
    fallbacks: tuple[Finding, ...] = ()
    """Why layers did not become what was asked."""
    is_emulated: bool = False
    check_error: float | None = None
    """Relative error of the pass against the whole sequence at once: the same weights give the same digits."""
    issue_s: float | None = None
    """What the host takes to issue one pass, where the time is the GPU's alone."""

    @property
    def is_measured(self) -> bool:
        """Whether there is a time."""
        return self.status == "measured" and bool(self.times)

    @property
    def pooled(self) -> Pooled | None:
        """The time over the processes."""
        return pool(Sighting(("", place), time.median_s, time.flags) for place, time in enumerate(self.times))

    @property
    def median_s(self) -> float | None:
        """Pooled time, seconds."""
        return None if self.pooled is None else self.pooled.value

    @property
    def flags(self) -> tuple[str, ...]:
        """Of the processes used, and what makes it not judgeable."""
        return () if self.pooled is None else tuple(dict.fromkeys((*self.pooled.flags, *self.pooled.disturbed_by)))

    @property
    def resident_bytes(self) -> int | None:
        """Weights and cache."""
        return None if self.held_bytes is None else self.held_bytes + (self.cache_bytes or 0)

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens computed in a second."""
        return self.tokens_per_call / self.median_s if self.median_s else None

    def plain(self) -> dict[str, Any]:
        """Return JSON values that `case_from_plain` reads again."""
        return {**asdict(self), "fallbacks": list(map(stored_form, self.fallbacks))}


def cases_of_export(document: Mapping[str, Any], precisions: tuple[str, ...]) -> dict[str, MeasuredCase]:
    """Return the cases of an export by precision; a precision without records counts as failed.

    Raises `KeyError`, `TypeError` or `ValueError` for a document of another form.
    """
    cases: dict[str, list[Mapping[str, Any]]] = {precision: [] for precision in precisions}
    for record in document["records"]:
        precision = ((record.get("extra") or {}).get("model") or {}).get("precision")
        if precision in cases:
            cases[precision].append(record)
    return {precision: _case(precision, records) for precision, records in cases.items()}


def case_from_plain(data: Mapping[str, Any]) -> MeasuredCase:
    """Return the case that `plain` wrote; raises `KeyError` or `TypeError` for anything else."""
    values = dict(data)
    values["times"] = tuple(ProcessTime(**{**time, "flags": tuple(time["flags"])}) for time in values["times"])
    for name in ("ideal", "expected"):
        values[name] = None if values[name] is None else PredictedTime(**values[name])
    quality = dict(values["quality"])
    for name in _SPREADS:
        quality[name] = None if quality[name] is None else Spread(**quality[name])
    values["quality"] = MeasuredQuality(**quality)
    values["layers"] = tuple((name, count) for name, count in values["layers"])
    values["kernels"] = tuple(values["kernels"])
    values["fallbacks"] = tuple(map(from_stored, values["fallbacks"]))
    return MeasuredCase(**values)


def quality_plain(quality: MeasuredQuality) -> dict[str, dict[str, float | None] | None]:
    """Return the figures under the names that stored records give them, those that were measured."""
    spreads = {key: getattr(quality, name) for name, key in _SPREADS.items()}
    return {key: spread_plain(spread) for key, spread in spreads.items() if spread is not None}


def spread_plain(spread: Spread | None) -> dict[str, float | None] | None:
    """Return a figure as reports hold it."""
    return None if spread is None else {"value": spread.value, "low": spread.low_value, "high": spread.high_value}


def _case(precision: str, records: list[Mapping[str, Any]]) -> MeasuredCase:
    measured = [record for record in records if record["status"] == "measured" and record.get("measurement")]
    if not measured:
        if not records:
            return MeasuredCase(precision, "failed", "not reached")
        worst = next((record for record in records if record["status"] == "failed"), records[0])
        status = "failed" if worst["status"] == "failed" else "skipped"
        return MeasuredCase(precision, status, " ".join(str(worst.get("reason") or "no reason stored").split()))
    first = measured[0]
    extra = first["extra"]
    model, memory = extra["model"], extra.get("memory") or {}
    predictions = {prediction["kind"]: prediction for prediction in first.get("predictions") or ()}
    return MeasuredCase(
        precision,
        "measured",
        times=tuple(_time(record, index) for index, record in enumerate(measured)),
        ideal=_prediction(predictions.get("ideal")),
        expected=_expected(measured),
        held_bytes=memory.get("held_bytes"),
        original_bytes=memory.get("original_bytes"),
        cache_bytes=memory.get("cache_bytes"),
        peak_bytes=memory.get("peak_bytes"),
        tokens_per_call=int(extra.get("tokens_per_call") or 1),
        quality=_quality(extra.get("quality") or {}),
        method=model.get("method") or "",
        kernels=tuple(model.get("kernels") or ()),
        layers=tuple((model.get("layers") or {}).items()),
        fallbacks=tuple(map(from_stored, model.get("fallbacks") or ())),
        is_emulated=bool(model.get("is_emulated")),
        check_error=first["measurement"].get("max_error"),
        issue_s=extra.get("issue_s"),
    )


def _time(record: Mapping[str, Any], index: int) -> ProcessTime:
    measurement = record["measurement"]
    ordinal = (record.get("process") or {}).get("ordinal")
    return ProcessTime(
        index if ordinal is None else int(ordinal),
        float(measurement["median_s"]),
        measurement.get("ci_low_s"),
        measurement.get("ci_high_s"),
        tuple(measurement.get("flags") or ()),
    )


def _prediction(data: Mapping[str, Any] | None) -> PredictedTime | None:
    if data is None:
        return None
    return PredictedTime(
        float(data["time_s"]), data.get("low_s"), data.get("high_s"), (data.get("terms_s") or {}).get("host")
    )


def _expected(records: list[Mapping[str, Any]]) -> PredictedTime | None:
    """Return the shortest of the processes' expected times: each measures the framework's own time anew, and other work
    only adds.
    """
    predicted = [
        prediction
        for record in records
        for prediction_document in record.get("predictions") or ()
        if prediction_document["kind"] == "expected" and (prediction := _prediction(prediction_document)) is not None
    ]
    return min(predicted, key=lambda predicted_time: predicted_time.time_s) if predicted else None


def _quality(data: Mapping[str, Any]) -> MeasuredQuality:
    spreads: dict[str, Any] = {name: _spread(data.get(key)) for name, key in _SPREADS.items()}
    return MeasuredQuality(
        source=str(data.get("source") or "none"),
        reason=code_text(str(data.get("reason") or "")),
        text=str(data.get("text") or ""),
        is_language=data.get("is_language") is True,
        tokens_count=data.get("tokens_count"),
        **spreads,
    )


def _spread(data: Mapping[str, Any] | None) -> Spread | None:
    return None if not data else Spread(float(data["value"]), data.get("low"), data.get("high"))


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
