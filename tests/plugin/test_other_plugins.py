"""Beside other people's plugins of pytest, each really installed: our cases are measured, and theirs do their work.

The plugins lie in a folder of the environment (`[dependency-groups] other-plugins`), which only the processes started
here have on their path; pytest-xdist and pytest-timeout are in the environment itself.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

OTHER_PLUGINS = Path(sys.prefix) / "other-plugins"
INSTALLED = {"asyncio", "cov", "html", "metadata", "randomly", "rerunfailures", "repeat", "sugar", "timeout", "xdist"}

pytestmark = pytest.mark.skipif(
    not OTHER_PLUGINS.is_dir(), reason=f"{OTHER_PLUGINS} is missing: `make test` installs other people's plugins there"
)

SUITE = """
    import asyncio
    import random
    from pathlib import Path

    import pytest

    from roofline_model import OpCost

    WORK = OpCost(read_bytes=1e6)
    HERE = Path(__file__).parent

    @pytest.mark.parametrize("size", [1, 2])
    def test_kernel(roofline, size):
        roofline.measure(lambda: None, work=WORK, name=f"size{size}")

    @pytest.mark.flaky(reruns=2)
    def test_flaky(roofline):
        roofline.measure(lambda: None, work=WORK, name="flaky")
        if not (HERE / "tried").exists():
            (HERE / "tried").touch()
            pytest.fail("the first time only")

    def test_draws(roofline):
        roofline.measure(lambda: None, work=WORK, name="draws")
        with open(HERE / "drawn", "a") as file:
            print(random.random(), file=file)

    @pytest.mark.asyncio
    async def test_waits():
        await asyncio.sleep(0)

    @pytest.mark.asyncio
    async def test_waits_and_measures(roofline):
        await asyncio.sleep(0)
        roofline.measure(lambda: None, work=WORK, name="async")
    """
SIMULATED = ("--hw", "b10", "--roofline-timer", "simulated")
IN_WORKERS = (*SIMULATED, "--roofline-processes", "1")
CASES = {"size1", "size2", "flaky", "draws", "async"}

# What is said to the other plugins → how many tests pass then, and what they leave behind.
ROWS = {
    "installed only": ((), 6, None),
    "repeat, timeout, rerunfailures and html": (
        ("--count", "2", "--timeout", "60", "--reruns", "1", "--html", "page.html"), 12, "page.html"
    ),
    "cov": (("--cov", "."), 6, ".coverage"),
    "sugar": (("-v", "--force-sugar"), 6, None),
}  # fmt: skip


@pytest.fixture
def suite(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(OTHER_PLUGINS))
    pytester.makepyfile(test_suite=SUITE)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    return pytester


def outcome(result):
    """Return the counts by outcome; pytest-sugar writes them below each other."""
    counts = re.findall(r"(\d+) (passed|failed|error|skipped|rerun)", result.stdout.str().rpartition(" → ")[2])
    return {name: int(count) for count, name in counts}


@pytest.mark.parametrize("row", ROWS)
def test_beside_other_plugins_each_case_is_measured_in_its_worker(suite, row):
    options, passed, leaves = ROWS[row]
    result = suite.runpytest_subprocess(*IN_WORKERS, "--roofline-json", "run.json", *options)
    assert result.ret == 0
    plugins = next(line for line in result.outlines if line.startswith("plugins: "))
    assert not {name for name in INSTALLED if f"{name}-" not in plugins}
    assert outcome(result) == {"passed": passed, "rerun": 1}
    records = json.loads((suite.path / "run.json").read_text())["records"]
    assert {record["case"]["kernel"] for record in records if record["status"] == "measured"} == CASES
    assert leaves is None or (suite.path / leaves).exists()


def test_beside_other_plugins_xdist_measures_too(suite):
    result = suite.runpytest_subprocess(*SIMULATED, "-n", "1")
    assert result.ret == 0
    assert outcome(result) == {"passed": 6, "rerun": 1}
    result.stdout.fnmatch_lines(["roofline: gw0: 5 measured*"])


def test_a_seed_that_a_plugin_settled_is_the_workers_too(suite):
    said = suite.runpytest_subprocess(*IN_WORKERS, "-k", "draws").stdout.str()
    seed = said.partition("--randomly-seed=")[2].split()[0]
    suite.runpytest_subprocess(*IN_WORKERS, "-k", "draws", f"--randomly-seed={seed}")
    first, second = (suite.path / "drawn").read_text().split()
    assert first == second
