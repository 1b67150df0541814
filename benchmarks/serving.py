"""`roofline serve` under load: a real server process, 50 open connections that offer 300 requests a second, whatever comes back.

Open loop: request n is due at n / 300 s, and its latency counts from then, also when every connection was busy. The client
is another process on the same machine, so both share its cores.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from benchmarks.interleave import child_environment
from benchmarks.rows import Row

CONNECTIONS = 50
REQUESTS_PER_S = 300
SWEEP_POINTS = 100_000
WARM_UP_S = 3.0
"""The server imports the rest and starts its workers in the first seconds; that is in no figure but `start to first`."""

READY_AIM_S = 2.0
ANALYZE_AIM_S, RECOMMEND_AIM_S = 10e-3, 25e-3
ANALYZE_SERVER_AIM_S, RECOMMEND_SERVER_AIM_S = 1e-3, 5e-3
SWEEP_AIM_S = 1.0

ROWS = (1, 8, 64, 512, 2048)
LAYERS_OF_MODELS = (
    (4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336), (8192, 8192), (10240, 8192), (57344, 8192), (8192, 28672),
    (5120, 5120), (27648, 5120), (5120, 13824), (3072, 3072), (16384, 3072), (3072, 8192), (2048, 2048), (16384, 2048),
)  # fmt: skip
"""(N, K) of the layers of common models of 2 to 70 billion parameters."""
CHIPS = ("gb10", "h100", "b200", "l4")


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of the load."""

    path: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer: from when it was due, and what the server says it spent."""

    kind: str
    latency_s: float
    server_s: float


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Start servers, load one, and sweep beside the load."""
    seconds, starts = (2, 1) if quick else (20, 5)
    ready = [_time_to_ready(folder) for _ in range(starts)]
    with _server(folder) as url:
        source = random.Random(7)
        questions = _known_questions()
        time.sleep(WARM_UP_S)
        asyncio.run(_asked_once(url))
        new = asyncio.run(_offered(url, [_distinct(source, n) for n in range(seconds * REQUESTS_PER_S)]))
        known = asyncio.run(_offered(url, [source.choice(questions) for _ in range(seconds * REQUESTS_PER_S)]))
        beside, sweeps = asyncio.run(_beside_sweeps(url, [source.choice(questions) for _ in range(seconds * REQUESTS_PER_S)]))  # fmt: skip
    where = f"{CONNECTIONS} connections, {REQUESTS_PER_S} requests/s"
    return [
        Row("roofline serve: start to first analysis", median(ready), starts, READY_AIM_S, note="a fresh process each; the health check is sooner"),
        *_latency_rows(" of new shapes", new, note=f"{where}; every request another shape, so nothing is answered from memory; the client shares the cores"),
        *_latency_rows(" of known shapes", known, note=f"{where}; {len(questions)} questions in all, each asked once before: answered from memory"),
        *_server_rows(new),
        *_latency_rows(" of known shapes while a sweep runs", beside, note=f"{where}; sweeps of {SWEEP_POINTS:,} points follow each other meanwhile"),
        Row(f"a sweep of {SWEEP_POINTS:,} points beside that load", median(sweeps), len(sweeps), None, note="whole answer received"),
        Row(f"a sweep of {SWEEP_POINTS:,} points alone", _sweep_alone(folder, 2 if quick else 7), 2 if quick else 7, SWEEP_AIM_S, note="ideal and expected times with intervals, whole answer received"),
    ]  # fmt: skip


def _latency_rows(what: str, answers: Sequence[Answered], *, note: str) -> list[Row]:
    found = []
    for kind, aim_s in (("analyze", ANALYZE_AIM_S), ("recommend", RECOMMEND_AIM_S)):
        times = [one.latency_s for one in answers if one.kind == kind]
        found.append(Row(f"p99 of {kind}{what}", _quantile(times, 0.99), len(times), aim_s, note=f"median {median(times) * 1e3:.2f} ms; {note}"))  # fmt: skip
    return found


def _server_rows(answers: Sequence[Answered]) -> list[Row]:
    found = []
    for kind, aim_s in (("analyze", ANALYZE_SERVER_AIM_S), ("recommend", RECOMMEND_SERVER_AIM_S)):
        times = [one.server_s for one in answers if one.kind == kind]
        found.append(Row(f"server time of {kind}", median(times), len(times), aim_s, note=f"p99 {_quantile(times, 0.99) * 1e3:.2f} ms; Server-Timing of the same load, every shape new"))  # fmt: skip
    return found


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# Requests ----------------------------------------------------------------------------------------------------------


def _known_questions() -> list[Asked]:
    """Return every question about the layers of the models: analyze and recommend in turn."""
    shapes = [(rows, *layer, chip) for rows in ROWS for layer in LAYERS_OF_MODELS for chip in CHIPS]
    return [_asked(number, (m, n, k), chip) for m, n, k, chip in shapes for number in range(2)]


