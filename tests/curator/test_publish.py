"""From records to a release: the order of things, what is written, and what is not."""

import csv
import json
import os
import warnings
import zipfile
from fractions import Fraction

import numpy as np
import pytest

import quietfield as qf
from quietfield import structures
from quietfield.cli import main
from quietfield.curator import mechanism, publish
from quietfield.curator.ledger import Ledger
from quietfield.curator.ledger_words import describe_ledger
from quietfield.errors import BudgetExceeded, Error, FileError, TooLarge
from quietfield.releases.parts import Payment

SCHEMA = qf.Schema({"a": [0, 1], "b": [0, 1, 2], "c": [0, 1]})
PAIRS = [("a", "b"), ("b", "c")]
N = 4321
pytestmark = pytest.mark.filterwarnings("ignore:epsilon")


@pytest.fixture(scope="module")
def codes():
    rng = np.random.default_rng(1)
    return np.stack([rng.integers(0, k, N) for k in SCHEMA.domain.shape], axis=1)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "budget.db", epsilon=2, unit=qf.Rows(1))


def test_tables_are_true_counts_with_noise_of_the_stated_size(codes):
    release = qf.release(codes, SCHEMA, PAIRS, epsilon=50, unit=qf.Rows(1), ledger=None, total=True)
    for clique in PAIRS:
        true = np.zeros(SCHEMA.domain.table_shape(clique))
        columns = [SCHEMA.domain.position(name) for name in clique]
        np.add.at(true, tuple(codes[:, columns].T), 1)
        assert np.abs(release.tables[clique] - true).max() <= 3  # scale 3/50: beyond 3 with probability e^-50
    assert abs(release.total - N) <= 3
    assert release.noise["a", "b"].scale == pytest.approx(3 / 50)
    assert release.check_promise()


def test_the_ledger_must_be_named_and_pays_first(codes, ledger, monkeypatch):
    with pytest.raises(TypeError, match="ledger"):
        qf.release(codes, SCHEMA, PAIRS, epsilon=1, unit=qf.Rows(1))
    seen = []
    real = mechanism.draw_noise

    def draw(*arguments):
        seen.append(Ledger(ledger.path).spent)
        return real(*arguments)

    monkeypatch.setattr(mechanism, "draw_noise", draw)
    release = qf.release(codes, SCHEMA, PAIRS, epsilon=0.1, unit=qf.Rows(1), ledger=ledger.path)
    assert seen == [Fraction(1, 10)]
    (charge,) = ledger.charges
    assert (charge.release, charge.epsilon, release.ledger) == (
        release.id,
        Fraction(1, 10),
        Payment(ledger.id, 1, charge.digest),
    )
    assert charge.time == release.created


def test_a_count_that_fails_is_paid_for(codes, ledger, monkeypatch):
    """Whether it fails may depend on a record: for nothing, that bit could be asked for without end."""
    uneven = {"a": [0, 1], "b": [0], "c": [1]}
    with pytest.raises(Error, match=r"differ in length.*the charge stands"):
        qf.release(uneven, SCHEMA, PAIRS, epsilon=0.5, unit=qf.Rows(1), ledger=ledger)
    assert ledger.spent == Fraction(1, 2)
    seen = []

    def count(*_, **__):
        seen.append(Ledger(ledger.path).spent)
        raise MemoryError

    monkeypatch.setattr("quietfield.curator.counting.count", count)
    with pytest.raises(TooLarge, match="the charge stands"):
        qf.release(codes, SCHEMA, PAIRS, epsilon=0.5, unit=qf.Rows(1), ledger=ledger)
    assert seen == [ledger.spent] == [1]


def test_failures_after_the_charge_are_not_paid_back_and_public_mistakes_cost_nothing(
    codes, ledger, monkeypatch, tmp_path
):
    (tmp_path / "d.csv").write_text("a,b\n0,1\n")
    for source in (tmp_path / "d.csv", tmp_path / "none.csv"):
        with pytest.raises(Error, match=r"has no column 'c'|none"):
            qf.release(source, SCHEMA, PAIRS, epsilon=0.5, unit=qf.Rows(1), ledger=ledger)
    book = Ledger.create(tmp_path / "r.db", epsilon=2, unit=qf.Rows(1), neighbours="replace")
    with pytest.raises(Error, match="drop"):
        qf.release(codes, SCHEMA, PAIRS, epsilon=1, unit=qf.Rows(1), ledger=book, neighbours="replace")
    closed = qf.Schema({name: qf.Cuts([1], null="other", unknown="other") for name in "abc"})
    (tmp_path / "d.csv").write_text("a,b,c\n0,1,1\n")
    with pytest.raises(Error, match="Parquet"):
        qf.release(tmp_path / "d.csv", closed, PAIRS, epsilon=1, unit=qf.Rows(1), ledger=book, neighbours="replace")
    assert book.spent == 0
    with pytest.raises(Error, match="not an attribute"):
        qf.release(codes, SCHEMA, [("a", "z")], epsilon=0.5, unit=qf.Rows(1), ledger=ledger)
    assert ledger.spent == 0

    def fails(*_):
        raise MemoryError

    monkeypatch.setattr(mechanism, "draw_noise", fails)
    with pytest.raises(TooLarge, match="the charge stands"):
        qf.release(codes, SCHEMA, PAIRS, epsilon=0.5, unit=qf.Rows(1), ledger=ledger)
    assert ledger.spent == Fraction(1, 2)


