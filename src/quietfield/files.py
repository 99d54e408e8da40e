"""Files that are whole or absent, and say plainly when they are not what was expected."""

import json
import os
import secrets
import shutil
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Self

from quietfield.errors import Error, FileError

try:
    import fcntl
except ModuleNotFoundError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

MANIFEST = "manifest.json"  # a member of every archive, see archives.py
MANIFEST_LIMIT = 64 * 2**20
TABLES_LIMIT = 8 * 2**30
#: How files hold times, which are UTC.
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
# What a few bytes of a file may ask for, in sums over the whole file. Domains, structures and rationals keep to these
# wherever they come from, so that what can be made can be written, and what can be written can be read.
#: The most values of all attributes together.
MOST_VALUES = 2**22
#: The most cells of all tables that impossible combinations span, and the most that they list.
MOST_IMPOSSIBLE = 2**26
#: The most cliques of a structure: the tables of a file are numbered with six digits.
MOST_CLIQUES = 2**19
#: The most digits of a numerator or denominator.
MOST_DIGITS = 1000
#: What a file that is no zip, or a damaged one, raises.
BAD_ZIP = (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, OSError, struct.error)
#: Files and folders that must not outlive this process.
TEMPORARY: set[Path] = set()


def write_atomically(path: str | Path, data: bytes, *, confidential: bool = False, time: str = "") -> None:
    """Write a whole file or none: to a temporary neighbour first, synced, then renamed.

    A ``confidential`` file is its owner's alone from the moment at which it is made. With a ``time``, the file bears
    that one (:func:`set_time`).
    """
    path = Path(path)
    with temporary_neighbour(path) as temporary:
        try:
            with create(temporary, confidential=confidential) as file:
                file.write(data)
                file.flush()
                set_time(temporary, time)
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError as error:
            raise FileError(f"cannot write {path}: {error.strerror}; choose a path that you may write to.") from None


def create(path: Path, *, confidential: bool = False) -> BinaryIO:
    """Open a new file for writing; a ``confidential`` one is made with mode 600, whatever the umask is."""
    return open(path, "xb", opener=_open_for_owner if confidential else None)


def set_time(path: str | Path, time: str) -> None:
    """Let a file bear a time of ours (``2024-05-01T12:00:00Z``) as that of its last change and access; none if empty.

    The times of what is made from records would tell when a count ended, and so how long it took, which may depend on
    a record. So all of it bears the time from before the count.
    """
    if time:
        seconds = datetime.strptime(time, TIME_FORMAT).replace(tzinfo=UTC).timestamp()
        os.utime(path, (seconds, seconds))


def _open_for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@contextmanager
def temporary_neighbour(path: Path) -> Iterator[Path]:
    """A free name beside a path, for a file until it is whole; nothing stays under it, however the process ends."""
    whole = Path(os.path.abspath(path))  # "." has no name of its own
    temporary = whole.parent / f".{whole.name[:60]}.{secrets.token_hex(4)}.tmp"  # a name has at most 255 bytes
    TEMPORARY.add(temporary)
    try:
        yield temporary
    finally:
        if os.path.lexists(temporary):  # else a folder that is for reading alone would complain, and by this name
            temporary.unlink(missing_ok=True)
        TEMPORARY.discard(temporary)


