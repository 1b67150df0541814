"""Opening the results database for commands: reading never creates or changes anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from roofline_model.core.errors import StoreError, UnknownNameError

if TYPE_CHECKING:
    from results.records.records import RunInfo
    from results.store.store import ResultStore


@contextmanager
def reading(target: str | None) -> Iterator[ResultStore]:
    """Open the store read-only; raises `StoreError` where there is none."""
    from results.store.store import open_store

    with _own_option_names(), open_store(target, create=False, read_only=True) as store:
        yield store


@contextmanager
def writing(target: str | None, *, create: bool = True) -> Iterator[ResultStore]:
    """Open the store; `create` makes one where there is none."""
    from results.store.store import open_store

    with _own_option_names(), open_store(target, create=create) as store:
        yield store


def named_runs(store: ResultStore, text: str) -> tuple[RunInfo, ...]:
    """Return the run of a name, or the runs of names joined by commas (a label may hold a comma: the whole goes
    first).
    """

    try:
        return (store.resolve_run(text),)
    except UnknownNameError:
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if len(parts) < 2:
            raise
    infos = {run.run_id: run for run in map(store.resolve_run, parts)}
    return tuple(infos.values())


def upgraded(target: str | None, progress: Callable[[str, int, int], None]) -> None:
    """Bring an older database to today's schema; raises `StoreError` where there is none."""
    from results.store.connection import prepare_place
    from results.store.migrate import stored_version, upgrade
    from results.store.schema import SCHEMA_VERSION
    from results.store.target import parse_target

    with _own_option_names():
        parsed = parse_target(target)
        prepare_place(parsed, create=False, writing=True)
        version = stored_version(parsed)
        if version is not None and version < SCHEMA_VERSION:
            upgrade(parsed, progress=progress)
    with writing(target, create=False):
        pass  # says what else may be wrong with it


def schema_version(target: str | None) -> int | None:
    """Return the schema version of a database without changing it; None when it is empty or not there yet."""
    from results.store.migrate import stored_version
    from results.store.target import parse_target

    with _own_option_names():
        return stored_version(parse_target(target))


@contextmanager
def _own_option_names() -> Iterator[None]:
    """Name our option in the store's messages: they are written for pytest, where it is called --roofline-db."""

    try:
        yield
    except StoreError as error:
        raise type(error)(str(error).replace("--roofline-db", "--db")) from None


def shown_target(target: str | None) -> tuple[str, Path | None]:
    """Return the database as text that may be shown (no password), and its file, or None when it is not a file."""
    from results.store.target import parse_target

    with _own_option_names():
        parsed = parse_target(target)
    return parsed.name, parsed.path
