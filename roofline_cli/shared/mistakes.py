"""What a user meant by words that a command does not take: the right command, for a line of an error."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from roofline_model.core.errors import nearest_names

_PRODUCTS = ("gemv", "gemm")
"""Words for a product, whose sizes say it to commands that take -M, -N and -K."""


def usage_text(error: Any, typed: Sequence[str], commands: Mapping[str, object]) -> str:
    """Return what to say of a usage error of click: its words with the right command, or where its help is.

    `typed`: the command line; `commands`: every command by the words that call it.
    """
    command = error.ctx.command_path if error.ctx is not None else "roofline"
    said = error.format_message().rstrip(".")
    meant = _meant(said, error.ctx, list(typed)) if error.ctx is not None else []
    if meant:
        return f"{said.partition(' (Possible options')[0]}; type `{_shown(['roofline', *meant])}`"
    said = _with_nearest(said, commands)
    is_unknown = said.startswith("No such command") and not said.endswith("?")
    if is_unknown and command.endswith(" runs"):
        said += f"; `{command}` alone lists the runs"
    surplus = _surplus(said)
    if surplus and "--run" in _options(error.ctx):
        said += f"; name the run with `--run {shlex.join(surplus)}`"
    return f"{said}{' See' if said.endswith('?') else '; see'} `{command} --help`"


def _shown(words: Sequence[str]) -> str:
    from results.store.target import mask_passwords

    return shlex.join(mask_passwords(word) if "://" in word else word for word in words)


def _options(ctx: Any) -> Collection[str]:
    return [] if ctx is None else [name for option in ctx.command.params for name in option.opts]


def _surplus(said: str) -> list[str]:
    match = re.match(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)", said)
    return match.group(1).split() if match else []


def _meant(said: str, ctx: Any, typed: list[str]) -> list[str]:
    """Return the words that were meant, without `roofline`; empty where that is not known."""
    options, surplus = _options(ctx), _surplus(said)
    names = getattr(ctx.command, "commands", ())
    if names and said.startswith("No such option"):
        groups = len(ctx.command_path.split()) - 1
        own = typed[groups:]
        place = next((at for at, word in enumerate(own) if word in names), None)
        return [] if place is None else [*typed[:groups], *own[place:], *own[:place]]
    if len(surplus) == 1 and surplus[0] in _PRODUCTS and "-M" in options and {"-N", "-K"} <= {*typed}:
        rows = ["-M", "1"] if surplus[0] == "gemv" and "-M" not in typed else []
        at = typed.index(surplus[0])
        return [*typed[:at], *rows, *typed[at + 1 :]]
    if "--model" in options and "--model" not in typed and (surplus or "'--model'" in said):
        return _with_model(typed, len(ctx.command_path.split()) - 1)
    return []


def _with_model(typed: list[str], start: int) -> list[str]:
    """Return the words with `--model` before the model that stands alone among them, and without the word `model`."""
    from roofline_model.models.model_registry import shipped_model

    at = next((at for at, word in enumerate(typed[start:], start) if shipped_model(word) is not None), None)
    if at is None:
        return []
    before = [word for word in typed[start:at] if word != "model"]
    return [*typed[:start], *before, "--model", *typed[at:]]


def _with_nearest(said: str, commands: Mapping[str, object]) -> str:
    """Return click's words with the nearest command of a group: `roofline gemmv` means `roofline predict gemv`."""
    unknown = re.fullmatch(r"No such command '(.*)'", said)
    if unknown is None:
        return said
    words_by_name = {words.split()[-1]: words for words in reversed(list(commands)) if " " in words}
    nearest = nearest_names(unknown.group(1), words_by_name, 2)
    meant = " or ".join(f"`roofline {words_by_name[name]}`" for name in nearest)
    return f"{said}. Did you mean {meant}?" if meant else said
