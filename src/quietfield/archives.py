"""Archives: the files of releases and models, of which no byte is outside of what their digest covers.

An archive is a zip of two members, ``manifest.json`` (canonical JSON) and ``tables.safetensors``, and a third,
``signature.json``, if it is signed. Nothing in it can run code, a person can look inside with ordinary tools, and it is
read with limits on every size. The manifest carries a digest of itself and the tables; whoever needs more than
protection against accidents signs the manifest's bytes.

Members are stored and not compressed, so that equal content gives equal bytes on every machine. A reader writes the
archive once more and compares: no byte of a file is outside of what its digest (and signature) covers.
"""

import hashlib
import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quietfield.errors import Error, FileError
from quietfield.files import (
    BAD_ZIP,
    MANIFEST,
    MANIFEST_LIMIT,
    TABLES_LIMIT,
    archive_kind,
    canonical_json,
    parse_json,
    read_bytes,
    set_time,
    take_name,
    write_atomically,
)

if TYPE_CHECKING:
    import numpy as np

TABLES, SIGNATURE = "tables.safetensors", "signature.json"
#: What an archive may hold, and the most bytes of each.
MEMBERS = {MANIFEST: MANIFEST_LIMIT, TABLES: TABLES_LIMIT, SIGNATURE: 64 * 1024}
#: What a manifest of the wrong form raises while it is read.
MISPLACED = (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError, ZeroDivisionError)


def put_in_place(finished: Path, path: str | Path, *, replace: bool, time: str = "") -> None:
    """Give a finished archive its name. Unless it may ``replace`` another of its kind, whatever has that name stays.

    It then bears the ``time`` (:func:`set_time`), also if it was read meanwhile.
    """
    path = Path(path)
    try:
        if replace:
            check_replaceable(path, archive_kind(finished))
        set_time(finished, time)
        if replace:
            os.replace(finished, path)
        else:
            take_name(finished, path)
    except FileExistsError:
        raise FileError(f"{path} is there already, and it is not replaced; choose another path.") from None
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}; choose a path that you may write to.") from None


def check_replaceable(path: Path, kind: str | None = None) -> None:
    """Refuse a path at which a file is that is no archive of ours, or of another kind than the one that is wanted."""
    if not path.exists() or path.is_dir():
        return
    found = archive_kind(path)
    if found is None or kind not in (None, found):
        what = f"a quietfield {kind}" if kind else "a quietfield file"
        raise FileError(f"{path} exists and is not {what}, so it is not replaced; choose another path.")


def pack(kind: str, version: int, content: Mapping[str, Any], tables: "list[np.ndarray]") -> tuple[bytes, bytes]:
    """The two members of an archive. The manifest records kind, version and a digest of itself and the tables."""
    manifest, blob = {**content, "kind": kind, "version": version}, _pack_tables(tables)
    text = canonical_json({**manifest, "sha256": _digest(manifest, blob)})
    if len(text) > MANIFEST_LIMIT or len(blob) > TABLES_LIMIT:
        raise Error(
            f"this {kind} takes more room than a file may have; use fewer or smaller tables, and shorter names."
        )
    return text, blob


def content_digest(kind: str, version: int, content: Mapping[str, Any], tables: "list[np.ndarray]") -> str:
    """The digest that :func:`pack` records: it names what is in an archive, signed or not."""
    return _digest({**content, "kind": kind, "version": version}, _pack_tables(tables))


def write_archive(path: str | Path, members: Mapping[str, bytes], *, time: str = "") -> None:
    """Write members into one zip, atomically. An existing file is replaced only if it is such an archive."""
    check_replaceable(Path(path))
    write_atomically(path, _archive(members), time=time)


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
    except BAD_ZIP:
        raise FileError(f"{path} is not {what}, or it is damaged; get a fresh copy.") from None
    if _archive({name: members[name] for name in MEMBERS if name in members}) != data:
        raise FileError(f"{path} is not {what} as quietfield writes it: it holds bytes besides its parts.")
    return members


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
        learn = "; learn a model from it with qf.fit or quietfield fit" if (kind, found) == ("model", "release") else ""
        raise FileError(f"{path} is not a quietfield {kind}" + (f" but a {found!r}{learn}." if found else "."))
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


def _pack_tables(tables: "list[np.ndarray]") -> bytes:
    import numpy as np
    from safetensors.numpy import save

    return save({f"{i:06d}": np.asarray(table, order="C") for i, table in enumerate(tables)})
