"""What stored runs recommend, as blocks: what to take and how sure that is; with everything an overview, then each
ranking with its evidence and what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from reports.present.blocks import Block, Cell, Column, Command, Paragraph, Rich, Span, more, notes, table, time_cell
from reports.present.cases import option_memory_cell, width_cell
from reports.present.display_text import shown, utc_minutes
from reports.present.predicted.details import loss_columns
from reports.present.predicted.words import ROLES, SOURCES, Asked, option_words
from reports.present.screen import MISSING
from reports.present.words.sentences import ORDER_OF_MEASURED, order_of_predictions
from roofline_model.core.answer import Option
from roofline_model.core.finding import code_text, finding, has_code, short_text
from roofline_model.core.units import (
    counted,
    format_speedup,
    in_prefix,
    own_prefix,
    sentence,
    shared_prefix,
)
from roofline_model.recommend.loss import loss_doubt, loss_text

if TYPE_CHECKING:
    from results.rankings import StoredRanking, StoredRecommendations

DETAILED_COUNT = 4
"""Rankings that are shown in full; of more only the overview and what changed."""
REASONED_COUNT = 12
"""Rankings whose reason is told in a line below the overview; of more the narrower question has them."""
PREDICTED_COUNT = 3
"""Predictions shown behind the measured rows of a ranking; `--json` has all."""
BENCH_OPERATORS = frozenset(
    {
        *("gemv", "gemm", "attention", "unfused_attention", "softmax", "rmsnorm"),
        *("residual_add", "rope", "silu_mul", "ffn", "quantize", "dequantize"),
    }
)
"""Operators that `pytest bench_cases -k OPERATOR` measures."""
ANSWER_ROW_COUNT = 5
"""Rows of the answer's table."""
_CONFIDENCE_LOOKS = {"high": "good", "medium": "", "low": "warning"}


def stored_blocks(recommendations: StoredRecommendations, asked: Asked, *, show_all: bool) -> Iterator[Block]:
    """Yield what the runs say to take, up to five rows, up to two caveats, and what to type next: a dozen lines; with
    `show_all` a row for every case, the rankings with their evidence, and all that is missing. `asked`: the question as
    it is typed.
    """
    rankings = _in_order(recommendations.rankings)
    if not rankings:
        yield from (Paragraph(f"missing: {text}", "warning") for text in _weakening(recommendations))
    elif len(rankings) == 1:
        yield from ranked_answer_blocks(rankings[0])
        yield from notes(stored_notes(recommendations, rankings[0]))
    else:
        yield from _answer_blocks(rankings, has_rows=not show_all)
        yield from notes([] if show_all else _weakening(recommendations)[:1])
    busy = next((each for each in rankings if each.choice is None and each.gap is not None), None)
    if busy is not None and not any(map(_gains, rankings)):
        yield Command(*_measure_again(busy))
    elif any(ranking.options for ranking in rankings):
        yield Command(*_next_command(rankings, asked))
    if rankings:
        hidden = f"{len(rankings)} cases" if len(rankings) > 1 else f"{len(rankings[0].options)} options"
        yield from more(f"lists {hidden}, why, and what changed", is_shown=show_all)
    if show_all:
        yield from _detail_blocks(recommendations)


def _in_order(rankings: Iterable[StoredRanking]) -> list[StoredRanking]:
    """Return rankings as every table of several lists them: those that gain first, those without a contest last, of
    each the whole models first.
    """
    return sorted(rankings, key=lambda each: (not _gains(each), not each.is_contest, each.question.subject != "model"))


