"""The ledger: exact sums, never more than its total, never changed, never fooled by a damaged file."""

import json
import multiprocessing
import os
import shutil
import sqlite3
import threading
from contextlib import closing
from dataclasses import asdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

import quietfield as qf
from quietfield.cli import main
from quietfield.curator.ledger import Ledger
from quietfield.curator.ledger_words import SUBJECT, describe_ledger, describe_remaining
from quietfield.errors import BudgetExceeded, Error, FileError
from quietfield.files import remove_temporary
from quietfield.privacy import accounting
from quietfield.privacy.promises import describe_promise
from quietfield.privacy.units import Person, Rows

ROW = {"unit": Rows(1), "neighbours": "add_remove"}


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "budget.db", epsilon=1, unit=Rows(1), name="visits")


def test_ten_tenths_are_one(ledger):
    for i in range(10):
        ledger.charge(f"r{i}", epsilon=0.1, **ROW)
    assert ledger.spent == 1
    assert ledger.remaining == 0
    with pytest.raises(BudgetExceeded, match=r"1e-09 is asked for, 1 of 1 is spent and 0 remains"):
        ledger.charge("more", epsilon=1e-9, **ROW)
    assert len(ledger.charges) == 10


@settings(max_examples=25)
@given(
    st.lists(st.fractions(Fraction(1, 1000), 2, max_denominator=1000), min_size=1, max_size=12),
    st.fractions(Fraction(1, 10), 3),
)
def test_pure_sums_are_exact_and_never_exceed(tmp_path_factory, costs, total):
    book = Ledger.create(tmp_path_factory.mktemp("l") / "b.db", epsilon=total, unit=Rows(1))
    spent = Fraction(0)
    for i, cost in enumerate(costs):
        if spent + cost <= total:
            book.charge(str(i), epsilon=cost, **ROW)
            spent += cost
        else:
            with pytest.raises(BudgetExceeded):
                book.charge(str(i), epsilon=cost, **ROW)
        assert Ledger(book.path).spent == spent <= total


