"""Counting with DuckDB, within this process: records stream past in batches of codes and are tallied as they go.

For files, Arrow streams and DuckDB relations, memory does not grow with the number of records. What is in memory
already stays there: pandas frames are read slice by slice, Arrow tables and polars frames mostly in place, but lists
and other plain columns are copied, and a lazy polars frame is collected. With persons, each one's rows are gathered
first, in memory and beyond a limit on disk, encrypted: by ``PersonRows``, and by DuckDB where a part of them alone is
too large for ``PERSON_MEMORY``, or a log has to be cut into sequences.
"""

import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import duckdb
import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from quietfield.curator import sequences
from quietfield.curator.counting.coding import CodeSql, Column, Parameters, code_column, code_type
from quietfield.curator.counting.reading import Source, Stream, arrow_kind, hide_details
from quietfield.curator.counting.sources import open_source
from quietfield.curator.counting.tally import BATCH, Counts, Tally
from quietfield.domain import Domain
from quietfield.files import TEMPORARY
from quietfield.privacy.units import GRID, ROWS_KEY, Person, Statistics, Unit
from quietfield.schema import Schema
from quietfield.status import show_status

if TYPE_CHECKING:
    import pyarrow as pa

#: How many bytes DuckDB may use before it goes to disk.
PERSON_MEMORY = 10**9
#: The longest list of texts that is looked up by codes; DuckDB goes through all of it for every 2,048 rows.
LISTED_TEXTS = 2**8
#: What a query calls the rows of persons that another one has gathered.
GATHERED = "gathered"
#: How many parts there are on disk: a power of two, at most 256.
PARTS = 16
#: The column that says in which part a row belongs.
PART = "part"
#: The most bytes of rows that wait in memory. Many more would take longer, since parts that are small sort quickly.
WAITING = 2**23
PREFIX = "quietfield-spill-"
LOCK = "lock"


class DuckEngine:
    """Counts in files, frames, Arrow data and DuckDB relations."""

    def __init__(self, data: Any) -> None:
        self.log = data.sequences if isinstance(data, sequences.Log) else None
        self.source: Source = open_source(sequences.log_data(data))

    def columns(self) -> Mapping[str, str]:
        """Names and kinds of columns, without a look at any value."""
        kinds = hide_details(lambda: self.source.read(self.source.columns).kinds)
        coded = self.source.coded
        every = zip(self.source.columns, kinds, strict=True)
        return {name: "integer" if name in coded else arrow_kind(kind) for name, kind in every}

    def count(self, schema: Schema, statistics: Statistics, unit: Unit, *, progress: bool = False) -> Counts:
        """The true tables."""

        def work() -> Counts:
            gathers = isinstance(unit, Person) or self.log is not None
            with show_status("Counting ...", progress), connect(gathers=gathers) as con:
                return self._count(con, schema, statistics, unit)

        return hide_details(work)

    def codes(self, schema: Schema, person: Person | None = None) -> np.ndarray:
        """The records that are kept, as an array of codes: a column for each attribute, in the schema's order.

        Of each ``person``, as many rows as it says are kept, those that a count would choose.
        """

        def work() -> np.ndarray:
            with connect(gathers=person is not None) as con:
                parameters = Parameters()
                coded = self.records_sql(con, schema, tuple(schema), person, parameters)
                queries = [coded]
                if person is not None:
                    queries = choose_rows_sql(coded, schema.domain.shape, person, parameters)
                batches = run_queries(con, queries, parameters)
                parts = [np.stack([part.to_numpy() for part in batch.columns], axis=1) for batch in batches]
                return np.concatenate([np.zeros((0, len(schema)), np.int64), *parts])

        return hide_details(work)

    def attach(self, con: Any, wanted: Sequence[str], twice: bool = False) -> tuple[str, dict[str, Column]]:
        """Bring columns before a connection: a FROM clause, and each column as that clause calls it."""
        table, columns = self.source.attach(con, list(dict.fromkeys(wanted)))
        if twice and self.source.once:  # a plan may scan twice, and would find nothing the second time
            con.execute(f"CREATE TABLE kept AS SELECT * FROM {table}")
            table = "kept"
        return table, columns

    def _count(self, con: Any, schema: Schema, statistics: Statistics, unit: Unit) -> Counts:
        tally, parameters = Tally(statistics, schema.domain), Parameters()
        attributes = statistics.attributes
        if self.log is not None:
            table, columns = self.attach(con, self.log.columns, isinstance(unit, Person))
            coded = segments_sql(self.log.check_unit(unit), table, columns, attributes, parameters)
        else:
            coded = self.records_sql(con, schema, attributes, unit, parameters)
        queries = units_sql(coded, statistics, unit, schema.domain, parameters)
        weighted = isinstance(unit, Person) and unit.normalise
        for batch in run_queries(con, queries, parameters):
            codes = {name: batch.column(i).to_numpy() for i, name in enumerate(attributes)}
            weights = batch.column(len(attributes)).to_numpy() if weighted else None
            tally.add(codes, batch.num_rows, weights)
        return tally.counts()

    def records_sql(
        self, con: Any, schema: Schema, attributes: Sequence[str], unit: Unit | None, parameters: Parameters
    ) -> str:
        """The records that are kept, as :func:`codes_sql` has them; with a person as unit, each with its persons."""
        persons = dict(zip(unit.columns, unit.kinds, strict=True)) if isinstance(unit, Person) else {}
        table, columns = self.attach(con, [*(schema.column(name) for name in attributes), *persons])
        rules = [code_column(schema[a], columns[schema.column(a)], i, parameters) for i, a in enumerate(attributes)]
        return codes_sql(table, rules, [columns[name].read_as(kind) for name, kind in persons.items()])


