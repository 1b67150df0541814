"""The explorer's three kinds of questions: what each predicts in a pair of formats, and what its ranking takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from reports.api.catalog.chip_lookup import find_chip, find_model
from reports.api.explorer.address import MOST_FORMATS, Address, listed
from reports.api.http.problem import ProblemError
from reports.api.predict.attention import AttentionRecommendRequest, asked_attention, cache_recommendation
from reports.api.predict.product import AnalyzeRequest, RecommendRequest, recommendation
from reports.api.predict.whole_model import (
    ModelPredictRequest,
    ModelRecommendRequest,
    model_recommendation,
    pass_of,
)
from reports.present.answers.caches import AttentionRecommendation
from reports.present.answers.models import ModelRecommendation
from reports.present.answers.products import Recommendation
from reports.present.predicted.advice import ShortAnswer
from reports.present.predicted.row import Row
from reports.present.predicted.words import plan_text
from roofline_model.chips.hardware import Device
from roofline_model.core.errors import RooflineError, UnsupportedError
from roofline_model.formats.catalog import Pair, attention_name, format_name, format_pair, pair_label
from roofline_model.models.chip_and_model import wide_format
from roofline_model.predictions.attention import predict_attention
from roofline_model.predictions.product import Shape, predict_product
from roofline_model.recommend.options import baseline_format
from roofline_model.recommend.plan_formats import plan_name

Advice = Recommendation | AttentionRecommendation | ModelRecommendation
USUAL_FORMATS = ("FP16", "BF16", "FP8_E4M3", "INT8.INT8", "NVFP4", "MXFP4")
FIRST_FORMATS = ("FP8_E4M3", "INT8.INT8", "NVFP4")
"""Shown beside 16 bits and weight-only INT4 where the address names none."""


@dataclass(frozen=True)
class ChipAnswer:
    """What one chip answers: a row per format it computes in, what to take, and why not what is not there."""

    chip: Device | None
    name: str
    """Of the chip; of one that nobody knows as it was asked."""
    rows: tuple[Row, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    """Format → why there is no prediction."""
    advice: Advice | None = None
    best: Row | None = None
    """What its ranking says to take; among the `rows`. None: it takes none, or there is no ranking."""
    is_best_added: bool = False
    """Whether that is none of the formats asked about."""
    misfit: str = ""
    """Why nothing is recommended, where the ranking says it."""
    problem: ProblemError | RooflineError | None = None
    """What was wrong with the question, or with the ranking's."""

    @property
    def short(self) -> ShortAnswer | None:
        """The first lines of the ranking."""
        return None if self.advice is None else self.advice.short_answer

    def focus(self, key: str) -> Row | None:
        """Return the row that the page is about: the reader's choice, else the one to take, else the first that can
        run.
        """
        chosen = (row for row in self.rows if row.key == key)
        possible = (row for row in self.rows if row.is_possible)
        return next(chosen, self.best or next(possible, self.rows[0] if self.rows else None))


