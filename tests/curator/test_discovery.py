"""A schema that is discovered: what one unit can change, what is published, what is paid, and what is found.

Noise has no seed. What is found is asked of counts that lie more than six standard deviations of the noise from every
limit, and noise alone is taken for a count once in 10^9 times (``partitions.EVIDENT``), of at most some dozens: a test
fails by chance less than once in ten million times.
"""

import datetime
import json
import random
import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import exp, inf
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binomtest

import quietfield as qf
from quietfield.cli import main
from quietfield.curator import mechanism
from quietfield.curator import values as counted_values
from quietfield.curator.counting import count
from quietfield.curator.counting.duckdb_engine import DuckEngine, connect
from quietfield.curator.discovery import (
    column_kinds,
    column_storage,
    partitions,
    periods,
    plan_discovery,
    questions,
    run_discovery,
    tree,
)
from quietfield.curator.discovery.plan import FIRST, REST, histogram_sensitivity
from quietfield.curator.discovery.writing import BESIDE, CELLS, CLASSES, sum_classes
from quietfield.errors import Error
from quietfield.models.values import draw_values, write_column
from quietfield.privacy import thresholds
from quietfield.privacy.units import statistics
from quietfield.schema import Cuts, Dates, Labels, NumberForm, Schema

pytest.importorskip("duckdb")
dp = pytest.importorskip("opendp.prelude")

ROW = {"unit": qf.Rows(1), "ledger": None}
NASTY = [
    "",
    "nan",
    "0",
    "-3",
    "01",
    "1.0",
    " 7 ",
    "2.5",
    "1e300",
    "2024-02-29",
    "9999-12-31 23:59:59",
    "x",
    "y",
    "\x00",
    "n/a",
    "1.234,5",
    "31.12.2024",
    "01/02/2024",
    "1,234.5",
    "-$1,234",
    "1 234,50 €",
    "12 %",
    "03/11/98",
    "31.12.68 23:59",
]
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


# --- What one unit can change -----------------------------------------------------------------------------------------

FORMS = (NumberForm(","), NumberForm(".", ",", "$"), NumberForm(",", " ", "", " €"), NumberForm(after="%"))
INTERVALS = {"numbers": partitions.number_roots(None, None), "days": periods.date_roots()}


def ask_everything(people, unit):
    """The exact answer to every kind of question, as one dictionary of counts for each."""
    rows = [(name, *row) for name, listed in people.items() for row in listed]
    columns = {key: [row[i] for row in rows] for i, key in enumerate(("id", "a", "b"))}
    answers = []
    with connect(gathers=True) as con:
        engine = DuckEngine(columns)
        if isinstance(unit, qf.Person):
            found = counted_values.count_values_by_person(con, engine, ["a", "b"], unit)
        else:
            found = counted_values.count_values(con, engine, ["a", "b"])
        for column in found.values():
            values = questions.Values(con, column, missing=("x", "2.5"))
            answers.append(dict(zip(CELLS, values.classes().tolist(), strict=True)))
            answers += [
                dict(enumerate(getattr(values, how)().count(asked).tolist())) for how, asked in INTERVALS.items()
            ]
            labels: dict[str | None, int] = {}
            for texts, counts in values.labels():
                labels.update(zip(texts, counts.tolist(), strict=True))
            answers.append(labels)
            answers += [dict(enumerate(values.numbers(form).count(INTERVALS["numbers"]).tolist())) for form in FORMS]
            days = [values.days("dd.mm.yyyy"), values.days("dd/mm/yy"), values.days("dd.mm.yy", 1930)]
            answers += [dict(enumerate(found.count(INTERVALS["days"]).tolist())) for found in days]
    return answers


def largest_moves(one, other):
    """The L1 and squared L2 distance of each pair of answers, and of which none may be more: the largest of each."""
    moves = [[a.get(key, 0) - b.get(key, 0) for key in {*a, *b}] for a, b in zip(one, other, strict=True)]
    return max(sum(map(abs, m)) for m in moves), max(sum(x * x for x in m) for m in moves)


def neighbouring_answers(unit, seed, times):
    """Answers for random data, with and without one person, and with another in that one's place."""
    draw = random.Random(seed)
    for _ in range(times):

        def rows():
            return [(draw.choice(NASTY), draw.choice(NASTY[:4])) for _ in range(draw.randint(1, 4))]

        people = {name: rows() for name in ("p", "q", "r")}
        if isinstance(unit, qf.Rows):
            people = {name: listed[: unit.rows] for name, listed in people.items()}
        others = {name: listed for name, listed in people.items() if name != "q"}
        replaced = {**others, "s": rows()[: unit.rows]}
        answers = [ask_everything(data, unit) for data in (people, others, replaced)]
        yield largest_moves(answers[0], answers[1]), largest_moves(answers[0], answers[2])


@pytest.mark.parametrize(
    "unit",
    [
        qf.Rows(1),
        pytest.param(qf.Rows(3), marks=pytest.mark.slow),
        pytest.param(qf.Person("id", rows=1), marks=pytest.mark.slow),
        pytest.param(qf.Person("id", rows=2), marks=pytest.mark.slow),
    ],
)
def test_one_unit_moves_every_histogram_as_little_as_is_claimed(unit):
    reached = [0, 0]
    for gone, replaced in neighbouring_answers(unit, 1, 14):
        for i, (moved, neighbours) in enumerate(((gone, "add_remove"), (replaced, "replace"))):
            l1, l2_squared = histogram_sensitivity(unit, neighbours)
            assert moved[0] <= l1
            assert moved[1] <= l2_squared
            reached[i] = max(reached[i], moved[0])
    assert reached == [histogram_sensitivity(unit, n)[0] for n in ("add_remove", "replace")]  # and not less


@pytest.mark.slow
def test_a_person_whose_rows_are_not_limited_is_noticed(monkeypatch):
    """The planted bug: all rows of a person are counted."""
    unlimited, unit = qf.Person("id", rows=99), qf.Person("id", rows=2)
    real = counted_values.count_values_by_person
    monkeypatch.setattr(counted_values, "count_values_by_person", lambda con, e, w, _: real(con, e, w, unlimited))
    assert any(gone[0] > 2 for gone, _ in neighbouring_answers(unit, 5, 14))


def test_a_row_without_a_value_that_is_counted_as_a_label_too_is_noticed(monkeypatch):
    """The planted bug: labels are counted without regard to what stands for missing values."""
    few, more = {"p": [("y", "y")]}, {"p": [("y", "y")], "q": [("x", "y")]}
    assert largest_moves(*(ask_everything(data, qf.Rows(1)) for data in (few, more)))[0] == 1
    real = questions.Values.labels

    def labels(values):
        every = list(real(questions.Values(values._con, values._column)))
        every[0][1][0] = values.missing()
        return every

    monkeypatch.setattr(questions.Values, "labels", labels)
    assert largest_moves(*(ask_everything(data, qf.Rows(1)) for data in (few, more)))[0] == 2


@pytest.mark.parametrize("step", [None, Fraction(1), Fraction(1, 100)])
def test_every_level_of_a_tree_asks_about_each_number_once(step):
    """Whatever noise says, intervals of a level are disjoint and cover the line, and there are as many as are paid."""
    draw, roots = np.random.default_rng(5), partitions.number_roots(step, None)
    for _ in range(3):
        asked = []

        def measure(intervals, asked=asked):
            asked.append(list(intervals))
            return draw.normal(0, 100, len(intervals)) * draw.choice([1, 40], len(intervals), p=[0.97, 0.03])

        tree.grow_leaves(roots, lambda leaf: partitions.split_number(leaf, step), measure, 100.0, 600.0, 7)
        assert len(asked) == 7
        assert max(map(len, asked)) > len(roots)
        for listed in asked:
            assert (listed[0][0], listed[-1][1]) == (-inf, inf)
            assert all(one[1] == other[0] for one, other in pairwise(listed))


def test_rows_of_a_person_are_chosen_whatever_their_order_and_whoever_else_is_there():
    draw = random.Random(3)
    rows = [(draw.choice(NASTY), draw.choice(NASTY)) for _ in range(9)]
    unit, found = qf.Person("id", rows=2), []
    for _ in range(4):
        draw.shuffle(rows)
        found.append(ask_everything({"p": rows}, unit))
        both = ask_everything({"z": [("x", "y")] * 5, "p": rows}, unit)
        assert largest_moves(both, found[-1])[0] <= 2
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_all_questions_together_cost_what_is_promised(noise, neighbours, monkeypatch):
    """Every scale that noise is drawn with, priced by OpenDP for the sensitivity, adds up to the loss at most."""
    unit, spent = qf.Rows(2), []
    real = mechanism.measure

    def measure(kind, scale, counts):
        spent.append(scale)
        return real(kind, scale, counts)

    monkeypatch.setattr(mechanism, "measure", measure)
    data = {
        "text": ["a", "b"] * 3000,
        "whole": np.arange(6000) % 5000,
        "date": np.arange(6000).astype("M8[D]"),
        "real": np.linspace(0, 1, 6000),
    }
    plan = plan_discovery(column_kinds(data), epsilon=50, delta=1e-6, unit=unit, neighbours=neighbours, noise=noise)
    run_discovery(data, plan)
    l1, l2_squared = histogram_sensitivity(unit, neighbours)
    loss = plan.epsilon if noise == "laplace" else plan.rho
    cost = sum(Fraction(l1) / Fraction(s) if noise == "laplace" else l2_squared / (2 * Fraction(s) ** 2) for s in spent)
    assert loss / 2 < cost <= loss  # less than all of it, since trees end where nothing is left to cut
    assert FIRST + REST == 1
    if noise == "laplace":
        assert (plan.price.epsilon, plan.price.delta, plan.price.threshold) == (50, Fraction(1, 10**6), plan.threshold)
        assert plan.price.rho == 1250


# --- Thresholds -------------------------------------------------------------------------------------------------------


def exact_tail(kind, scale, least):
    """P(noise >= least), from the definition of the discrete distributions."""
    span = range(-int(60 * scale), int(60 * scale) + 1)
    weigh = (lambda z: exp(-abs(z) / scale)) if kind == "laplace" else (lambda z: exp(-z * z / (2 * scale * scale)))
    return sum(weigh(z) for z in span if z >= least) / sum(map(weigh, span))


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.7, 3.0, 31.0])
def test_tails_are_those_of_the_noise_or_a_hair_more(kind, scale):
    for least in (1, 2, 5, 20, 35):
        bound, tail = float(thresholds.noise_tail(kind, scale, least)), exact_tail(kind, scale, least)
        assert tail <= bound * (1 + 1e-12)
        assert bound <= max(exact_tail(kind, scale, max(least - 1, 0)), tail * (1 + 1e-9))


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_threshold_is_the_smallest_that_keeps_its_delta(kind, rows):
    dp.enable_features("contrib")
    delta = Fraction(1, 10**5)
    found = thresholds.smallest_threshold(kind, 9.0, rows, delta)
    assert rows * thresholds.noise_tail(kind, 9.0, found - rows) <= delta
    assert rows * thresholds.noise_tail(kind, 9.0, found - rows - 1) > delta
    # OpenDP publishes what is equal to its threshold and prices what is above it: its map is that of the next one.
    domain = dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T="i64"))
    if kind == "laplace":
        metric = dp.l01inf_distance(dp.absolute_distance(T="i64"))
        theirs = dp.m.make_laplace_threshold(domain, metric, scale=9.0, threshold=found - 1)
    else:
        metric = dp.l02inf_distance(dp.absolute_distance(T="i64"))
        theirs = dp.m.make_gaussian_threshold(
            domain, metric, scale=9.0, threshold=found - 1, MO="Approximate<ZeroConcentratedDivergence>"
        )
    priced = theirs.map((rows, rows, rows))[1]
    assert float(rows * thresholds.noise_tail(kind, 9.0, found - rows)) == pytest.approx(priced, rel=1e-3)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("planted", [0, 4])
