"""Interactions measured apart: what they are and cost, what is learned from them, and when they are the default."""

import csv
import warnings
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import binom

import quietfield as qf
from quietfield.cli import main
from quietfield.cliques import Structure
from quietfield.curator import mechanism
from quietfield.curator.counting import count
from quietfield.errors import Error, FileError, TooLarge
from quietfield.inference.parities import Parities, transform
from quietfield.inference.tree import Tree
from quietfield.learning import map as learner
from quietfield.learning.problem import problem_of
from quietfield.privacy.planning import allocate_budget
from quietfield.privacy.units import statistics
from quietfield.releases.parts import Table
from quietfield.releases.tables import Tables
from quietfield.study.goodness_of_fit import goodness_of_fit

NAMES = tuple("abcd")
SCHEMA = qf.Schema({name: qf.Labels(["no", "yes"], null="no", unknown="no") for name in NAMES})
DOMAIN = SCHEMA.domain
SETS = tuple(c for many in (1, 2, 3) for c in combinations(NAMES, many))
APART = Structure(SETS, interactions=SETS)
PAIRS = tuple(combinations(NAMES, 2))


def parity(rows, clique):
    """By its definition, record by record."""
    return sum((-1) ** sum(row[NAMES.index(name)] for name in clique) for row in rows)


def of(rows):
    return np.array(rows, np.int64).reshape(-1, len(NAMES))


def release(rows, structure=APART, epsilon=1, **more):
    asked = {"epsilon": epsilon, "delta": "1e-9", "noise": "gaussian", "unit": qf.Rows(1), "ledger": None, **more}
    with warnings.catch_warnings(action="ignore"):  # of an epsilon that promises nothing
        return qf.release(of(rows), SCHEMA, structure, **asked)


def people(seed, many=4000):
    """A model in which everything hangs together, and records of it."""
    random = np.random.default_rng(seed)
    truth = qf.Model(DOMAIN, {c: random.normal(0, 0.7, (2,) * len(c)) for c in SETS})
    return truth, truth.sample(many, seed=seed).codes


rows_of_bits = st.lists(st.tuples(*[st.integers(0, 1)] * len(NAMES)), min_size=1, max_size=7)


@settings(max_examples=60, deadline=None)
@given(rows=rows_of_bits, leaving=st.integers(1, 2), other=st.tuples(*[st.integers(0, 1)] * len(NAMES)))
def test_one_unit_moves_interactions_by_at_most_what_is_stated(rows, leaving, other):
    leaving = min(leaving, len(rows))
    for neighbours, after in (("add_remove", rows[leaving:]), ("replace", [other] * leaving + rows[leaving:])):
        stated = statistics(APART, DOMAIN, qf.Rows(leaving), neighbours, total=False)
        moves = [parity(rows, c) - parity(after, c) for c in SETS]
        assert all(abs(move) <= table.l1 for move, table in zip(moves, stated.tables, strict=True))
        assert all(move**2 <= table.l2_squared for move, table in zip(moves, stated.tables, strict=True))
        assert sum(map(abs, moves)) <= stated.l1
        assert sum(move**2 for move in moves) <= stated.l2_squared
        # The bounds are attained, each by itself: whoever leaves moves all of them, whoever changes "a" those with "a".
        if neighbours == "add_remove" and len(set(rows[:leaving])) == 1:
            assert sum(map(abs, moves)) == stated.l1
        if neighbours == "replace" and leaving == 1 and sum(x != y for x, y in zip(rows[0], other, strict=True)) == 1:
            assert max(map(abs, moves)) == stated.tables[0].l1


@settings(max_examples=20, deadline=None)
@given(rows=rows_of_bits)
def test_engines_count_interactions_as_they_are_defined(rows, tmp_path_factory):
    wanted = statistics(APART, DOMAIN, qf.Rows(1), "add_remove", total=True)
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    lines = [",".join("no" if value == 0 else "yes" for value in row) for row in rows]
    path.write_text("\n".join([",".join(NAMES), *lines]) + "\n")
    for source in (of(rows), qf.CsvFile(path)):
        found = count(source, SCHEMA, wanted, qf.Rows(1))
        assert [int(table) for table in found.tables] == [parity(rows, c) for c in SETS]
        assert {table.shape for table in found.tables} == {()}
        assert found.total == len(rows)


