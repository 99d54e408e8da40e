"""The file behind a ledger: what a line holds, its tables and triggers, how it is read, and what lines add up to."""

import hashlib
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from quietfield.errors import Error, FileError
from quietfield.files import (
    TIME_FORMAT,
    archive_kind,
    canonical_json,
    create,
    read_beginning,
    take_name,
    temporary_neighbour,
)
from quietfield.privacy import accounting

APPLICATION, VERSION = 0x51464C44, 2
WAIT_SECONDS = 60.0

_TABLES = """
CREATE TABLE account (
  one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL, created TEXT NOT NULL, name TEXT NOT NULL,
  unit TEXT NOT NULL, protects TEXT NOT NULL, neighbours TEXT NOT NULL, accounting TEXT NOT NULL,
  epsilon TEXT, delta TEXT, total TEXT NOT NULL, salt TEXT NOT NULL, digest TEXT NOT NULL) STRICT;
CREATE TABLE charges (
  number INTEGER PRIMARY KEY, release TEXT NOT NULL UNIQUE, time TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT,
  cost TEXT NOT NULL, threshold TEXT, what TEXT NOT NULL, digest TEXT NOT NULL) STRICT;
CREATE TRIGGER account_fixed BEFORE UPDATE ON account BEGIN SELECT RAISE(ABORT, 'a ledger is never changed'); END;
CREATE TRIGGER account_kept BEFORE DELETE ON account BEGIN SELECT RAISE(ABORT, 'a ledger is never changed'); END;
CREATE TRIGGER charges_fixed BEFORE UPDATE ON charges BEGIN SELECT RAISE(ABORT, 'charges are only added'); END;
CREATE TRIGGER charges_kept BEFORE DELETE ON charges BEGIN SELECT RAISE(ABORT, 'charges are only added'); END;
CREATE TRIGGER charges_in_order BEFORE INSERT ON charges
  WHEN NEW.number <> (SELECT COUNT(*) + 1 FROM charges) BEGIN SELECT RAISE(ABORT, 'charges are only added'); END;
"""
#: What version 1 had not: its ledgers are read and charged as they were made, but for the delta of thresholds.
_SINCE_2 = " threshold TEXT,"
_SEAL = """
CREATE TRIGGER account_one BEFORE INSERT ON account BEGIN SELECT RAISE(ABORT, 'a ledger is never changed'); END
"""


@dataclass(frozen=True)
class Charge:
    """One line of a ledger. ``cost`` is epsilon in a pure ledger and rho in a zCDP ledger.

    ``threshold`` is the part of the ledger's delta that thresholds spend, or None.
    """

    number: int
    release: str
    time: str
    epsilon: Fraction
    delta: Fraction | None
    cost: Fraction
    what: str
    digest: str
    threshold: Fraction | None = None


def now() -> str:
    """The time of day in UTC, to the second."""
    return datetime.now(UTC).strftime(TIME_FORMAT)


def digest(last: str, row: Mapping[str, Any]) -> str:
    """The digest of a row, chained to the one before it: a row that is changed or taken out from between is noticed."""
    return hashlib.sha256(canonical_json([last, {k: v for k, v in row.items() if k != "digest"}])).hexdigest()


def is_intact(connection: sqlite3.Connection) -> bool:
    """Whether the tables and triggers are those that a ledger of its version is made with."""
    return _read_objects(connection) == _expected_objects(read_version(connection))


def read_version(connection: sqlite3.Connection) -> int:
    """The version of a ledger's file."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


@contextmanager
def open_connection(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a ledger, closed afterwards; what is no ledger of this version, or was cut, is refused."""
    connection = None
    try:
        uri = path.resolve().as_uri() + "?mode=rw"  # never makes a new, empty file
        connection = sqlite3.connect(uri, uri=True, timeout=WAIT_SECONDS, isolation_level=None)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA synchronous = EXTRA")
        mark, version = connection.execute("PRAGMA application_id").fetchone()[0], read_version(connection)
        if mark != APPLICATION and is_intact(connection):  # all of it is there but its mark
            raise damaged_error(path)
        if mark != APPLICATION:
            raise foreign_file_error(path)
        if not 1 <= version <= VERSION:
            raise FileError(f"{path} is a ledger of version {version}; this quietfield reads versions 1 to {VERSION}.")
        pages, page = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        # SQLite reads zeros beyond the end of a file that was cut. The size is asked for without opening the file:
        # closing it would drop the locks that other threads of this process hold.
        if path.stat().st_size < pages * page:
            raise damaged_error(path)
        yield connection
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise FileError(
                f"the ledger {path} is in use by another process; try again. Nothing was charged."
            ) from None
        raise FileError(f"the ledger {path} cannot be used ({error}); nothing may be released.") from None
    except sqlite3.DatabaseError as error:
        foreign = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB
        raise (foreign_file_error(path) if foreign else damaged_error(path)) from None
    finally:
        if connection is not None:
            connection.close()


