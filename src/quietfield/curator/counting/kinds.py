"""What kinds of data records can be counted in, told by type alone: nothing is opened, and no value is looked at."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quietfield.curator.counting.csvfiles import CsvFile
from quietfield.curator.counting.statfiles import StatFile
from quietfield.errors import Error
from quietfield.text import type_name

#: Frames, which are read by the types of their own columns: Arrow would guess some of these from values.
FRAMES = ("pandas.DataFrame", "polars.DataFrame", "polars.LazyFrame")
RELATION = ("_duckdb.DuckDBPyRelation", "duckdb.DuckDBPyRelation")  # by older versions too
#: One column, which is no table of records, although some of these can be read as one.
SINGLE = ("pandas.Series", "polars.Series", "pyarrow.ChunkedArray")
GUESSED = (
    "the types of these columns were guessed from the values of records, so that one record can change how others are "
    "read; give the path of the CSV files instead, or write JSON to Parquet with types that you name."
)


def is_a(data: Any, *kinds: str) -> bool:
    """Whether some data is of one of these kinds, or of a kind that others derived from one; nothing is imported.

    A kind is a package and the name of a type, or a package alone for all of its types.

    >>> is_a(Path("visits.csv"), "pathlib.PurePath"), is_a(Path("visits.csv"), "pandas", "polars.DataFrame")
    (True, False)
    """
    for base in type(data).__mro__:
        package = base.__module__.partition(".")[0]
        if package in kinds or f"{package}.{base.__name__}" in kinds:
            return True
    return False


def check_kind(data: Any) -> None:
    """Refuse what is no kind of data that records can be counted in, by its type alone."""
    kind = type(data)  # asked itself, a lazy frame would be opened
    if is_a(data, "ibis"):
        _check_ibis(data)
        return
    if isinstance(data, str | Path | StatFile | CsvFile | Mapping) or is_a(data, *FRAMES):
        return
    if is_a(data, *SINGLE):
        raise Error(f"{type_name(data)} is a single column; give a frame or a table, which names its columns.")
    if is_a(data, "narwhals"):
        raise Error(
            f"{type_name(data)} of narwhals hides the frame that it is made from, of which Arrow may guess types from "
            "values; give that frame: frame.to_native()."
        )
    if is_a(data, "pyarrow.CSVStreamingReader", "pyarrow.JSONStreamingReader"):
        raise Error(GUESSED)
    if is_dataset(data):
        check_dataset(data)
    elif not any(hasattr(kind, name) for name in ("to_arrow_reader", "fetch_arrow_reader", "__arrow_c_stream__")):
        raise Error(
            f"records cannot be counted in a {kind.__name__}; expected a path to CSV, TSV, Parquet, SPSS, Stata or SAS "
            "files, a pandas or polars frame, Arrow data, a DuckDB relation, an Ibis table, or a two-dimensional array "
            "of integer codes."
        )


def _check_ibis(data: Any) -> None:
    if not is_a(data, "ibis.Table"):
        raise Error(f"{type_name(data)} of Ibis is no table of records; give the table that it is made from.")
    from ibis.expr import operations as ops

    held: list[Any] = [getattr(part.data, "obj", None) for part in data.op().find(ops.InMemoryTable)]
    frames = [frame for frame in held if is_a(frame, "pandas.DataFrame")]
    if any(str(kind) == "object" for frame in frames for kind in frame.dtypes):
        raise Error(
            "this Ibis table is made from a pandas frame with columns of objects, and Ibis guessed their types from "
            "the values of records; give the frame itself, or its columns types of their own."
        )


def is_dataset(data: Any) -> bool:
    """Whether some data is a dataset of Arrow, or of a kind that others derived from it."""
    return is_a(data, "pyarrow.Dataset")


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
