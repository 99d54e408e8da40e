"""What is said about a promise is true: exact probabilities of tiny releases, held against the numbers in sentences."""

import re
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import exp
from pathlib import Path

import numpy as np
import pytest

import quietfield as qf
from quietfield.curator.ledger_words import describe_ledger
from quietfield.errors import FileError
from quietfield.output.tables import people_tables
from quietfield.privacy import accounting, planning, promises
from quietfield.releases.description import explain_promise, list_facts, list_warnings
from quietfield.releases.parts import Discovery

SCHEMA = qf.Schema({name: qf.Labels([0, 1], null=0, unknown=0) for name in ("a", "b")})
ROWS = list(product(range(2), repeat=2))
STRUCTURES = ([("a", "b")], [("a",), ("b",)], [("a", "b"), ("a",)])
DELTA = Fraction(1, 10_000)


def released(cliques, epsilon, unit, neighbours, **options):
    data = np.array([[0, 0], [1, 1], [0, 1]])
    return qf.release(data, SCHEMA, cliques, epsilon=epsilon, unit=unit, ledger=None, neighbours=neighbours, **options)


def noised_by_gaussian(epsilon):
    """A release of one table of two cells."""
    data, schema = np.array([[0], [1]]), qf.Schema({"a": 2})
    return qf.release(
        data,
        schema,
        [("a",)],
        epsilon=epsilon,
        delta=DELTA,
        noise="gaussian",
        unit=qf.Rows(1),
        ledger=None,
        total=False,
    )


def tables(rows, cliques) -> np.ndarray:
    """All counts of some records, counted here by hand."""
    columns = {"a": 0, "b": 1}
    return np.array(
        [
            sum(all(row[columns[name]] == v for name, v in zip(clique, cell, strict=True)) for row in rows)
            for clique in cliques
            for cell in product(range(2), repeat=len(clique))
        ]
    )


def largest_odds(pairs, scale: Fraction) -> float:
    """The largest ratio of the probabilities of one outcome, over pairs of tables and all outcomes around them.

    Discrete Laplace noise has probabilities in proportion to exp(-|z| / scale).
    """
    worst = 0
    for one, other in pairs:
        # A cell in which the two agree gives the same probability to both, whatever comes out there.
        grid = [range(min(x, y) - 1, max(x, y) + 2) if x != y else [x] for x, y in zip(one, other, strict=True)]
        outcomes = np.array(list(product(*grid)))
        loss = np.abs(outcomes - other).sum(axis=1) - np.abs(outcomes - one).sum(axis=1)
        worst = max(worst, int(np.abs(loss).max()))
    return exp(worst / scale)


def factors(text: str) -> list[float]:
    """The factors of odds that a sentence states."""
    found = re.findall(r"by at most (?:a factor of ([\d.,]*\d)|([\d.]+)%)", text)
    return [float(factor.replace(",", "")) if factor else 1 + float(percent) / 100 for factor, percent in found]


def rounded_up(value: float) -> float:
    return float(promises.format_above(Fraction(value), 3))


@pytest.mark.parametrize("cliques", STRUCTURES, ids=str)
@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
@pytest.mark.parametrize("rows", [1, 2])
def test_odds_of_presence_and_of_values_under_add_remove(cliques, epsilon, rows):
    release = released(cliques, epsilon, qf.Rows(rows), "add_remove", total=False)
    scale = release.parts[0].noise.exact
    others = [*combinations_with_replacement(ROWS, 0), *combinations_with_replacement(ROWS, 1)]
    persons = list(combinations_with_replacement(ROWS, rows))
    presence = [(tables([*rest, *person], cliques), tables(rest, cliques)) for rest in others for person in persons]
    values = [
        (tables([*rest, *one], cliques), tables([*rest, *two], cliques))
        for rest in others
        for one in persons
        for two in persons
    ]
    said = factors(explain_promise(release))
    assert said == [rounded_up(largest_odds(presence, scale)), rounded_up(largest_odds(values, scale))]
    assert said[1] > rounded_up(exp(float(epsilon)))  # which was said of both