def test_a_refused_charge_is_refused_before_counting(codes, ledger, monkeypatch):
    monkeypatch.setattr("quietfield.curator.counting.count", lambda *_, **__: pytest.fail("counted all the same"))
    with pytest.raises(BudgetExceeded):
        qf.release(codes, SCHEMA, PAIRS, epsilon=3, unit=qf.Rows(1), ledger=ledger)
    with pytest.raises(Error, match="this ledger protects"):
        qf.release(codes, SCHEMA, PAIRS, epsilon=1, unit=qf.Rows(2), ledger=ledger)
    with pytest.raises(Error, match="neighbours"):
        qf.release(codes, SCHEMA, PAIRS, epsilon=1, unit=qf.Rows(1), ledger=ledger, neighbours="paper")


def test_the_number_of_records_is_nowhere_in_the_file(codes, tmp_path):
    """The same noise-free facts for two sizes of data: only ids, times and noisy numbers may differ."""
    facts = []
    for rows in (N, 17):
        release = qf.release(codes[:rows], SCHEMA, PAIRS, epsilon=1, unit=qf.Rows(1), ledger=None, total=False)
        release.save(tmp_path / "x.qfr")
        with zipfile.ZipFile(tmp_path / "x.qfr") as archive:
            manifest = json.loads(archive.read("manifest.json"))
        assert manifest["total"] is None
        facts.append({k: v for k, v in manifest.items() if k not in ("id", "created", "sha256")})
    assert facts[0] == facts[1]


def test_no_rows_at_all_still_give_a_release():
    release = qf.release(np.zeros((0, 3), int), SCHEMA, PAIRS, epsilon=1, unit=qf.Rows(1), ledger=None)
    assert set(release.tables) == set(PAIRS)


def test_paper_mode_knows_the_total_and_says_so(codes):
    paper = qf.release(codes, SCHEMA, PAIRS, epsilon=1, unit=qf.Rows(1), ledger=None, neighbours="paper")
    assert (paper.total, paper.total_is_public) == (N, True)
    assert paper.notes[0] == "paper mode: not a differential privacy guarantee for N"
    assert paper.noise["a", "b"].scale == pytest.approx(2)


def test_replace_has_a_public_total_and_twice_the_noise(codes):
    from quietfield.schema import Labels

    closed = qf.Schema({n: Labels(tuple(range(k)), null=0, unknown=0) for n, k in zip("abc", (2, 3, 2), strict=True)})
    release = qf.release(codes, closed, PAIRS, epsilon=1, unit=qf.Rows(1), ledger=None, neighbours="replace")
    assert (release.total, release.total_is_public) == (N, True)
    assert release.noise["a", "b"].scale == pytest.approx(4)
    assert release.check_promise()
    with pytest.raises(Error, match="drop"):
        qf.release(codes, SCHEMA, PAIRS, epsilon=1, unit=qf.Rows(1), ledger=None, neighbours="replace")


def test_auto_total_says_why(codes):
    release = qf.release(codes, SCHEMA, PAIRS, epsilon=1, unit=qf.Rows(1), ledger=None)
    assert release.notes[0].startswith(
        "the total is left out, since the tables' sums tell it and one of its own would raise every"
    )
    assert release.total is None


def test_gaussian_and_weights(codes, tmp_path):
    book = Ledger.create(tmp_path / "z.db", epsilon=1, delta="1e-6", unit=qf.Rows(1), accounting_by="zcdp")
    release = qf.release(codes, SCHEMA, PAIRS, epsilon=0.5, delta=1e-6, noise="gaussian", unit=qf.Rows(1), ledger=book,
                         weights={("b", "a"): 2})  # fmt: skip
    assert release.delta == 1e-6
    assert release.noise["b", "c"].scale == pytest.approx(2 * release.noise["a", "b"].scale)
    assert release.check_promise()
    assert 0 <= book.spent - release.promise.rho < Fraction(1, 10**29)
    release.save(tmp_path / "g.qfr")
    assert qf.Release.load(tmp_path / "g.qfr").check_promise()


def test_gaussian_noise_measures_attributes_by_themselves_unless_weights_are_given():
    schema = qf.Schema({"b": list(range(6)), **{name: [0, 1] for name in "acde"}})
    pairs = tuple(("b", name) for name in "acde")
    asked = {"epsilon": 1, "delta": 1e-6, "noise": "gaussian", "unit": qf.Rows(1), "ledger": None}
    codes = np.zeros((5, 5), dtype=np.int64)
    found = qf.release(codes, schema, pairs, **asked)
    assert found.structure.cliques == (*pairs, ("a",), ("c",), ("d",), ("e",))
    assert found.noise["a",].scale == pytest.approx(3 * found.noise["b", "a"].scale)
    assert found.check_promise()
    assert found.notes[1] == "these attributes are also measured by themselves: 'a', 'c', 'd', 'e'"
    for others in ({"weights": "equal"}, {"weights": {("b", "a"): 2}}, {"weights": "by_size"}, {"neighbours": "paper"}):
        assert qf.release(codes, schema, pairs, **{**asked, **others}).structure.cliques == pairs
    laplace = {**asked, "noise": "laplace", "delta": None}
    assert qf.release(codes, schema, pairs, **laplace).structure.cliques == pairs
    with pytest.raises(qf.Error, match="equal and by_size"):
        qf.release(codes, schema, pairs, **asked, weights="by size")
    few = (*pairs[:2], ("c", "d", "e"))
    assert qf.release(codes, schema, few, **asked).structure.cliques == few


