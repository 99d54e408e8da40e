"""What kinds of data records can be counted in, told by type alone: nothing is opened, and no value is looked at."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quietfield.curator.counting.csvfiles import CsvFile
from quietfield.curator.counting.statfiles import StatFile
from quietfield.errors import Error

#: One column, which is no table of records, although some of these can be read as one.
SINGLE = {("pandas", "Series"), ("polars", "Series"), ("pyarrow", "ChunkedArray")}
GUESSED = (
    "the types of these columns were guessed from the values of records, so that one record can change how others are "
    "read; give the path of the CSV files instead, or write JSON to Parquet with types that you name."
)


def origin(data: Any) -> tuple[str, str]:
    """The package that some data is of, and the name of its type."""
    return type(data).__module__.partition(".")[0], type(data).__name__


def check_kind(data: Any) -> None:
    """Refuse what is no kind of data that records can be counted in, by its type alone."""
    kind, where = type(data), origin(data)  # asked itself, a lazy frame would be opened
    frame = where[0] in ("pandas", "polars") and hasattr(kind, "columns")
    if isinstance(data, str | Path | StatFile | CsvFile | Mapping) or frame:
        return
    if where in SINGLE:
        raise Error(f"a {kind.__name__} is a single column; give a frame or a table, which names its columns.")
    if where[0] == "pyarrow" and where[1] in ("CSVStreamingReader", "JSONStreamingReader"):
        raise Error(GUESSED)
    if is_dataset(data):
        check_dataset(data)
    elif not any(hasattr(kind, name) for name in ("to_arrow_reader", "fetch_arrow_reader", "__arrow_c_stream__")):
        raise Error(
            f"records cannot be counted in a {kind.__name__}; expected a path to CSV, TSV, Parquet, SPSS, Stata or SAS "
            "files, a pandas or polars frame, Arrow data, a DuckDB relation, an Ibis table, or a two-dimensional array "
            "of integer codes."
        )


def is_dataset(data: Any) -> bool:
    """Whether some data is a dataset of Arrow, or of a kind that others derived from it."""
    if not any(base.__module__.partition(".")[0] == "pyarrow" for base in type(data).__mro__):
        return False
    import pyarrow.dataset as ds

    return isinstance(data, ds.Dataset)


def check_dataset(data: Any) -> None:
    """Refuse a dataset of Arrow whose types depend on its values, in whichever of its parts."""
    import pyarrow.dataset as ds

    guessing = (ds.CsvFileFormat, ds.JsonFileFormat)
    try:
        parts = list(data.get_fragments())
    except ValueError:
        raise Error(
            "a dataset that was filtered or projected cannot be counted; give the dataset itself, and let the schema "
            "drop what it should not count."
        ) from None
    # A dataset of datasets has no format of its own, and one that has may hold parts of another.
    if any(isinstance(getattr(part, "format", None), guessing) for part in (data, *parts)):
        raise Error(GUESSED)