def codes_sql(table: str, rules: Sequence[CodeSql], persons: Sequence[Column] = ()) -> str:
    """Records that are kept, as codes k0, k1, ... and persons u0, u1, ... with their texts t0, t1, ..."""
    who = [f"{person.sql} AS u{i}, {person.identity} AS t{i}" for i, person in enumerate(persons)]
    values = [f"{rule.value} AS v{i}, {rule.null} AS n{i}" for i, rule in enumerate(rules)]
    early = [rule.early for rule in rules if rule.early] + [f"NOT {person.is_null}" for person in persons]
    passed = [f"u{i}, t{i}" for i in range(len(persons))]
    codes = [f"{rule.code} AS k{i}" for i, rule in enumerate(rules)]
    late = [f"k{i} IS NOT NULL" for i, rule in enumerate(rules) if rule.late]
    inner = f"SELECT {', '.join([*values, *who]) or '1'} FROM {table} WHERE {' AND '.join(early) or 'true'}"
    middle = f"SELECT {', '.join([*codes, *passed]) or '1'} FROM ({inner})"
    return f"SELECT * FROM ({middle}) WHERE {' AND '.join(late) or 'true'}"


def segments_sql(
    how: sequences.Sequences,
    table: str,
    columns: Mapping[str, Column],
    attributes: Sequence[str],
    parameters: Parameters,
) -> str:
    """The segments of a log as codes k0, k1, ... and units u0, u1, ... with their texts."""
    person, time = columns[how.person].read_as(how.kind), columns[how.time]
    rule = code_column(how.rule, columns[how.value], 0, parameters)
    size, absent, kind = len(how.rule.labels), how.rule.null_code, code_type(how.rule)
    read = (
        f"SELECT {rule.value} AS v0, {rule.null} AS n0, {time.seconds} + {sequences.EPOCH} AS s, {person.sql} AS u0, "
        f"{person.identity} AS t0 FROM {table} WHERE NOT {person.is_null}"
    )
    seen = f"SELECT {rule.code}::BIGINT AS k, s, u0, t0 FROM ({read}) WHERE s IS NOT NULL"
    # The last moment wins, and the lowest code within a moment: one maximum gives both, whatever the rows' order.
    last = f"max(s * {size} + {size - 1} - k)"
    slots = (
        f"SELECT u0, t0, s // {how.slot_seconds} AS slot, {size - 1} - {last} % {size} AS k FROM ({seen}) "
        f"WHERE k IS NOT NULL AND k <> {absent} GROUP BY u0, t0, slot"
    )
    places = {name: i for i, name in enumerate(how.schema)}
    codes = ", ".join(
        f"coalesce(max(CASE WHEN slot % {how.slots} = {places[name]} THEN k END), {absent})::{kind} AS k{i}"
        for i, name in enumerate(attributes)
    )
    day = "" if how.unit_of == "person" else f", slot * {how.slot_seconds} // 86400 AS u1"
    day += ", u1::VARCHAR AS t1" if day else ""
    cut = f"SELECT *, slot // {how.slots} AS segment{day} FROM ({slots})"
    who = "u0, t0" + (", u1, t1" if day else "")
    return f"SELECT {codes}, {who} FROM ({cut}) GROUP BY {who}, segment"


