"""A release in steps: no procedure overspends, no score moves further than stated, and choices have the right odds."""

import warnings
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, permutations, product
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, chi2

import quietfield as qf
from quietfield.curator import mechanism
from quietfield.curator.publish import charge_and_publish
from quietfield.curator.release import open_records, plan_any
from quietfield.curator.request import Counts
from quietfield.curator.steps import Steps, _distance, plan_steps
from quietfield.errors import Error, FileError
from quietfield.privacy import accounting
from quietfield.study.choice import Choice

# No record is dropped, so that replace neighbours can be tried, too.
SCHEMA = qf.Schema({n: qf.Labels(range(k), null=0, unknown=0) for n, k in {"a": 2, "b": 3, "c": 2}.items()})
DOMAIN = SCHEMA.domain
PAIRS = list(combinations("abc", 2))


class All:
    """Any table may be asked for; nothing is."""

    def tables(self, domain):
        return [c for n in (1, 2, 3) for c in combinations(domain, n)]

    def run(self, steps, *, progress=False):
        raise AssertionError


def plan(noise="gaussian", epsilon=1, unit=None, neighbours="add_remove"):
    delta = "1e-6" if noise == "gaussian" else None
    return plan_steps(
        SCHEMA, All(), epsilon=epsilon, delta=delta, unit=unit or qf.Rows(1), neighbours=neighbours, noise=noise
    )


def steps_of(rows, planned):
    codes = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return Steps(planned, open_records(codes, planned).count())


def expected_of(cliques):
    return [np.zeros(DOMAIN.table_shape(c), np.int64) for c in cliques]


def choose(steps, amount=Fraction(1, 2), times=1, **more):
    given = {
        "candidates": PAIRS,
        "expected": expected_of(PAIRS),
        "handicaps": np.zeros(3, np.int64),
        "amount": amount,
        "times": times,
        "allowed": lambda chosen: [i for i, c in enumerate(PAIRS) if c not in chosen],
    }
    return steps.choose(**{**given, **more})


records = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 1)), max_size=5)


@settings(max_examples=60, deadline=None)
@given(rows=records, target=st.integers(0, 3), grouped=st.booleans())
def test_one_record_moves_a_score_by_at_most_what_is_stated(rows, target, grouped):
    planned = {n: plan(neighbours=n) for n in ("add_remove", "replace")}
    starts = [None, np.array([0, 2]), None] if grouped else [None] * 3

    def score(data, clique):
        counts = steps_of(data, planned["add_remove"])._counts[frozenset(clique)]
        begin = [starts["abc".index(name)] for name in clique]
        shape = [n if b is None else len(b) for n, b in zip(DOMAIN.table_shape(clique), begin, strict=True)]
        return _distance(counts, np.full(shape, target, np.int64), begin)

    every = list(product(range(2), range(3), range(2)))
    for clique in [*PAIRS, ("a", "b", "c")]:
        here = score(rows, clique)
        added = max(abs(here - score([*rows, one], clique)) for one in every)
        assert added <= steps_of(rows, planned["add_remove"]).sensitivity == 1
        if rows:
            swapped = max(abs(here - score([one, *rows[1:]], clique)) for one in every)
            assert swapped <= steps_of(rows, planned["replace"]).sensitivity == 2


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_a_procedure_cannot_overspend(noise):
    steps = steps_of([[0, 0, 0]] * 9, plan(noise))
    with pytest.raises(Error, match="is left"):
        steps.measure([("a",)], Fraction(11, 10))
    steps.measure([("a",), ("b",)], Fraction(1, 2))
    assert 0.49 < steps.left < Fraction(501, 1000)
    choose(steps, Fraction(2, 5), 2)
    with pytest.raises(Error, match="is left"):
        choose(steps, Fraction(1, 5))
    with pytest.raises(Error, match="is left"):
        steps.measure([("c",)], Fraction(0))
    with pytest.raises(Error, match="each table once"):
        steps.measure([("c",), ("c",)], Fraction(1, 100))
    steps.measure([("c",)], steps.left)
    assert 0 <= steps.left < 1e-12
    for name, value in {"budget": Fraction(10**6), "tables": [], "selections": []}.items():
        with pytest.raises(AttributeError):
            setattr(steps, name, value)
    with pytest.raises(ValueError, match="read-only"):  # nor change what was measured
        steps.tables[0].values[0] = 0


