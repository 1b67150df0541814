"""Blocks of options that commands share: a dataclass whose fields are options, taken as one parameter of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints

from roofline_cli.shared.options import (
    AllOption,
    FormatsFileOption,
    FormatsOption,
    HardwareOption,
    JsonOption,
    PlotOption,
)


@dataclass(frozen=True, slots=True)
class PredictOptions:
    """What every `predict` of one operator is told beside the shape."""

    hw: HardwareOption = "auto"
    formats: FormatsOption = None
    formats_file: FormatsFileOption = None
    show_all: AllOption = False
    plot: PlotOption = False
    as_json: JsonOption = False


def takes_blocks(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the fields of each dataclass among its parameters as options in that place.

    Typer sees the fields; the command gets the dataclass. A block is a keyword-only parameter, as it has no default.
    """
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    blocks = {
        each.name: each.annotation
        for each in parameters
        if isinstance(each.annotation, type) and is_dataclass(each.annotation)
    }
    expanded: list[inspect.Parameter] = []
    for parameter in parameters:
        expanded += _options_of(blocks[parameter.name]) if parameter.name in blocks else [parameter]

    @wraps(command)
    def run(**given: Any) -> None:
        for name, block in blocks.items():
            given[name] = block(**{each.name: given.pop(each.name) for each in fields(block)})
        command(**given)

    options = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in expanded]
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return run


def given_options(block: Any) -> Mapping[str, object]:
    """Return the options of a block that differ from their defaults, by the name that is typed: `--batch`, `-o`."""
    return {
        option.annotation.__metadata__[0].default: getattr(block, option.name)
        for option in _options_of(type(block))
        if getattr(block, option.name) != option.default
    }


def _options_of(block: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(block, include_extras=True)
    return [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in fields(block)
    ]