def test_the_noise_is_that_of_its_plan():
    rows = [(0, 1, 0, 1)] * 50 + [(1, 1, 0, 0)] * 30
    drawn = [release(rows) for _ in range(60)]
    z = np.array([
        [(float(part.values) - parity(rows, part.cliques[0])) / part.noise.std for part in one.parts] for one in drawn
    ])  # fmt: skip
    # 840 draws: their mean square has standard error sqrt(2 / 840); false alarm about once in 15,000.
    assert abs((z**2).mean() - 1) < 4 * np.sqrt(2 / z.size)
    assert abs(((1.2 * z) ** 2).mean() - 1) > 4 * np.sqrt(2 / z.size)  # noise of another scale would be seen


def test_a_release_keeps_its_promise_in_a_file_and_tells_when_it_does_not(tmp_path):
    made = release([(0, 1, 0, 1)] * 9)
    assert len(made.interactions) == len(SETS)
    assert made.total is not None
    path = tmp_path / "apart.qfr"
    made.save(path)
    again = qf.Release.load(path)
    assert again.interactions == made.interactions
    assert again.structure == made.structure
    assert again.digest == made.digest
    assert again.check_promise()
    quieter = [replace(p, noise=replace(p.noise, scale=float(p.noise.scale) / 2)) for p in again.parts]
    with pytest.raises(FileError, match="the promise does not hold"):
        replace(again, parts=tuple(quieter)).check_promise()
    # As tables, whose replacement moves two cells by one, they would be cheaper than they are.
    swapped = release([(0, 1, 0, 1)] * 9, neighbours="replace")
    assert {part.l2_squared for part in swapped.parts} == {4}
    cheaper = tuple(replace(part, l2_squared=Fraction(2)) for part in swapped.parts)
    with pytest.raises(FileError, match="the sensitivity stated is not that"):
        replace(swapped, parts=cheaper).check_promise()
    with pytest.raises(FileError, match="by the structure or by its values"):
        replace(made, structure=Structure(SETS))


def test_what_is_no_interaction_is_refused():
    with pytest.raises(Error, match="expected one of the cliques"):
        Structure((("a",),), interactions=(("a", "b"),))
    with pytest.raises(Error, match="only where each of them has two values"):
        Structure((("x", "y"),), interactions=(("x", "y"),)).check(qf.Domain({"x": 2, "y": 3}))
    person = qf.Person("who", normalise=True, null="no")
    with pytest.raises(Error, match="not known for normalise=True"):
        statistics(APART, DOMAIN, person, "add_remove")
    with pytest.raises(Error, match="learns from tables alone"):
        qf.fit(release([(0, 1, 0, 1)] * 9), "naive")


def test_tables_are_made_of_interactions():
    _, codes = people(3)
    made = release(codes, epsilon=5000)  # next to no noise
    for clique in SETS:
        true = np.zeros((2,) * len(clique))
        np.add.at(true, tuple(codes[:, NAMES.index(name)] for name in clique), 1)
        assert np.abs(made.tables[clique] - true).max() < 1.5
    assert made.tables["b", "a"].tolist() == made.tables["a", "b"].T.tolist()
    some = Structure((("a", "b"),), interactions=(("a", "b"),))
    lacking = release(codes, some).tables
    with pytest.raises(Error, match="an interaction of fewer of its attributes was not"):
        lacking["a", "b"]
    assert ("a", "b") not in lacking
    assert dict(lacking) == {}


def test_tables_of_interactions_use_what_other_tables_tell_and_no_sums_over_ties():
    codes = people(3)[1]
    held = Structure(
        (("a", "b", "c"), ("a", "b", "d"), ("b", "d"), ("a", "d"), ("d",)), interactions=(("a", "b", "d"),)
    )
    made = release(codes, held, 5000).tables["a", "b", "d"]
    true = np.zeros((2, 2, 2))
    np.add.at(true, tuple(codes[:, NAMES.index(name)] for name in "abd"), 1)
    assert np.abs(made - true).max() < 1.5
    tied = Structure((("a",), ("b",), ("a", "b")), ties=((("a",), ("b",)),), interactions=(("a", "b"),))
    tables = release(codes, tied, total=True).tables  # the sum over both ties tells the interaction of neither
    assert list(tables) == [("a",)]