@pytest.mark.parametrize("cliques", STRUCTURES, ids=str)
@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_odds_of_values_under_replace(cliques, epsilon):
    release = released(cliques, epsilon, qf.Rows(1), "replace")
    values = [(tables([one], cliques), tables([two], cliques)) for one in ROWS for two in ROWS]
    said = explain_promise(release)
    assert factors(said) == [rounded_up(largest_odds(values, release.parts[0].noise.exact))]
    assert "is in the data by at most" not in said  # how many there are is public
    assert "How many of them there are is public" in said


def divergence(shift: np.ndarray, sigma: float, factor: float) -> float:
    """The largest P(S) - factor Q(S) over sets S of outcomes: discrete Gaussian noise on two tables, one moved."""
    reach = np.arange(-60, 61)
    weights = np.exp(-(reach**2) / (2 * sigma**2)) / np.exp(-(reach**2) / (2 * sigma**2)).sum()
    moved = [np.roll(weights, s) for s in shift]
    return float(np.maximum(np.multiply.outer(*moved) - factor * np.multiply.outer(weights, weights), 0).sum())


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_probabilities_of_gaussian_releases(epsilon):
    release = noised_by_gaussian(epsilon)
    said = re.findall(r"at most ([\d.,]+) times that \w+ \w+ plus ([\de.-]*\d)", explain_promise(release))
    sigma = float(release.parts[0].noise.exact)
    assert len(said) == 2
    for shift, (factor, plus) in zip(([1, 0], [1, -1]), said, strict=True):
        assert divergence(np.array(shift), sigma, float(factor)) <= float(plus)
    assert divergence(np.array([1, -1]), sigma, rounded_up(exp(float(epsilon)))) > DELTA  # what was said of both


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_deltas_of_two_steps_add_up_to_more_than_two(epsilon):
    asked = Fraction(epsilon)
    two, plus = promises.group_loss(2, asked, DELTA, None)
    assert two == 2 * asked
    assert plus is not None
    assert float(plus) == pytest.approx(1e-4 * (1 + exp(asked)), rel=1e-12)
    release = noised_by_gaussian(epsilon)
    assert divergence(np.array([1, -1]), float(release.parts[0].noise.exact), exp(two)) <= plus
    assert promises.group_loss(3, Fraction(500), DELTA, None) == (1500, 1)


@pytest.mark.parametrize("epsilon", ["0.001", "0.03", "0.7", "1/3", "9.99", "20"])
def test_no_number_is_rounded_below_the_truth(epsilon):
    asked = Fraction(epsilon)
    for found, steps in zip(factors(promises.describe_promise(asked, None, None, "add_remove")), (1, 2), strict=False):
        assert found >= exp(steps * asked)
        assert found <= 1.01 * exp(steps * asked)
    assert Fraction(promises.format_above(asked, 2)) >= asked


def test_huge_epsilons_promise_hardly_anything():
    said = promises.describe_promise(Fraction(15), None, None, "add_remove")
    assert "a factor of 3,270,000," in said
    assert "a factor of e^30 (which promises hardly anything)" in said
    assert "neighbouring" in str(planning.warn_of_budget(30))


def test_the_paper_setting_promises_nothing():
    release = released([("a", "b")], 1, qf.Rows(1), "paper")
    model = qf.Model(release.domain, {("a", "b"): np.zeros((2, 2))})
    statement = "\n".join(people_tables(model, release=release).statement)
    for text in (explain_promise(release), str(list_facts(release)), statement):
        assert "No promise is made" in text
        assert not factors(text)
    assert "differential privacy, with" not in statement


def test_reports_and_statements_quote_the_one_sentence():
    for noise in ({}, {"noise": "gaussian", "delta": DELTA}):
        release = released([("a", "b")], 1, qf.Rows(1), "add_remove", **noise)
        claim = release.promise
        sentence = promises.describe_promise(claim.epsilon, claim.delta, claim.rho, claim.neighbours)
        model = qf.Model(release.domain, {("a", "b"): np.zeros((2, 2))})
        assert sentence in "\n".join(people_tables(model, release=release).statement)
        assert sentence in dict(list_facts(release))["Cost"]


