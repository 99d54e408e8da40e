"""Held-out log-likelihood on real data: the default against its peers at their best, picked on the held-out records::

python -m benchmarks.holdout --data DIR          # DIR holds nltcs.parquet, adult.parquet, msnbc.parquet

Three quarters of the records are counted, the rest scores. The data are public and the noise is drawn by numpy from a
seed: a study, not a release. nltcs: chain of order 3. adult: a tree plus triangles (ADULT below). msnbc: one tied table
of transitions for all slots and the table of the first slot. mbi does not know ties, so it is absent from msnbc.
"""

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np

import quietfield as qf
from benchmarks.learning import RESULTS, Side, em, mbi, naive

ADULT = [
    ("marital-status", "relationship"), ("relationship", "sex"), ("marital-status", "sex"),
    ("education-num", "occupation"), ("occupation", "income>50K"), ("education-num", "income>50K"),
    ("marital-status", "income>50K"), ("age", "marital-status"), ("workclass", "occupation"),
    ("hours-per-week", "occupation"), ("sex", "occupation"), ("race", "native-country"), ("race", "relationship"),
    ("capital-gain", "income>50K"), ("capital-loss", "income>50K"), ("fnlwgt", "race"),
]  # fmt: skip
EPSILONS = {"nltcs": (0.02, 0.1, 1.0), "adult": (0.1, 1.0), "msnbc": (0.01, 0.1, 1.0)}


class Held(Side):
    """Releases of one structure, scored by held-out records: the score is minus their mean log-likelihood."""

    def __init__(self, releases: list[qf.Release], held: dict[Any, np.ndarray]) -> None:
        from quietfield.learning.problem import problem_of

        self.releases = releases
        problems = [problem_of(release, "exact", {}) for release in releases]
        self.shape = problems[0][0]
        self.gather([data for _, data in problems])
        parts = [sum(held[clique] for clique in group).ravel() for group in self.shape.groups]
        self.score_by(np.tile(np.concatenate(parts), (len(releases), 1)), np.zeros(len(releases)))


def counts(codes: np.ndarray, domain: qf.Domain, clique: tuple[str, ...]) -> np.ndarray:
    places = [domain.position(name) for name in clique]
    flat = np.ravel_multi_index(tuple(codes[:, place] for place in places), domain.table_shape(clique))
    return np.bincount(flat, minlength=domain.cells(clique)).reshape(domain.table_shape(clique)).astype(float)


def releases(
    name: str, folder: Path, replications: int
) -> tuple[list[tuple[float, qf.Release]], dict[Any, np.ndarray]]:
    import json

    import pyarrow.parquet as pq

    sizes = json.loads((folder / f"{name}-domain.json").read_text())
    table = pq.read_table(folder / f"{name}.parquet")
    domain = qf.Domain(sizes)
    codes = np.stack([np.asarray(table[column]).astype(np.int64) for column in sizes], axis=1)
    order = np.random.default_rng(0).permutation(len(codes))
    train, held = codes[order[: len(codes) * 3 // 4]], codes[order[len(codes) * 3 // 4 :]]
    ties = None
    if name == "adult":
        cliques: list[Any] = ADULT
    elif name == "nltcs":
        cliques = list(qf.structures.chain(domain, order=3).cliques)
    else:
        edges = [(f"site_{i}", f"site_{i + 1}") for i in range(15)]
        cliques, ties = [*edges, ("site_0",)], [edges]
    true = {clique: counts(train, domain, clique) for clique in cliques}
    if ties:
        true = {ties[0][0]: sum(true[edge] for edge in ties[0]), ("site_0",): true["site_0",]}
    found = []
    for epsilon in EPSILONS[name]:
        noise = qf.Laplace(len(cliques) / epsilon)
        for replication in range(replications):
            random = np.random.default_rng([replication, int(1000 * epsilon)])
            noisy = {c: n + random.laplace(0, float(noise.scale), n.shape) for c, n in true.items()}
            release = qf.Release.from_tables(domain, noisy, noise=noise, total=len(train), ties=ties)
            found.append((epsilon, release))
    return found, {clique: counts(held, domain, clique) / len(held) for clique in cliques}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--replications", type=int, default=2)
    parser.add_argument("--sets", default="nltcs,adult,msnbc")
    parser.add_argument("--most", type=int, default=1200)
    parser.add_argument("--out", type=Path, default=RESULTS / "holdout.csv")
    asked = parser.parse_args()
    import jax

    rows: list[list[Any]] = []
    for name in asked.sets.split(","):
        found, held = releases(name, asked.data, asked.replications)
        with jax.enable_x64(True):
            side = Held([release for _, release in found], held)
            scores = {}
            for method in ("map", "cgm"):
                models = qf.fit(side.releases, method)
                scores[method] = side.kl(np.stack([side.vector(model.potentials) for model in models]))
            scores["naive*"] = naive(side).kl
            scores["em*"] = em(side, asked.most).kl
            if name != "msnbc":
                best, default = mbi(side, asked.most)
                scores["mbi*"], scores["mbi"] = best.kl, default
        for epsilon in EPSILONS[name]:
            here = [i for i, (e, _) in enumerate(found) if e == epsilon]
            means = {method: -float(np.mean(score[here])) for method, score in scores.items()}
            print(name, epsilon, {method: round(mean, 4) for method, mean in means.items()}, flush=True)
            rows += [[name, epsilon, method, f"{mean:.5f}"] for method, mean in means.items()]
    with asked.out.open("w", newline="") as file:
        csv.writer(file).writerows([["data", "epsilon", "method", "log_likelihood"], *rows])


if __name__ == "__main__":
    main()
