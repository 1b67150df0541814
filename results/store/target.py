"""Address of a database: a SQLite file or PostgreSQL, parsed from the user's text.

What is printed about a target never holds a password.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, quote_plus, unquote, unquote_plus, urlsplit

from roofline_model.core.definition_text import user_path
from roofline_model.core.errors import InvalidValueError, StoreError
from roofline_model.operators.case import short_hash

DEFAULT_DATABASE = Path(".roofline") / "results.db"
UNPUSHED_FOLDER = DEFAULT_DATABASE.parent / "unpushed"
"""Under the folder that pytest was called from: runs that their server does not have yet, a file for each server."""
ENVIRONMENT_VARIABLE = "ROOFLINE_DB"

_POSTGRES_SCHEMES = ("postgresql+psycopg", "postgresql", "postgres")
_SECRET_OPTIONS = (
    "password",
    "sslpassword",
    "passfile",
    "options",
    "oauth_client_secret",
    "scram_client_key",
    "scram_server_key",
)
"""Of a URL; `options` may set anything on the server, secrets of its extensions included."""
_KEYWORD = (
    "(?:host|hostaddr|port|dbname|user|password|passfile|options|service|application_name|connect_timeout|channel_binding"
    "|sslmode|sslcert|sslkey|sslpassword|sslrootcert|target_session_attrs)"
)
_KEYWORD_STRING = re.compile(rf"(?:^|/)\s*{_KEYWORD}\s*=(?:\s*'|\s*\S+\s+{_KEYWORD}\s*=|[^/]*$)", re.IGNORECASE)
"""`host=db port=5432` (libpq, "Connection Strings", the keyword/value form), behind a folder where pytest put one
before it.
"""


_CREDENTIALS = re.compile(
    r"(?::|%3a)[^@]*?(?:@|%40)|(?:passw|passfile|pwd|secret|token|key)[a-z0-9_]*\s*(?:=|%3d)", re.IGNORECASE
)
"""What only a URL holds: `user:password@`, or an option that is a secret."""
_PLAIN_PATH = re.compile(r"(?:\.{0,2}/(?!/)|~)")
"""How a path begins that cannot be a URL without its scheme."""
_WITH_A_SECRET = (
    "the database is neither a path nor a URL that is known here, and may hold a password: give ./PATH, sqlite:///PATH "
    "or postgresql+psycopg://USER@HOST:PORT/NAME, and the password in PGPASSFILE or PGPASSWORD"
)
_NO_URL = (
    "what was given is not a database URL, and may hold a password: write "
    "postgresql+psycopg://USER@HOST:PORT/NAME, and the password in PGPASSFILE or PGPASSWORD"
)


@dataclass(frozen=True, slots=True)
class StoreTarget:
    """A parsed target: `path` for SQLite, `url` for PostgreSQL."""

    path: Path | None
    url: str | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Passwords of the URL in every spelling they may come back in; `redact` removes them."""

    @property
    def name(self) -> str:
        """The target as it may be shown."""
        return str(self.path) if self.path is not None else self.redact(self.url or "")

    @property
    def place(self) -> str:
        """Which database this is, whoever opens it and how: no user, no password, no options. It may be stored."""
        if self.path is not None:
            return str(self.path.absolute())
        parts = urlsplit(self.url or "")
        options = dict(parse_qsl(parts.query))
        host = options.get("host") or parts.hostname or os.environ.get("PGHOST", "")
        port = options.get("port") or parts.port or os.environ.get("PGPORT", "5432")
        name = options.get("dbname") or unquote(parts.path.lstrip("/")) or os.environ.get("PGDATABASE", "")
        return f"postgresql://{host}:{port}/{name}"

    def local_file(self, folder: Path) -> Path:
        """Return the file that a run called from `folder` is written to: the target itself, or one for its server."""
        if self.path is not None:
            return self.path
        return folder / UNPUSHED_FOLDER / f"{short_hash(self.place)}.db"

    def redact(self, text: str) -> str:
        """Return `text` without any password of the URL."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def mask_passwords(argument: str) -> str:
    """Return one argument of a command line without the passwords of the URL in it, wherever in the URL they stand."""
    head, sign, location = argument.partition("://")
    for secret in _secrets(location):
        for sign_before, sign_after in ((":", "@"), ("%3A", "@"), ("%3a", "@"), ("=", "")):
            location = location.replace(f"{sign_before}{secret}{sign_after}", f"{sign_before}***{sign_after}")
    return f"{head}{sign}{location}"


def parse_target(target: str | Path | None) -> StoreTarget:
    """Return where results are kept. None: the variable ROOFLINE_DB, else `.roofline/results.db` under the working
    folder.

    Raises `StoreError` for a URL of another database, a URL that names no file, and a path that cannot be one.
    """
    if target is None:
        target = os.environ.get(ENVIRONMENT_VARIABLE) or DEFAULT_DATABASE
    text = str(target)
    if isinstance(target, str) and (match := re.match(r"([A-Za-z][A-Za-z0-9+._-]*):/", text)):
        scheme = match.group(1).lower()
        if scheme in _POSTGRES_SCHEMES and "://" in text:
            return _postgres_target(text)
        if scheme in ("sqlite", "sqlite+pysqlite") and "://" in text:
            if _CREDENTIALS.search(text):
                raise StoreError(_WITH_A_SECRET)
            return StoreTarget(_sqlite_url_path(text))
        raise StoreError(
            f"a database of kind '{scheme}' is not supported: give a path, sqlite:///PATH or "
            "postgresql+psycopg://HOST/NAME"
        )
    if _KEYWORD_STRING.search(text):  # may hold a password: it is not repeated
        raise StoreError(
            "a list of host=…, dbname=… is neither a file nor a URL: write postgresql+psycopg://USER@HOST:PORT/NAME, "
            "and the password in PGPASSFILE or PGPASSWORD"
        )
    if isinstance(target, str) and not _PLAIN_PATH.match(text) and _CREDENTIALS.search(text):
        raise StoreError(_WITH_A_SECRET)
    if not text.strip() or text == ":memory:" or "\x00" in text:
        raise StoreError(f"{text[:40]!r} cannot hold results: give the path of a file, e.g. {DEFAULT_DATABASE}")
    try:
        return StoreTarget(user_path(text) if text.startswith("~") else Path(text))
    except InvalidValueError as error:
        raise StoreError(str(error)) from None


def _sqlite_url_path(text: str) -> Path:
    location = text.partition("://")[2]
    if "?" in location or "#" in location:
        raise StoreError("a sqlite URL takes no options here: give sqlite:///PATH or just the path")
    if not location.startswith("/"):
        raise StoreError(
            f"{text[:60]!r} names no file: write sqlite:///relative.db or sqlite:////absolute.db (three or four "
            "slashes)"
        )
    path = unquote(location[1:])
    if path in ("", ":memory:") or "\x00" in path:
        raise StoreError("a database in memory is lost with its process: give sqlite:///PATH or a path")
    return Path(path)


def _postgres_target(text: str) -> StoreTarget:
    """Parse by hand where passwords may be, so that not even a malformed URL can leak one."""
    location = text.partition("://")[2]
    target = StoreTarget(None, f"postgresql+psycopg://{location}", _secrets(location))
    try:
        _ = urlsplit(text).port
    except ValueError:  # where the password ends is not known: nothing of it is repeated
        raise StoreError(_NO_URL) from None
    return target


def _secrets(location: str) -> tuple[str, ...]:
    """Return the passwords of what follows `://` in every spelling they may come back in, longest first."""
    secrets: list[str] = []
    # Where the password ends is unsure when it holds a raw @: both readings are secret.
    user_parts = (location.partition("@")[0] if "@" in location else "", location.rpartition("@")[0])
    secrets += [re.sub("%3a", ":", user_part, flags=re.IGNORECASE).partition(":")[2] for user_part in user_parts]
    query = location.partition("?")[2]
    secrets += [value for key, value in parse_qsl(query) if key.lower() in _SECRET_OPTIONS]
    pairs = (pair.partition("=") for pair in re.split("[&;]", query))
    raw = [value for key, _, value in pairs if unquote_plus(key).strip().lower() in _SECRET_OPTIONS]
    spellings = {
        form
        for secret in [*secrets, *raw]
        for form in (secret, unquote(secret), quote(secret, safe=""), quote_plus(secret))
    }
    return tuple(sorted(filter(None, spellings), key=len, reverse=True))
