"""Case identity: the id and the key are contracts that stored histories depend on."""

from __future__ import annotations

import re

import pytest

from roofline_model import InvalidValueError, gemm, gemv, grouped_gemm, history_key
from roofline_model.core.cost import OpCost
from roofline_model.operators.case import Case, short_hash
from roofline_model.operators.product import Operator


def w4a16() -> Case:
    return gemv(4096, 4096, a="BF16", b="INT4").case("tinygemm")


def test_the_id_of_the_design_document() -> None:
    assert w4a16().id == "1x4096x4096-w4a16-INT4.BF16-tinygemm-cold"


def test_the_key_is_frozen() -> None:
    # Changing this breaks every stored history: see DESIGN "Case identity" before you edit it.
    assert w4a16().case_key == short_hash(
        {
            "op": "gemv",
            "shape": {"M": 1, "N": 4096, "K": 4096},
            "formats": {"a": "BF16", "b": "INT4", "c": "BF16"},
            "kernel": "tinygemm",
            "mode": "eager",
            "cache": "cold",
        }
    )
    assert w4a16().case_key == "d3642721760bea83"


@pytest.mark.parametrize(
    "other",
    [
        gemv(4096, 4096, a="BF16", b="INT4").case("other"),
        gemv(4096, 4096, a="BF16", b="INT4").case("tinygemm", cache="warm"),
        gemv(4096, 4096, a="BF16", b="INT4").case("tinygemm", mode="graph"),
        gemv(4096, 4096, a="FP16", b="INT4").case("tinygemm"),
        gemv(4096, 4096, a="BF16", b="INT4", M=2).case("tinygemm"),
        gemv(4096, 8192, a="BF16", b="INT4").case("tinygemm"),
    ],
)
def test_every_field_is_part_of_the_identity(other: Case) -> None:
    assert other.case_key != w4a16().case_key
    assert other.id != w4a16().id


def test_a_case_survives_its_dictionary() -> None:
    case = gemm(512, 1024, 2048, a="INT8").case("int_mm", cache="none", mode="graph")
    again = Case.from_dict(case.to_dict())
    assert again == case
    assert again.id == "512x1024x2048-w8a8-INT8.INT8-int_mm-graph"


@pytest.mark.parametrize(
    ("a", "b", "label"),
    [("TF32", None, "w32a32"), ("NVFP4", None, "w4a4"), ("FP8", "INT4", "w4a8"), ("FP16", "INT8", "w8a16")],
)
def test_width_labels_count_the_container(a: str, b: str | None, label: str) -> None:
    assert gemm(64, 64, 64, a=a, b=b).case("matmul").width_label == label


def test_other_operators_list_their_formats_once() -> None:
    softmax = Operator("softmax", (("rows", 8), ("D", 128)), (("x", "BF16"), ("y", "BF16")), OpCost({"BF16": 1}, 1, 1))
    assert softmax.case("eager").id == "8x128-BF16-eager-cold"
    without_dimensions = Case("mine", (), (), "k")
    assert (without_dimensions.shape_label, without_dimensions.id) == ("", "k-cold")


@pytest.mark.parametrize("kernel", ["a b", "x/y", "ü", "a-b", "k[0]", "::"])
def test_ids_hold_only_safe_characters(kernel: str) -> None:
    case_id = gemm(64, 64, 64).case(kernel).id
    assert re.fullmatch(r"[A-Za-z0-9._x]+(-[A-Za-z0-9._x]+)*", case_id), case_id


def test_grouped_shapes_have_an_id() -> None:
    assert grouped_gemm([(3, 64, 32), (0, 64, 32)]).case("grouped").shape_label == "2x3x64x32"


@pytest.mark.parametrize("wrong", [{"cache": "hot"}, {"kernel": ""}, {"mode": ""}])
def test_wrong_fields_are_refused(wrong: dict[str, str]) -> None:
    arguments = {"op": "gemv", "shape": (), "formats": (), "kernel": "k", **wrong}
    with pytest.raises(InvalidValueError):
        Case(**arguments)  # type: ignore[arg-type]


def test_the_history_key_depends_on_all_four() -> None:
    first = history_key("c", "gb10", "1", "linux")
    others = [
        history_key("d", "gb10", "1", "linux"),
        history_key("c", "b200", "1", "linux"),
        history_key("c", "gb10", "2", "linux"),
        history_key("c", "gb10", "1", "mac"),
    ]
    assert len({first, *others}) == 5
    assert re.fullmatch("[0-9a-f]{16}", first)


def test_a_format_nobody_knows_leaves_the_width_out_of_the_id() -> None:
    case = Case("gemv", (("M", 1), ("N", 2), ("K", 3)), (("a", "BF16"), ("b", "Q9_X")), "mine")
    assert (case.width_label, case.id) == ("", "1x2x3-Q9_X.BF16-mine-cold")