def _answer_blocks(rankings: Sequence[StoredRanking], *, has_rows: bool) -> Iterator[Block]:
    """Yield how many of the cases with a narrower format gain from it, and with `has_rows` a row for each of the
    first.
    """
    chips = sorted({each.hardware_name for each in rankings})
    count = len(rankings)
    gaps = [ranking.gap for ranking in rankings if ranking.choice is None and ranking.gap is not None]
    if len(gaps) == count:
        text = short_text(finding("disturbed-result", kind="cases", disturbed_count=count, case_count=count))
        yield Paragraph(f"No result: {text}, or see the numbers with --force.", "failed")
        return
    is_busy = all(has_code([gap], "disturbed-result", "option") for gap in gaps)
    why = "the machine was busy, run again" if is_busy else "times were disturbed or cannot be, run again"
    busy = f" No result for {len(gaps)} of {count}: {why}." if gaps else ""
    yield Paragraph(f"{_pays_sentence(rankings)}{busy}", "verdict")
    if not has_rows:
        return
    which = f"First {ANSWER_ROW_COUNT} of {count} on" if count > ANSWER_ROW_COUNT else "On"
    yield Paragraph(f"{which} {', '.join(chips)}. Gain: over its baseline. !: doubtful.", "quiet")

    def time(choice: Option) -> str:
        source = "" if choice.is_measured else f"{choice.estimate.source} "
        return f"{source}{_plain_time(choice.estimate.time_s)}{' !' if choice.trust.doubts else ''}"

    columns = (
        Column("What", lambda each: _short_title(_question(each, has_chip=len(chips) > 1)), "prose", least=24),
        Column("Take", lambda each: _taken(each, lambda choice: choice.precision), "prose", least=22),
        Column("Time", lambda each: _of_choice(each, time), "number"),
        Column("Gain", _contest_gain, "number"),
    )
    yield table("questions", columns, rankings[:ANSWER_ROW_COUNT], says_what_is_left_out=False)


def _question(ranking: StoredRanking, *, has_chip: bool) -> str:
    return f"{ranking.question.hardware}: {ranking.question.name}" if has_chip else ranking.question.name


def _of_choice(ranking: StoredRanking, text: Callable[[Option], Rich]) -> Rich:
    return MISSING if ranking.choice is None else text(ranking.choice)


def _taken(ranking: StoredRanking, name: Callable[[Option], str]) -> str:
    """Return what to take, or why nothing is."""
    from reports.present.words.ranking_text import alone_text

    if ranking.choice is None:
        return "no result" if ranking.gap else "nothing"
    return name(ranking.choice) if ranking.is_contest else alone_text(name(ranking.choice))


def _contest_gain(ranking: StoredRanking) -> Rich:
    return _of_choice(ranking, lambda choice: format_speedup(choice.speedup_ratio)) if ranking.is_contest else MISSING


def _pays_sentence(rankings: Sequence[StoredRanking]) -> str:
    """Return in how many of the cases that compare a narrower format such a format is taken."""
    compared = [ranking for ranking in rankings if ranking.narrower]
    if not compared:
        return f"No narrower format to compare with in {counted(len(rankings), 'stored case')}."
    paying_count = sum(ranking.choice in ranking.narrower for ranking in compared)
    of_all = "" if len(compared) == len(rankings) else " with one to compare"
    return (
        f"A narrower format pays in {paying_count} of {counted(len(compared), 'stored case')}{of_all}, each by itself."
    )


def _gains(ranking: StoredRanking) -> bool:
    """Return whether a format other than the baseline is taken, which is no question of one case alone."""
    return ranking.is_contest and ranking.choice is not None and not ranking.is_baseline(ranking.choice)


def _short_title(title: str) -> str:
    """Return the title of a case in as few characters as name it: `llama-3.1-8b decode b=1, 128 tokens`."""
    return title.replace(", batch ", " b=").replace(", decode", " decode").replace(", prefill", " prefill")


def ranked_answer_blocks(ranking: StoredRanking) -> Iterator[Block]:
    """Yield the decision of one case, and its first options."""
    roles = ranking.roles
    by_key = {option.key: option for option in ranking.options}
    others = [option for option in ranking.options if option.key not in roles]
    named = [by_key[key] for key in roles if key in by_key]
    rows = [*named, *others[: ANSWER_ROW_COUNT - len(named)]]
    prefix = shared_prefix([row.estimate.time_s for row in rows])
    yield Paragraph(_answer_sentence(ranking, prefix), "verdict")
    yield Paragraph(f"{ranking.question.name} on {ranking.hardware_name}.", "quiet")
    has_no_result = ranking.gap is not None and ranking.choice is None
    columns = (
        Column("", lambda row: ROLES.get(roles.get(row.key, ""), "")),
        Column("Format", lambda row: row.label, is_head=True),
        Column("Time", lambda row: in_prefix(row.estimate.time_s, prefix), "number"),
        Column("±", _interval, "number", drop=3),
        Column(
            "Tokens/s", lambda row: MISSING if row.tokens_per_s is None else f"{row.tokens_per_s:.3g}", "number", drop=2
        ),
        Column("From", _source, drop=4),
        Column("Gain", lambda row: MISSING if has_no_result else _speedup(row), "number"),
        Column("Memory", option_memory_cell, "number", drop=1),
        *loss_columns(),
        Column("Evidence", _evidence, medium="page"),
    )
    if rows:
        yield table("options", columns, rows, says_what_is_left_out=False)
    yield from _doubt_blocks(rows)