def test_what_was_spent_can_be_printed_however_epsilons_were_written(tmp_path, capsys):
    """Fourteen charges of 396 digits each made a sum that Python refuses to print."""
    book = Ledger.create(tmp_path / "b.db", epsilon=4, unit=Rows(1))
    for i in range(14):
        charge = book.charge(f"r{i}", epsilon=f"1/{10**395 + 2 * i + 1}", **ROW)
        assert charge.cost == Fraction(1, 10**30) > charge.epsilon
    assert book.charge("third", epsilon="1/3", **ROW).cost == Fraction(1, 3)
    assert len(str(book.spent)) < 100
    assert main(["ledger", "show", str(book.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["spent"] == str(book.spent)


def test_ledgers_that_were_charged_to_hundreds_of_digits_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("quietfield.curator.ledger._round_cost", lambda cost: cost)
    book = Ledger.create(tmp_path / "b.db", epsilon=4, unit=Rows(1))
    costs = [Fraction(1, 10**395 + 2 * i + 1) for i in range(14)]
    for i, cost in enumerate(costs):
        book.charge(f"r{i}", epsilon=cost, **ROW)
    assert sum(costs) <= Ledger(book.path).spent < sum(costs) * (1 + Fraction(1, 10**200))
    assert len(str(book.spent)) + len(str(book.remaining)) < 6000
    with pytest.raises(BudgetExceeded):
        book.charge("all", epsilon=4, **ROW)


@pytest.mark.parametrize("time", ["2030-13-01T00:00:00Z", "2030-02-30T00:00:00Z", "2030-01-01T24:00:00Z"])
def test_the_time_of_a_charge_exists(ledger, time):
    with pytest.raises(Error, match="the time of a charge"):
        ledger.charge("r", epsilon="0.1", time=time, **ROW)


def test_units_that_do_not_match_are_told_in_words(tmp_path, ledger):
    with pytest.raises(Error, match="this ledger protects any one row, and the release any one 'user'; costs"):
        ledger.charge("r", epsilon="0.1", unit=qf.Person("user", rows=2), neighbours="add_remove")
    pairs = Ledger.create(tmp_path / "p.db", epsilon=1, unit=qf.Person(("user", "day"), rows=1))
    pairs.charge("r", epsilon="0.1", unit=qf.Person(("day", "user"), rows=2), neighbours="add_remove")
    with pytest.raises(Error, match="any one 'user'"):
        pairs.charge("s", epsilon="0.1", unit=qf.Person("user", rows=2), neighbours="add_remove")


@settings(max_examples=15)
@given(st.lists(st.tuples(st.booleans(), st.fractions(Fraction(1, 100), 1)), min_size=1, max_size=8))
def test_zcdp_sums_are_outward_and_never_exceed(tmp_path_factory, asked):
    book = Ledger.create(
        tmp_path_factory.mktemp("l") / "b.db", epsilon=1, delta="1e-6", unit=Rows(1), accounting_by="zcdp"
    )
    true = Fraction(0)
    for i, (pure, amount) in enumerate(asked):
        rho = amount**2 / 2 if pure else amount / 30
        extra = {} if pure else {"delta": "1e-9", "rho": rho}
        try:
            book.charge(str(i), epsilon=amount, **extra, **ROW)
            true += rho
        except BudgetExceeded:
            assert true + rho > book.total * (1 - Fraction(1, 10**20))
    assert 0 <= book.spent - true < Fraction(1, 10**28)
    assert book.spent <= book.total
    assert book.spent == 0 or accounting.zcdp_epsilon(book.spent, Fraction("1e-6")) <= 1


@pytest.mark.parametrize("total", [0, -1, float("nan"), float("inf"), None])
def test_bad_totals_are_refused(tmp_path, total):
    with pytest.raises(Error, match="epsilon"):
        Ledger.create(tmp_path / "b.db", epsilon=total, unit=Rows(1))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cost", [0, -1, float("nan"), float("inf")])
def test_bad_costs_are_refused(ledger, cost):
    with pytest.raises(Error, match="epsilon"):
        ledger.charge("r", epsilon=cost, **ROW)
    assert ledger.spent == 0


@pytest.mark.parametrize("other", [
    {"unit": Rows(2)}, {"unit": Person("user", rows=1)}, {"neighbours": "replace"}, {"neighbours": "paper"},
    {"delta": "1e-6", "rho": Fraction(1, 100)},
])  # fmt: skip
def test_what_does_not_match_is_refused(ledger, other):
    with pytest.raises(Error, match="this ledger"):
        ledger.charge("r", epsilon=0.1, **{**ROW, **other})
    assert ledger.spent == 0


@pytest.mark.parametrize("unit", [None, 3, "rows", {"kind": "week"}, {}])
def test_bad_units_are_refused(tmp_path, ledger, unit):
    with pytest.raises(Error, match="unit"):
        Ledger.create(tmp_path / "c.db", epsilon=1, unit=unit)
    with pytest.raises(Error, match=r"unit|ledger protects"):
        ledger.charge("r", epsilon=0.1, unit=unit, neighbours="add_remove")
    assert ledger.spent == 0


def test_how_many_rows_of_a_person_count_is_not_part_of_who_is_protected(tmp_path):
    book = Ledger.create(tmp_path / "b.db", epsilon=1, unit=Person("user", rows=3))
    book.charge("r", epsilon=0.5, unit=Person("user", normalise=True), neighbours="add_remove")
    with pytest.raises(Error, match="this ledger protects"):
        book.charge("s", epsilon=0.1, unit=Person("household", rows=3), neighbours="add_remove")


def test_one_release_is_charged_once(ledger):
    ledger.charge("r", epsilon=0.1, **ROW)
    with pytest.raises(Error, match="already charged"):
        ledger.charge("r", epsilon=0.1, **ROW)


def test_it_says_what_it_means(tmp_path, ledger):
    assert "epsilon 0 of 1 is spent, 1 remains" in describe_ledger(ledger)
    assert "second ledger" in describe_ledger(ledger)
    days = Ledger.create(tmp_path / "days.db", epsilon=1, unit=Person(("user", "day"), rows=1))
    assert "with 21 of them, up to epsilon 21 in place of 1" in describe_ledger(days)
    rho = Ledger.create(tmp_path / "rho.db", rho="0.05", delta="1e-6", unit=Rows(1), accounting_by="zcdp")
    rho.charge("r", epsilon="0.1", **ROW)
    assert rho.spent == Fraction(1, 200)
    assert "at delta 1e-06" in describe_ledger(rho)


@pytest.mark.parametrize(
    ("total", "counts_by"),
    [({"epsilon": 1}, "pure"), ({"epsilon": 1, "delta": 1e-6}, "zcdp"), ({"rho": 1, "delta": 1e-6}, "zcdp")],
)
def test_a_delta_implies_how_it_counts(tmp_path, total, counts_by):
    assert Ledger.create(tmp_path / "b.db", **total, unit=Rows(1)).accounting == counts_by
    if counts_by == "zcdp":
        with pytest.raises(Error, match="neither delta nor rho"):
            Ledger.create(tmp_path / "pure.db", **total, unit=Rows(1), accounting_by="pure")


@pytest.mark.parametrize("statement", [
    "UPDATE charges SET cost = '1/1000'", "DELETE FROM charges", "UPDATE account SET total = '100'",
    "DELETE FROM account",
    "INSERT INTO account SELECT 1, '', '', '', unit, '', neighbours, accounting, epsilon, delta, '9', '', ''"
    " FROM account",
    "INSERT INTO charges VALUES (7, 'x', 't', '1', NULL, '1', '', '')",
    "REPLACE INTO charges VALUES (1, 'x', 't', '1', NULL, '1/1000', '', '')",
])  # fmt: skip
def test_rows_can_only_be_added(ledger, statement):
    ledger.charge("r", epsilon=0.5, **ROW)
    with closing(sqlite3.connect(ledger.path)) as connection, connection, pytest.raises(sqlite3.DatabaseError):
        connection.execute(statement)
    assert ledger.spent == Fraction(1, 2)


@pytest.mark.parametrize("statement", [
    "UPDATE charges SET cost = '1/1000' WHERE number = 1", "DELETE FROM charges WHERE number = 1",
    "DELETE FROM account",
    "UPDATE account SET total = '100'", "UPDATE charges SET cost = '-1'", "UPDATE charges SET cost = 'x/0'",
    "DROP TABLE charges", "UPDATE account SET unit = 'not json'", "PRAGMA user_version = 9",
    "PRAGMA application_id = 1",
])  # fmt: skip
def test_tampering_past_the_triggers_is_noticed_and_nothing_may_be_charged(ledger, statement):
    ledger.charge("r", epsilon=0.25, **ROW)
    ledger.charge("s", epsilon=0.25, **ROW)
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(statement)
    with pytest.raises(FileError):
        Ledger(ledger.path).charge("t", epsilon=0.1, **ROW)


@pytest.mark.parametrize("statement", [
    "DROP TRIGGER charges_kept", "DROP TRIGGER account_fixed", "DROP TRIGGER charges_in_order",
    "CREATE TRIGGER more AFTER INSERT ON charges BEGIN SELECT 1; END", "CREATE VIEW v AS SELECT 1",
])  # fmt: skip
def test_a_ledger_without_its_triggers_is_refused(ledger, statement):
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute(statement)
    with pytest.raises(FileError, match="altered"):
        Ledger(ledger.path)
    with pytest.raises(FileError, match="altered"):
        ledger.charge("r", epsilon=0.1, **ROW)  # opened before, and asked again at each charge


def _altered(path, statement):
    """An edit that puts the triggers back afterwards, as one who knows the format would make it."""
    with closing(sqlite3.connect(path)) as connection, connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(statement)
        for _, sql in triggers:
            connection.execute(sql)


def test_a_changed_account_is_noticed_before_the_first_charge(ledger):
    _altered(ledger.path, "UPDATE account SET total = '100'")
    with pytest.raises(FileError, match="altered"):
        Ledger(ledger.path)


def test_a_release_whose_charge_was_taken_out_is_found(tmp_path, ledger, capsys):
    """The file alone cannot show that its last line is gone; the releases that it paid for can."""
    schema, data = qf.Schema({"a": [0, 1]}), np.array([[0], [1]])
    paths = [tmp_path / f"{name}.qfr" for name in ("one", "two", "none", "other")]
    other = Ledger.create(tmp_path / "other.db", epsilon=1, unit=Rows(1))
    for path, book in zip(paths, (ledger, ledger, None, other), strict=True):
        qf.release(data, schema, [("a",)], epsilon="1/4", unit=Rows(1), ledger=book).save(path)
    shown = ["ledger", "show", str(ledger.path), "--against", *map(str, paths[:2])]
    assert main(shown) == 0
    assert main([*shown, *map(str, paths[2:])]) == 1
    out = capsys.readouterr().out
    for text in ("one.qfr: charge 1", "two.qfr: charge 2", "none.qfr: charged to no", "other.qfr: charged to another"):
        assert text in out
    whole = ledger.path.read_bytes()
    _altered(ledger.path, "DELETE FROM charges WHERE number = 2")
    assert Ledger(ledger.path).spent == Fraction(1, 4)
    assert main(shown) == 6
    assert "two.qfr: ITS CHARGE IS MISSING" in capsys.readouterr().out
    assert main([*shown, "--json"]) == 6
    assert "MISSING" in json.loads(capsys.readouterr().out)["against"][str(paths[1])]
    Ledger(ledger.path).charge("another", epsilon="1/4", **ROW)  # its place is taken: still found
    assert [r.id for r in Ledger(ledger.path).missing(map(qf.Release.load, paths))] == [qf.Release.load(paths[1]).id]
    ledger.path.write_bytes(whole)
    assert main(shown) == 0
    assert main(["ledger", "show", str(ledger.path), str(paths[0])]) == 1


def test_a_ledger_says_who_is_protected_without_a_number_of_rows(tmp_path):
    assert main(["ledger", "create", str(tmp_path / "p.db"), "--epsilon", "1", "--unit", "person:user"]) == 0
    assert Ledger(tmp_path / "p.db").protects == "any one 'user'"


def test_missing_foreign_and_damaged_files_are_refused(tmp_path, ledger):
    with pytest.raises(FileError, match="no ledger"):
        Ledger(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()
    for name, content in [("empty", b""), ("text", b"hello" * 1000), ("other", None)]:
        path = tmp_path / name
        if content is None:
            with closing(sqlite3.connect(path)) as other, other:
                other.execute("CREATE TABLE charges (a)")
        else:
            path.write_bytes(content)
        with pytest.raises(FileError, match=r"is not a ledger\. .*should be a ledger, restore it from a copy"):
            Ledger(path)
    whole = ledger.path.read_bytes()
    for length in range(0, len(whole), 257):
        path = tmp_path / "cut"
        path.write_bytes(whole[:length])
        with pytest.raises(FileError):
            Ledger(path)


def test_what_never_was_a_ledger_is_told_calmly(tmp_path):
    import quietfield as qf

    domain = qf.Domain({"a": 2})
    qf.Release.from_tables(domain, {("a",): [1.0, 2.0]}, noise=qf.Laplace(1.0)).save(tmp_path / "r2.qfr")
    (tmp_path / "people.csv").write_text("age,sex\n3,f\n")
    for name, what in (("r2.qfr", "is not a ledger but a release."), ("people.csv", "is not a ledger. ")):
        with pytest.raises(FileError) as caught:
            Ledger(tmp_path / name)
        said = str(caught.value)
        assert f"{name} {what}" in said
        assert "quietfield ledger create" in said
        assert "damaged" not in said
        assert "altered" not in said


def test_what_was_a_ledger_is_told_as_damaged_and_nobody_is_told_to_make_another(tmp_path, ledger):
    whole = ledger.path.read_bytes()
    path = tmp_path / "hurt.db"
    for hurt in (
        b"\0" * 100 + whole[100:],  # the beginning is lost
        b"x" * 16 + whole[16:],
        b"x" * 100 + whole[100:],
        b"\0" * len(whole),
        whole[: len(whole) // 2],
        whole[:68] + b"\0\0\0\0" + whole[72:],  # all but its mark
        whole[:4096] + b"\xff" * (len(whole) - 4096),
    ):
        path.write_bytes(hurt)
        with pytest.raises(FileError) as caught:
            Ledger(path)
        said = str(caught.value)
        assert "damaged or was altered" in said
        assert "count what was released since as spent" in said
        assert "ledger create" not in said


def test_flipped_bytes_never_give_more_budget(tmp_path, ledger):
    for i in range(5):
        ledger.charge(str(i), epsilon="0.15", **ROW)
    whole = ledger.path.read_bytes()
    path = tmp_path / "flipped.db"
    refused = 0
    for place in range(0, len(whole), 61):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x11]) + whole[place + 1 :])
        try:
            found = Ledger(path)
            assert (found.spent, found.total) == (Fraction(3, 4), 1)
        except FileError:
            refused += 1
    assert refused > 0


def test_an_existing_file_is_never_overwritten(tmp_path, ledger):
    with pytest.raises(FileError, match="exists"):
        Ledger.create(ledger.path, epsilon=100, unit=Rows(1))
    assert ledger.total == 1
    assert [p.name for p in tmp_path.iterdir()] == ["budget.db"]


def test_a_process_that_ends_at_once_leaves_nothing_of_a_ledger(tmp_path, monkeypatch):
    seen = []

    class Stopped(sqlite3.Connection):
        def execute(self, sql, *values):
            if sql == "COMMIT":
                seen.append(os.listdir(tmp_path))
                remove_temporary()
                seen.append(os.listdir(tmp_path))
                raise sqlite3.OperationalError("stopped")
            return super().execute(sql, *values)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *path, **options: connect(*path, **options, factory=Stopped))
    with pytest.raises(FileError, match="stopped"):
        Ledger.create(tmp_path / "b.db", epsilon=1, unit=Rows(1))
    assert [len(names) for names in seen] == [1, 0]


def test_a_long_name_in_letters_of_several_bytes(tmp_path):
    path = tmp_path / f"{'年' * 78}.db"
    assert Ledger.create(path, epsilon=1, unit=Rows(1)).charge("r", epsilon=1, **ROW).number == 1
    assert os.listdir(tmp_path) == [path.name]


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path):
    with pytest.raises(FileError, match="cannot write"):
        Ledger.create(tmp_path / "no" / "such" / "b.db", epsilon=1, unit=Rows(1))


