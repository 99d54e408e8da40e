"""Rows of persons on their way to be chosen: in memory while they are few, else on disk, in parts and encrypted.

All rows of a person are in one part, and most parts fit into memory, so that DuckDB need not sort on disk. Its own way
to write rows costs several times as much: its cipher does not use the processor's, and it writes each row twice.
"""

import tempfile
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from quietfield.curator.counting.reading import Stream

if TYPE_CHECKING:
    import pyarrow as pa

#: How many parts there are on disk: a power of two, at most 256.
PARTS = 16
#: The column that says in which part a row belongs.
PART = "part"
#: The most bytes of rows that wait in memory. Many more would take longer, since parts that are small sort quickly.
WAITING = 2**23


def part_sql(persons: Sequence[str]) -> str:
    """The part of a row, from its persons alone: those that DuckDB takes for one have one hash."""
    return f"(hash({', '.join(persons)}) >> {64 - PARTS.bit_length() + 1})::UTINYINT AS {PART}"


class PersonRows:
    """Rows with a column ``PART``: added in batches, and given back part by part.

    Those on disk have no name in any folder where the system allows it, so that nothing is left of a count that is
    killed. Their key is drawn for this count by the operating system and kept in memory alone.
    """

    def __init__(self, limit: int = WAITING) -> None:
        self._limit = limit
        self._held: list[pa.RecordBatch] = []
        self._size = 0
        self._schema: Any = None
        self._file: IO[bytes] | None = None
        self._pieces: list[list[tuple[int, int]]] = [[] for _ in range(PARTS)]  # where each begins, and its length
        self._reading = threading.Lock()
        self._cipher = AESGCM(AESGCM.generate_key(256))

    def __enter__(self) -> "PersonRows":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, batch: "pa.RecordBatch") -> None:
        """Take some rows; beyond the limit, write those that wait to disk."""
        self._held.append(batch)
        self._size += batch.nbytes
        if self._size > self._limit:
            self._write()

    def parts(self) -> Iterator[Any]:
        """The rows as what DuckDB can register, and scan again: all at once from memory, or part by part from disk."""
        import pyarrow as pa

        if self._file is None:
            if self._held:
                yield pa.Table.from_batches(self._held)
            return
        if self._held:
            self._write()
        for pieces in self._pieces:
            if pieces:
                yield Stream(self._schema, partial(self._read, pieces))

    def _write(self) -> None:
        import pyarrow as pa

        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  # closed at exit
        table = pa.Table.from_batches(self._held).combine_chunks()
        self._held, self._size = [], 0
        part = table.column(PART).to_numpy()
        ends = np.cumsum(np.bincount(part, minlength=PARTS))
        rows = table.drop_columns(PART).take(np.argsort(part, kind="stable"))
        self._schema = rows.schema
        for pieces, begin, end in zip(self._pieces, [0, *ends], ends, strict=False):
            if begin < end:
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, rows.schema) as writer:
                    writer.write_table(rows.slice(begin, end - begin))
                start = self._file.tell()
                sealed = self._cipher.encrypt(_nonce(start), memoryview(sink.getvalue()).cast("B"), None)
                self._file.write(sealed)
                pieces.append((start, len(sealed)))

    def _read(self, pieces: Sequence[tuple[int, int]]) -> Iterator["pa.RecordBatch"]:
        import pyarrow as pa

        assert self._file is not None
        for start, length in pieces:
            with self._reading:  # a plan may scan twice at once
                self._file.seek(start)
                sealed = self._file.read(length)
            yield from pa.ipc.open_stream(self._cipher.decrypt(_nonce(start), sealed, None))


def _nonce(start: int) -> bytes:
    """Where a piece begins is written once, so that no nonce is used twice with the key."""
    return start.to_bytes(12, "big")
