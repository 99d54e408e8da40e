"""What can be told of a source before it is paid for: that it is there, and which columns it has.

Names of columns are public: they are compared with those of the schema, from a file's first line or type information,
or from what a frame or a database calls them. No value is looked at.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from quietfield.curator.counting import lines
from quietfield.curator.counting.csvfiles import CsvFile
from quietfield.curator.counting.statfiles import StatFile
from quietfield.curator.sequences import Log
from quietfield.errors import Error, names

#: What lists its columns without being opened.
FRAMES = {("pandas", "DataFrame"), ("polars", "DataFrame"), ("ibis", "Table"), ("_duckdb", "DuckDBPyRelation")}
FRAMES |= {("duckdb", "DuckDBPyRelation")}  # as older versions call it


def check_there(source: Any) -> None:
    """Refuse a path or a pattern that names no file; the file is not opened."""
    data = source.data if isinstance(source, Log) else source
    if isinstance(data, StatFile | CsvFile):
        data = data.path
    if isinstance(data, str | Path):
        lines.files(data)


def check_columns(source: Any, wanted: Iterable[str]) -> frozenset[str]:
    """Refuse a source without the columns asked for; which of its columns hold codes of categories.

    What cannot name its columns without being opened (an array, a stream, a lazy frame) is looked at when it is paid.
    """
    from quietfield.curator.counting import engine

    data = source.data if isinstance(source, Log) else source
    asked = list(dict.fromkeys(wanted))
    coded: frozenset[str] = frozenset()
    hint, held = "check the schema and the unit", _names(data)
    if isinstance(data, str | Path | StatFile | CsvFile):
        found = engine(data).source  # type: ignore[attr-defined]  # a file is for DuckDB's engine
        held, coded, hint = found.columns, found.coded, "check the schema, the unit and the first line"
    if held is None:
        return coded
    missing = [name for name in asked if name not in held]
    if missing and lines.is_lines(data):
        how = data if isinstance(data, CsvFile) else None
        path = lines.files(data.path if isinstance(data, CsvFile) else data)[0]
        hint += f" (capital letters and spaces count).{lines.other_separator(path, how, asked)}"
        raise Error(f"the data has no column {names(missing)}; {hint}")
    if missing:
        raise Error(f"the data has no column {names(missing)}; {hint}.")
    return coded


def _names(data: Any) -> Sequence[str] | None:
    """The columns of a frame or a table as it lists them; None for what would have to be opened."""
    if isinstance(data, Mapping):
        return [str(name) for name in data]
    kind = type(data)
    where = (kind.__module__.partition(".")[0], kind.__name__)
    if where in FRAMES:
        return [str(name) for name in data.columns]
    return list(data.column_names) if where == ("pyarrow", "Table") else None
