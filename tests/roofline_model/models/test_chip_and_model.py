"""The chip comes first and the model second; the other way round is said in one line."""

from __future__ import annotations

import inspect

import pytest

import roofline_model
from roofline_model import InvalidValueError, get_hardware, get_model, predict_model, recommend_model


def functions_of_a_chip_and_a_model() -> list[str]:
    public = {name: getattr(roofline_model, name) for name in dir(roofline_model)}
    functions = {name: value for name, value in public.items() if inspect.isfunction(value)}
    return [
        name
        for name, function in functions.items()
        if {"hardware", "model"} <= set(inspect.signature(function).parameters)
    ]


@pytest.mark.parametrize("name", functions_of_a_chip_and_a_model())
def test_every_public_function_names_swapped_arguments(name: str) -> None:
    further = {"model_problem": ({},)}
    with pytest.raises(InvalidValueError, match="the chip comes first and the model second"):
        getattr(roofline_model, name)("llama-3.1-8b", "gb10", *further.get(name, ()))


def test_the_functions_of_a_chip_and_a_model_are_seen() -> None:
    assert {"predict_model", "recommend_model"} <= set(functions_of_a_chip_and_a_model())


@pytest.mark.parametrize("answer", [predict_model, recommend_model])
@pytest.mark.parametrize(
    ("first", "second"),
    [("llama-3.1-8b", "gb10"), (get_model("llama-3.1-8b"), "dgx-spark"), ("llama-3.1-8b", get_hardware("gb10"))],
)
def test_swapped_arguments_are_named(answer, first, second) -> None:
    with pytest.raises(InvalidValueError, match="the chip comes first and the model second") as raised:
        answer(first, second)
    assert "\n" not in str(raised.value)


def test_dir_shows_the_public_names_alone_and_each_can_be_had() -> None:
    assert dir(roofline_model) == sorted(roofline_model.__all__)
    assert all(getattr(roofline_model, name) is not None for name in dir(roofline_model))
