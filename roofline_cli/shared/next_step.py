"""The question as it was typed: what a command that is printed to be typed next carries on."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from reports.answers.asked import option_words


_RUNNING: ContextVar[Any] = ContextVar("running", default=None)
"""Context of the command that runs, as typer has it."""


def remembering(command: Any) -> Any:
    """Return a click command that keeps its context for `typed_pairs` while it runs."""
    invoke = command.invoke

    def invoke_and_keep(context: Any) -> Any:
        token = _RUNNING.set(context)
        try:
            return invoke(context)
        finally:
            _RUNNING.reset(token)

    command.invoke = invoke_and_keep
    return command


def typed_pairs() -> list[tuple[str, str]]:
    """Return (option, value) of the running command's options that were typed, in the command's order.

    The value is empty for a switch; an option that was repeated stands once for each value. Empty outside a command.
    """
    context = _RUNNING.get()
    if context is None:
        return []
    pairs: list[tuple[str, str]] = []
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name)
        if source is not None and source.name == "COMMANDLINE" and parameter.opts[0].startswith("-"):
            option = max(parameter.opts, key=len)
            pairs += [(option, value) for value in _values(context.params[parameter.name])]
    return pairs


def typed(*only: str) -> str:
    """Return the options of the running command with these names that were typed, for a shell."""
    return option_words(typed_pairs(), only=only)


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, bool):
        if value:
            yield ""
        return
    for each in value if isinstance(value, list | tuple) else [value]:
        yield str(each)
