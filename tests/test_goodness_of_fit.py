"""Goodness of fit: exact where it says so, silent on good models, loud on planted failures."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

import quietfield as qf
from quietfield import structures
from quietfield.errors import Error
from quietfield.learning.observation import can_be_learned, table_moments
from quietfield.study import goodness_of_fit as module


@pytest.fixture(scope="module")
def study():
    """(simulation, model): four attributes in a chain of order 3, 3,000 records."""
    study = qf.simulate(attributes=4, states=3, records=3000, epsilon=1)
    return study, qf.fit(study.release)


def again(study, **changes):
    """The release as tables noised elsewhere, with something about it changed."""
    settings = {"noise": study.noise, "total": study.records, **changes}
    return qf.Release.from_tables(study.model.domain, settings.pop("tables", dict(study.release.tables)), **settings)


def test_a_good_model_passes_and_says_what_it_cannot_see(study):
    simulation, model = study
    found = qf.goodness_of_fit(simulation.release, model)
    assert found.p_value > 0.05
    assert found.redundancies == 6 + 4 * 2 * 2  # six sums against N; of 4 attributes in 3 tables each, 2 x 2 a piece
    assert found.noise_ratio == pytest.approx(1, abs=0.5)
    assert {table.clique for table in found.tables} == set(model.cliques)
    assert "Nothing speaks against the model" in str(found)
    assert "no trace" in str(found)
    assert found == qf.goodness_of_fit(simulation.release, model)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 3), min_size=3, max_size=3),
    st.sampled_from(["public", "noisy", "none"]),
    st.integers(0, 10**6),
)
def test_exact_tables_agree_and_the_number_of_redundancies_is_that_of_linear_algebra(sizes, total, seed):
    """Without noise nothing is left over; and the count is rows minus rank of the map from populations to tables."""
    domain = qf.Domain(dict(zip("abc", sizes, strict=True)))
    random = np.random.default_rng(seed)
    population = random.integers(1, 9, sizes).astype(float)
    axes = {("b", "a"): (1, 0), ("b", "c"): (1, 2), ("c",): (2,), ("a", "b", "c"): (0, 1, 2)}

    def table(values, clique):
        names = [n for n in "abc" if n in clique]
        summed = values.sum(axis=tuple(i for i, n in enumerate("abc") if n not in clique))
        return summed.transpose([names.index(n) for n in clique])

    kept = {c: table(population, c) for c in axes}
    number = {"public": {"total": population.sum()}, "none": {}}.get(
        total, {"total": population.sum(), "total_noise": qf.Laplace(2.0)}
    )
    release = qf.Release.from_tables(domain, kept, noise=qf.Laplace(3.0), **number)
    rows = [np.asarray(part.values)[None] for part in release.parts]
    squares, count = module._squares(release, rows, np.array([population.sum()]), total == "public")
    assert squares[0] == pytest.approx(0, abs=1e-9)
    cells = int(np.prod(sizes))
    columns = []
    for i in range(cells):
        one = np.zeros(cells)
        one[i] = 1
        parts = [table(one.reshape(sizes), c).ravel() for c in axes]
        columns.append(np.concatenate([*parts, [1.0]] if total == "noisy" else parts))
    matrix = np.array(columns).T
    rank = np.linalg.matrix_rank(matrix)
    assert count == matrix.shape[0] - rank + (1 if total == "public" else 0)


def test_the_agreement_rings_as_often_as_it_says():
    """400 releases: at a true rate of 0.1 the share of alarms has a standard deviation of 0.015."""
    simulation = qf.simulate(attributes=4, states=3, records=3000, epsilon=1)
    p = np.array([module._agreement(release, 0)[0] for release in simulation.releases(400)])
    assert 0.04 < (p <= 0.1).mean() < 0.16
    assert 0.42 < (p <= 0.5).mean() < 0.58
    # The check must notice a scale that is wrong by a fifth, either way, in most of as many releases.
    for factor in (1.25, 0.8):
        noise = qf.Laplace(simulation.noise.scale * factor)
        wrong = [
            replace(r, parts=tuple(replace(part, noise=noise) for part in r.parts)) for r in simulation.releases(100)
        ]
        assert np.mean([module._agreement(release, 0)[0] <= 0.1 for release in wrong]) > 0.16


@pytest.mark.parametrize("noise", [qf.Gaussian(0.5, 1), qf.Gaussian(2.0, 1), qf.Laplace(0.5, 1)], ids=repr)
def test_the_agreement_is_exact_for_discrete_noise(noise):
    """200 releases, their noise drawn from the stated probabilities: at a true rate of 0.1 the share of alarms has a
    standard deviation of 0.021, and lies outside of four of them one time in 10,000 or so."""
    random, steps = np.random.default_rng(5), np.arange(-60, 61)
    p = np.exp(noise.log_density(steps))
    simulation = qf.simulate(attributes=3, states=4, records=300)
    found = []
    for _ in range(200):
        tables = {c: n + random.choice(steps, n.shape, p=p / p.sum()) for c, n in simulation.tables.items()}
        found.append(module._agreement(again(simulation, tables=tables, noise=noise), 0)[0])
    assert np.mean(np.array(found) <= 0.1) < 0.1 + 4 * 0.021
    assert 0.36 < np.mean(np.array(found) <= 0.5) < 0.64


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "less noise stated",
            lambda s: {"noise": qf.Laplace(s.noise.scale / 3)},
            "noise or the total is not as stated",
        ),
        ("more noise stated", lambda s: {"noise": qf.Laplace(s.noise.scale * 2.5)}, "noise or the total"),
        ("wrong total", lambda s: {"total": 1.05 * s.records}, "noise or the total is not as stated"),
        (
            "another population in one table",
            lambda s: {"tables": {**s.release.tables, ("x0", "x1"): s.release.tables["x0", "x1"][::-1].copy()}},
            "different populations",
        ),
    ],
)
def test_planted_disagreement_is_found(study, name, change, message):
    simulation, model = study
    found = qf.goodness_of_fit(again(simulation, **change(simulation)), model)
    assert found.p_value <= 0.05
    assert message in found.verdict


def test_a_model_of_other_data_is_found(study):
    simulation, model = study
    other = qf.Model(model.domain, {c: table[::-1].copy() for c, table in model.potentials.items()})
    found = qf.goodness_of_fit(simulation.release, other)
    assert found.p_value <= 0.05
    assert found.agreement > 0.05
    assert "learned from other tables" in found.verdict
    assert found.tables[0].residual > 2


def test_ties_that_do_not_hold_are_found():
    """A chain said to be the same at every step, whose first attribute (counted by itself) says otherwise."""
    domain = qf.Domain(dict.fromkeys("abc", 2))
    steps = [("a", "b"), ("b", "c")]
    random = np.random.default_rng(0)
    # Everybody moves from 0 to 1 and back: summed over the steps, it looks like a mixture that the ties cannot make.
    counts = np.array([[0.0, 1000.0], [1000.0, 0.0]])
    noise = qf.Laplace(5.0)
    tables = {
        ("a", "b"): counts + random.laplace(0, 5, (2, 2)),
        ("a",): np.array([500.0, 500.0]),
        ("c",): [900.0, 100.0],
    }
    release = qf.Release.from_tables(domain, tables, noise=noise, total=1000, ties=[steps])
    found = qf.goodness_of_fit(release, qf.fit(release))
    assert found.fit <= 0.05
    assert "structure or ties do not hold" in found.verdict


def test_impossible_cells_that_are_not_empty_are_found():
    domain = qf.Domain({"a": 2, "b": 2}, [{"a": 0, "b": 1}])
    release = qf.Release.from_tables(
        domain, {("a", "b"): [[30.0, 40.0], [50.0, 22.0]]}, noise=qf.Laplace(3.0), total=142
    )
    found = qf.goodness_of_fit(release, qf.fit(release))
    assert found.agreement <= 0.05
    assert "combinations called impossible do occur" in found.verdict


def test_one_table_and_no_total_leave_only_the_fit():
    domain = qf.Domain({"a": 2, "b": 2})
    release = qf.Release.from_tables(domain, {("a", "b"): [[30.0, 40.0], [50.0, 22.0]]}, noise=qf.Gaussian(3.0))
    model = qf.fit(release)
    found = qf.goodness_of_fit(release, model, refits=19)
    assert found.agreement is None
    assert found.refits == 19
    assert found.p_value == found.fit > 0.05


def test_bad_calls_are_refused(study):
    simulation, model = study
    other = qf.Model(qf.Domain({"a": 2}), {("a",): [0.0, 0.0]})
    for call, message in (
        (lambda: qf.goodness_of_fit(model, model), "of a Release and a model"),
        (lambda: qf.goodness_of_fit(simulation.release, simulation), "a release and a Model"),
        (lambda: qf.goodness_of_fit(simulation.release, other), "different attributes"),
        (lambda: qf.goodness_of_fit(simulation.release, model, draws=3), "draws"),
    ):
        with pytest.raises(Error, match=message):
            call()


def test_the_structure_of_a_release_may_be_given_in_any_order():
    domain = qf.Domain({"a": 2, "b": 3})
    assert structures.Structure.of([("b", "a")], domain).cliques == (("b", "a"),)
    swapped = module._put_in_order(np.arange(6.0).reshape(1, 2, 3), ["b", "a"])
    assert swapped.tolist() == [[0, 3, 1, 4, 2, 5]]


def test_tables_without_noise_agree_but_for_rounding():
    domain = qf.Domain({"a": 3, "b": 2})
    counts = np.array([[100, 20], [30, 40], [0, 60]])
    model = qf.Model(domain, {("a", "b"): np.log(counts + 0.5), ("a",): np.zeros(3)})
    for noise in (qf.Laplace(1e-4, step=1), qf.Gaussian(1e-12)):
        for more, rare in ((0, False), (1, True)):
            tables = {("a", "b"): counts, ("a",): counts.sum(1) + more * np.eye(3)[0]}
            check = module.goodness_of_fit(qf.Release.from_tables(domain, tables, noise), model)
            assert (check.agreement < 0.01) == rare


def test_a_release_of_noise_alone_can_be_checked():
    """Of its simulations some come out with fewer than no records, which no model could be learned from.

    They are left out on both sides: p is a rank among the others, and as often small as large, unless the noise that is
    stated is too small.
    """
    simulation = qf.simulate("chain", attributes=4, states=3, records=50, epsilon=0.02)
    unknown = [replace(release, total_part=None) for release in simulation.releases(45)]
    releases = [release for release in unknown if can_be_learned(release)]
    assert 15 < len(releases) < 30  # about half have fewer than no records
    model, draws = qf.references.fit_random_tables(simulation.model.domain, releases[0].structure, seed=0), 49
    fits, left_out = [], 0
    for seed, release in enumerate(releases):
        simulated = module._simulate(release, model, table_moments(release, model), draws, seed)
        used = sum(map(can_be_learned, simulated))
        found = qf.goodness_of_fit(release, model, draws=draws, seed=seed)
        left_out += draws - used
        for p in (found.fit, *(table.p_value for table in found.tables)):
            assert p * (used + 1) == pytest.approx(round(p * (used + 1)))
        fits.append(found.fit)
    assert left_out > 0.1 * draws * len(releases)
    for release in releases[:5]:
        quiet = replace(release, parts=tuple(replace(t, noise=qf.Laplace(t.noise.scale / 3)) for t in release.parts))
        assert qf.goodness_of_fit(quiet, model, draws=draws).fit <= 0.05
    assert min(fits) < 0.3
    assert max(fits) > 0.7
    assert kstest(fits, "uniform").pvalue > 0.01
