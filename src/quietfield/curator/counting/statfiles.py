"""Files of SPSS, Stata and SAS, some rows at a time, with pyreadstat: where agencies keep data.

A file's own dictionary says which columns there are, of which type, which of their numbers are dates and which values
count as missing. That much is public. Its value labels never become the labels of a schema: some programs write them
from the records (Stata's ``encode`` lists every text that occurs). Values that the file declares missing are nulls.

One text that is not of the file's encoding would make pyreadstat give up, so that whether there is a release would tell
of that record. Therefore it is asked to read bytes (as Latin-1, which has a character for every byte), and each text is
decoded here on its own: what cannot be is a text that no schema knows.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from quietfield.curator.counting import reading
from quietfield.curator.counting.csvfiles import known_encoding
from quietfield.curator.counting.values import text
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
#: The most values that are held at a time; each row is read again up to its chunk, so few large chunks are quicker.
CELLS = 2**20
#: Days and seconds between 1970 and the day that a program counts from.
SPSS, OTHERS = -141_428, -3_653
_FAR = 9e15

_SPSS_DAYS = {"DATE", "ADATE", "EDATE", "JDATE", "SDATE", "MOYR", "QYR", "WKYR"}
_SPSS_TIMES = {"DATETIME", "YMDHMS"}
#: The record of an SPSS dictionary that names its encoding, up to the length of the name; in either order of bytes.
_SPSS_ENCODING = re.compile(rb"(?:\x07\0\0\0\x14\0\0\0\x01\0\0\0|\0\0\0\x07\0\0\0\x14\0\0\0\x01)(.{4})", re.DOTALL)
_SAS_DAYS = re.compile(
    r"DATE|WEEKDA|WORDDAT|DDMMYY|MMDDYY|YYMMDD|YYMM|MMYY|MONYY|YYMON|YYQ|JULIAN|YEAR|(E8601|B8601|IS8601)DA|NLDATE$"
)
_SAS_TIMES = re.compile(r"DATETIME|DATEAMPM|MDYAMPM|DTDATE|(E8601|B8601|IS8601)D[TNX]|NLDATM")


@dataclass(frozen=True)
class StatFile:
    """A file of SPSS (.sav, .zsav, .por), Stata (.dta) or SAS (.sas7bdat, .xpt), or a pattern of such files.

    ``values`` says what is read where the file's dictionary has labels for values: ``"codes"``, the values as they are
    stored, or ``"labels"``, the texts that the dictionary gives them (a value without one stays as it is). A path alone
    means codes. ``encoding`` is for old files whose texts are neither UTF-8 nor say what they are.

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
            raise Error(f"{str(self.path)!r} is no file of SPSS, Stata or SAS; its name ends in one of {_endings()}.")
        if self.values == "labels" and Path(self.path).suffix.lower() in (".sas7bdat", ".xpt"):
            raise Error("SAS keeps labels of values in a catalogue of its own and not in the data; read its codes.")
        if self.encoding is not None:
            known_encoding(self.encoding)


def is_statfile(path: str | Path) -> bool:
    """Whether a path or a pattern names files of SPSS, Stata or SAS, by its ending."""
    return Path(path).suffix.lower() in READERS


@dataclass(frozen=True)
class Kind:
    """What a column of a file holds: its Arrow type, the labels to read for values, how numbers become dates.

    ``ticks`` are the milliseconds in one unit of the file and the day that it counts from, in days from 1970. ``coded``
    says that the dictionary has labels for its values: they are codes of categories and not quantities. ``codec`` is
    the encoding of its texts and of its name, or None where the reader decodes them.
    """

    type: Any
    labels: Mapping[Any, str]
    ticks: tuple[int, int] | None = None
    coded: bool = False
    codec: str | None = None

    def array(self, values: list[Any]) -> "pa.Array":
        """Values as an Arrow array, each on its own."""
        import pyarrow as pa

        if pa.types.is_string(self.type):
            found = (_decoded(value, self.codec) for value in values)
            return pa.array([text(self.labels.get(value, value)) for value in found], self.type)
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

    def as_bytes(self, text: str) -> str:
        """A text as the reader gives it when it reads bytes."""
        return text if self.codec is None else text.encode(self.codec).decode("latin-1")


def dictionary(file: StatFile, path: str) -> dict[str, Kind]:
    """The columns of a file, from its dictionary alone."""
    ending = Path(path).suffix.lower()
    codec = _codec(file, path)
    _, found = _read(path, as_bytes=codec is not None, metadataonly=True)
    columns = {name: _decoded(name, codec) for name in found.column_names}
    if len(set(columns.values())) < len(found.column_names):
        raise FileError(f"{reading.shown(path)} has several columns of one name; give each column its own name.")
    kinds = {}
    for name, shown in columns.items():
        listed = found.variable_value_labels.get(name, {})
        labels = {_decoded(value, codec): _decoded(label, codec) for value, label in listed.items()}
        form = found.original_variable_types.get(name) or ""
        kind = _kind(ending, found.readstat_variable_types[name], form, labels, file.values)
        kinds[shown] = replace(kind, codec=codec)
    return kinds