def read_charges(connection: sqlite3.Connection, path: Path, last: str, number: int = 0) -> list[Charge]:
    """The charges after a line, with the chain of digests checked from that line's digest; by default all of them."""
    charges: list[Charge] = []
    try:
        for found in connection.execute("SELECT * FROM charges WHERE number > ? ORDER BY number", [number]):
            row = dict(found)
            number += 1
            if row["number"] != number or row["digest"] != digest(last, row):
                raise damaged_error(path)
            charges.append(_charge(row))
            last = row["digest"]
    except (Error, ValueError, KeyError, IndexError, TypeError):
        raise damaged_error(path) from None
    return charges


def _charge(row: Mapping[str, Any]) -> Charge:
    epsilon, cost = (accounting.parse_rational(row[name], f"the {name} of a charge") for name in ("epsilon", "cost"))
    delta = None if row["delta"] is None else accounting.parse_rational(row["delta"], "the delta of a charge")
    written = row.get("threshold")
    threshold = None if written is None else accounting.parse_rational(written, "the threshold of a charge")
    if cost <= 0 or threshold == 0:
        raise ValueError("a charge is positive")
    return Charge(
        row["number"], row["release"], row["time"], epsilon, delta, cost, row["what"], row["digest"], threshold
    )


def add_costs(charges: Iterable[Charge]) -> Fraction:
    """The sum of all costs: exact, or rounded up where earlier versions charged what has hundreds of digits."""
    spent = Fraction(0)
    for charge in charges:
        spent = accounting.round_up(spent + charge.cost, accounting.EXACT_BITS)
    return spent


def add_thresholds(charges: Iterable[Charge]) -> Fraction:
    """The sum of what thresholds have spent of delta: exact, since each was rounded up to a short number."""
    return sum((charge.threshold for charge in charges if charge.threshold is not None), Fraction(0))


def damaged_error(path: Path) -> FileError:
    """What to say of a ledger that is not as it was made: it was one, so nobody is told to make another."""
    return FileError(
        f"the ledger {path} is damaged or was altered; nothing may be released. Restore it from a copy, and count what "
        "was released since as spent."
    )


def foreign_file_error(path: Path) -> FileError:
    """What to say of a file without the mark of a ledger: calmly where it never was one, since nothing happened to it.

    For such files alone: to open a ledger and close it would drop the locks that other threads of this process hold.
    """
    start = read_beginning(path)
    # Zeros are what a disk leaves of a file; the mark of a ledger and its triggers stand in the first page. A file with
    # nothing in it may be what a full disk left, or new: the advice below is for both.
    zeros = bool(start) and not start.strip(b"\0")
    traces = (zeros, start[68:72] == APPLICATION.to_bytes(4, "big"), b"TRIGGER charges_" in start)
    if any(traces):
        return damaged_error(path)
    kind = archive_kind(path)
    return FileError(
        f"{path} is not a ledger{f' but a {kind}' if kind else ''}. A ledger is a file that `quietfield ledger create` "
        "made: show one with `quietfield ledger show budget.db`, or make one with `quietfield ledger create budget.db "
        "--epsilon 4 --unit rows:1`. If this one should be a ledger, restore it from a copy, and count what was "
        "released since as spent."
    )


def _read_objects(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name")]


@cache
def _expected_objects(version: int) -> list[tuple[Any, ...]]:
    tables = _TABLES.replace(_SINCE_2, "") if version == 1 else _TABLES
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(f"{tables};{_SEAL}")
        return _read_objects(connection)


def create_file(target: Path, row: dict[str, Any]) -> None:
    """A whole ledger under its name, or none; never over another file.

    The salt is never told: digests, which are published with releases, are no way to guess at the name or the total.
    """
    row = {**row, "salt": secrets.token_hex(16)}
    row["digest"] = digest("", row)
    with temporary_neighbour(target) as temporary:
        try:
            with create(temporary, confidential=True):  # it holds the salt
                pass
            connection = sqlite3.connect(temporary, isolation_level=None)
            try:
                # Until it has its name, nothing needs to be rolled back: no journal is left beside it.
                connection.executescript("PRAGMA synchronous = EXTRA; PRAGMA journal_mode = MEMORY;")
                connection.executescript(
                    f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; BEGIN; {_TABLES}"
                )
                connection.execute(f"INSERT INTO account VALUES ({', '.join(f':{key}' for key in row)})", row)
                connection.execute(_SEAL)
                connection.execute("COMMIT")
            finally:
                connection.close()
            take_name(temporary, target)
        except FileExistsError:
            raise FileError(f"{target} exists, and a ledger is never overwritten; choose another name.") from None
        except OSError as error:
            raise FileError(f"cannot write {target}: {error.strerror}; choose a path that you may write to.") from None
        except sqlite3.Error as error:
            raise FileError(f"cannot write {target} ({error}); choose a path that you may write to.") from None