def test_a_promise_that_is_not_kept_is_not_explained(monkeypatch):
    release = released([("a", "b")], 1, qf.Rows(1), "add_remove")

    def wrong(self):
        raise FileError("the promise does not hold.")

    monkeypatch.setattr(qf.Release, "check_promise", wrong)
    assert list_warnings(release)
    assert "nothing is promised" in explain_promise(release)
    assert not factors(explain_promise(release))


def test_a_ledger_says_what_its_total_means(tmp_path):
    pure = describe_ledger(qf.Ledger.create(tmp_path / "pure.db", epsilon=4, unit=qf.Rows(1)))
    assert factors(pure) == [54.6, 2990]
    assert "with 21 rows, up to epsilon 84 in place of 4." in pure
    book = qf.Ledger.create(tmp_path / "z.db", epsilon=10, delta="1e-6", unit=qf.Rows(1), accounting_by="zcdp")
    exact = accounting.zcdp_epsilon(21**2 * book.total, Fraction(1, 10**6))
    assert 869 < exact < 870
    assert (
        f"with 21 rows, up to epsilon {promises.format_above(exact)} at delta 1e-06 in place of 10."
        in describe_ledger(book)
    )
    persons = qf.Ledger.create(
        tmp_path / "p.db", rho="0.5", delta="1e-6", unit=qf.Person("user", rows=1), accounting_by="zcdp"
    )
    one, two = (accounting.zcdp_epsilon(k * k * persons.total, Fraction(1, 10**6)) for k in (1, 2))
    expected = f"two values is protected less: up to epsilon {promises.format_above(two)} at delta 1e-06 in place of"
    assert f"{expected} {accounting.format_number(one)}" in describe_ledger(persons)
    paper = describe_ledger(qf.Ledger.create(tmp_path / "paper.db", epsilon=1, unit=qf.Rows(1), neighbours="paper"))
    assert promises.NO_PROMISE in paper
    assert "up to epsilon" not in paper


def test_thresholds_promise_less_to_two_units(tmp_path):
    """What fails with a probability of delta for one unit fails with delta + e^epsilon delta for two, at 2 epsilon."""
    plain = released([("a", "b")], 1, qf.Rows(1), "add_remove", noise="gaussian", delta=DELTA)
    found = Discovery(plain.promise.rho / 100, DELTA / 2)
    claim = replace(plain.promise, epsilon=Fraction(3, 2), rho=plain.promise.rho * Fraction(101, 100))
    release = replace(plain, promise=claim, discovery=found)
    release.check_promise()
    twice = promises.format_above(DELTA * (1 + accounting.exp_above(claim.epsilon)))
    said = f"at most 20.1 times that with another plus {twice}."  # e^3, rounded up
    assert said in explain_promise(release)
    assert said not in explain_promise(replace(release, discovery=replace(found, threshold=None)))
    book = qf.Ledger.create(tmp_path / "z.db", epsilon=10, delta="1e-6", unit=qf.Rows(1), accounting_by="zcdp")
    assert "Should it pay for thresholds" in describe_ledger(book)
    book.charge("r", epsilon=1, delta="1e-7", rho="0.01", threshold="1e-8", unit=qf.Rows(1), neighbours="add_remove")
    assert "Should it pay" not in describe_ledger(book)
    assert "with 21 rows, no bound follows from this promise." in describe_ledger(book)


def test_the_page_on_epsilon_has_the_numbers():
    text = (Path(__file__).parents[1] / "docs" / "how-to" / "epsilon.md").read_text()
    rows = [re.findall(r"[\d.,]+", line) for line in text.splitlines() if re.match(r"\| [\d.]+ \|", line)]
    assert len(rows) == 5
    for epsilon, *shown in rows:
        said = factors(promises.describe_promise(Fraction(epsilon), None, None, "add_remove"))
        assert [float(number.replace(",", "")) for number in shown[:2]] == said
        for number, power in zip(shown[2:], (1, 2), strict=True):
            odds = exp(power * float(epsilon))
            assert 0 <= float(number) - 100 * odds / (1 + odds) < 0.1
