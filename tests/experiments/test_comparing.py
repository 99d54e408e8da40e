"""Comparisons: like with like, failures counted, intervals that respect nesting."""

import doctest
from importlib import import_module
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from experiments import checks
from experiments.claims import together, verdict
from experiments.comparing import better, compare, standings, with_failures
from experiments.methods import lambda_of, letter_options
from experiments.trials import Row, Trial, nested, summary
from quietfield.study.simulation import random_model, simulate

TRIAL = Trial("x", "chain", 10, 100, 1.0, 0, 0, 0, "a")


def row(value: float, method: str = "a", model: int = 0, population: int = 0, replication: int = 0) -> Row:
    trial = TRIAL._replace(method=method, model=model, population=population, replication=replication)
    return Row(trial, "kl", value, 0.0)


def cell(trial: Trial) -> str:
    return trial.structure


@pytest.mark.parametrize("name", ["again", "claims", "comparing", "corrections", "fig2", "fig3b", "gradient", "limits",
                                  "methods", "mobility", "networks", "trials"])  # fmt: skip
def test_examples_of_the_modules(name: str) -> None:
    module = import_module(f"experiments.{name}")
    assert Path(module.__file__ or "").exists()
    assert doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL).failed == 0


def test_only_trials_that_both_have_count() -> None:
    rows = [row(1.0), row(100.0, replication=1), row(2.0, "b"), row(0.1, "b", population=3)]
    result = compare(rows, "kl", ("a", ""), ("b", ""), cell)
    assert result.ratio == 0.5
    assert len(result.good) == 1
    assert result.verdict == "agrees"


def test_the_interval_of_five_populations_is_students() -> None:
    point = summary({p: [float(p)] for p in range(5)})
    assert point.error == pytest.approx((2.5 / 5) ** 0.5)
    assert point.half == pytest.approx(2.776445 * point.error, rel=1e-5)
    assert summary({0: [1.0, 2.0]}).half == float("inf")


def test_of_several_models_the_spread_is_that_between_models() -> None:
    one = nested({0: {p: [float(p)] for p in range(5)}})
    assert (one.groups, one.mean) == (5, 2.0)
    many = nested({0: {p: [float(p)] for p in range(5)}, 1: {0: [2.0]}, 2: {0: [2.0]}})
    assert (many.groups, many.mean, many.error, many.trials) == (3, 2.0, 0.0, 7)


def test_clearly_means_beyond_the_interval() -> None:
    rows = [row(1.0 + 0.01 * p, population=p) for p in range(5)] + [row(2.0, "b", population=p) for p in range(5)]
    assert compare(rows, "kl", ("a", ""), ("b", ""), cell).clearly(1) == 1
    assert compare(rows, "kl", ("b", ""), ("a", ""), cell).clearly(-1) == 1
    alone = compare(rows[:1] + rows[5:6], "kl", ("a", ""), ("b", ""), cell)
    assert (alone.clearly(1), alone.clearly(-1)) == (0, 0)  # one population says nothing of the spread


def test_a_failure_is_a_result() -> None:
    rows = [row(1.0)._replace(measure="failed", value=float("nan")), row(2.0, "b")]
    assert not compare(rows, "kl", ("a", ""), ("b", ""), cell).cells
    assert compare(with_failures(rows, "kl", lambda _: 9.0), "kl", ("a", ""), ("b", ""), cell).ratio == 4.5


def test_the_rule() -> None:
    assert [verdict(n, 10) for n in (10, 9, 8, 6, 5, 0)] == [
        "agrees",
        "agrees",
        "partly",
        "partly",
        "differs",
        "differs",
    ]
    assert [verdict(n, 10, most=True) for n in (6, 5)] == ["agrees", "differs"]
    assert together(["agrees", "not run"]) == "agrees"
    assert together(["partly", "differs"]) == "partly"


def test_standings_hold_every_method_beside_one_reference() -> None:
    rows = [row(1.0, "map"), row(3.0, "mine"), row(5.0, "naive", population=7)]
    reference, found = standings(rows, "kl", cell)
    assert reference == ("map", "")
    assert [one.kind[0] for one in found] == ["map", "mine", "naive"]
    assert [one.mean for one in found] == pytest.approx([1.0, 3.0, 5.0])
    assert [one.beside is None for one in found] == [True, False, True]  # the last shares no trial with the reference


def test_both_readings_of_lambda() -> None:
    assert lambda_of("lambda=1/N", 10**6, 1e-3) == 1e-6
    assert lambda_of("lambda=1e-2", 10**6, 1e-3) == 1e-2
    assert lambda_of("", 10**6, 1e-3) == 1e-3


def test_the_page_says_when_the_papers_cgm_ends() -> None:
    from experiments.limits import TEXT
    from quietfield.learning import nlbp

    said = " ".join(TEXT.split())
    options = letter_options("")
    assert f"We end NLBP (α = {options['damping']:g}) after {options['iterations']} iterations" in said
    assert f"less than {nlbp.Nlbp().settled:g} records" in said
    assert f"slowed down for {nlbp._PATIENCE}." in said


def test_the_better_search_is_chosen_on_the_trials_that_both_have() -> None:
    rows = [row(1.0), row(9.0, replication=1), row(2.0, "b")]
    assert {one.value for one in better(rows, "kl", ["a", "b"], "best", cell)} == {1.0, 9.0}
    apart = [row(1.0), row(9.0, replication=1), row(2.0, "b", population=5)]
    assert {one.value for one in better(apart, "kl", ["a", "b"], "best", cell)} == {2.0}


def test_the_papers_cgm_is_neither_smoothed_nor_ended_by_noise() -> None:
    options = letter_options("")
    assert (options["smooth"], options["damping"], options["tolerance"]) == (0.0, 0.1, 0.0)
    assert letter_options("rounds=100") == {**options, "rounds": 100, "settled": 0.0}
    assert letter_options("alpha=0.02") == {**options, "damping": 0.02}


def test_the_mean_that_the_mode_is_held_against_is_that_of_all_data_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MODE_SIZES", (4,))
    found = checks.mode_and_mean(TRIAL._replace(epsilon=0.5))
    truth = random_model([("x0", "x1"), ("x1", "x2")], attributes=3, states=2, seed=0)
    study = simulate(model=truth, records=4, epsilon=0.5, seed=0)
    theta, y = ([of[c] for c in truth.cliques] for of in (truth.potentials, study.release.tables))
    weights, tables = [], []
    for people in product(product((0, 1), repeat=3), repeat=4):
        n = np.zeros((2, 2, 2))
        for edge, (i, j) in enumerate(((0, 1), (1, 2))):
            for person in people:
                n[edge, person[i], person[j]] += 1
        scores = [(t * of).sum() - 0.25 * np.abs(of - z).sum() for t, of, z in zip(theta, n, y, strict=True)]
        weights.append(np.exp(sum(scores)))
        tables.append(n)
    mean, square = (np.average([of**power for of in tables], axis=0, weights=weights) for power in (1, 2))
    assert found["spread 4"] == pytest.approx(np.sqrt(np.mean(square - mean**2)), rel=1e-9)
    mode = checks._mode(np.concatenate([theta[0].T.ravel(), theta[1].ravel()]),
                        np.concatenate([y[0].T.ravel(), y[1].ravel()]), 4, 0.25)  # fmt: skip
    mean = np.concatenate([mean[0].T.ravel(), mean[1].ravel()])
    assert found["distance 4"] == pytest.approx(np.sqrt(np.mean((mode - mean) ** 2)), rel=1e-6)
