"""Groups whose commands are imported when one of them is asked for; listing them imports none."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperGroup

_WHOLE_SENTENCE = 1_000
"""Characters of a command's first sentence that a list of commands shows: all."""


class LazyCommand(NamedTuple):
    """A command by its place, `module:function` or `module:typer_app`, and its line in the list of commands."""

    place: str
    summary: str


class LazyCommands(Mapping[str, Any]):
    """Click commands by name, each imported at its first use."""

    def __init__(self, entries: Mapping[str, LazyCommand]) -> None:
        self._entries = entries
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(name, self._entries[name].place)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class LazyGroup(TyperGroup):
    """A group whose commands come from a table of places, in the order of the table."""

    entries: ClassVar[Mapping[str, LazyCommand]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = LazyCommands(self.entries)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the table."""
        return list(self.entries)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, imported now if it has not been; None where the table has none of that name."""
        if (
            cmd_name not in self.commands
        ):  # not `.get`, which takes a KeyError of the command's module for a missing name
            return None
        return self.commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.entries.items()])


def _load(name: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    command = getattr(importlib.import_module(module), attribute)
    # Plain help and errors: readable when piped, and starting the command does not load rich.
    holder = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    if isinstance(command, typer.Typer):
        holder.add_typer(command, name=name)
    else:
        holder.command(name)(command)
    loaded = typer.main.get_group(holder).commands[name]
    _mend_help(loaded)
    return loaded


def _mend_help(command: Any) -> None:
    """Show the metavar alone: newer versions of typer add the Python type and braces; older ones ignore these attributes.

    In a list of commands their sentence takes as many lines as it needs, where it would end in `...` on a narrow screen.
    """
    if not isinstance(command, LazyGroup):
        for child in getattr(command, "commands", {}).values():
            _mend_help(child)
    sentence = type(command).get_short_help_str(command, _WHOLE_SENTENCE)
    command.get_short_help_str = lambda limit=0: sentence
    for argument in getattr(command, "params", ()):
        if argument.param_type_name == "argument":
            shown = argument.metavar if argument.required else f"[{argument.metavar}]"
            argument.display_type_rich = lambda ctx: None
            argument._usage_display_name = lambda shown=shown: shown
