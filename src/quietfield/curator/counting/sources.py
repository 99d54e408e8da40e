"""What a source is, told by types and names alone, and how its columns are read: files, frames, Arrow, relations.

What is wrong with a source is said before it is paid for. No value is looked at: neither a Parquet file's statistics
and dictionaries nor the categories of a frame become labels.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from quietfield.curator.counting import lines
from quietfield.curator.counting.csvfiles import CsvFile, separator_by_name
from quietfield.curator.counting.reading import (
    ReadPlan,
    Source,
    arrow_type,
    attempt,
    check_names,
    empty_column,
    hide_details,
    is_column,
    mask_path,
    to_arrow,
    unique_names,
    unread_type_error,
    value_type,
)
from quietfield.curator.counting.statfiles import StatFile, is_statfile, read_chunks, read_dictionary
from quietfield.curator.sequences import log_data
from quietfield.errors import Error, FileError
from quietfield.text import join_names, type_name

#: Frames, which are read by the types of their own columns: Arrow would guess some of these from values.
FRAMES = ("pandas.DataFrame", "polars.DataFrame", "polars.LazyFrame")
RELATION = ("_duckdb.DuckDBPyRelation", "duckdb.DuckDBPyRelation")  # by older versions too
#: One column, which is no table of records, although some of these can be read as one.
SINGLE = ("pandas.Series", "polars.Series", "pyarrow.ChunkedArray")
GUESSED = (
    "the types of these columns were guessed from the values of records, so that one record can change how others are "
    "read; give the path of the CSV files instead, or write JSON to Parquet with types that you name."
)
CHUNK = 2**17
SAME_COLUMNS = "All files have the same columns."
IN_EVERY_PART = (
    "Every part holds all columns that are counted: the type of one that only names of folders tell was guessed from "
    "values of records. Write it into the files."
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
    if is_a(data, "pyarrow.Dataset"):
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


def check_there(source: Any) -> None:
    """Refuse a path or a pattern that names no file; the file is not opened."""
    data = log_data(source)
    if isinstance(data, StatFile | CsvFile):
        data = data.path
    if isinstance(data, str | Path):
        lines.find_files(data)


def check_columns(source: Any, wanted: Iterable[str]) -> frozenset[str]:
    """Refuse a source of another kind, or without the columns asked for in types that are read; which hold codes.

    What cannot name its columns without being opened (some streams, a lazy frame) is looked at when it is paid. Arrays
    of codes have no names: ``ArrayEngine.check`` is for them.
    """
    data = log_data(source)
    asked = list(dict.fromkeys(wanted))
    check_kind(data)
    empty = hide_details(lambda: open_empty(data))
    if empty is None:
        return frozenset()
    hide_details(lambda: empty.plan_read(asked))
    return empty.coded


def open_source(data: Any) -> Source:
    """Find out how some data is to be read."""
    if isinstance(data, str | Path):
        return _open_files(data)
    if isinstance(data, StatFile):
        return _open_statfiles(data)
    if isinstance(data, CsvFile):
        return _open_csv(data)
    if isinstance(data, Mapping):
        return _open_mapping(data)
    if is_a(data, "pandas.DataFrame"):
        return _open_pandas(data)
    if is_a(data, "polars.LazyFrame"):
        return _open_arrow(hide_details(data.collect))
    if is_a(data, *RELATION):
        return _open_relation(data)
    check_kind(data)
    return _open_arrow(data)


def open_empty(data: Any) -> Source | None:
    """The source as far as types and names tell it, without any record; None for what would have to be opened.

    What is in memory is cut down to no records first: then the same steps that read it look at its types alone.
    """
    import pyarrow as pa

    if isinstance(data, Mapping):
        for name, values in data.items():
            arrow_type(name, values)
        return _open_mapping({name: empty_column(values) for name, values in data.items()})
    if is_a(data, "polars.DataFrame"):
        return _open_arrow(data[:0])
    if is_a(data, *RELATION):
        return _open_relation_types(data)
    if is_a(data, "ibis.Table"):
        return _open_table_types(data)
    if isinstance(data, pa.RecordBatch):
        return _open_arrow(data.slice(0, 0))
    known = (str, Path, StatFile, CsvFile, pa.Table, pa.RecordBatchReader)
    if isinstance(data, known) or is_a(data, "pandas.DataFrame", "pyarrow.Dataset"):
        return open_source(data)
    return None


def _open_files(path: str | Path) -> Source:
    if is_statfile(path):
        return _open_statfiles(StatFile(path))
    paths = lines.find_files(path)
    if all(separator_by_name(name) for name in paths):
        return _open_csv(CsvFile(path))
    if any(separator_by_name(name) for name in paths):
        raise FileError(f"{str(path)!r} stands for files of different kinds; count one kind at a time.")
    first, *others = map(_parquet_schema, paths)
    never_null = _never_null(first).intersection(*map(_never_null, others))
    return Source(unique_names(first.names), lambda wanted: _plan_parquet(paths, wanted), never_null=never_null)


def _open_csv(data: CsvFile) -> Source:
    paths = lines.find_files(data.path)

    def read(wanted: Sequence[str]) -> ReadPlan:
        schema, batches = lines.open_columns(paths, wanted, data)
        return ReadPlan(schema.types, batches)

    return Source(tuple(lines.read_header(paths[0], data)), read, checks_names=True)


def _open_statfiles(data: StatFile) -> Source:
    """Files of SPSS, Stata or SAS: all with the same columns and types, by their dictionaries."""
    paths = lines.find_files(data.path)
    dictionaries = {path: read_dictionary(data, path) for path in paths}
    first = dictionaries[paths[0]]

    def read(wanted: Sequence[str]) -> ReadPlan:
        for path, columns in dictionaries.items():
            check_names(wanted, columns, path, SAME_COLUMNS)
            other = [name for name in wanted if columns[name].type != first[name].type]
            if other:
                raise Error(
                    f"{mask_path(path)} and {mask_path(paths[0])} hold {join_names(other)} as different types; count "
                    "them one at a time."
                )

        def batches() -> Iterator[Any]:
            for path, columns in dictionaries.items():
                yield from read_chunks(path, columns, wanted)

        return ReadPlan([first[name].type for name in wanted], batches)

    return Source(tuple(first), read, coded=frozenset(name for name, column in first.items() if column.coded))


def _plan_parquet(paths: Sequence[str], wanted: Sequence[str]) -> ReadPlan:
    """A type that one file has and another has not would be converted value by value, so all have to have the same."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schemas = [_parquet_schema(path) for path in paths]
    kinds = {name: schemas[0].field(name).type for name in wanted}
    _check_same_types(zip(map(mask_path, paths), schemas, strict=True), kinds, SAME_COLUMNS)

    def batches() -> Iterator[Any]:
        for path in paths:
            with pq.ParquetFile(path, buffer_size=2**20) as file:
                for batch in file.iter_batches(CHUNK, columns=list(wanted)):
                    yield batch.select([batch.schema.names.index(name) for name in wanted])

    # DuckDB reads with less memory, but fails on a single text that is not UTF-8 and on times out of range; and it
    # knows columns of several files by names in which it ignores case.
    simple = {pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_()}
    every = schemas[0].names
    alike = len({name.lower() for name in every}) == len(every) and all(schema.names == every for schema in schemas)
    table = _parquet_sql(paths, every, wanted) if alike and simple.issuperset(kinds.values()) else None
    return ReadPlan(list(kinds.values()), batches, table)


