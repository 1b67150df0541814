"""Where a GPU runs a pass faster than the host issues it: measured times of both, held against each other."""

from __future__ import annotations

from collections.abc import Iterable

from roofline_model.core.finding import Finding, finding

IssuedPass = tuple[str, float | None, float | None]
"""Label of a precision, the host's seconds to issue a pass, the GPU's to run it; None: not known."""


def issue_bound(phase: str, passes: Iterable[IssuedPass]) -> Finding | None:
    """Return what the host takes to issue those passes of a phase that the GPU runs faster; None where it runs none
    faster.
    """
    passes = tuple(passes)
    slow = sorted(
        (issue_s, label)
        for label, issue_s, time_s in passes
        if issue_s is not None and time_s is not None and issue_s > time_s
    )
    if not slow:
        return None
    call = "decode step" if phase == "decode" else "prefill"
    (least_s, least_label), (most_s, most_label) = slow[0], slow[-1]
    if len(slow) == 1:
        return finding("issue-bound", call=call, issue_s=least_s, label=least_label if len(passes) > 1 else None)
    return finding("issue-bound", call=call, issue_s=least_s, label=least_label, most_s=most_s, most_label=most_label)
