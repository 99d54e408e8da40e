"""An audit: attack the whole release path as an adversary would, and see what epsilon the attack can prove.

The adversary knows both data sets (they differ in one record) and the noise, scores each release by its log-likelihood
ratio, and picks a threshold on a tenth of the runs. On the rest, Clopper-Pearson bounds give a lower bound on epsilon
that is wrong with probability at most ``MISS``. At the claimed epsilon of 1 that bound must stay below 1 (else the
promise is broken) and above 0.8 (else the attack is too weak to find anything); planted bugs must be caught.

With 63,000 runs on each side and 2 tables and a total, the bound is expected at 0.92 with a standard error of 0.015: a
right mechanism fails the test less than once in a million runs, and then by the upper limit.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta

import quietfield as qf
from quietfield.curator import mechanism

MISS = 2e-4
SCHEMA = qf.Schema({"a": [0, 1], "b": [0, 1]})
CLIQUES = [("a",), ("b",)]
WITHOUT = np.array([[1, 1], [0, 0]])
WITH = np.vstack([WITHOUT, [[0, 0]]])


def runs(source: np.ndarray, times: int) -> np.ndarray:
    """Noisy numbers (two tables of two cells and the total) of that many releases."""
    out = np.empty((times, 5))
    for i in range(times):
        release = qf.release(source, SCHEMA, CLIQUES, epsilon=1, unit=qf.Rows(1), ledger=None, total=True)
        out[i] = [*release.tables["a"], *release.tables["b"], release.total]
    return out


def score(noisy: np.ndarray) -> np.ndarray:
    """The log-likelihood ratio of WITH against WITHOUT, by the noise that is claimed: scale 3 on everything."""
    noise = qf.Laplace(3)
    here, there = (np.array([*np.bincount(r[:, 0]), *np.bincount(r[:, 1]), len(r)]) for r in (WITH, WITHOUT))
    return (noise.log_density(noisy - here) - noise.log_density(noisy - there)).sum(axis=1)


def bound(hits: int, of: int, misses: int, out_of: int, miss: float = MISS) -> float:
    """A lower bound on ln(p/q) from hits of p and misses of q, by Clopper and Pearson."""
    p = beta.ppf(miss / 2, hits, of - hits + 1) if hits else 0.0
    q = beta.ppf(1 - miss / 2, misses + 1, out_of - misses) if misses < out_of else 1.0
    return float(np.log(p / q)) if p > 0 else -np.inf


def proven(one: np.ndarray, other: np.ndarray) -> float:
    """The epsilon that scores prove: threshold from the first tenth, bound from the rest, in the better direction."""
    best = -np.inf
    for a, b in ((one, other), (-other, -one)):
        cut = len(a) // 10
        levels = np.unique(np.round(np.concatenate([a[:cut], b[:cut]]), 9)) - 1e-6
        chosen = max(levels, key=lambda t: bound((a[:cut] >= t).sum(), cut, (b[:cut] >= t).sum(), cut, 0.1))
        rest = len(a) - cut
        best = max(best, bound((a[cut:] >= chosen).sum(), rest, (b[cut:] >= chosen).sum(), rest, MISS / 2))
    return best


@pytest.mark.slow
def test_the_attack_proves_almost_the_claimed_epsilon_and_no_more():
    times = 70_000
    found = proven(score(runs(WITH, times)), score(runs(WITHOUT, times)))
    print(f"audit: epsilon at least {found:.3f} proven, 1 claimed, {2 * times} releases")
    assert 0.8 < found < 1


def _without_the_number_of_tables(plan):
    return replace(plan, scales=tuple(s / len(plan.scales) for s in plan.scales))


def _halved(plan):
    return replace(plan, scales=tuple(s / 2 for s in plan.scales))


@pytest.mark.slow
@pytest.mark.parametrize("bug", [_without_the_number_of_tables, _halved])
def test_a_scale_that_is_too_small_is_caught(monkeypatch, bug):
    real = mechanism.draw_noise
    monkeypatch.setattr(mechanism, "draw_noise", lambda plan, tables, total: real(bug(plan), tables, total))
    found = proven(score(runs(WITH, 12_000)), score(runs(WITHOUT, 12_000)))
    print(f"audit of {bug.__name__}: {found:.3f} proven, 1 claimed")
    assert found > 1


@pytest.mark.slow
def test_an_exact_total_is_caught(monkeypatch):
    real = mechanism.draw_noise
    monkeypatch.setattr(mechanism, "draw_noise", lambda plan, tables, total: (real(plan, tables, total)[0], total))
    found = proven(score(runs(WITH, 12_000)), score(runs(WITHOUT, 12_000)))
    print(f"audit of an exact total: {found:.3f} proven, 1 claimed")
    assert found > 2


# Low-order bits


def floats_outside(counts: np.ndarray, scale: float, times: int) -> np.ndarray:
    """The bug: floating-point noise drawn for zero and added to the count afterwards."""
    return counts + np.random.default_rng(0).laplace(0.0, scale, (times, counts.size))


def reachable(noise: np.ndarray, scale: float) -> np.ndarray:
    """Whether the usual sampler, scale * log(U) with U a multiple of 2^-52, can give this very noise (Mironov 2012)."""
    found = np.zeros(noise.shape, dtype=bool)
    for place, z in np.ndenumerate(noise):
        near = round(math.exp(-abs(z) / scale) * 2**52)
        found[place] = any(-scale * math.log(k * 2.0**-52) == abs(z) for k in range(max(near - 3, 1), near + 4))
    return found


def test_float_noise_added_outside_is_told_apart_by_its_bits():
    """Four tables in which one record's cell is 0 without the record and 1 with it: claimed epsilon 4/1800."""
    times, scale = 4_000, 1800.0
    without, present = (reachable(floats_outside(np.full(4, c), scale, times), scale).all(axis=1) for c in (0.0, 1.0))
    found = bound(without.sum(), times, present.sum(), times)
    print(f"low-order bits of float noise: {found:.2f} proven, {4 / scale:.4f} claimed")
    assert found > 1