def _parquet_sql(paths: Sequence[str], every: Sequence[str], wanted: Sequence[str]) -> str:
    """A FROM clause. DuckDB takes each name for a pattern, so what would be one is written as a choice of itself."""
    listed = ", ".join("'" + re.sub(r"([\[*?])", r"[\1]", path).replace("'", "''") + "'" for path in paths)
    chosen = ", ".join(f"q{every.index(name)} AS c{i}" for i, name in enumerate(wanted)) or "1 AS none"
    table = f"read_parquet([{listed}], hive_partitioning = false)"
    return f"(SELECT {chosen} FROM {table} AS files({', '.join(f'q{i}' for i in range(len(every)))}))"


def _check_same_types(schemas: Iterable[tuple[str, Any]], kinds: Mapping[str, Any], advice: str) -> None:
    """Refuse parts that do not have the same columns with the same types."""
    for part, schema in schemas:
        types = dict(zip(unique_names(schema.names), schema.types, strict=True))
        check_names(kinds, types, part, advice)
        for name, kind in kinds.items():
            if value_type(types[name]) != value_type(kind):
                raise Error(
                    f"{part} holds column {name!r} as {types[name]}, and not as {kind} like others; write all files "
                    "with the same types, or count them one at a time."
                )


#: The kinds of databases that are files, by how their names end.
DATABASES = {".sqlite": "sqlite", ".sqlite3": "sqlite", ".duckdb": "duckdb", ".ddb": "duckdb"}


