"""The curator's own look at how a schema and some records agree. What it finds is NOT PRIVATE.

The records are read once, and the rules look at each value once, however often it occurs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from quietfield.curator.counting import lines
from quietfield.curator.counting.coding import Column, Parameters, place_value
from quietfield.curator.counting.csvfiles import COMPRESSED, CsvFile
from quietfield.curator.counting.duckdb_engine import DuckEngine, connect
from quietfield.curator.counting.reading import hide_details
from quietfield.curator.counting.statfiles import NO_LABELS, StatFile, read_dictionary
from quietfield.curator.values import count_values
from quietfield.errors import Error
from quietfield.schema import Schema
from quietfield.status import show_status
from quietfield.text import join_names

#: The bytes that are read at a time.
BLOCK = 2**22


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

    Returns:
        A sentence, or an empty text. It depends on the file's dictionary, never on a record.
    """
    if not isinstance(source, StatFile) or source.values != "codes" or Path(source.path).suffix.lower() in NO_LABELS:
        return ""
    columns = read_dictionary(replace(source, values="labels"), lines.find_files(source.path)[0])
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


def inspect_records(source: Any, schema: Schema, most: int = 5, *, progress: bool = False) -> list[ColumnFindings]:
    """For each attribute: nulls, unknown values and the most common of those. NOT PRIVATE: for the curator's eyes.

    >>> found = inspect_records({"sex": ["f", "M", None, "M"]}, Schema({"sex": ["f", "m"]}))[0]
    >>> found.nulls, found.unknown, found.common
    (1, 2, (('M', 2),))
    """
    engine = DuckEngine(source)
    if engine.log is not None:
        raise Error("an inspection looks at records, not at the sequences that they make; give it the records.")

    def work() -> list[ColumnFindings]:
        with show_status("Reading records ...", progress), connect(gathers=True) as con:
            columns = count_values(con, engine, list(dict.fromkeys(schema.column(name) for name in schema)))
            return [_inspect_column(con, columns[schema.column(name)], schema, name, most) for name in schema]

    return hide_details(work)


def count_dropped(source: Any, schema: Schema, found: Sequence[ColumnFindings]) -> int:
    """How many records a release of all attributes would drop, for one value or for several. NOT PRIVATE.

    The records are read once more where several columns have such values: no column tells which records they share.

    >>> records, schema = {"a": ["x", "?", "?"], "b": ["x", "?", "x"]}, Schema({"a": ["x"], "b": ["x"]})
    >>> count_dropped(records, schema, inspect_records(records, schema))
    2
    """
    dropped = [
        item.nulls * (schema[item.attribute].null == "drop") + item.unknown * (schema[item.attribute].unknown == "drop")
        for item in found
    ]
    if sum(map(bool, dropped)) <= 1:
        return sum(dropped)

    def work() -> int:
        with connect() as con:
            parameters = Parameters()
            kept = DuckEngine(source).records_sql(con, schema, tuple(schema), None, parameters)
            row = con.execute(f"SELECT count(*) FROM ({kept})", parameters.values).fetchone()
            return found[0].records - int(row[0])

    return hide_details(work)


def inspect_lines(source: Any, records: int | None) -> lines.LineCounts:
    """The lines of a file of lines, and what is wrong with those that are none of its records. NOT PRIVATE.

    Where every line is a record, as in most files, nothing is: then lines are counted and not read again. None records
    are records that were not counted.
    """
    if not lines.is_lines(source):
        return lines.LineCounts(0, 0, 0, 0)
    if records is not None and _count_breaks(source) == records:
        return lines.LineCounts(0, 0, 0, records)
    return lines.count_lines(source)


def _count_breaks(source: Any) -> int | None:
    """The lines of plain files but for their first, blank ones included; None where line feeds do not tell."""
    how = source if isinstance(source, CsvFile) else CsvFile(source)
    paths = lines.find_files(how.path)
    if how.encoding != "utf-8" or any(Path(path).suffix.lower() in COMPRESSED for path in paths):
        return None
    every = -len(paths)
    for path in paths:
        with open(path, "rb") as file:
            last = b"\n"
            while block := file.read(BLOCK):
                every += block.count(b"\n")
                last = block[-1:]
            every += last != b"\n"
    return every


def _inspect_column(con: Any, found: Column, schema: Schema, name: str, most: int) -> ColumnFindings:
    parameters, rule = Parameters(), schema[name]
    value, code = place_value(rule, found, "v", parameters)
    whole = f"SELECT {found.sql}, sum(many)::BIGINT AS many FROM v{found.sql[1:]} GROUP BY 1"
    read = f"SELECT {found.identity} AS x, {value} AS v, {found.is_missing(rule, parameters)} AS n, many FROM ({whole})"
    coded = f"SELECT x, n, NOT n AND ({code}) IS NULL AS u, many FROM ({read})"
    kept = f"SELECT CASE WHEN u THEN x END AS x, n, u, sum(many)::BIGINT AS many FROM ({coded}) GROUP BY ALL"
    con.execute(f"CREATE OR REPLACE TEMP TABLE coded AS {kept}", parameters.values)
    sums = ", ".join(f"coalesce(sum(many) FILTER ({which}), 0)" for which in ("true", "n", "u"))
    row = con.execute(f"SELECT {sums} FROM coded").fetchone()
    ranked = f"SELECT x, many FROM coded WHERE u ORDER BY many DESC, x LIMIT {int(most)}"
    common = tuple((str(text), int(many)) for text, many in con.execute(ranked).fetchall())
    return ColumnFindings(name, schema.column(name), found.kind, int(row[0]), int(row[1]), int(row[2]), common)
