"""How commands run: imported when one of them is asked for, and what they raise becomes an exit code.

Listing commands imports none of them. A mistake of the user is one line on stderr, never a traceback. Exit codes: 0
done, 1 the command found something wrong (a bad chip file, a broken machine, a failed kernel), 2 bad input, 130
interrupted, 141 the reader of a pipe went away.
"""

from __future__ import annotations

import ast
import errno
import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperGroup

from reports.present.screen import clean_line
from roofline_cli.shared import interruption
from roofline_cli.shared.mistakes import usage_text
from roofline_cli.shared.stdout_file import stdout_as_file
from roofline_model.core.errors import RooflineError

_COMMANDS = b"\nCOMMANDS = {"
"""Where a file states its commands."""
_WHOLE_SENTENCE = 1_000
"""Characters of a command's first sentence that a list of commands shows: all."""


class LazyCommand(NamedTuple):
    """A command by its place, `module:function` or `module:typer_app`, and its line in the list of commands."""

    place: str
    summary: str


def commands_of(group: str, order: Sequence[str] = ()) -> dict[str, LazyCommand]:
    """Return the commands of a group ("" for `roofline` itself) by name: those of `order` first, the others by name.

    A command is stated in its own file, `COMMANDS = {"predict gemv": ("predict_gemv", "Predict …")}`: words that call
    it → its function or typer app, and its line in the list of commands. The files are read, not imported.
    """
    prefix = f"{group} " if group else ""
    listed = {
        words.removeprefix(prefix): command
        for words, command in _stated_commands().items()
        if words.startswith(prefix) and " " not in words.removeprefix(prefix)
    }
    places = {words: place for place, words in enumerate(order)}
    return {
        name: listed[name] for name in sorted(listed, key=lambda each: (places.get(prefix + each, len(places)), each))
    }


@cache
def _stated_commands() -> dict[str, LazyCommand]:
    """Return every command of the package by the words that call it."""
    package = Path(__file__).parents[1]
    stated: dict[str, LazyCommand] = {}
    for path in (package / "main.py", *sorted(package.glob("*/*.py"))):
        text = path.read_bytes()
        start = text.find(_COMMANDS)
        if start >= 0:
            table = text[start + len(_COMMANDS) - 1 : text.index(b"}\n", start) + 1].decode()
            module = ".".join((package.name, *path.relative_to(package).with_suffix("").parts))
            for words, (attribute, summary) in ast.literal_eval(table).items():
                stated[words] = LazyCommand(f"{module}:{attribute}", summary)
    return stated


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
    """A group whose commands come from a table of places (`commands_of`), in the order of the table."""

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
    return remembering(loaded)


def _mend_help(command: Any) -> None:
    """Show the metavar alone: newer versions of typer add the Python type and braces; older ones ignore these
    attributes.

    In a list of commands their sentence takes as many lines as it needs, where it would end in `...` on a narrow
    screen.
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


EXIT_FOUND = 1
EXIT_USAGE = 2
EXIT_BROKEN_PIPE = 141

# Typer carries click inside itself in newer versions and uses the real one in older ones: its own exported
# BadParameter leads to the base of all usage errors in both.
UsageError: Any = typer.BadParameter.__mro__[1]
ClickException: Any = typer.BadParameter.__mro__[2]


class _PipeClosedError(Exception):
    """The reader of our output went away. Not an OSError, which typer would turn into exit code 1."""


class RooflineGroup(LazyGroup):
    """The root command: runs a command and turns what it raises into a line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command and push its output out, so that a closed pipe is noticed here and not at interpreter
        exit.
        """
        try:
            with interruption.unwinding():
                result = super().invoke(ctx)
                sys.stdout.flush()
        except BrokenPipeError:
            raise _PipeClosedError from None
        except KeyboardInterrupt:
            raise typer.Abort from None
        except Exception:
            if interruption.is_asked():
                raise typer.Abort from None
            raise
        if interruption.is_asked():
            raise typer.Abort
        return result

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line and exit. What a command raises is handled here, so typer's own handling is switched
        off.
        """
        try:
            typed = list(sys.argv[1:] if args is None else args)
            with stdout_as_file(typed) if "-" in typed else nullcontext(typed) as arguments:
                code = super().main(
                    arguments,
                    prog_name,
                    complete_var,
                    standalone_mode=False,
                    windows_expand_args=windows_expand_args,
                    **extra,
                )
        except RooflineError as error:
            code = _report(str(error))
        except UsageError as error:
            code = _report(usage_text(error, typed, _stated_commands()))
        except ClickException as error:
            code = _report(error.format_message())
        except typer.Abort:
            interruption.say()
            code = interruption.EXIT_INTERRUPTED
        except OSError as error:
            if not _is_about_output(error):
                raise
            _silence_stdout()
            code = _report(_unwritable(error))
        except _PipeClosedError:
            _silence_stdout()
            code = EXIT_BROKEN_PIPE
        sys.exit(_pushed_out(code if isinstance(code, int) else 0))


def _pushed_out(code: int) -> int:
    """Flush what --help or a failing command left in the buffer; the interpreter's own flush would print a
    traceback.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
        return EXIT_BROKEN_PIPE
    except OSError as error:
        _silence_stdout()
        return _report(_unwritable(error))
    return code


def _unwritable(error: OSError) -> str:
    return f"the output cannot be written: {error.strerror or error}; make room there, or send it elsewhere"


def _is_about_output(error: OSError) -> bool:
    """Return whether writing to stdout failed: such an error names no file, and these are what a full or lost device
    says.
    """
    return error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def _report(message: str) -> int:
    sys.stderr.write(f"error: {clean_line(message)}\n")
    return EXIT_USAGE


def _silence_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's own flush at exit cannot complain about the closed pipe."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # lives until the process ends


_RUNNING: ContextVar[Any] = ContextVar("running", default=None)
"""Context of the command that runs, as typer has it."""


def remembering(command: Any) -> Any:
    """Return a click command that keeps its context for `typed_pairs` while it runs, as those of a group do."""
    if not isinstance(command, LazyGroup):  # whose commands are remembered as they are loaded
        for child in getattr(command, "commands", {}).values():
            remembering(child)
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

    The value is empty for a switch, a password in a URL is masked; an option that was repeated stands once for each
    value. Empty outside a command.
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
    from reports.present.predicted.words import option_words

    return option_words(typed_pairs(), only=only)


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, bool):
        if value:
            yield ""
        return
    for each in map(str, value if isinstance(value, list | tuple) else [value]):
        if "://" in each:
            from results.store.target import mask_passwords

            yield mask_passwords(each)
        else:
            yield each