def _parquet_schema(path: str) -> Any:
    import pyarrow.parquet as pq

    schema = attempt(lambda: pq.read_schema(path))
    if schema is not None and not attempt(lambda: _is_whole(path)):
        raise FileError(f"{mask_path(path)} is damaged: its footer names more than there is; write it anew.")
    if schema is None and Path(path).suffix.lower() in (".parquet", ".pq"):
        raise FileError(f"{mask_path(path)} cannot be read as Parquet; check that it is whole.")
    if schema is None and (kind := DATABASES.get(Path(path).suffix.lower())):
        raise FileError(
            f"{mask_path(path)} is a database: name one of its tables, as {kind}://{mask_path(path)}#TABLE."
        )
    if schema is None:
        raise FileError(
            f"{mask_path(path)} is not a Parquet file. If it is CSV, call it .csv, .tsv, .csv.gz or .csv.zst, or read "
            "it with CsvFile(path, delimiter=',') or --delimiter ','. Databases and spreadsheets are read from Python, "
            "as tables or frames."
        )
    return schema


def _is_whole(path: str) -> bool:
    """Whether a Parquet file begins as one and holds all that its footer names, by its metadata and size alone."""
    import pyarrow.parquet as pq

    found = pq.read_metadata(path)
    groups = [found.row_group(i) for i in range(found.num_row_groups)]
    # A group without rows has no pages, and says that they begin at 0.
    chunks = [group.column(i) for group in groups if group.num_rows for i in range(group.num_columns)]
    starts = [min(c.data_page_offset, c.dictionary_page_offset or c.data_page_offset) for c in chunks]
    ends = [start + chunk.total_compressed_size for start, chunk in zip(starts, chunks, strict=True)]
    with open(path, "rb") as file:
        begins = file.read(4) == b"PAR1"
    return begins and min(starts, default=4) >= 4 and max(ends, default=4) <= Path(path).stat().st_size - 8


def _open_arrow(data: Any) -> Source:
    import pyarrow as pa
    import pyarrow.dataset as ds

    def stream_of() -> Any:
        if isinstance(data, pa.Table | ds.Dataset):
            return data
        if hasattr(data, "to_arrow_reader") or hasattr(data, "fetch_arrow_reader"):
            return _arrow_reader(data)
        if isinstance(data, pa.RecordBatchReader):
            return data
        # A frame gives its batches again at each call; they are views of its memory where its layout allows it.
        return pa.table(data) if hasattr(data, "__len__") else pa.RecordBatchReader.from_stream(data)

    stream = hide_details(stream_of)
    columns = unique_names(stream.schema.names)

    def read(wanted: Sequence[str]) -> ReadPlan:
        if isinstance(stream, ds.Dataset):
            return _plan_dataset(stream, wanted)
        positions = [columns.index(name) for name in wanted]
        kinds = [stream.schema.field(position).type for position in positions]
        if isinstance(stream, pa.Table):
            return ReadPlan(kinds, lambda: stream.select(positions).to_batches(max_chunksize=CHUNK))
        return ReadPlan(kinds, lambda: (batch.select(positions) for batch in stream))

    once = isinstance(stream, pa.RecordBatchReader)
    return Source(columns, read, once=once, never_null=_never_null(stream.schema))


def is_read_once(data: Any) -> bool:
    """Whether a source is a stream of Arrow, which is used up when it has been read."""
    again = ("__len__", "to_arrow_reader", "fetch_arrow_reader")  # tables and frames, and queries, which are asked anew
    return hasattr(data, "__arrow_c_stream__") and not any(hasattr(data, name) for name in again)


def _never_null(schema: Any) -> frozenset[str]:
    """The columns that a schema of Arrow declares to hold no nulls."""
    return frozenset(field.name for field in schema if not field.nullable)


def _holds_no_null(values: Any) -> bool:
    """Whether a column holds no nulls by its type: numpy's truth values and whole numbers."""
    kind = getattr(values, "dtype", None)
    return isinstance(kind, np.dtype) and kind.kind in "biu"


def _plan_dataset(data: Any, wanted: Sequence[str]) -> ReadPlan:
    check_dataset(data)
    kinds = {name: data.schema.field(name).type for name in wanted}
    # Parts are not called by their paths, in which folders are named by values of records.
    schemas = (("a part of the dataset", part.physical_schema) for part in data.get_fragments())
    _check_same_types(schemas, kinds, IN_EVERY_PART)
    return ReadPlan(list(kinds.values()), lambda: data.scanner(columns=list(wanted), batch_size=CHUNK).to_batches())


