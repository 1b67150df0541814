"""Which chip or model a request means. Only names of the catalogs: nothing of a request ever becomes a path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated

from fastapi import Query, Request

from reports.api.catalog.this_machine import AUTO, ThisMachine, own_chip
from reports.api.http.problem import Location, naming
from roofline_model.chips.hardware import Device, list_hardware
from roofline_model.core.errors import UnknownNameError
from roofline_model.models.model_registry import list_models, shipped_model
from roofline_model.models.model_shapes import ModelShape

DEFAULT_CHIP = "gb10"

HardwareKey = Annotated[
    str,
    Query(
        min_length=1,
        max_length=60,
        description=(
            "chip of the catalog: key or alias, capitals and dashes do not count; GET /api/hardware lists them; auto, "
            "or its own key: this server's"
        ),
        examples=[DEFAULT_CHIP, "b10", "h100"],
    ),
]


@cache
def _chips() -> Mapping[str, Device]:
    """Return every chip by key and alias, squeezed; keys go before aliases."""
    chips = list_hardware()
    by_name = {_squeezed(chip.key): chip for chip in chips}
    for chip in chips:
        for alias in chip.aliases:
            by_name.setdefault(_squeezed(alias), chip)
    return by_name


def asked_chip(request: Request, name: str, field: str = "hardware_key", location: Location = "query") -> str:
    """Return what `find_chip` takes for the chip of a request: its key, or what stands for this machine's.

    This machine's is `auto`, and its own key where that is not a chip of the catalog. Ends the request with a problem
    that names the field where there is no such chip.
    """
    wanted = _squeezed(name)
    chip = _chips().get(wanted)
    if chip is not None:
        return chip.key
    machine: ThisMachine = request.app.state.service.this_machine
    if wanted == AUTO:
        return machine.handle(field, location)
    handle = machine.known_handle()
    here = own_chip(handle)
    if here is not None and _squeezed(here.key) == wanted:
        return handle
    return find_chip(name, field, location).key


def find_chip(name: str, field: str = "hardware_key", location: Location = "query") -> Device:
    """Return the chip of a key, an alias or a handle of `asked_chip`; ends the request with a problem otherwise."""
    chip = _chips().get(_squeezed(name)) or own_chip(name)
    if chip is not None:
        return chip
    with naming(field, location):
        choices = [
            *(device.key for device in list_hardware()),
            *(alias for device in list_hardware() for alias in device.aliases),
        ]
        raise UnknownNameError(
            "hardware", name, choices, fix=f"GET /api/hardware lists them; {AUTO} is the chip of this server."
        )


def find_model(name: str) -> ModelShape:
    """Return the shipped model of a name; ends the request with a problem otherwise."""
    shape = shipped_model(name)
    if shape is not None:
        return shape
    with naming("key", "path"):
        raise UnknownNameError(
            "model", name, [model.name for model in list_models()], fix="GET /api/models lists them."
        )


def _squeezed(name: str) -> str:
    return re.sub(r"[-_\s]", "", name.lower())