def units_sql(coded: str, statistics: Statistics, unit: Unit, domain: Domain, parameters: Parameters) -> list[str]:
    """What each unit adds: some of its rows, or all of them with a weight. See :func:`run_queries`."""
    codes = [f"k{i}" for i in range(len(statistics.attributes))]
    listed = ", ".join(codes) or "1"
    if not isinstance(unit, Person):
        return [f"SELECT {listed} FROM ({coded})"]
    if unit.rows is not None:
        return choose_rows_sql(coded, domain.table_shape(statistics.attributes), unit, parameters)
    number = dict(zip(statistics.attributes, codes, strict=True))
    terms = []
    for clique, cell in statistics.edges:
        empty = " AND ".join(f"{number[name]} = {code}" for name, code in zip(clique, cell or (), strict=False))
        terms.append(f"(NOT ({empty}))::INTEGER" if cell else "1")
    who = [f"u{i}" for i in range(len(unit.columns))]
    every, persons = ", ".join([*codes, *who]), ", ".join(who)
    weights = f"SELECT {persons}, ({GRID} // sum(e))::BIGINT AS w FROM {GATHERED} GROUP BY {persons}"
    return [
        f"SELECT {every}, {sum_sql(terms)} AS e, {part_sql(who)} FROM ({coded}) WHERE e > 0",
        f"SELECT {listed}, w FROM {GATHERED} JOIN ({weights}) USING ({persons})",
    ]


def run_queries(con: Any, queries: Sequence[str], parameters: Parameters) -> Iterator[Any]:
    """What a query gives, in batches; or, if there are two, what the second gives of the rows that the first gathers.

    The second one gets some persons at a time, each with all of its rows.
    """
    first, *then = queries
    batches = _batches(con.execute(first, parameters.values))
    if not then:
        yield from batches
        return
    with PersonRows() as rows:
        for batch in batches:
            rows.add(batch)
        for part in rows.parts():
            con.register(GATHERED, part)
            yield from _batches(con.execute(then[0]))


def part_sql(persons: Sequence[str]) -> str:
    """The part of a row, from its persons alone: those that DuckDB takes for one have one hash."""
    return f"(hash({', '.join(persons)}) >> {64 - PARTS.bit_length() + 1})::UTINYINT AS {PART}"


