"""Intervals of associations hold what they promise, on releases simulated from known models."""

import numpy as np
import pytest

import quietfield as qf
from quietfield.output.report.associations import cramers_v
from quietfield.output.report.contents import error_bars

pytestmark = pytest.mark.slow

STRENGTHS = (0.0, 0.3, 0.8, 1.5)  # of the chain's interactions, from none to strong


@pytest.mark.parametrize(("states", "records", "epsilon"), [(3, 3000, 1.0), (6, 5000, 0.5), (3, 2000, 0.2)])
def test_intervals_of_v_cover(states: int, records: int, epsilon: float) -> None:
    domain = qf.Domain({f"x{i}": states for i in range(5)})
    chain = qf.structures.chain(domain)
    held, narrow, reached = [], [], []
    for seed in range(16):
        random = np.random.default_rng(seed)
        potentials = {c: s * random.normal(size=(states, states)) for c, s in zip(chain, STRENGTHS, strict=True)}
        study = qf.simulate(records=records, epsilon=epsilon, model=qf.Model(domain, potentials), seed=seed)
        model = qf.fit(study.release)
        _, known = error_bars(model, 0.9, [], {clique: model.marginal(clique) for clique in chain})
        for clique in chain:
            low, high = known[clique]
            true, middle = cramers_v(study.model.marginal(clique)), (low + high) / 2
            held.append(low <= true <= high)
            narrow.append(abs(true - middle) <= (high - low) / 8)  # intervals a quarter as wide must fail
            if true < 1e-9:
                reached.append(low == 0)
    # 64 associations; at the promised 0.9 fewer than 0.82 would be rarer than 1 in 60.
    assert np.mean(held) >= 0.82
    assert np.mean(narrow) < 0.82
    assert sum(reached) >= 12  # of 16; at the promised 0.9 fewer would be rarer than 1 in 50