def test_odd_names_do_no_harm(tmp_path):
    odd = "'; DROP TABLE charges; --\n\"<b>\x00é🙂"
    book = Ledger.create(tmp_path / "a'b;?#%20 é.db", epsilon=1, unit=Person(odd.replace("\x00", ""), rows=1), name=odd)
    book.charge(odd, epsilon=0.5, unit=Person(odd.replace("\x00", ""), rows=2), neighbours="add_remove", what=odd)
    again = Ledger(book.path)
    assert (again.name, again.charges[0].release, again.spent) == (odd, odd, Fraction(1, 2))


def _spend(path, worker, results):
    book, done = Ledger(path), 0
    for i in range(30):
        try:
            book.charge(f"{worker}-{i}", epsilon="0.03", **ROW)
            done += 1
        except BudgetExceeded:
            break
    results.put(done)


def test_concurrent_processes_never_overspend(ledger):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=_spend, args=(os.fspath(ledger.path), w, results)) for w in range(3)]
    for worker in workers:
        worker.start()
    done = sum(results.get(timeout=600) for _ in workers)
    for worker in workers:
        worker.join()
    assert done == 33  # 33 times 0.03 fits in 1, 34 times does not
    assert ledger.spent == Fraction(99, 100)


def test_a_locked_ledger_is_a_clear_error(ledger, monkeypatch):
    monkeypatch.setattr("quietfield.curator.ledger_file.WAIT_SECONDS", 0.1)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as other, other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(FileError, match="in use"):
            ledger.charge("r", epsilon=0.1, **ROW)
        other.execute("ROLLBACK")
    ledger.charge("r", epsilon=0.1, **ROW)


