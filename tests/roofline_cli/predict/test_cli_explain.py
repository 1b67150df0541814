"""`roofline explain`: every code of the catalog, by severity, in the terminal and in JSON."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_model.core.finding import SEVERITIES, catalog

runner = CliRunner()


def explained(*arguments):
    done = runner.invoke(app, ["explain", *arguments], env={"COLUMNS": ""})
    assert done.exit_code == 0, done.output
    return done.stdout


def test_without_a_code_all_are_listed_most_severe_first():
    listed = json.loads(explained("--json"))["codes"]
    assert {each["code"] for each in listed} == set(catalog())
    places = [SEVERITIES.index(each["severity"]) for each in listed]
    assert places == sorted(places)
    text = explained()
    assert all(code in text for code in catalog())


@pytest.mark.parametrize("codes", ["kernel-gap", "KERNEL-GAP"])
def test_a_code_is_explained(codes):
    (entry,) = json.loads(explained(codes, "--json"))["codes"]
    assert entry["code"] == "kernel-gap"
    assert entry["values"] == ["hardware"]
    assert "capability" in entry["optional_values"]
    text = explained(codes)
    assert entry["explanation"].split(".")[0] in " ".join(text.split())


def test_no_line_shows_the_names_of_values_that_nobody_gave():
    assert explained("contended").splitlines()[1] == (
        "other processes or threads used more than 10 % of the CPUs: times are too long"
    )
    assert "Fix: run again when `roofline doctor` calls the machine quiet\n" in explained("machine-state-invalid")
    assert "… is a placeholder chip" in explained()
    assert not re.search(r"\{\w+\}", explained() + explained("kernel-gap"))


def test_an_unknown_code_names_those_that_come_near():
    done = runner.invoke(app, ["explain", "kernel-gab"])
    assert done.exit_code == 2
    assert "kernel-gap" in done.output