def test_what_could_not_be_counted_or_learned_from_costs_nothing(tmp_path, monkeypatch):
    book = qf.Ledger.create(tmp_path / "p.db", epsilon=2, delta="1e-6", unit=qf.Rows(1))
    asked = {"epsilon": 1, "delta": "1e-9", "noise": "gaussian", "unit": qf.Rows(1), "ledger": book}
    names = tuple("abcdefghijklmnopqrstuvwxyzABCD")
    schema = qf.Schema(dict.fromkeys(names, 2))

    def refuse(match, sets, **more):
        with pytest.raises(Error, match=match):
            qf.release(np.zeros((1, 30), int), schema, Structure(sets, interactions=sets), **{**asked, **more})

    refuse("at most 16 can be measured", (names,))
    refuse("4,060 numbers", tuple(combinations(names, 3)))
    refuse("do not tell how many records", (("a",), ("a", "b")), total=False)
    monkeypatch.setattr("quietfield.curator.release.available_memory", lambda: 10**6)
    refuse("is free here", tuple(combinations(names[:17], 16)))
    assert book.spent == 0


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("inference", ["loopy", "convex"])
def test_approximate_inference_learns_interactions_too(inference, noise):
    codes = np.array([[0, 1, 0, 1]] * 900 + [[1, 0, 0, 0]] * 900 + [[0, 0, 0, 0]] * 200)  # a and b never go together
    tree = (*((name,) for name in NAMES), ("a", "b"), ("b", "c"), ("c", "d"))
    delta = "1e-9" if noise == "gaussian" else None
    made = release(codes, Structure(tree, interactions=tree[4:]), 5, noise=noise, delta=delta)
    found, exact = qf.fit(made, inference=inference), qf.fit(made)  # on a tree all inference is exact
    assert found.report.converged
    assert np.abs(found.marginal(("a", "b")) - exact.marginal(("a", "b"))).max() < 0.01


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), mixed=st.booleans())
def test_parities_are_what_elimination_gives(seed, mixed):
    random = np.random.default_rng(seed)
    cliques = tuple(c for c in SETS if random.random() < 0.6) or SETS[:1]
    apart = [c for c in cliques if not mixed or random.random() < 0.5]
    scopes = [(tuple(map(NAMES.index, c)), c in apart) for c in cliques]
    found = Parities.of(len(NAMES), scopes)
    theta = random.normal(0, 1.5, found.features.shape[0])
    means, log_partition = found.means(theta)
    # The same by laying out all records.
    features = []
    records = np.array(list(product((0, 1), repeat=len(NAMES))))
    for scope, alone in scopes:
        if alone:
            features.append((-1.0) ** records[:, scope].sum(1))
        else:
            features += [np.all(records[:, scope] == cell, 1) * 1.0 for cell in product((0, 1), repeat=len(scope))]
    features = np.array(features)
    logs = theta @ features
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    assert np.allclose(found.expect(means), features @ shares)
    assert np.isclose(log_partition, np.log(np.exp(logs).sum()))
    mean = features @ shares
    assert np.allclose(found.covariance(means), (features * shares) @ features.T - np.outer(mean, mean))
    assert np.allclose(transform(transform(theta[:1].repeat(8))), 8 * theta[:1].repeat(8))


def test_both_ways_of_inference_agree():
    made = release(people(5)[1])
    shape, _ = problem_of(made, "exact", {})
    slow = replace(shape)
    slow.__dict__["parities"] = None
    theta = np.random.default_rng(0).normal(0, 0.5, shape.size)
    one, two = shape.at(theta), slow.at(theta)
    assert isinstance(slow.tree, Tree)
    assert two._found is not None
    assert one._found is None
    assert np.allclose(one.shares, two.shares)
    assert np.isclose(one.log_partition, two.log_partition)
    assert np.allclose(one.dense, two.dense)
    model = qf.Model(DOMAIN, shape.tables(theta))
    expected = [
        (model.marginal(c) * (1 - 2 * (np.indices((2,) * len(c)).sum(0) % 2))).sum() for (c,) in shape.groups
    ]  # fmt: skip
    assert np.allclose(one.shares, expected)