def test_it_cannot_know_of_a_copy_that_was_put_back(tmp_path, ledger):
    """What the description admits: a restored copy forgets. The test keeps the admission honest."""
    shutil.copy(ledger.path, tmp_path / "copy.db")
    ledger.charge("r", epsilon=1, **ROW)
    shutil.copy(tmp_path / "copy.db", ledger.path)
    assert Ledger(ledger.path).spent == 0
    assert "copy of this one that was put back" in describe_ledger(ledger)


#: What people and programs may pass by mistake, beside what is right.
ODD = st.sampled_from(
    ["", "r", 5, 0, -1, 0.5, True, None, b"x", [], {}, "\ud800", "a\0b", "1e-6", "x" * 2000, "2030-01-31T12:00:00Z"]
) | st.fractions(-1, 2)


@settings(max_examples=150)
@given(
    st.sampled_from(
        [
            {"epsilon": Fraction(1, 10)},
            {"epsilon": 1, "delta": "1e-6", "rho": Fraction(1, 100), "what": "", "time": "2030-01-31T12:00:00Z"},
        ]
    ),
    st.dictionaries(
        st.sampled_from(["release", "epsilon", "delta", "rho", "unit", "neighbours", "what", "time"]), ODD, max_size=2
    ),
)
def test_whatever_is_charged_the_ledger_can_be_read(tmp_path_factory, right, wrong):
    path = tmp_path_factory.mktemp("l") / "b.db"
    book = Ledger.create(path, epsilon=1, delta="1e-6", unit=Rows(1), accounting_by="zcdp")
    try:
        charge = book.charge(**{"release": "r", **ROW, **right, **wrong})
    except Error:
        assert Ledger(path).charges == ()
    else:
        assert Ledger(path).charges == (charge,)
        assert charge.cost > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"rho": Fraction(0)},
        {"rho": Fraction(-1)},
        {"rho": 0.0},
        {"rho": 10**500},
        {"what": 3},
        {"time": 7},
        {"release": 5},
    ],
)
def test_a_charge_that_could_not_be_read_back_is_refused_before_it_is_written(tmp_path, wrong):
    book = Ledger.create(tmp_path / "z.db", epsilon=1, delta="1e-6", unit=Rows(1), accounting_by="zcdp")
    right = {"release": "r", "epsilon": 1, "delta": "1e-6", "rho": Fraction(1, 100), **ROW}
    with pytest.raises(Error):
        book.charge(**{**right, **wrong})
    assert Ledger(book.path).spent == 0
    assert book.charge(**right).number == 1


