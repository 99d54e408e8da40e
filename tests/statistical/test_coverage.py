"""Coverage of the intervals at a size that matters: chains of order 3 with ten attributes of 5 values."""

import numpy as np
import pytest

import quietfield as qf
from quietfield import structures
from quietfield.learning import covariance
from quietfield.study.goodness_of_fit import goodness_of_fit


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_ninety_percent_intervals_hold_in_every_stratum(epsilon):
    """Eight models a setting. Strata of fewer than 300 cells vary too much to say anything and are left out.

    Seeds are fixed, so that nothing here is left to chance; with other seeds such strata held 0.877 to 0.973
    (docs/results/coverage.md), and 0.82 leaves them room.
    """
    records, found = 10_000, {"source": [], "records": []}
    studies = [
        qf.simulate(states=5, records=records, epsilon=epsilon, seed=seed, model_seed=seed) for seed in range(500, 508)
    ]
    for study in studies:
        model = qf.fit(study.release)
        for clique in model.cliques:
            truths = {"source": study.model.marginal(clique), "records": study.tables[clique] / records}
            for of, truth in truths.items():
                low, high = model.interval(clique, 0.9, of=of)
                held = (low <= truth) & (truth <= high)
                found[of].append(np.stack([held, high - low, records * truths["source"]]).reshape(3, -1))
    b = studies[0].noise.scale
    for parts in found.values():
        held, width, expected = np.concatenate(parts, axis=1)
        assert held.mean() > 0.87
        for stratum in (expected < b, (expected >= b) & (expected < 10 * b), expected >= 10 * b):
            if stratum.sum() >= 300:
                assert held[stratum].mean() > 0.82
        assert width.mean() < 2 * b * np.log(10) / records  # one noisy cell's


@pytest.mark.slow
def test_goodness_of_fit_rings_no_more_often_than_it_says():
    """60 good models: at a true rate of 0.1, more than 13 alarms have a probability below 0.003."""
    studies = [qf.simulate(attributes=5, states=4, records=3000, epsilon=1, seed=i, model_seed=i) for i in range(60)]
    models = qf.fit([study.release for study in studies])
    found = [goodness_of_fit(s.release, m).p_value for s, m in zip(studies, models, strict=True)]
    assert sum(p <= 0.1 for p in found) <= 13


@pytest.mark.slow
@pytest.mark.parametrize("noise", [qf.Laplace(40.0), qf.Gaussian(15.0)])
def test_intervals_of_large_loopy_models_hold_too(noise, monkeypatch):
    """Four grids of 5 x 5, small enough for exact truth, with errors drawn as for large models: held 0.90 to 0.93."""
    domain = qf.Domain({f"x{i}": 2 for i in range(25)})
    cliques = structures.grid(domain, 5).cliques
    monkeypatch.setattr(covariance, "DENSE", 0)
    held = []
    for seed in range(4):
        random = np.random.default_rng(seed)
        truth = qf.Model(domain, {c: random.normal(0, 0.7, (2, 2)) for c in cliques})
        study = qf.simulate(model=truth, records=5000, seed=seed)
        draw = random.laplace if isinstance(noise, qf.Laplace) else random.normal
        noisy = {c: study.tables[c] + draw(0, noise.scale, (2, 2)) for c in cliques}
        model = qf.fit(qf.Release.from_tables(domain, noisy, noise=noise, total=5000), inference="loopy")
        for clique in cliques:
            for of, share in (("source", truth.marginal(clique)), ("records", study.tables[clique] / 5000)):
                low, high = model.interval(clique, 0.9, of=of)
                held.append((low <= share) & (share <= high))
    assert np.mean(held) > 0.87
