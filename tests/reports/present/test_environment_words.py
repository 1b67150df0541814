"""The environment in plain words: what is a size, a clock or a load reads like one, and everything else is left
alone.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.present.display_text import change_words, environment_words, fact_text, fact_words, saved_share
from reports.view.views import report_view
from results.records.records import EnvironmentInfo


@pytest.mark.parametrize(
    ("key", "text", "words", "shown"),
    [
        ("cpu_cache_bytes", "33554432", "CPU cache", "33.55 MB"),
        ("memory_bytes", "25276502016", "memory", "25.28 GB"),
        ("load_1min", "0.43212890625", "load before the run (1 minute)", "0.43"),
        ("cpu_max_clock_hz", "2596134000.0", "CPU max clock", "2.596 GHz"),
        ("power_limit_w", "700.0", "power limit", "700 W"),
        ("cpu_quota_ratio", "0.5", "CPU quota", "50 %"),
        ("smt", "False", "SMT (two threads per core)", "no"),
        ("swap_used_bytes", "0", "swap used", "0 B"),
        ("python", "3.11.7", "Python", "3.11.7"),
        ("driver", "580", "driver", "580"),
        ("memory_bytes", "–", "memory", "–"),
        ("load_1min", "nan", "load before the run (1 minute)", "nan"),
        ("git.commit", "7e1", "git, commit", "7e1"),
    ],
)
def test_facts_read_like_facts(key, text, words, shown):
    assert environment_words([(key, text)]) == [(words, shown)]


def test_a_change_reads_like_facts():
    assert change_words("numa_node_count", "unknown", "1") == "NUMA nodes unknown → 1"
    assert change_words("swap_used_bytes", "unknown", "0") == "swap used unknown → 0 B"


@given(st.text(max_size=50), st.text(max_size=50))
def test_any_fact_of_anybody_is_shown(key, text):
    assert isinstance(fact_words(key), str)
    assert isinstance(fact_text(key, text), str)


def test_the_view_keeps_the_raw_facts(make):
    run = make.run(environment=EnvironmentInfo({"memory_bytes": 1024}, {}))
    assert report_view(run, []).environment == (("memory_bytes", "1024"),)


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.75, "75 %"), (0.0, "0 %"), (-1.0, "2× bytes"), (-3.0, "4× bytes"), (None, "–")]
)
def test_bytes_that_grow_are_not_called_saved(ratio, text):
    assert saved_share(ratio) == text
