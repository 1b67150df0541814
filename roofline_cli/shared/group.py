"""The one place where exceptions become exit codes: a mistake of the user is one line on stderr, never a traceback.

Exit codes: 0 done, 1 the command found something wrong (a bad chip file, a broken machine, a failed kernel),
2 bad input, 130 interrupted, 141 the reader of a pipe went away.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Any

import typer

from roofline_cli.lazy_group import LazyGroup
from roofline_cli.screen.tables import clean_line
from roofline_cli.shared import interruption
from roofline_model.core.errors import RooflineError

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
        """Run the command and push its output out, so that a closed pipe is noticed here and not at interpreter exit."""
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
        """Run the command line and exit. What a command raises is handled here, so typer's own handling is switched off."""
        try:
            code = super().main(
                args, prog_name, complete_var, standalone_mode=False, windows_expand_args=windows_expand_args, **extra
            )
        except RooflineError as error:
            code = _report(str(error))
        except UsageError as error:
            command = error.ctx.command_path if error.ctx is not None else "roofline"
            said = error.format_message().rstrip(".")
            code = _report(f"{said}{' See' if said.endswith('?') else '; see'} `{command} --help`")
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
    """Flush what --help or a failing command left in the buffer; the interpreter's own flush would print a traceback."""
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
    """Return whether writing to stdout failed: such an error names no file, and these are what a full or lost device says."""
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
