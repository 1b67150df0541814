"""A frozen question: a family, and plain arguments that name it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Question:
    """One question to the code.

    Arguments are plain JSON values, so that a question outlives the types that answer it.
    """

    family: str
    arguments: Mapping[str, Any]

    @property
    def id(self) -> str:
        """`expected hardware=gb10 op=gemm M=1 …`: names the question in stored answers and in lists of differences."""
        return " ".join([self.family, *(f"{name}={_shown(value)}" for name, value in self.arguments.items())])


def question(family: str, **arguments: Any) -> Question:
    """Return a question; arguments that are None are left out."""
    return Question(family, {name: value for name, value in arguments.items() if value is not None})


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{name}:{_shown(item)}" for name, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ",".join(map(_shown, value)) + "]"
    return value if isinstance(value, str) else json.dumps(value)
