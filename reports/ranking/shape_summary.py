"""The sentence of a shape's ranking: what is first, how much it gains, what it is level with, and which time is in doubt."""

from __future__ import annotations

from collections.abc import Sequence

from reports.ranking.ranked_row import RankedRow
from reports.ranking.shape_results import Configuration
from results.text.verdict_text import doubt_text, maybe_faster_text
from results.verdicts.gain import Gain, measured_gain, times_faster
from results.verdicts.shape_verdict import are_level
from roofline_model.core.units import format_time


def shape_summary(
    rows: Sequence[RankedRow],
    timed: Sequence[Configuration],
    baseline: Configuration | None,
    rival: Configuration | None,
) -> str:
    """Return the sentence of ranked rows. `timed`: the measured configurations in their order; `baseline`: what speed-ups are
    counted against; `rival`: what may be faster than the first of them (`recommend.ranking.maybe_faster`)."""
    if not rows:
        return "nothing could be ranked: no case was measured or predicted"
    best = rows[0]
    if best.source != "measured" and best.is_emulated:
        return f"only emulated kernels were predicted ({best.label}), without what emulating costs"
    gain, name = _gain(timed, baseline), baseline.precision if baseline else "16 bit"
    told = f", {gain.over(name)}" if gain else "" if best.speedup is None else f", {times_faster(best.speedup)} {name}"
    evidence = {"measured": "measured", "expected": "not measured, expected"}.get(best.source, "not measured, ideal")
    level = "" if rival else _level(timed)
    level += f"; {best.kernel_gap}" if best.kernel_gap else ""
    text = f"{best.label}: {evidence} {format_time(best.time_s)}{told}{level}{_worth_trying(rows)}"
    if rival is not None:
        over = measured_gain(rival.contender, baseline.contender) if baseline else None
        return f"{text}{maybe_faster_text(rival.label, over, name)}"
    return f"{text}; {doubt_text(gain)}" if gain and gain.is_doubtful else text


def _gain(timed: Sequence[Configuration], baseline: Configuration | None) -> Gain | None:
    """Return what the first of the measured ones gains; None where it is the baseline or there is none."""
    if not timed or baseline is None or timed[0] is baseline:
        return None
    return measured_gain(timed[0].contender, baseline.contender)


def _level(timed: Sequence[Configuration]) -> str:
    """Name the measured runner-up when the two intervals overlap: a ranking inside the noise is no ranking."""
    if len(timed) < 2 or not are_level(timed[0].contender, timed[1].contender):
        return ""
    return f"; level with {timed[1].label} within the intervals"


def _worth_trying(rows: Sequence[RankedRow]) -> str:
    """Name the first prediction that promises more than the measured best gained."""
    best = rows[0]
    promise = next(
        (row for row in rows if row.source != "measured" and not row.is_emulated and not row.kernel_gap), None
    )
    if (
        best.source != "measured"
        or promise is None
        or not promise.speedup
        or promise.speedup <= max(best.speedup or 1.0, 1.0)
    ):
        return ""
    gain = times_faster(promise.speedup)
    return f"; worth trying: {promise.label}, {promise.source} {gain} and not measured here"
