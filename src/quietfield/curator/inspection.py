"""The curator's own look at how a schema and some records agree. What it finds is NOT PRIVATE."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from quietfield.curator.counting.coding import Parameters, place_value
from quietfield.curator.counting.duckdb_engine import DuckEngine, connect
from quietfield.curator.counting.lines import find_files
from quietfield.curator.counting.reading import hide_details
from quietfield.curator.counting.statfiles import NO_LABELS, StatFile, read_dictionary
from quietfield.errors import Error
from quietfield.schema import Schema
from quietfield.text import join_names


@dataclass(frozen=True)
class ColumnFindings:
    """What was found in one column: NOT PRIVATE."""

    attribute: str
    column: str
    kind: str
    records: int
    nulls: int
    unknown: int
    common: tuple[tuple[str, int], ...]

    @property
    def null_share(self) -> float:
        """The share of records without a value."""
        return self.nulls / self.records if self.records else 0.0

    @property
    def unknown_share(self) -> float:
        """The share of records whose value no rule covers."""
        return self.unknown / self.records if self.records else 0.0


def suggest_labels(source: Any, schema: Schema) -> str:
    """Suggest to read labels where a file of SPSS or Stata holds codes and the schema the words of their labels.

    Args:
        source: The records.
        schema: The schema that they are read by.

    Returns:
        A sentence, or an empty text. It depends on the file's dictionary, never on a record.
    """
    if not isinstance(source, StatFile) or source.values != "codes" or Path(source.path).suffix.lower() in NO_LABELS:
        return ""
    columns = read_dictionary(replace(source, values="labels"), find_files(source.path)[0])
    words = [
        name
        for name in schema
        if (kind := columns.get(schema.column(name))) is not None
        and set(schema[name].own) & set(kind.labels.values())
        and not set(schema[name].own) & set(kind.labels)
    ]
    if not words:
        return ""
    return (
        f"The file holds codes with labels, and the schema of {join_names(words)} names the labels: read those with "
        '--values labels, in Python StatFile(path, values="labels").'
    )


def inspect_records(source: Any, schema: Schema, most: int = 5) -> list[ColumnFindings]:
    """For each attribute: nulls, unknown values and the most common of those. NOT PRIVATE: for the curator's eyes.

    >>> found = inspect_records({"sex": ["f", "M", None, "M"]}, Schema({"sex": ["f", "m"]}))[0]
    >>> found.nulls, found.unknown, found.common
    (1, 2, (('M', 2),))
    """
    engine = DuckEngine(source)
    if engine.source.once or engine.log is not None:
        raise Error("an inspection reads the records several times; give it a file or a frame.")

    def work() -> list[ColumnFindings]:
        with connect(gathers=True) as con:
            return [_inspect_column(con, engine, schema, name, most) for name in schema]

    return hide_details(work)


def _inspect_column(con: Any, engine: DuckEngine, schema: Schema, name: str, most: int) -> ColumnFindings:
    parameters, column = Parameters(), schema.column(name)
    table, columns = engine.attach(con, [column])
    found = columns[column]
    value, code = place_value(schema[name], found, "v", parameters)
    read = f"SELECT {found.identity} AS x, {value} AS v, {found.is_missing(schema[name])} AS n FROM {table}"
    coded = f"SELECT x, n, {code} AS k FROM ({read})"
    nulls, unknown = "count(*) FILTER (n)", "count(*) FILTER (NOT n AND k IS NULL)"
    row = con.execute(f"SELECT count(*), {nulls}, {unknown} FROM ({coded})", parameters.values).fetchone()
    ranked = (
        f"SELECT x, count(*) AS many FROM ({coded}) WHERE NOT n AND k IS NULL "
        f"GROUP BY 1 ORDER BY many DESC, 1 LIMIT {int(most)}"
    )
    common = tuple((str(text), int(many)) for text, many in con.execute(ranked, parameters.values).fetchall())
    return ColumnFindings(name, column, found.kind, int(row[0]), int(row[1]), int(row[2]), common)
