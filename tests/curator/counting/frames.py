"""Random records, schemas and structures, and the same records in every form that quietfield reads."""

import datetime
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from quietfield.cliques import Structure
from quietfield.privacy.units import Person, Rows, Unit
from quietfield.schema import Cuts, DateForm, Dates, Labels, Schema

TEXTS = ["a", "b", "it's", '"quoted"', "'; DROP TABLE records; --", "a,b", "ä", "\\", "$p0", "%s", "z", " a", "A"]
NUMBERS = ["1", " 1", "1.0", "+2", "-3", "2.", ".5", "1e2", "1e999", "9e300", "inf", "nan", "0x10", "1,5", "x", "007"]
NUMBERS += [
    "1,234.5",
    "12,34.5",
    "1,234,567",
    "$1,234.50",
    "-$2",
    "$ -3",
    "$-",
    "--$1",
    "$",
    "50 %",
    "50%%",
    "% 50",
    "1'234.5",
]
NUMBERS += [
    "1’234",
    "1 234,5",
    "1\u202f234",
    "1\u00a0234,5 €",
    "€ 2,25",
    "1 23",
    "0,5\u00a0%",
    "1e2 %",
    "2. ",
    "+ 1",
    "٣",
    "1 €",
    "'1",
]
NUMBERS += ["1.234,5", "1.234", ",5", "-1.000", "12.34,5", "1,5e1", " 2,50 ", "1,2,3", "-", "n/a"]
TIMES = [
    "2024-01-31", "2024-02-30", "2024-02-29", "2023-02-29", "2024-03-01T10:00:00", "2024-03-01 10:00", "0000-01-01",
    "2024-03-01 23:59:59.999", "2024-03-01 10:00:00Z", "2024-03-01 10:00:00+02:00", "yesterday", "2024-13-01",
    "2024-01-01T01:30-0330", "2024-03-01T03:59:59.5+14", "31.01.2024", "1.2.2024 10:30", "30.02.2024", "01/02/2024",
    "12/31/2023", "31/12/2023", "2024/01/31", "2024/1/31T23:59:59", "31-01-2024", "123.1.2024", "1.1.24", "?",
    "31.01.24", "01/31/24 10:00", "31/1/24T23:59:59", "1-2-24", "29.02.24", "29.2.00", "1.1.2", "1.1.024",
    "01.02.24 24:00",
    "01.02.2024 24:00", "01.02.2024  10:00", "01.02.2024 10:00:00.5", "1.2-2024", "20240229", "2024115",
    "20240115T7:05", "24-01-15", "24-1-5 10:00", "99-12-31", "00-02-29", "15 Jan 2024", "5 february 2024",
    "15 JAN 2024 3:05 PM", "May 1, 2024", "January 31, 2024T11:59:59pm", "Jan 31, 2024 12:00 AM",
    "31 Jan 2024 12:30am", "Feb 30, 2024", "15JAN2024", "5JAN2024", "15-Jan-2024", "15-Jan-24 0:05", "15-Janu-24",
    "1.2.2024 7:05", "1.2.2024 07:05 PM", "01/31/2024 13:05 PM", "OCT 1, 2024", "01/31/2024 0:05 AM",
    "01/02/2024 3:05  PM", "15-Oct-2024T10:00", "Sept 1, 2024", "29-FEB-23", "01.02.2024 10:00 XM",
]  # fmt: skip
NAMES = ["plain", 'with "quotes"', "with\nline break", "näme; DROP TABLE x", "c0", "Plain", "v0", "select", "a b"]

#: The kinds of columns: their Arrow type and their values.
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), st.sampled_from([*TEXTS, "", None])),
    "number as text": (pa.string(), st.sampled_from([*NUMBERS, "", None])),
    "time as text": (pa.string(), st.sampled_from([*TIMES, "", None])),
    "integer": (pa.int64(), st.sampled_from([-(2**62), -3, 0, 1, 2, 7, 2**40, None])),
    "float": (
        pa.float64(),
        st.sampled_from([-1.0, 0.0, 1.0, 2.0, 2.5, 1e300, float("nan"), float("inf"), float("-inf"), None]),
    ),
    "boolean": (pa.bool_(), st.sampled_from([True, False, None])),
    "date": (pa.date32(), st.dates(datetime.date(2023, 12, 30), datetime.date(2024, 3, 5)) | st.none()),
    "time": (
        pa.timestamp("us"),
        st.datetimes(datetime.datetime(2023, 12, 31), datetime.datetime(2024, 3, 2)) | st.none(),
    ),
}


