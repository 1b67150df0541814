"""`roofline serve` under load: a real server process, 50 open connections that offer 300 requests a second, whatever
comes back.

Open loop: request n is due at n / 300 s, and its latency counts from then, also when every connection was busy. The
client is another process on the same machine, so both share its cores: how late the client itself was is a row of its
own, and what an answer costs in the server is timed once more without HTTP, load and neighbours, where the least of
many is worth something.
"""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from benchmarks.timing.interleave import child_environment
from benchmarks.timing.rows import Figure, Row

CONNECTIONS = 50
REQUESTS_PER_S = 300
SWEEP_POINTS = 100_000
WARM_UP_S = 3.0
"""The server imports the rest in the first seconds; that is in no figure but `start to
first`.
"""

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
    late_s: float
    """What of the latency passed before the client itself came to it."""


def measure(folder: Path, *, quick: bool) -> list[Row | Figure]:
    """Start servers, load one, and sweep beside the load."""
    seconds, starts = (2, 1) if quick else (20, 5)
    count = seconds * REQUESTS_PER_S
    ready = [_time_to_ready(folder) for _ in range(starts)]
    with server(folder) as url:
        source = random.Random(7)
        questions = _known_questions()
        time.sleep(WARM_UP_S)
        asyncio.run(_asked_once(url))
        new = asyncio.run(_offered(url, [_distinct(source, n) for n in range(count)]))
        answers = asyncio.run(_offered(url, [source.choice(questions) for _ in range(count)]))
        beside, sweeps = _beside_sweeps(url, [_distinct(source, n) for n in range(count)])
        rate = asyncio.run(_most_per_s(url, [_distinct(source, 1) for _ in range(count)], seconds / 4))
    alone = _sweep_alone(folder, seconds / 4)
    where = f"{CONNECTIONS} connections, {REQUESTS_PER_S} requests/s"
    return [
        Row(
            "roofline serve: start to first analysis",
            median(ready),
            starts,
            READY_AIM_S,
            note="a fresh process each; the health check is sooner",
        ),
        *_latency_rows(
            " of new shapes",
            new,
            note=f"{where}; every request another shape, so nothing is answered from memory; the client shares the cores",
        ),
        *_latency_rows(
            " of known shapes",
            answers,
            note=f"{where}; {len(questions)} questions in all, each asked once before: answered from memory",
        ),
        *_server_rows(new),
        *_latency_rows(
            " of new shapes while a sweep runs",
            beside,
            note=f"{where}; sweeps of {SWEEP_POINTS:,} points follow each other meanwhile",
        ),
        Row(
            f"a sweep of {SWEEP_POINTS:,} points beside that load",
            median(sweeps),
            len(sweeps),
            None,
            note="whole answer received; it gives way to short answers",
        ),
        Row(
            f"a sweep of {SWEEP_POINTS:,} points alone",
            median(alone),
            len(alone),
            SWEEP_AIM_S,
            note=f"least {min(alone) * 1e3:.0f} ms; ideal and expected times with intervals, whole answer received",
        ),
        _client_row(new),
        Figure(
            "recommendations of new shapes per second",
            rate,
            1,
            "count",
            note=f"closed loop over {CONNECTIONS} connections, client and server on the same cores",
        ),
        *_in_process_rows(400 if quick else 4_000),
    ]


def _latency_rows(what: str, answers: Sequence[Answered], *, note: str) -> list[Row]:
    rows = []
    for kind, aim_s in (("analyze", ANALYZE_AIM_S), ("recommend", RECOMMEND_AIM_S)):
        times = [answer.latency_s for answer in answers if answer.kind == kind]
        rows.append(
            Row(
                f"p99 of {kind}{what}",
                _quantile(times, 0.99),
                len(times),
                aim_s,
                note=f"median {median(times) * 1e3:.2f} ms; {note}",
            )
        )
    return rows


