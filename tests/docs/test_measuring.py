"""The commands that measure what pages of results show, on samples so small that their figures mean nothing."""

import pytest

import quietfield as qf
from benchmarks import _real_tables_times as times
from benchmarks import batch, counting, coverage, fitting, limit, noise, real_tables
from benchmarks._pages import RESULTS, fill, read_rows, replace_rows
from benchmarks._real_tables_page import read_cells


@pytest.fixture
def tiny(monkeypatch) -> str:
    """A made-up survey of four columns of at most six values."""
    monkeypatch.setitem(real_tables.SURVEYS, "tiny", (4, 500, 3, 6))
    monkeypatch.setattr(real_tables, "EPSILONS", (1.0, 10.0))
    return "tiny"


@pytest.mark.slow
def test_real_tables(tiny, tmp_path, monkeypatch) -> None:
    """Rows of all kinds, and a page from them; mbi is stood in for, since it compiles for seconds."""
    monkeypatch.setattr(real_tables, "learn_mbi", lambda given, stop: qf.fit(given, "naive"))
    common = ["--data", tiny, "--out", str(tmp_path)]
    real_tables.main(common)
    cells = read_cells(tmp_path / "real-tables.csv")
    assert [cell[:4] for cell in cells] == [
        (tiny, tables, noise, epsilon)
        for tables in ("mst", "triples")
        for noise in ("gaussian", "laplace")
        for epsilon in ("1.0", "10.0")
    ]
    assert all(0 < cell.tv < 1 and cell.loglik < 0 for cell in cells)

    real_tables.main([*common, "--speed", "--methods", "map"])
    domain = qf.Domain({"a": 2, "b": 3})
    monkeypatch.setattr(times, "shapes", lambda: iter([("a pair", domain, [("a", "b")])]))
    real_tables.main(["--structures", "--methods", "map", "--out", str(tmp_path)])
    times.time_trees(tiny, ["map"], tmp_path / "real-tables-times.csv", number=2)
    rows = read_rows(tmp_path / "real-tables-times.csv")
    assert [row["structure"] for row in rows] == ["a pair", "random tree 1", "random tree 2", "tree of strongest pairs"]
    for row in (rows[0], rows[-1]):
        assert row["status"] == ""
        assert float(row["first_s"]) > float(row["again_s"]) > 0
        assert float(row["all_bars_s"]) >= float(row["first_bar_s"]) > 0

    real_tables.main([*common, "--coverage"])
    rows = read_rows(tmp_path / "real-tables-coverage.csv")
    assert all(int(row["held"]) <= int(row["cells"]) for row in rows)
    assert sum(int(row["held"]) for row in rows) > 0.8 * sum(int(row["cells"]) for row in rows)

    real_tables.main(["--page", "--out", str(tmp_path)])
    text = (tmp_path / "real-tables.md").read_text(encoding="utf-8")
    assert "| tiny | 8 |" in text
    assert "2 different trees of tiny" in text
    assert "{" not in text


def test_what_ends_early_is_told(tiny, tmp_path) -> None:
    times.time_tables([tiny], ["map"], 0.01, tmp_path / "times.csv")
    (row,) = read_rows(tmp_path / "times.csv")
    assert row["status"] == "stopped after 0.01 s"
    assert row["first_s"] == ""


def test_a_published_network(tmp_path, monkeypatch) -> None:
    if "asia" not in real_tables.available():
        pytest.skip("the folder of data sets is not there")
    monkeypatch.setattr(real_tables, "EPSILONS", (1.0,))
    (row,) = real_tables.compare(real_tables.Task("asia", "mst", "laplace", (0,), ("map",)))
    assert row["tv"] < 0.05


@pytest.mark.slow
def test_mbi_learns_from_the_same_tables(tiny) -> None:
    pytest.importorskip("mbi")
    found = real_tables.problem(tiny)
    given = real_tables.release(found, real_tables.structures(found)["mst"], "gaussian", 10.0)
    tv, _ = real_tables.score(real_tables.learn_mbi(given, 100), found)
    assert tv < 0.5


