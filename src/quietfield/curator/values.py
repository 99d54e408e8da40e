"""The values of each column and how often each occurs, from one look at the records. What is counted is NOT PRIVATE.

Arrow counts the values of each column batch by batch, and DuckDB keeps the counts.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quietfield.curator.counting.coding import Column
from quietfield.curator.counting.duckdb_engine import DuckEngine
from quietfield.curator.counting.reading import sql_column, to_duckdb
from quietfield.privacy.units import ROWS_KEY, Person

#: The most values of one column that wait to be handed to DuckDB.
WAITING = 2**18

if TYPE_CHECKING:
    import pyarrow as pa


def count_values(con: Any, engine: DuckEngine, wanted: list[str]) -> dict[str, Column]:
    """Read the records once: each column ``cI`` becomes a table ``vI`` of its values and, in ``many``, their counts.

    A value may be in there several times. Where they are many, DuckDB keeps them, on disk if need be.
    """
    import pyarrow as pa

    read, types = engine.source.plan_read(wanted)
    schemas = [pa.schema([(f"c{i}", kind), ("many", pa.int64())]) for i, kind in enumerate(types)]
    waiting: list[list[pa.RecordBatch]] = [[] for _ in wanted]
    lengths = [0] * len(wanted)
    for batch in read.batches():
        for i, array in enumerate(batch.columns):
            waiting[i].append(pa.record_batch([*_count_batch(array)], schema=schemas[i]))
            lengths[i] += len(waiting[i][-1])
            if lengths[i] > WAITING:
                con.register("part", pa.Table.from_batches(waiting[i]))
                con.execute(f"CREATE TABLE IF NOT EXISTS kept{i} AS SELECT * FROM part LIMIT 0")
                con.execute(f"INSERT INTO kept{i} SELECT * FROM part")
                con.unregister("part")
                waiting[i], lengths[i] = [], 0
    kept = {name for (name,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    for i, schema in enumerate(schemas):
        con.register(f"w{i}", pa.Table.from_batches(waiting[i], schema))
        both = f"w{i} UNION ALL SELECT * FROM kept{i}" if f"kept{i}" in kept else f"w{i}"
        con.execute(f"CREATE TEMP VIEW v{i} AS SELECT * FROM {both}")
    return {name: sql_column(i, kind) for i, (name, kind) in enumerate(zip(wanted, read.kinds, strict=True))}


def _count_batch(array: "pa.Array") -> "tuple[pa.Array, pa.Array]":
    """The values of an array as DuckDB is given them, and the count of each; one by one where Arrow cannot count."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_string(array.type):  # texts are checked after they are counted, since that takes as long
        array = to_duckdb(array)
    try:
        counted = pc.value_counts(array)
    except pa.ArrowNotImplementedError:
        return array, pa.repeat(pa.scalar(1, pa.int64()), len(array))
    return to_duckdb(counted.field("values")), counted.field("counts")


def count_values_by_person(con: Any, engine: DuckEngine, wanted: Sequence[str], person: Person) -> dict[str, Column]:
    """As :func:`count_values`, of at most ``person.rows`` rows of each person.

    They are chosen by a hash of the person and the row, which says nothing of anybody else's rows. Rows of one hash are
    ordered by their values, so that it never matters in which order they are read.
    """
    kinds = dict(zip(person.columns, person.kinds, strict=True))
    table, columns = engine.attach(con, [*wanted, *kinds], twice=True)
    persons = [columns[name].read_as(kind) for name, kind in kinds.items()]
    values = [columns[name] for name in wanted]
    listed, who = ", ".join(value.sql for value in values), ", ".join(f"u{i}" for i in range(len(persons)))
    texts = ", ".join([*(one.identity for one in persons), *(value.identity for value in values)])
    named = ", ".join(f"{one.sql} AS u{i}" for i, one in enumerate(persons))
    kept = " AND ".join(f"NOT {one.is_null}" for one in persons)
    hashed = f"SELECT {listed}, {named}, md5(concat_ws('|', '{ROWS_KEY}', {texts})) AS h FROM {table} WHERE {kept}"
    ranked = f"SELECT {listed}, row_number() OVER (PARTITION BY {who} ORDER BY h, {listed}) AS place FROM ({hashed})"
    con.execute(f"CREATE TEMP TABLE chosen AS SELECT {listed} FROM ({ranked}) WHERE place <= {person.rows}")
    for value in values:
        number = value.sql[1:]
        con.execute(f"CREATE TEMP VIEW v{number} AS SELECT {value.sql}, 1::BIGINT AS many FROM chosen")
    return {name: columns[name] for name in wanted}