def _server_rows(answers: Sequence[Answered]) -> list[Row]:
    rows = []
    for kind, aim_s in (("analyze", ANALYZE_SERVER_AIM_S), ("recommend", RECOMMEND_SERVER_AIM_S)):
        times = [answer.server_s for answer in answers if answer.kind == kind]
        rows.append(
            Row(
                f"server time of {kind}",
                median(times),
                len(times),
                aim_s,
                note=f"p99 {_quantile(times, 0.99) * 1e3:.2f} ms; Server-Timing of the same load, every shape new",
            )
        )
    return rows


def _client_row(answers: Sequence[Answered]) -> Row:
    late = [answer.late_s for answer in answers]
    return Row(
        "the client's own delay, p99",
        _quantile(late, 0.99),
        len(late),
        None,
        note=(
            f"median {median(late) * 1e3:.2f} ms, of new shapes: from due to sent, inside the latencies above; a busy "
            "machine shows here first"
        ),
    )


def _in_process_rows(count: int) -> list[Row]:
    """Time the answers themselves, without HTTP, on shapes nobody asked for before; a recommendation against its
    formats one by one.
    """
    from reports.api.answer_models import answer_bytes
    from reports.api.catalog.chip_lookup import find_chip
    from reports.api.predict import product
    from roofline_model.expected.predict import expected_times
    from roofline_model.formats.catalog import format_pair
    from roofline_model.predictions.product import predict_product
    from roofline_model.recommend.shape import recommend_quantization

    def analyze(chip: str, shape: tuple[int, int, int]) -> None:
        answer_bytes(predict_product(find_chip(chip), shape, format_pair("FP16")))

    def recommend(chip: str, shape: tuple[int, int, int]) -> None:
        product.recommendation(chip, shape, None, None, None, None)

    def one_by_one(chip: str, shape: tuple[int, int, int]) -> None:
        times = expected_times(find_chip(chip))
        recommend_quantization(find_chip(chip), *shape, times=lambda case: times(case))

    source, times = random.Random(11), {"analyze": analyze, "recommend": recommend, "formats one by one": one_by_one}
    seconds: dict[str, list[float]] = {name: [] for name in times}
    for number, (chip, shape) in enumerate(
        dict.fromkeys((source.choice(CHIPS), _shape(source)) for _ in range(count + 8))
    ):
        for name, answer in times.items():
            begin = time.perf_counter()
            answer(chip, shape)
            if number >= 8:  # chips, constants and numpy are there by then
                seconds[name].append(time.perf_counter() - begin)
    rows = []
    for kind, aim_s in (("analyze", ANALYZE_SERVER_AIM_S), ("recommend", RECOMMEND_SERVER_AIM_S)):
        rival = "formats one by one" if kind == "recommend" else ""
        rows.append(
            Row(
                f"{kind} in process, a new shape",
                median(seconds[kind]),
                len(seconds[kind]),
                aim_s,
                rival,
                median(seconds[rival]) if rival else None,
                note=(
                    f"least {min(seconds[kind]) * 1e6:.0f} µs, p99 {_quantile(seconds[kind], 0.99) * 1e6:.0f} µs; the "
                    "answer as JSON, without HTTP"
                ),
            )
        )
    return rows


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# Requests ----------------------------------------------------------------------------------------------------------


def _known_questions() -> list[Asked]:
    """Return every question about the layers of the models: analyze and recommend in turn."""
    shapes = [(rows, *layer, chip) for rows in ROWS for layer in LAYERS_OF_MODELS for chip in CHIPS]
    return [_asked(number, (m, n, k), chip) for m, n, k, chip in shapes for number in range(2)]


def _distinct(source: random.Random, number: int) -> Asked:
    return _asked(number, _shape(source), source.choice(CHIPS))