def test_what_the_reader_refuses_is_rolled_back(tmp_path, ledger, monkeypatch):
    """The second line of defence: even if a check is missing, no line stays that closes the ledger."""
    monkeypatch.setattr("quietfield.curator.ledger._check_text", lambda value, *_, **__: value)
    with pytest.raises(Error, match="not made"):
        ledger.charge("r", epsilon="0.1", what=3, **ROW)
    assert Ledger(ledger.path).charges == ()


@pytest.mark.parametrize("name", [5, None, b"visits", "x" * 2000, "\ud800"])
def test_a_ledger_with_an_odd_name_is_not_made(tmp_path, name):
    with pytest.raises(Error):
        Ledger.create(tmp_path / "b.db", epsilon=1, unit=Rows(1), name=name)
    assert not list(tmp_path.iterdir())


def test_a_ledger_that_was_rolled_back_and_charged_anew_is_found_out(tmp_path, ledger, capsys, monkeypatch):
    """An old copy that is put back buys a second budget, unless something outside of the ledger remembers."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.csv").write_text("a\n0\n1\n")
    qf.Schema({"a": [0, 1]}).save("s.json")
    words = ["release", "d.csv", "--schema", "s.json", "--structure", "chain", "--unit", "rows:1", "--epsilon", "1/4"]
    pay = [*words, "--ledger", "budget.db"]
    assert main(["ledger", "anchor", "budget.db", "--out", "start.json"]) == 0
    assert main([*pay, "--out", "one.qfr"]) == 0
    shutil.copy("budget.db", "copy.db")
    assert main([*pay, "--out", "two.qfr", "--against", "one.qfr", "--against", "start.json"]) == 0
    assert main(["ledger", "anchor", "budget.db", "--out", "anchor.json"]) == 0
    capsys.readouterr()
    show = ["ledger", "show", "budget.db", "--against"]
    assert main([*show, "start.json", "one.qfr", "two.qfr", "anchor.json"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("start.json: charge 0\none.qfr: charge 1\ntwo.qfr: charge 2\nanchor.json: charge 2\n")
    shutil.copy("copy.db", "budget.db")
    for path, what in (("anchor.json", "taken off the end"), ("two.qfr", "taken off the end")):
        assert main([*show, path]) == 6
        assert what in capsys.readouterr().out
    ledger.charge("another", epsilon="1/4", **ROW)
    assert main([*show, "anchor.json"]) == 6
    assert "anchor.json: ITS CHARGE IS MISSING: another one has its place" in capsys.readouterr().out
    assert main([*show, "one.qfr", "start.json"]) == 0
    assert main([*pay, "--out", "three.qfr", "--against", "anchor.json"]) == 6
    assert "anchor.json, held against the ledger budget.db: ITS CHARGE IS MISSING" in (err := capsys.readouterr().err)
    assert "Nothing was charged" in err
    assert len(ledger.charges) == 2
    assert main(["ledger", "anchor", "budget.db", "--out", "anchor.json", "--force"]) == 6  # the proof is not replaced
    assert main([*show, "anchor.json"]) == 6


def test_anchors_of_other_ledgers_and_other_files_fail_closed(tmp_path, ledger, capsys):
    from quietfield.curator.anchors import read_anchor, write_anchor
    from quietfield.errors import RolledBack

    other = Ledger.create(tmp_path / "other.db", epsilon=1, unit=Rows(1))
    anchor = write_anchor(other, tmp_path / "other.json")
    assert read_anchor(tmp_path / "other.json") == anchor
    with pytest.raises(RolledBack, match="another ledger"):
        ledger.check_against({"other.json": anchor})
    with pytest.raises(FileError, match="another ledger"):
        write_anchor(ledger, tmp_path / "other.json")
    whole = json.loads((tmp_path / "other.json").read_text())
    for broken in ([], {}, 5, {**whole, "version": 2}, {**whole, "ledger": {"id": "x"}}, {**whole, "ledger": None}):
        (tmp_path / "broken.json").write_text(json.dumps(broken))
        assert main(["ledger", "show", str(ledger.path), "--against", str(tmp_path / "broken.json")]) == 1
        assert "neither an anchor" in capsys.readouterr().err
    for change in ({"number": -1}, {"number": 5}, {"digest": "0" * 64}):
        (tmp_path / "false.json").write_text(json.dumps({**whole, "ledger": {**whole["ledger"], **change}}))
        assert main(["ledger", "show", str(other.path), "--against", str(tmp_path / "false.json")]) == 6


def test_nothing_but_an_anchor_is_replaced_by_one(tmp_path, ledger):
    from quietfield.curator.anchors import write_anchor

    schema = qf.Schema({"a": [0, 1]})
    release = qf.release(np.array([[0], [1]]), schema, ["a"], epsilon="0.1", unit=Rows(1), ledger=ledger)
    release.save(tmp_path / "paid.qfr")
    score = {"id": "s", "ledger": asdict(release.ledger), "mean_log_likelihood": -1.0}
    (tmp_path / "score.json").write_text(json.dumps(score))
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "text.txt").write_text("not JSON")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for name in ("paid.qfr", "score.json", "list.json", "text.txt"):
        with pytest.raises(FileError):
            write_anchor(ledger, tmp_path / name)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    write_anchor(ledger, tmp_path / "anchor.json")
    write_anchor(ledger, tmp_path / "anchor.json")


def test_an_anchor_never_goes_back(tmp_path, ledger, monkeypatch):
    """One process reads where the ledger ends; another charges it and writes its anchor before the first one does."""
    from quietfield.curator.anchors import read_anchor, write_anchor

    path, head, others = tmp_path / "anchor.json", Ledger.head.fget, []
    ledger.charge("r1", epsilon="0.1", **ROW)

    def charge_and_write():
        ledger.charge("r2", epsilon="0.1", **ROW)
        write_anchor(ledger, path)

    def interrupted(self):
        end = head(self)
        if not others:
            others.append(threading.Thread(target=charge_and_write))
            others[0].start()
            others[0].join(1)  # it waits for the lock, or has written
        return end

    monkeypatch.setattr(Ledger, "head", property(interrupted))
    write_anchor(ledger, path)
    others[0].join()
    assert read_anchor(path).ledger.number == len(ledger.charges) == 2
    assert not [one for one in tmp_path.iterdir() if one.name.endswith(".lock")]


def test_an_anchor_that_cannot_be_replaced_after_a_charge_does_not_say_that_nothing_was_charged(tmp_path, ledger):
    from quietfield.curator.anchors import write_anchor
    from quietfield.curator.ledger import RolledBack

    ledger.charge("r1", epsilon="0.1", **ROW)
    write_anchor(ledger, tmp_path / "anchor.json")
    whole = json.loads((tmp_path / "anchor.json").read_text())
    whole["ledger"]["number"] = 5
    (tmp_path / "anchor.json").write_text(json.dumps(whole))
    with pytest.raises(RolledBack, match=r"anchor\.json names") as caught:
        write_anchor(ledger, tmp_path / "anchor.json")
    assert "othing was charged" not in str(caught.value)


def test_an_anchor_tells_no_more_than_a_release_does(tmp_path, ledger):
    from quietfield.curator.anchors import write_anchor

    ledger.charge("r", epsilon="0.1", what="a secret study", **ROW)
    write_anchor(ledger, tmp_path / "anchor.json")
    content = json.loads((tmp_path / "anchor.json").read_text())
    assert set(content) == {"format", "version", "made", "ledger"}
    assert content["ledger"] == {"id": ledger.id, "number": 1, "digest": ledger.charges[0].digest}


def test_a_score_is_held_against_the_ledger(tmp_path, ledger):
    from quietfield.curator.score import dp_score

    schema = qf.Schema({"a": [0, 1]})
    model = qf.Model(schema.domain, {("a",): [0.0, 1.0]})
    score = dp_score(model, {"a": [0, 1] * 500}, schema, epsilon="0.5", unit=Rows(1), ledger=ledger)
    path = tmp_path / "score.json"
    path.write_text(json.dumps(score.to_dict()))
    show = ["ledger", "show", str(ledger.path), "--against", str(path)]
    assert main(show) == 0
    _altered(ledger.path, "DELETE FROM charges")
    assert main(show) == 6


def smallest_epsilon(rho, delta):
    """What rho-zCDP implies at delta, by the formula of Canonne, Kamath and Steinke (2020), with scipy's optimiser."""
    log = np.log(1 / float(delta))

    def loss(t):
        a = 1 + np.exp(t)
        return a * float(rho) + (log + (a - 1) * np.log1p(-1 / a) - np.log(a)) / (a - 1)

    return max(0.0, min(minimize_scalar(loss, bounds=(-14, 14), method="bounded").fun, loss(0.0)))