def _doubt_blocks(rows: Iterable[Option]) -> Iterator[Block]:
    """Yield what each `!` of a table means: rows in doubt for one reason share a line."""
    from results.diff.rules import BUSY_REASONS

    labels: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        if row.is_measured and row.trust.doubts:
            labels.setdefault(row.trust.doubts, []).append(row.label)
    for doubts, names in labels.items():
        line = f"! {', '.join(names)}: {'; '.join(map(code_text, doubts))} ({', '.join(doubts)})"
        if not BUSY_REASONS.isdisjoint(doubts):
            line += ", so no comparison with it counts; measure again on a quiet machine (--wait-until-quiet)"
        yield Paragraph(line, "warning")


def _plain_time(time_s: float) -> str:
    return in_prefix(time_s, own_prefix(time_s))


def _answer_sentence(ranking: StoredRanking, prefix: str | None) -> str:
    """Return what to take, by which time, in the unit of the table, and how sure it is."""
    from reports.present.words.stored_text import short_confidence_words, speedup_marks, summary_of
    from results.cases.gain import doubts_to_mend

    best = ranking.choice
    if best is None or not ranking.is_contest or has_code(best.findings, "emulated"):
        return sentence(summary_of(ranking))
    verb = "Stay with" if ranking.is_baseline(best) else "Take" if best.is_measured else "Try"
    gain = ""
    if best.speedup_ratio is not None and not ranking.is_baseline(best) and ranking.baseline_label:
        is_doubtful = bool(speedup_marks(best.trust) or doubts_to_mend(best))
        gain = f", {'about ' * is_doubtful}{format_speedup(best.speedup_ratio)} {ranking.baseline_label}"
    time = f"{SOURCES[best.estimate.source]} {in_prefix(best.estimate.time_s, prefix)}{gain}"
    again = "; measure it again" if best.is_measured and doubts_to_mend(best) else ""
    sure = f"confidence {best.trust.confidence} ({short_confidence_words(best.trust)})"
    return f"{verb} {best.label}: {time}; {sure}{again}."


def stored_notes(recommendations: StoredRecommendations, ranking: StoredRanking) -> list[str]:
    """Return of one ranking what the loss hides, what changed since the last run, and what is missing."""
    from reports.present.words.evidence_text import missing_texts, note_texts
    from reports.present.words.stored_text import change_sentence

    best = ranking.choice
    doubt = loss_doubt(best.loss) if best is not None else None
    texts = ["" if doubt is None else short_text(doubt)]
    changes = [change_sentence(change) for change in ranking.changes]
    stale = [short_text(item) for item in ranking.missing]
    return [*filter(None, texts), *changes, *note_texts(recommendations), *stale, *missing_texts(recommendations)]


def _weakening(recommendations: StoredRecommendations, note: str = "", missing: str = "") -> list[str]:
    """Return what weakens the answer, was left out of it, or is missing, each kind with its beginning."""
    from reports.present.words.evidence_text import missing_texts, note_texts

    noted = [f"{note}{text}" for text in note_texts(recommendations)]
    return [*noted, *(f"{missing}{text}" for text in missing_texts(recommendations))]


def _next_command(rankings: Sequence[StoredRanking], asked: Asked) -> tuple[str, str]:
    """Return what to type and what that does: the question narrowed to one case, or how to measure it again."""
    ranking = rankings[0]
    if len(rankings) > 1:
        several = len({each.question.hardware for each in rankings}) > 1
        chip = f" --hw {ranking.question.hardware}" if several else option_words(asked, only=("--hw",))
        rest = option_words(asked, only=("--memory-limit-gb", "--max-quality-loss", "--losses", "--db", "--force"))
        return f"roofline recommend --stored {_narrowed(ranking)}{chip}{rest}", "shows this one whole"
    if ranking.question.subject == "model":
        return "roofline pipeline --model FOLDER -o OUT", "makes and measures it"
    return _measure_again(ranking)


def _measure_again(ranking: StoredRanking) -> tuple[str, str]:
    """Return what measures a case again: one of `bench_cases`, else a kernel of a suite that is not known."""
    if ranking.question.subject == "model":
        return "pytest bench_cases -k model_quant --roofline-model FOLDER", "measures it again"
    if ranking.question.op in BENCH_OPERATORS:
        return f"pytest bench_cases -k {ranking.question.op}", "measures it again"
    return "pytest", f"measures it again, in the suite that has {ranking.question.op}"


