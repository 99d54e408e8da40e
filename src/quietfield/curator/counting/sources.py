"""What a count may be asked of: files, frames, Arrow data and relations, all brought before DuckDB as one table.

Only names and types of columns are looked at here, never values: neither a Parquet file's statistics and dictionaries
nor the categories of a frame become labels.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from quietfield.curator.counting import lines, relations
from quietfield.curator.counting.cleaning import cleaned
from quietfield.curator.counting.csvfiles import CsvFile, by_name
from quietfield.curator.counting.kinds import RELATION, check_dataset, check_kind, is_a, is_dataset
from quietfield.curator.counting.reading import Read, Source, check_names, shown, unique, unread
from quietfield.curator.counting.statfiles import StatFile, chunks, dictionary, is_statfile
from quietfield.curator.counting.values import plain, text
from quietfield.errors import Error, FileError
from quietfield.text import join_names

UNREADABLE = (
    "the data could not be read. What the reader said about it is not shown, since it may quote records. Check that "
    "the file is whole and of the kind that its name says, and that there is room in memory and on disk."
)
CHUNK = 2**17
SAME_COLUMNS = "All files have the same columns."
IN_EVERY_PART = (
    "Every part holds all columns that are counted: the type of one that only names of folders tell was guessed from "
    "values of records. Write it into the files."
)


def source(data: Any) -> Source:
    """Find out how some data is to be read."""
    if isinstance(data, str | Path):
        return _files(data)
    if isinstance(data, StatFile):
        return _statfiles(data)
    if isinstance(data, CsvFile):
        return _csv(lines.files(data.path), data)
    if isinstance(data, Mapping):
        return _mapping(data)
    if is_a(data, "pandas.DataFrame"):
        return _pandas(data)
    if is_a(data, "polars.LazyFrame"):
        return _arrow(cleaned(data.collect, UNREADABLE))
    if is_a(data, *RELATION):
        return relations.opened(data)
    check_kind(data)
    return _arrow(data)


def declared(data: Any) -> Source | None:
    """The source as far as types and names tell it, without any record; None for what would have to be opened.

    What is in memory is cut down to no records first: then the same steps that read it look at its types alone.
    """
    import pyarrow as pa

    if isinstance(data, Mapping):
        for name, values in data.items():
            _kind(name, values)
        return _mapping({name: _emptied(values) for name, values in data.items()})
    if is_a(data, "polars.DataFrame"):
        return _arrow(data[:0])
    if is_a(data, *RELATION):
        return relations.declared(data)
    if is_a(data, "ibis.Table"):
        from quietfield.curator.counting.databases import declared_table

        return declared_table(data)
    if isinstance(data, pa.RecordBatch):
        return _arrow(data.slice(0, 0))
    known = (str, Path, StatFile, CsvFile, pa.Table, pa.RecordBatchReader)
    if isinstance(data, known) or is_a(data, "pandas.DataFrame") or is_dataset(data):
        return source(data)
    return None


def _emptied(values: Any) -> Any:
    """A column without its values; what is none stays as it is, to be refused."""
    if _no_column(values):
        return values
    if hasattr(values, "iloc"):
        return values.iloc[:0]
    # Of what has no type of its own nothing is looked at, not even the first value.
    return values[:0] if hasattr(values, "dtype") or hasattr(values, "type") else []


def _kind(name: str, values: Any) -> Any:
    """The Arrow type of a column, from its own type; None for what is no column."""
    if _no_column(values):
        return None
    found = None
    try:
        found = _column(_emptied(values)).type
    except Exception:  # noqa: BLE001  # told below, without what Arrow said
        found = None
    if found is None:
        raise unread(name, getattr(values, "dtype", type(values).__name__))
    return found


def _no_column(values: Any) -> bool:
    """Whether something is no list or array with one value a record, by its type."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        return True
    return getattr(values, "ndim", 1) != 1


def _files(path: str | Path) -> Source:
    if is_statfile(path):
        return _statfiles(StatFile(path))
    paths = lines.files(path)
    if all(by_name(name) for name in paths):
        return _csv(paths)
    if any(by_name(name) for name in paths):
        raise FileError(f"{str(path)!r} stands for files of different kinds; count one kind at a time.")
    return Source(unique(_parquet_schema(paths[0]).names), lambda wanted: _parquet(paths, wanted))