def test_a_procedure_cannot_raise_the_sensitivity():
    steps = steps_of([[0, 0, 0]] * 9, plan())
    repeated = {"a": np.array([0, 0, 0])}
    with pytest.raises(Error, match="runs of values"):
        choose(steps, groups=repeated)
    with pytest.raises(Error, match="runs of values"):
        choose(steps, groups={"a": np.array([1])})
    wide = [np.zeros((7, *DOMAIN.table_shape(c)), np.int64) for c in PAIRS]
    with pytest.raises(Error, match="shape"):
        choose(steps, expected=wide)
    with pytest.raises(Error, match="whole numbers"):
        choose(steps, expected=[table.astype(float) for table in expected_of(PAIRS)])
    with pytest.raises(Error, match="not one that was planned"):
        choose(steps, candidates=[("a", "z"), *PAIRS[1:]])
    unsigned = np.array([0, 2, 1], np.uint8)  # whose differences are all positive
    with pytest.raises(Error, match="whole numbers"):
        choose(steps, groups={"b": unsigned})
    with pytest.raises(Error, match="wrap around"):  # a count of 10 would be as far from it as can be, one of 9 not
        choose(steps, expected=[table - (2**63 - 10) for table in expected_of(PAIRS)])
    heavy = choose(steps, weights=np.array([1, 5, 2], np.int64))
    assert heavy
    assert steps.selections[-1].sensitivity == 5


@pytest.mark.parametrize(("weight", "most"), [(2**52, 2047), (-(2**52), 2048), (2**62, 1), (-(2**63), 100)])
def test_no_score_wraps_around(weight, most, monkeypatch):
    """With numbers of 64 bits one record could turn the lowest score into the highest; the last weight would tell
    whether a count is even, for what a weight of 1 costs."""
    found = []
    monkeypatch.setattr(mechanism, "select", lambda noise, scale, scores: found.append(scores) or 0)
    monkeypatch.setattr(mechanism, "plan_selection", lambda noise, budget, sensitivity: float(100 * sensitivity))
    for many in (most, most + 1):
        steps = steps_of([[0, 0, 0]] * many, plan("laplace", epsilon=10))
        choose(steps, weights=np.array([weight, 1, 1], np.int64), handicaps=np.array([0, -(2**63), 0], np.int64))
    moves = [abs(int(a) - int(b)) for a, b in zip(*found, strict=True)]
    assert max(moves) <= steps.selections[-1].sensitivity == abs(weight)


def exponential_mechanism(scores, scale):
    weights = np.exp((scores - scores.max()) / scale)
    return weights / weights.sum()


def permute_and_flip(scores, scale):
    """McKenna and Sheldon (2020): go through the candidates in a random order, take each with its probability.

    It is the noisy maximum with exponential noise (Ding et al. 2021).
    """
    chance = np.exp((scores - scores.max()) / scale)
    orders = list(permutations(range(len(scores))))
    found = np.zeros(len(scores))
    for order in orders:
        alive = 1.0
        for i in order:
            found[i] += alive * chance[i] / len(orders)
            alive *= 1 - chance[i]
    return found


def p_value(counts, shares):
    expected = counts.sum() * shares
    return chi2.sf(((counts - expected) ** 2 / expected).sum(), len(shares) - 1)


@pytest.mark.parametrize(
    ("noise", "law"), [("gaussian", exponential_mechanism), ("laplace", permute_and_flip)], ids=["zcdp", "pure"]
)
def test_choices_have_the_odds_of_the_mechanism(noise, law):
    """False alarms: 1e-9 each. A scale that is a third too small is missed less than once in 1e27 times."""
    scores = np.array([10, 13, 7, 12], np.int64)
    drawn = np.bincount([mechanism.select(noise, 3.0, scores) for _ in range(4000)], minlength=4)
    assert p_value(drawn, law(scores.astype(float), 3.0)) > 1e-9
    assert p_value(drawn, law(scores.astype(float), 2.0)) < 1e-9


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_scale_of_a_choice_is_the_smallest_that_fits(noise):
    for budget in (Fraction(1, 100), Fraction(1, 3)):
        for move in (1, 2, 6):
            scale = mechanism.plan_selection(noise, budget, move)
            assert accounting.selection_cost(noise, Fraction(move), Fraction(scale)) <= budget
            assert accounting.selection_cost(noise, Fraction(move), Fraction(scale * 0.999)) > budget