def test_the_fit_is_the_top_of_what_it_says(monkeypatch):
    """All numbers together, with the covariance of counts: against an optimiser that was not written here."""
    made = release(people(7)[1], epsilon=0.5)
    shape, data = problem_of(made, "exact", {})
    seen = {}
    climb = learner._climb_together

    def look(shape, data, theta, prior, blur, gain):
        found = climb(shape, data, theta, prior, blur, 1e-9)
        seen.update(prior=prior, theta=found[0])
        return found

    monkeypatch.setattr(learner, "_climb_together", look)
    qf.fit(made)
    at = shape.at(seen["theta"])
    inverse = np.linalg.inv(np.diag(data.b**2) + data.total * at.dense)

    def misfit(theta):
        error = data.y - data.total * shape.at(theta).shares
        return 0.5 * (error @ inverse @ error + theta @ seen["prior"].precision(theta))

    best = minimize(misfit, seen["theta"], method="BFGS", options={"gtol": 1e-7})
    assert misfit(seen["theta"]) - best.fun < 1e-4
    assert misfit(seen["theta"] + 0.05) - best.fun > 1e-2  # elsewhere it is worse


def test_with_little_noise_the_model_is_that_of_the_records():
    _, codes = people(11, 20_000)
    apart, tables = (qf.fit(release(codes, s, 2000, weights="equal"), of="records") for s in (APART, SETS))
    for clique in combinations(NAMES, 3):
        true = np.zeros((2,) * 3)
        np.add.at(true, tuple(codes[:, NAMES.index(name)] for name in clique), 1 / len(codes))
        assert 0.5 * np.abs(apart.marginal(clique) - true).sum() < 2e-3
    assert apart.kl(tables) < 1e-4


def test_answers_of_one_choice_are_learned_from_interactions_too():
    """Columns of which each record has one: their prior is wide, and the fit number by number does not see it."""
    codes = np.eye(12, dtype=int)[np.random.default_rng(0).integers(0, 12, 4000)]
    pairs = list(combinations([f"x{i}" for i in range(12)], 2))
    given = {"epsilon": 10, "delta": "1e-6", "noise": "gaussian", "unit": qf.Rows(1), "ledger": None}
    errors = {None: 0.0, "equal": 0.0}
    for weights in [None, "equal"] * 3:  # the error of one release is up to twice that of another
        made = qf.release(codes, qf.Schema({f"x{i}": 2 for i in range(12)}), pairs, weights=weights, **given)
        assert bool(made.interactions) == (weights is None)
        fitted = qf.fit(made)
        assert fitted.report.converged or weights == "equal"  # learned from tables, half of these fits do not settle
        true = [np.histogram2d(codes[:, int(a[1:])], codes[:, int(b[1:])], 2)[0] / len(codes) for a, b in pairs]
        errors[weights] += np.mean([np.abs(fitted.marginal(p) - t).sum() / 2 for p, t in zip(pairs, true, strict=True)])
    # Under a half on average; six times with the prior of the fit number by number. By chance alone, once in a million.
    assert errors[None] < 1.5 * errors["equal"]


@pytest.mark.slow
def test_error_bars_cover_the_truth():
    """40 releases, 8 + 24 answers each; 90% intervals. Errors of a release hang together: as if 40 answers alone."""
    truth, _ = people(13)
    inside, narrow = [], []
    for seed in range(40):
        model = qf.fit(release(truth.sample(4000, seed=seed).codes, epsilon=0.5))
        for clique in (*((name,) for name in NAMES), *PAIRS):
            low, high = model.interval(clique)
            share, middle = truth.marginal(clique), model.marginal(clique)
            inside.append(((low <= share) & (share <= high)).mean())
            half = 0.4  # a planted mistake: bars of two fifths of their width
            narrow.append((np.abs(share - middle) <= half * np.maximum(high - middle, middle - low)).mean())
    least = binom.ppf(1e-3, 40, 0.87) / 40
    assert np.mean(inside) > least
    assert np.mean(narrow) < least


def test_error_bars_are_the_same_by_either_way_of_inference():
    model = qf.fit(release(people(17)[1]))
    fast = model.interval(("a", "b"))
    again = qf.Model.load(_saved(model))
    again._covariance.shape.__dict__["parities"] = None
    try:
        assert np.allclose(again.interval(("a", "b")), fast)
    finally:
        again._covariance.shape.__dict__.pop("parities")
    assert np.all(fast[0] < model.marginal(("a", "b")))
    assert np.all(model.marginal(("a", "b")) < fast[1])


def _saved(model):
    import tempfile
    from pathlib import Path

    path = Path(tempfile.mkdtemp()) / "model.qfm"
    model.save(path)
    return path