def chunks(file: StatFile, path: str, kinds: Mapping[str, Kind], wanted: Sequence[str]) -> Iterator[Any]:
    """Some columns of a file as Arrow batches. Where none is wanted, the records still count."""
    import pyarrow as pa

    # Read as bytes, a name looks like its values do.
    raw = {name: kinds[name].as_bytes(name) for name in dict.fromkeys(wanted) or list(kinds)[:1]}
    used = list(raw.values())
    rows, start = max(CELLS // len(used), 2**16), 0
    while True:
        found, _ = _read(path, usecols=used, row_limit=rows, row_offset=start, as_bytes=True)
        many = len(found[used[0]])
        if wanted:
            arrays = [kinds[name].array(found[raw[name]]) for name in wanted]
            yield pa.record_batch(arrays, names=[f"c{i}" for i in range(len(wanted))])
        else:
            yield pa.record_batch([pa.nulls(many)], ["none"]).select([])
        start += many
        if many < rows:
            return


def _kind(ending: str, stored: str, shown: str, labels: Mapping[Any, str], values: str) -> Kind:
    import pyarrow as pa

    named = {} if values == "codes" else {key: str(label) for key, label in labels.items()}
    if named or stored.startswith("string"):
        return Kind(pa.string(), named)
    when = _ticks(ending, shown)
    if when is not None:
        return Kind(pa.date64() if when[0] == "day" else pa.timestamp("ms"), {}, (when[1], when[2]))
    return Kind(pa.int64() if stored.startswith("int") else pa.float64(), {}, coded=bool(labels))


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


def _decoded(value: Any, codec: str | None) -> Any:
    """A text that was read as bytes, as it is meant; what is no text of the encoding becomes one that nobody wrote."""
    return value if codec is None or not isinstance(value, str) else value.encode("latin-1").decode(codec, "replace")


def _codec(file: StatFile, path: str) -> str | None:
    """The encoding of a file's texts: as it was named, as the file says, or as its kind has it.

    None for .por, which has a table of characters of its own, in which every byte is one.
    """
    if Path(path).suffix.lower() == ".por":
        return None
    name = file.encoding or _declared(path) or "utf-8"
    try:
        return known_encoding(name)
    except Error:
        raise FileError(
            f"{reading.shown(path)} says that its texts are in {name!r}, an encoding that Python does not know; name "
            "the one that it "
            "is: StatFile(path, encoding='cp1252')."
        ) from None


def _declared(path: str) -> str | None:
    """The encoding that a file declares, whatever bytes its texts hold."""
    ending = Path(path).suffix.lower()
    with open(path, "rb") as file:
        beginning = file.read(64 if ending == ".dta" else 2**22)
    if ending == ".dta":
        release = re.match(rb"<stata_dta><header><release>(\d+)", beginning)
        return "utf-8" if release and int(release[1]) >= 118 else "cp1252"
    record = _SPSS_ENCODING.search(beginning) if ending in (".sav", ".zsav") else None
    if record is not None:
        size = int.from_bytes(record[1], "big" if record[1][0] == 0 else "little")
        return beginning[record.end() : record.end() + size].decode("ascii", "replace").strip()
    try:
        told = _read(path, metadataonly=True)[1].file_encoding
    except FileError:  # of its labels, some hold other bytes
        return None
    return None if told is None else str(told)


def _read(path: str, as_bytes: bool = False, **asked: Any) -> Any:
    """Ask pyreadstat; whatever it says of a failure is left out, since it may quote records."""
    reader = READERS[Path(path).suffix.lower()]
    if as_bytes and reader != "read_por":
        asked["encoding"] = "LATIN1"
    read = _reader(reader)
    found: Any = None
    try:
        # Its own dates fail on those that Python cannot hold, so they are read as the numbers that they are.
        found = read(path, output_format="dict", disable_datetime_conversion=True, **asked)
    except Exception:  # noqa: BLE001  # told below
        found = None
    if found is None:
        raise FileError(
            f"{reading.shown(path)} cannot be read; check that it is whole and of the kind that its name says, or "
            "name the encoding "
            "of its texts: StatFile(path, encoding='latin1'). What the reader said is not shown: it may quote records."
        )
    return found


def _reader(name: str) -> Callable[..., Any]:
    try:
        import pyreadstat
    except ModuleNotFoundError:
        raise Error(
            "files of SPSS, Stata and SAS need pyreadstat; install it with: pip install 'quietfield[curator]'"
        ) from None
    return getattr(pyreadstat, name)


def _endings() -> str:
    return ", ".join(READERS)
