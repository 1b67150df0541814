"""Blocks of options that commands share: a dataclass whose fields are options, taken as one parameter of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, get_type_hints

from roofline_cli.shared.options import (
    AllOption,
    FormatsFileOption,
    FormatsOption,
    HardwareOption,
    JsonOption,
    PlotOption,
    check_plot,
    find_chip,
    register_formats,
    split_list,
)
from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import Pair, pair_label

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.formats.catalog import NumberFormat


@dataclass(frozen=True, slots=True)
class PredictOptions:
    """What every `predict` of one operator is told beside the shape."""

    hw: HardwareOption = "auto"
    formats: FormatsOption = None
    formats_file: FormatsFileOption = None
    show_all: AllOption = False
    plot: PlotOption = False
    as_json: JsonOption = False


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked of `predict` beside the shape, read."""

    hardware: Device
    hardware_name: str
    """The chip as it was typed: what `roofline hardware show` understands, too."""
    formats: list[str] | None
    """Those of --formats; None: the default ones, and the user's own."""
    user_formats: tuple[NumberFormat, ...]
    """Formats of --formats-file."""

    @classmethod
    def read(cls, options: PredictOptions) -> Request:
        """Register the user's formats and find the chip. Raises a `RooflineError` naming the option that is wrong."""
        check_plot(options.plot, options.as_json)
        user_formats = register_formats(options.formats_file)
        return cls(find_chip(options.hw), options.hw, split_list(options.formats), tuple(user_formats))

    def pairs(self, stored: str, activation: str) -> list[Pair] | None:
        """Return the pairs of --formats, or None when it was not given.

        Raises `InvalidValueError` where what is `stored` (weight, cache) is wider than the `activation` it meets:
        kernels widen what is stored narrower and narrow nothing. Most often the two were written in the other order.
        """
        from roofline_model.predictions.kernel import asked_pairs

        if self.formats is None:
            return None
        pairs = asked_pairs(self.hardware, self.formats)
        for pair in pairs:
            wide, narrow = pair
            if wide.element_bits > narrow.element_bits:
                raise InvalidValueError(
                    f"--formats {pair_label(pair)}: a {stored} in {wide.key} is wider than its {activation} in "
                    f"{narrow.key}, which "
                    f"no kernel computes; write {stored.upper()}.{activation.upper()}, e.g. {narrow.key}.{wide.key}, "
                    "or one format for both"
                )
        return pairs


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