def test_labels_that_one_row_has_are_published_as_rarely_as_is_claimed(noise, planted, monkeypatch):
    """A threshold that is ``planted`` steps too low is noticed. Fails by chance once in 10 million times."""
    plan = plan_discovery({"a": "text"}, epsilon=0.6, delta=0.05, unit=qf.Rows(1), noise=noise)
    scale = plan.scale(REST)
    cutoff, rows = plan.cutoff(scale) - planted, 60_000
    asked, published = questions.Questions(plan), []
    monkeypatch.setattr(type(plan), "cutoff", lambda *_: cutoff)
    monkeypatch.setattr(questions, "Labels", lambda found: published.extend(found) or Labels(tuple(found)))

    class Singles:
        def labels(self):
            yield [None, *(f"v{i}" for i in range(rows))], np.array([0, *[1] * rows])

    asked._find_labels(Singles(), 1.0, {}, "")
    chance = exact_tail(noise, scale, plan.cutoff(scale) + planted - 1)
    assert chance <= plan.threshold  # what is promised
    monkeypatch.setattr(questions, "MOST_LABELS", rows)
    published.clear()
    asked._find_labels(Singles(), 1.0, {}, "")
    found = binomtest(len(published), rows, chance).pvalue
    assert (found > 1e-7) == (planted == 0)


# --- What is found ----------------------------------------------------------------------------------------------------


def test_labels_are_sorted_and_rare_ones_are_others():
    column = ["zebra"] * 4000 + ["ant"] * 6000 + [f"name {i}" for i in range(300)] + [None] * 2000
    schema = qf.discover({"a": column}, epsilon=5, delta=1e-12, noise="gaussian", **ROW)
    assert schema["a"] == Labels(("ant", "zebra"), null="missing", unknown="other")
    assert "name 1" not in json.dumps(schema.to_json())


@pytest.mark.parametrize(
    ("form", "advice"),
    [("{} mg", '"after": " kg"'), ("{}.5", "--missing"), ("1.1.{}", "--missing"), ("it {}", "name labels")],
)
def test_columns_that_leave_much_to_others_are_told_with_what_to_do(form, advice):
    rare, texts = (spread([one.format(i) for i in range(1000, 8000)], 7000) for one in (form, "text {}"))
    assert "note" not in found_of(spread(["x", "y"])).discovered["columns"]["a"]
    schema = found_of([*rare, *spread(["x", "y"], 5000)])
    assert schema["a"].own == ("x", "y")
    said = schema.discovered["columns"]["a"]["note"]
    assert re.match("5[789]% of its values are rare and become 'other'; ", said)
    assert advice in said
    both = {"a": [*rare, *texts[:3000]], "b": spread(["x", "y"], 10_000)}
    left = qf.discover(both, epsilon=20, delta=1e-12, noise="gaussian", **ROW)
    assert advice in left.discovered["left_out"]["a"]


def test_labels_of_records_that_are_ours_get_another_name():
    schema = qf.discover(
        {"a": ["other", "missing", None, "drop"] * 3000}, epsilon=5, delta=1e-12, noise="gaussian", **ROW
    )
    assert schema["a"] == Labels(("missing", "other"), null="(missing)", unknown="(other)")


@pytest.mark.parametrize("text", ["a\nb", "x" * 101, "\x1b[31m", "\u202ecba", "  ", "\ue000", "FILL IN"])
def test_texts_that_are_no_labels_are_others_however_common(text):
    schema = qf.discover({"a": [text, "b"] * 3000}, epsilon=5, delta=1e-12, noise="gaussian", **ROW)
    assert schema["a"].own == ("b",)


