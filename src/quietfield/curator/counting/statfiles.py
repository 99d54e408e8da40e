"""Files of SPSS, Stata and SAS, some rows at a time, with pyreadstat: where agencies keep data.

A file's own dictionary says which columns there are, of which type, which of their numbers are dates and which values
count as missing. That much is public. Its value labels never become the labels of a schema: some programs write them
from the records (Stata's ``encode`` lists every text that occurs). Values that the file declares missing are nulls.

One text that is not of the file's encoding would make pyreadstat give up, so that whether there is a release would tell
of that record. Therefore it is asked to read bytes (as Latin-1, which has a character for every byte), and each text is
decoded here on its own: what cannot be is a text that no schema knows.

Which encoding that is never depends on a record: the curator names it, or it is fixed by the file's header (Stata, SAS)
or by a record of its dictionary (SPSS), which is walked from its beginning to its end and not searched for.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np

from quietfield.curator.counting.csvfiles import encoding_name
from quietfield.curator.counting.reading import attempt, mask_path, to_text
from quietfield.errors import Error, FileError

if TYPE_CHECKING:
    import pyarrow as pa

#: The function of pyreadstat for each ending.
READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}
#: The endings of SAS, which keeps the labels of values elsewhere.
NO_LABELS = (".sas7bdat", ".xpt")
#: The most values that are held at a time; each row is read again up to its chunk, so few large chunks are quicker.
CELLS = 2**20
#: Days and seconds between 1970 and the day that a program counts from.
SPSS, OTHERS = -141_428, -3_653
_FAR = 9e15

_SPSS_DAYS = {"DATE", "ADATE", "EDATE", "JDATE", "SDATE", "MOYR", "QYR", "WKYR"}
_SPSS_TIMES = {"DATETIME", "YMDHMS"}
#: The longest SPSS dictionary that is walked, in bytes, and the longest name of an encoding.
LONGEST_DICTIONARY, _LONGEST_NAME = 2**26, 64
_SAS_DAYS = re.compile(
    r"DATE|WEEKDA|WORDDAT|DDMMYY|MMDDYY|YYMMDD|YYMM|MMYY|MONYY|YYMON|YYQ|JULIAN|YEAR|(E8601|B8601|IS8601)DA|NLDATE$"
)
_SAS_TIMES = re.compile(r"DATETIME|DATEAMPM|MDYAMPM|DTDATE|(E8601|B8601|IS8601)D[TNX]|NLDATM")


@dataclass(frozen=True)
class StatFile:
    """A file of SPSS (.sav, .zsav, .por), Stata (.dta) or SAS (.sas7bdat, .xpt), or a pattern of such files.

    ``values`` says what is read where the file's dictionary has labels for values: ``"codes"``, the values as they are
    stored, or ``"labels"``, the texts that the dictionary gives them (a value without one stays as it is). A path alone
    means codes. ``encoding`` is that of the texts. It is needed for SPSS files whose dictionary does not name one, and
    for texts that are in another encoding than the file says.

    >>> StatFile("survey.sav", values="labels")
    StatFile(path='survey.sav', values='labels', encoding=None)
    """

    path: str | Path
    values: Literal["codes", "labels"] = "codes"
    encoding: str | None = None

    def __post_init__(self) -> None:
        if self.values not in ("codes", "labels"):
            raise Error(f"values is 'codes' or 'labels', not {self.values!r}.")
        if not is_statfile(self.path):
            endings = ", ".join(READERS)
            raise Error(f"{str(self.path)!r} is no file of SPSS, Stata or SAS; its name ends in one of {endings}.")
        if self.values == "labels" and Path(self.path).suffix.lower() in NO_LABELS:
            raise Error("SAS keeps labels of values in a catalogue of its own and not in the data; read its codes.")
        if self.encoding is not None:
            encoding_name(self.encoding)


def is_statfile(path: str | Path) -> bool:
    """Whether a path or a pattern names files of SPSS, Stata or SAS, by its ending."""
    return Path(path).suffix.lower() in READERS


@dataclass(frozen=True)
class StatColumn:
    """What a column of a file holds: its Arrow type, the labels to read for values, how numbers become dates.

    ``ticks`` are the milliseconds in one unit of the file and the day that it counts from, in days from 1970. ``coded``
    says that the dictionary has labels for its values: they are codes of categories and not quantities. ``codec`` is
    the encoding of its texts and of its name, or None where the reader decodes them, and ``raw`` its name as the
    reader gives it.
    """

    type: Any
    labels: Mapping[Any, str]
    ticks: tuple[int, int] | None = None
    coded: bool = False
    codec: str | None = None
    raw: str = ""

    def array(self, values: list[Any]) -> "pa.Array":
        """Values as an Arrow array, each on its own."""
        import pyarrow as pa

        if pa.types.is_string(self.type):
            found = (_decode(value, self.codec) for value in values)
            return pa.array([to_text(self.labels.get(value, value)) for value in found], self.type)
        if self.ticks is None and pa.types.is_integer(self.type):
            return pa.array(values, self.type)
        numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        if self.ticks is None:
            return pa.array(numbers, from_pandas=True)
        unit, first = self.ticks
        with np.errstate(invalid="ignore", over="ignore"):
            whole = np.floor(np.clip(numbers * unit, -_FAR, _FAR)) + first * 86_400_000  # out of range is unknown
            whole = np.where(np.isnan(whole), 0, whole).astype(np.int64)
        return pa.array(whole, pa.int64(), mask=np.isnan(numbers)).view(self.type)


def read_dictionary(file: StatFile, path: str) -> dict[str, StatColumn]:
    """The columns of a file, from its dictionary alone."""
    ending = Path(path).suffix.lower()
    codec = _codec(file, path)
    _, found = _read(path, as_bytes=codec is not None, metadataonly=True)
    columns = {name: _decode(name, codec) for name in found.column_names}
    if len(set(columns.values())) < len(found.column_names):
        raise FileError(f"{mask_path(path)} has several columns of one name; give each column its own name.")
    kinds = {}
    for name, shown in columns.items():
        listed = found.variable_value_labels.get(name, {})
        labels = {_decode(value, codec): _decode(label, codec) for value, label in listed.items()}
        form = found.original_variable_types.get(name) or ""
        kind = _stat_column(ending, found.readstat_variable_types[name], form, labels, file.values)
        kinds[shown] = replace(kind, codec=codec, raw=name)
    return kinds


def read_chunks(path: str, columns: Mapping[str, StatColumn], wanted: Sequence[str]) -> Iterator[Any]:
    """Some columns of a file as Arrow batches. Where none is wanted, the records still count."""
    import pyarrow as pa

    raw = {name: columns[name].raw for name in dict.fromkeys(wanted) or list(columns)[:1]}
    used = list(raw.values())
    rows, start = max(CELLS // len(used), 2**16), 0
    while True:
        found, _ = _read(path, usecols=used, row_limit=rows, row_offset=start, as_bytes=True)
        many = len(found[used[0]])
        if wanted:
            arrays = [columns[name].array(found[raw[name]]) for name in wanted]
            yield pa.record_batch(arrays, names=[f"c{i}" for i in range(len(wanted))])
        else:
            yield pa.record_batch([pa.nulls(many)], ["none"]).select([])
        start += many
        if many < rows:
            return


def _stat_column(ending: str, stored: str, shown: str, labels: Mapping[Any, str], values: str) -> StatColumn:
    import pyarrow as pa

    named = {} if values == "codes" else {key: str(label) for key, label in labels.items()}
    if named or stored.startswith("string"):
        return StatColumn(pa.string(), named)
    when = _ticks(ending, shown)
    if when is not None:
        return StatColumn(pa.date64() if when[0] == "day" else pa.timestamp("ms"), {}, (when[1], when[2]))
    return StatColumn(pa.int64() if stored.startswith("int") else pa.float64(), {}, coded=bool(labels))


def _ticks(ending: str, shown: str) -> tuple[str, int, int] | None:
    """Whether numbers shown in a format are days or moments: which of them, milliseconds in one, and the first day."""
    if ending == ".dta":
        if shown.startswith(("%td", "%d", "%-td", "%-d")):
            return "day", 86_400_000, OTHERS
        return ("moment", 1, OTHERS) if shown.lower().startswith(("%tc", "%-tc")) else None
    word = shown.upper().rstrip("0123456789.")
    if ending in (".sav", ".zsav", ".por"):
        if word in _SPSS_DAYS:
            return "day", 1000, SPSS
        return ("moment", 1000, SPSS) if word in _SPSS_TIMES else None
    if _SAS_TIMES.match(word):
        return "moment", 1000, OTHERS
    return ("day", 86_400_000, OTHERS) if _SAS_DAYS.match(word) else None


def _decode(value: Any, codec: str | None) -> Any:
    """A text that was read as bytes, as it is meant; what is no text of the encoding becomes one that nobody wrote."""
    return value if codec is None or not isinstance(value, str) else value.encode("latin-1").decode(codec, "replace")


def _codec(file: StatFile, path: str) -> str | None:
    """The encoding of a file's texts: as it was named, as the file says, or as its kind has it.

    None for .por, which has a table of characters of its own, in which every byte is one.
    """
    if Path(path).suffix.lower() == ".por":
        return None
    name = file.encoding or _file_encoding(path)
    try:
        return encoding_name(name or "")
    except Error:  # what the file calls its encoding is not shown: a damaged one might call it anything
        raise FileError(
            f"{mask_path(path)} does not say in which encoding its texts are, or names one that Python does not "
            "know; name it: StatFile(path, encoding='cp1252') or --encoding cp1252 (often cp1252, latin1 or utf-8)."
        ) from None


def _file_encoding(path: str) -> str | None:
    """The encoding that a file declares, whatever bytes its texts hold; None where it declares none."""
    ending = Path(path).suffix.lower()
    if ending == ".xpt":
        return "utf-8"  # the format has no place to declare one
    if ending == ".sas7bdat":
        return _read(path, metadataonly=True)[1].file_encoding  # a byte of its header
    try:
        with open(path, "rb") as file:
            if ending in (".sav", ".zsav"):
                return _spss_encoding(file, path)
            release = re.match(rb"<stata_dta><header><release>(\d{3})<", file.read(64))
    except OSError:
        raise _unreadable_error(path) from None
    return "utf-8" if release and int(release[1]) >= 118 else "cp1252"


def _spss_encoding(file: IO[bytes], path: str) -> str | None:
    """The encoding that the dictionary of an SPSS file declares: its encoding record, or else its code page.

    The dictionary's records are followed one by one by the lengths that they state, up to the one that ends it. Records
    of people come after it and are never read.
    """

    def take(size: int) -> bytes:
        found = file.read(size) if size >= 0 and file.tell() + size <= LONGEST_DICTIONARY else b""
        if len(found) != size:
            raise _unreadable_error(path)
        return found

    start = take(176)
    order: Literal["little", "big"] = "little" if start[64:68] in (b"\2\0\0\0", b"\3\0\0\0") else "big"

    def number() -> int:
        return int.from_bytes(take(4), order, signed=True)

    name, page = None, 0
    while (kind := number()) != 999:
        if kind == 2:  # a variable: its label and its missing values follow
            _, has_label, missing = number(), number(), number()
            take(16)
            take(-(-number() // 4) * 4 if has_label else 0)
            take(8 * abs(missing))
        elif kind == 3:  # labels of values, each with its length in one byte, filled up to eights
            for _ in range(number()):
                take(8)
                take(take(1)[0] // 8 * 8 + 7)
        elif kind == 4:  # the variables that have those labels
            take(4 * number())
        elif kind == 6:  # lines of a document
            take(80 * number())
        elif kind == 7:  # everything else, by its subtype
            subtype, size, many = number(), number(), number()
            content = take(size * many)
            if subtype == 3 and len(content) == 32:
                page = int.from_bytes(content[28:], order)
            elif subtype == 20 and size == 1 and many <= _LONGEST_NAME:
                name = content.decode("ascii", "replace").strip(" \0")
        else:
            raise _unreadable_error(path)
    return name or _code_page(page)


def _code_page(page: int) -> str | None:
    """The encoding of a code page by its number. Those below 437 are no code pages: old SPSS wrote 2 whatever it was.

    >>> _code_page(65001), _code_page(28591), _code_page(1252), _code_page(2)
    ('utf-8', 'iso8859-1', 'cp1252', None)
    """
    if 28591 <= page <= 28606:
        return f"iso8859-{page - 28590}"
    return {65001: "utf-8", 20127: "ascii"}.get(page, f"cp{page}") if page >= 437 else None


def _read(path: str, as_bytes: bool = False, **asked: Any) -> Any:
    """Ask pyreadstat; whatever it says of a failure is left out, since it may quote records."""
    reader = READERS[Path(path).suffix.lower()]
    if as_bytes and reader != "read_por":
        asked["encoding"] = "LATIN1"
    read = _reader(reader)
    # Its own dates fail on those that Python cannot hold, so they are read as the numbers that they are.
    found = attempt(lambda: read(path, output_format="dict", disable_datetime_conversion=True, **asked))
    if found is None:
        raise _unreadable_error(path)
    return found


def _unreadable_error(path: str) -> FileError:
    return FileError(
        f"{mask_path(path)} cannot be read; check that it is whole and of the kind that its name says, or name the "
        "encoding of its texts: StatFile(path, encoding='latin1') or --encoding latin1. What the reader said is not "
        "shown: it may quote records."
    )


def _reader(name: str) -> Callable[..., Any]:
    try:
        import pyreadstat
    except ModuleNotFoundError:
        raise Error(
            "files of SPSS, Stata and SAS need pyreadstat; install it with: pip install 'quietfield[curator]'"
        ) from None
    return getattr(pyreadstat, name)
