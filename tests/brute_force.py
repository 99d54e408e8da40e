"""Models of every awkward kind for property tests, and their answers by enumeration."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from quietfield import Domain

# Each example compiles code of its own, so a fifth as many as elsewhere.
COMPILED = settings(max_examples=max(1, settings.default.max_examples // 5), deadline=None)


def joint(domain, potentials):
    """(probability of every record, log Z) by enumeration."""
    log_p = np.zeros(domain.shape)
    for clique, table in potentials.items():
        log_p = log_p + spread(domain, clique, np.asarray(table, dtype=float))
    for clique, mask in domain.masks:
        log_p = np.where(spread(domain, clique, mask), log_p, -np.inf)
    top = log_p.max()
    p = np.exp(log_p - top)
    return p / p.sum(), top + np.log(p.sum())


def spread(domain, clique, table):
    """A table over some attributes, laid out to broadcast over all."""
    positions = [domain.position(name) for name in clique]
    shape = [1] * len(domain)
    for v in positions:
        shape[v] = domain.shape[v]
    return table.transpose(np.argsort(positions)).reshape(shape)


def marginal(domain, p, clique):
    positions = [domain.position(name) for name in clique]
    table = p.sum(axis=tuple(v for v in range(len(domain)) if v not in positions))
    return table.transpose(np.argsort(np.argsort(positions)))


@st.composite
def models(draw, scales=(1.0,), most_attributes=5, impossible=True, largest_clique=4):
    """(domain, potentials): unequal sizes, size 1, cliques of 1 to 4, nested ones, free attributes, zeros."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=most_attributes))
    names = [f"x{i}" for i in range(len(sizes))]
    plain = Domain(dict(zip(names, sizes, strict=True)))
    subsets = st.lists(st.sampled_from(names), min_size=1, max_size=min(largest_clique, len(names)), unique=True)
    cliques = draw(st.lists(subsets, max_size=6, unique_by=frozenset))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    scale = draw(st.sampled_from(scales))
    potentials = {tuple(c): random.uniform(-scale, scale, size=plain.table_shape(c)) for c in cliques}
    zeros = []
    if impossible and draw(st.booleans()):
        for _ in range(draw(st.integers(1, 3))):
            scope = draw(subsets)
            zeros.append({name: int(random.integers(plain.size(name))) for name in scope})
    domain = plain
    for zero in zeros:  # only those that leave some record possible
        try:
            tried = Domain(dict(zip(names, sizes, strict=True)), [*_rules(domain), zero])
        except Exception:  # noqa: BLE001
            continue
        if possible(tried).any():
            domain = tried
    return domain, potentials


def possible(domain):
    allowed = np.ones(domain.shape, bool)
    for clique, mask in domain.masks:
        allowed = allowed & spread(domain, clique, mask)
    return allowed


def _rules(domain):
    return [{name: list(codes) for name, codes in zero} for zero in domain.impossible]
