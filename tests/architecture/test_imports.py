"""Who imports what: the model stays light, heavy packages have one home, the entry module touches nobody."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("roofline_model", "bench_cases", "plugin", "results", "reports", "roofline_cli")
SOURCES = [ROOT / "roofline_pytest.py", *(path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py")))]

# Package → the only places that may import it, at module level or inside a function.
HOMES = {
    "torch": (
        "bench_cases/",
        "plugin/timers/cuda.py",
        "plugin/timers/cuda_graph.py",
        "plugin/calibrate/cuda_ceilings.py",
        "plugin/machine/canary.py",
        "plugin/calibrate/cpu_ceilings.py",
        "plugin/timers/cache_state.py",
        "roofline_cli/machine/canary.py",  # the canary of a suite that uses torch is a product by torch
    ),
    "torchao": ("bench_cases/",),
    "transformers": ("bench_cases/",),
    "triton": ("bench_cases/",),
    "pynvml": ("plugin/sensors/nvml.py",),
    "sqlalchemy": ("results/",),
    "alembic": ("results/",),
    "psycopg": ("results/",),
    "matplotlib": ("reports/",),
    "plotly": ("reports/",),
    "jinja2": ("reports/",),
    "fastapi": ("reports/api/",),
    "uvicorn": ("reports/api/", "roofline_cli/"),
    "typer": ("roofline_cli/",),
    "rich": ("roofline_cli/", "reports/present/screen.py"),
    "pytest": ("roofline_pytest.py", "plugin/", "bench_cases/"),
    "pytest_benchmark": ("plugin/",),
}
MODEL_MAY_IMPORT = {"numpy", "ml_dtypes", "scipy", "pandas", "pyarrow", "tomllib"}
ARRAY_ROOMS = (
    "roofline_model/formats/codecs/",
    "roofline_model/expected/fitting/",
    "roofline_model/expected/attention/fitted/fit.py",
    "roofline_model/expected/attention/fitted/rows.py",
    "roofline_model/expected/products/fitted/fit.py",
    "roofline_model/expected/products/fitted/rows.py",
    "roofline_model/validation/",
    "roofline_model/sweep.py",
)
"""Modules of arrays through and through: numpy and ml_dtypes stand at their head; others import them on use."""

STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)
"""What may hold an import; an expression imports nothing."""


def imports(tree: ast.AST) -> Iterator[tuple[str, int, bool]]:
    """Yield (top-level package, line, is it inside a function) of each import that runs; typing-only ones do not."""

    def walk(node: ast.AST, is_inside: bool) -> Iterator[tuple[str, int, bool]]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.orelse:
                yield from walk(child, is_inside)
            return
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], node.lineno, is_inside) for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0], node.lineno, is_inside
        inside = is_inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, STATEMENTS):
                yield from walk(child, inside)

    yield from walk(tree, False)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def imports_of(path: Path) -> tuple[tuple[str, int, bool], ...]:
    return tuple(imports(ast.parse(path.read_text(encoding="utf-8"), str(path))))


def loaded_after(statement: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter holds after a statement."""
    code = f"import sys\n{statement}\nprint(' '.join(sorted({{name.split('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())


def test_the_model_imports_nothing_heavy():
    heavy = {"numpy", "torch", "pandas", "sqlalchemy", "scipy", "ml_dtypes", "matplotlib", "pytest", "rich", "typer"}
    assert not loaded_after("import roofline_model") & heavy


def test_predicting_a_gemv_imports_nothing_heavy():
    loaded = loaded_after(
        "import roofline_model\nassert roofline_model.predict_gemv and roofline_model.get_hardware('b10')"
    )
    assert not loaded & {"numpy", "torch", "pandas", "sqlalchemy"}


def test_the_entry_module_imports_only_the_standard_library_and_pytest():
    path = ROOT / "roofline_pytest.py"
    allowed = {*sys.stdlib_module_names, "pytest", "_pytest", "roofline_pytest_options"}
    for name, line, is_inside in imports_of(path):
        assert name in allowed or (name == "plugin" and is_inside), f"roofline_pytest.py:{line} imports {name}"
    options = imports_of(ROOT / "roofline_pytest_options.py")
    assert {name for name, _, _ in options} <= {*sys.stdlib_module_names}


def test_the_entry_module_loads_nothing_of_ours():
    loaded = loaded_after("import roofline_pytest")
    assert not loaded & {*PACKAGES, "numpy", "torch", "sqlalchemy"}


def test_heavy_packages_have_one_home():
    strays = [
        f"{relative(path)}:{line} imports {name}; its home is {', '.join(HOMES[name])}"
        for path in SOURCES
        for name, line, _ in imports_of(path)
        if name in HOMES and not relative(path).startswith(HOMES[name])
    ]
    assert not strays, "\n".join(strays)


def test_the_model_reads_only_the_standard_library_and_numbers():
    allowed = {*sys.stdlib_module_names, *MODEL_MAY_IMPORT, "roofline_model"}
    strays = [
        f"{relative(path)}:{line} imports {name}"
        for path in sorted((ROOT / "roofline_model").rglob("*.py"))
        for name, line, _ in imports_of(path)
        if name not in allowed
    ]
    assert not strays, "\n".join(strays)


def test_numpy_in_the_model_is_imported_on_use():
    strays = [
        f"{relative(path)}:{line} imports {name} at module level"
        for path in sorted((ROOT / "roofline_model").rglob("*.py"))
        for name, line, is_inside in imports_of(path)
        if name in MODEL_MAY_IMPORT - {"tomllib"} and not is_inside
        if name not in ("numpy", "ml_dtypes") or not relative(path).startswith(ARRAY_ROOMS)
    ]
    assert not strays, "\n".join(strays)


def test_answers_about_numbers_load_no_module_of_arrays():
    doors = "predictions.product, predictions.attention, predictions.ffn, predictions.model, recommend.model, recommend.shape"
    loaded = loaded_after("import " + ", ".join(f"roofline_model.{door}" for door in doors.split(", ")))
    assert not loaded & {"numpy", "ml_dtypes", "scipy", "pandas"}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch.nn", [("torch", 1, False)]),
        ("def f():\n    from torch import nn", [("torch", 2, True)]),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\nelse:\n    import json",
            [("typing", 1, False), ("json", 5, False)],
        ),
        ("from . import torch\nfrom .x import y", []),
        ("try:\n    import torch\nexcept ImportError:\n    pass", [("torch", 2, False)]),
    ],
)
def test_the_import_reader_itself(source, expected):
    assert list(imports(ast.parse(source))) == expected
