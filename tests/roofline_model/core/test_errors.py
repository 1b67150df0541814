"""The error tree: one line each, a slug, the nearest names, nothing from the user printed raw."""

from __future__ import annotations

import copy
import pickle

import pytest

from roofline_model.core import errors
from roofline_model.core.errors import RooflineError, UnknownNameError, nearest_names


@pytest.mark.parametrize(
    ("error", "also", "slug"),
    [
        (errors.InvalidValueError("M must be positive"), ValueError, "invalid-value"),
        (errors.DefinitionError("file: field"), ValueError, "definition"),
        (errors.UnsupportedError("no FP8"), RooflineError, "unsupported"),
        (errors.StoreError("locked"), RooflineError, "store"),
        (errors.MissingDependencyError("torch", "measure", "measuring"), ImportError, "missing-dependency"),
        (UnknownNameError("format", "INT5", ["INT4", "INT8"]), KeyError, "unknown-format"),
    ],
)
def test_every_error_is_a_roofline_error_with_its_slug(error: RooflineError, also: type, slug: str) -> None:
    assert isinstance(error, RooflineError)
    assert isinstance(error, also)
    assert error.slug == slug
    assert "\n" not in str(error)


def test_an_unknown_name_shows_what_was_asked_the_nearest_and_all_known() -> None:
    error = UnknownNameError("hardware", "gb11", ["gb10", "b200", "h100-sxm"], fix="See the list.")
    assert str(error) == "unknown hardware 'gb11'. Did you mean gb10? See the list."


def test_a_long_list_is_cut_and_counted() -> None:
    text = str(UnknownNameError("model", "zzz", [f"model-{i:02d}" for i in range(40)]))
    assert "model-23" in text
    assert "model-24" not in text
    assert "(40 in all)" in text


def test_a_hostile_name_is_cut_and_made_printable() -> None:
    text = str(UnknownNameError("format", "\x1b[31m\n" + "A" * 500, ["INT8"]))
    assert "\x1b" not in text
    assert "\n" not in text
    assert len(text) < 200


def test_missing_dependency_holds_the_install_command() -> None:
    assert "pip install -e '.[measure]'" in str(errors.MissingDependencyError("torch", "measure", "measuring"))


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("h10", "h100"), ("H100", "h100"), ("orin", "orin-agx-64gb"), ("l40", "l40s")],
)
def test_nearest_names(name: str, nearest: str) -> None:
    assert nearest in nearest_names(name, ["h100", "h200", "orin-agx-64gb", "l40s", "l4"])


@pytest.mark.parametrize(
    "error",
    [
        UnknownNameError("format", "INT5", ["INT4", "INT8"], fix="See the list."),
        errors.MissingDependencyError("torch", "measure", "measuring"),
        errors.DefinitionError("file: field"),
        errors.OldSchemaError("x"),
    ],
)
def test_errors_survive_pickling_and_copying(error: RooflineError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert type(again) is type(error)
        assert (str(again), again.slug, again.args) == (str(error), error.slug, error.args)


@pytest.mark.parametrize(
    ("name", "names", "nearest"),
    [
        ("a10", ["a100-sxm-80gb", "a100", "b10", "h100"], ["a100", "b10"]),
        ("llama-9b", ["llama-3-8b", "llama-3-70b", "qwen3-8b"], ["llama-3-8b"]),
        ("gemmv", ["attention", "gemm", "gemv"], ["gemm", "gemv"]),
        ("nvpf4", ["NVFP4", "INT8"], ["NVFP4"]),
    ],
)
def test_the_nearest_name_is_the_fewest_edits_away(name: str, names: list[str], nearest: list[str]) -> None:
    assert nearest_names(name, names)[: len(nearest)] == nearest


def test_an_alias_may_be_the_nearest_and_is_never_listed() -> None:
    assert UnknownNameError("hardware", "dgx-spar", ["gb10"], aliases=["dgx-spark"]).nearest == ("dgx-spark",)
    assert "dgx-spark" not in str(UnknownNameError("hardware", "nowhere", ["gb10"], aliases=["dgx-spark"]))