RHOS = st.fractions(Fraction(1, 1000), Fraction(1, 10), max_denominator=1000)
DELTAS = st.none() | st.integers(1, 9 * 10**5).map(lambda n: Fraction(n, 10**12))


@settings(max_examples=12)
@given(st.lists(st.tuples(RHOS, DELTAS), min_size=1, max_size=8), st.booleans())
def test_thresholds_and_rhos_together_keep_to_epsilon_and_delta(tmp_path_factory, asked, by_rho):
    delta = Fraction(1, 10**6)
    total = {"rho": Fraction(1, 5)} if by_rho else {"epsilon": 2}
    path = tmp_path_factory.mktemp("l") / "b.db"
    book = Ledger.create(path, **total, delta=delta, unit=Rows(1), accounting_by="zcdp")
    most = book.epsilon if book.epsilon is not None else accounting.zcdp_epsilon(book.total, delta)
    spent, taken = Fraction(0), Fraction(0)
    for i, (rho, threshold) in enumerate(asked):
        left = delta - taken - (threshold or 0)
        needed = smallest_epsilon(spent + rho, left) if left > 0 else np.inf
        assume(abs(needed - float(most)) > 1e-9 * float(most))  # the optimiser is not as exact as the ledger
        allowed = left > 0 and spent + rho <= book.total and needed <= float(most)
        terms = {"epsilon": 1, "delta": delta, "rho": rho, "threshold": threshold, **ROW}
        if allowed:
            assert book.check(**terms) == rho
            assert book.charge(str(i), **terms).threshold == threshold
            spent, taken = spent + rho, taken + (threshold or 0)
        else:
            with pytest.raises(BudgetExceeded, match="Nothing was charged"):
                book.charge(str(i), **terms)
        again = Ledger(path)
        assert (again.spent, again.thresholds) == (spent, taken)
        assert again.remaining == again.limit - spent >= 0
        assert smallest_epsilon(spent, delta - taken) <= float(most) * (1 + 1e-9) if spent else True
    assert f"rho {accounting.format_number(spent)} of" in describe_ledger(book)
    assert ("thresholds have spent" in describe_ledger(book)) == (taken > 0)