def _distinct(source: random.Random, number: int) -> Asked:
    shape = (source.choice(ROWS), 64 * source.randint(8, 512), 64 * source.randint(8, 512))
    return _asked(number, shape, source.choice(CHIPS))


def _asked(number: int, shape: tuple[int, int, int], chip: str) -> Asked:
    """Return analyze and recommend in turn."""
    body = dict(zip("MNK", shape, strict=True))
    kind = ("analyze", "recommend")[number % 2]
    return Asked(f"/api/{kind}?hardware_key={chip}", json.dumps(body).encode())


def _sweep() -> Asked:
    body = {"M": "1:1000:1", "N": "128:12800:128", "K": 4096, "formats": ["BF16"]}
    return Asked("/api/sweep?hardware_key=gb10", json.dumps(body).encode())


# Client ------------------------------------------------------------------------------------------------------------


class Connection:
    """One open HTTP/1.1 connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, url: str) -> Connection:
        parts = urlsplit(url)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 20))

    async def ask(self, asked: Asked) -> tuple[float, bytes]:
        """Return the server's own seconds and the body; raises for anything but 200."""
        head = f"POST {asked.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(asked.body)}\r\n\r\n"
        self._writer.write(head.encode() + asked.body)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
        body = await self._reader.readexactly(int(headers["content-length"]))
        if " 200 " not in lines[0]:
            raise RuntimeError(f"{lines[0]}: {body[:300].decode()}")
        return float(headers["server-timing"].partition("dur=")[2]) * 1e-3, body

    def close(self) -> None:
        self._writer.close()


async def _offered(url: str, load: Sequence[Asked]) -> list[Answered]:
    """Offer the requests at their pace over all connections; return every answer."""
    idle: asyncio.Queue[Connection] = asyncio.Queue()
    connections = [await Connection.open(url) for _ in range(CONNECTIONS)]
    for one in connections:
        idle.put_nowait(one)
    begin = time.perf_counter() + 0.1

    async def send(number: int, asked: Asked) -> Answered:
        due = begin + number / REQUESTS_PER_S
        await asyncio.sleep(due - time.perf_counter())
        connection = await idle.get()
        server_s, _ = await connection.ask(asked)
        idle.put_nowait(connection)
        return Answered(asked.path.split("?")[0].rpartition("/")[2], time.perf_counter() - due, server_s)

    found = await asyncio.gather(*(send(number, asked) for number, asked in enumerate(load)))
    for one in connections:
        one.close()
    return found


async def _asked_once(url: str) -> None:
    connection = await Connection.open(url)
    for one in _known_questions():
        await connection.ask(one)
    connection.close()


async def _beside_sweeps(url: str, load: Sequence[Asked]) -> tuple[list[Answered], list[float]]:
    """Offer the load while sweeps follow each other on a connection of their own; only answers due meanwhile count."""
    sweeping = asyncio.create_task(_sweeps(url, len(load) / REQUESTS_PER_S))
    answers = await _offered(url, load)
    return answers, await sweeping


async def _sweeps(url: str, seconds: float) -> list[float]:
    connection, found = await Connection.open(url), []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or not found:
        begin = time.perf_counter()
        _, body = await connection.ask(_sweep())
        found.append(time.perf_counter() - begin)
        # Not parsed: twelve megabytes would keep this client from reading the other answers.
        assert body.startswith(b'{"point_count":%d,' % SWEEP_POINTS)
    connection.close()
    return found


def _sweep_alone(folder: Path, rounds: int) -> float:
    async def run(url: str) -> list[float]:
        connection, found = await Connection.open(url), []
        for _ in range(rounds + 1):
            begin = time.perf_counter()
            await connection.ask(_sweep())
            found.append(time.perf_counter() - begin)
        connection.close()
        return found[1:]

    with _server(folder) as url:
        time.sleep(WARM_UP_S)
        return median(asyncio.run(run(url)))


# Server ------------------------------------------------------------------------------------------------------------


def _time_to_ready(folder: Path) -> float:
    """Return the seconds from the start of the process to the first answered analysis."""
    begin = time.perf_counter()
    with _server(folder) as url:

        async def ask() -> None:
            connection = await Connection.open(url)
            await connection.ask(Asked("/api/analyze", b'{"M":1,"N":4096,"K":4096}'))
            connection.close()

        asyncio.run(ask())
        return time.perf_counter() - begin


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    """Run `roofline serve` and give its address."""
    command = [sys.executable, "-m", "roofline_cli", "serve", "--port", "0", "--json", "--db", str(folder / "none.db")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**child_environment(), "PYTHONUNBUFFERED": "1"})  # fmt: skip
    assert process.stdout is not None
    try:
        printed = ""
        while not printed.rstrip().endswith("}"):
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"roofline serve ended with {process.wait()}: {printed}")
            printed += line
        yield json.loads(printed)["url"]
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
