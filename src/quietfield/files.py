"""Files that are whole or absent, and say plainly when they are not what was expected.

An archive is a zip of two members, ``manifest.json`` (canonical JSON) and ``tables.safetensors``, and a third,
``signature.json``, if it is signed. Nothing in it can run code, a person can look inside with ordinary tools, and it is
read with limits on every size. The manifest carries a digest of itself and the tables; whoever needs more than
protection against accidents signs the manifest's bytes.

Members are stored and not compressed, so that equal content gives equal bytes on every machine. A reader writes the
archive once more and compares: no byte of a file is outside of what its digest (and signature) covers.
"""

import hashlib
import io
import json
import os
import secrets
import shutil
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from quietfield.errors import Error, FileError

try:
    import fcntl
except ModuleNotFoundError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import numpy as np

MANIFEST, TABLES, SIGNATURE = "manifest.json", "tables.safetensors", "signature.json"
MANIFEST_LIMIT = 64 * 2**20
TABLES_LIMIT = 8 * 2**30
#: How files hold times, which are UTC.
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
#: What an archive may hold, and the most bytes of each.
MEMBERS = {MANIFEST: MANIFEST_LIMIT, TABLES: TABLES_LIMIT, SIGNATURE: 64 * 1024}
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
#: What a manifest of the wrong form raises while it is read.
MISPLACED = (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError, ZeroDivisionError)
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
    made = whole.parent / f".{whole.name[:60]}.{secrets.token_hex(4)}.tmp"  # a name has at most 255 bytes
    TEMPORARY.add(made)
    try:
        yield made
    finally:
        with suppress(FileNotFoundError, NotADirectoryError):  # it is not there, or its folder is a file
            made.unlink()
        TEMPORARY.discard(made)


def put_in_place(made: Path, path: str | Path, *, replace: bool, time: str = "") -> None:
    """Give a finished archive its name. Unless it may ``replace`` another of its kind, whatever has that name stays.

    It then bears the ``time`` (:func:`set_time`), also if it was read meanwhile.
    """
    path = Path(path)
    try:
        if replace:
            check_replaceable(path, archive_kind(made))
        set_time(made, time)
        if replace:
            os.replace(made, path)
        else:
            take_name(made, path)
    except FileExistsError:
        raise FileError(f"{path} is there already, and it is not replaced; choose another path.") from None
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}; choose a path that you may write to.") from None


def take_name(made: Path, path: Path) -> None:
    """Give a finished file a name that is free. Where something has it, FileExistsError is raised, and that stays.

    Between a look whether a name is free and the writing others may take it, so the system is asked for both at once.
    """
    try:
        os.link(made, path)
        return
    except FileExistsError:
        raise
    except OSError:  # some file systems have no links: there the name is claimed by an empty file first
        claimed = False
    try:
        with create(path, confidential=True):  # what takes its place has a mode of its own
            claimed = True
        os.replace(made, path)
    except BaseException:
        if claimed and os.path.lexists(made):  # no more than the promise: once it is renamed, what is there is the file
            with suppress(OSError):  # what went wrong before is told
                path.unlink()
        raise


def check_replaceable(path: Path, kind: str | None = None) -> None:
    """Refuse a path at which a file is that is no archive of ours, or of another kind than the one that is wanted."""
    if not path.exists() or path.is_dir():
        return
    found = archive_kind(path)
    if found is None or kind not in (None, found):
        what = f"a quietfield {kind}" if kind else "a quietfield file"
        raise FileError(f"{path} exists and is not {what}, so it is not replaced; choose another path.")


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


def pack(kind: str, version: int, content: Mapping[str, Any], tables: "list[np.ndarray]") -> tuple[bytes, bytes]:
    """The two members of an archive. The manifest records kind, version and a digest of itself and the tables."""
    manifest, blob = {**content, "kind": kind, "version": version}, _numbered(tables)
    text = canonical_json({**manifest, "sha256": _digest(manifest, blob)})
    if len(text) > MANIFEST_LIMIT or len(blob) > TABLES_LIMIT:
        raise Error(
            f"this {kind} takes more room than a file may have; use fewer or smaller tables, and shorter names."
        )
    return text, blob


def content_digest(kind: str, version: int, content: Mapping[str, Any], tables: "list[np.ndarray]") -> str:
    """The digest that :func:`pack` records: it names what is in an archive, signed or not."""
    return _digest({**content, "kind": kind, "version": version}, _numbered(tables))


def write_archive(path: str | Path, members: Mapping[str, bytes], *, time: str = "") -> None:
    """Write members into one zip, atomically. An existing file is replaced only if it is such an archive."""
    check_replaceable(Path(path))
    write_atomically(path, _archive(members), time=time)