def test_tables_that_overlap_much_are_measured_apart_by_default():
    names = "abcdefghijkl"
    pairs = tuple(combinations(names, 2))
    asked = (qf.Domain(dict.fromkeys(names, 2)), qf.Rows(1), "add_remove", None, "gaussian")
    measured, weights = allocate_budget(Structure(pairs), *asked)
    assert set(measured.interactions) == {*pairs, *((name,) for name in names)} == set(measured.cliques)
    # No other weights have less squared error in the sum of all tables: each interaction is part of n of them.
    held = {part: sum(set(part) <= set(pair) for pair in pairs) for part in weights}

    def error(w):
        return sum(w**2) * sum(n / x**2 for n, x in zip(held.values(), w, strict=True))

    chosen = np.array([float(w) for w in weights.values()])
    best = minimize(lambda logs: error(np.exp(logs)), np.zeros(len(chosen))).fun
    assert best <= error(chosen) < 1.001 * best < error(np.ones(len(chosen)))
    one_by_one = sum(
        n * len(pairs) * 4 / sum(set(part) <= set(pair) for pair in pairs) for part, n in held.items()
    )  # fmt: skip
    assert error(chosen) < 0.65 * one_by_one
    for other in (
        (Structure((("a", "b"), ("c", "d"))), *asked),  # nothing is shared
        (Structure(pairs), asked[0], qf.Rows(1), "replace", None, "gaussian"),  # an interaction moves by 2 there
        (Structure(pairs), asked[0], qf.Rows(1), "add_remove", None, "laplace"),
        (Structure(pairs), asked[0], qf.Rows(1), "add_remove", "equal", "gaussian"),
        (Structure(pairs), *asked, False),  # no total is wanted
        (Structure(pairs), qf.Domain({**dict.fromkeys(names, 2), "f": 3}), *asked[1:]),
    ):
        assert not allocate_budget(*other)[0].interactions
    schema = qf.Schema(dict.fromkeys(names, 2))
    codes = np.random.default_rng(0).integers(0, 2, (500, 12))
    made = qf.release(codes, schema, pairs, epsilon=1, delta=1e-9, noise="gaussian", unit=qf.Rows(1), ledger=None)
    assert made.interactions
    assert made.check_promise()
    assert any("interactions of attributes, each once" in note for note in made.notes)
    assert set(made.tables) >= set(pairs)


def test_binary_attributes_are_not_chosen_among_but_measured():
    codes = people(23)[1]
    made = release(codes, "auto")
    assert not made.selections
    assert set(made.interactions) == {c for c in SETS if len(c) > 1}
    assert {clique for clique in made.tables if len(clique) == 1} == {(name,) for name in NAMES}
    assert made.check_promise()
    drowned = release(codes[:60], "auto", 0.05)
    assert not drowned.interactions
    pure = release(codes, "auto", delta=None, noise="laplace")
    assert not pure.interactions
    assert not release(codes, "auto", neighbours="replace").interactions  # which cost four times as much there


def test_a_release_of_very_many_interactions_is_read_at_once(monkeypatch):
    """A hostile file must not keep its reader busy: tables are added up from a bounded number of sets."""
    names = [f"x{i}" for i in range(24)]
    numbers = list(combinations(names[:13], 11))
    one = qf.Gaussian(1)
    parts = tuple(Table((c,), np.array(7), one, interaction=True) for c in numbers)
    parts += tuple(Table(((name,),), np.array([5, 6]), one) for name in names)
    looked = []
    ask = Tables._teller
    monkeypatch.setattr(Tables, "_teller", lambda self, sets: looked.append(sets) or ask(self, sets))
    assert set(Tables(parts, 1)) == {(name,) for name in names}
    assert len(looked) < 20 * len(numbers)  # it stops at the first set that nothing tells
    whole = Table(((*names[:13],),), np.zeros((2,) * 13, int), one)  # which tells of all sets
    assert len(Tables((*parts[:2], whole), 1)) == 3
    many = tuple(Table((c,), np.array(7), one, interaction=True) for c in combinations(names[:16], 11))
    looked.clear()
    assert list(Tables((*many, whole), 1)) == [tuple(names[:13])]
    assert not looked