def test_a_release_refuses_floats_for_its_promise(monkeypatch):
    real = mechanism.draw_noise

    def outside(plan, tables, total):
        _, count = real(plan, tables, total)
        return [floats_outside(t.ravel(), 3.0, 1).reshape(t.shape) for t in tables], count

    monkeypatch.setattr(mechanism, "draw_noise", outside)
    with pytest.raises(qf.Error, match="integers"):
        runs(WITH, 1)


@pytest.mark.slow
def test_low_order_bits_of_releases_say_nothing():
    """No number of a release has bits below its grid, and no pattern of bits on the grid proves the claimed epsilon."""
    times = 3_000
    here, there = runs(WITH, times), runs(WITHOUT, times)
    assert (here == np.rint(here)).all()
    assert (there == np.rint(there)).all()
    assert worst_pattern(here.astype(np.int64), there.astype(np.int64)) < 1
    truth = np.array([1, 1, 1, 1, 2])  # the counts of WITHOUT
    bits = [reachable(noisy - truth, 3.0).all(axis=1).sum() for noisy in (here, there)]
    assert bound(bits[1], times, bits[0], times) < 1


@pytest.mark.parametrize("epsilon", [1 / 450, 1.0])
def test_low_order_bits_on_the_grid_of_fractions_say_nothing(epsilon):
    people = {"who": [1, 1, 1, 2], "a": [0, 1, 0, 1], "b": [0, 1, 1, 1]}
    more = {"who": [1, 1, 1, 2, 3, 3, 3], "a": [0, 1, 0, 1, 0, 0, 1], "b": [0, 1, 1, 1, 1, 0, 0]}
    from quietfield.curator import publish
    from quietfield.curator.counting import count

    unit = qf.Person("who", normalise=True)
    prepared = publish.plan_release(SCHEMA, [("a", "b")], epsilon=epsilon, unit=unit, total=False)
    times = 20_000
    drawn = []
    for source in (more, people):
        (table,) = count(source, SCHEMA, prepared.statistics, unit).tables
        (noisy,), _ = mechanism.draw_noise(prepared.noise, [np.repeat(table.ravel()[None], times, 0)])
        drawn.append(noisy)
    assert worst_pattern(*drawn) < epsilon


def worst_pattern(here: np.ndarray, there: np.ndarray) -> float:
    """The most that any pattern of the 1 to 4 lowest bits of any one cell proves, over both directions."""
    cells = here.shape[1]
    tests = cells * sum(2**k for k in range(1, 5)) * 2
    found = -np.inf
    for k in range(1, 5):
        for cell in range(cells):
            a, b = (np.bincount(x[:, cell] & (2**k - 1), minlength=2**k) for x in (here, there))
            for one, other in ((a, b), (b, a)):
                for i in range(2**k):
                    found = max(found, bound(int(one[i]), len(here), int(other[i]), len(there), MISS / tests))
    return found