def archive_kind(path: str | Path) -> str | None:
    """What a quietfield archive holds ("release", "model"), or None if a file is no such archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo(MANIFEST)
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > MANIFEST_LIMIT:
                return None
            manifest = parse_json(archive.read(info), str(path))
    except (*_BAD_ZIP, KeyError, FileError):
        return None
    kind = manifest.get("kind") if isinstance(manifest, dict) and "sha256" in manifest else None
    return kind if isinstance(kind, str) else None


def read_archive(path: str | Path, what: str) -> dict[str, bytes]:
    """The members of an archive, within their limits; anything else in it is refused."""
    data = read_bytes(path, sum(MEMBERS.values()) + 2**16)
    members: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for info in archive.infolist():
                if info.filename not in MEMBERS or info.filename in members:
                    kind = archive_kind(path)
                    if kind is not None and kind != what.split()[-1]:
                        raise FileError(f"{path} is not {what} but a {kind[:80]!r}.")
                    raise FileError(f"{path} is not {what}: it has an unexpected part {info.filename[:80]!r}.")
                if info.compress_type != zipfile.ZIP_STORED:
                    raise FileError(f"{path} is not {what}: its part {info.filename!r} is compressed.")
                if info.file_size > MEMBERS[info.filename]:
                    raise FileError(f"{path}: its part {info.filename!r} is larger than such a part may be.")
                members[info.filename] = archive.read(info)
    except _BAD_ZIP:
        raise FileError(f"{path} is not {what}, or it is damaged; get a fresh copy.") from None
    if _archive({name: members[name] for name in MEMBERS if name in members}) != data:
        raise FileError(f"{path} is not {what} as quietfield writes it: it holds bytes besides its parts.")
    return members


_BAD_ZIP = (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, OSError, struct.error)


def _archive(members: Mapping[str, bytes]) -> bytes:
    """The bytes of a zip: nothing in them depends on the time, the machine or a compressor's version."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system = 3
            archive.writestr(info, data, zipfile.ZIP_STORED)
    return buffer.getvalue()


def unpack(
    members: Mapping[str, bytes], kind: str, version: int, path: str | Path
) -> "tuple[dict[str, Any], list[np.ndarray]]":
    """Manifest and tables of an archive, checked: kind, version, digest."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if MANIFEST not in members or TABLES not in members:
        raise FileError(f"{path} is not a quietfield {kind}: {MANIFEST} or {TABLES} is missing.")
    manifest = parse_json(members[MANIFEST], f"{path}: {MANIFEST}")
    if not isinstance(manifest, dict) or manifest.get("kind") != kind:
        found = manifest.get("kind") if isinstance(manifest, dict) else None
        raise FileError(f"{path} is not a quietfield {kind}" + (f" but a {found!r}." if found else "."))
    if manifest.get("version") != version:
        raise FileError(
            f"{path} is a {kind} of version {manifest.get('version')!r}; this quietfield reads version {version}. "
            "Use the quietfield that wrote it, or update this one."
        )
    if canonical_json(manifest) != members[MANIFEST]:
        raise FileError(f"{path} is not a quietfield {kind}: {MANIFEST} is not in canonical form.")
    if manifest.pop("sha256", None) != _digest(manifest, members[TABLES]):
        raise FileError(f"{path} was altered or damaged: its content does not match its digest; get a fresh copy.")
    try:
        tables = load(members[TABLES])
    except (SafetensorError, ValueError, KeyError, TypeError):
        raise FileError(f"{path} is damaged: its tables cannot be read; get a fresh copy.") from None
    _check_header(members[TABLES], len(tables), path)
    return manifest, [tables[name] for name in sorted(tables)]


def _check_header(blob: bytes, tables: int, path: str | Path) -> None:
    """Refuse whatever stands beside numbered tables: safetensors allows free text in its header."""
    header = parse_json(blob[8 : 8 + int.from_bytes(blob[:8], "little")], f"{path}: {TABLES}")
    if set(header) != {f"{i:06d}" for i in range(tables)} or any(
        set(entry) != {"dtype", "shape", "data_offsets"} for entry in header.values()
    ):
        raise FileError(f"{path} is not as quietfield writes it: {TABLES} holds something besides its tables.")


def _digest(manifest: Mapping[str, Any], tables: bytes) -> str:
    return hashlib.sha256(canonical_json(manifest) + tables).hexdigest()


def _numbered(tables: "list[np.ndarray]") -> bytes:
    import numpy as np
    from safetensors.numpy import save

    return save({f"{i:06d}": np.ascontiguousarray(table) for i, table in enumerate(tables)})
