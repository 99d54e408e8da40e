"""The gradient baseline of the figures: where it exists, that its settings are chosen on people of their own."""

import pytest

from experiments import gradient
from experiments.estimators import Request
from experiments.psgd_accounting import noise_multiplier
from experiments.trials import Trial, simulation_of
from quietfield.errors import Error

TRIAL = Trial("x", "chain-3", 2, 500, 1.0, 0, 0, 0, "psgd-moments")


@pytest.mark.parametrize(("records", "epsilon"), [(500, 0.1), (500, 0.19), (500, 0.2), (10**6, 0.43), (10**6, 0.44)])
def test_absent_exactly_where_the_moments_accountant_refuses(records: int, epsilon: float) -> None:
    trial = TRIAL._replace(records=records, epsilon=epsilon)
    try:
        noise_multiplier(epsilon, 1 / records, 0.01, 1, "moments")
        possible = True
    except Error:
        possible = False
    assert gradient.reachable(trial, "moments") == possible
    assert gradient.reachable(trial, "pld")


def test_no_model_where_epsilon_cannot_be_reached() -> None:
    trial = TRIAL._replace(epsilon=0.1)
    assert gradient.learn([Request(trial, simulation_of(trial))]) == [None]


def test_a_model_for_each_request_from_one_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setitem(gradient.SEARCHES, "psgd-moments", ("small", "moments"))
    monkeypatch.setattr(gradient, "simulation_of", lambda trial: seen.append(trial.population) or simulation_of(trial))
    trials = [TRIAL._replace(population=p, replication=r) for p in (0, 1) for r in (0, 1)]
    models = gradient.learn([Request(t, simulation_of(t)) for t in trials])
    kept = {row.measure: row.value for row in gradient.chosen(trials)}
    assert seen == [gradient.TUNING]
    assert kept["learning_rate"] in (3, 8)
    assert (kept["steps"], kept["clip"], kept["average"]) == (60, 1, 1)
    assert {row.trial for row in gradient.chosen(trials)} == {trials[0]}  # once a cell
    assert all(simulation_of(TRIAL).model.kl(model) < 1 for model in models if model is not None)
    assert len({model.potentials["x0", "x1"].tobytes() for model in models if model is not None}) == 4


@pytest.mark.parametrize("records", [100, 1000, 10_000, 10**6, 10**7])
def test_settings_are_within_reach(records: int) -> None:
    assert len(gradient.grid(records, small=False)) == 64
    assert all(0 < one.rate <= 0.3 for one in gradient.grid(records, small=False))


def test_the_wide_search_finds_what_the_grid_could_not() -> None:
    """And never tries a setting twice."""
    from math import log

    tried = []

    def losses(settings):
        tried.extend(settings)
        return [
            abs(log(one.learning_rate / 0.03)) + abs(log(one.steps / 10_000)) + abs(log(one.clip / 10)) + one.average
            for one in settings
        ]

    best = gradient.best_of("wide", 10**5, losses)
    assert (best.learning_rate, best.steps, best.clip, best.average) == (0.03, 10_000, 10.0, False)
    assert len(set(tried)) == len(tried) < 100
    assert max(one.rate for one in tried) <= 1


def test_one_setting_for_all_cells_needs_no_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient, "simulation_of", None)
    chosen = [
        gradient.tuned(TRIAL._replace(records=n, epsilon=e), "none", "pld") for n in (10**4, 10**5) for e in (0.1, 1)
    ]
    assert {(one.learning_rate, one.clip, one.steps, one.average) for one in chosen} == {(2.0, 1.0, 100, True)}


def test_the_tuned_naive_estimate_takes_the_best_of_its_list(monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments import methods
    from experiments.estimators import get

    monkeypatch.setattr(methods, "LAMBDAS", (1e-3, 3.0))
    methods.best_lambda.cache_clear()
    trial = TRIAL._replace(records=5000, method="naive-tuned")
    assert methods.best_lambda(trial._replace(population=gradient.TUNING)) == 1e-3
    (model,) = get("naive-tuned").call([Request(trial, simulation_of(trial))])
    assert model is not None
    assert simulation_of(trial).model.kl(model) < 0.05
    methods.best_lambda.cache_clear()