def take_name(finished: Path, path: Path) -> None:
    """Give a finished file a name that is free. Where something has it, FileExistsError is raised, and that stays.

    Between a look whether a name is free and the writing others may take it, so the system is asked for both at once.
    """
    try:
        os.link(finished, path)
        return
    except FileExistsError:
        raise
    except OSError:  # some file systems have no links: there the name is claimed by an empty file first
        claimed = False
    try:
        with create(path, confidential=True):  # what takes its place has a mode of its own
            claimed = True
        os.replace(finished, path)
    except BaseException:
        if claimed and os.path.lexists(
            finished
        ):  # no more than the promise: once it is renamed, what is there is the file
            with suppress(OSError):  # what went wrong before is told
                path.unlink()
        raise


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Wait for other processes that hold this lock, and hold it: a file that is there while somebody does.

    If a process ends, however it ends, its lock is free. Where the system has no such locks (Windows), none is held.

    Raises:
        FileError: No lock can be had there.
    """
    if fcntl is None:
        yield
        return
    while True:
        try:
            number = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(number, fcntl.LOCK_EX)
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(number), os.stat(path)):
                        break
            except BaseException:
                os.close(number)
                raise
        except OSError as error:
            raise FileError(f"cannot lock {path}: {error.strerror}; choose a folder on another file system.") from None
        os.close(number)  # whoever held it has removed it: what is locked now is nobody's
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            path.unlink()
        os.close(number)


def remove_temporary() -> None:
    """Remove what is being written: for a process that ends at once, without what it does afterwards."""
    for path in list(TEMPORARY):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def check_writable(path: str | Path) -> None:
    """Refuse a path where :func:`write_atomically` would fail: a temporary neighbour is made and taken away."""
    path = Path(path)
    with temporary_neighbour(path) as temporary:
        try:
            if os.path.isdir(path):
                raise FileError(f"cannot write {path}: it is a folder. Name a file, such as {path / 'NAME'}.")
            if not os.path.isdir(path.absolute().parent):
                what = "is a file, and no folder" if os.path.lexists(path.parent) else "does not exist"
                raise FileError(f"cannot write {path}: {path.parent} {what}. Choose a path in a folder that exists.")
            with create(temporary, confidential=True):
                pass
            with suppress(FileNotFoundError):
                os.lstat(path)  # a name that is too long, for instance
        except OSError as error:
            raise FileError(f"cannot write {path}: {error.strerror}; choose a path that you may write to.") from None


def read_bytes(path: str | Path, limit: int = TABLES_LIMIT) -> bytes:
    """The bytes of a file, refused above a limit."""
    path = Path(path)
    try:
        if path.stat().st_size > limit:
            raise FileError(f"{path} is larger than {limit} bytes, the most that such a file may have.")
        return path.read_bytes()
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}; check the path.") from None


def read_beginning(path: str | Path, size: int = 4096) -> bytes:
    """The first bytes of a file, from which one can tell what it is."""
    try:
        with open(path, "rb") as file:
            return file.read(size)
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}; check the path.") from None


def read_json(path: str | Path) -> Any:
    """The content of a JSON file."""
    return parse_json(read_bytes(path, MANIFEST_LIMIT), str(path))


def parse_json(data: bytes, where: str) -> Any:
    """JSON from bytes, with repeated keys and non-numbers refused."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("an object repeats a key")
        return dict(pairs)

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not a number")

    try:
        return json.loads(data.decode(), object_pairs_hook=unique, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{where} is not valid JSON ({error}).") from None


def canonical_json(value: Any) -> bytes:
    """One spelling for one value: sorted keys, no spaces, UTF-8. What is hashed and signed."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise Error(f"this value cannot be written as JSON: {error}.") from None


class JsonFile:
    """What has a JSON form, and with it a file that people can read and write."""

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for JSON."""
        raise NotImplementedError

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """The inverse of :meth:`to_json`."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write it as a JSON file.

        Args:
            path: The file; one that is there is replaced.

        Raises:
            FileError: It cannot be written.
        """
        write_atomically(path, (json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n").encode())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a JSON file, written by :meth:`save` or by hand; :meth:`from_json` says what may be in it.

        Args:
            path: The file.

        Returns:
            What is in it.

        Raises:
            FileError: It is missing, is not JSON, or not the JSON of this.
            Error: What it says cannot be.
        """
        return cls.from_json(read_json(path))


def archive_kind(path: str | Path) -> str | None:
    """What a quietfield archive holds ("release", "model"), or None if a file is no such archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo(MANIFEST)
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > MANIFEST_LIMIT:
                return None
            manifest = parse_json(archive.read(info), str(path))
    except (*BAD_ZIP, KeyError, FileError):
        return None
    kind = manifest.get("kind") if isinstance(manifest, dict) and "sha256" in manifest else None
    return kind if isinstance(kind, str) else None