def _shape(source: random.Random) -> tuple[int, int, int]:
    """Return one of a million shapes."""
    return source.choice(ROWS), 64 * source.randint(8, 512), 64 * source.randint(8, 512)


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

    async def ask(self, request: Asked) -> tuple[float, bytes]:
        """Return the server's own seconds and the body; raises for anything but 200."""
        head = (
            f"POST {request.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
            f"{len(request.body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + request.body)
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
    for opened in connections:
        idle.put_nowait(opened)
    begin = time.perf_counter() + 0.1

    async def send(number: int, request: Asked) -> Answered:
        due = begin + number / REQUESTS_PER_S
        await asyncio.sleep(due - time.perf_counter())
        late_s = time.perf_counter() - due
        connection = await idle.get()
        server_s, _ = await connection.ask(request)
        idle.put_nowait(connection)
        kind = request.path.split("?")[0].rpartition("/")[2]
        return Answered(kind, time.perf_counter() - due, server_s, late_s)

    gc.freeze()
    gc.disable()  # the client's own pauses are nobody's latency
    answers = await asyncio.gather(*(send(number, request) for number, request in enumerate(load)))
    gc.enable()
    gc.unfreeze()
    for opened in connections:
        opened.close()
    return answers


async def _most_per_s(url: str, load: Sequence[Asked], seconds: float) -> float:
    """Return the answers per second when each connection asks again as soon as it has its answer."""
    waiting, end = iter([*load] * 4), time.perf_counter() + seconds

    async def keep_asking() -> int:
        connection, count = await Connection.open(url), 0
        while time.perf_counter() < end and (request := next(waiting, None)) is not None:
            await connection.ask(request)
            count += 1
        connection.close()
        return count

    begin = time.perf_counter()
    counts = await asyncio.gather(*(keep_asking() for _ in range(CONNECTIONS)))
    return sum(counts) / (time.perf_counter() - begin)


async def _asked_once(url: str) -> None:
    connection = await Connection.open(url)
    for request in _known_questions():
        await connection.ask(request)
    connection.close()


def _beside_sweeps(url: str, load: Sequence[Asked]) -> tuple[list[Answered], list[float]]:
    """Offer the load while sweeps follow each other; a process of its own reads them, for twelve megabytes keep a
    client busy.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as reader:
        reader.submit(_give_way).result()
        sweeping = reader.submit(_sweeps, url, len(load) / REQUESTS_PER_S)
        answers = asyncio.run(_offered(url, load))
        return answers, sweeping.result()


def _give_way() -> None:
    """Let the server and the timed client go first: on few cores the reader of the sweeps would be timed as well."""
    if hasattr(os, "nice"):
        os.nice(10)


def _sweeps(url: str, seconds: float) -> list[float]:
    """Ask for one sweep after the other for so long, at least once; return the seconds of each."""

    async def run() -> list[float]:
        connection = await Connection.open(url)
        laps_s: list[float] = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or not laps_s:
            begin = time.perf_counter()
            _, body = await connection.ask(_sweep())
            laps_s.append(time.perf_counter() - begin)
            assert body.startswith(b'{"point_count":%d,' % SWEEP_POINTS)
        connection.close()
        return laps_s

    return asyncio.run(run())


def _sweep_alone(folder: Path, seconds: float) -> list[float]:
    """Return the seconds of each sweep that nobody else asks beside."""
    with server(folder) as url:
        time.sleep(WARM_UP_S)
        return _sweeps(url, seconds)


# Server ------------------------------------------------------------------------------------------------------------


def _time_to_ready(folder: Path) -> float:
    """Return the seconds from the start of the process to the first answered product."""
    begin = time.perf_counter()
    with server(folder) as url:

        async def ask() -> None:
            connection = await Connection.open(url)
            await connection.ask(Asked("/api/analyze", b'{"M":1,"N":4096,"K":4096}'))
            connection.close()

        asyncio.run(ask())
        return time.perf_counter() - begin


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Run `roofline serve` and give its address."""
    command = [sys.executable, "-m", "roofline_cli", "serve", "--port", "0", "--json", "--db", str(folder / "none.db")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**child_environment(), "PYTHONUNBUFFERED": "1"}
    )
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
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