def _narrowed(ranking: StoredRanking) -> str:
    if ranking.question.subject == "model":
        return f"--model {ranking.question.name.partition(',')[0]} --phase {ranking.question.phase}"
    sizes = ranking.question.shape_label.split("x")
    if ranking.question.op in ("gemv", "gemm") and len(sizes) == 3:
        return " ".join(f"-{letter} {size}" for letter, size in zip("MNK", sizes, strict=True))
    return f"--op {ranking.question.op}"


def _detail_blocks(recommendations: StoredRecommendations) -> Iterator[Block]:
    """Yield the overview (of more than one ranking), the rankings, and what is missing."""
    from reports.present.words.evidence_text import basis_text

    rankings = recommendations.rankings
    if len(rankings) > 1:
        yield _overview(rankings)
    detailed = rankings if len(rankings) <= DETAILED_COUNT else ()
    for ranking in detailed:
        yield from _ranking_blocks(ranking, is_only=len(detailed) == 1)
    if not detailed:
        yield from _reason_blocks(rankings)
        for ranking in rankings:
            yield from _change_blocks(ranking, f"{ranking.question.name}, ")
    if rankings:
        measured = [row for each in detailed for row in each.options if row.is_measured]
        yield Paragraph("")
        texts = {
            f"From {basis_text(recommendations)}: of each case the newest runs that can be compared.": True,
            "measured: in these runs; expected: what a good kernel takes; ideal: no kernel's. !: in doubt (at a "
            "speed-up: its baseline). old: something changed since.": True,
            "± of a measured time includes how far fresh processes differ, where several ran. ± of an expected time is "
            "its 80 % interval.": any(row.estimate.half_width_ratio is not None for row in measured),
            f"What was measured is ranked {ORDER_OF_MEASURED}.": bool(measured),
            f"What was not measured is ranked {order_of_predictions('expected', has_intervals=True)}.": any(
                not row.is_measured for each in rankings for row in each.options
            ),
            "For a ranking in full narrow the question: --model, --op, -M -N -K, --phase, --hw; or --json.": not detailed,
        }
        yield from (Paragraph(text, "quiet") for text, is_told in texts.items() if is_told)
    yield from (Paragraph(text, "warning") for text in _weakening(recommendations, "Note: ", "missing: "))


def _overview(rankings: Sequence[StoredRanking]) -> Block:
    has_chips = len({each.question.hardware for each in rankings}) > 1
    columns = (
        Column("What", lambda each: _question(each, has_chip=has_chips), "prose", least=16),
        Column("Take", lambda each: _taken(each, lambda choice: choice.label), "prose", least=14),
        Column("Time", lambda each: _of_choice(each, lambda it: _plain_time(it.estimate.time_s)), "number", drop=4),
        Column("From", lambda each: _of_choice(each, _source), drop=2),
        Column("Gain", lambda each: _of_choice(each, _speedup) if each.is_contest else MISSING, "number"),
        *loss_columns(lambda each: each.choice),
        Column("Confidence", lambda each: _of_choice(each, _confidence), drop=1),
        Column("Moved", lambda each: str(len(each.changes)) if each.changes else MISSING, "number", drop=5),
    )
    chips = sorted({each.hardware_name for each in rankings})
    return table("questions", columns, _in_order(rankings), title=f"Recommended on {', '.join(chips)}")


def _reason_blocks(rankings: Sequence[StoredRanking]) -> Iterator[Block]:
    """Yield why each first row stands there and how sure it is, a line for each question."""
    from reports.present.words.stored_text import confidence_words, reason_text, rival_words, summary_of

    for ranking in rankings if len(rankings) <= REASONED_COUNT else ():
        best = ranking.choice
        if best is None or not ranking.is_contest:
            yield Paragraph(f"  {ranking.question.name}: {summary_of(ranking)}")
            continue
        loss = "" if best.loss.source == "reference" else f", {loss_text(best.loss)}"
        yield Paragraph(
            f"  {ranking.question.name}: {reason_text(best, ranking)}{loss}{rival_words(ranking)}; "
            f"{best.trust.confidence}: {confidence_words(best.trust)}",
            "quiet",
        )


