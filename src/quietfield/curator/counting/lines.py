"""CSV, line by line, with separators and quotes: one line is one record, and nothing but its own bytes says what it is.

An ordinary reader lets a stray quote swallow the lines after it, so that one person's row could take a thousand others
with it, and no promise about a single row would hold. Here a line that is not well formed is no record, and nothing
else changes. A line is well formed if it has as many fields as the header, each of them without any quote or wholly in
quotes (where a quote is doubled), if it is UTF-8 without NULs and carriage returns, and if it is not longer than
``LONGEST``. A line break inside quotes is therefore not possible: a record that has one is several lines, each of which
may be a row under whatever id it holds. So what ``Rows`` protects here is a line of the file, and ``Person`` needs the
curator's word that every record is one line. Blank lines are no records. Lines in another encoding are brought into
UTF-8 one by one first (``csvfiles.py``).

Arrow splits the lines into fields, many at a time. It sees well-formed lines only, on which it and every other reader
agree, and none of them at the start of its input, where it would take a byte order mark off.
"""

import glob
import io
import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from quietfield.curator.counting.csvfiles import (
    COMPRESSED,
    SEPARATORS,
    TOO_LONG,
    Coding,
    CsvFile,
    encoding_hint,
    encoding_name,
    find_coding,
    separator_by_name,
    with_byte_order,
)
from quietfield.curator.counting.reading import attempt, check_names, mask_path
from quietfield.curator.sequences import log_data
from quietfield.errors import Error, FileError
from quietfield.privacy.units import Person, Unit, is_total_public

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK = 2**22
#: The longest line that is read, in bytes; a longer one is passed over without being held in memory.
LONGEST = 2**23
#: What some programs write before the names, for Excel to know the delimiter.
EXCEL = re.compile(rb'"?sep=."?[^a-z]*', re.IGNORECASE)
#: What a release from a file of lines has to say: for other sources a row is what the database says it is.
NOTE = "one row is one line of the file; a value with line breaks in it would have been several rows"
AFFIRMED = "one row is one line of the file; the curator affirms that every record is one line"


def find_files(path: str | Path) -> list[str]:
    """The files that a path or a pattern stands for, in order; a path that exists as it is comes first."""
    text = str(path)
    found = [text] if Path(text).is_file() else sorted(f for f in glob.glob(text, recursive=True) if Path(f).is_file())
    if not found and Path(text).is_dir():
        raise FileError(f"{text!r} is a folder; name the files in it, such as {str(Path(text) / '*.csv')!r}.")
    if not found:
        raise FileError(f"there is no file {text!r}; check the path or the pattern.")
    return found


def is_lines(source: Any) -> bool:
    """Whether a source, or the log that it is, is a file of lines or a pattern of such files."""
    data = log_data(source)
    if not isinstance(data, str | Path):
        return isinstance(data, CsvFile)
    return any(separator_by_name(path) for path in find_files(data))


def check_neighbours(source: Any, unit: Unit, neighbours: str) -> None:
    """Refuse to take a public number of records from a file of lines: whether a line is a record is private."""
    if neighbours == "replace" and is_total_public(unit, neighbours) and is_lines(source):
        raise Error(
            "with replace neighbours the number of records is public, so none may be dropped, but lines that are not "
            "well formed would be; give the records as Parquet, or use add_remove neighbours."
        )


def check_unit(source: Any, unit: Unit) -> None:
    """Refuse persons in a file of lines, unless the curator affirms that every record is one line."""
    if isinstance(unit, Person) and is_lines(source) and not (how := _csv_file(source)).one_line_per_record:
        raise Error(
            f"{str(how.path)!r} is read line by line, so that the lines of a text with line breaks in it would be rows "
            f"of their own, under any id, and the promise to protect {unit.who} would not hold. If no field holds a "
            "line break, say so: CsvFile(path, one_line_per_record=True) or --one-line-per-record; the release "
            "notes it as your word. Otherwise convert the file with a reader of quoted fields, and release the Parquet "
            f"file: {parquet_command(how)}"
        )


