"""A case over many nights: its series, the steps and drifts in it, and what changed in the environment. `case_history`
is the door.
"""

from __future__ import annotations

from results.history.case_history import CaseHistory, HistoryOptions, case_histories, case_history

__all__ = ["CaseHistory", "HistoryOptions", "case_histories", "case_history"]
