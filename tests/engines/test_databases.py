"""PostgreSQL and Spark count the same integers as DuckDB and plain Python."""

import sys
import time
from pathlib import Path
from typing import Any, get_args

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "curator" / "counting"))
import frames
import reference

from quietfield.cliques import Structure
from quietfield.curator.counting import count, open_address
from quietfield.curator.counting.databases import _seconds
from quietfield.curator.counting.reading import attempt
from quietfield.curator.sequences import Sequences
from quietfield.domain import Domain
from quietfield.errors import Error
from quietfield.privacy.units import Person, Rows, Statistics, statistics
from quietfield.schema import Cuts, DateForm, Dates, Labels, Schema
from quietfield.structures import chain

# What Spark, its bridge and the drivers of databases warn of, in one version or another, is their own.
pytestmark = [pytest.mark.server, pytest.mark.filterwarnings("default")]

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
#: PostgreSQL's names have at most 63 bytes and Spark's views know no line breaks; both are strange enough.
NAMES = ['with "quotes"', "näme; DROP TABLE x", "c0", "v0", "select", "a b", "`tick`"]


def assert_same(found: Any, tables: list[np.ndarray], total: int, asked: Statistics) -> None:
    assert found.total == total
    for counted, expected, actual in zip(asked.tables, tables, found.tables, strict=True):
        np.testing.assert_array_equal(actual, expected, err_msg=str(counted.clique))


def loaded(connection: Any, table: pa.Table, folder: Path) -> Any:
    """The same records as a table of the database."""
    if connection.name == "postgres":
        return connection.create_table("records", ibis.memtable(table), overwrite=True)
    path = folder / "rows.parquet"
    pq.write_table(table, path)
    connection._session.read.parquet(str(path)).createOrReplaceTempView("records")
    return connection.table("records")


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(problem=frames.problems(NAMES))
def test_postgres_counts_like_plain_python(postgres: Any, tmp_path_factory: Any, problem: Any) -> None:
    check(postgres, tmp_path_factory, problem)


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(problem=frames.problems(NAMES))
def test_spark_counts_like_plain_python(spark: Any, tmp_path_factory: Any, problem: Any) -> None:
    check(spark, tmp_path_factory, problem)


def check(connection: Any, tmp_path_factory: Any, problem: Any) -> None:
    table, schema, structure, unit = problem
    asked = statistics(structure, schema.domain, unit, "add_remove", True)
    tables, total = reference.count(frames.records(table), schema, asked, unit)
    source = loaded(connection, table, tmp_path_factory.mktemp("rows"))
    assert_same(count(source, schema, asked, unit), tables, total, asked)


