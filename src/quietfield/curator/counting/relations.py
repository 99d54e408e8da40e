"""Relations of DuckDB, which a connection of the curator's own computes: what they declare, and how they are read."""

from collections.abc import Sequence
from typing import Any

from quietfield.curator.counting.reading import Read, Source, unique, unread


def opened(data: Any) -> Source:
    """A relation of DuckDB, asked for the columns wanted by their places: of names it ignores case."""
    columns = unique(data.columns)

    def read(wanted: Sequence[str]) -> Read:
        places = [columns.index(name) for name in wanted]
        chosen = data.project(", ".join(f"#{place + 1}{_cast(data.types[place])}" for place in places) or "1")
        stream = _reader(chosen)
        first = list(range(len(wanted)))
        return Read(stream.schema.types[: len(wanted)], lambda: (batch.select(first) for batch in stream))

    return Source(columns, read, once=True)


def declared(data: Any) -> Source:
    """The types of a relation of DuckDB, as Arrow has them.

    They are asked of a database of our own: with LIMIT 0, too, the relation itself may come to be computed, and whether
    that fails may depend on a record.
    """
    import duckdb

    kinds = dict(zip(unique(data.columns), data.types, strict=True))

    def kind(name: str) -> Any:
        found = None
        try:
            with duckdb.connect() as own:
                found = _reader(own.sql(f"SELECT NULL::{kinds[name]}{_cast(kinds[name])} LIMIT 0")).schema.types[0]
        except Exception:  # noqa: BLE001  # told below: neither DuckDB nor Arrow may know the type
            found = None
        if found is None:
            raise unread(name, kinds[name].id)
        return found

    return Source(tuple(kinds), lambda wanted: Read([kind(name) for name in wanted], list))


def _cast(kind: Any) -> str:
    """Integers of 128 bits as texts: Arrow would have them as decimals, in which the largest are negative."""
    return "::VARCHAR" if str(kind) in ("HUGEINT", "UHUGEINT") else ""


def _reader(relation: Any) -> Any:
    return (getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader)()
