"""Estimators of other libraries, for the paper's figures: ``python -m experiments fig2 --with benchmarks._peers``.

``mbi`` is mbi 2.0.0 as it comes: mirror descent on its L2 loss, 1,000 iterations, the total known. It is shown apart,
since nothing in the paper is compared with it.
"""

import warnings

import numpy as np

from experiments import estimator
from quietfield.models.model import Model


@estimator("mbi", label="mbi 2.0 (default)", apart=True)
def mbi(release):
    """mbi's estimate from the same noisy tables, as a model."""
    import jax

    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mbi warns of settings of JAX while it is imported
        import mbi as peer
        from mbi import estimation

        domain = peer.Domain(tuple(release.domain), release.domain.shape)
        measurements = [
            peer.LinearMeasurement(np.asarray(table).ravel(), clique, stddev=release.noise[clique].std)
            for clique, table in release.tables.items()
        ]
        found = estimation.MirrorDescent().estimate(domain, measurements, known_total=float(release.total))
        potentials = {}
        for clique in release.structure.cliques:
            theirs = next(c for c in found.potentials.cliques if set(c) == set(clique))
            table = np.asarray(found.potentials[theirs].values)
            potentials[clique] = table.transpose([theirs.index(name) for name in clique])
    return Model(release.domain, potentials)
