"""What can be told of a source before it is paid for: that it is there, and which columns it has.

Names of columns are public: they are compared with those of the schema, from a file's first line or type information,
or from what a frame or a database calls them. No value is looked at.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
    """Refuse a source of another kind or without the columns asked for; which of its columns hold codes of categories.

    What cannot name its columns without being opened (an array, a stream, a lazy frame) is looked at when it is paid.
    """
    from quietfield.curator.counting import engine, in_database

    data = source.data if isinstance(source, Log) else source
    if not isinstance(data, np.ndarray) and not in_database(data):
        check_kind(data)
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


def check_kind(data: Any) -> None:
    """Refuse what is no kind of data that records can be counted in, by its type alone."""
    streams = ("scanner", "to_arrow_reader", "fetch_arrow_reader", "__arrow_c_stream__")
    kind = type(data)  # asked itself, a lazy frame would be opened
    frame = kind.__module__.partition(".")[0] in ("pandas", "polars") and hasattr(kind, "columns")
    if isinstance(data, str | Path | StatFile | CsvFile | Mapping) or frame:
        return
    if not any(hasattr(kind, name) for name in streams):
        raise Error(
            f"records cannot be counted in a {kind.__name__}; expected a path to CSV, TSV, Parquet, SPSS, Stata or SAS "
            "files, a pandas or polars frame, Arrow data, a DuckDB relation, an Ibis table, or a two-dimensional array "
            "of integer codes."
        )
    if kind.__module__.partition(".")[0] == "pyarrow":
        check_dataset(data)


def check_dataset(data: Any) -> None:
    """Refuse a dataset of Arrow whose types depend on its values."""
    import pyarrow.dataset as ds

    if isinstance(getattr(data, "format", None), ds.CsvFileFormat | ds.JsonFileFormat):
        raise Error("the types of this dataset were guessed from its values; give the path of its CSV files instead.")


def _names(data: Any) -> Sequence[str] | None:
    """The columns of a frame or a table as it lists them; None for what would have to be opened."""
    if isinstance(data, Mapping):
        return [str(name) for name in data]
    kind = type(data)
    where = (kind.__module__.partition(".")[0], kind.__name__)
    if where in FRAMES:
        return [str(name) for name in data.columns]
    return list(data.schema.names) if where[0] == "pyarrow" and hasattr(data, "schema") else None
