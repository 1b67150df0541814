"""What a worker's pytest must leave to pytest's own process: the terminal, report files, caches, counters, debuggers.

A worker is started with the user's own arguments, so that it collects the same tests. Everything in them, or in the
ini file, that writes, stops, draws or starts processes is switched off here, before pytest configures its plugins.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

_OFF: dict[str, Any] = {
    # files: junit, pytest's log file, pytest-benchmark, -html, -json-report, -reportlog, pastebin
    "xmlpath": None, "log_file": os.devnull, "htmlpath": None, "json_report": False, "report_log": None, "pastebin": None,
    "benchmark_json": None, "benchmark_save": None, "benchmark_autosave": None, "benchmark_compare": None, "benchmark_compare_fail": None,
    "benchmark_histogram": None, "benchmark_cprofile": None, "benchmark_only": False, "benchmark_enable": False, "benchmark_disable": True,
    # pytest's cache: selections by it are made by the parent; here they would select anew
    "lf": False, "failedfirst": False, "newfirst": False, "stepwise": False, "stepwise_skip": False, "stepwise_reset": False, "cacheclear": False,
    # when to stop is the parent's to say
    "maxfail": 0, "continue_on_collection_errors": True,
    # other processes, debuggers, displays
    "numprocesses": None, "dist": "no", "tx": [], "looponfail": False, "usepdb": False, "trace": False, "setupshow": False, "setupplan": False,
    "durations": None, "no_summary": True, "no_header": True,
    # ours: the run, its file and its counts belong to the parent
    "roofline_json": None, "roofline_require_measured": None, "roofline_processes": None, "roofline_isolate": "none", "roofline_profile": None,
}  # fmt: skip
_WRITERS_OF_THE_CACHE = ("lfplugin", "nfplugin", "stepwiseplugin", "stepwise")


def switch_off(config: pytest.Config, ordinal: int) -> None:
    """Switch off what is not a worker's; call it before `config` is configured."""
    known = vars(config.option)
    for name, value in _OFF.items():
        if name in known:
            setattr(config.option, name, value)
    if known.get("basetemp"):  # pytest empties that folder when it starts, and another process is using it
        config.option.basetemp = f"{config.option.basetemp}-worker-{ordinal}"


def drop_cache_writers(config: pytest.Config) -> None:
    """Remove the plugins that would write what this process, which ran only some tests, knows; call it once configured."""
    for name in _WRITERS_OF_THE_CACHE:
        plugin = config.pluginmanager.get_plugin(name)
        if plugin is not None:
            config.pluginmanager.unregister(plugin)