@st.composite
def rules(draw: st.DrawFn, column: str) -> Any:
    """A rule that may or may not suit its column."""
    kind = draw(st.sampled_from(["texts", "integers", "run", "cuts", "dates"]))
    extra: dict[str, Any] = {"column": column}
    number = kind in ("integers", "run")
    for policy in ("null", "unknown"):
        extra[policy] = draw(st.sampled_from(["drop", *([98, 99] if number else ["none", "other"])]))
    extra["missing"] = draw(st.sampled_from([(), (), ("-", "n/a", "?"), ("it's", "7", "2.5")]))
    if kind == "texts":
        labels = draw(st.lists(st.sampled_from([*TEXTS, "1", "-3", "true", "2024-01-31"]), min_size=1, unique=True))
        extra["missing"] = [mark for mark in extra["missing"] if mark not in labels]
        return Labels(tuple(labels), **extra)
    if kind == "integers":
        extra["missing"] = [mark for mark in extra["missing"] if mark != "7"]
        return Labels(tuple(draw(st.lists(st.sampled_from([-3, 0, 1, 2, 7]), min_size=1, unique=True))), **extra)
    if kind == "run":
        return Labels(tuple(range(draw(st.integers(-3, 1)), 4)), **extra)
    if kind == "cuts":
        extra["decimal"] = draw(st.sampled_from([".", ","]))
        extra["thousands"] = draw(st.sampled_from([None, None, " ", "'", "," if extra["decimal"] == "." else "."]))
        extra["before"] = draw(st.sampled_from(["", "", "$", "€"]))
        extra["after"] = draw(st.sampled_from(["", "", "%", " €"]))
        return Cuts(tuple(sorted(draw(st.sets(st.sampled_from([-5, 0, 0.5, 1, 2.25, 50]), min_size=1)))), **extra)
    period = draw(st.sampled_from(["year", "month", "week", "day", "hour"]))
    ends = {"year": "2025-01-01", "week": "2024-03-04", "hour": "2024-01-04"}
    written = draw(st.sampled_from(["yyyy-mm-dd", *get_args(DateForm)]))
    extra["years_from"] = draw(st.sampled_from([1969, 1925, 2024]))
    return Dates(period, "2024-01-01", ends.get(period, "2024-03-01"), written=written, **extra)


@st.composite
def problems(
    draw: st.DrawFn, names: list[str] | None = None, rows: int = 25
) -> tuple[pa.Table, Schema, Structure, Unit]:
    """Records, a schema for them, a structure with ties, and a unit."""
    named = draw(st.permutations(names or NAMES))[:4]
    kinds = {name: draw(st.sampled_from(list(COLUMNS))) for name in named}
    size = draw(st.integers(0, rows))
    people = {"who": (pa.string(), st.sampled_from(["p", "q", "r s", "", None])), "id": (pa.int64(), st.integers(0, 2))}
    people["number"] = (pa.string(), st.sampled_from([*NUMBERS, "", None]))
    people["float"] = (pa.float64(), st.sampled_from([1.0, 2.0, 2.5, -3.0, 1e300, float("nan"), None]))
    data = {
        name: pa.array([draw(COLUMNS[kind][1]) for _ in range(size)], COLUMNS[kind][0]) for name, kind in kinds.items()
    }
    data |= {name: pa.array([draw(values) for _ in range(size)], kind) for name, (kind, values) in people.items()}
    attributes = {f"attribute {i}": draw(rules(draw(st.sampled_from(named)))) for i in range(3)}
    attributes["twin"] = attributes["attribute 0"]
    schema = Schema(attributes)
    listed = list(attributes)
    cliques = draw(st.lists(st.sampled_from([(listed[0],), (listed[1], listed[0]), tuple(listed[:3])]), unique=True))
    tied = ((listed[0], listed[1]), ("twin", listed[1]))
    structure = draw(st.sampled_from([Structure((*tied, (listed[2],)), (tied,)), Structure((*cliques, (listed[2],)))]))
    units: list[Unit] = [Rows(1), Person("who", rows=1), Person("id", rows=3), Person(("id", "who"), rows=2)]
    units += [Person("number", rows=1), *(Person(name, rows=1, kind="integer") for name in ("number", "float", "id"))]
    if any(len(clique) > 1 for clique in structure):
        units += [Person("who", normalise=True), Person(("who", "id"), normalise=True, null="none")]
        units += [Person(("number", "who"), normalise=True, kind=("integer", None))]
    return pa.table(data), schema, structure, draw(st.sampled_from(units))


def forms(table: pa.Table, folder: Path) -> dict[str, Any]:
    """The same records as a file, a frame, Arrow data and a stream."""
    import polars

    path = folder / "rows.parquet"
    pq.write_table(table, path, row_group_size=7)
    return {
        "Parquet": path,
        "Arrow": table,
        "Arrow stream": table.to_reader(max_chunksize=5),
        "polars": polars.from_arrow(table),
        "pandas": pandas_frame(table),
        "columns": {
            name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names if _plain(table, name)
        }
        if all(_plain(table, name) for name in table.column_names)
        else table,
    }


def pandas_frame(table: pa.Table) -> Any:
    """A pandas frame with the same values; integers and truth values with nulls keep their type."""
    import pandas

    nullable = {pa.int64(): pandas.Int64Dtype(), pa.bool_(): pandas.BooleanDtype()}
    return table.to_pandas(types_mapper=nullable.get)


def records(table: pa.Table) -> list[dict[str, Any]]:
    """The same records for the brute-force count."""
    return table.to_pylist()


def _plain(table: pa.Table, name: str) -> bool:
    return table.schema.field(name).type in (pa.string(), pa.int64()) and table[name].null_count == 0


def codes(draw_from: int, size: int, width: int) -> np.ndarray:
    """An array of codes, some outside the domain."""
    return np.random.default_rng(size).integers(-1, draw_from + 1, (size, width))
