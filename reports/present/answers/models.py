"""A recommendation for a whole model as an answer: what `--json` and the API give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from reports.present.answers.options import PREDICTED, PlacedOption, findings_once, placed
from reports.present.encoder import Keys, null_if_empty
from reports.present.predicted.advice import RankingOn, ShortAnswer, model_answer
from reports.present.predicted.words import Asked, execution_text, place_reason, plan_text, quality_note, with_names
from roofline_model.chips.hardware import Device
from roofline_model.core.answer import Alternative, Exclusion, is_comparable
from roofline_model.core.finding import Finding, findings_text, short_text
from roofline_model.predictions.model import PassPrediction, pass_prediction
from roofline_model.recommend.loss import loss_text
from roofline_model.recommend.model import ModelRanking
from roofline_model.recommend.plan_formats import plan_name
from roofline_model.recommend.plan_options import PlanOption
from roofline_model.recommend.ranking import alternative_finding, excess_ratio
from roofline_model.recommend.search.front import FormatAssignment
from roofline_model.recommend.search.plan_search import FormatSearch

LIMITS = {
    "misses-memory-limit": "memory",
    "misses-time-limit": "latency",
    "misses-loss-limit": "quality",
}
"""Code of a missed limit → its name in JSON."""


def _loss_words(each: PlacedOption) -> str:
    """Return the loss in words."""
    return loss_text(each.option.loss)


def _loss_note(each: PlacedOption) -> str:
    """Return what to know about that number; null where there is nothing."""
    return quality_note(each.option)


class PlanQuality:
    """What is known of a plan's loss, and from where."""

    JSON_OF = PlacedOption
    JSON_KEYS: ClassVar[Keys] = {
        "source": "option.loss.source",
        "text": _loss_words,
        "loss_pct": "option.loss.pct",
        "loss_value": "option.loss.value",
        "loss_unit": ("option.loss.unit", null_if_empty),
        "at_least_pct": "option.loss.at_least_pct",
        "note": (_loss_note, null_if_empty),
    }


def _plan_option(each: PlacedOption) -> PlanOption:
    assert isinstance(each.option, PlanOption)  # of a model's ranking
    return each.option


def _path(each: PlacedOption) -> str:
    """Return how the chip runs the plan."""
    return execution_text(_plan_option(each).execution)


def _reason(each: PlacedOption) -> str:
    """Return why it stands where it stands."""
    return place_reason(each.option)


def _name(each: PlacedOption) -> str:
    """Return what people call its formats: `INT4 (W4A16)`; of a mixed plan its key."""
    return plan_name(each.option)


def _kind(each: PlacedOption) -> str:
    """Return baseline, published, uniform, strategy or search."""
    return _plan_option(each).kind


def _formats(each: PlacedOption) -> str:
    """Return the plan in a line: `INT4.BF16; cache FP8_E4M3`."""
    return plan_text(_plan_option(each).parts)


def _is_speedup_ideal(each: PlacedOption) -> bool:
    """Return whether speedup_ratio is of the ideals, as the times cannot be compared."""
    baseline = each.ranking.baseline
    return baseline is not None and not is_comparable(each.option.estimate.source, baseline.estimate.source)


def _itself(each: PlacedOption) -> PlacedOption:
    """Return what is known of its loss."""
    return each


class ModelPlan:
    """One plan for the weights, activations and cache of a model; its times are of a pass."""

    JSON_OF = PlacedOption
    JSON_KEYS: ClassVar[Keys] = {
        **PREDICTED,
        "path": _path,
        "reason": _reason,
        "plan": "option.key",
        "name": _name,
        "kind": _kind,
        "aliases": "option.aliases",
        "formats": _formats,
        "method": "option.method",
        "kernels": "option.kernel",
        "prudent_s": "option.estimate.prudent_s",
        "tokens_per_s": "option.tokens_per_s",
        "phases": "option.phases",
        "is_speedup_ideal": _is_speedup_ideal,
        "ideal_speedup_ratio": "option.ideal_speedup_ratio",
        "memory": "option.memory",
        "quality": (_itself, PlanQuality),
    }


def _limit(item: Finding) -> str:
    """Return memory, latency or quality."""
    return LIMITS[item.code]


def _value(item: Finding) -> float:
    """Return the plan's own, in the limit's unit: bytes, seconds, percent."""
    return item.values[0][1]  # type: ignore[return-value]


def _limit_value(item: Finding) -> float:
    """Return the limit, in the same unit."""
    return item.values[1][1]  # type: ignore[return-value]


def _excess_ratio(item: Finding) -> float | None:
    """Return how far beyond it, as a share of the limit; null for a limit of 0."""
    return excess_ratio(item)


class LimitMiss:
    """A limit that a plan misses."""

    JSON_OF = Finding
    JSON_KEYS: ClassVar[Keys] = {
        "limit": _limit,
        "value": _value,
        "limit_value": _limit_value,
        "excess_ratio": _excess_ratio,
    }


@dataclass(frozen=True, slots=True)
class ExcludedPlan:
    """A plan that is not ranked, and why."""

    JSON_KEYS: ClassVar[Keys] = {
        "plan": "exclusion.key",
        "reason": "reason",
        "misses": ("misses", tuple[LimitMiss, ...]),
        "candidate": ("candidate", ModelPlan | None),
    }

    exclusion: Exclusion
    ranking: ModelRanking

    @property
    def reason(self) -> str:
        """Why it is excluded."""
        return findings_text(map(with_names, self.exclusion.findings))

    @property
    def misses(self) -> tuple[Finding, ...]:
        """Limits that it misses; empty for one that cannot run."""
        return tuple(item for item in self.exclusion.findings if item.code in LIMITS)

    @property
    def candidate(self) -> PlacedOption | None:
        """Its figures; null where it could not be predicted."""
        option = self.exclusion.option
        return None if option is None else PlacedOption(option, self.ranking)


