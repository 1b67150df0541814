"""What a shell offers after Tab for the value of an option: chips, models, formats.

Keys and what people type for them.
"""

from __future__ import annotations


def chips(incomplete: str) -> list[str]:
    """Return the chips whose key or alias begins so; the last of a comma-separated list is completed."""
    from roofline_model.chips.hardware import list_hardware

    names = (name for device in list_hardware() for name in (device.key, *device.aliases))
    return _last_of_list(incomplete, [*names, "auto"])


def models(incomplete: str) -> list[str]:
    """Return the shipped models whose name begins so."""
    from roofline_model.models.model_registry import list_models

    return _last_of_list(incomplete, [model.name for model in list_models()])


def formats(incomplete: str) -> list[str]:
    """Return the formats whose key or alias begins so; the last of a comma-separated list is completed."""
    from roofline_model.formats.catalog import FORMATS

    return _last_of_list(
        incomplete, [name for number_format in FORMATS.values() for name in (number_format.key, *number_format.aliases)]
    )


def engines(incomplete: str) -> list[str]:
    """Return the engines whose key begins so; the last of a comma-separated list is completed."""
    from roofline_model.engines.engine import engine_names

    return _last_of_list(incomplete, list(engine_names()))


def _last_of_list(incomplete: str, names: list[str]) -> list[str]:
    last = incomplete.rpartition(",")[2]
    # As it was typed, then the rest: a shell drops what does not begin with the very letters.
    return [f"{incomplete}{name[len(last) :]}" for name in names if name.lower().startswith(last.lower())]
