"""Which formats to take for a phase of a run: its options ranked by the one policy of every answer, and why not where
it says nothing. Of a whole model here; shapes are added up for a report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from results.cases.losses import StoredLosses, figures_loss, pass_loss
from results.cases.model_results import ModelResult, PassResult, PhaseResult
from roofline_model.core.answer import Option, Question, Ranking
from roofline_model.core.finding import Finding, finding
from roofline_model.recommend.ranking import MAX_LOSS_PCT, Limits, rank


@dataclass(frozen=True, slots=True)
class PhaseRanking:
    """The options of one phase of a run. Times and bytes are sums: one call of each of its shapes."""

    title: str
    """Decode, Prefill, `seeded-llama-156m, batch 1, 128 tokens: decode`, or an operator."""
    ranking: Ranking
    places: tuple[str, ...]
    """Titles of the shapes, or of the model's phase."""
    shape_count: int
    """Shapes of the phase with a time; more than `places` where no format has a time at all of them."""
    caveats: tuple[Finding, ...] = ()
    """What speaks against relying on it, beside the doubts of its times."""

    @property
    def choice(self) -> Option | None:
        """The option to take."""
        return self.ranking.choice

    @property
    def is_contest(self) -> bool:
        """Whether two options at least compete."""
        excluded = (exclusion for exclusion in self.ranking.excluded if exclusion.option is not None)
        return len(self.ranking.options) + sum(1 for _ in excluded) > 1

    @property
    def doubts(self) -> tuple[str, ...]:
        """Flags that put the time of the choice, or of the baseline, in doubt."""
        options = [option for option in (self.choice, self.ranking.baseline) if option is not None]
        return tuple(dict.fromkeys(doubt for option in options for doubt in option.trust.doubts))

    @property
    def record_ids(self) -> tuple[str, ...]:
        """The records behind the choice."""
        return () if self.choice is None else self.choice.record_ids


def model_ranking(model: ModelResult, phase: PhaseResult, hardware: str) -> PhaseRanking | None:
    """Return the ranking of a phase of a model. What was measured on random tokens is no loss of quality."""
    judged = phase.judged
    best = judged.best
    if best is None or model.is_untrained:
        return None
    options: Mapping[str, Option] = {
        model_pass.option.key: _of_pass(model_pass, model_pass.option)
        for model_pass in phase.passes
        if model_pass.option is not None and (model_pass.option.is_measured or not best.is_measured)
    }
    baseline = None if judged.baseline is None else options.get(judged.baseline.key)
    question = Question("model", hardware, model.name.model_name, phase=phase.phase)
    ranking = rank(question, tuple(options.values()), baseline, limits=Limits(loss_pct=MAX_LOSS_PCT))
    ranking = without_headline(ranking, judged.gap)
    title = f"{model.title}: {phase.phase}"
    stored_formats = dict.fromkeys(
        model_pass.figures.decoded_from for model_pass in phase.passes if model_pass.figures.decoded_from
    )
    caveats = tuple(finding("reference-decoded", stored_format=stored_format) for stored_format in stored_formats)
    return PhaseRanking(title, ranking, (title,), 1, caveats)


def _of_pass(model_pass: PassResult, option: Option) -> Option:
    figures = model_pass.figures
    measured = figures_loss(figures) if figures.is_language or figures.rank_agreement_ratio is not None else None
    held_bytes, original_bytes = figures.held_bytes or figures.stated_bytes, figures.original_bytes
    saved_ratio = 1 - held_bytes / original_bytes if held_bytes is not None and original_bytes else None
    memory = None if option.memory is None else replace(option.memory, saved_ratio=saved_ratio)
    return replace(
        option,
        label=model_pass.label,
        precision=model_pass.label,
        memory=memory,
        loss=measured or pass_loss(model_pass, StoredLosses((), {}), ()),
        tokens_per_s=model_pass.tokens_per_s or model_pass.expected_tokens_per_s,
    )


def without_headline(ranking: Ranking, gap: Finding | None) -> Ranking:
    """Return a ranking without its choice where the times behind it were disturbed or cannot be."""
    if gap is None:
        return ranking
    return replace(ranking, choice=None, alternatives=(), findings=(gap, *ranking.findings))