class Question:
    """What the address asks, of any chip. Raises `ProblemError` naming inputs that are wrong."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._predicted: Callable[[Device, str, Pair], Row]
        self._advised: Callable[[str], Advice]
        self.shape: Shape | None = None
        """M, N, K of a product."""
        self.title: str
        {"product": self._product, "attention": self._attention, "model": self._model}[address.operator]()

    def _product(self) -> None:
        address = self.address
        body = address.body(AnalyzeRequest, ("M", "N", "K", "cache"))
        limits = address.body(RecommendRequest, ("M", "N", "K", "memory_limit_gb", "model_parameters", "max_loss_pct"))
        shape = (body.M, body.N, body.K)
        op = "GEMV" if body.M <= 16 else "GEMM"
        self.title = f"{op} {body.M:,} × {body.N:,} × {body.K:,}"
        self.shape = shape
        self._predicted = lambda chip, _, pair: Row.of(predict_product(chip, shape, pair, cache=body.cache), chip, pair)
        self._advised = lambda handle: recommendation(
            handle, shape, None, limits.memory_limit_gb, limits.model_parameters, None, limits.max_loss_pct
        )

    def _attention(self) -> None:
        body = self.address.body(
            AttentionRecommendRequest,
            ("B", "Hq", "Hkv", "Sq", "Skv", "D", "window"),
            causal=self.address.causal == "yes",
        )
        asked = asked_attention(body)
        self.title = f"Attention, {asked.Sq:,} new of {asked.Skv:,} tokens, {asked.Hq}/{asked.Hkv} heads of {asked.D}"
        self._predicted = lambda chip, _, pair: Row.of(predict_attention(chip, asked, pair), chip, pair)
        self._advised = lambda handle: cache_recommendation(
            handle, asked, baseline_format(find_chip(handle)) or "FP16", None
        )

    def _model(self) -> None:
        address = self.address
        name = find_model(address.model).name
        sizes = ("batch_count", "context_tokens", "phase")
        body = address.body(ModelPredictRequest, sizes)
        limited = address.body(ModelRecommendRequest, (*sizes, "memory_limit_gb", "max_loss_pct"))
        context = body.context_tokens or min(4096, find_model(name).max_context_size)
        self.title = f"{name}, {body.phase} of {body.batch_count:,} × {context:,} tokens"
        self._predicted = lambda chip, handle, pair: Row(
            pass_of(name, handle, body.model_copy(update={"formats": pair_label(pair)})),
            chip,
            pair_label(pair),
            format_name(*(each.key for each in pair)),
        )
        self._advised = lambda handle: model_recommendation(name, handle, limited)

    def base(self, chip: Device) -> str:
        """Return the 16-bit format that the answers of a chip refer to."""
        if self.address.operator != "model":
            return baseline_format(chip) or "FP16"
        try:
            return wide_format(find_model(self.address.model), chip)
        except UnsupportedError:
            return "FP16"

    def formats(self, chip: Device) -> tuple[str, ...]:
        """Return the formats of the address, else the usual ones of the chip."""
        base = self.base(chip)
        chosen = listed(self.address.formats, MOST_FORMATS) or (base, *FIRST_FORMATS, f"INT4.{base}")
        return tuple(dict.fromkeys(map(canonical, chosen)))

    @cached_property
    def label(self) -> Callable[[str, str], str]:
        """Return what people call a pair of formats here."""
        return attention_name if self.address.operator == "attention" else format_name

    def format_label(self, text: str) -> str:
        """Return what people call formats as the address has them; of one that nobody knows its text."""
        try:
            weight, activation = format_pair(text)
        except RooflineError:
            return text
        return self.label(weight.key, activation.key)

    def ask(self, handle: str) -> ChipAnswer:
        """Return what a chip answers; `handle`: of `find_chip`."""
        chip = find_chip(handle)
        rows: list[Row] = []
        refused = []
        for text in self.formats(chip):
            try:
                rows.append(self._predicted(chip, handle, format_pair(text)))
            except RooflineError as error:
                refused.append((self.format_label(text), str(error)))
        try:
            advice = self._advised(handle)
        except (RooflineError, ProblemError) as error:
            return ChipAnswer(chip, chip.name, tuple(rows), tuple(refused), problem=error)
        best, misfit = self._best(chip, handle, advice)
        shown = next((row for row in rows if best is not None and row.key == best.key), None)
        is_added = best is not None and shown is None
        if best is not None and shown is None:
            rows.append(best)
        return ChipAnswer(
            chip, chip.name, tuple(rows), tuple(refused), advice, shown or best, is_best_added=is_added, misfit=misfit
        )

    def _best(self, chip: Device, handle: str, advice: Advice) -> tuple[Row | None, str]:
        """Return the row of what the ranking takes, or why it takes nothing. Nothing here ranks."""
        if isinstance(advice, ModelRecommendation):
            plan = advice.ranking.choice
            if plan is None or advice.prediction is None:
                return None, advice.summary
            key = canonical(plan.key if plan.kind == "baseline" else plan_text(plan.parts))
            return Row(advice.prediction, chip, key, plan_name(plan)), ""
        if isinstance(advice, Recommendation):
            if advice.fits_memory_limit is False:
                return None, advice.summary
            pair = advice.best.option.weight_format, advice.best.option.activation_format
        else:
            pair = advice.best.option.key, advice.activation_format
        return self._predicted(chip, handle, format_pair(".".join(pair))), ""


def canonical(text: str) -> str:
    """Return formats as the rest of the page names them; those that nobody knows as they are."""
    try:
        return pair_label(format_pair(text))
    except RooflineError:
        return text