def parquet_command(source: str | Path | CsvFile) -> str:
    """A command that converts a CSV file whose texts have line breaks in them; it fails where quotes do not match.

    >>> print(parquet_command(CsvFile("visits.csv", delimiter=";")))
    python -c 'import duckdb; duckdb.read_csv("visits.csv", sep=";", ...).write_parquet("visits.parquet")'
    """
    how = _csv_file(source)
    path = str(how.path)
    alone = Path(path).is_file() or not glob.has_magic(path)
    pattern = json.dumps(glob.escape(path) if alone else path)
    target = Path(path).with_suffix(".parquet") if alone else Path("records.parquet")
    imports, recode = "duckdb", ""
    if encoding_name(how.encoding) != "utf-8":  # DuckDB writes Parquet from UTF-8 alone, so Python recodes first
        imports = "duckdb, glob, pathlib, pyarrow, tempfile"
        utf8 = f"pyarrow.input_stream(old).read().decode({json.dumps(how.encoding)}).encode()"
        recode = (
            f"new = tempfile.TemporaryDirectory(dir={json.dumps(str(target.parent))}); "
            f'[pathlib.Path(new.name, f"{{i}}.csv").write_bytes({utf8}) '
            f"for i, old in enumerate(glob.glob({pattern}, recursive=True))]; "
        )
        pattern = 'new.name + "/*.csv"'
    settings = {"sep": how.separator(path), "quotechar": '"', "escapechar": '"'}
    said = ", ".join(f"{name}={json.dumps(value)}" for name, value in settings.items())
    read = f"{recode}duckdb.read_csv({pattern}, {said}, header=True, all_varchar=True)"
    return f"python -c {shlex.quote(f'import {imports}; {read}.write_parquet({json.dumps(str(target))})')}"


def describe_unit(source: Any, unit: Unit) -> str:
    """What is protected, in words: in a file of lines, a line of it."""
    return unit.describe(lines=is_lines(source))


def row_notes(source: Any) -> list[str]:
    """What a release of a source has to say of its rows."""
    if not is_lines(source):
        return []
    return [NOTE if is_broken_up(source) else AFFIRMED]


def is_broken_up(source: Any) -> bool:
    """Whether records could be several lines, by what is public: a source of lines, of which nobody affirmed more."""
    return is_lines(source) and not _csv_file(source).one_line_per_record


def _csv_file(source: Any) -> CsvFile:
    """How a source of lines, or the log that it is, is read."""
    data = log_data(source)
    return data if isinstance(data, CsvFile) else CsvFile(data)


def read_header(path: str, how: CsvFile) -> list[str]:
    """The names in a file's first line. Errors do not show them: in a file without names they are a person's record."""
    line, separator = _first_line(path, how), how.separator(path)
    if not _quotes_match(line, separator.encode()):
        raise FileError(
            f"the first line of {mask_path(path)} does not name the columns: check that its quotes match and that no "
            f"name holds a line break.{separator_hint(path, how)}"
        )
    fields = _fields(line.decode(), separator)
    if len(set(fields)) < len(fields):
        raise FileError(
            f"the first line of {mask_path(path)} names a column more than once; give each column its own name."
        )
    return fields


def check_header(source: str | Path | CsvFile, header_stated: bool) -> None:
    """Refuse to take the first line for names that may be published, unless the curator says so and it looks like it.

    Nothing proves that a line holds names. A field without a letter, a number or a date shows that it hardly does.
    """
    how = _csv_file(source)
    path = find_files(how.path)[0]
    if not header_stated:
        raise FileError(
            f"the first line of {mask_path(path)} would be published as the names of its columns, and without a "
            "line of names it is somebody's record. Look at that line: if it holds names, say --header (in Python "
            "header=True); otherwise add a line of names above it."
        )
    if any(_is_value(name) for name in read_header(path, how)):
        raise FileError(
            f"the first line of {mask_path(path)} does not look like names of columns, although --header says so: "
            "an empty field, a number or a date is among them. Add a line of names above it if it is a record; if "
            "these are names, give each a letter (a separator at the end of the line makes an empty one), or write the "
            "schema by hand."
        )


def _is_value(field: str) -> bool:
    """Whether a field is hardly the name of a column.

    >>> [field for field in ("age", "2024 total", "12", "1e5", "", "2024-01-31", "31 Jan 2024") if not _is_value(field)]
    ['age', '2024 total']
    """
    if not any(letter.isalpha() for letter in field) or re.match(r"\d+([-/. ])\w+\1\d+", field.strip()):
        return True
    try:
        return isinstance(float(field), float)
    except ValueError:
        return False