class Probe:
    """Choose a pair, then measure it: enough for an audit."""

    def tables(self, domain):
        return PAIRS

    def run(self, steps, *, progress=False):
        chosen = choose(steps)
        steps.measure(chosen, steps.left)


def outcomes(rows, epsilon, runs):
    procedure = Probe()
    planned = plan_steps(SCHEMA, procedure, epsilon=epsilon, unit=qf.Rows(1), noise="laplace")
    counts = open_records(np.array(rows, dtype=np.int64), planned).count()
    found = []
    for _ in range(runs):
        steps = Steps(planned, Counts([table.copy() for table in counts.tables], counts.total))
        procedure.run(steps)
        table = steps.tables[0]
        found.append((table.cliques[0], bool(table.values.flat[0] > 2)))
    return found


@pytest.mark.slow
def test_an_audit_of_choosing_and_measuring(monkeypatch):
    """A lower bound of epsilon from outcomes of neighbouring data: Clopper and Pearson at 1e-6 for each of 24."""
    epsilon, runs = 1.0, 3000
    base = [[0, 0, 0], [1, 1, 1], [0, 0, 1]]
    near = [*base, [0, 0, 0]]

    def bound():
        seen = [outcomes(rows, epsilon, runs) for rows in (base, near)]
        worst = 0.0
        for event in set(seen[0] + seen[1]):
            a, b = (sum(one == event for one in side) for side in seen)
            for x, y in ((a, b), (b, a)):
                low = beta.ppf(1e-6, x, runs - x + 1) if x else 0.0
                high = beta.ppf(1 - 1e-6, y + 1, runs - y) if y < runs else 1.0
                worst = max(worst, log(low / high) if low > 0 else 0.0)
        return worst

    assert bound() <= epsilon
    planned = mechanism.plan_step

    def too_little(*args):
        plan, cost = planned(*args)
        return replace(plan, scales=tuple(scale / 10 for scale in plan.scales)), cost

    monkeypatch.setattr(mechanism, "plan_step", too_little)
    assert bound() > epsilon


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_a_release_in_steps_can_be_added_up(noise, tmp_path):
    people = np.random.default_rng(0).integers(0, [2, 3, 2], (300, 3))
    asked = {"epsilon": 2, "delta": "1e-6" if noise == "gaussian" else None, "unit": qf.Rows(1), "noise": noise}
    planned = plan_any(SCHEMA, qf.Choice(rounds=2), **asked)
    found = qf.Release.of(charge_and_publish(open_records(people, planned), planned, None))
    assert found.selections
    assert found.epsilon == 2
    assert any("choices of tables included" in text for text in found.check_promise())
    found.save(tmp_path / "r.qfr")
    again = qf.Release.load(tmp_path / "r.qfr")
    assert again.selections == found.selections
    assert again.digest == found.digest
    # Whoever takes choices out, or states a smaller scale, states what does not add up or is not so.
    cheap = replace(found, selections=tuple(replace(one, scale=one.scale / 1000) for one in found.selections))
    with pytest.raises(FileError, match="does not hold"):
        cheap.check_promise()
    with pytest.raises(FileError, match="does not hold"):
        replace(
            found, selections=tuple(replace(one, sensitivity=Fraction(1, 9)) for one in found.selections)
        ).check_promise()
    with pytest.raises(FileError, match="measured afterwards"):
        replace(found, selections=(replace(found.selections[0], chosen=("b", "a")),))
    assert qf.fit(found).marginal(("a", "b")).shape == (2, 3)


def test_the_ledger_pays_once_for_all_steps(tmp_path):
    ledger = qf.Ledger.create(tmp_path / "budget.db", epsilon=1, unit=qf.Rows(1))
    people = {name: [0, 1] * 30 for name in "abc"}
    found = qf.release(people, SCHEMA, "auto", epsilon=1, unit=qf.Rows(1), ledger=ledger)
    assert found.ledger.number == 1
    assert ledger.remaining == 0
    with pytest.raises(qf.BudgetExceeded):
        qf.release(people, SCHEMA, "auto", epsilon=1, unit=qf.Rows(1), ledger=ledger)

    class Failing(Choice):
        def run(self, steps, *, progress=False):
            raise ValueError("Miller, 17")

    other = qf.Ledger.create(tmp_path / "other.db", epsilon=1, unit=qf.Rows(1))
    with pytest.raises(qf.Unreadable, match="charge stands") as caught:
        qf.release(people, SCHEMA, Failing(), epsilon=1, unit=qf.Rows(1), ledger=other)
    assert "Miller" not in str(caught.value)
    assert other.remaining == 0