def test_what_a_threshold_spends_is_part_of_delta_and_no_pure_or_old_ledger_pays_it(ledger, tmp_path, root):
    terms = {"epsilon": 1, "delta": 1e-6, "rho": "0.01", "threshold": 1e-7}
    with pytest.raises(Error, match="cannot pay for"):
        ledger.charge("r", **terms, **ROW)
    book = Ledger.create(tmp_path / "z.db", epsilon=2, delta=1e-6, unit=Rows(1), accounting_by="zcdp")
    for wrong in ({"delta": 1e-8}, {"threshold": 1}, {"threshold": 0}):
        with pytest.raises(Error):
            book.charge("r", **terms | wrong, **ROW)
    with pytest.raises(BudgetExceeded, match=r"would take 1e-06 of delta 1e-06, which leaves rho 0 in all"):
        book.charge("r", **terms | {"threshold": 1e-6}, **ROW)
    shutil.copy(root / "tests" / "golden" / "version1" / "zcdp.db", tmp_path / "old.db")
    old = Ledger(tmp_path / "old.db")
    with pytest.raises(Error, match="an earlier quietfield and has no place"):
        old.charge("r", **terms, unit=Person("user", rows=2), neighbours="add_remove")
    assert len(old.charges) == 1


def test_a_threshold_cannot_be_taken_out_of_a_ledger(tmp_path):
    book = Ledger.create(tmp_path / "z.db", epsilon=2, delta=1e-6, unit=Rows(1), accounting_by="zcdp")
    book.charge("r", epsilon=1, delta=1e-6, rho="0.01", threshold=1e-7, **ROW)
    with closing(sqlite3.connect(book.path)) as connection, connection:
        (trigger,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'charges_fixed'").fetchone()
        connection.execute("DROP TRIGGER charges_fixed")
        connection.execute("UPDATE charges SET threshold = NULL")
        connection.execute(trigger)
    with pytest.raises(FileError, match="damaged or was altered"):
        Ledger(book.path)
    # Nor is it one of the version that had none.
    with closing(sqlite3.connect(tmp_path / "z.db")) as connection, connection:
        connection.execute("PRAGMA user_version = 1")
    with pytest.raises(FileError, match="damaged or was altered"):
        Ledger(book.path)


def test_what_is_said_of_groups_is_weaker_once_thresholds_were_paid(tmp_path):
    """What is zCDP but for a threshold is no zCDP: for two units, only epsilon and delta are left to go by."""
    book = Ledger.create(tmp_path / "z.db", epsilon=2, delta=1e-6, unit=Rows(1), accounting_by="zcdp")
    before = describe_ledger(book)
    book.charge("r", epsilon=1, delta=1e-6, rho="0.01", threshold=1e-7, **ROW)
    promise = describe_promise(Fraction(2), Fraction(1, 10**6), None, "add_remove", SUBJECT)
    assert promise in describe_ledger(book)
    assert promise not in before
    after = describe_remaining(book, Fraction(1, 100), Fraction(1, 10**7))
    assert f"of {accounting.format_number(accounting.zcdp_rho(Fraction(2), Fraction(8, 10**7)))} would remain" in after