def test_free_text_and_identifiers_are_left_out_and_not_quoted():
    n = 4000
    data = {
        "id": [f"SECRET{i}" for i in range(n)],
        "note": [f"SECRET {i}" for i in range(n - 300)] + ["SECRET none"] * 300,
        "sex": ["f", "m"] * (n // 2),
    }
    schema = qf.discover(data, epsilon=3, delta=1e-12, noise="gaussian", **ROW)
    assert list(schema) == ["sex"]
    assert set(schema.discovered["left_out"]) == {"id", "note"}
    assert "SECRET" not in json.dumps(schema.to_json())


def test_common_numbers_have_cells_of_their_own_and_whole_numbers_stay_whole():
    rng = np.random.default_rng(1)
    n = 40_000
    spread = rng.lognormal(8, 1, n)
    data = {
        "income": np.where(rng.random(n) < 0.6, 0, spread.round()).astype(int),
        "hours": np.where(rng.random(n) < 0.2, 99, rng.integers(0, 80, n)),
        "code": rng.choice([1, 2, 7, 9], n),
        "rate": np.where(rng.random(n) < 0.5, 0.0, rng.random(n)),
    }
    schema = qf.discover(data, epsilon=20, delta=1e-12, noise="gaussian", **ROW)
    income, hours, rate = (schema[name] for name in ("income", "hours", "rate"))
    assert all(isinstance(point, int) for point in (*income.points, *hours.points))
    assert income.points[0] == 1
    assert 99 in hours.points
    assert hours.points[-1] == 99
    assert schema["code"] == Labels(("1", "2", "7", "9"), null="other", unknown="other", type="integer")
    assert (hours.least, hours.most, hours.type, rate.type) == (0, 99, "integer", "number")
    assert 1e-6 <= rate.points[0] <= 0.01
    assert schema.discovered["columns"]["hours"]["range"] == [0, 99]
    for name in ("income", "hours", "rate"):
        points = schema[name].points
        assert 15 <= len(points) < partitions.CELLS
        shares = np.histogram(data[name], [-np.inf, *points, np.inf])[0] / n
        light = np.delete(shares, shares.argmax())
        assert light.max() < 2.5 * light.mean()


def test_what_noise_hides_at_the_ends_does_not_crowd_there():
    """In a tail of less than five standard deviations no end is found; the last cell must have a width all the same."""
    years = [partitions.Leaf(Fraction(i), Fraction(i + 1), 60.0, 100.0) for i in range(20, 80)]
    tail = [partitions.Leaf(Fraction(80 + i), Fraction(90 + i), 100.0 - 15 * i, 130.0) for i in (0, 10)]
    low, high = partitions.find_range([*years, *tail], 100.0, Fraction(1), [30, 35, 70, 79])
    assert (low, high) == (20, 96)  # 77 by the counts alone, below the last cut point: 79 plus twice 9, without 97
    # No leaf goes further.
    assert partitions.find_range([*years, *tail], 100.0, Fraction(1), [30, 35, 70, 90]) == (20, 99)
    top = partitions.Leaf(Fraction(99), Fraction(100), 600.0, 100.0)  # a common number by itself is an end
    assert partitions.find_range([*years, top], 100.0, Fraction(1), [30, 70, 99])[1] == 99


class Adversary:
    """Noise without chance: three standard deviations of the noise or so, now more and now less.

    What is counted again has other noise each time, whose mean is no more than three of its own standard deviations:
    either it turns around each time, or it stays, and is the smaller the more often it was counted.
    """

    def __init__(self, turns):
        self.turns, self.calls = turns, 0

    def __call__(self, kind, scale, counts):
        self.calls += 1
        size = 3 * scale * (1.5 if kind == "laplace" else 1)
        size *= (-1) ** self.calls if self.turns else self.calls**0.5 - (self.calls - 1) ** 0.5
        return counts + (size * (1 - 2 * (np.arange(len(counts)) % 2))).astype(int)


NOISES = pytest.mark.parametrize("noise", [None, True, False], ids=["none", "turns", "stays"])


def found_without_chance(column, monkeypatch, noise, kind="gaussian", epsilon=3):
    """What is found of a column with noise that is the same each time, and what is drawn from its cells."""
    measure = (lambda kind, scale, counts: counts) if noise is None else Adversary(noise)
    monkeypatch.setattr(mechanism, "measure", measure)
    schema = qf.discover({"a": column}, epsilon=epsilon, delta=1e-6, noise=kind, **ROW)
    asked = statistics(qf.Structure((("a",),)), schema.domain, qf.Rows(1))
    counted = count({"a": column}, schema, asked, qf.Rows(1)).tables[0].astype(int)
    drawn = draw_values(schema, {"a": np.repeat(np.arange(len(counted)), counted)}, seed=0)["a"]
    return schema["a"], drawn.drop_null().to_numpy()


@NOISES
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_range_ends_where_numbers_do_and_not_at_a_power_of_ten(noise, kind, sign, monkeypatch):
    """A sixty-fourth of the numbers is beyond 100, and none beyond 121."""
    column = sign * np.random.default_rng(3).normal(75, 11.5, 20_000).round(1)
    rule, drawn = found_without_chance(column, monkeypatch, noise, kind)
    assert 100 < (rule.most if sign > 0 else -rule.least) < 130
    assert abs(drawn.mean() - column.mean()) < 0.5
    assert abs(drawn.std() - column.std()) < 1


@NOISES
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("code", [-99, 999])
def test_nothing_is_drawn_between_a_number_that_stands_for_something_else_and_the_others(
    noise, whole, code, monkeypatch
):
    random = np.random.default_rng(3)
    numbers = random.integers(20, 80, 20_000) if whole else random.uniform(20, 80, 20_000).round(2)
    column = np.where(random.random(20_000) < 0.15, code, numbers)
    rule, drawn = found_without_chance(column, monkeypatch, noise)
    assert abs((drawn == code).mean() - (column == code).mean()) < 0.001
    assert drawn[drawn != code].min() >= 20
    assert drawn[drawn != code].max() <= 80
    assert len(rule.gaps) == 1
    assert Schema.from_json(json.loads(json.dumps(Schema({"a": rule}).to_json())))["a"] == rule


@NOISES
@pytest.mark.parametrize(
    "numbers",
    [
        (0.5, 1, 1.5, 2),
        (1234567, 2345678, 2345699, 9000001),
        (0, 1_000_000, 5_000_000),
        (0.0, 0.125, 99.99, 12_345.75),
        (-0.25, 0.0, 0.25, 1e6),
        (-7_654_321, 123_456_789_012),
    ],
)
def test_numbers_that_fill_a_cell_by_themselves_are_drawn_as_they_are(numbers, noise, monkeypatch):
    column = np.array(spread(numbers))
    for one in (column, list(map(repr, column.tolist()))):
        _, drawn = found_without_chance(one, monkeypatch, noise)
        assert sorted(set(drawn.tolist())) == sorted(numbers)
        assert np.bincount(np.searchsorted(numbers, drawn)).tolist() == [12_000 // len(numbers)] * len(numbers)


@NOISES
def test_common_numbers_among_others_are_drawn_as_they_are(noise, monkeypatch):
    random = np.random.default_rng(3)
    column = random.lognormal(3, 0.5, 20_000).round(2)
    column[::5], column[1::5] = 17.5, 0
    _, drawn = found_without_chance(column, monkeypatch, noise)
    for number in (17.5, 0):
        assert abs((drawn == number).mean() - (column == number).mean()) < 0.01
    assert abs(np.median(drawn) - np.median(column)) < 0.5


@NOISES
@pytest.mark.parametrize("code", [-9999, 9999])
def test_a_few_that_stand_for_something_else_are_a_value_of_their_own(noise, code, monkeypatch):
    """One in a hundred is less than a cell's share, and more than noise: 9999 is drawn, and nothing below it."""
    random = np.random.default_rng(3)
    column = np.where(random.random(20_000) < 0.01, code, random.integers(20, 80, 20_000))
    _, drawn = found_without_chance(column, monkeypatch, noise)
    assert (drawn == code).sum() == (column == code).sum()
    others = drawn[drawn != code]
    assert (others.min(), others.max()) == (20, 79)


@NOISES
def test_a_few_far_from_the_others_that_are_no_single_number_widen_no_range(noise, monkeypatch):
    random = np.random.default_rng(3)
    column = np.where(
        random.random(20_000) < 0.004, random.integers(5000, 9999, 20_000), random.integers(20, 80, 20_000)
    )
    rule, drawn = found_without_chance(column, monkeypatch, noise)
    assert ((drawn > 80) & (drawn < 5000)).mean() < 0.002
    assert rule.least == 20


def test_counts_get_better_the_more_often_they_are_taken():
    """Leaves that are not cut are counted on every level: their noise is what is claimed, and smaller for it."""
    random, times = np.random.default_rng(3), 2000
    truth = {(0, 100): 2000, (0, 50): 500, (50, 100): 1500, (100, 1000): 3000, (1000, 10_000): 0}
    roots = [(Fraction(low), Fraction(high)) for low, high in truth if high - low > 50]

    def split(leaf):
        return [(leaf.low, leaf.low + 50), (leaf.low + 50, leaf.high)] if leaf.width == 100 else []

    def measure(asked):
        return [truth[int(low), int(high)] + random.normal(0, 100) for low, high in asked]

    found = [tree.grow_leaves(roots, split, measure, 100.0, 600.0, 7) for _ in range(times)]
    assert all([leaf.low for leaf in leaves] == [0, 50, 100] for leaves in found)
    for place, expected in enumerate((500, 1500, 3000)):
        counts, std = [leaves[place].count for leaves in found], found[0][place].std
        assert abs(np.mean(counts) - expected) < 5 * std / times**0.5
        assert np.std(counts) == pytest.approx(std, rel=0.1)
    assert found[0][2].std == pytest.approx(100 / 7**0.5)


def test_gaps_never_fail_whatever_is_counted(monkeypatch):
    """What is found is a rule, and every cell of it has values, with noise as large as the counts."""
    random = np.random.default_rng(3)
    for _ in range(40):
        parts = [random.normal(0, 10.0 ** random.integers(-3, 6), 300) for _ in range(3)]
        atoms = random.choice(np.concatenate(parts).round(random.integers(0, 4)), 3)
        column = np.concatenate([*parts, random.choice(atoms, 900)]).round(random.integers(0, 5))
        monkeypatch.setattr(
            mechanism, "measure", lambda kind, scale, counts: counts + random.normal(0, scale, len(counts)).astype(int)
        )
        asked = {"epsilon": float(random.choice([0.3, 1, 5, 9])), "known": {"b": ["x"]}, **ROW}
        schema = qf.discover({"a": column, "b": ["x"] * len(column)}, **asked)
        if isinstance(rule := dict(schema.attributes).get("a"), Cuts):
            drawn = draw_values(Schema({"a": rule}), {"a": np.arange(len(rule.own))}, seed=0)["a"].to_numpy()
            assert np.searchsorted(rule.points, drawn, side="right").tolist() == list(range(len(rule.own)))


@pytest.mark.parametrize(
    ("kind", "low", "high"), [("uint8", 0, 255), ("int8", -128, 127), ("uint16", 0, 65_535), ("int16", -32_768, 32_767)]
)
def test_values_keep_to_what_their_type_holds(kind, low, high, monkeypatch):
    """Also where noise is so large that where numbers end is not found."""
    column = np.linspace(low, high, 8000).astype(kind)
    for noise in (lambda kind, scale, counts: counts, Adversary(turns=True), Adversary(turns=False)):
        for epsilon in (0.1, 0.3, 3):
            monkeypatch.setattr(mechanism, "measure", noise)
            schema = qf.discover(pa.table({"a": column}), epsilon=epsilon, **ROW)
            rule = schema["a"]
            assert low <= rule.least < rule.most <= high
            codes = np.arange(5000) % len(rule.own)
            assert draw_values(schema, {"a": codes}, seed=0)["a"].type == pa.type_for_alias(kind)


@pytest.mark.parametrize(("noise", "scales"), [("laplace", 18), ("gaussian", 5.6)])
def test_noise_alone_is_no_value(noise, scales, monkeypatch):
    """Wherever nothing is, noise is as large as it is once in 10^8 times: no label, range or blank comes of it.

    So is the mean of what is counted again. Beside what holds something it is as large as once in ten thousand times.
    """
    levels = 0

    def measure(kind, scale, counts):
        nonlocal levels
        size, holds = scales * scale, counts > 0
        if len(counts) != len(CELLS):
            times = levels % partitions.NUMBER_LEVELS + 1
            levels, size = levels + 1, size * (times**0.5 - (times - 1) ** 0.5)
        beside = np.convolve(holds, [1, 1, 1], "same") > 0
        return counts + np.where(holds, 0, np.where(beside, size * 0.5, size)).astype(int)

    monkeypatch.setattr(mechanism, "measure", measure)
    data = {"label": ["31", "42"] * 20_000, "number": [str(i % 100) for i in range(40_000)]}
    schema = qf.discover(data, epsilon=20, delta=1e-6, noise=noise, **ROW)
    assert schema["label"] == Labels(("31", "42"), null="other", unknown="other", type="integer")
    assert schema["number"].type == "integer"
    assert schema["number"].null == "other"
    assert schema.discovered["columns"]["number"]["range"] == [0, 99]


@pytest.mark.parametrize("name", ["normal", "heavy"])
def test_cut_points_are_quantiles(name):
    """With hardly any noise, cells have the same share, up to the digits at which points are set."""
    rng = np.random.default_rng(2)
    column = rng.normal(50, 20, 60_000) if name == "normal" else rng.standard_cauchy(60_000)
    with pytest.warns(UserWarning, match="epsilon 1000 promises next to nothing"):
        rule = qf.discover({"a": column}, epsilon=1000, **ROW)["a"]
    assert isinstance(rule, Cuts)
    ranks = np.searchsorted(np.sort(column), rule.points) / column.size
    assert len(rule.points) >= 20
    assert np.diff([0, *ranks, 1]).max() < 2.2 / partitions.CELLS
    # At the ends, where numbers thin out, a cell may be cut in two.
    assert np.diff([0, *ranks[1:-1], 1]).min() > 0.4 / partitions.CELLS
    assert min(ranks[0], 1 - ranks[-1]) > 0.1 / partitions.CELLS


def test_a_public_range_and_what_a_column_holds_cost_nothing_to_say():
    rng = np.random.default_rng(2)
    data = {
        "age": [str(age) for age in rng.integers(0, 100, 5000)],
        "zip": [f"{z:05}" for z in rng.integers(0, 4, 5000)],
    }
    with pytest.raises(Error, match="'age', 'zip' cannot be discovered with epsilon alone"):
        qf.discover(data, epsilon=3, **ROW)
    schema = qf.discover(data, epsilon=3, known={"age": qf.Range(0, 120), "zip": ["00000", "00001"]}, **ROW)
    assert isinstance(schema["age"], Cuts)
    assert (schema["age"].least, schema["age"].most) == (0, 120)
    assert schema["zip"] == Labels(("00000", "00001"))
    assert list(schema.discovered["columns"]) == ["age"]
    assert schema.discovered["delta"] is None
    codes = qf.discover(data, epsilon=5, delta=1e-12, noise="gaussian", known={"age": None}, **ROW)
    assert codes["zip"].own == ("00000", "00001", "00002", "00003")  # codes, since they begin with zeros
    assert codes.discovered["left_out"] == {"age": "it was to be left out"}


def test_dates_have_a_period_of_which_a_few_dozen_cover_the_range():
    rng = np.random.default_rng(2)
    days = np.datetime64("2021-03-10") + rng.integers(0, 900, 20_000)
    texts = [*map(str, days), *["9999-12-31"] * 3000, *["soon"] * 100, *[""] * 3000]
    for source in ({"seen": days}, {"seen": texts}, {"seen": days.astype("M8[s]")}):
        rule = qf.discover(source, epsilon=10, delta=1e-12, noise="gaussian", **ROW)["seen"]
        assert isinstance(rule, Dates)
        assert (rule.period, rule.start, rule.end) == ("month", "2021-03-01", "2023-09-01")
    assert rule.null == "other"


def test_dates_of_which_no_year_stands_out_have_the_range_of_their_decades(monkeypatch):
    """About 120 dates a year, where noise would have to be told from 380: of a decade there are 1,200."""
    monkeypatch.setattr(mechanism, "measure", lambda kind, scale, counts: counts)
    days = np.datetime64("1930-01-01") + np.arange(0, 365 * 90, 3)
    asked = {"known": {"born": "dates"}, "epsilon": 0.3, "unit": qf.Rows(1), "ledger": None}
    for source in (days, [f"{day:%d/%m/%y}" for day in days.astype(object)]):
        rule = qf.discover({"born": source}, **asked, forms=qf.Forms(dates="dd/mm/yy", years_from=1930))["born"]
        assert (rule.period, rule.start, rule.end) == ("year", "1930-01-01", "2020-01-01")


@pytest.mark.parametrize("count", [950.0, 1250.0])
def test_months_that_stand_out_together_are_the_range_and_years_do_not_reach_beyond_it(count):
    """Of 14 months every other one is evident by itself; years would have ten more, in which there is nothing."""
    firsts = [datetime.date(2014 + i // 12, i % 12 + 1, 1) for i in range(73)]
    days = [Fraction((first - datetime.date(1970, 1, 1)).days) for first in firsts]
    many = [count, 2200 - count] * 7
    counts = [*[90.0, -110.0] * 15, *many, *[-120.0, 130.0] * 14]
    leaves = [tree.Leaf(*ends, held, 170.0) for ends, held in zip(pairwise(days), counts, strict=True)]
    rule = periods.date_rule(leaves, 170.0, 1020.0)
    assert (rule.period, rule.start, rule.end) == ("month", "2016-07-01", "2017-09-01")
    assert periods.count_covered(leaves, rule) == sum(many)
    rule = periods.date_rule(leaves, 900.0, 5400.0)
    assert (rule.period, rule.start, rule.end) == ("year", "2016-01-01", "2018-01-01")  # which noise hides


def test_a_few_years_that_stand_out_by_chance_are_not_the_range_of_dates_of_birth():
    days = [Fraction((datetime.date(year, 1, 1) - datetime.date(1970, 1, 1)).days) for year in range(1930, 2011)]
    counts = [{1932: 400.0, 1986: 410.0}.get(year, 180.0) for year in range(1930, 2010)]
    leaves = [tree.Leaf(*ends, count, 65.0) for ends, count in zip(pairwise(days), counts, strict=True)]
    rule = periods.date_rule(leaves, 65.0, 390.0)
    assert (rule.period, rule.start, rule.end) == ("year", "1930-01-01", "2010-01-01")


def test_columns_of_dates_and_numbers_that_leave_much_to_others_are_told():
    days = [str(day) for day in np.datetime64("2024-01-01") + np.arange(20_000) % 300]
    columns = {"day": [*days, *["9999-12-31"] * 5000], "n": [str(i % 50) for i in range(20_000)] + ["a lot"] * 5000}
    asked = {"epsilon": 20, "delta": 1e-12, "noise": "gaussian", **ROW}
    found = qf.discover(columns, known={"day": "dates", "n": "numbers"}, **asked).discovered["columns"]
    assert "20% of its values are no dates from 2024-01-01 until before 2024-11-01 and" in found["day"]["note"]
    assert re.match("about 20% of its values are no numbers and become 'other'; .*--missing", found["n"]["note"])
    most = {"day": [*days, *["9999-12-31"] * 1500]}
    assert "note" not in qf.discover(most, **asked).discovered["columns"]["day"]
    ask = questions.Questions(plan_discovery({"day": "date"}, epsilon=1, unit=qf.Rows(1)))
    assert ask._note_others(80.0, 100.0, 5.0, "dates") == {}  # noise, of which the standard deviation is 11, may be it
    assert ask._note_others(70.0, 100.0, 5.0, "dates")


def test_numbers_that_are_nearly_all_alike_are_said_to_be():
    columns = {"a": spread(["45.0"]), "b": spread(["x", "y"])}
    left = qf.discover(columns, epsilon=5, delta=1e-12, noise="gaussian", **ROW).discovered["left_out"]
    assert "or too many of them alike" in left["a"]


def test_persons_name_themselves_and_are_limited():
    data = {"user": ["u"] * 50_000 + [f"v{i}" for i in range(4000)], "a": ["rare"] * 50_000 + ["b", "c"] * 2000}
    schema = qf.discover(data, epsilon=5, delta=1e-12, noise="gaussian", unit=qf.Person("user", rows=2), ledger=None)
    assert schema["a"].own == ("b", "c")
    assert "names the persons" in schema.discovered["left_out"]["user"]
    with pytest.raises(Error, match="rows=k"):
        qf.discover(data, epsilon=5, delta=1e-12, noise="gaussian", unit=qf.Person("user", normalise=True), ledger=None)


def test_sources_of_every_kind_find_the_same(tmp_path):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    data = {"sex": ["f", "m", "m", ""] * 5000, "n": [str(i % 7) for i in range(20_000)]}
    table = pa.table(data)
    pq.write_table(table, tmp_path / "a.parquet")
    rows = "\n".join(map(",".join, zip(*data.values(), strict=True)))
    (tmp_path / "a.csv").write_text("sex,n\n" + rows + "\n")
    sources = [
        data, table, tmp_path / "a.parquet", tmp_path / "a.csv", pandas.DataFrame(data), polars.DataFrame(data),
        pa.RecordBatchReader.from_batches(table.schema, table.to_batches()), duckdb.from_arrow(table),
    ]  # fmt: skip
    try:
        import ibis

        con = ibis.duckdb.connect()
        con.create_table("visits", table)
        sources.append(con.table("visits"))
    except ImportError:
        pass
    expected = Schema(
        {
            "sex": Labels(("f", "m"), null="missing", unknown="other"),
            "n": Labels(tuple("0123456"), null="other", unknown="other", type="integer"),
        }
    )
    for source in sources:
        header = {"header": True} if str(source).endswith(".csv") else {}
        found = qf.discover(source, epsilon=10, delta=1e-12, noise="gaussian", **header, **ROW)
        assert {rule.stored for _, rule in found.attributes} <= {None, "string", "large_string"}
        assert Schema({name: replace(rule, stored=None) for name, rule in found.attributes}) == expected
    for source in (polars.LazyFrame(data), np.zeros((3, 2), int)):
        with pytest.raises(Error, match="columns"):
            qf.discover(source, epsilon=10, delta=1e-12, noise="gaussian", **ROW)
    with pytest.raises(Error, match="header=True"):
        qf.discover(tmp_path / "a.csv", epsilon=10, delta=1e-12, noise="gaussian", **ROW)


@pytest.mark.slow
def test_no_value_of_any_type_makes_a_discovery_fail(monkeypatch):
    """All extreme values of all types of Arrow, read as whatever the type may hold; nothing is left out of a count."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "counting"))
    extremes = pytest.importorskip("extremes")
    for name, (array, _) in extremes.arrow_columns().items():
        table = pa.table({"a": array, "id": pa.array(["p", "q"] * len(array))[: len(array)]})
        kind = column_kinds(table)["a"]
        if kind in ("other", "boolean"):
            continue
        for unit in (qf.Rows(1), qf.Person("id", rows=1000)):
            with connect(gathers=True) as con:
                if isinstance(unit, qf.Person):
                    found = counted_values.count_values_by_person(con, DuckEngine(table), ["a"], unit)["a"]
                else:
                    found = counted_values.count_values(con, DuckEngine(table), ["a"])["a"]
                values = questions.Values(con, found)
                assert values.classes().sum() == len(array), name
                assert sum(counts.sum() for _, counts in values.labels()) <= len(array)
                assert values.numbers().count(INTERVALS["numbers"]).sum() <= len(array)
                assert values.days().count(INTERVALS["days"]).sum() <= len(array)


def test_more_or_overlapping_questions_than_were_paid_for_are_refused():
    plan = plan_discovery({"a": "integer"}, epsilon=1, unit=qf.Rows(1))
    values = questions.Sorted(np.arange(3.0), np.ones(3, np.int64))
    ask = questions.Questions(plan)._ask_levels(values, 1.0, 2)
    for _ in range(2):
        ask([(0.0, 1.0), (1.0, 2.0)])
    with pytest.raises(Error, match="than were paid for"):
        ask([(0.0, 1.0)])
    with pytest.raises(Error, match="overlap"):
        values.count([(0.0, 2.0), (1.0, 3.0)])
    with pytest.raises(Error, match="overlap"):
        values.count([(0.0, 2.0), (2.0, 1.0), (1.0, 3.0)])  # one that ends before it begins


@pytest.mark.parametrize("side", [1, -1])
def test_numbers_that_go_on_beyond_the_last_end_of_a_leaf_are_discovered(side):
    """The leaf beside a range may be unbounded; what is then known of the range is its own leaf."""
    ends = [(Fraction(10) ** 17, Fraction(10) ** 18, 305.0), (Fraction(10) ** 18, inf, 2614.0)]
    if side < 0:
        ends = [(-high, -low, count) for low, high, count in reversed(ends)]
    found = partitions.find_range([tree.Leaf(low, high, count, 14.0) for low, high, count in ends], 14.0, None)
    assert found == (ends[0][0], ends[1][1])


def test_empty_sources_and_columns_of_nothing():
    with pytest.raises(Error, match="no column is left"):
        qf.discover({"a": [], "b": np.array([], float)}, epsilon=1, delta=1e-12, noise="gaussian", **ROW)
    schema = qf.discover(
        {"a": [None] * 5000, "b": [True, False] * 2500, "c": ["x"] * 5000},
        epsilon=3,
        delta=1e-12,
        noise="gaussian",
        **ROW,
    )
    assert list(schema) == ["b", "c"]
    typed = pa.table({"b": [True, None], "c": ["x", "x"], "d": [b"1", b"2"], "e": pa.array([[1], [2]])})
    plan = plan_discovery(column_kinds(typed), epsilon=3, delta=1e-12, noise="gaussian", unit=qf.Rows(1))
    assert plan.known == {"b": Labels(("false", "true"), null="missing", unknown="missing", type="boolean")}
    assert set(plan.left_out) == {"d", "e"}


# --- What is paid -----------------------------------------------------------------------------------------------------


@pytest.fixture
def book(tmp_path):
    return qf.Ledger.create(tmp_path / "budget.db", epsilon=4, delta="1e-6", unit=qf.Rows(1), accounting_by="zcdp")


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_a_discovery_is_paid_before_it_is_read(book, noise, monkeypatch):
    data = {"a": ["x", "y"] * 2000}
    terms = {"epsilon": "0.4", "delta": "1e-7", "unit": qf.Rows(1), "ledger": book, "noise": noise}
    schema = qf.discover(data, **terms)
    (charge,) = book.charges
    assert (charge.epsilon, charge.delta) == (Fraction(2, 5), Fraction(1, 10**7))
    assert charge.threshold == Fraction(1, 10**7) / (1 if noise == "laplace" else 2)
    assert schema.discovered["ledger"]["digest"] == charge.digest
    assert schema.discovered["id"] == charge.release
    if noise == "laplace":
        assert charge.cost == Fraction(2, 25)
    monkeypatch.setattr(questions.Values, "classes", lambda self: 1 / 0)
    with pytest.raises(Error, match="the charge stands"):
        qf.discover(data, **terms)
    assert len(book.charges) == 2


def test_a_pure_ledger_pays_for_numbers_and_refuses_thresholds(tmp_path):
    pure = qf.Ledger.create(tmp_path / "pure.db", epsilon=2, unit=qf.Rows(1))
    data = {"n": np.arange(1000) % 9, "a": ["x", "y"] * 500}
    with pytest.raises(Error, match="counts pure epsilon and cannot pay for a threshold"):
        qf.discover(data, epsilon=1, delta=1e-6, unit=qf.Rows(1), ledger=pure)
    assert pure.spent == 0
    schema = qf.discover(data, epsilon=1, unit=qf.Rows(1), ledger=pure, known={"a": ["x", "y"]})
    assert pure.spent == 1
    assert schema.discovered["threshold_delta"] is None


@pytest.mark.parametrize("data", [{"a": ["x", "y"] * 2000}, {"n": np.arange(2000)}], ids=["labels", "numbers"])
def test_a_ledger_pays_for_a_discovery_of_all_that_it_has(data, tmp_path):
    terms = {"epsilon": 1, "delta": "1e-6", "unit": qf.Rows(1)}
    book = qf.Ledger.create(tmp_path / "z.db", accounting_by="zcdp", **terms)
    qf.discover(data, noise="gaussian", ledger=book, **terms)
    assert 0 <= book.remaining < 1e-24


@pytest.mark.parametrize("ends", [(0, 10**400), (-(10**400), 0), (0, "1e-400"), (1, 1), (2, 1), ("x", 1)])
def test_a_range_that_floats_cannot_tell_is_refused(ends):
    with pytest.raises(Error, match="from a lower number to a higher one"):
        qf.Range(*ends)


def test_a_policy_limits_what_is_promised_and_the_schema_names_it(tmp_path, monkeypatch):
    policy = tmp_path / "policy.toml"
    monkeypatch.setenv("QUIETFIELD_POLICY", str(policy))
    policy.write_text("max_epsilon = 2\nmax_delta = 1e-8\n")
    with pytest.raises(qf.PolicyRefused, match="delta is at most 1e-08"):
        qf.discover({"a": ["x"]}, epsilon=1, delta=1e-7, **ROW)
    schema = qf.discover({"a": ["x"] * 2000}, epsilon=1, delta=1e-8, **ROW)
    assert schema.discovered["policy"]["digest"]


def test_a_share_of_a_larger_charge():
    plan = plan_discovery(
        {"a": "text", "b": "integer"},
        rho=Fraction(1, 2),
        threshold=Fraction(1, 10**7),
        noise="gaussian",
        unit=qf.Rows(1),
    )
    assert (plan.rho, plan.threshold) == (Fraction(1, 2), Fraction(1, 10**7))
    with pytest.raises(Error, match="share of a larger charge"):
        _ = plan.price
    schema = run_discovery({"a": ["x", "y"] * 500, "b": np.arange(1000) % 3}, plan)
    assert schema.discovered["epsilon"] is None
    assert schema.discovered["rho"] == "1/2"
    numbers = plan_discovery(
        {"b": "integer"}, rho=Fraction(1), threshold=Fraction(1, 9), noise="gaussian", unit=qf.Rows(1)
    )
    assert numbers.threshold is None  # nothing spends it


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"neighbours": "paper"}, "add_remove or replace"),
        ({"known": {"z": None}}, "no column 'z', which --leave-out or --known"),
        ({"known": {"a": "words"}}, "expected one of"),
        ({"known": {"b": "dates"}}, "cannot hold dates"),
        ({"known": {"a": None, "b": None}}, "nothing is left"),
        ({"known": 3}, "known is a Schema"),
        ({"known": {"b": Labels(["x"], column="a")}}, "another name"),
        ({"noise": "gaussian", "delta": None}, "needs a delta"),
        ({"epsilon": 1e-17}, "larger epsilon"),
    ],
)
def test_what_is_public_and_wrong_costs_nothing(book, asked, said):
    terms = {"epsilon": 1, "delta": 1e-7, "unit": qf.Rows(1), "ledger": book, **asked}
    with pytest.raises(Error, match=said):
        qf.discover({"a": ["x"], "b": np.array([1])}, **terms)
    assert not book.charges


# --- The schema and its file ------------------------------------------------------------------------------------------


def test_a_schema_keeps_what_was_paid_for_it_and_reads_records_alike(tmp_path):
    schema = qf.discover({"a": ["x", "y"] * 2000}, epsilon=2, delta=1e-6, **ROW)
    schema.save(tmp_path / "schema.json")
    loaded = Schema.load(tmp_path / "schema.json")
    assert loaded.discovered == schema.discovered
    assert loaded == schema == Schema(dict(schema.attributes))
    assert hash(loaded) == hash(Schema(dict(schema.attributes)))
    release = qf.release({"a": ["x", "z", None]}, loaded, [("a",)], epsilon=1, unit=qf.Rows(1), ledger=None)
    assert release.domain.labels("a") == ("x", "y", "other")
    assert Schema(dict(schema.attributes)).to_json().get("discovered") is None


def test_rules_that_are_known_stay_as_they_are():
    known = Schema({"kind": Labels(["x", "y"], column="a"), "b": 3}, [{"kind": "x", "b": 0}])
    schema = qf.discover({"c": ["u", "v"] * 2000, "a": ["x", "y"] * 2000, "b": [0, 1] * 2000}, epsilon=3, delta=1e-6,
                         known=known, **ROW)  # fmt: skip
    assert list(schema) == ["c", "kind", "b"]
    assert schema["kind"] == known["kind"]
    assert schema.domain.impossible


# --- The command line -------------------------------------------------------------------------------------------------


def messy_file(path, rows=20_000):
    """A CSV file of 30 columns as people have them, with marked values that nobody else has."""
    rng = np.random.default_rng(7)
    diagnoses = np.array([f"{c}{i:02}" for c in "ABCDEFG" for i in range(100)])
    weights = 1 / np.arange(1, 701)
    day = np.datetime64("2019-01-01")
    columns = {
        "case": [f"CASE-{i:07}" for i in range(rows)],
        "note": [f"SECRET {i} seen" for i in range(rows)],
        "diagnosis": rng.choice(diagnoses, rows, p=weights / weights.sum()),
        "sex": rng.choice(["f", "m", ""], rows, p=[0.5, 0.45, 0.05]),
        "age": rng.integers(0, 100, rows),
        "income": np.where(rng.random(rows) < 0.3, 0, rng.lognormal(8, 1, rows).round(2)),
        "seen": (day + rng.integers(0, 1000, rows)).astype(str),
        "wrong": np.where(rng.random(rows) < 0.03, "n/a", rng.integers(0, 50, rows).astype(str)),
        "blank": [""] * rows,
        "ward": rng.integers(1, 9, rows),
    }
    columns |= {f"answer {i}": rng.choice(["yes", "no", "don't know", ""], rows) for i in range(20)}
    with open(path, "w", encoding="utf-8") as file:
        file.write(",".join(columns) + "\n")
        for row in zip(*columns.values(), strict=True):
            file.write(",".join(map(str, row)) + "\n")
        file.write("broken line\n")
    return columns


def test_thirty_messy_columns(tmp_path, capsys):
    messy_file(tmp_path / "visits.csv")
    ledger, out = tmp_path / "budget.db", tmp_path / "schema.json"
    create = [
        "ledger",
        "create",
        str(ledger),
        "--unit",
        "rows:1",
        "--accounting",
        "zcdp",
        "--epsilon",
        "8",
        "--delta",
        "1e-6",
    ]
    assert main(create) == 0
    asked = ["schema", str(tmp_path / "visits.csv"), "--header", "--discover", "--epsilon", "4", "--delta", "1e-7",
             "--noise", "gaussian", "--unit", "rows:1", "--ledger", str(ledger), "--out", str(out)]  # fmt: skip
    assert main(asked) == 0
    said = capsys.readouterr().out + out.read_text()
    assert "SECRET" not in said
    assert "CASE-" not in said
    schema = Schema.load(out)
    assert set(schema.discovered["left_out"]) == {"case", "note", "blank"}
    assert {name: schema[name].kind for name in ("diagnosis", "age", "income", "seen", "wrong", "ward")} == {
        "diagnosis": "labels", "age": "cuts", "income": "cuts", "seen": "dates", "wrong": "cuts", "ward": "labels",
    }  # fmt: skip
    assert schema["answer 3"] == Labels(("don't know", "no", "yes"), null="missing", unknown="other")
    assert schema["ward"].own == tuple("12345678")
    assert schema["seen"].period == "month"
    assert schema.drops == ()
    stat = out.stat()
    assert stat.st_mtime == pytest.approx(np.datetime64(schema.discovered["created"][:-1]).astype(int))
    assert main(["ledger", "show", str(ledger), "--against", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "of it by thresholds" in shown
    assert f"{out}: charge 1" in shown
    content = json.loads(capsys.readouterr().out) if main(["ledger", "show", str(ledger), "--json"]) == 0 else {}
    assert content["thresholds"] == str(Fraction(1, 2 * 10**7))
    assert Fraction(content["limit"]) < Fraction(content["total"])
    # What was discovered pays for tables: the release is made with it.
    cliques = '[["sex", "ward"], ["age"]]'
    release = ["release", str(tmp_path / "visits.csv"), "--schema", str(out), "--structure", cliques,
               "--epsilon", "1", "--unit", "rows:1", "--ledger", str(ledger), "-o", str(tmp_path / "a")]  # fmt: skip
    assert main(release) == 0


def test_the_command_line_asks_who_pays_and_takes_what_is_known(tmp_path, capsys):
    data = tmp_path / "rows.csv"
    data.write_text("sex,age,zip\n" + "f,31,1\nm,42,2\n" * 2000)
    ask = ["schema", str(data), "--header", "--discover"]
    assert main([*ask, "--no-ledger"]) == 1
    assert "say --epsilon" in capsys.readouterr().err
    assert main([*ask, "--epsilon", "3", "--no-ledger"]) == 1
    assert "say whom to protect" in capsys.readouterr().err
    ask += ["--unit", "rows:1"]
    assert main([*ask, "--epsilon", "3"]) == 1
    assert "say who pays" in capsys.readouterr().err
    assert main([*ask, "--epsilon", "3", "--no-ledger"]) == 1
    assert "'sex', 'age', 'zip' cannot be discovered with epsilon alone" in capsys.readouterr().err
    assert main(["schema", str(data), "--header", "--epsilon", "3"]) == 1
    assert "go with --discover" in capsys.readouterr().err
    assert main(["schema", str(data), "--header", "--out", str(tmp_path / "known.json")]) == 0
    known = json.loads((tmp_path / "known.json").read_text())
    known["attributes"][0] |= {"labels": ["f", "m"]}
    (tmp_path / "known.json").write_text(json.dumps(known))
    capsys.readouterr()
    more = ["--epsilon", "3", "--delta", "1e-6", "--no-ledger", "--known", str(tmp_path / "known.json")]
    assert main([*ask, *more, "--leave-out", "zip"]) == 0
    captured = capsys.readouterr()
    schema = Schema.from_json(json.loads(captured.out))
    assert schema["sex"] == Labels(("f", "m"), column="sex")
    assert schema["age"].own == ("31", "42")
    assert "zip is left out" in captured.err


def test_a_schema_that_cannot_be_written_is_shown_and_not_lost(tmp_path, capsys, monkeypatch):
    pq.write_table(pa.table({"sex": ["f", "m"] * 2000}), tmp_path / "rows.parquet")

    def fail(*_, **__):
        raise qf.FileError("cannot write it.")

    monkeypatch.setattr("quietfield.cli.schema.write_atomically", fail)
    asked = ["schema", str(tmp_path / "rows.parquet"), "--discover", "--epsilon", "3", "--delta", "1e-6"]
    asked += ["--unit", "rows:1", "--no-ledger"]
    assert main([*asked, "--out", str(tmp_path / "schema.json")]) == 1
    captured = capsys.readouterr()
    assert Schema.from_json(json.loads(captured.out))["sex"].own == ("f", "m")
    assert "it is shown, keep it" in captured.err


@pytest.mark.skipif(not (SHARED / "adult.parquet").exists(), reason="the shared data are not here")
def test_adult_has_the_labels_that_its_domain_has():
    data = pq.read_table(SHARED / "adult.parquet")
    schema = qf.discover(data, epsilon=4, delta=1e-6, noise="gaussian", **ROW)
    assert set(schema) == set(data.column_names)
    for name in ("sex", "race", "income>50K", "relationship"):
        found = set(map(str, data[name].unique().to_pylist()))
        assert set(schema[name].own) == found
    for name, rule in schema.attributes:
        if isinstance(rule, Cuts):
            shares = np.histogram(data[name].to_numpy(), [-np.inf, *rule.points, np.inf])[0] / len(data)
            assert shares.min() > 0
            assert len(rule.points) >= 5


@pytest.mark.slow
def test_every_pair_of_classes_is_told_apart():
    """Each text is of one class, by what the rules would make of it."""
    expected = {
        "missing": ["", "nan"],
        "mark": ["-", "NA", "?", ".", "n/a"],
        "plain": ["0", "-3", "20230229", "18991231", "202401011"],
        "spelled": ["1.0", " 7 ", "-0", "+5"],
        "fraction": ["2.5", "1e300", "0.5", "1.5000", "1234.500"],
        "either point": ["1.000", "1.500", "-12.345"],
        "comma": ["0,5", "-1234,5", "3,", " 1,25 ", "0,123", "1234,567", "0.123,5"],
        "pointed": ["1.234.567", "-12.345.678.901"],
        "pointed comma": ["1.234,50", "+1.234.567,"],
        "either comma": ["1,234", "-12,345"],
        "grouped": ["1,234,567", "-12,345,678,901"],
        "grouped fraction": ["1,234.5", "+1,234,567.", " 12,345.678 "],
        "either space": ["560 001", "1\u202f234"],
        "spaced": ["1 234 567"],
        "spaced fraction": ["1 234.5", "-1\u00a0234.50"],
        "spaced comma": ["1 234,5", "1 234 567,00"],
        "quoted": ["1'234", "12’345’678"],
        "quoted fraction": ["1'234.50"],
        "plain %": ["5%", "-12 %", "100 %"],
        "fraction %": ["2.5%", ".5 %"],
        "comma %": ["2,5 %"],
        "plain $": ["$5", "-$5", "$ -5"],
        "grouped fraction $": ["$1,234.50"],
        "either comma $": ["$1,234", "- $1,234"[2:]],
        "fraction $": ["$0.99"],
        "comma after €": ["3,50 €"],
        "pointed comma after €": ["1.234,50€"],
        "either point after €": ["1.234 €"],
        "spaced comma after €": ["1 234,50 €"],
        "grouped £": ["£1,234,567"],
        "comma €": ["€ 3,50"],
        "yyyy-mm-dd": ["2024-02-29"],
        "yyyy-mm-dd time": ["9999-12-31 23:59:59", "2024-02-29T12:00+05:30"],
        "dd.mm.yyyy": ["31.12.2024", "1.2.2024"],
        "dd.mm.yyyy time": ["29.02.2024 23:59"],
        "dd-mm-yyyy": ["31-12-2024", "01-02-2024"],
        "yyyy/mm/dd": ["2024/12/31"],
        "dd/mm/yyyy": ["31/12/2024", "13/1/2024"],
        "mm/dd/yyyy": ["12/31/2024"],
        "mm/dd/yyyy time": ["12/31/2024 07:05"],
        "either date": ["01/02/2024", "12/12/2024"],
        "dd.mm.yy": ["1.2.24", "31.12.68"],
        "dd-mm-yy": ["31-12-99", "1-2-24", "31-12-00"],
        "yy-mm-dd": ["99-12-31", "00-1-15"],
        "either year <<": ["01-02-03", "15-12-15"],
        "either year <>": ["15-01-24"],
        "either year ><": ["24-01-15", "16-1-01"],
        "either year >>": ["24-01-16"],
        "either year >< am time": ["24-01-15 3:05 pm"],
        "yyyymmdd": ["20240229", "19000101"],
        "yyyymmdd time": ["20240229 7:05"],
        "dd mon yyyy": ["15 Jan 2024", "1 MAY 2024"],
        "dd mon yyyy am time": ["15 Jan 2024 12:00:00AM"],
        "dd month yyyy": ["15 january 2024"],
        "mon dd, yyyy": ["Oct 1, 2024"],
        "month dd, yyyy": ["October 1, 2024"],
        "month dd, yyyy time": ["October 01, 2024T23:59"],
        "dd-mon-yyyy": ["01-FEB-2024"],
        "dd-mon-yy": ["1-Feb-24"],
        "ddmonyyyy": ["01FEB2024"],
        "dd/mm/yy": ["31/12/99"],
        "mm/dd/yy": ["12/31/99"],
        "either short date": ["01/02/98"],
        "either short date time": ["01/02/98 12:00"],
        "unit": ["12 kg", "-1,234.5 USD", "5mg", "CHF 1'234.50", "20 °C", "0.5 m³", "12 kgs"],
        "padded": ["01", "00", "01067", "0" * 30],
        "text": [
            "x",
            "y",
            "\x00",
            "-01",
            "00.5",
            "30.02.2024",
            "1,23,456",
            "1, 234",
            "0 123",
            "5'11",
            "$",
            "5 $ 3",
            "%5",
            "05%",
            "$5%",
            "1.2.024",
            "30.02.99",
            "2023-02-29",
            "31/31/2024",
            "1.2-2024",
            "15 Janu 2024",
            "30 Feb 2024",
            "1FEB2024",
            "Jan 15 2024",
            "A-12",
            "AB12",
            "15 Jan 2024 13:05 PM",
            "1/5/2024 0:05 AM",
        ],
    }
    # All numbers with something beside them are told apart by the same patterns, and all times by their colon.
    combined = {name for name in CLASSES if name.endswith((*(f" {sign}" for sign in BESIDE), " time"))}
    assert set(CLASSES) - set(expected) <= combined
    assert set(expected) <= set(CLASSES)
    for name, texts in expected.items():
        with connect(gathers=True) as con:
            column = counted_values.count_values(con, DuckEngine({"a": texts}), ["a"])["a"]
            classes = questions.Values(con, column).classes()
        counts = sum_classes(dict(zip(CELLS, classes.tolist(), strict=True)))
        assert {one: many for one, many in counts.items() if many} == {name: len(texts)}


# --- How values are written -----------------------------------------------------------------------------------------


def spread(values, rows=12_000):
    """Each of some values equally often."""
    return [values[i % len(values)] for i in range(rows)]


def found_of(column, **more):
    return qf.discover({"a": column}, epsilon=20, delta=1e-12, noise="gaussian", **ROW, **more)


def test_decimal_commas_are_found_and_read():
    amounts = [f"{i // 100},{i % 100:02}" for i in range(1, 900)] + [f"1.{i:03},50" for i in range(300)]
    schema = found_of(spread([*amounts, "n/a", "-"]))
    rule = schema["a"]
    assert isinstance(rule, Cuts)
    assert (rule.decimal, rule.type) == (",", "number")
    assert {"n/a", "-"} <= set(rule.missing)
    assert rule.points[0] < 9
    assert rule.points[-1] > 1000
    points = [f"{i}.{i % 10}" for i in range(100)]
    assert found_of(spread(points))["a"].decimal == "."
    # Thousands or decimal places? Nothing tells, so it has to be said.
    doubt = [f"{i},{100 + 7 * i % 900}" for i in range(1, 90)]
    with pytest.raises(Error, match="no column is left"):
        found_of(spread(doubt))
    assert found_of(spread(doubt), forms=qf.Forms(decimal=","))["a"].points[-1] < 100


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("dd.mm.yy", "%d.%m.%y"),
        ("dd/mm/yy", "%d/%m/%y"),
        ("mm/dd/yy", "%m/%d/%y"),
        ("dd-mm-yy", "%d-%m-%y"),
        ("dd.mm.yyyy", "%d.%m.%Y"),
        ("dd/mm/yyyy", "%d/%m/%Y"),
        ("mm/dd/yyyy", "%m/%d/%Y"),
        ("dd-mm-yyyy", "%d-%m-%Y"),
        ("yyyy/mm/dd", "%Y/%m/%d"),
        ("yyyy-mm-dd", "%Y-%m-%d"),
        ("yyyymmdd", "%Y%m%d"),
        ("yy-mm-dd", "%y-%m-%d"),
        ("dd-mon-yy", "%d-%b-%y"),
        ("dd mon yyyy", "%d %b %Y"),
        ("dd month yyyy", "%d %B %Y"),
        ("mon dd, yyyy", "%b %d, %Y"),
        ("month dd, yyyy", "%B %d, %Y"),
        ("dd-mon-yyyy", "%d-%b-%Y"),
        ("ddmonyyyy", "%d%b%Y"),
    ],
)
def test_the_form_of_dates_is_found_and_written_again(written, form):
    """Python's own formatting writes the dates and times, and tells whether they come back so."""
    days = [datetime.datetime(2023, 1, 1) + datetime.timedelta(days=i, minutes=7 * i) for i in range(400)]
    iso = {"T%H:%M": "time", "T%H:%M:%SZ": "time"}
    clocks = {"": "date", " %H:%M:%S": "time"} | (iso if written == "yyyy-mm-dd" else {" %I:%M:%S %p": "time"})
    for clock, kind in clocks.items():
        rule = found_of(spread([*(day.strftime(form + clock) for day in days), "?"]))["a"]
        assert (rule.written, rule.period, rule.start, rule.end) == (written, "month", "2023-01-01", "2024-03-01")
        assert (rule.type, rule.clock) == (kind, 12 if "%p" in clock else 24)
        assert "?" in rule.missing
        schema = Schema({"a": rule})
        assert Schema.from_json(schema.to_json())["a"] == rule
        drawn = write_column(rule, draw_values(schema, {"a": np.arange(len(rule.own))}, seed=0).column("a"))
        for month, text in zip(rule.own, map(str, drawn.to_pylist()), strict=True):
            moment = datetime.datetime.strptime(text, form + clock)
            assert (moment.strftime("%Y-%m"), moment.strftime(form + clock)) == (month, text)


@pytest.mark.parametrize("years", [range(2017, 2025), range(2003, 2015), range(1990, 2030)])
def test_dates_of_two_digits_thrice_begin_with_what_is_no_day(years):
    days = [datetime.date(year, month, day) for year in years for month in range(1, 13) for day in range(1, 29)]
    for written, form in (("yy-mm-dd", "%y-%m-%d"), ("dd-mm-yy", "%d-%m-%y")):
        schema = found_of(spread([day.strftime(form) for day in days]))
        assert schema["a"].written == written
        assert "note" not in schema.discovered["columns"]["a"]


def test_days_come_first_where_nothing_tells_and_it_is_said(tmp_path, capsys):
    days = spread([f"{i:02}-{j:02}-{k:02}" for i in range(1, 29) for j in range(1, 13) for k in range(4, 28)])
    schema = found_of(days)
    assert schema["a"].written == "dd-mm-yy"
    assert schema.discovered["columns"]["a"]["note"].endswith("say --dates yy-mm-dd")
    assert found_of(days, forms=qf.Forms(dates="yy-mm-dd"))["a"].written == "yy-mm-dd"
    (tmp_path / "days.csv").write_text("a,b\n" + "".join(f"{day},x\n" for day in days))
    asked = ["--header", "--epsilon", "9", "--delta", "1e-9", "--unit", "rows:1", "--no-ledger"]
    assert main(["schema", str(tmp_path / "days.csv"), "--discover", "--noise", "gaussian", *asked]) == 0
    assert "say --dates yy-mm-dd" in capsys.readouterr().err
    assert main(["synthesize", str(tmp_path / "days.csv"), *asked, "--out", str(tmp_path / "made.csv")]) == 0
    assert "note        a: its dates are read as dd-mm-yy" in capsys.readouterr().out


def test_whole_numbers_of_eight_digits_are_dates_where_nearly_all_are():
    numbers = spread([str(20_230_000 + i) for i in range(10_000)], 20_000)  # of which few are dates
    assert found_of(numbers)["a"].kind == "cuts"
    assert found_of(spread(["20240101", "20250101"]))["a"].kind == "dates"
    known = found_of(spread(["20240101", "20250101"]), known={"a": "integers"})["a"]
    assert (known.own, known.type) == (("20240101", "20250101"), "integer")


@pytest.mark.parametrize(
    ("write", "form", "whole"),
    [
        (lambda n: f"{n:,.2f}", NumberForm(thousands=",", places=2), False),
        (lambda n: f"{n:,.0f}", NumberForm(thousands=","), True),
        (lambda n: f"{n:.0f}.00", NumberForm(places=2), True),
        (lambda n: f"{n:.6f}", NumberForm(places=6), False),
        (lambda n: repr(n), NumberForm(places=2, zeros=False), False),
        (lambda n: repr(n + 1e-9), NumberForm(), False),
        (lambda n: f"${n:,.2f}", NumberForm(thousands=",", before="$", places=2), False),
        (lambda n: f"$ {n:,.0f}.00", NumberForm(thousands=",", before="$ ", places=2), True),
        (lambda n: f"£{n:,.0f}", NumberForm(thousands=",", before="£"), True),
        (lambda n: f"{n % 100:.0f} %", NumberForm(after=" %"), True),
        (lambda n: f"{n % 100:.1f}%".replace(".", ","), NumberForm(",", after="%", places=1), False),
        (lambda n: f"{n:,.2f} €".translate({44: 46, 46: 44}), NumberForm(",", ".", after=" €", places=2), False),
        (lambda n: f"{n:.1f}€".replace(".", ","), NumberForm(",", after="€", places=1), False),
        (lambda n: f"{1000 * n:,.0f}".replace(",", "."), NumberForm(",", "."), True),
        (lambda n: f"{n:,.2f}".translate({44: "\u202f", 46: ","}), NumberForm(",", " ", places=2), False),
        (lambda n: f"{n:,.0f}".replace(",", " "), NumberForm(thousands=" "), True),
        (lambda n: f"CHF {n:,.2f}"[4:].replace(",", "'"), NumberForm(thousands="'", places=2), False),
    ],
)
def test_thousands_money_and_percents_are_found_and_written_again(write, form, whole):
    """Python's own formatting writes the numbers; whatever rule is found reads them, and writes such as it reads."""
    numbers = [float(n) for n in np.random.default_rng(3).lognormal(7, 1.5, 3000).round(2)]
    texts = [write(n) for n in numbers]
    rule = found_of([text for text in texts for _ in range(4)])["a"]
    assert isinstance(rule, Cuts)
    assert rule.form == form
    assert rule.type == ("integer" if whole else "number")
    values = [n % 100 for n in numbers] if "%" in form.after else numbers
    values = [1000 * n for n in numbers] if form == NumberForm(",", ".") else values
    assert rule.points[0] <= np.quantile(values, 0.2)
    assert rule.points[-1] >= np.quantile(values, 0.8)
    schema = Schema({"a": replace(rule, least=None, most=None)})
    codes = np.repeat(np.arange(len(rule.own)), 5)
    drawn = draw_values(schema, {"a": codes}, seed=0).column("a")
    written = [str(text) for text in write_column(rule, drawn).to_pylist()]
    asked = statistics(qf.Structure((("a",),)), schema.domain, qf.Rows(1))
    counted = count({"a": written}, schema, asked, qf.Rows(1)).tables[0]
    assert counted.tolist() == [5] * len(rule.own) + [0] * (len(rule.labels) - len(rule.own))
    if set(form.before + form.after) & set("$€£"):
        assert not any(re.search(f"[{form.decimal}][0-9]{{3}}", text) for text in written)  # no tenths of a cent
    if form.thousands is not None:
        assert any((form.thousands or "") in text for text in written)
    digits = f"[0-9.,' ]*[{form.decimal}][0-9]{{{form.places}}}" if form.places and form.zeros else "[0-9.,' ]*"
    pattern = f"{re.escape(form.before)}{digits}{re.escape(form.after)}"
    assert all(re.fullmatch(pattern, text) for text in written)


def test_which_century_years_of_two_digits_are_of_is_public():
    days = [datetime.date(1925, 1, 1) + datetime.timedelta(days=30 * i) for i in range(1200)]
    column = spread([day.strftime("%d/%m/%y") for day in days])
    rule = found_of(column, forms=qf.Forms(years_from=1925))["a"]
    assert (rule.written, rule.years_from, rule.start, rule.end) == ("dd/mm/yy", 1925, "1925-01-01", "2024-01-01")
    assert found_of(column)["a"].start == "1969-01-01"  # as in POSIX
    assert Schema.from_json(Schema({"a": rule}).to_json())["a"] == rule


def test_what_could_be_a_code_or_something_else_is_not_read_as_a_number():
    postal = [f"{100 + i} {i:03}" for i in range(1, 9)]  # six digits with a blank in the middle, and no other numbers
    assert found_of(spread(postal))["a"].own == tuple(sorted(postal))
    mixed = [*(f"{i}" for i in range(100, 1000, 50)), *(f"{i} 500" for i in range(1, 90))]
    assert found_of(spread(mixed))["a"].thousands == " "
    doubt = [f"{i},{100 + 7 * i % 900}" for i in range(1, 90)]
    assert found_of(spread(doubt), forms=qf.Forms(thousands=","))["a"].points[-1] > 1000
    beside = {"a": spread(doubt), "b": spread([f"{i}.{i % 7}" for i in range(90)])}
    found = qf.discover(beside, epsilon=20, delta=1e-12, noise="gaussian", **ROW)
    assert (found["a"].thousands, found["a"].type) == (",", "integer")  # the file has decimal points


@pytest.mark.parametrize("share", [4, 8, 12, 100])
def test_codes_of_which_some_begin_with_zeros_are_texts_and_keep_them(share):
    """The rarest label has 800 records, where noise has a standard deviation of less than 2."""
    padded = [f"0{1000 + i % 3}" for i in range(600 * share)]
    column = [*padded, *spread(["10115", "20095", "80331"], 60_000 - len(padded))]
    rule = found_of(column)["a"]
    assert rule.own == tuple(sorted(set(column)))
    assert rule.type is None
    schema = Schema({"a": rule})
    counted = count({"a": column}, schema, statistics(qf.Structure((("a",),)), schema.domain, qf.Rows(1)), qf.Rows(1))
    assert counted.tables[0].tolist() == [*(column.count(label) for label in rule.own), 0]
    # Said to be numbers, they are read as such, whatever zeros they begin with.
    numbers = found_of(column, known={"a": "integers"})["a"]
    assert numbers.kind == "cuts"


def test_columns_of_many_codes_say_what_they_look_like():
    column = [f"{i:05}" for i in range(1000, 100_000, 7)]
    told = qf.discover({"a": column, "b": spread(["x", "y"])[: len(column)] + ["x"] * (len(column) - 12_000)},
                       epsilon=20, delta=1e-12, noise="gaussian", **ROW).discovered["left_out"]["a"]  # fmt: skip
    assert "some begin with a zero" in told


def test_times_in_texts_stay_times():
    moments = [datetime.datetime(2023, 1, 1) + datetime.timedelta(hours=7 * i) for i in range(1200)]
    for form in ("%Y-%m-%dT%H:%M:%S+02:00", "%d.%m.%Y %H:%M", "%m/%d/%y %H:%M:%S"):
        rule = found_of(spread([moment.strftime(form) for moment in moments]))["a"]
        assert rule.type == "time"
    assert found_of(spread([moment.strftime("%Y-%m-%d") for moment in moments]))["a"].type == "date"


@pytest.mark.parametrize(
    ("form", "time"),
    [
        ("%Y-%m-%dT%H:%M:%S", "Thh:mm:ss"),
        ("%Y-%m-%dT%H:%M", "Thh:mm"),
        ("%Y-%m-%d %H:%M", " hh:mm"),
        ("%Y-%m-%dT%H:%M:%SZ", "Thh:mm:ssZ"),
        ("%Y-%m-%d %H:%M:%S.%f+02:00", " hh:mm:ssZ"),  # in UTC, which it says
        ("%d.%m.%Y %H:%M", " hh:mm"),
        ("%m/%d/%YT%H:%M:%S", "Thh:mm:ss"),
        ("%m/%d/%Y %I:%M %p", " hh:mm"),
    ],
)
def test_times_follow_dates_as_in_the_source(form, time):
    """As the most common of the noisy counts says: a few that are written otherwise change nothing."""
    moments = [datetime.datetime(2023, 1, 1) + datetime.timedelta(hours=7 * i) for i in range(1000)]
    texts = [moment.strftime("%Y-%m-%d %H:%M:%S" if i % 20 == 0 else form) for i, moment in enumerate(moments)]
    rule = found_of(spread(texts))["a"]
    assert (rule.type, rule.time) == ("time", time)
    written = write_column(rule, draw_values(Schema({"a": rule}), {"a": np.arange(len(rule.own))}, seed=0).column("a"))
    expected = form.replace(".%f+02:00", "Z")
    assert all(datetime.datetime.strptime(text, expected) for text in written.to_pylist())


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@NOISES
@pytest.mark.parametrize(
    ("low", "high", "step"),
    [((0, 17), (65, 99), 1), ((100, 199), (900, 999), 1), ((100, 199), (90_000, 99_999), 1), ((0, 1), (3, 5), 0.01)],
    ids=["ages", "codes", "roots", "places"],
)
def test_nothing_is_drawn_from_a_hole_between_numbers(low, high, step, noise, kind, monkeypatch):
    random = np.random.default_rng(3)
    parts = [np.arange(ends[0], ends[1] + step / 2, step).round(2) for ends in (low, high)]
    column = np.concatenate([random.choice(part, 15_000) for part in parts])
    rule, drawn = found_without_chance([f"{number:.10g}" for number in column], monkeypatch, noise, kind)
    assert len(rule.gaps) == 1
    slack = 2 * max(high[1] - high[0], low[1] - low[0]) / 20  # what noise hides beside the hole
    assert not ((drawn > low[1] + slack) & (drawn < high[0] - slack)).any()
    assert abs((drawn <= low[1] + slack).mean() - 0.5) < 0.01
    assert drawn.min() <= low[0] + slack
    assert drawn.max() >= high[1] - slack


@pytest.mark.parametrize("name", ["normal", "uniform", "exponential", "heaped"])
def test_numbers_without_a_hole_have_none(name):
    """At noise that hides single leaves, and at hardly any."""
    random = np.random.default_rng(4)
    heaps, ages = random.integers(2, 9, 20_000) * 10, random.integers(18, 90, 20_000)
    drawn = {
        "normal": random.normal(50, 15, 20_000).round(1),
        "uniform": random.integers(0, 1000, 20_000),
        "exponential": random.exponential(30, 20_000).round(2),
        "heaped": np.where(random.random(20_000) < 0.5, heaps, ages),
    }[name]
    for epsilon in (0.1, 1, 10):
        rule = qf.discover({"a": drawn}, epsilon=epsilon, delta=1e-9, noise="gaussian", **ROW)["a"]
        assert all(high - low < np.ptp(drawn) / 10 for low, high in rule.gaps)


def test_a_few_that_are_written_otherwise_do_not_change_the_places_of_the_others():
    """Neither one record nor one in a thousand: what noisy counts do not show is not told."""
    texts = [f"{i % 700 / 100:.2f}" for i in range(12_000)]
    texts[::1000] = ["1.23456"] * 12
    assert found_of(texts)["a"].form == NumberForm(places=2)
    column = np.round(np.arange(12_000) % 700 / 100, 2)  # numbers themselves have places, and no zeros
    rule = found_of(column)["a"]
    assert rule.form == NumberForm(places=2, zeros=False)
    assert all(
        len(str(number).partition(".")[2]) <= 2
        for number in draw_values(Schema({"a": rule}), {"a": np.arange(len(rule.own))}, seed=0)["a"].to_pylist()
    )


def test_places_are_those_behind_the_last_sign():
    """A comma with nothing behind it has no places, whatever stands between thousands."""
    texts = [f"{i % 9 + 1}.{i % 1000:03}," for i in range(12_000)]
    assert found_of(texts)["a"].form == NumberForm(",", ".")


def test_dates_that_nothing_tells_the_order_of_have_to_be_said():
    days = spread([f"{i:02}/{j:02}/2023" for i in range(1, 13) for j in range(1, 13)])
    schema = found_of(days, forms=qf.Forms(dates="mm/dd/yyyy"))
    assert schema["a"].written == "mm/dd/yyyy"
    both = qf.discover({"a": days, "b": spread(["x", "y"])}, epsilon=20, delta=1e-12, noise="gaussian", **ROW)
    assert "dd/mm/yyyy or mm/dd/yyyy; say which" in both.discovered["left_out"]["a"]


@pytest.mark.parametrize("month", ["02", "11"])
def test_what_is_said_of_dates_and_is_wrong_is_told(month):
    days = spread([f"{i:02}/{month}/2023" for i in range(1, 29)])
    columns = {"a": days, "b": spread(["x", "y"])}
    asked = {"epsilon": 20, "delta": 1e-12, "noise": "gaussian", **ROW, "forms": qf.Forms(dates="mm/dd/yyyy")}
    told = qf.discover(columns, **asked).discovered["left_out"]["a"]
    assert told == "its dates look like dd/mm/yyyy rather than mm/dd/yyyy, as --dates says"
    columns["a"] = [day if i % 3 else f"2023-{month}-{day[:2]}" for i, day in enumerate(days)]
    told = qf.discover(columns, **{**asked, "forms": None}).discovered["left_out"]["a"]
    assert told.startswith("its dates are written in several ways, dd/mm/yyyy and yyyy-mm-dd among them")


def test_what_is_said_of_dates_is_for_columns_that_have_it():
    iso = spread([f"2023-{j:02}-{i:02}" for i in range(1, 29) for j in range(1, 13)])
    said = qf.Forms(dates="dd.mm.yyyy")
    assert found_of(iso, forms=said)["a"].written == "yyyy-mm-dd"
    either = spread([f"{i:02}/{j:02}/2023" for i in range(1, 13) for j in range(1, 13)])
    assert found_of(either, forms=said)["a"].written == "dd/mm/yyyy"  # days come first in this source
    both = [day if i % 2 else f"{day[8:]}.{day[5:7]}.{day[:4]}" for i, day in enumerate(iso)]
    mixed = qf.discover({"a": both, "b": spread(["x", "y"])}, epsilon=20, delta=1e-12, noise="gaussian", **ROW)
    told = mixed.discovered["left_out"]["a"]
    assert "written in several ways" in told
    assert "yyyy-mm-dd" in told
    assert "dd.mm.yyyy" in told


def test_years_at_the_ends_that_stand_out_together_are_kept():
    """Each is hidden by the noise, which has a standard deviation of 10 here; two of them are not."""
    days = [Fraction((datetime.date(year, 1, 1) - datetime.date(1970, 1, 1)).days) for year in range(2000, 2031)]
    many = dict.fromkeys(range(2000, 2030), 0.0) | dict.fromkeys(range(2008, 2025), 500.0)
    many |= {2006: 30.0, 2007: 30.0, 2025: 30.0, 2027: -9.0}
    leaves = [tree.Leaf(low, high, many[2000 + i], 10.0) for i, (low, high) in enumerate(pairwise(days))]
    rule = periods.date_rule(leaves, 10.0, 60.0)
    assert (rule.period, rule.start, rule.end) == ("year", "2006-01-01", "2026-01-01")


def test_columns_that_can_be_read_in_one_way_tell_how_others_are():
    doubt = [f"{i},{100 + 7 * i % 900}" for i in range(1, 90)]
    thousands = [f"{i}.500" for i in range(1, 90)]
    days = [f"{i:02}/{j:02}/2023" for i in range(1, 13) for j in range(1, 13)]
    columns = {
        "a": spread(doubt), "b": spread(thousands), "c": spread([f"{i},5" for i in range(90)]), "d": spread(days),
        "e": spread([f"{i:02}/01/2023" for i in range(1, 29)]),
    }  # fmt: skip
    asked = {"epsilon": 20, "delta": 1e-12, "noise": "gaussian", **ROW}
    found = qf.discover(columns, **asked)
    assert [found[name].decimal for name in "abc"] == [",", ",", ","]
    assert found["a"].points[-1] < 100 < 1000 < found["b"].points[0]
    assert found["b"].type == "integer"
    assert found["d"].written == found["e"].written == "dd/mm/yyyy"
    alone = qf.discover({"b": columns["b"]}, **asked)
    assert (alone["b"].decimal, alone["b"].type) == (".", "number")
    assert alone["b"].points[-1] < 100


def test_marks_are_labels_in_columns_of_texts_unless_they_are_said_to_be_missing():
    column = spread(["NA", "DE", "?", "k. A."])
    assert found_of(column)["a"] == Labels(("?", "DE", "NA", "k. A."), null="other", unknown="other")
    said = found_of(column, forms=qf.Forms(missing=["k. A.", "?"]))["a"]
    assert said == Labels(("DE", "NA"), null="missing", unknown="other", missing=("k. A.", "?"))


def test_blanks_are_blank_where_a_tenth_of_thirty_columns_is():
    """At an epsilon of 1 for 30 columns, of which this is one: the share of the others is spent on them."""
    asked = {"rho": Fraction(1, 800), "threshold": Fraction(1, 10**10), "unit": qf.Rows(1), "noise": "gaussian"}
    plan = plan_discovery({f"c{i}": "text" for i in range(30)}, **asked)
    texts = (["yes", "no", "no", "no", ""] * 4 + ["yes", "no"] * 10) * 500
    schema = run_discovery({f"c{i}": texts for i in range(30)}, plan)
    assert {schema[name].null for name in schema} == {"missing"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"decimal": ";"},
        {"dates": "dd.mm"},
        {"missing": "-"},
        {"missing": [""]},
        {"thousands": ";"},
        {"thousands": ",", "decimal": ","},
        {"years_from": 30.5},
        {"years_from": 0},
    ],
)
def test_forms_that_are_none_are_refused(wrong):
    with pytest.raises(Error):
        qf.Forms(**wrong)


def test_nothing_is_read_from_noise(monkeypatch):
    """Many answers that are noise alone add up to more than a column needs: what stands out from noise counts."""
    plan = plan_discovery({"a": "text"}, epsilon=1, delta=1e-6, unit=qf.Rows(1), noise="gaussian")
    asked, std = questions.Questions(plan), plan.std(plan.scale(FIRST))

    class Nothing:
        def classes(self):
            return np.zeros(len(CELLS), np.int64)

    monkeypatch.setattr(asked, "_measure", lambda scale, counts: counts + 3.9 * std)
    found = asked.find_rules({plan.columns[0]: Nothing()})["a"]
    assert found.rule is None
    assert "too few values" in found.said


def test_types_of_the_source_are_kept_and_what_cannot_be_missing_is_not():
    random = np.random.default_rng(2)
    n = 8000
    money = [Decimal(int(cents)) / 100 for cents in random.integers(1, 90_000, n)]
    fields = [
        pa.field("small", pa.int8()), pa.field("wide", pa.uint16(), nullable=False), pa.field("single", pa.float32()),
        pa.field("money", pa.decimal128(9, 2)), pa.field("yes", pa.bool_(), nullable=False),
        pa.field("moment", pa.timestamp("ms", "Europe/Berlin")), pa.field("word", pa.large_string()),
        pa.field("text", pa.string()), pa.field("day", pa.date64()),
    ]  # fmt: skip
    days = (np.datetime64("2024-01-01") + random.integers(0, 300, n)).astype("M8[ms]")
    columns = [
        random.integers(-90, 90, n), random.integers(0, 60_000, n), random.normal(size=n), money,
        random.random(n) < 0.3, days, random.choice(["a", "b"], n), random.choice(["31.12.2024", "1.1.2024"], n), days,
    ]  # fmt: skip
    source = pa.table([pa.array(c, f.type) for c, f in zip(columns, fields, strict=True)], schema=pa.schema(fields))
    schema = qf.discover(source, epsilon=10, delta=1e-12, noise="gaussian", **ROW)
    assert schema["yes"] == Labels(("false", "true"), null="false", unknown="false", type="boolean")
    assert "other" not in schema["wide"].labels
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    codes = {name: np.arange(3000) % schema.domain.size(name) for name in schema}
    made = draw_values(schema, codes, seed=0)
    assert made.schema.types == source.schema.types
    for name in ("yes", "wide"):
        assert made[name].null_count == 0
    # What was drawn is read as what was drawn, whatever the type rounds.
    asked = statistics(qf.Structure(tuple((name,) for name in schema)), schema.domain, qf.Rows(1), "add_remove", True)
    for name, table in zip(schema, count(made, schema, asked, qf.Rows(1)).tables, strict=True):
        own = len(schema[name].own)
        np.testing.assert_array_equal(table[:own], np.bincount(codes[name])[:own], err_msg=name)


def test_decimals_of_a_database_keep_their_places():
    ibis = pytest.importorskip("ibis")
    types = {"cents": "decimal(12, 2)", "whole": "decimal(38, 0)", "any": "decimal", "wide": "decimal(60, 2)"}
    stored = {name: one.type for name, one in column_storage(ibis.table(types, name="t")).items()}
    assert stored == {"cents": "decimal128(12, 2)", "whole": "decimal128(38, 0)", "any": None, "wide": None}
    con = ibis.duckdb.connect()
    con.raw_sql("CREATE TABLE t AS SELECT (range % 9000 / 100)::DECIMAL(12, 2) AS cents FROM range(20000)")
    schema = qf.discover(con.table("t"), epsilon=10, **ROW)
    drawn = draw_values(schema, {"cents": np.arange(3000) % len(schema["cents"].own)}, seed=0)["cents"]
    assert drawn.type == pa.decimal128(12, 2)
    assert len(set(drawn.to_pylist())) > 1000  # and not a hundred whole numbers


def test_a_type_that_cannot_hold_the_values_gives_way():
    codes = {"a": np.array([0, 1, 2])}
    for rule, kind in (
        (Cuts([10, 1000], type="integer", stored="int8"), pa.int64()),
        (Cuts([10, 100], least=-128, most=127, type="integer", stored="int8"), pa.int8()),
        (Cuts([1 + 1e-9, 1 + 2e-9], type="number", stored="float"), pa.float64()),
        (Cuts([0.001, 0.002], type="number", stored="decimal128(5, 2)"), pa.float64()),
        (Dates("year", "1500-01-01", "1503-01-01", type="time", stored="timestamp[ns]"), pa.timestamp("s")),
    ):
        assert draw_values(Schema({"a": rule}), codes, seed=0).schema.field("a").type == kind
    with pytest.raises(Error, match="names a type of Arrow"):
        Cuts([1], stored="list<int8>")


def test_dictionaries_stay_dictionaries():
    table = pa.table({"a": pa.array(["x", "y"]).dictionary_encode(), "b": ["x", "y"]})
    assert {name: one.type for name, one in column_storage(table).items()} == {"a": None, "b": "string"}


def test_numpy_says_what_cannot_be_missing():
    people = {"a": np.arange(9000) % 2 == 0, "b": np.arange(9000)}
    schema = qf.discover(people, epsilon=5, noise="laplace", **ROW)
    assert schema["a"].labels == ("false", "true")
    assert schema["b"].labels == schema["b"].own
    replaced = qf.discover(people, epsilon=5, noise="laplace", neighbours="replace", **ROW)
    assert not replaced.drops


def test_thousands_that_are_said_hold_for_columns_that_have_them():
    people = pa.table({
        "year": [str(1950 + i % 70) for i in range(8000)],
        "typed": [1950 + i % 70 for i in range(8000)],
        "pay": [f"{1000 + 37 * (i % 500):,}" for i in range(8000)],
    })  # fmt: skip
    schema = qf.discover(people, epsilon=20, delta=1e-9, noise="gaussian", forms=qf.Forms(thousands=","), **ROW)
    assert {name: getattr(schema[name], "thousands", None) for name in schema} == {
        "year": None, "typed": None, "pay": ","
    }  # fmt: skip


def test_names_of_persons_in_a_database_tell_them_apart():
    """As floats the first two would be one, and one person's rows could displace another's."""
    ibis = pytest.importorskip("ibis")
    from quietfield.curator.counting.databases import without_strange_values

    con = ibis.duckdb.connect()
    con.raw_sql("CREATE TABLE t (id DECIMAL(38, 2), born DATE)")
    con.raw_sql("INSERT INTO t VALUES (9007199254740992, '2024-01-31'), (9007199254740993, 'infinity'), (.5, NULL)")
    names = without_strange_values(con.table("t"), [], ["id", "born"]).to_pyarrow()
    assert names["id"].to_pylist() == ["9007199254740992", "9007199254740993", "0.5"]
    assert len(set(names["born"].to_pylist())) == 3
    assert len(set(without_strange_values(con.table("t"), ["id"], []).to_pyarrow()["id"].to_pylist())) == 2
