"""The ranking of formats for a product as an answer: what `--json` and the API give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from reports.present.answers.options import PREDICTED, PlacedOption, exclusion_text, findings_once, placed
from reports.present.encoder import Keys
from reports.present.predicted.advice import ShortAnswer, product_answer
from reports.present.predicted.words import Asked
from roofline_model.core.answer import Exclusion, Ranking
from roofline_model.core.finding import Finding, findings_text, first_with
from roofline_model.formats.catalog import operands_label
from roofline_model.recommend.loss import loss_text
from roofline_model.recommend.options import product_name


def _name(each: PlacedOption) -> str:
    """Return the format with the widths of its operands: `INT8 (W8A8)`."""
    return product_name(each.option)


def _operands(each: PlacedOption) -> str:
    """Return the widths in short: W4A16."""
    return operands_label(each.option.weight_format, each.option.activation_format)


def _quality(each: PlacedOption) -> str:
    """Return what is known of the loss; a claim until it is measured."""
    return loss_text(each.option.loss)


def _reason(each: PlacedOption) -> str:
    """Return why it stands where it stands."""
    return findings_text(each.option.findings)


def _engine_gap(each: PlacedOption) -> Finding | None:
    """Return that no serving engine has a kernel for it on this chip, though a library (torch) may; null where one
    has.
    """
    return first_with(each.option.findings, "engine-gap")


class Candidate:
    """One format with its time, memory and reason."""

    JSON_OF = PlacedOption
    JSON_KEYS: ClassVar[Keys] = {
        **PREDICTED,
        "reason": _reason,
        "format": "option.key",
        "name": _name,
        "weight_format": "option.weight_format",
        "activation_format": "option.activation_format",
        "operands": _operands,
        "method": "option.method",
        "ideal_speedup_ratio": "option.ideal_speedup_ratio",
        "memory_bytes": "option.memory.total_bytes",
        "memory_saved_ratio": "option.memory.saved_ratio",
        "quality": _quality,
        "engine_gap": _engine_gap,
    }


class Excluded:
    """A format that cannot be recommended, and why."""

    JSON_OF = Exclusion
    JSON_KEYS: ClassVar[Keys] = {"format": "key", "reason": exclusion_text}


def _rows(answer: Recommendation) -> int:
    """Return the rows of A and C, count."""
    return answer.sizes["M"]


def _columns(answer: Recommendation) -> int:
    """Return the columns of B and C, count."""
    return answer.sizes["N"]


def _inner(answer: Recommendation) -> int:
    """Return the columns of A, rows of B, count."""
    return answer.sizes["K"]


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The ranked answer, best first."""

    JSON_KEYS: ClassVar[Keys] = {
        "hardware": "ranking.question.hardware",
        "phase": "phase",
        "M": _rows,
        "N": _columns,
        "K": _inner,
        "precision": "best.option.key",
        "method": "best.option.method",
        "summary": "summary",
        "reason": "ranking.reason",
        "fits_memory_limit": "fits_memory_limit",
        "ranked_by": "ranked_by",
        "best": ("best", Candidate),
        "baseline": ("baseline", Candidate),
        "candidates": ("candidates", tuple[Candidate, ...]),
        "excluded": ("excluded", tuple[Excluded, ...]),
        "findings": "findings",
        "short_answer": "short_answer",
    }

    ranking: Ranking
    short_answer: ShortAnswer
    """Its first lines: what to take, the options by name, what to type next."""

    @property
    def phase(self) -> str:
        """decode or prefill."""
        return self.ranking.question.phase

    @property
    def sizes(self) -> dict[str, int]:
        """M, N and K."""
        return dict(self.ranking.question.sizes)

    @property
    def best(self) -> PlacedOption:
        """The formats to take; where nothing fits the memory limit those that miss it least."""
        best = self.ranking.nearest
        assert best is not None  # the 16-bit baseline is always predicted
        return PlacedOption(best, self.ranking)

    @property
    def baseline(self) -> PlacedOption:
        """The 16-bit product that speed-ups are counted against."""
        assert self.ranking.baseline is not None
        return PlacedOption(self.ranking.baseline, self.ranking)

    @property
    def candidates(self) -> tuple[PlacedOption, ...]:
        """Best first; where nothing fits the memory limit the one that misses it least alone."""
        return placed(self.ranking) or (self.best,)

    @property
    def excluded(self) -> tuple[Exclusion, ...]:
        """Formats that are not ranked, with the reason."""
        return tuple(each for each in self.ranking.excluded if each.option is not self.best.option)

    @property
    def summary(self) -> str:
        """The decision in a sentence: `INT4 (AWQ) 4.0x speedup`, or what does not fit."""
        return str(self.ranking)

    @property
    def fits_memory_limit(self) -> bool | None:
        """Whether the best fits the limit; null without one."""
        return self.ranking.choice is not None if "memory_bytes" in dict(self.ranking.question.limits) else None

    @property
    def ranked_by(self) -> Literal["expected", "ideal"]:
        """expected where at least one candidate has an expected time; else ideal."""
        return "ideal" if all(each.option.estimate.source == "ideal" for each in self.candidates) else "expected"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What to know about it, may be empty."""
        return findings_once(self.ranking)


def shape_advice(ranking: Ranking, asked: Asked = ()) -> Recommendation:
    """Return the ranking of a product's formats as an answer; `asked`: the question as it is typed."""
    return Recommendation(ranking, product_answer(ranking, asked))
