"""What the texts of this folder are taken of: one database of exported runs, 80 columns, no calibration of this
machine.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.amber import AmberSnapshotExtension

from results import open_store
from results.exchange.exported.load import import_file
from roofline_model.formats import catalog

ROOT = Path(__file__).parents[2]
EXPORTS = (
    *sorted((ROOT / "examples" / "runs" / "cpu-amd-epyc-2t").glob("*.json")),
    ROOT / "tests" / "results" / "every_part.json",
)


SLOWER_RATIO = 1.3
"""What the INT4 kernels of the later run take more."""


class TextsExtension(AmberSnapshotExtension):
    snapshot_dirname = "texts"


@pytest.fixture
def snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextsExtension)


@pytest.fixture(scope="session")
def stored_runs(tmp_path_factory) -> Path:
    """Return a folder with `bench.sqlite`: the runs of examples/, one of a released version, and one a night later."""
    folder = tmp_path_factory.mktemp("wording")
    later = folder / "later.json"
    later.write_text(json.dumps(_a_night_later(json.loads(EXPORTS[0].read_text(encoding="utf-8")))), encoding="utf-8")
    with open_store(str(folder / "bench.sqlite")) as store:
        for export in (*EXPORTS, later):
            import_file(store, export)
    return folder


def _a_night_later(document: dict[str, Any]) -> dict[str, Any]:
    """Return the exported run as one of the night after it in which the INT4 kernels are slower."""
    run_id = document["run"]["run_id"]
    text = json.dumps(document).replace(run_id, run_id[::-1]).replace('"calibrated"', '"later"')
    document = json.loads(text.replace("2026-11-22T", "2026-11-23T"))
    for record in document["records"]:
        record["record_id"] = record["record_id"][::-1]
        measurement = record["measurement"]
        if measurement is not None and record["case"]["formats"]["b"] == "INT4":
            for name in ("median_s", "min_s", "max_s", "mean_s", "std_s", "q1_s", "q3_s", "ci_low_s", "ci_high_s"):
                if measurement[name] is not None:
                    measurement[name] *= SLOWER_RATIO
            measurement["samples_s"] = [sample_s * SLOWER_RATIO for sample_s in measurement["samples_s"]]
    return document


@pytest.fixture
def in_folder(stored_runs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make that folder the working folder, far from this machine's calibration and settings."""
    monkeypatch.chdir(stored_runs)
    monkeypatch.setenv("ROOFLINE_CACHE", str(stored_runs / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("ROOFLINE_DB", raising=False)
    monkeypatch.setattr(catalog, "_USER_FORMATS", {})  # other tests register formats of their own
    return stored_runs
