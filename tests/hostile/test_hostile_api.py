"""A server of its own process under many clients at once: no answer is a fault, health stays well, SIGTERM ends it."""

from __future__ import annotations

import collections
import contextlib
import http.client
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import quote, urlsplit

import diff_runs
import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'roofline-bench[api]'")

ROOT = Path(__file__).parents[2]
THREADS = 50
ENDED_WITHIN_S = 2.0
HOSTILE = "</script> \u202e\"'&/.."
SWEEP = {"M": [1, 8, 64, 512], "N": [1024, 4096], "K": [1024, 4096], "formats": ["FP16", "INT8", "FP8"]}
VALUES = {
    "run": ("latest", "a", "b", "nobody", HOSTILE),
    "key": ("gb10", "h100", "llama-3.1-8b", "nobody"),
    "name": ("roofline", "speed", "nobody"),
    "case_key": ("0" * 16, "nobody"),
}
QUERIES = {
    "/api/runs": ("", "?limit=1", "?limit=0", "?offset=9"),
    "/api/runs/{run}/cases": ("", "?limit=2&offset=1", "?words=gemv", "?status=nobody"),
    "/api/runs/{run}/fastest": ("", "?M=1&N=4096&K=4096"),
    "/api/recommendations": ("", "?hardware_key=gb10", "?M=1", "?force=true"),
    "/api/diff": ("?before=a&after=b", "", "?before=nobody&after=b"),
}


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile-api") / "results.db"
    diff_runs.stored(path, *diff_runs.pair({3: 0.1}))
    return path


@pytest.fixture
def server(database):
    with serving(database) as served:
        yield served


@contextlib.contextmanager
def serving(database):
    """A process of `roofline serve` and its address."""
    command = [sys.executable, "-m", "roofline_cli", "serve", "--port", "0", "--json", "--db", str(database)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ROOFLINE_TOKEN": ""}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        printed = ""
        while not printed.rstrip().endswith("}"):
            line = process.stdout.readline()
            assert line, process.stderr.read()
            printed += line
        yield process, urlsplit(json.loads(printed)["url"]).netloc
    finally:
        process.kill()
        process.communicate()


def every_get(address):
    """Return addresses of every GET of the schema, right ones and wrong ones."""
    status, body = ask(http.client.HTTPConnection(address, timeout=60), "GET", "/api/openapi.json")
    assert status == 200
    for path, operations in json.loads(body)["paths"].items():
        if "get" in operations:
            names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
            for values in itertools.product(*(VALUES[name] for name in names)):
                given = {name: quote(value, safe="") for name, value in zip(names, values, strict=True)}
                for query in QUERIES.get(path, ("",)):
                    yield path.format(**given) + query


def ask(connection, method, path, body=None):
    headers = {} if body is None else {"Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def load(address, paths, most):
    """Ask `most` times from many threads, sweeps among them; return how often each status came, and every fault."""
    turns, lock = itertools.cycle(paths), threading.Lock()
    statuses, faults = collections.Counter(), []

    def client(number):
        connection = http.client.HTTPConnection(address, timeout=60)
        for turn in range(most // THREADS):
            with lock:
                path = next(turns)
            is_sweep = number % 10 == 0 and turn % 5 == 0
            # Health is asked by every monitor at once: it is the one answer that may never depend on the others.
            path = "/api/sweep" if is_sweep else "/api/health" if turn % 3 == 0 else path
            status, body = ask(connection, *(("POST", path, SWEEP) if is_sweep else ("GET", path)))
            with lock:
                statuses[status] += 1
                if status >= 500:
                    faults.append((path, status, body[:200]))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses, faults


@pytest.mark.parametrize("most", [200, pytest.param(20_000, marks=pytest.mark.full)])
def test_no_answer_is_a_fault_whoever_else_asks(server, most):
    _, address = server
    statuses, faults = load(address, sorted(set(every_get(address))), most)
    assert faults == []
    assert statuses.total() == most
    assert statuses[200] > most / 2


def end_s(process):
    """Return how many seconds a server takes to end by SIGTERM."""
    asked_at_s = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(50) == 0
    return time.monotonic() - asked_at_s


def test_sigterm_ends_it_with_open_requests_and_a_sweep(server, database):
    """A busy machine stretches the idle server's end too."""
    with serving(database) as (idle, _):
        idle_s = end_s(idle)
    process, address = server
    open_ones = [http.client.HTTPConnection(address, timeout=60) for _ in range(4)]
    for connection in open_ones:
        body = json.dumps({**SWEEP, "M": list(range(1, 2_001))})
        connection.request("POST", "/api/sweep", body, {"Content-Type": "application/json"})
    assert ask(http.client.HTTPConnection(address, timeout=60), "GET", "/api/health")[0] == 200
    assert end_s(process) < max(ENDED_WITHIN_S, 5 * idle_s)
    assert process.stderr.read() == ""
