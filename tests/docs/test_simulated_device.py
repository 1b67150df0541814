"""docs/reference/simulated_device.md: every setting, with the default that the code has."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from plugin.simulate.simulated_settings import FAULTS, KINDS, REFUSALS, SimulatedSettings

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "simulated_device.md").read_text(encoding="utf-8")


def rows():
    for line in TEXT.splitlines():
        if line.startswith("| `"):
            names, _, defaults, _ = (cell.strip() for cell in line.strip("|").split("|"))
            yield from zip(re.findall(r"`(\w+)`", names), defaults.split(", "), strict=True)


def test_every_setting_is_there_once_and_no_other():
    assert sorted(name for name, _ in rows()) == sorted(field.name for field in fields(SimulatedSettings))


def test_defaults_are_those_of_the_code():
    where_needed = {"clock": 2e9, "power": 300.0, "sensor_period": 0.1, "energy_step": 0.1}
    for name, shown in rows():
        value = where_needed.get(name, getattr(SimulatedSettings(), name))
        if isinstance(value, str):
            assert shown == value, name
        elif value in (None, ()):
            assert shown == "–", name
        else:
            assert float(shown.replace("∞", "inf")) == value, name


def test_every_word_a_setting_takes_is_named():
    for word in (*KINDS, *FAULTS, *REFUSALS):
        assert word in TEXT, word