@pytest.mark.slow
def test_counting_and_noise(tmp_path) -> None:
    pytest.importorskip("duckdb")
    counting.main(["--rows", "2000", "--repeat", "1", "--out", str(tmp_path)])
    noise.main(["--cells", "100", "--repeats", "1", "--out", str(tmp_path)])
    for name in ("audit", "crashes"):  # what `make test-heavy` printed
        (tmp_path / f"{name}.csv").write_bytes((RESULTS / f"{name}.csv").read_bytes())
    counting.main(["--page", "--out", str(tmp_path)])
    text = (tmp_path / "curator.md").read_text(encoding="utf-8")
    assert "| 2,000 |" in text
    assert "| gaussian | grid of 2**-20 | 90 |" in text


def test_coverage(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(coverage, "ENOUGH", 1)
    few = ["--graphs", "random", "--states", "2", "--records", "2000", "--epsilons", "1", "--models", "1"]
    coverage.main([*few, "--out", str(tmp_path)])
    rows = read_rows(tmp_path / "coverage.csv")
    assert {row["stratum"] for row in rows} == set(coverage.STRATA)
    assert all(float(row["held"]) > 0.5 for row in rows if row["stratum"] == "all cells")
    coverage.main(["--page", "--out", str(tmp_path)])
    assert "| random | 2 | 2,000 | 1 | 1 | source |" in (tmp_path / "coverage.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_times_of_fits(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(fitting, "mbi_fit", lambda release: qf.fit(release, "naive"))
    small = qf.simulate("chain", attributes=4, states=2, records=1000, epsilon=1.0, seed=0)
    for module in (fitting, batch):
        monkeypatch.setattr(module.qf, "simulate", lambda *structure, **settings: small)
    fitting.main(["--rounds", "1", "--out", str(tmp_path)])
    batch.main(["--releases", "2", "--out", str(tmp_path)])
    assert {(row["method"], row["epsilon"]) for row in read_rows(tmp_path / "fitting.csv")} == {
        (method, epsilon) for method in ("map", "cgm", "naive", "mbi") for epsilon in ("0.3", "1.0")
    }
    (row,) = read_rows(tmp_path / "batch.csv")
    assert row["settled"] == "2"


@pytest.mark.slow
def test_the_limit(tmp_path) -> None:
    limit.main(["--draws", "8", "--leaps", "1", "--releases", "1", "--out", str(tmp_path)])
    rows = read_rows(tmp_path / "limit.csv")
    assert {row["records"] for row in rows} == {"2500", "20000"}
    assert all(float(row["map"]) > 0 for row in rows)


@pytest.mark.slow
def test_inference(tmp_path, monkeypatch) -> None:
    pytest.importorskip("mbi")
    pytest.importorskip("pgmpy")
    from benchmarks import inference

    domain = qf.Domain({"a": 2, "b": 3, "c": 2})
    monkeypatch.setattr(inference, "problems", lambda: iter([("tiny", domain, qf.structures.chain, True)]))
    for name, value in {
        "PEERS": inference.PEERS[:1],
        "ROUNDS": 2,
        "CALLS": 1,
        "LENGTHS": (3, 4),
        "RECORDS": 10_000,
    }.items():
        monkeypatch.setattr(inference, name, value)
    inference.main(["--out", str(tmp_path)])
    text = (tmp_path / "inference.md").read_text(encoding="utf-8")
    assert text.count("| tiny |") == 3
    assert (tmp_path / "inference-growth.svg").exists()


def test_rows_of_what_is_measured_again_are_replaced(tmp_path) -> None:
    path = tmp_path / "rows.csv"
    replace_rows(path, ["name", "value"], [{"name": "b", "value": 1}, {"name": "a", "value": 2}], ["name"])
    replace_rows(path, ["name", "value"], [{"name": "b", "value": 3}], ["name"])
    assert path.read_text() == "name,value\na,2\nb,3\n"


def test_a_template_asks_for_nothing_that_is_not_there(tmp_path) -> None:
    (tmp_path / "page.md").write_text("{known}, {unknown}")
    with pytest.raises(KeyError, match="unknown"):
        fill(tmp_path / "page.md", {"known": "1"})
