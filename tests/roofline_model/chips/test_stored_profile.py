"""A stored profile comes back as the chip it was, or is refused with the field that no chip has."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import pytest

from roofline_model.chips.hardware import Device, get_hardware, list_hardware
from roofline_model.chips.stored_profile import device_from_profile
from roofline_model.core.errors import DefinitionError, OtherVersionError
from roofline_model.ideal.roofline import predict
from roofline_model.operators.product import gemm

NO_VALUE_OF_A_CHIP = (None, "x", -1, 0, math.nan, 10**400, 1e-300, [], {}, True)
PROFILE = get_hardware("gb10").to_dict()
SHORT = {**PROFILE, "paths": {key: PROFILE["paths"][key] for key in ("FP16", "BF16", "INT2")}}
"""Three paths stand for their sisters: all formats have the same fields."""


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in nested tables and lists, the outermost first."""
    yield place
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in entries:
        yield from places(item, (*place, key))


def changed(place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    profile = copy.deepcopy(SHORT)
    part: Any = profile
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    return profile


@pytest.mark.parametrize("device", list_hardware(), ids=lambda device: device.key)
def test_a_profile_round_trips(device: Device) -> None:
    assert device_from_profile(device.to_dict()) == device


def test_any_field_of_any_value_is_refused_in_one_line_or_can_be_predicted_with() -> None:
    accepted, refusals = [], []
    for place in places(SHORT):
        for value in NO_VALUE_OF_A_CHIP:
            try:
                accepted.append(device_from_profile(changed(place, value)))
            except DefinitionError as error:
                refusals.append(str(error))
    assert accepted
    for device in accepted:
        if device.paths:
            predict(gemm(1, 4096, 4096), device)
    assert refusals
    assert all("\n" not in text and len(text) < 400 for text in refusals)


@pytest.mark.parametrize("value", ["x", -1, 0, math.nan, math.inf, 10**400, None, [], True])
@pytest.mark.parametrize(
    "place",
    [
        ("bandwidth", "value"),
        ("capacity", "value"),
        ("paths", "BF16", "dense", "value"),
        ("levels", 0, "capacity_bytes"),
    ],
)
def test_a_number_that_no_chip_has_is_named(place: tuple[Any, ...], value: object) -> None:
    with pytest.raises(DefinitionError) as caught:
        device_from_profile(changed(place, value), "profiles[0].profile")
    name = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place)
    assert str(caught.value).startswith(f"profiles[0].profile{name} is ")
    assert not isinstance(caught.value, OtherVersionError)


@pytest.mark.parametrize(
    ("place", "value"),
    [(("paths", "BF16", "compute_format"), []), (("paths", "BF16", "compute_format"), "FP9"), (("paths", "BF16"), "x")],
)
def test_a_path_that_leads_nowhere_is_named(place: tuple[Any, ...], value: object) -> None:
    with pytest.raises(DefinitionError, match=r"^profile\.paths\.BF16"):
        device_from_profile(changed(place, value))


def test_a_field_more_or_less_is_of_another_version() -> None:
    less = {name: value for name, value in PROFILE.items() if name != "bandwidth"}
    for profile in ({}, {**PROFILE, "colour": 1}, less, changed(("bandwidth", "unsure"), 1)):
        with pytest.raises(OtherVersionError):
            device_from_profile(profile)
