"""What a count may be asked of: files, frames, Arrow data and relations, all brought before DuckDB as one table.

Only names and types of columns are looked at here, never values: neither a Parquet file's statistics and dictionaries
nor the categories of a frame become labels.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quietfield.curator.counting import lines
from quietfield.curator.counting.cleaning import cleaned
from quietfield.errors import Error, FileError, names

UNREADABLE = (
    "the data could not be read. What the reader said about it is not shown, since it may quote records. Check that "
    "the file is whole and of the kind that its name says, and that there is room in memory and on disk."
)
CHUNK = 2**17


@dataclass(frozen=True)
class Source:
    """Columns in order, and how to bring some of them before a DuckDB connection.

    ``attach`` takes a connection and the names wanted, and returns a FROM clause in which they are called c0, c1, ...
    ``once`` says that the records flow past a single time: what reads them twice must keep them first.
    """

    columns: tuple[str, ...]
    attach: Callable[[Any, Sequence[str]], str]
    once: bool = False


@dataclass(frozen=True)
class Stream:
    """Batches that can be read again: DuckDB asks for a new stream at each scan, and some plans scan twice."""

    schema: Any
    batches: Callable[[], Iterable[Any]]

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.batches()).__arrow_c_stream__(requested_schema)


def source(data: Any) -> Source:
    """Find out how some data is to be read."""
    if isinstance(data, str | Path):
        return _files(data)
    if isinstance(data, Mapping):
        return _mapping(data)
    module = type(data).__module__.partition(".")[0]
    if module == "pandas" and hasattr(data, "columns"):
        return _pandas(data)
    if module == "polars" and hasattr(data, "collect"):
        return _arrow(cleaned(data.collect, UNREADABLE))
    if any(hasattr(data, name) for name in ("scanner", "to_arrow_reader", "fetch_arrow_reader", "__arrow_c_stream__")):
        return _arrow(data)
    raise Error(
        f"records cannot be counted in a {type(data).__name__}; expected a path to CSV, TSV or Parquet files, a pandas "
        "or polars frame, Arrow data, a DuckDB relation, an Ibis table, or a two-dimensional array of integer codes."
    )


def _files(path: str | Path) -> Source:
    paths = lines.files(path)
    if all(lines.delimiter(name) for name in paths):
        return Source(
            tuple(lines.header(paths[0])), lambda con, wanted: _register(con, Stream(*lines.reader(paths, wanted)))
        )
    if any(lines.delimiter(name) for name in paths):
        raise FileError(f"{str(path)!r} stands for files of different kinds; count one kind at a time.")
    columns = _parquet_names(paths[0])

    def attach(con: Any, wanted: Sequence[str]) -> str:
        listed = ", ".join("'" + name.replace("'", "''") + "'" for name in paths)
        every = {name: f"q{i}" for i, name in enumerate(columns)}
        chosen = ", ".join(f"{every[name]} AS c{i}" for i, name in enumerate(wanted)) or "1 AS none"
        table = f"read_parquet([{listed}], hive_partitioning = false) AS files({', '.join(every.values())})"
        return f"(SELECT {chosen} FROM {table})"

    return Source(columns, attach)


def _parquet_names(path: str) -> tuple[str, ...]:
    import pyarrow.parquet as pq

    found = None
    try:
        found = tuple(pq.read_schema(path).names)
    except Exception:  # noqa: BLE001  # told below, without what the reader said
        found = None
    if found is None:
        raise FileError(f"{path} is not a Parquet file; name CSV files .csv, .tsv, .csv.gz or .csv.zst.")
    return _unique(found)


def _unique(columns: Sequence[Any]) -> tuple[str, ...]:
    found = tuple(str(name) for name in columns)
    twice = [name for name in dict.fromkeys(found) if found.count(name) > 1]
    if twice:
        raise Error(f"the data has several columns called {names(twice)}; give each column its own name.")
    return found


def _register(con: Any, batches: Any) -> str:
    con.register("records", batches)
    aliases = ", ".join(f"c{i}" for i in range(len(batches.schema))) or "none"
    return f"records AS t({aliases})"


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
    columns = _unique(stream.schema.names)

    def attach(con: Any, wanted: Sequence[str]) -> str:
        positions = [columns.index(name) for name in wanted]
        schema = pa.schema([(f"c{i}", stream.schema.field(p).type) for i, p in enumerate(positions)])
        if isinstance(stream, pa.Table) and not positions:
            return _register(con, pa.table({"none": np.zeros(stream.num_rows, dtype=bool)}))
        if isinstance(stream, pa.Table):
            return _register(con, pa.table([stream.column(p) for p in positions], schema=schema))
        if isinstance(stream, ds.Dataset):
            chosen = {f"c{i}": ds.field(columns[p]) for i, p in enumerate(positions)}
            return _register(con, Stream(schema, lambda: stream.scanner(columns=chosen).to_batches()))
        batches = (pa.record_batch([batch.column(p) for p in positions], schema=schema) for batch in stream)
        return _register(con, pa.RecordBatchReader.from_batches(schema, batches))

    return Source(columns, attach, once=isinstance(stream, pa.RecordBatchReader))


def _mapping(data: Mapping[str, Any]) -> Source:
    import pyarrow as pa

    return _arrow(
        cleaned(lambda: pa.table({name: _column(np.asarray(values)) for name, values in data.items()}), UNREADABLE)
    )


def _pandas(frame: Any) -> Source:
    """A frame, slice by slice, so that no second copy of it is made."""
    import pyarrow as pa

    columns = _unique(frame.columns)

    def attach(con: Any, wanted: Sequence[str]) -> str:
        series = [frame.iloc[:, columns.index(name)] for name in wanted]
        empty = [_column(part.iloc[:0]) for part in series]
        schema = pa.schema([(f"c{i}", part.type) for i, part in enumerate(empty)])

        def batches() -> Iterator[Any]:
            for start in range(0, len(frame), CHUNK):
                parts = [_column(part.iloc[start : start + CHUNK]) for part in series]
                yield pa.record_batch([p.cast(f.type) for p, f in zip(parts, schema, strict=True)], schema=schema)

        return _register(con, Stream(schema, batches))

    return Source(columns, attach)


def _column(values: Any) -> Any:
    """A slice of a column as Arrow data, whose type follows from the column's type alone."""
    import pyarrow as pa

    kind = str(values.dtype)
    if kind in ("category", "object"):  # of categories only the values count, not which ones there could be
        return pa.array([_text(value) for value in values], pa.string())
    array = pa.array(values, from_pandas=True)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _text(value: Any) -> str | None:
    """Any Python value as the text that a schema is matched with."""
    if value is None or value != value or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating) and float(value).is_integer() and abs(float(value)) < 1e15:
        return str(int(value))
    return str(value)