def test_persons_with_fractional_weights(tmp_path):
    people = {"who": [1, 1, 2, 3, 3, 3], "a": [0, 1, 1, 0, 0, 1], "b": [0, 1, 2, 0, 1, 2], "c": [0, 0, 1, 1, 0, 0]}
    unit = qf.Person("who", normalise=True)
    release = qf.release(people, SCHEMA, PAIRS, epsilon=1000, unit=unit, ledger=None, total=True)
    assert release.denominator == 2**20
    release.save(tmp_path / "x.qfr")
    loaded = qf.Release.load(tmp_path / "x.qfr")
    assert loaded.check_promise()
    # Three persons add at most one each to all edge tables together, less the rounding down to the grid.
    assert sum(table.sum() for table in loaded.tables.values()) == pytest.approx(3, abs=0.1)


def test_sequences_are_released_as_two_tables_with_sensitivity_two(tmp_path):
    from quietfield.curator.sequences import Sequences

    visits = Sequences("user", "seen", "place", labels=["hall", "lab"], segment="1h", unit="person-day")
    log = {
        "user": ["u", "u", "v"],
        "seen": ["2024-01-01 10:05:00", "2024-01-01 10:15:00", "2024-01-02 09:30:00"],
        "place": ["hall", "lab", "hall"],
    }
    book = Ledger.create(tmp_path / "b.db", epsilon=2000, unit=visits.unit)
    assert "with 21 of them, up to epsilon 42000 in place of 2000" in describe_ledger(book)
    release = qf.release(
        visits.log(log), visits.schema, visits.structure, epsilon=1000, unit=visits.unit, ledger=book, total=False
    )
    assert (release.promise.l1, len(release.parts)) == (2, 2)
    assert release.tables["slot 3", "slot 4"].sum() == pytest.approx(2, abs=0.1)  # two person-days, each at most 1
    release.save(tmp_path / "x.qfr")
    loaded = qf.Release.load(tmp_path / "x.qfr")
    assert loaded.parts[1].excluded == (2, 2)  # absent, absent
    assert main(["verify", str(tmp_path / "x.qfr")]) == 0


@pytest.mark.parametrize("bad", [
    {"epsilon": 0}, {"epsilon": float("nan")}, {"total": "yes"}, {"total": 1}, {"noise": "uniform"}, {"unit": "rows"},
    {"neighbours": "none"}, {"weights": {("a", "c"): 1}}, {"delta": 0.1}, {"ledger": 3},
])  # fmt: skip
def test_bad_requests_are_refused(codes, bad):
    with pytest.raises(Error):
        qf.release(codes, SCHEMA, PAIRS, **{"epsilon": 1, "unit": qf.Rows(1), "ledger": None, **bad})


def test_two_releases_differ(codes):
    one, two = (qf.release(codes, SCHEMA, PAIRS, epsilon=0.01, unit=qf.Rows(1), ledger=None) for _ in range(2))
    assert not np.array_equal(one.tables["a", "b"], two.tables["a", "b"])


# The command line