def test_a_model_file_cannot_ask_for_matrices_of_interactions_that_no_fit_has():
    model = qf.fit(release(people(41)[1]))
    kept = model.uncertainty
    kept.check(model.domain, tuple(c for group in kept.groups for c in group))
    large = qf.Domain({"a": 150, "b": 150, "z": 2})
    groups = ((("a", "b"),), (("z",),))
    pair = {name: getattr(kept, name)[:2] for name in ("noise", "total_weights", "variances", "drawn")}
    forged = replace(kept, groups=groups, excluded=(None, None), apart=frozenset({("z",)}), smoothness={}, **pair)
    with pytest.raises(Error, match="more than 3,000 numbers"):
        forged.check(large, (("a", "b"), ("z",)))
    small = qf.Domain({"a": 3, "b": 3, "z": 2})
    forged.check(small, (("a", "b"), ("z",)))
    with pytest.raises(Error, match="does not fit the shapes"):
        replace(forged, excluded=(None, (0,))).check(small, (("a", "b"), ("z",)))


def test_goodness_of_fit_knows_interactions():
    _, codes = people(29)
    releases = [release(codes) for _ in range(3)]
    assert max(goodness_of_fit(made, qf.fit(made), draws=39).p_value for made in releases) > 0.1  # or 1 in 1,000
    made = releases[0]
    uniform = qf.Model(DOMAIN, {c: np.zeros((2,) * len(c)) for c in SETS})
    assert goodness_of_fit(made, uniform, draws=39).p_value <= 0.1


def test_export_writes_interactions(tmp_path):
    made = release(people(31)[1])
    path, folder = tmp_path / "apart.qfr", tmp_path / "out"
    made.save(path)
    assert main(["export", str(path), "--out", str(folder)]) == 0
    with (folder / "interactions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["attributes"]: float(row["noisy_value"]) for row in rows} == {
        '["' + '", "'.join(clique) + '"]': value for clique, value in made.interactions.items()
    }
    assert not list(folder.glob("table-*"))


def test_a_table_and_an_interaction_of_the_same_attributes_are_learned_together():
    codes = people(37)[1]
    structure = Structure((("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c")), interactions=(("a", "b", "c"),))
    made = release(codes, structure, 2000)
    assert made.total is None  # a table tells it
    model = qf.fit(made, of="records")
    true = np.zeros((2, 2, 2))
    np.add.at(true, tuple(codes[:, :3].T), 1 / len(codes))
    assert np.abs(model.marginal(("a", "b", "c")) - true).max() < 2e-3
    assert isinstance(made.parts[0], Table)


def test_what_is_made_of_a_release_knows_interactions(tmp_path):
    """Report, comparison, confidential report and plan, of a release of tables and interactions together, too."""
    schema, codes = qf.Schema(dict.fromkeys("abcdefghijkl", 2)), np.random.default_rng(0).integers(0, 2, (900, 12))
    asked = {"epsilon": 1, "delta": "1e-6", "noise": "gaussian", "unit": qf.Rows(1), "ledger": None}
    pairs = list(combinations("abcdefghijkl", 2))
    for cliques in (pairs, qf.Choice(include=[("a", "b")])):
        made = qf.release(codes, schema, cliques, **asked)
        assert made.interactions
        model = qf.fit(made)
        qf.write_report(tmp_path / "report.html", made, model)
        assert "interaction: " in (tmp_path / "report.html").read_text()
        qf.write_confidential_report(tmp_path / "secret.html", codes, schema, made, model)
        assert [row.name for row in qf.compare(made).rows] == ["map"]
        for clique, table in made.tables.items():
            assert table.shape == (2,) * len(clique)
            assert abs(table.sum() - made.tables["a", "b"].sum()) < 300
        path = tmp_path / "made.qfr"
        made.save(path)
        assert main(["verify", str(path), "--json"]) == 0
    schema.save(tmp_path / "schema.json")
    plan = ["plan", str(tmp_path / "schema.json"), "--structure", "complete", "--epsilon", "1", "--delta", "1e-6"]
    assert main([*plan, "--noise", "gaussian", "--records", "900"]) == 0


def test_the_number_of_records_comes_from_any_table():
    structure = Structure((("a", "b"), ("a",), ("b",)), interactions=(("a",), ("b",)))
    codes = people(41)[1]
    made = release(codes, structure, 2000)
    assert made.total is None
    assert np.abs(made.tables["a"] - np.bincount(codes[:, 0])).max() < 3
    alone = release(codes, Structure((("a",),), interactions=(("a",),)))
    assert alone.tables["a"].shape == (2,)
    with pytest.raises(Error, match="the number of records or"):
        replace(alone, total_part=None).tables["a"]


