"""The interactive report: seconds to make it, its size, and how soon it answers in a browser, of 20 and of 5,000
cases.
"""

from __future__ import annotations

import random
import shutil
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks.store.sample_record import STARTED_AT, measured_record, run_info
from benchmarks.timing.rows import Figure, Row
from reports.page.html import scripts, write_report
from results.records.records import HardwareProfile, Record, RunInfo
from results.store.store import open_store
from roofline_model import gemm, get_hardware, predict

SIZES = {20: (3.0, 2.5, None), 5_000: (8.0, 12.0, 2.0)}
"""Cases → aims: seconds to make the files, megabytes of the page, seconds until it answers."""
OWN_AIM_MB = 0.3
"""Of a page of 20 cases, what is not the vendored bundle."""
QUICK_CASES = 200
KERNELS = (
    ("BF16", "BF16", "matmul"),
    ("FP8_E4M3", "FP8_E4M3", "scaled_mm_row"),
    ("INT8", "INT8", "int_mm"),
    ("INT4", "BF16", "tinygemm"),
)
MEGA = 1e6


def measure(folder: Path, *, quick: bool) -> list[Row | Figure]:
    """Write each report several times, and open it in a browser where there is one; medians over rounds."""
    rows: list[Row | Figure] = []
    rounds = 1 if quick else 5
    for count, (aim_s, aim_mb, aim_open_s) in SIZES.items():
        cases = min(count, QUICK_CASES) if quick else count
        page, seconds = _written(folder / str(count), cases, rounds)
        size_mb = page.stat().st_size / MEGA
        rows.append(Row(f"report of {cases:,} cases, made", median(seconds), rounds, aim_s))
        rows.append(Figure(f"report of {cases:,} cases, megabytes", size_mb, 1, "count", None, aim_mb))
        if count == min(SIZES):
            bundle_mb = len(scripts()[0].encode("utf-8")) / MEGA
            rows.append(
                Figure(
                    f"report of {cases:,} cases, megabytes of ours", size_mb - bundle_mb, 1, "count", None, OWN_AIM_MB
                )
            )
        opened = _opened(page, rounds)
        if opened:
            note = "from opening the file to a page that answers"
            rows.append(Row(f"report of {cases:,} cases, opened", median(opened), len(opened), aim_open_s, note=note))
    return rows


def records_of(run: RunInfo, count: int) -> list[Record]:
    """Return `count` measured cases with ideal and expected times: shapes of a model's layers in four formats."""
    chip, source = get_hardware("gb10"), random.Random(count)
    sample, records = measured_record(run.run_id), []
    for number in range(count):
        rows, columns = (1, 8, 512, 2048)[number // 4 % 4], 1024 + 64 * (number // 16)
        weight, activation, kernel = KERNELS[number % 4]
        work = gemm(rows, columns, 4096, a=activation, b=weight)
        ideal = replace(sample.predictions[0], **_terms(work, chip))
        median_s = ideal.time_s / source.uniform(0.5, 0.85)
        expected = replace(
            ideal, kind="expected", time_s=ideal.time_s / 0.7, low_s=ideal.time_s / 0.8, high_s=ideal.time_s / 0.6
        )
        measured = replace(
            sample.measurement,
            median_s=median_s,
            ci_low_s=median_s * 0.99,
            ci_high_s=median_s * 1.01,
            samples_s=tuple(median_s * source.gauss(1, 0.01) for _ in range(100)),
        )
        errors = [replace(prediction, error_ratio=prediction.time_s / median_s - 1) for prediction in (ideal, expected)]
        records.append(
            replace(
                sample,
                record_id=f"{source.getrandbits(128):032x}",
                case=work.case(kernel),
                measurement=measured,
                predictions=tuple(errors),
                created_at=STARTED_AT,
            )
        )
    return records


def _terms(work, chip) -> dict[str, object]:  # type: ignore[no-untyped-def]
    made = predict(work, chip)
    return {
        "hardware_key": chip.key,
        "profile_hash": chip.content_hash,
        "time_s": made.time_s,
        "memory_time_s": made.memory_time_s,
        "compute_time_s": made.compute_time_s,
        "bound": made.bound,
        "flops": made.flops,
        "read_bytes": made.read_bytes,
        "write_bytes": made.write_bytes,
        "bandwidth_bytes_per_s": made.bandwidth_bytes_per_s,
        "peak_flops_per_s": made.peak_flops_per_s,
        "compute_format": made.compute_format,
        "path": made.path,
        "memory_level": made.memory_level,
        "provenance": made.provenance,
        "findings": made.findings,
    }


def _written(folder: Path, count: int, rounds: int) -> tuple[Path, list[float]]:
    """Write the report of a stored run, matplotlib already imported: the page, and the seconds of each round."""
    folder.mkdir()
    run, chip = replace(run_info(), status="complete", label="benchmark"), get_hardware("gb10")
    profile = HardwareProfile(chip.key, chip.name, chip.content_hash, chip.to_dict())
    with open_store(folder / "results.db") as store:
        store.add_run(run, [profile], records_of(run, count))
        stored = store.resolve_run(run.run_id)
        seconds = []
        for _ in range(rounds):
            begin = time.perf_counter()
            files = write_report(store, stored, folder / "report.html")
            seconds.append(time.perf_counter() - begin)
    return files.html, seconds


def _opened(page: Path, rounds: int) -> list[float]:
    """Return the seconds from opening the page to its answering, fresh each time; empty without chromium and
    playwright.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return []
    if program is None:
        return []
    rows = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for _ in range(rounds):
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            tab.goto(page.as_uri())
            tab.wait_for_selector("html[data-ready]", state="attached")
            rows.append(float(tab.evaluate("document.documentElement.dataset.ready")) / 1000)
            tab.close()
        browser.close()
    return rows