def _open_mapping(data: Mapping[str, Any]) -> Source:
    import pyarrow as pa

    unique_names(data)
    for name, values in data.items():
        if not is_column(values):
            flat = "" if getattr(values, "ndim", 1) == 1 else f" of {values.ndim} dimensions"
            raise Error(
                f"column {name!r} is a {type(values).__name__}{flat}; give a list or an array, one value per record."
            )
    columns = hide_details(lambda: {str(name): to_arrow(values) for name, values in data.items()})
    if len({len(column) for column in columns.values()}) > 1:
        raise Error("the columns of the records differ in length; each holds one value per record.")
    never_null = frozenset(str(name) for name, values in data.items() if _holds_no_null(values))
    return replace(_open_arrow(pa.table(columns)), never_null=never_null)


def _open_pandas(frame: Any) -> Source:
    """A frame, slice by slice, so that no second copy of it is made."""
    import pyarrow as pa

    columns = unique_names(frame.columns)

    def read(wanted: Sequence[str]) -> ReadPlan:
        series = [frame.iloc[:, columns.index(name)] for name in wanted]
        kinds = [arrow_type(name, part) for name, part in zip(wanted, series, strict=True)]
        schema = pa.schema([(f"c{i}", kind) for i, kind in enumerate(kinds)])

        def batches() -> Iterator[Any]:
            for start in range(0, len(frame), CHUNK):
                parts = [to_arrow(part.iloc[start : start + CHUNK]) for part in series]
                if parts:
                    yield pa.record_batch([p.cast(f.type) for p, f in zip(parts, schema, strict=True)], schema=schema)
                else:
                    yield pa.record_batch([pa.nulls(len(frame.iloc[start : start + CHUNK]))], ["none"]).select([])

        return ReadPlan(kinds, batches)

    held = (frame.iloc[:, place] for place in range(len(columns)))
    never_null = frozenset(name for name, series in zip(columns, held, strict=True) if _holds_no_null(series))
    return Source(columns, read, never_null=never_null)


def _open_relation(data: Any) -> Source:
    """A relation of DuckDB, asked for the columns wanted by their places: of names it ignores case."""
    columns = unique_names(data.columns)

    def read(wanted: Sequence[str]) -> ReadPlan:
        places = [columns.index(name) for name in wanted]
        chosen = data.project(", ".join(f"#{place + 1}{_cast(data.types[place])}" for place in places) or "1")
        stream = _arrow_reader(chosen)
        first = list(range(len(wanted)))
        return ReadPlan(stream.schema.types[: len(wanted)], lambda: (batch.select(first) for batch in stream))

    return Source(columns, read, once=True)


def _open_relation_types(data: Any) -> Source:
    """The types of a relation of DuckDB, as Arrow has them.

    They are asked of a database of our own: with LIMIT 0, too, the relation itself may come to be computed, and whether
    that fails may depend on a record.
    """
    import duckdb

    kinds = dict(zip(unique_names(data.columns), data.types, strict=True))

    def ask(kind: Any) -> Any:
        with duckdb.connect() as con:
            return _arrow_reader(con.sql(f"SELECT NULL::{kind}{_cast(kind)} LIMIT 0")).schema.types[0]

    def read_type(name: str) -> Any:
        kind = attempt(lambda: ask(kinds[name]))
        if kind is None:  # neither DuckDB nor Arrow may know it
            raise unread_type_error(name, kinds[name].id)
        return kind

    return Source(tuple(kinds), lambda wanted: ReadPlan([read_type(name) for name in wanted], list))


def _open_table_types(table: Any) -> Source:
    """The columns of an Ibis table in the types of Arrow, as the database declares them; no record is asked for."""
    import pyarrow as pa

    schema = table.schema()

    def read_type(name: str) -> Any:
        own = schema[name]
        if own.is_decimal():  # of any width, or of none that is said: here it is the database that reads them
            known = None not in (own.precision, own.scale) and own.precision <= 38 and own.scale >= 0
            return pa.decimal128(own.precision, own.scale) if known else pa.float64()
        kind = attempt(own.to_pyarrow)
        if kind is None:  # Arrow may not know it
            raise unread_type_error(name, schema[name])
        return kind

    never_null = frozenset(name for name, kind in schema.items() if not kind.nullable)
    return Source(
        tuple(schema.names), lambda wanted: ReadPlan([read_type(name) for name in wanted], list), never_null=never_null
    )


def _cast(kind: Any) -> str:
    """Integers of 128 bits as texts: Arrow would have them as decimals, in which the largest are negative."""
    return "::VARCHAR" if str(kind) in ("HUGEINT", "UHUGEINT") else ""


def _arrow_reader(relation: Any) -> Any:
    return (getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader)()