@pytest.mark.parametrize("database", ["postgres", "spark"])
def test_every_form_of_dates(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    forms, source = (
        get_args(DateForm),
        loaded(request.getfixturevalue(database), pa.table({"a": frames.TIMES}), tmp_path),
    )
    read = source.select("a", **{f"s{i}": _seconds(source.a, form, 1969) for i, form in enumerate(forms)}).to_pyarrow()
    for i, form in enumerate(forms):
        expected = {text: reference.seconds(text, form) for text in frames.TIMES}
        assert dict(zip(read["a"].to_pylist(), read[f"s{i}"].to_pylist(), strict=True)) == expected, form


@pytest.mark.parametrize("database", ["postgres", "spark"])
def test_sequences(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    draw = np.random.default_rng(5)
    seen = np.datetime64("2024-01-01T20:00:00") + draw.integers(0, 8 * 3600, 400).astype("timedelta64[s]")
    log = pa.table(
        {
            "user": draw.choice(["ann", "bob", "cyd", ""], 400),
            "seen": pa.array(seen.astype("datetime64[us]")),
            "place": draw.choice(["hall", "lab", "moon"], 400),
        }
    )
    source = loaded(request.getfixturevalue(database), log, tmp_path)
    for protected in ("person", "person-day"):
        how = Sequences("user", "seen", "place", labels=["hall", "lab"], unit=protected)  # type: ignore[arg-type]
        for unit in (how.unit, Person(how.identity, rows=3)):
            asked = statistics(how.structure, how.schema.domain, unit, "add_remove", True)
            here = count(how.log(log), how.schema, asked, unit)
            assert here.total
            assert_same(count(how.log(source), how.schema, asked, unit), here.tables, here.total, asked)


def test_postgres_values_that_no_double_and_no_calendar_hold(postgres: Any) -> None:
    postgres.raw_sql("DROP TABLE IF EXISTS extremes").close()
    postgres.raw_sql("CREATE TABLE extremes (d numeric, t timestamp, z timestamptz, f float8, day date)").close()
    postgres.raw_sql(
        "INSERT INTO extremes VALUES (1e400, 'infinity', '-infinity', 'Infinity', 'infinity'), "
        "('NaN', '4000-01-01 BC', '2024-01-01 09:00+10', 'NaN', '-infinity'), "
        "(1.50, '2024-01-01', '2024-01-01 00:00+00', 1.5, '2024-01-01'), (2.00, NULL, NULL, 2, NULL)"
    ).close()
    policies: dict[str, Any] = {"null": "n", "unknown": "u"}
    rules: dict[str, Any] = {name: Dates("year", "2024-01-01", "2025-01-01", **policies) for name in ("t", "z", "day")}
    rules |= {name: Cuts((1.75,), **policies) for name in ("d", "f")}
    schema = Schema({**rules, "two": Labels((2,), column="d", null=0, unknown=9)})
    asked = statistics(Structure(tuple((name,) for name in schema)), schema.domain, Rows(1), "add_remove", True)
    found = count(postgres.table("extremes"), schema, asked, Rows(1))
    tables = dict(zip(schema, (table.tolist() for table in found.tables), strict=True))
    assert tables == {
        "t": [1, 1, 2],
        "z": [1, 1, 2],  # nine in the morning at +10 is still the year before
        "day": [1, 1, 2],
        "d": [1, 1, 1, 1],
        "f": [1, 1, 1, 1],
        "two": [1, 1, 2],
    }


def test_adult_is_the_same_everywhere(postgres: Any, spark: Any, tmp_path: Path) -> None:
    path = DATA / "adult.parquet"
    if not path.exists():
        pytest.skip("the adult data are not beside the checkout")
    import polars

    domain = Domain.load(DATA / "adult-domain.json")
    schema = Schema({name: domain.size(name) for name in domain})
    structure = Structure((*chain(domain).cliques, ("sex", "race", "income>50K")))
    asked = statistics(structure, domain, Rows(1), "add_remove", True)
    table = pq.read_table(path)
    polars.from_arrow(table).write_csv(tmp_path / "adult.csv")
    expected = [np.zeros(counted.shape, dtype=np.int64) for counted in asked.tables]
    for counted, here in zip(asked.tables, expected, strict=True):
        np.add.at(here, tuple(table[name].to_numpy() for name in counted.clique), 1)
    sources = {
        "Parquet": path,
        "CSV": tmp_path / "adult.csv",
        "pandas": table.to_pandas(),
        "polars": polars.from_arrow(table),
        "codes": np.column_stack([table[name].to_numpy() for name in domain]),
        "PostgreSQL": loaded(postgres, table, tmp_path),
        "Spark": loaded(spark, table, tmp_path),
    }
    for source in sources.values():
        assert_same(count(source, schema, asked, Rows(1)), expected, table.num_rows, asked)


@ibis.udf.scalar.builtin(name="raise_error")
def _raise_error(text: str) -> int:  # type: ignore[empty-body]
    """Spark's own function."""


@pytest.mark.parametrize("database", ["postgres", "spark"])
def test_a_database_s_words_do_not_leave(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    schema = Schema({"a": [0, 1]})
    source = loaded(request.getfixturevalue(database), pa.table({"name": ["Smith"]}), tmp_path)
    if database == "spark":
        broken = source.mutate(a=_raise_error(source.name))
    else:
        broken = source.mutate(a=source.name.cast("int64"))
    asked = statistics(Structure((("a",),)), schema.domain, Rows(1), "add_remove", True)
    with pytest.raises(Exception, match="Smith"):  # the database does quote the value
        broken.to_pyarrow()
    with pytest.raises(Error, match="the database could not count") as caught:
        count(broken, schema, asked, Rows(1))
    assert "Smith" not in str(caught.value)
    assert caught.value.__context__ is None


def test_the_studio_publishes_a_table_of_postgres_and_keeps_no_password(
    postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real PostgreSQL asks for a password; page and command find it where PGPASSFILE says, and write it nowhere."""
    pytest.importorskip("starlette")
    from quietfield.curator.ledger import Ledger
    from quietfield.releases import keys
    from quietfield.releases.release import Release
    from quietfield.studio import curator
    from quietfield.studio.drafts import Draft
    from quietfield.studio.server import Studio

    secret = "correct-horse-battery-staple"
    with postgres.raw_sql("SHOW hba_file") as shown:
        rules = Path(shown.fetchone()[0])
    rules.write_text(f"local all curator scram-sha-256\n{rules.read_text()}")
    table = pa.table({"age": [5, 70] * 300, "sex": ["f", "m"] * 300})
    postgres.create_table("patients", ibis.memtable(table), overwrite=True)
    for line in (f"CREATE ROLE curator LOGIN PASSWORD '{secret}'", "GRANT SELECT ON patients TO curator"):
        postgres.raw_sql(line).close()
    postgres.con.commit()
    postgres.raw_sql("SELECT pg_reload_conf()").close()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path.with_suffix(".pass")))
    monkeypatch.delenv("PGPASSWORD", raising=False)
    studio = Studio()
    address = f"postgresql://curator@/postgres?host={rules.parent}#patients"
    until = time.monotonic() + 600  # a limit for what hangs: the server takes up its new rule by and by
    while attempt(lambda: open_address(address).get_backend().disconnect() or True):
        assert time.monotonic() < until
        time.sleep(0.1)
    curator.create(studio, {"name": "visits", "path": address})
    with pytest.raises(Error, match="cannot be connected to"):
        curator.save_file(studio, {"name": "visits", "path": address, "revision": 0})
    passwords = tmp_path.with_suffix(".pass")
    passwords.write_text(f"*:*:*:curator:{secret}\n")
    passwords.chmod(0o600)
    curator.save_file(studio, {"name": "visits", "path": address, "revision": 0})
    assert Draft.load("visits").columns == {"age": "integer", "sex": "text"}
    fields = {"use.0": "yes", "kind.0": "cuts", "cuts.0": "18", "use.1": "yes", "kind.1": "labels", "labels.1": "f, m"}
    curator.save_schema(studio, {"name": "visits", "revision": 1, **fields})
    curator.save_unit(studio, {"name": "visits", "revision": 2, "twice": "no"})
    curator.save_structure(studio, {"name": "visits", "revision": 3, "chosen": ["sex", "age"]})
    Ledger.create("budget.db", epsilon=2, unit=Rows(1))
    keys.create_keys("key.pem")
    curator.save_ledger(studio, {"name": "visits", "revision": 4, "ledger": "budget.db", "key": "key.pem"})
    assert "What will be published" in curator.show(studio, {"name": "visits", "step": "publish"})
    curator.publish(studio, {"name": "visits", "revision": 5, "agree": "yes"})
    (child,) = studio.jobs.children.values()
    assert child.wait(600) == 0, studio.jobs.find("visits/visits.qfr").errors
    assert abs(Release.load("visits/visits.qfr").tables["age", "sex"][0, 0] - 300) < 30  # beyond 1e-12 of Laplace noise
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