def _first_line(path: str, how: CsvFile) -> bytes:
    """The first line of a file in UTF-8, without a byte order mark."""
    first = b""
    with _open(path) as stream:
        first = _read_full(stream, 2**16, path)
        using = with_byte_order(find_coding(how.encoding), first, path)
        while not using.ends(first)[0] and len(first) <= LONGEST and (more := _read_full(stream, 2**16, path)):
            first += more
    raw = first[: using.ends(first)[0] or None]
    # Where lines end with a carriage return alone, records follow it: nothing beyond it may be told of.
    names_alone, ended = using.before_return(raw)
    line = using.utf8(names_alone, LONGEST).removesuffix(b"\n").removeprefix(b"\xef\xbb\xbf")
    if not line:
        raise FileError(f"the first line of {mask_path(path)} is empty; it must name the columns.")
    if len(line) > LONGEST or not _is_text(line):
        named = "UTF-8" if using.kind == "plain" else how.encoding
        hint = encoding_hint(names_alone) if using.kind == "plain" else "Check that the encoding is the right one."
        raise FileError(
            f"the first line of {mask_path(path)} is not {named} text with the names of the columns, ended by a "
            f"line feed. {hint}"
        )
    if not ended:
        raise FileError(
            f"lines of {mask_path(path)} do not end with a line feed (some old programs end them with a carriage "
            "return alone); write the file anew with line feeds."
        )
    if EXCEL.fullmatch(line):
        raise FileError(
            f"the first line of {mask_path(path)} is a note to Excel and not the names of the columns; take it out."
        )
    return line


def separator_hint(path: str, how: CsvFile, wanted: Sequence[str] | None = None) -> str:
    """A hint where the first line names more of the columns wanted with another sign between names; or nothing.

    Where nothing is wanted in particular, any names are.
    """
    line, used = _first_line(path, how), how.separator(path)
    split = {sign: _fields(line.decode(), sign) for sign in SEPARATORS if _quotes_match(line, sign.encode())}
    if wanted is None:
        wanted = [name for fields in split.values() if len(fields) > 1 for name in fields]
    named = {sign: len(set(fields) & set(wanted)) for sign, fields in split.items()}
    best = max(named, key=lambda sign: (named[sign], sign == used), default=used)
    if named.get(best, 0) <= named.get(used, 0):
        return ""
    return (
        f" With {SEPARATORS[best]} between names it names more: read it with CsvFile(path, delimiter={best!r}) or "
        f"--delimiter {'tab' if best == chr(9) else repr(best)}."
    )


def single_name_hint(source: str | Path | CsvFile) -> str | None:
    """A hint where the first line is a single name, and would be several with another sign between them; or None."""
    how = _csv_file(source)
    path = find_files(how.path)[0]
    hint = separator_hint(path, how) if len(read_header(path, how)) == 1 else ""
    return f"the first line of {mask_path(path)} is one name.{hint}" if hint else None


def check_separator(source: str | Path | CsvFile) -> None:
    """Refuse to pay for a single column that would be several with another sign between their names.

    Raises:
        Error: The first line is a single name with such a sign in it. Whoever names the separator is not asked.
    """
    hint = single_name_hint(source)
    if hint is not None:
        raise Error(f"{hint} If it is one name, say --delimiter ','.")


def open_columns(
    paths: Sequence[str], wanted: Sequence[str], how: CsvFile
) -> tuple["pa.Schema", Callable[[], Iterator[Any]]]:
    """The wanted columns of all files, as texts called c0, c1, ...: their schema, and what reads them in batches."""
    import pyarrow as pa

    headers = {path: read_header(path, how) for path in paths}
    for path, fields in headers.items():
        if not set(wanted) <= set(fields):
            advice = (
                "Columns are named by the first line of a file; what that line says is not shown, since it may be a "
                f"record.{separator_hint(path, how, wanted)}"
            )
            check_names(wanted, fields, path, advice)
    schema = pa.schema([(f"c{i}", pa.string()) for i in range(len(wanted))])

    def batches() -> Iterator[Any]:
        for path, fields in headers.items():
            positions = [fields.index(name) for name in wanted] or [0]
            for block in _blocks(path, find_coding(how.encoding)):
                table = _parse(block, len(fields), positions, how.separator(path))
                for batch in table.to_batches():  # where no column is wanted, the records still count
                    yield batch.rename_columns(schema.names) if wanted else batch.select([])

    return schema, batches


class LineCounts(NamedTuple):
    """How many lines are no records, are not of the encoding, hold an odd number of quotes, and are there in all."""

    broken: int
    foreign: int
    odd_quotes: int
    every: int


def count_lines(source: str | Path | CsvFile) -> LineCounts:
    """The lines of all files and what is wrong with them. NOT PRIVATE: for the curator's eyes."""
    how = _csv_file(source)
    lines = records = foreign = odd = 0
    for path in find_files(how.path):
        width = len(read_header(path, how))
        for block in _blocks(path, find_coding(how.encoding)):
            every = [line for line in block.split(b"\n") if line.strip(b"\r")]
            lines += len(every)
            foreign += sum(not _is_utf8(line) for line in every)
            odd += sum(line.count(b'"') % 2 for line in every if line != TOO_LONG) if b'"' in block else 0
            records += _parse(block, width, [0], how.separator(path)).num_rows
    return LineCounts(lines - records, foreign, odd, lines)