@pytest.fixture
def folder(tmp_path, monkeypatch, codes):
    monkeypatch.chdir(tmp_path)
    SCHEMA.save("schema.json")
    with open("data.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "c"])
        writer.writerows(codes[:200].tolist())
    assert main(["ledger", "create", "budget.db", "--epsilon", "1", "--unit", "rows:1"]) == 0
    return tmp_path


ASKED = ["release", "data.csv", "--schema", "schema.json", "--structure", "chain", "--unit", "rows:1"]


def test_the_whole_way_on_the_command_line(folder, capsys):
    assert main(["key", "create", "curator.pem"]) == 0
    paid = [*ASKED, "--epsilon", "0.25", "--ledger", "budget.db"]
    assert main([*paid, "--dry-run"]) == 0
    assert Ledger("budget.db").spent == 0
    assert main([*paid, "--out", "x.qfr", "--key", "curator.pem"]) == 0
    assert Ledger("budget.db").spent == Fraction(1, 4)
    assert main(["verify", "x.qfr", "--trust", "curator.pub.pem"]) == 0
    assert main(["export", "x.qfr", "--out", "tables"]) == 0
    assert main(["export", "x.qfr", "--out", "parquet", "--format", "parquet"]) == 0
    release = qf.Release.load("x.qfr")
    with open("tables/table-0001.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["a", "b", "noisy_count"]
    assert [float(r[2]) for r in rows[1:]] == release.tables["a", "b"].ravel().tolist()
    import pyarrow.parquet as pq

    assert pq.read_table("parquet/table-0002.parquet").column_names == ["b", "c", "noisy_count"]
    capsys.readouterr()
    assert main(["ledger", "show", "budget.db", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["spent"], shown["remaining"], shown["charges"][0]["release"]) == ("1/4", "3/4", release.id)


def test_an_export_says_what_the_release_says(tmp_path, monkeypatch, capsys, codes):
    from quietfield.releases.parts import PAPER_NOTE

    monkeypatch.chdir(tmp_path)
    people = {"who": [1, 1, 2], "a": [0, 1, 1], "b": [0, 1, 2], "c": [0, 0, 1]}
    unit = qf.Person("who", normalise=True, null=0)
    kept = qf.release(people, SCHEMA, PAIRS, epsilon=1, unit=unit, ledger=None, neighbours="paper", total=False)
    kept.save("x.qfr")
    assert main(["export", "x.qfr", "--out", "t"]) == 0
    shown = capsys.readouterr().out
    with open("t/index.csv", newline="") as file:
        index = list(csv.DictReader(file))
    assert [row["not_counted"] for row in index[:2]] == ["[0, 0]"] * 2
    remarks = [row["value"] for row in index if row["file"] == "remark"]
    for text in ("NOT SIGNED", PAPER_NOTE, "noise alone"):
        assert text in shown
        assert any(text in remark for remark in remarks)
    with open("t/table-0001.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["not_counted"] for row in rows] == ["True"] + ["False"] * 5
    assert main(["key", "create", "k.pem"]) == 0
    plain = qf.release(codes, SCHEMA, PAIRS, epsilon=1, unit=qf.Rows(1), ledger=None)
    plain.save("y.qfr", "k.pem")
    assert main(["export", "y.qfr", "--out", "t", "--force"]) == 0  # an earlier export is replaced
    with open("t/index.csv", newline="") as file:
        assert not [row for row in csv.DictReader(file) if row["file"] == "remark"]


@pytest.mark.parametrize("name", ["table-0002.csv", "index.csv"])
def test_an_export_replaces_no_file_of_others(tmp_path, monkeypatch, capsys, codes, name):
    monkeypatch.chdir(tmp_path)
    qf.release(codes, SCHEMA, PAIRS, epsilon=1, unit=qf.Rows(1), ledger=None).save("x.qfr")
    (tmp_path / name).write_text("mine")
    assert main(["export", "x.qfr", "--out", "."]) == 1
    assert name in capsys.readouterr().err
    assert (tmp_path / name).read_text() == "mine"
    assert sorted(os.listdir()) == sorted([name, "x.qfr"])


def test_odd_names_on_the_whole_way(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    odd = ["'; DROP TABLE x; --", '"q"', "<script>", "new\nline", "é🙂", "noisy_count", "../../etc"]
    schema = qf.Schema({name: ["=1+1", "<b>", 'a,"b"\n'] for name in odd})
    frame = {name: ["=1+1", "<b>", 'a,"b"\n', "=1+1"] for name in odd}
    qf.release(frame, schema, qf.structures.chain(odd), epsilon=100, unit=qf.Rows(1), ledger=None).save("x.qfr")
    assert main(["verify", "x.qfr"]) == 0
    for kind in ("csv", "parquet"):
        assert main(["export", "x.qfr", "--out", f"as {kind}", "--format", kind, "--for-programs"]) == 0
    assert sorted(os.listdir()) == ["as csv", "as parquet", "x.qfr"]
    release = qf.Release.load("x.qfr")
    for number, clique in enumerate(release.tables, 1):
        with open(f"as csv/table-{number:04d}.csv", newline="") as file:
            rows = list(csv.reader(file))
        assert tuple(rows[0][:2]) == clique
        assert [tuple(r[:2]) for r in rows[1:4]] == [("=1+1", x) for x in ("=1+1", "<b>", 'a,"b"\n')]
        assert len(set(rows[0])) == 3


@pytest.mark.parametrize(("extra", "why"), [
    (["--epsilon", "0.1", "--out", "x.qfr"], "say who pays"),
    (["--epsilon", "0.1", "--out", "x.qfr", "--ledger", "budget.db", "--no-ledger"], "say who pays"),
    (["--epsilon", "0.1", "--ledger", "budget.db"], "--out"),
    (["--epsilon", "0.1", "--ledger", "budget.db", "--out", "no/such/x.qfr"], "cannot write"),
    (["--epsilon", "0.1", "--ledger", "budget.db", "--out", "."], "cannot write"),
    (["--epsilon", "0.1", "--ledger", "budget.db", "--out", "x.qfr", "--key", "none.pem"], "none.pem"),
    (["--epsilon", "2", "--ledger", "budget.db", "--out", "x.qfr"], "remains"),
    (["--epsilon", "nan", "--ledger", "budget.db", "--out", "x.qfr"], "epsilon"),
    (["--epsilon", "0.1", "--ledger", "schema.json", "--out", "x.qfr"], "ledger"),
    (["--epsilon", "0.1", "--ledger", "budget.db", "--out", "x.qfr", "--total", "maybe"], "--total"),
])  # fmt: skip
def test_what_goes_wrong_costs_nothing_and_writes_nothing(folder, capsys, extra, why):
    code = {"remains": 3, "--total": 2}.get(why, 1)  # 3 tells a program that the budget is used up, 2 a wrong choice
    assert main([*ASKED, *extra]) == code
    assert why in capsys.readouterr().err
    assert Ledger("budget.db").spent == 0
    assert not os.path.exists("x.qfr")


@pytest.mark.parametrize("out", [
    "data.csv", "schema.json", "budget.db", "curator.pem", "weights.json", "cliques.json", "./data.csv", "link.csv",
    "hard.csv", "link.db", "hard.db", "budget.db-journal", "old.qfr", "notes.txt", "gone.qfr",
])  # fmt: skip
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_out_replaces_nothing_that_it_should_not(folder, capsys, out, force):
    assert main(["key", "create", "curator.pem"]) == 0
    (folder / "weights.json").write_text('[[["a", "b"], 2]]')
    (folder / "cliques.json").write_text('[["a", "b"]]')
    (folder / "notes.txt").write_text("mine")
    for name, suffix in (("data", ".csv"), ("budget", ".db")):
        (folder / f"link{suffix}").symlink_to(name + suffix)
        os.link(name + suffix, f"hard{suffix}")
    (folder / "gone.qfr").symlink_to("nowhere")
    asked = [*ASKED, "--epsilon", "0.25", "--key", "curator.pem", "--weights", "weights.json"]
    asked[asked.index("chain")] = "cliques.json"
    assert main([*asked, "--no-ledger", "--out", "old.qfr"]) == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.exists()}
    code = main([*asked, "--ledger", "budget.db", "--out", out, *force])
    if out == "old.qfr" and force:
        assert code == 0
        return
    assert code == 1
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.exists()} == before
    assert Ledger("budget.db").spent == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_found_out_before_the_charge(folder):
    (folder / "closed").mkdir(mode=0o500)
    assert main([*ASKED, "--epsilon", "0.25", "--ledger", "budget.db", "--out", "closed/x.qfr"]) == 1
    assert Ledger("budget.db").spent == 0


def test_a_name_that_is_too_long_is_found_out_before_the_charge(folder, capsys):
    assert main([*ASKED, "--epsilon", "0.25", "--ledger", "budget.db", "--out", "x" * 300]) == 1
    assert "cannot write" in capsys.readouterr().err
    assert Ledger("budget.db").spent == 0


@pytest.mark.slow
def test_what_no_file_can_hold_is_refused_before_the_charge(ledger):
    from quietfield.files import MOST_VALUES

    with pytest.raises(Error, match="Unicode"):
        qf.Domain({"a\ud800": 2})
    with pytest.raises(Error, match="Unicode"):
        qf.Domain({"a": ["x", "\udfff"]})
    with pytest.raises(Error, match="the most that a domain may have"):
        _ = qf.Schema({"a": MOST_VALUES, "b": 2}).domain
    long = qf.Schema({"a": [f"{i:032000}" for i in range(2200)], "b": 2})  # 70 MB, and a manifest takes 64
    with pytest.raises(Error, match="more than a file may hold"):
        qf.release(np.zeros((1, 2), int), long, [("b",)], epsilon=1, unit=qf.Rows(1), ledger=ledger)
    frame = {"a": [0], "b": [0], "c": [0], "w\ud800": [1]}
    book = Ledger.create(ledger.path.with_name("p.db"), epsilon=2, unit=qf.Person("w", rows=1))
    with pytest.raises(Error, match="JSON"):
        qf.release(frame, SCHEMA, PAIRS, epsilon=1, unit=qf.Person("w\ud800", rows=1), ledger=book)
    with pytest.raises(Error, match="too many digits"):
        qf.release(frame, SCHEMA, PAIRS, epsilon=Fraction(10**500 + 1, 10**500), unit=qf.Rows(1), ledger=ledger)
    assert (ledger.spent, book.spent) == (0, 0)


@pytest.mark.parametrize("ones", [64, 65, 70])
def test_a_table_of_too_many_attributes_is_refused_before_the_charge(ledger, ones):
    """An array of numpy has at most 64 axes, whatever their lengths."""
    schema = qf.Schema({f"a{i}": [0] for i in range(ones)})
    asked = {"epsilon": 1, "unit": qf.Rows(1), "ledger": ledger}
    for source in (np.zeros((3, ones), int), {name: [0, 0, 0] for name in schema}):
        if ones > 64:
            with pytest.raises(TooLarge, match=f"{ones} attributes, more than the 64"):
                qf.release(source, schema, [tuple(schema)], **asked)
            assert ledger.spent == 0
        else:
            assert qf.release(source, schema, [tuple(schema)], **asked).parts[0].values.shape == (1,) * 64


def test_many_attributes_of_one_value_are_counted(ledger):
    """They fit into one covering table by their cells, and not by their axes."""
    schema = qf.Schema({f"a{i}": [0] if i < 70 else [0, 1] for i in range(75)})
    out = qf.release(
        np.zeros((3, 75), int), schema, structures.chain(schema.domain), epsilon=1, unit=qf.Rows(1), ledger=ledger
    )
    assert len(out.parts) == 74


def test_more_edges_than_an_expression_of_duckdb_is_deep(tmp_path):
    schema = qf.Schema({f"a{i}": [0, 1] for i in range(47)})
    unit = qf.Person("u", normalise=True)
    book = Ledger.create(tmp_path / "p.db", epsilon=2, unit=unit)
    data = {**{name: [0, 1] for name in schema}, "u": ["x", "y"]}
    out = qf.release(data, schema, structures.complete(schema.domain), epsilon=2, unit=unit, ledger=book)
    assert len(out.parts) == 47 * 46 // 2


def test_more_attributes_than_a_database_nests(tmp_path):
    ibis = pytest.importorskip("ibis")
    arrow = pytest.importorskip("pyarrow")
    schema = qf.Schema({f"a{i}": [0, 1] for i in range(300)})
    unit = qf.Person("u", rows=1)
    book = Ledger.create(tmp_path / "p.db", epsilon=2, unit=unit)
    table = ibis.duckdb.connect().create_table("t", arrow.table({**{name: [0, 1] for name in schema}, "u": ["x", "y"]}))
    out = qf.release(table, schema, [(name,) for name in schema], epsilon=2, unit=unit, ledger=book)
    assert len(out.parts) == 300


def test_too_many_cut_points_and_too_little_memory_are_refused_before_the_charge(ledger, monkeypatch):
    asked = {"epsilon": 1, "unit": qf.Rows(1), "ledger": ledger}
    with pytest.raises(TooLarge, match="intervals"):
        qf.release({"a": [0.5]}, qf.Schema({"a": qf.Cuts(range(40_000))}), [("a",)], **asked)
    monkeypatch.setattr("quietfield.curator.release.available_memory", lambda: 10**6)
    large = qf.Schema(dict.fromkeys("abcdefghijklmnopqrst", 2))
    with pytest.raises(TooLarge, match="is free here"):
        qf.release(np.zeros((1, 20), int), large, [tuple(large)], **asked)
    assert ledger.spent == 0


def test_nothing_that_a_foreign_error_carries_passes_the_border(codes, ledger, monkeypatch):
    """Steps hand on what they have published in an attribute of what ended them; others may use its name."""

    class Foreign(Exception):
        release = "the record of person 17"

    def fail(*_):
        raise Foreign

    monkeypatch.setattr(mechanism, "draw_noise", fail)
    with pytest.raises(Error, match=r"Foreign.*the charge stands") as caught:
        qf.release(codes, SCHEMA, PAIRS, epsilon=0.1, unit=qf.Rows(1), ledger=ledger)
    assert "17" not in str(vars(caught.value))


def test_a_log_is_released_with_its_own_schema(tmp_path):
    log = {"u": ["a", "a"], "t": ["2024-01-01 00:00:00", "2024-01-01 00:10:00"], "p": ["x", "y"]}
    how = qf.Sequences("u", "t", "p", labels=["x", "y"], segment="20min")
    book = Ledger.create(tmp_path / "p.db", epsilon=2, unit=how.unit)
    for other in (qf.Schema({"q": [0, 1], "r": [0, 1]}), qf.Schema({name: ["x", "absent"] for name in how.schema})):
        with pytest.raises(Error, match=r"sequences\.schema"):
            qf.release(how.log(log), other, [tuple(other)], epsilon=1, unit=how.unit, ledger=book)
    assert book.spent == 0


def test_what_another_library_says_after_the_charge_is_withheld(codes, ledger, monkeypatch):
    def fails(*_, **__):
        raise ValueError("could not convert 'HIV+'")

    monkeypatch.setattr("quietfield.curator.counting.count", fails)
    with pytest.raises(Error, match=r"ValueError.*the charge stands") as caught:
        qf.release(codes, SCHEMA, PAIRS, epsilon=0.5, unit=qf.Rows(1), ledger=ledger)
    assert "HIV" not in str(caught.value)
    assert caught.value.__context__ is None


def test_verify_names_the_neighbours_and_paper_mode_and_escapes_notes(folder, capsys):
    from dataclasses import replace

    from quietfield.releases.parts import PAPER_NOTE

    codes = np.zeros((5, 3), int)
    for neighbours in ("add_remove", "paper"):
        made = qf.release(codes, SCHEMA, PAIRS, epsilon=1, unit=qf.Rows(1), ledger=None, neighbours=neighbours)
        replace(made, notes=(*made.notes, "\x1b[2Jall is well\nsigned by \u202enobody")).save(f"{neighbours}.qfr")
        capsys.readouterr()
        assert main(["verify", f"{neighbours}.qfr"]) == 0
        shown = capsys.readouterr().out.splitlines()
        assert any(line.startswith(f"neighbours: {neighbours} ") for line in shown)
        assert (PAPER_NOTE in shown) == (neighbours == "paper")
        assert shown[-1] == "note: \\x1b[2Jall is well\\nsigned by \\u202enobody"
        with pytest.raises(FileError, match="disagree"):
            replace(made, notes=() if neighbours == "paper" else (PAPER_NOTE,))


def test_verify_refuses_understated_sensitivity(folder, capsys):
    """A manifest that is consistent in itself but states half the sensitivity and half the noise."""
    from dataclasses import replace

    assert main([*ASKED, "--epsilon", "1", "--no-ledger", "--out", "x.qfr", "--total", "no"]) == 0
    release = qf.Release.load("x.qfr")
    half = [
        replace(p, l1=p.l1 / 2, l2_squared=p.l2_squared / 4, noise=qf.Laplace(p.noise.exact / 2, p.noise.step))
        for p in release.parts
    ]
    claim = replace(release.promise, l1=release.promise.l1 / 2, l2_squared=release.promise.l2_squared / 4)
    replace(release, parts=tuple(half), promise=claim).save("y.qfr")
    with pytest.raises(FileError, match="sensitivity stated is not"):
        qf.Release.load("y.qfr").check_promise()
    assert main(["verify", "x.qfr"]) == 0
    assert main(["verify", "y.qfr"]) == 1
    assert "the sensitivity stated is not that" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "unit"), [
    ("rows:2", qf.Rows(2)), ("rows", qf.Rows(1)), ("person:who:3", qf.Person("who", rows=3)),
    ("person:who+day:1", qf.Person(("who", "day"), rows=1)), ("person:who:normalise", qf.Person("who", normalise=True)),
    ('{"kind": "person", "column": "a:b+c", "rows": 2}', qf.Person("a:b+c", rows=2)),
])  # fmt: skip
def test_units_as_text(text, unit):
    from quietfield.cli import arguments

    assert arguments.unit(text) == unit


@pytest.mark.parametrize("text", ["", "rows:0", "rows:x", "rows:-1", "person", "person:who", "{", "{}", "week:1"])
def test_bad_units_as_text(text):
    from quietfield.cli import arguments

    with pytest.raises(Error):
        arguments.unit(text)


def test_structures_as_text(tmp_path):
    from quietfield.cli import arguments

    domain = SCHEMA.domain
    assert arguments.structure("chain:2", domain) == qf.structures.chain(domain, 2)
    assert arguments.structure("star:b", domain) == qf.structures.star(domain, "b")
    assert arguments.structure("complete", domain) == qf.structures.complete(domain)
    (tmp_path / "s.json").write_text('{"cliques": [["a"], ["c"]], "ties": [[["a"], ["c"]]]}')
    assert arguments.structure(str(tmp_path / "s.json"), domain).ties == (((("a",), ("c",))),)
    for content in ('{"x": 1}', "[3]", "3", '[["a", "z"]]'):
        (tmp_path / "s.json").write_text(content)
        with pytest.raises(Error):
            arguments.structure(str(tmp_path / "s.json"), domain)
    with pytest.raises(Error, match="not known"):
        arguments.structure("nothing", domain)


def test_a_dry_run_finds_out_whether_the_data_are_there_and_looks_at_nothing(folder, capsys, monkeypatch):
    dry = ["--schema", "schema.json", "--structure", "chain", "--unit", "rows:1", "--epsilon", "0.1", "--dry-run"]
    dry += ["--ledger", "budget.db"]
    for gone in ("gone.csv", "gone.parquet", "gone.sav", "part-*.csv"):
        assert main(["release", gone, *dry]) == 1
        assert f"there is no file {gone!r}" in capsys.readouterr().err
    os.chmod("data.csv", 0)
    monkeypatch.setattr("pyarrow.input_stream", lambda *_, **__: pytest.fail("it was opened"))
    assert main(["release", "data.csv", *dry]) == 0
    assert "the data are there and were not looked at" in capsys.readouterr().out
    assert main(["release", "data.*", *dry, "--delimiter", ";"]) == 0
    assert main(["release", "data.csv", *dry, "--out", "schema.json"]) == 1
    assert "which this command reads" in capsys.readouterr().err
    assert Ledger("budget.db").spent == 0


def test_data_that_are_not_there_or_lack_a_column_cost_nothing(tmp_path, ledger):
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds

    visits = qf.Sequences("user", "seen", "place", labels=["hall"], segment="1h")
    person = Ledger.create(tmp_path / "p.db", epsilon=1, unit=visits.unit)
    (tmp_path / "log.csv").write_text("user,place\n1,hall\n")
    lacking = {"user": ["1"], "place": ["hall"]}
    affirmed = qf.CsvFile(tmp_path / "log.csv", one_line_per_record=True)
    for log in (tmp_path / "gone.csv", affirmed, lacking, pd.DataFrame(lacking)):
        with pytest.raises(Error, match=r"no file|no column 'seen'"):
            qf.release(visits.log(log), visits.schema, visits.structure, epsilon=1, unit=visits.unit, ledger=person)
    with pytest.raises(Error, match="these sequences are made for"):
        qf.release(visits.log(lacking), visits.schema, visits.structure, epsilon=1, unit=qf.Rows(1), ledger=ledger)
    assert person.spent == 0
    frame = {"a": [0], "b": [1], "C": [1]}
    in_duckdb = duckdb.connect().sql("SELECT 0 AS a, 1 AS b, 1 AS C")
    for source in (frame, pd.DataFrame(frame), pl.DataFrame(frame), pa.table(frame), in_duckdb):
        with pytest.raises(Error, match="no column 'c'"):
            qf.release(source, SCHEMA, PAIRS, epsilon=0.5, unit=qf.Rows(1), ledger=ledger)
        with pytest.raises(Error, match="no column 'c', 'who'"):
            qf.release(source, SCHEMA, PAIRS, epsilon=0.5, unit=qf.Person("who", rows=1), ledger=ledger)
    (tmp_path / "d.csv").write_text("a,b,c\n0,1,1\n")
    guessed = ds.dataset(tmp_path / "d.csv", format="csv")
    for source, why in ((None, "a NoneType"), ([frame], "a list"), (iter([]), "list_iterator"), (guessed, "guessed")):
        with pytest.raises(Error, match=why):
            qf.release(source, SCHEMA, PAIRS, epsilon=0.5, unit=qf.Rows(1), ledger=ledger)
    assert ledger.spent == 0


def test_python_and_the_command_line_warn_of_the_same_once(folder, codes, capsys):
    with pytest.warns(UserWarning, match="no clique holds") as found:
        qf.release(codes, SCHEMA, [("a", "b")], epsilon=30, unit=qf.Rows(1), ledger=None)
    said = [str(warning.message) for warning in found]
    assert len(said) == 2
    assert all(warning.filename == __file__ for warning in found)
    asked = ["release", "data.csv", "--schema", "schema.json", "--structure", '[["a", "b"]]', "--unit", "rows:1"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main([*asked, "--epsilon", "30", "--no-ledger", "--out", "x.qfr"]) == 0
    assert capsys.readouterr().err.splitlines() == [f"Warning: {text}" for text in said]
    assert "no clique holds 'c'" in said[1]


def test_preparing_reads_no_record():
    prepared = publish.plan_release(SCHEMA, PAIRS, epsilon=1, unit=qf.Rows(1))
    assert prepared.noise.epsilon == 1


# What is paid for is not lost


def during_the_count(monkeypatch, happens):
    """Let something happen after the charge and before the release is written."""
    from quietfield.curator import counting

    real = counting.count

    def count(*arguments, **settings):
        found = real(*arguments, **settings)
        happens()
        return found

    monkeypatch.setattr(counting, "count", count)


def kept(said, spent=Fraction(1, 4)):
    """The release that an error says it has kept: it is whole, and the charge is its own."""
    assert said.startswith("Error: ")
    assert "the charge stands, and a second run would be charged again" in said
    assert "choose another" not in said
    path = said.partition("it is kept in ")[2].partition(":")[0]
    release = qf.Release.load(path)
    book = Ledger("budget.db")
    assert (book.spent, book.missing([release]), path.endswith(f"{release.id}.qfr")) == (spent, (), True)
    return path


PAYING = [*ASKED, "--epsilon", "0.25", "--ledger", "budget.db", "--out", "x.qfr"]


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_file_that_appears_at_out_during_the_count_stays_and_the_release_is_kept(folder, monkeypatch, capsys, force):
    during_the_count(monkeypatch, lambda: (folder / "x.qfr").write_text("mine"))
    assert main([*PAYING, *force]) == 1
    assert kept(capsys.readouterr().err).startswith("x.qfr.")
    assert (folder / "x.qfr").read_text() == "mine"
    assert sorted(path.name for path in folder.glob(".*")) == []


def test_two_runs_with_one_out_keep_both_releases(folder, monkeypatch, capsys):
    first = qf.release(np.zeros((5, 3), int), SCHEMA, PAIRS, epsilon=1, unit=qf.Rows(1), ledger=None)
    during_the_count(monkeypatch, lambda: first.save("x.qfr"))
    assert main(PAYING) == 1
    path = kept(capsys.readouterr().err)
    assert qf.Release.load("x.qfr").id == first.id != qf.Release.load(path).id
    assert main([*PAYING, "--force"]) == 0  # whoever says it has it replaced
    assert qf.Release.load("x.qfr").id != first.id


def test_a_folder_that_vanishes_leaves_the_release_here(folder, monkeypatch, capsys):
    (folder / "out").mkdir()
    during_the_count(monkeypatch, (folder / "out").rmdir)
    assert main([*PAYING[:-1], "out/x.qfr", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    (path,) = folder.glob("x.qfr.*.qfr")
    assert path.name in json.dumps(said)
    assert not Ledger("budget.db").missing([qf.Release.load(path)])


def test_data_that_move_after_the_count_do_not_matter(folder, monkeypatch):
    during_the_count(monkeypatch, lambda: os.rename("data.csv", "elsewhere.csv"))
    assert main(PAYING) == 0
    assert any("one row is one line" in note for note in qf.Release.load("x.qfr").notes)


@pytest.mark.parametrize("taken", [False, True])
def test_where_there_are_no_links_a_name_is_claimed(folder, monkeypatch, capsys, taken):
    def no_links(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    if taken:
        during_the_count(monkeypatch, lambda: (folder / "x.qfr").write_text("mine"))
    assert main(PAYING) == (1 if taken else 0)
    if taken:
        assert (folder / "x.qfr").read_text() == "mine"
        kept(capsys.readouterr().err)
    else:
        assert qf.Release.load("x.qfr").check_promise()


def test_a_dry_run_refuses_what_the_release_would(folder, capsys):
    closed = qf.Schema({name: qf.Cuts([1], null="other", unknown="other") for name in "abc"})
    closed.save("schema.json")
    for more in (["--dry-run"], ["--out", "x.qfr"]):
        assert main([*ASKED, "--epsilon", "1", "--no-ledger", "--neighbours", "replace", *more]) == 1
        assert "give the records as Parquet" in capsys.readouterr().err
