"""CSV, line by line: one line is one record, whatever is in it.

An ordinary reader lets a stray quote swallow the lines after it, so that one person's row could take a thousand others
with it, and no claim about a single person would hold. Here a line with an odd number of quotes, with more or fewer
fields than the header or with bytes that are not UTF-8 is a record all of whose values are missing, and nothing else
changes. A line break inside quotes is therefore not possible; blank lines are no records.
"""

import csv
import glob
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quietfield.errors import Error, FileError, names

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK = 2**22
SUFFIXES = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
COMPRESSED = {".gz": "gzip", ".zst": "zstd"}


def files(path: str | Path) -> list[str]:
    """The files that a path or a pattern stands for, in order; a path that exists as it is comes first."""
    text = str(path)
    found = [text] if Path(text).is_file() else sorted(f for f in glob.glob(text, recursive=True) if Path(f).is_file())
    if not found:
        raise FileError(f"there is no file {text!r}; check the path or the pattern.")
    return found


def delimiter(path: str) -> str | None:
    """What separates the fields of a file, by its name, or None if it is no file of lines."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return SUFFIXES.get(suffixes[-1]) if suffixes else None


def header(path: str) -> list[str]:
    """The names in a file's first line."""
    with _open(path) as stream:
        first = b""
        while b"\n" not in first and (more := stream.read(2**16)):
            first += more
    line = first.split(b"\n", 1)[0].removeprefix(b"\xef\xbb\xbf").rstrip(b"\r")
    if line.count(b'"') % 2:
        raise FileError(f"the first line of {path} has an unmatched quote; names of columns cannot hold line breaks.")
    try:
        fields = _fields(line, delimiter(path) or ",")
    except (UnicodeDecodeError, csv.Error):
        raise FileError(f"the first line of {path} is not UTF-8 text with the names of the columns.") from None
    if not fields:
        raise FileError(f"the first line of {path} is empty; it must name the columns.")
    twice = [name for name in dict.fromkeys(fields) if fields.count(name) > 1]
    if twice:
        raise FileError(f"{path} names {names(twice)} more than once; give each column its own name.")
    return fields


def reader(paths: Sequence[str], wanted: Sequence[str]) -> tuple["pa.Schema", Callable[[], Iterator[Any]]]:
    """The wanted columns of all files, as texts called c0, c1, ...: their schema, and what reads them in batches."""
    import pyarrow as pa

    headers = {path: header(path) for path in paths}
    for path, fields in headers.items():
        missing = [name for name in wanted if name not in fields]
        if missing:
            raise Error(f"{path} has no column {names(missing)}; its columns are {names(fields)}.")
    schema = pa.schema([(f"c{i}", pa.string()) for i in range(len(wanted))])

    def batches() -> Iterator[Any]:
        for path in paths:
            for block in _blocks(path):
                table = _parse(block, headers[path], wanted, delimiter(path) or ",")
                yield from table.cast(schema).to_batches()

    return schema, batches


def _open(path: str) -> Any:
    import pyarrow as pa

    opened: Any = None
    try:
        opened = pa.input_stream(path, compression=COMPRESSED.get(Path(path).suffix.lower()), buffer_size=2**20)
    except (OSError, pa.ArrowException):
        opened = None
    if opened is None:
        raise FileError(f"cannot read {path}; check that it is there, that you may read it and that it is whole.")
    return opened


def _blocks(path: str) -> Iterator[bytes]:
    """Whole lines, about four megabytes at a time, without the header."""
    with _open(path) as stream:
        rest, skipped = b"", False
        while more := stream.read(BLOCK):
            rest += more
            if not skipped:
                if b"\n" not in rest:
                    continue
                rest, skipped = rest.split(b"\n", 1)[1], True
            end = rest.rfind(b"\n") + 1
            if end:
                yield rest[:end]
                rest = rest[end:]
        if skipped and rest:
            yield rest + b"\n"


def _parse(block: bytes, fields: Sequence[str], wanted: Sequence[str], separator: str) -> "pa.Table":
    import pyarrow as pa

    columns = [f"c{fields.index(name)}" for name in wanted]
    lines, broken = _whole_lines(block)
    table, more = _quick(lines, len(fields), columns, separator) if _is_utf8(lines) else (None, 0)
    if table is None or table.num_rows + more + broken != _records(block):  # refused, or a line was split or joined
        table, more = _careful(lines, len(fields), columns, separator)
    missing = broken + more
    table = table.rename_columns([f"c{i}" for i in range(len(wanted))])
    if not missing:
        return table
    nothing = {name: pa.nulls(missing, pa.string()) for name in table.column_names}
    return pa.concat_tables([table, pa.table(nothing, schema=table.schema)])


def _records(block: bytes) -> int:
    if b"\n\n" not in block and b"\n\r\n" not in block and not block.startswith((b"\n", b"\r\n")):
        return block.count(b"\n")
    return sum(bool(line.strip(b"\r")) for line in block.split(b"\n"))


def _whole_lines(block: bytes) -> tuple[bytes, int]:
    """The lines whose quotes match, without carriage returns (readers take them for line ends), and how many do not."""
    if b"\r" in block:
        lines = [line.removesuffix(b"\r") for line in block.split(b"\n") if line.strip(b"\r")]
        block = b"\n".join(line.replace(b"\r", b"\x1a") for line in lines) + b"\n"
    if b'"' not in block:
        return block, 0
    lines = block.split(b"\n")
    matched = [line for line in lines if not line.count(b'"') % 2]
    return b"\n".join(matched), len(lines) - len(matched)


def _is_utf8(lines: bytes) -> bool:
    """Asked before Arrow sees the lines: it would print the bytes that it cannot read on the error stream."""
    try:
        return lines.isascii() or bool(lines.decode())
    except UnicodeDecodeError:
        return False


def _quick(lines: bytes, width: int, columns: Sequence[str], separator: str) -> tuple["pa.Table | None", int]:
    """All lines at once, and the number of those that were refused; None where Arrow gives up."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    refused = 0

    def refuse(_row: Any) -> str:
        nonlocal refused
        refused += 1
        return "skip"

    every = [f"c{i}" for i in range(width)]
    used = list(dict.fromkeys(columns))
    if not lines.strip(b"\n"):
        return pa.table({name: pa.nulls(0, pa.string()) for name in used}).select(columns), 0
    try:
        table = arrow_csv.read_csv(
            io.BytesIO(lines),
            read_options=arrow_csv.ReadOptions(
                column_names=every, use_threads=False, block_size=max(2**20, len(lines) + 1)
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=separator, invalid_row_handler=refuse, ignore_empty_lines=True
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(used, pa.string()),
                include_columns=used,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )
    except pa.ArrowException:
        return None, 0
    return table.select(columns), refused


def _careful(lines: bytes, width: int, columns: Sequence[str], separator: str) -> tuple["pa.Table", int]:
    """One line at a time: slower, and sure that a bad line stays alone."""
    import pyarrow as pa

    rows, broken = [], 0
    for line in lines.split(b"\n"):
        if not line:
            continue
        try:
            fields = _fields(line, separator)
        except (UnicodeDecodeError, csv.Error):
            fields = []
        if len(fields) == width:
            rows.append([fields[int(name[1:])] or None for name in columns])
        else:
            broken += 1
    data = {f"x{i}": pa.array([row[i] for row in rows], pa.string()) for i in range(len(columns))}
    return pa.table(data), broken


def _fields(line: bytes, separator: str) -> list[str]:
    return next(csv.reader([line.decode("utf-8")], delimiter=separator), [])