def _ranking_blocks(ranking: StoredRanking, *, is_only: bool) -> Iterator[Block]:
    from reports.present.words.ranking_text import excluded_texts, stale_text
    from reports.present.words.stored_text import reason_text, summary_of

    measured = [row for row in ranking.options if row.is_measured]
    predicted = [row for row in ranking.options if not row.is_measured]
    rows = [*measured, *predicted[:PREDICTED_COUNT]] if measured else predicted[: 2 * PREDICTED_COUNT]
    columns = (
        Column("", lambda row: str(ranking.rank_of(row)), "number"),
        Column("Configuration", lambda row: row.label, "prose", least=18),
        Column("Time", lambda row: time_cell(row.estimate.time_s), "number"),
        Column("±", _interval, "number", drop=5),
        Column("From", _source),
        Column("Gain", _speedup, "number"),
        Column("Memory", option_memory_cell, "number", drop=3),
        *loss_columns(),
        Column("Confidence", _confidence, drop=2),
        Column("Run", _runs, drop=6),
        Column("Why", lambda row: reason_text(row, ranking), "prose", least=36, drop=7),
    )
    title = f"{ranking.question.name} on {ranking.hardware_name}"
    yield table("options", columns, rows, title=title) if rows else Paragraph(title, "verdict")
    left = len(ranking.options) - len(rows)
    losses = [f"loss of {row.label}: {loss_text(row.loss)}" for row in rows if row.loss.source == "measured"]
    quiet = [counted(left, "more prediction") + ": --json"] if left else []
    yield from (Paragraph(f"  {text}", "quiet") for text in (*quiet, *_confidence_lines(rows, ranking), *losses))
    yield from (Paragraph(f"  not ranked: {label}: {reason}") for label, reason in excluded_texts(ranking))
    old = [f"old: {row.label}: {stale_text(row.trust)}" for row in rows if row.trust.stale]
    # A missing finding of an old time is said row by row.
    missing = [f"missing: {short_text(item)}" for item in ranking.missing if item.code != "stale"]
    yield from (Paragraph(f"  {text}", "warning") for text in (*old, *missing))
    yield from _change_blocks(ranking)
    if not is_only:
        yield Paragraph(f"→ {summary_of(ranking)}", "verdict")


def _confidence_lines(rows: Sequence[Option], ranking: StoredRanking) -> list[str]:
    """Return why rows are trusted as far as they are, those with one reason together."""
    from reports.present.words.stored_text import confidence_words, short_confidence_words

    has_baseline = any(map(ranking.is_baseline, rows))  # else a limit refused it, and no line is its own
    by_reason: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        reason = short_confidence_words(row.trust) if has_baseline else confidence_words(row.trust)
        by_reason.setdefault((row.trust.confidence, reason), []).append(str(ranking.rank_of(row)))
    return [f"{confidence}: {reason} ({', '.join(ranks)})" for (confidence, reason), ranks in by_reason.items()]


def _change_blocks(ranking: StoredRanking, about: str = "") -> Iterator[Block]:
    """Yield what became of the options since the run before; `about`: the case, where several are told of."""
    from reports.present.words.stored_text import change_sentence, compared_text

    if ranking.changes:
        yield Paragraph(f"  {about}{compared_text(ranking)}:")
    yield from (Paragraph(f"    {change_sentence(change)}") for change in ranking.changes)


def _confidence(row: Option) -> Span:
    return Span(row.trust.confidence, _CONFIDENCE_LOOKS[row.trust.confidence])


def _source(row: Option) -> Span:
    if not row.is_measured:
        return Span(row.estimate.source, "predicted")
    marks = f"{' !' if row.trust.doubts else ''}{' old' if row.trust.stale else ''}"
    return Span(f"measured{marks}", "warning" if marks else "")


def _speedup(row: Option) -> str:
    """Return the speed-up; one that no run measured, or over a baseline in doubt, is marked at the number."""
    from reports.present.words.stored_text import speedup_marks

    return format_speedup(row.speedup_ratio) + speedup_marks(row.trust)


def _interval(row: Option) -> Cell:
    return width_cell(row.estimate.half_width_ratio)


def _runs(row: Option) -> str:
    if not row.evidence:
        return MISSING
    earlier = len(row.evidence) - 1
    return f"{row.evidence[-1].run_id[:8]}{f' +{earlier}' if earlier else ''}"


def _evidence(row: Option) -> Rich:
    """Return the newest run behind an option as a link to its report, and how many came before it."""
    if not row.evidence:
        return ""
    run, earlier = row.evidence[-1], len(row.evidence) - 1
    name = f"{shown(run.label or '', 60) or run.run_id[:8]}, {utc_minutes(run.started_at)}"
    link = Span(name, anchor=f"api/runs/{run.run_id}/report")
    return (link, f" and {counted(earlier, 'earlier run')}" if earlier else "")