def test_what_cannot_be_chosen_is_refused_before_the_charge():
    people = {name: [0, 1] * 30 for name in "abc"}
    asked = {"epsilon": 1, "unit": qf.Rows(1), "ledger": None}
    with pytest.raises(Error, match="weights are for given tables"):
        qf.release(people, SCHEMA, "auto", weights={("a", "b"): 2}, **asked)
    with pytest.raises(Error, match="'auto', a Structure"):
        qf.release(people, SCHEMA, "Auto", **asked)
    with pytest.raises(Error, match="1/K"):
        qf.release(people, SCHEMA, "auto", **{**asked, "unit": qf.Person("p", normalise=True)})
    with pytest.raises(Error, match="paper"):
        qf.release(people, SCHEMA, "auto", neighbours="paper", **asked)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_a_table_that_is_measured_again_is_replaced_and_both_are_paid(noise):
    steps = steps_of([[0, 0, 0]] * 9, plan(noise))
    steps.measure([("a",), ("b",)], Fraction(1, 10))
    noisier, _ = steps.tables
    steps.measure([("a",)], Fraction(1, 2))
    again, other = steps.tables
    assert again.cliques == noisier.cliques
    assert again.noise.variance < noisier.noise.variance / 2
    assert other.cliques == (("b",),)
    assert 0.39 < steps.left < Fraction(401, 1000)
    steps.measure([("a",)], Fraction(1, 100))  # with more noise: it is paid for, and the other stands
    assert steps.tables[0] is again
    first, last = steps._replaced
    assert first.noise == noisier.noise
    assert last.noise.variance > 10 * again.noise.variance


def test_a_table_that_is_measured_already_is_not_chosen():
    steps = steps_of([[0, 0, 0]] * 9, plan("laplace"))
    steps.measure([("a", "b")], Fraction(1, 10))
    left = steps.left
    sizes = [steps.domain.table_shape(clique) for clique in (("a", "b"), ("b", "c"))]
    expected = [np.zeros(size, np.int64) for size in sizes]
    with pytest.raises(Error, match="is measured already"):
        steps.choose([("a", "b"), ("b", "c")], expected, np.zeros(2, np.int64), Fraction(1, 10), 1, lambda chosen: [0])
    assert steps.left == left  # a mistake of the procedure costs nothing


@pytest.mark.parametrize(
    ("epsilon", "records", "replaced", "joined"), [(0.02, 100, 3, False), (1, 3000, 3, True), (2, 20_000, 0, True)]
)
def test_one_way_tables_get_more_where_noise_outweighs_them(epsilon, records, replaced, joined, tmp_path):
    # The noisy number of records decides: five standard deviations and more lie between it and the next rule, so that
    # one run in a million fails.
    people = np.arange(records)[:, None] // [1, 2, 4] % 2
    schema = qf.Schema({name: list(range(60)) for name in "abc"})
    asked = {"epsilon": epsilon, "unit": qf.Rows(1), "ledger": None}
    found = qf.release(people, schema, "auto", **asked)
    told = f"measured again: {replaced} tables; of each, the measurement with the least noise is here"
    assert [note for note in found.notes if "again" in note] == [told] * bool(replaced)
    assert any(len(clique) > 1 for clique in found.tables) == joined
    cost, *told = found.check_promise()
    assert cost.startswith(f"the noise costs epsilon {epsilon}, and {epsilon} is promised") or not joined
    assert (f"{replaced} noisier measurements included" in told) == bool(replaced)
    found.save(path := tmp_path / "found.qfr")
    assert qf.Release.load(path).replaced == found.replaced
    for one in found.replaced:  # half the noise costs twice as much, which was not promised
        with pytest.raises(Error, match="the promise does not hold"):
            replace(found, replaced=(replace(one, noise=qf.Laplace(one.noise.exact / 8)),)).check_promise()
        with pytest.raises(Error, match="the sensitivity stated"):
            replace(found, replaced=(replace(one, l1=one.l1 / 2),)).check_promise()


def test_replace_neighbours_have_a_public_total():
    people = np.arange(200)[:, None] // [1, 2, 4] % 2  # attributes that are constant are not chosen
    found = qf.release(people, SCHEMA, Choice(rounds=2), epsilon=9, unit=qf.Rows(1), neighbours="replace", ledger=None)
    assert found.total_is_public
    assert found.total == 200
    assert found.selections[0].sensitivity == 2
    found.check_promise()


