"""Whole transformers models, 16-bit and quantised with torchao: decode steps and prefills with memory and quality."""

from __future__ import annotations

from typing import Any

import pytest

from bench_cases.models.measure_model import measure_model
from bench_cases.models.model_cases import ModelCase


def test_model_quant(roofline: Any, model_case: ModelCase, pytestconfig: pytest.Config) -> None:
    plugin: Any = pytestconfig.pluginmanager.get_plugin("roofline_pytest")
    measure_model(roofline, model_case, text_path=plugin.options(pytestconfig).text_path)
