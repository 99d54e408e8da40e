"""Folders of exported tables: how they are encoded, and how an earlier export is replaced without touching other files.

Each export lists its files in its ``index.csv``. To replace one is to remove what its index lists, and nothing else:
whatever else lies in the folder is somebody's. A folder that holds files with names of ours that no index lists is
refused: whoever reads the export could not tell them from it. New files are whole before an old one is touched, and
while they take their places there is no index: none ever vouches for tables of another export.
"""

import csv
import io
import os
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from quietfield.errors import Error, FileError
from quietfield.files import check_writable, create, set_time, temporary_neighbour
from quietfield.models.spreadsheets import defuse_formulas
from quietfield.text import join_names, plural

#: What exports are written as; xlsx from a model alone.
FORMATS = ("csv", "parquet", "xlsx")
INDEX = "index.csv"
#: The first line of an index: of the noisy tables of a release (an older one had no value), and of tables for people.
RELEASE_COLUMNS = ("file", "cliques", "noise", "scale", "std", "not_counted", "value")
PEOPLE_COLUMNS = ("file", "attributes", "basis")
_COLUMNS = (RELEASE_COLUMNS, RELEASE_COLUMNS[:-1], PEOPLE_COLUMNS)
#: The names that exports write. An index that was edited must not make us remove anything else.
_OURS = re.compile(r"table-\d{4,}\.(csv|parquet)|interactions\.(csv|parquet)|dictionary\.csv|privacy\.txt")
#: What has to stand in quotes in a CSV file (RFC 4180), also if it is opened with another separator.
_QUOTED = re.compile(r'[",;|\t\r\n]')


def table_file(number: int, format: str) -> str:
    """The name of a table's file: numbered, since attribute names may hold anything."""
    return f"table-{number:04d}.{format}"


def find_earlier(folder: Path) -> tuple[str, ...] | None:
    """The files of an earlier export that are still in a folder, by its own index; None if it holds no export."""
    try:
        with open(folder / INDEX, encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            if tuple(next(rows, ())) not in _COLUMNS:
                return None
            listed = [row[0] for row in rows if row]
    except (OSError, UnicodeDecodeError, csv.Error):
        return None
    found = [name for name in dict.fromkeys(listed) if _OURS.fullmatch(name) and (folder / name).is_file()]
    return (*found, INDEX)


def check_target(out: Path, format: str, force: bool) -> None:
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
    files = find_earlier(out)
    if not force and files is not None:
        raise FileError(
            f"{out} holds an earlier export of {plural(len(files), 'file')}; choose another folder, or say --force to "
            "replace it (in Python, force=True)."
        )
    if strange := _of_others(out, files or ()):
        raise FileError(
            f"{out} holds {join_names(strange)}, which no index of an export lists; choose another folder, or, if an "
            "export was interrupted there, remove what it left."
        )


def write_folder(out: Path, files: Mapping[str, bytes], force: bool, *, time: str = "") -> list[Path]:
    """Write the files of an export into a folder, the index last: it says that the rest is there.

    With ``force``, they replace an earlier export. As long as something can fail for want of room or of permission, the
    earlier one is untouched. Files of others are never replaced. With a ``time``, all of them bear that one.
    """
    check_target(out, "csv", force)
    old = find_earlier(out) or ()
    ordered = [*(name for name in files if name != INDEX), INDEX]
    with ExitStack() as stack:
        try:
            out.mkdir(parents=True, exist_ok=True)
            new = {name: stack.enter_context(temporary_neighbour(out / name)) for name in ordered}
            for name, temporary in new.items():
                with create(temporary) as file:
                    file.write(files[name])
                    file.flush()
                    set_time(temporary, time)
                    os.fsync(file.fileno())
            (out / INDEX).unlink(missing_ok=True)
            for name, temporary in new.items():
                os.replace(temporary, out / name)
        except OSError as error:
            raise FileError(
                f"cannot write the export to the folder {out}: {error.strerror}; choose another, or make room there."
            ) from None
    for name in old:
        try:
            if name not in new:
                (out / name).unlink(missing_ok=True)
        except OSError as error:
            raise FileError(
                f"the export to the folder {out} is whole, but {name} of an earlier one cannot be removed: "
                f"{error.strerror}; remove it and whatever else index.csv does not list."
            ) from None
    return [out / name for name in ordered]


def _of_others(folder: Path, listed: Sequence[str]) -> list[str]:
    """The files in a folder whose names are those of an export that does not list them."""
    try:
        found = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FileError(f"cannot read the folder {folder}: {error.strerror}; choose another.") from None
    # Where names differ in case alone and the system does not care, a file of ours would take the place of theirs.
    ours = [name for name in found if name.lower() == INDEX or _OURS.fullmatch(name.lower())]
    return [name for name in ours if name not in listed and os.path.lexists(folder / name.lower())]


def csv_rows(rows: Iterable[Sequence[Any]], *, for_programs: bool = False) -> bytes:
    """Rows as the bytes of a CSV file: for people, without formulas; or for programs, with every text as it is."""
    cells = (row if for_programs else map(defuse_formulas, row) for row in rows)
    return "".join(",".join(map(_csv_field, row)) + "\n" for row in cells).encode()


def _csv_field(value: Any) -> str:
    """One field. Python's own writer leaves carriage returns without quotes, and readers take those for line ends."""
    text = "" if value is None else str(value)
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text


def encode_table(columns: Mapping[str, list[Any]], format: str, *, for_programs: bool = False) -> bytes:
    """Columns as the bytes of a CSV or Parquet file."""
    if format == "csv":
        return csv_rows([list(columns), *zip(*columns.values(), strict=True)], for_programs=for_programs)
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