class PersonRows:
    """Rows of persons on their way to be chosen: added in batches with a column ``PART``, given back part by part.

    All rows of a person are in one part, and most parts fit into memory, so that DuckDB need not sort on disk. Its own
    way to write rows costs several times as much: its cipher does not use the processor's, and it writes rows twice.

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


def sum_sql(terms: Sequence[str]) -> str:
    """A sum as a balanced tree: DuckDB refuses expressions that are nested more than 1,000 deep, as long sums are."""
    if len(terms) <= 2:
        return " + ".join(terms)
    middle = len(terms) // 2
    return f"({sum_sql(terms[:middle])}) + ({sum_sql(terms[middle:])})"


def choose_rows_sql(coded: str, sizes: Sequence[int], unit: Person, parameters: Parameters) -> list[str]:
    """The rows of each person that count, chosen by a hash of the person and the row alone. See :func:`run_queries`."""
    codes = [f"k{i}" for i in range(len(sizes))]
    who = [f"u{i}" for i in range(len(unit.columns))]
    persons = ", '|', ".join(f"t{i}" for i in range(len(unit.columns)))
    text = f"concat('{ROWS_KEY}|', {', '.join([persons, *code_texts_sql(sizes, parameters)])})"
    every = ", ".join([*codes, *who])
    # Half of the hash decides as the whole would, and as a number it takes a quarter of the memory. DuckDB reads the
    # bytes as a number from the last to the first; they are turned round, so that numbers are ordered as digits are.
    hashed = f"SELECT {every}, (md5_number({text}) & {2**64 - 1})::UBIGINT AS h FROM ({coded})"
    for bits in (8, 16, 32):
        low = f"{sum((2**bits - 1) << shift for shift in range(0, 64, 2 * bits))}::UBIGINT"
        turned = f"((h & {low}) << {bits}) | ((h >> {bits}) & {low})"
        hashed = f"SELECT {every}, {turned} AS h FROM ({hashed})"
    listed = ", ".join(codes) or "1"
    place = f"row_number() OVER (PARTITION BY {', '.join(who)} ORDER BY h)"
    return [
        f"SELECT *, {part_sql(who)} FROM ({hashed})",
        f"SELECT {listed} FROM (SELECT {listed}, {place} AS place FROM {GATHERED}) WHERE place <= {unit.rows}",
    ]


def code_texts_sql(sizes: Sequence[int], parameters: Parameters) -> list[str]:
    """Texts that make up ``|k0|k1...``: of several attributes at once where a short list holds all of their texts.

    Joining texts takes most of the time of a hash, and the time grows with how many there are.
    """
    runs: list[list[int]] = []
    for i, size in enumerate(sizes):
        if runs and prod(sizes[j] for j in runs[-1]) * size <= LISTED_TEXTS:
            runs[-1].append(i)
        else:
            runs.append([i])
    texts: list[str] = []
    for run in runs:
        if len(run) == 1:
            texts += ["'|'", f"k{run[0]}"]
            continue
        every = ["".join(f"|{code}" for code in cell) for cell in product(*(range(sizes[i]) for i in run))]
        place = f"k{run[0]}::USMALLINT"
        for i in run[1:]:
            place = f"({place} * {sizes[i]} + k{i})"
        texts.append(f"list_extract({parameters.add(every)}::VARCHAR[], {place} + 1)")
    return texts


@contextmanager
def connect(*, gathers: bool = False) -> Iterator[Any]:
    """A DuckDB of our own: nothing is fetched from a network, and nothing is left on disk.

    A query that ``gathers`` rows may write some of them to disk, always encrypted. Any other one streams and is not
    expected to, so it does not wait for the better cipher to be looked for.
    """
    with spill_folder() as folder:
        settings: dict[str, Any] = {
            "temp_directory": str(folder),
            "temp_file_encryption": True,
            "force_mbedtls_unsafe": True,  # see prefer_openssl
            "memory_limit": f"{PERSON_MEMORY}B",
            "arrow_large_buffer_size": True,  # else it would fail where the names of persons take two gigabytes
            "preserve_insertion_order": False,
            "enable_external_file_cache": False,  # it would keep what was read of a file, up to the limit above
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        con = duckdb.connect(config=settings)
        try:
            if gathers:
                prefer_openssl(con)
                # The first would keep every person's best rows in memory, where a plain window goes to disk. The second
                # lets Arrow choose rows before a join, and to Arrow -0.0 is not 0.0.
                known = {name for (name,) in con.execute("SELECT name FROM duckdb_optimizers()").fetchall()}
                unwanted = ",".join(known & {"top_n_window_elimination", "join_filter_pushdown"})
                con.execute(f"SET disabled_optimizers = '{unwanted}'")
            # At a prompt, a bar would show how far a count has come. In Jupyter without ipywidgets there can be none,
            # and DuckDB refuses to change the setting.
            with suppress(duckdb.InvalidInputException):
                con.execute("SET enable_progress_bar = false")
            yield con
        finally:
            con.close()


def prefer_openssl(con: Any) -> None:
    """Encrypt rows that go to disk with OpenSSL, if DuckDB's extension that brings it is on this machine.

    Else it is DuckDB's own AES, whose keys come from a generator that is not made for secrets: whoever searches the
    disk finds no text, but a cryptanalyst might. Without either, DuckDB would refuse to write rows, and the count fail.
    """
    with suppress(duckdb.Error):
        con.execute("LOAD httpfs")  # never installed from here: nothing is fetched from a network
        con.execute("SET force_mbedtls_unsafe = 'false'")


def _batches(result: Any) -> Iterator[Any]:
    read = getattr(result, "to_arrow_reader", None) or result.fetch_record_batch
    yield from read(BATCH)


@contextmanager
def spill_folder() -> Iterator[Path]:
    """A folder for rows that only this user can read, and that is gone afterwards.

    A count that is killed cannot tidy up, so the next one does. A lock tells a folder in use from one left behind;
    unlike the number of a process, it means the same in every container that shares the temporary folder.
    """
    remove_leftovers()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    held = -1
    TEMPORARY.add(folder)
    try:
        made = folder / "new"
        held = os.open(made, os.O_CREAT | os.O_RDWR, 0o600)
        _lock(held)
        made.rename(folder / LOCK)  # a lock that others can see is held already
        yield folder / "rows"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        TEMPORARY.discard(folder)
        if held >= 0:
            os.close(held)


def remove_leftovers() -> None:
    """Remove the folders of this user that no count holds any more."""
    if not hasattr(os, "getuid"):
        return  # without owners and such locks nothing can be told apart
    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).iterdir():
            if re.fullmatch(PREFIX + r"\w+", folder.name):
                with suppress(OSError):  # somebody else's, in use, or gone meanwhile
                    _remove(folder)


def _remove(folder: Path) -> None:
    if folder.lstat().st_uid != os.getuid() or folder.is_symlink() or not folder.is_dir():
        return
    held = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        _lock(held)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(held)


def _lock(file: int) -> None:
    """Take a lock that ends with this process, or fail with OSError if another has it."""
    if os.name == "posix":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
