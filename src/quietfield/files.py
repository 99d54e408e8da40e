"""Files that are whole or absent, and say plainly when they are not what was expected.

An archive is a zip of two members: ``manifest.json`` (canonical JSON) and ``tables.safetensors``. Nothing in it can run
code, a person can look inside with ordinary tools, and it is read with limits on every size. The manifest carries a
digest of itself and the tables; whoever needs more than protection against accidents signs the manifest's bytes.
"""

import hashlib
import io
import json
import os
import secrets
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quietfield.errors import Error, FileError

if TYPE_CHECKING:
    import numpy as np

MANIFEST, TABLES = "manifest.json", "tables.safetensors"
MANIFEST_LIMIT = 64 * 2**20
TABLES_LIMIT = 8 * 2**30
#: A part above FREE bytes may be at most DENSITY times larger than the file that it comes in: a small file that
#: unpacks to gigabytes is an attack. What would be denser is stored as it is.
FREE, DENSITY = 64 * 2**20, 100


def write_atomically(path: str | Path, data: bytes) -> None:
    """Write a whole file or none: to a temporary neighbour first, synced, then renamed."""
    path = Path(path)
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}; choose a path that you may write to.") from None
    finally:
        temporary.unlink(missing_ok=True)


def read_bytes(path: str | Path, limit: int = TABLES_LIMIT) -> bytes:
    """The bytes of a file, refused above a limit."""
    path = Path(path)
    try:
        if path.stat().st_size > limit:
            raise FileError(f"{path} is larger than {limit} bytes, the most that such a file may have.")
        return path.read_bytes()
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
    from safetensors.numpy import save

    blob = save({f"{i:06d}": _contiguous(table) for i, table in enumerate(tables)})
    manifest = {**content, "kind": kind, "version": version}
    return canonical_json({**manifest, "sha256": _digest(manifest, blob)}), blob


def write_archive(path: str | Path, members: Mapping[str, bytes]) -> None:
    """Write members into one zip, atomically, with fixed times so that equal content gives equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            dense = len(data) > FREE and len(zlib.compress(data, 1)) * DENSITY < 2 * len(data)
            how = zipfile.ZIP_STORED if dense else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, how)
    write_atomically(path, buffer.getvalue())


def read_archive(path: str | Path, names: Mapping[str, int], what: str) -> dict[str, bytes]:
    """The members of a zip among ``names`` (each with its size limit); anything else in it is refused."""
    data = read_bytes(path)
    names = {name: min(limit, max(FREE, DENSITY * len(data))) for name, limit in names.items()}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {}
            for info in archive.infolist():
                if info.filename not in names or info.filename in members:
                    raise FileError(f"{path} is not {what}: it has an unexpected part {info.filename[:80]!r}.")
                if info.file_size > names[info.filename]:
                    raise FileError(f"{path}: its part {info.filename!r} is larger than such a part may be.")
                with archive.open(info) as member:  # the declared size may lie: read no more than the limit
                    members[info.filename] = member.read(names[info.filename] + 1)
                if len(members[info.filename]) > names[info.filename]:
                    raise FileError(f"{path}: its part {info.filename!r} is larger than such a part may be.")
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError):
        raise FileError(f"{path} is not {what}, or it is damaged; get a fresh copy.") from None
    return members


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
    if manifest.pop("sha256", None) != _digest(manifest, members[TABLES]):
        raise FileError(f"{path} was altered or damaged: its content does not match its digest; get a fresh copy.")
    try:
        tables = load(members[TABLES])
    except (SafetensorError, ValueError, KeyError, TypeError):
        raise FileError(f"{path} is damaged: its tables cannot be read; get a fresh copy.") from None
    return manifest, [tables[name] for name in sorted(tables)]


def _digest(manifest: Mapping[str, Any], tables: bytes) -> str:
    return hashlib.sha256(canonical_json(manifest) + tables).hexdigest()


def _contiguous(table: "np.ndarray") -> "np.ndarray":
    import numpy as np

    return np.ascontiguousarray(table)