def _open(path: str) -> Any:
    import pyarrow as pa

    packed = COMPRESSED.get(Path(path).suffix.lower())
    opened = attempt(lambda: pa.input_stream(path, compression=packed, buffer_size=2**20), OSError, pa.ArrowException)
    if opened is None:
        raise FileError(
            f"cannot read {mask_path(path)}; check that it is there, that you may read it and that it is whole."
        )
    return opened


def _read(stream: Any, size: int, path: str) -> bytes:
    data: bytes | None = attempt(lambda: stream.read(size), OSError, ValueError)  # Arrow's errors are of these kinds
    if data is None:
        raise FileError(
            f"cannot read {mask_path(path)}; check that it is whole and compressed as its name says, if at all."
        )
    return data


def _read_full(stream: Any, size: int, path: str) -> bytes:
    """So many bytes, or those that are left: characters of two bytes then never lie across two calls."""
    found = _read(stream, size, path)
    while len(found) < size and (more := _read(stream, size - len(found), path)):
        found += more
    return found


def _blocks(path: str, coding: Coding) -> Iterator[bytes]:
    """Lines with their ends, some megabytes at a time, without the header; for one that is too long, a broken one."""
    with _open(path) as stream:
        rest, passing, begun = b"", True, False  # the header is passed over
        while more := _read_full(stream, BLOCK, path):
            if not begun:
                coding, begun = with_byte_order(coding, more, path), True
            if passing:
                first, _ = coding.ends(more)
                more, passing = more[first:] if first else b"", not first
            _, end = coding.ends(more)
            if end:
                yield coding.utf8(rest + more[:end], LONGEST)
                rest = b""
            rest += more[end:]
            if len(rest) > LONGEST:
                rest, passing = b"", True
                yield TOO_LONG + b"\n"
        if rest:
            yield coding.utf8(rest, LONGEST) + b"\n"


def _parse(block: bytes, width: int, positions: Sequence[int], separator: str) -> "pa.Table":
    """The fields of all records among some lines, as texts, with NULL for empty ones."""
    import pyarrow as pa
    from pyarrow import csv

    lines = _records(block, separator.encode())
    every = [f"c{i}" for i in range(width)]
    used = [every[position] for position in positions]
    if not lines.strip(b"\n"):
        return pa.table({name: pa.nulls(0, pa.string()) for name in used})
    return csv.read_csv(
        io.BytesIO(b"\n" + lines),
        read_options=csv.ReadOptions(column_names=every, use_threads=False, block_size=len(lines) + 2),
        parse_options=csv.ParseOptions(
            delimiter=separator, invalid_row_handler=lambda _: "skip", ignore_empty_lines=True
        ),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(used, pa.string()),
            include_columns=used,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        ),
    )


def _records(block: bytes, separator: bytes) -> bytes:
    """The lines that are well formed, but for their number of fields."""
    if len(block) > LONGEST:
        block = b"\n".join(line for line in block.split(b"\n") if len(line) <= LONGEST)
    block = block.replace(b"\r\n", b"\n")
    if not _is_text(block):
        block = b"\n".join(line for line in block.split(b"\n") if _is_text(line))
    if b'"' in block:
        block = b"\n".join(line for line in block.split(b"\n") if b'"' not in line or _quotes_match(line, separator))
    return block


def _is_text(line: bytes) -> bool:
    """Asked before Arrow sees a line: it would print the bytes that it cannot read on the error stream."""
    return b"\0" not in line and b"\r" not in line and _is_utf8(line)


def _is_utf8(line: bytes) -> bool:
    try:
        return line.isascii() or bool(line.decode())
    except UnicodeDecodeError:
        return False


def _quotes_match(line: bytes, separator: bytes) -> bool:
    """Whether every field has no quote in it or stands wholly in quotes."""
    parts = line.split(b'"')
    if len(parts) % 2 == 0:
        return False
    # Parts are by turns outside and inside of quotes. Outside lies nothing, between two quotes that stand for one, or
    # whole fields with the separators around them.
    outside = parts[::2]
    after = all(not part or part.startswith(separator) for part in outside[1:])
    return after and all(not part or part.endswith(separator) for part in outside[:-1])


def _fields(line: str, separator: str) -> list[str]:
    """The fields of a well-formed line."""
    separator = re.escape(separator)
    found = re.finditer(rf'(?:^|{separator})(?:"((?:[^"]|"")*)"|([^"{separator}]*))', line)
    return [match[2] if match[1] is None else match[1].replace('""', '"') for match in found]