@dataclass(frozen=True, slots=True)
class AlternativePlan:
    """A plan worth naming beside the chosen one."""

    JSON_KEYS: ClassVar[Keys] = {
        "role": "alternative.role",
        "plan": ("plan", ModelPlan),
        "slowdown_ratio": "alternative.slowdown_ratio",
        "text": "text",
    }

    alternative: Alternative
    ranking: ModelRanking

    @property
    def plan(self) -> PlacedOption:
        """The plan with its figures."""
        return PlacedOption(self.alternative.option, self.ranking)

    @property
    def text(self) -> str:
        """The plan, its time and its loss, in a line."""
        return short_text(alternative_finding(self.alternative, self.ranking))


@dataclass(frozen=True, slots=True)
class PlanSearch:
    """One search of a format per group of layers; only where losses of the layers are known."""

    JSON_KEYS: ClassVar[Keys] = {
        "plan": "search.label",
        "goal": "goal",
        "loss_source": "search.choice.problem.loss_source",
        "loss_unit": "loss_unit",
        "confidence": "search.choice.problem.confidence",
        "gap_value": "search.choice.gap_value",
        "passes_count": "search.passes_count",
        "groups": "search.choice.reasons",
    }

    search: FormatSearch
    loss_unit: str | None
    """Unit of every loss of the search: `nats/token`."""

    @property
    def goal(self) -> str:
        """What it looked for."""
        return short_text(self.search.goal)


@dataclass(frozen=True, slots=True)
class FrontPlan:
    """A plan of the search that no other beats in loss, time and memory."""

    JSON_KEYS: ClassVar[Keys] = {
        "loss_value": "plan.loss_value",
        "loss_unit": "loss_unit",
        "time_s": "plan.time_s",
        "memory_bytes": "plan.memory_bytes",
        "formats": "plan.labels",
    }

    plan: FormatAssignment
    loss_unit: str | None
    """Unit of loss_value: `nats/token`."""


@dataclass(frozen=True, slots=True)
class ModelRecommendation:
    """The ranked plans of a model on a chip."""

    JSON_KEYS: ClassVar[Keys] = {
        "hardware": "chip.key",
        "hardware_name": "chip.name",
        "is_placeholder": "chip.is_placeholder",
        "model": "ranking.question.name",
        "wide_format": "ranking.wide",
        "traffic": "ranking.traffic",
        "limits": "ranking.limits",
        "time_source": "baseline.option.estimate.source",
        "summary": "summary",
        "chosen": "ranking.choice.key",
        "prediction": "prediction",
        "alternatives": "alternatives",
        "findings": "findings",
        "baseline": ("baseline", ModelPlan),
        "candidates": ("candidates", tuple[ModelPlan, ...]),
        "excluded": "excluded",
        "searches": "searches",
        "front": "front",
        "short_answer": "short_answer",
    }

    ranking: ModelRanking
    chip: Device
    prediction: PassPrediction | None
    """The first pass of the traffic with the plan to take, kernel by kernel; null where none meets the limits."""
    short_answer: ShortAnswer
    """Its first lines: what to take, the options by name, what to type next."""

    @property
    def summary(self) -> str:
        """The decision in a sentence, or by how much the nearest misses which limit."""
        return str(self.ranking)

    @property
    def baseline(self) -> PlacedOption:
        """The 16-bit plan that speed-ups are counted against."""
        assert self.ranking.baseline is not None  # 16 bit is always predicted
        return PlacedOption(self.ranking.baseline, self.ranking)

    @property
    def candidates(self) -> tuple[PlacedOption, ...]:
        """Best first; those whose loss nobody knows stand last."""
        return placed(self.ranking)

    @property
    def alternatives(self) -> tuple[AlternativePlan, ...]:
        """Up to two plans beside the chosen one: what is faster for more loss, or loses less, and what loses least."""
        return tuple(AlternativePlan(each, self.ranking) for each in self.ranking.alternatives)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What to know about it, may be empty."""
        return findings_once(self.ranking)

    @property
    def excluded(self) -> tuple[ExcludedPlan, ...]:
        """Nearest to the limits first, then what cannot run."""
        return tuple(ExcludedPlan(each, self.ranking) for each in self.ranking.excluded)

    @property
    def searches(self) -> tuple[PlanSearch, ...]:
        """Searches of a format per layer; empty without losses of the model's layers."""
        return tuple(PlanSearch(search, self._loss_unit) for search in self.ranking.searches)

    @property
    def front(self) -> tuple[FrontPlan, ...]:
        """Plans of the searches, least loss first; empty without losses of the model's layers."""
        return tuple(FrontPlan(plan, self._loss_unit) for plan in self.ranking.front)

    @property
    def _loss_unit(self) -> str | None:
        return next((option.loss.unit for option in self.ranking.options if option.loss.unit), None)


def model_advice(
    ranking: ModelRanking,
    chip: Device,
    asked: Asked = (),
    ranking_on: RankingOn | None = None,
) -> ModelRecommendation:
    """Return the ranking of a model's plans as an answer; the plan to take is predicted kernel by kernel. `asked`: the
    question as it is typed.
    """
    prediction = None if ranking.choice is None else pass_prediction(ranking.passes[0], chip)
    return ModelRecommendation(ranking, chip, prediction, model_answer(ranking, chip, asked, ranking_on=ranking_on))