def _csv(paths: Sequence[str], how: CsvFile | None = None) -> Source:
    def read(wanted: Sequence[str]) -> Read:
        schema, batches = lines.reader(paths, wanted, how)
        return Read(schema.types, batches)

    return Source(tuple(lines.header(paths[0], how)), read, checks_names=True)


def _statfiles(data: StatFile) -> Source:
    """Files of SPSS, Stata or SAS: all with the same columns and types, by their dictionaries."""
    paths = lines.files(data.path)
    found = {path: dictionary(data, path) for path in paths}
    first = found[paths[0]]

    def read(wanted: Sequence[str]) -> Read:
        for path, kinds in found.items():
            check_names(wanted, kinds, path, SAME_COLUMNS)
            other = [name for name in wanted if kinds[name].type != first[name].type]
            if other:
                raise Error(
                    f"{shown(path)} and {shown(paths[0])} hold {join_names(other)} as different types; count them one "
                    "at "
                    "a time."
                )

        def batches() -> Iterator[Any]:
            for path, kinds in found.items():
                yield from chunks(data, path, kinds, wanted)

        return Read([first[name].type for name in wanted], batches)

    return Source(tuple(first), read, coded=frozenset(name for name, kind in first.items() if kind.coded))


def _parquet(paths: Sequence[str], wanted: Sequence[str]) -> Read:
    """A type that one file has and another has not would be converted value by value, so all have to have the same."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schemas = [_parquet_schema(path) for path in paths]
    called = [shown(path) for path in paths]
    kinds = _same_types(zip(called, schemas, strict=True), {name: schemas[0].field(name).type for name in wanted})

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
    return Read(kinds, batches, _read_parquet(paths, every, wanted) if alike and simple.issuperset(kinds) else None)


def _read_parquet(paths: Sequence[str], every: Sequence[str], wanted: Sequence[str]) -> str:
    """A FROM clause. DuckDB takes each name for a pattern, so what would be one is written as a choice of itself."""
    listed = ", ".join("'" + re.sub(r"([\[*?])", r"[\1]", path).replace("'", "''") + "'" for path in paths)
    chosen = ", ".join(f"q{every.index(name)} AS c{i}" for i, name in enumerate(wanted)) or "1 AS none"
    table = f"read_parquet([{listed}], hive_partitioning = false)"
    return f"(SELECT {chosen} FROM {table} AS files({', '.join(f'q{i}' for i in range(len(every)))}))"


def _same_types(schemas: Iterable[tuple[str, Any]], kinds: Mapping[str, Any], advice: str = SAME_COLUMNS) -> list[Any]:
    """Refuse parts that do not have the same columns with the same types."""
    for part, schema in schemas:
        found = dict(zip(unique(schema.names), schema.types, strict=True))
        check_names(kinds, found, part, advice)
        for name, kind in kinds.items():
            if plain(found[name]) != plain(kind):
                raise Error(
                    f"{part} holds column {name!r} as {found[name]}, and not as {kind} like others; write all files "
                    "with the same types, or count them one at a time."
                )
    return list(kinds.values())


def _parquet_schema(path: str) -> Any:
    import pyarrow.parquet as pq

    found = None
    try:
        found = pq.read_schema(path)
    except Exception:  # noqa: BLE001  # told below, without what the reader said
        found = None
    if found is None and Path(path).suffix.lower() in (".parquet", ".pq"):
        raise FileError(f"{shown(path)} cannot be read as Parquet; check that it is whole.")
    if found is None:
        raise FileError(
            f"{shown(path)} is not a Parquet file. If it is CSV, call it .csv, .tsv, .csv.gz or .csv.zst, or read it "
            "with CsvFile(path, delimiter=',') or --delimiter ','. Databases and spreadsheets are read from Python, as "
            "tables or frames."
        )
    return found


def _arrow(data: Any) -> Source:
    import pyarrow as pa
    import pyarrow.dataset as ds

    def opened() -> Any:
        if isinstance(data, pa.Table | ds.Dataset):
            return data
        if hasattr(data, "to_arrow_reader"):
            return data.to_arrow_reader()
        if hasattr(data, "fetch_arrow_reader"):
            return data.fetch_arrow_reader()
        if isinstance(data, pa.RecordBatchReader):
            return data
        # A frame gives its batches again at each call; they are views of its memory where its layout allows it.
        return pa.table(data) if hasattr(data, "__len__") else pa.RecordBatchReader.from_stream(data)

    stream = cleaned(opened, UNREADABLE)
    columns = unique(stream.schema.names)

    def read(wanted: Sequence[str]) -> Read:
        if isinstance(stream, ds.Dataset):
            return _dataset(stream, wanted)
        positions = [columns.index(name) for name in wanted]
        kinds = [stream.schema.field(position).type for position in positions]
        if isinstance(stream, pa.Table):
            return Read(kinds, lambda: stream.select(positions).to_batches(max_chunksize=CHUNK))
        return Read(kinds, lambda: (batch.select(positions) for batch in stream))

    return Source(columns, read, once=isinstance(stream, pa.RecordBatchReader))


def _dataset(data: Any, wanted: Sequence[str]) -> Read:
    check_dataset(data)
    kinds = {name: data.schema.field(name).type for name in wanted}
    # Parts are not called by their paths, in which folders are named by values of records.
    schemas = (("a part of the dataset", part.physical_schema) for part in data.get_fragments())
    _same_types(schemas, kinds, IN_EVERY_PART)
    return Read(list(kinds.values()), lambda: data.scanner(columns=list(wanted), batch_size=CHUNK).to_batches())


def _mapping(data: Mapping[str, Any]) -> Source:
    import pyarrow as pa

    unique(data)
    for name, values in data.items():
        if _no_column(values):
            flat = "" if getattr(values, "ndim", 1) == 1 else f" of {values.ndim} dimensions"
            raise Error(
                f"column {name!r} is a {type(values).__name__}{flat}; give a list or an array, one value a record."
            )
    columns = cleaned(lambda: {str(name): _column(values) for name, values in data.items()}, UNREADABLE)
    if len({len(column) for column in columns.values()}) > 1:
        raise Error("the columns of the records differ in length; each holds one value a record.")
    return _arrow(pa.table(columns))


def _pandas(frame: Any) -> Source:
    """A frame, slice by slice, so that no second copy of it is made."""
    import pyarrow as pa

    columns = unique(frame.columns)

    def read(wanted: Sequence[str]) -> Read:
        series = [frame.iloc[:, columns.index(name)] for name in wanted]
        kinds = [_kind(name, part) for name, part in zip(wanted, series, strict=True)]
        schema = pa.schema([(f"c{i}", kind) for i, kind in enumerate(kinds)])

        def batches() -> Iterator[Any]:
            for start in range(0, len(frame), CHUNK):
                parts = [_column(part.iloc[start : start + CHUNK]) for part in series]
                if parts:
                    yield pa.record_batch([p.cast(f.type) for p, f in zip(parts, schema, strict=True)], schema=schema)
                else:
                    yield pa.record_batch([pa.nulls(len(frame.iloc[start : start + CHUNK]))], ["none"]).select([])

        return Read(kinds, batches)

    return Source(columns, read)


def _column(values: Any) -> Any:
    """A column, or a slice of one, as Arrow data. Its type follows from the column's type alone, never from values.

    What has no type of its own (a list, an array or frame column of objects) is read value by value, as texts.
    """
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray):
        array = values
    elif isinstance(values, np.ndarray) and values.dtype == np.dtype("M8[D]"):
        # Numpy's days have 64 bits and Arrow's 32, into which it would fold the others.
        days = np.clip(values.astype(np.int64), -(2**31) + 1, 2**31 - 1).astype(np.int32)
        array = pa.array(days, mask=np.isnat(values)).view(pa.date32())
    elif _typed(values):
        array = values.to_arrow() if hasattr(values, "to_arrow") else pa.array(values, from_pandas=True)
    else:
        array = pa.array([text(value) for value in values], pa.string())
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _typed(values: Any) -> bool:
    """Whether every value of a column is of the column's type, and Arrow can take any such value."""
    kind = getattr(values, "dtype", None)
    # Of categories only the values count, not which ones there could be; Python's texts need not be Unicode.
    if kind is None or str(kind).lower() in ("category", "object") or getattr(kind, "storage", None) == "python":
        return False
    return not isinstance(kind, np.dtype) or kind.kind not in "US"
