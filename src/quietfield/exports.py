"""Folders of exported tables: how they are encoded, and how an earlier export is replaced without touching other files.

Each export lists its files in its ``index.csv``. To replace one is to remove what its index lists, and nothing else:
whatever else lies in the folder is somebody's, and an export that would need its name is refused.
"""

import csv
import io
import os
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from quietfield.domain import Clique
from quietfield.errors import Error, FileError, many, names
from quietfield.files import check_writable, write_atomically

INDEX = "index.csv"
#: The first line of an index: of the noisy tables of a release, and of tables for people.
RELEASE_COLUMNS = ("file", "cliques", "noise", "scale", "std", "not_counted")
PEOPLE_COLUMNS = ("file", "attributes", "basis")
#: The names that exports write. An index that was edited must not make us remove anything else.
_OURS = re.compile(r"table-\d{4,}\.(csv|parquet)|dictionary\.csv|privacy\.txt")


def table_file(number: int, format: str) -> str:
    """The name of a table's file: numbered, since attribute names may hold anything."""
    return f"table-{number:04d}.{format}"


def earlier(folder: Path) -> tuple[str, ...] | None:
    """The files of an earlier export that are still in a folder, by its own index; None if it holds no export."""
    try:
        with open(folder / INDEX, encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            if tuple(next(rows, ())) not in (RELEASE_COLUMNS, PEOPLE_COLUMNS):
                return None
            listed = [row[0] for row in rows if row]
    except (OSError, UnicodeDecodeError, csv.Error):
        return None
    found = [name for name in dict.fromkeys(listed) if _OURS.fullmatch(name) and (folder / name).is_file()]
    return (*found, INDEX)


def check(out: Path, format: str, force: bool) -> None:
    """Refuse an output that cannot be made, or where something is that may not be replaced; before the work."""
    if format == "xlsx":
        if out.suffix.lower() != ".xlsx":
            raise Error(f"a workbook is one file whose name ends in .xlsx, not {out}.")
        check_writable(out)
        if os.path.lexists(out) and not force:
            raise FileError(f"{out} is there already; choose another path, or say --force (in Python, force=True).")
        if os.path.lexists(out) and not _workbook(out):
            raise FileError(f"{out} is not a workbook that quietfield exported, so it stays; choose another path.")
        return
    if out.suffix.lower() in (".xlsx", ".csv", ".parquet"):
        way = "say --format xlsx, or name a folder" if out.suffix.lower() == ".xlsx" else "name a folder"
        raise Error(f"tables as {format} go into a folder, and {out} is the name of a file; {way}.")
    above = next((path for path in (out, *out.absolute().parents) if os.path.lexists(path)), out)
    if not above.is_dir():
        raise FileError(f"cannot make the folder {out}: {above} is a file; choose another.")
    if not force and (files := earlier(out)) is not None:
        raise FileError(
            f"{out} holds an earlier export of {many(len(files), 'file')}; choose another folder, or say --force to "
            "replace it (in Python, force=True)."
        )


def write(out: Path, files: Mapping[str, bytes], force: bool) -> list[Path]:
    """Write the files of an export into a folder, the index last: it says that the rest is there.

    With ``force``, the files that an earlier export lists are removed first. Files of others are never replaced.
    """
    check(out, "csv", force)
    old = earlier(out) or ()
    strange = [name for name in files if os.path.lexists(out / name) and name not in old]
    if strange:
        raise FileError(f"{out} holds {names(strange)}, which quietfield did not export; choose another folder.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in old:
            if name != INDEX:  # replaced at the end: until then it lists what there was
                (out / name).unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {out}: {error.strerror}; choose another.") from None
    ordered = [*(name for name in files if name != INDEX), INDEX]
    for name in ordered:
        write_atomically(out / name, files[name])
    return [out / name for name in ordered]


def free_name(name: str, taken: Clique) -> str:
    """A name for a column that no attribute has.

    >>> free_name("share", ("age", "share"))
    'share_'
    """
    while name in taken:
        name += "_"
    return name


def csv_rows(rows: Iterable[Sequence[Any]]) -> bytes:
    """Rows as the bytes of a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def encoded(columns: Mapping[str, list[Any]], format: str) -> bytes:
    """Columns as the bytes of a CSV or Parquet file."""
    if format == "csv":
        return csv_rows([list(columns), *zip(*columns.values(), strict=True)])
    import pyarrow as pa
    from pyarrow import parquet

    sink = io.BytesIO()
    parquet.write_table(pa.table(dict(columns)), sink)
    return sink.getvalue()


def _workbook(path: Path) -> bool:
    """Whether a file is a workbook of ours: its first two sheets are About and Dictionary."""
    try:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo("xl/workbook.xml")
            listed = archive.read(info) if info.file_size < 2**20 else b""
    except (OSError, KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return False
    return re.findall(rb'<sheet [^>]*?name="([^"]*)"', listed)[:2] == [b"About", b"Dictionary"]
