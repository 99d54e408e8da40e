"""Frame: records with labels, light enough to need neither pandas nor polars, and open to both.

Inside, a record is a row of codes: the position of each value among its attribute's labels.
"""

import io
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quietfield.domain import Domain
from quietfield.errors import Error, FileError
from quietfield.files import write_atomically
from quietfield.models.spreadsheets import APOSTROPHE, defuse_formulas, has_formulas
from quietfield.text import join_names, plural, table_html, type_name

#: What separates the fields of a CSV file.
DELIMITERS = (",", ";", "|", "\t")

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class Frame:
    """A table of labelled records: what :meth:`Model.sample` returns.

    >>> frame = Frame(Domain({"sex": ["f", "m"], "visits": 3}), [np.array([0, 1, 1]), np.array([2, 0, 1])])
    >>> frame["sex"].tolist(), frame["visits"].tolist(), len(frame)
    (['f', 'm', 'm'], [2, 0, 1], 3)

    ``diagnostics`` says how a sample was made where that is not exact, and is None otherwise.
    """

    def __init__(self, domain: Domain, columns: Sequence[np.ndarray], diagnostics: Any = None) -> None:
        self.domain = domain
        self._columns = tuple(columns)
        self.diagnostics = diagnostics

    @property
    def columns(self) -> tuple[str, ...]:
        return self.domain.attributes

    @property
    def code_columns(self) -> dict[str, np.ndarray]:
        """The codes by attribute."""
        return dict(zip(self.columns, self._columns, strict=True))

    @property
    def codes(self) -> np.ndarray:
        """The records as an array of codes, one row per record."""
        return np.stack(self._columns, axis=1) if self._columns else np.zeros((0, 0), np.int64)

    def __len__(self) -> int:
        return len(self._columns[0]) if self._columns else 0

    def __getitem__(self, name: str) -> np.ndarray:
        return np.asarray(self.domain.labels(name))[self._columns[self.domain.position(name)]]

    def to_arrow(self) -> "pyarrow.Table":
        """As an Arrow table; text is dictionary-encoded."""
        import pyarrow as pa

        arrays = {}
        for name, codes in zip(self.columns, self._columns, strict=True):
            labels = self.domain.labels(name)
            if isinstance(labels[0], str):
                arrays[name] = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(labels))
            else:
                arrays[name] = pa.array(self[name])
        return pa.table(arrays)

    def to_pandas(self) -> "pandas.DataFrame":
        """As a pandas frame; text becomes categories."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> "polars.DataFrame":
        """As a polars frame."""
        import polars

        return polars.from_arrow(self.to_arrow())  # type: ignore[return-value]

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The Arrow stream protocol: pandas, polars, DuckDB and others read a Frame directly."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def save(self, path: str | Path, *, for_programs: bool = False) -> None:
        """Write a CSV or Parquet file, by its ending.

        People open CSV files in spreadsheets, so an apostrophe stands before names and labels that these would run as
        formulas, and a warning says so where there are any. ``for_programs=True`` writes every text as it is. Parquet
        holds them so anyway.

        Args:
            path: The file, which is replaced if it is there.
            for_programs: Whether programs alone read the file.

        Raises:
            FileError: If the ending is another one, or the file cannot be written.

        >>> frame = Frame(Domain({"change": ["-5-0", "0-5"]}), [np.array([0, 1])])
        >>> frame.save("changes.csv", for_programs=True)
        >>> Path("changes.csv").read_text().split()
        ['"change"', '"-5-0"', '"0-5"']
        """
        write_table(path, self.to_arrow(), for_programs=for_programs, stacklevel=3)

    def _rows(self, most: int = 8) -> list[list[str]]:
        shown = [np.asarray(self.domain.labels(n))[c[:most]] for n, c in zip(self.columns, self._columns, strict=True)]
        return [[str(value) for value in row] for row in zip(*shown, strict=True)]

    def __repr__(self) -> str:
        rows = [list(self.columns), *self._rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.columns))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        more = len(self) - (len(rows) - 1)
        return "\n".join(lines) + (f"\n... {more:,} more" if more > 0 else "") + f"\n{plural(len(self), 'record')}"

    def _repr_html_(self) -> str:
        return table_html(plural(len(self), "record"), self.columns, self._rows())


def write_table(
    path: str | Path,
    table: "pyarrow.Table",
    *,
    delimiter: str = ",",
    for_programs: bool = False,
    stacklevel: int = 2,
) -> None:
    """Write records to a CSV or Parquet file, by its ending, whole or not at all.

    Args:
        path: The file, which is replaced if it is there.
        table: The records.
        delimiter: What separates the fields of a CSV file.
        for_programs: Whether programs alone read it; else no text in CSV is a formula, and a warning says so.
        stacklevel: Whose warning it is.

    Raises:
        FileError: The ending is another one, or the file cannot be written.
        Error: The delimiter is no single sign that separates fields.
    """
    buffer = io.BytesIO()
    match Path(path).suffix.lower():
        case ".csv":
            import pyarrow.csv

            if delimiter not in DELIMITERS:
                raise Error(f"the delimiter of a CSV file is one of {join_names(DELIMITERS)}, not {delimiter!r}.")
            plain = table if for_programs else _defuse(table, stacklevel + 1)
            arrays = {name: _decode(column) for name, column in zip(plain.column_names, plain.columns, strict=True)}
            if len(arrays) == 1:  # readers skip an empty line, so what is missing is written as a text that is empty
                arrays = {
                    name: column.cast("string").fill_null("") if column.null_count else column
                    for name, column in arrays.items()
                }
            pyarrow.csv.write_csv(pyarrow.table(arrays), buffer, pyarrow.csv.WriteOptions(delimiter=delimiter))
        case ".parquet":
            import pyarrow.parquet

            pyarrow.parquet.write_table(table, buffer)
        case ending:
            raise FileError(f"records are written as .csv or .parquet, not as {ending or 'a file without ending'!r}.")
    write_atomically(path, buffer.getvalue())


def _defuse(table: "pyarrow.Table", stacklevel: int) -> "pyarrow.Table":
    """The same records without formulas in names and texts, with a warning where there are any."""

    import pyarrow as pa

    columns: dict[str, Any] = {}
    found = has_formulas(table.column_names)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_string(column.type):
            column = column.dictionary_encode()
        if pa.types.is_dictionary(column.type):
            chunks = []
            for chunk in column.chunks:
                texts = chunk.dictionary.to_pylist()
                safe = [defuse_formulas(text) for text in texts]
                found = found or safe != texts
                chunks.append(pa.DictionaryArray.from_arrays(chunk.indices, pa.array(safe, pa.string())))
            column = pa.chunked_array(chunks, pa.dictionary(pa.int32(), pa.string()))
        columns[defuse_formulas(name)] = column
    if found:
        warnings.warn(APOSTROPHE, stacklevel=stacklevel)
    return pa.table(columns)


def _decode(column: Any) -> Any:
    """A column without a dictionary, which CSV has none of."""
    import pyarrow as pa

    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def label_cells(domain: Domain, attributes: Sequence[str], numbers: Mapping[str, np.ndarray]) -> "pandas.DataFrame":
    """Tables over some attributes as a pandas frame, one row per cell: its labels, then its number in each table.

    Text becomes categories in the domain's order, which plots keep.
    """
    pandas = import_pandas("model.marginal, conditional and interval")
    shape = domain.table_shape(attributes)
    columns: dict[str, Any] = {}
    for name, codes in zip(attributes, np.indices(shape).reshape(len(shape), domain.cells(attributes)), strict=True):
        labels = domain.labels(name)
        text = isinstance(labels[0], str)
        columns[name] = pandas.Categorical.from_codes(codes, labels) if text else np.asarray(labels)[codes]
    for name, table in numbers.items():
        columns[free_name(name, attributes)] = np.ravel(table)
    return pandas.DataFrame(columns)


def import_pandas(instead: str) -> Any:
    """pandas, or an error that says what gives the same without it."""
    try:
        import pandas
    except ImportError:
        raise Error(
            f"a labelled frame needs pandas, which is not installed: pip install pandas. Without it, use {instead}."
        ) from None
    return pandas


def encode_records(domain: Domain, records: Any) -> np.ndarray:
    """Records as an array of codes, one column an attribute, in the domain's order.

    An array holds codes already; anything with named columns (a Frame, a mapping, pandas, polars, Arrow) holds labels.
    Values are never named in an error: they may be someone's.
    """
    if isinstance(records, Frame) and records.domain.attributes == domain.attributes and records.domain == domain:
        return records.codes
    if isinstance(records, np.ndarray | list | tuple):
        return _check_codes(domain, np.asarray(records))
    columns = _columns(records)
    absent = [name for name in domain if name not in columns]
    if absent:
        raise Error(
            f"the records have no column {join_names(absent)}; expected a column for each of {join_names(domain)}."
        )
    return (
        np.stack([_encode(domain, name, columns[name]) for name in domain], axis=1) if len(domain) else np.zeros((0, 0))
    )


def _check_codes(domain: Domain, codes: np.ndarray) -> np.ndarray:
    if codes.ndim == 1 and codes.dtype.kind in "iu" and len(codes) == len(domain):
        codes = codes[None, :]
    if codes.ndim != 2 or codes.shape[1] != len(domain):
        raise Error(
            f"records as an array have shape (records, {len(domain)}), one column an attribute, not {codes.shape}."
        )
    if codes.dtype.kind not in "iu":
        raise Error("records as an array hold integer codes; for labels pass a frame, or a mapping of columns.")
    if codes.size and ((codes < 0).any() or (codes >= np.array(domain.shape)).any()):
        raise Error("the records hold a code outside its attribute's values 0 .. size-1.")
    return codes


def _columns(records: Any) -> Mapping[str, Any]:
    """The columns of a frame of any kind, as Arrow arrays."""
    import pyarrow as pa

    if isinstance(records, Frame):
        records = records.to_arrow()
    if isinstance(records, Mapping):
        return {name: pa.array(np.asarray(column).tolist()) for name, column in records.items()}
    import narwhals as nw

    try:
        frame = nw.from_native(records, eager_only=True)
    except TypeError:
        frame = None
    if frame is None:
        raise Error(f"records are an integer array, a mapping of columns or a frame, not {type_name(records)}.")
    return {name: frame[name].to_arrow() for name in frame.columns}


def _encode(domain: Domain, name: str, column: Any) -> np.ndarray:
    import pyarrow as pa
    import pyarrow.compute as pc

    labels = domain.labels(name)
    text = isinstance(labels[0], str)
    found: Any = None
    try:
        found = pc.fill_null(pc.index_in(column.cast(pa.string() if text else pa.int64()), pa.array(labels)), -1)
    except pa.ArrowException:  # its message quotes values
        pass
    if found is None:
        raise Error(f"column {name!r} cannot be read as {'text' if text else 'whole numbers'}, which its labels are.")
    codes = found.to_numpy() if not hasattr(found, "combine_chunks") else found.combine_chunks().to_numpy()
    if (codes < 0).any():
        raise Error(f"column {name!r} holds a value that is not among its labels ({join_names(labels)}), or a null.")
    return codes


def free_name(name: str, taken: Iterable[str]) -> str:
    """A name for a column that no attribute has.

    >>> free_name("share", ("age", "share"))
    'share_'
    """
    held = set(taken)
    while name in held:
        name += "_"
    return name