def test_a_step_replaces_no_table_by_an_interaction():
    class Both:
        def tables(self, domain):
            return [("a", "b")]

        def run(self, steps, *, progress=False):
            steps.measure([("a", "b")], Fraction(1, 2))
            with pytest.raises(Error, match="neither replaces the other"):
                steps.measure([("a", "b")], Fraction(1, 4), interactions=True)
            self.left = steps.left

    both = Both()
    assert release([(0, 1, 0, 1)] * 9, both).interactions == {}
    assert both.left > Fraction(49, 100)  # what is refused costs nothing


def test_a_step_measures_no_interaction_that_nothing_could_be_learned_from():
    class Alone:
        def tables(self, domain):
            return [("a",), ("a", "b")]

        def run(self, steps, *, progress=False):
            with pytest.raises(Error, match="measure a table before them"):
                steps.measure([("a", "b")], Fraction(1, 2), interactions=True)
            steps.measure([("a",)], Fraction(1, 2))
            steps.measure([("a", "b")], steps.left, interactions=True)

    assert qf.fit(release([(0, 1, 0, 1)] * 900, Alone())).marginal("a")[0] > 0.9


def test_an_interaction_of_many_attributes_is_refused():
    domain = qf.Domain({f"x{i}": 2 for i in range(30)})
    with pytest.raises(TooLarge, match="at most 16"):
        Structure((tuple(domain),), interactions=(tuple(domain),)).check(domain)


def test_goodness_of_fit_compares_interactions_with_tables():
    """The table of two attributes tells the interaction of one, too: off by far, that is seen; as it is, it is not."""
    _, codes = people(17)
    structure = Structure((("a", "b"), ("a",), ("b",)), interactions=(("a",), ("b",)))
    made = release(codes, structure, 100)
    check = qf.goodness_of_fit(made, qf.fit(made), draws=19)
    assert check.redundancies == 2
    assert check.agreement > 1e-3  # false alarm: once in a thousand
    parts = tuple(replace(p, values=p.values + 500) if p.interaction else p for p in made.parts)
    off = replace(made, parts=parts, promise=None, ledger=None)
    assert qf.goodness_of_fit(off, qf.fit(off), draws=19).agreement < 1e-2


def test_a_confidential_report_of_interactions_that_make_no_table(tmp_path):
    _, codes = people(19)
    made = release(codes, Structure((("a",), ("b", "c")), interactions=(("b", "c"),)))
    qf.write_confidential_report(tmp_path / "report.html", codes, SCHEMA, made, qf.fit(made))
    assert '<td class="number">–</td>' in (tmp_path / "report.html").read_text()


def test_where_combinations_are_impossible_tables_are_counted():
    domain = qf.Domain(dict.fromkeys("abcdefghijkl", 2), impossible=[{"a": 1, "b": 1}])
    asked = (domain, qf.Rows(1), "add_remove", None, "gaussian")
    assert not allocate_budget(Structure(tuple(combinations("abcdefghijkl", 2))), *asked)[0].interactions


def test_an_audit_of_interactions(monkeypatch):
    """One record more, told by the best attack there is: noise of the right size gives it no more than rho allows.

    The attack's statistic is normal with variance 1; one record moves its mean by sqrt(2 rho). False alarm of 4
    standard errors: about once in 30,000. With a third of the noise it is moved three times as far, which is seen.
    """
    rows, more = [(0, 1, 0, 1)] * 3, (1, 0, 1, 1)
    rho = float(release(rows, epsilon=5).promise.rho)

    def seen(records, many=150):
        found = []
        for _ in range(many):
            made = release(records, epsilon=5)
            measured = [(float(p.values), parity([more], p.cliques[0]), p.noise.std) for p in made.parts]
            measured.append((made.total, 1, made.total_noise.std))
            found.append(sum(y * s / b**2 for y, s, b in measured) / sum(1 / b**2 for *_, b in measured) ** 0.5)
        return np.array(found)

    error = np.sqrt(2 / 150)
    moved = seen([*rows, more]).mean() - seen(rows).mean()
    assert abs(moved - np.sqrt(2 * rho)) < 4 * error
    measure = mechanism.measure
    monkeypatch.setattr(mechanism, "measure", lambda kind, scale, values: measure(kind, scale / 3, values))
    third = (seen([*rows, more]).mean() - seen(rows).mean()) / seen(rows).std()
    assert third - 4 * error > np.sqrt(2 * rho)
