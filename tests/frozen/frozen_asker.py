"""Puts a frozen question to today's code; an exception is an answer, too."""

from __future__ import annotations

import warnings
from typing import Any

import adapters
from frozen_question import Question
from frozen_store import plain


def ask(question: Question) -> Any:
    """Return today's answer as plain values; of an exception its class, and its slug where it has one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            answer = getattr(adapters, question.family)(**question.arguments)
        except Exception as error:
            return {"error": type(error).__name__, "slug": getattr(error, "slug", None)}
    return plain(answer)