@pytest.mark.parametrize(
    ("sizes", "choice"),
    [
        ([2, 2], Choice()),  # after one choice there is nothing left to choose
        ([2, 2, 2], Choice()),
        ([9] * 6, Choice(most_work=300)),  # the first rounds have no room for any pair
        ([9] * 6, Choice(most_work=60)),  # nor has any round
        ([9] * 6, Choice(most_work=200)),  # a single pair, and no room for any other
        ([4] * 4, Choice(include=[("a0", "a1"), ("a1", "a2"), ("a2", "a3")], rounds=1)),  # no tree is left to choose
    ],
    ids=["pair", "triple", "late", "never", "once", "included"],
)
def test_what_is_charged_is_spent(sizes, choice):
    schema = qf.Schema({f"a{i}": size for i, size in enumerate(sizes)})
    codes = np.random.default_rng(5).integers(0, sizes, (3000, len(sizes)))
    released = qf.release(
        codes, schema, choice, epsilon=1, delta="1e-6", noise="gaussian", unit=qf.Rows(1), ledger=None
    )
    whole = accounting.zcdp_rho(Fraction(1), Fraction(1, 10**6))
    assert 0.999 * whole < released.promise.rho <= whole


def test_an_attribute_of_one_value_is_joined_with_none():
    """One that can have no other value costs nothing; one that has no other, as far as noise tells, its own table.

    Noise looks like another value in one release of 740; that it does in three of three is one case in 10^8.
    """

    def joins(released, name):
        return any(name in clique and len(clique) > 1 for clique in released.tables)

    random = np.random.default_rng(5)
    codes = random.integers(0, [3, 1, 3, 4, 3, 5], (5000, 6))
    codes[:, 3] = 2
    schema = qf.Schema(dict(zip("avbcdg", (3, 1, 3, 4, 3, 5), strict=True)))
    asked = {"delta": "1e-6", "noise": "gaussian", "unit": qf.Rows(1), "ledger": None}
    questions = [("a", "c", "v"), ("a", "d")]
    for choice, epsilon in ((Choice(), 100), (Choice(rounds=3), 1), (Choice(workload=questions), 1)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an epsilon that promises next to nothing
            drawn = (qf.release(codes, schema, choice, epsilon=epsilon, **asked) for _ in range(3))
            released = next((one for one in drawn if not joins(one, "c")), None)
        assert released is not None
        assert ("c",) in released.tables
        assert ("v",) not in released.tables
        assert not joins(released, "v")
        assert any(len(clique) > 1 for clique in released.tables)
        whole = accounting.zcdp_rho(Fraction(epsilon), Fraction(1, 10**6))
        assert 0.999 * whole < released.promise.rho <= whole
        assert qf.fit(released).marginal("v").tolist() == [1]
    single = qf.release(codes[:, :2] * 0, qf.Schema({"v": 1, "w": 1}), "auto", epsilon=1, **asked)
    assert list(single.tables) == [("v",)]  # which tells how many records there are


def test_a_release_whose_noise_outweighs_the_records_is_not_lost():
    """It was paid for. About a fifth find the records above their noise; that 64 are all alike is one case in 10^6."""
    data, schema = {"a": [0, 1], "b": [0, 1]}, qf.Schema({"a": 2, "b": 2})
    asked = {"epsilon": Fraction(1, 50), "unit": qf.Rows(1), "ledger": None}
    found = [qf.release(data, schema, "auto", **asked) for _ in range(64)]
    assert all(one.check_promise() for one in found)
    # Where nothing can be chosen, what is left measures one-way tables again: it is paid for.
    singles = (("a",), ("b",))
    assert {one.structure.cliques for one in found} == {singles, (*singles, ("a", "b"))}
    assert all(len(one.selections) <= len(one.structure.cliques) - 2 for one in found)


@pytest.mark.parametrize("stop", [Error("no more."), KeyboardInterrupt(), MemoryError(), RuntimeError("RESOURCES")])
@pytest.mark.parametrize("paid", [True, False])
def test_what_was_measured_before_a_failure_is_not_lost(stop, paid, tmp_path):
    class Stops(All):
        def run(self, steps, *, progress=False):
            steps.measure([("a",)], Fraction(1, 4))
            raise stop

    planned = plan_steps(SCHEMA, Stops(), epsilon=1, unit=qf.Rows(1))
    book = qf.Ledger.create(tmp_path / "b.db", epsilon=1, unit=qf.Rows(1)) if paid else None
    with pytest.raises(Error if paid and isinstance(stop, RuntimeError) else type(stop)) as caught:
        charge_and_publish(open_records(np.zeros((50, 3), np.int64), planned), planned, book)
    assert ("the charge stands" in str(caught.value)) == paid
    qf.Release.of(caught.value.release).save(tmp_path / "kept.qfr")
    kept = qf.Release.load(tmp_path / "kept.qfr")
    assert kept.structure.cliques == (("a",),)
    assert kept.check_promise()
    assert "the steps ended early, tables: 1; not all that was paid is spent" in kept.notes
    assert paid == (kept.ledger is not None)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("calls", range(1, 6))
def test_an_interrupt_after_any_step_leaves_a_release(noise, calls, tmp_path):
    """Between a choice and its measurement, too: what was chosen is not told, and its cost is spent."""

    class Stops(All):
        def run(self, steps, *, progress=False):
            made = 0
            for place, name in enumerate("abc"):
                steps.measure([(name,)], Fraction(1, 10))
                (made := made + 1) == calls and self.stop(steps)
                if place:
                    chosen = choose(steps, Fraction(1, 10), 2)
                    (made := made + 1) == calls and self.stop(steps)
                    steps.measure([c for c in chosen if c not in steps_known(steps)], Fraction(1, 10))
                    (made := made + 1) == calls and self.stop(steps)

        def stop(self, steps):
            self.spent = steps._spent
            raise KeyboardInterrupt

    def steps_known(steps):
        return {table.cliques[0] for table in steps.tables}

    procedure = Stops()
    delta = "1e-6" if noise == "gaussian" else None
    planned = plan_steps(SCHEMA, procedure, epsilon=1, delta=delta, unit=qf.Rows(1), noise=noise)
    with pytest.raises(KeyboardInterrupt) as caught:
        charge_and_publish(open_records(np.zeros((50, 3), np.int64), planned), planned, None)
    qf.Release.of(caught.value.release).save(tmp_path / "kept.qfr")
    kept = qf.Release.load(tmp_path / "kept.qfr")
    assert kept.check_promise()
    assert {one.chosen for one in kept.selections} <= set(kept.structure.cliques)
    if noise == "gaussian":
        assert kept.promise.rho >= procedure.spent


@pytest.mark.parametrize(("records", "whole"), [(20_000, True), (50, False)])
def test_where_all_tables_get_little_noise_nothing_is_chosen(records, whole):
    """Six attributes of three values: all triples, if there are records enough; or the questions that are given."""
    people = np.random.default_rng(0).integers(0, 3, (records, 6))
    schema = qf.Schema(dict.fromkeys("abcdef", 3))
    asked = {"epsilon": 5, "delta": "1e-6", "noise": "gaussian", "unit": qf.Rows(1), "ledger": None}
    found = qf.release(people, schema, "auto", **asked)
    assert (not found.selections) == whole
    if whole:
        assert {frozenset(c) for c in found.tables if len(c) > 1} == set(map(frozenset, combinations("abcdef", 3)))
        found.check_promise()
        given = qf.release(people, schema, qf.Choice(workload=[("a", "c"), ("f", "b", "d")]), **asked)
        assert {frozenset(c) for c in given.tables if len(c) > 1} == {frozenset("ac"), frozenset("bdf")}
        assert qf.release(people, schema, qf.Choice(rounds=1), **asked).selections


def test_many_pairs_leave_no_room_for_triples_that_would_only_be_listed():
    """Of 110 columns there are 215,820 triples; 5,995 pairs leave larger tables no room."""
    domain = qf.Domain({f"c{i}": 2 for i in range(110)})
    many = qf.Choice().tables(domain)
    assert max(map(len, many)) == 2
    assert len(many) == 110 + 110 * 109 // 2
    few = qf.Choice().tables(qf.Domain({f"c{i}": 5 for i in range(20)}))
    assert max(map(len, few)) == 3


def test_questions_without_any_attribute_that_is_left_are_named():
    choice = qf.Choice(workload={("note", "age"): 2})
    found, dropped = choice.within(qf.Domain({"town": 2, "ill": 2}))
    assert not found.weights
    assert dropped == (("note", "age"),)
    assert choice.within(qf.Domain({"age": 2, "ill": 2}))[1] == ()
