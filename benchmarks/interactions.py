"""Interactions measured apart, each once: learned by code of its own on nltcs, and the default beside equal tables::

    python -m benchmarks.interactions              # rows of docs/results/interactions.csv, in a minute or two
    python -m benchmarks.interactions --simulated  # rows of docs/results/apart.csv, in ten minutes

The first is a check of what the package learns, by code that has nothing in common with it, on the sixteen yes-or-no
columns of nltcs. A table of pairs or triples measures the effects of its single columns again each time. Of binary
columns, an interaction is one number: the records with an even count of ones among its columns, less those with an
odd count. One record moves it by exactly 1, so that k interactions with Gaussian noise of standard deviations s_1 ...
s_k cost sum 1 / (2 s_i^2) of zCDP (the residual basis of ResidualPlanner: Xiao, He, Zhang and Kifer 2023). Here all
interactions of one, two and three columns are measured and nothing is chosen; an interaction gets 1 / s^2 in
proportion to the square root of how many triples hold it. A log-linear model of all of them is learned by Newton
steps with a normal prior whose scale, one for each order, comes from its posterior. ``tv`` is the mean total
variation of all 3-way marginals. The noise is not exact, and comes from a seed: this protects nobody.

The second releases tables of simulated yes-or-no attributes with Gaussian noise, as ``qf.release`` does by default and
with ``weights="equal"``; ``kl`` is the divergence of the model that is learned from the true one, of 10,000 records.
"""

import argparse
import csv
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np

import quietfield as qf
from benchmarks.real_tables import EPSILONS, ROOT, problem
from quietfield.privacy import accounting

RESULTS = ROOT / "docs" / "results" / "interactions.csv"
SIMULATED = ROOT / "docs" / "results" / "apart.csv"
RECORDS, REPEATS = 10_000, 20
ONE_ANSWER = "all pairs, of which hardly any is yes together,"
DELTA = Fraction(1, 10**9)


def transform(joint: np.ndarray) -> np.ndarray:
    """All interactions of a joint distribution of binary columns, by the number whose bits are the columns."""
    columns = joint.size.bit_length() - 1
    for axis in range(columns):
        even, odd = np.moveaxis(joint.reshape((2,) * columns), axis, 0)
        joint = np.stack([even + odd, even - odd], axis)
    return joint.ravel()


def learn(
    places: np.ndarray, orders: np.ndarray, noisy: np.ndarray, variances: np.ndarray, records: int, columns: int
) -> np.ndarray:
    """The interactions of the model that is learned from noisy ones."""
    theta, scales = np.zeros(len(places)), np.array([np.nan, 4.0, 0.3, 0.05])
    for _ in range(12):
        for _ in range(6):
            log_joint = np.zeros(2**columns)
            log_joint[places] = theta
            joint = np.exp((log_joint := transform(log_joint)) - log_joint.max())
            moments = transform(joint / joint.sum())
            mean = moments[places]
            count = records * (moments[places[:, None] ^ places] - np.outer(mean, mean))  # the covariance of counts
            gain = np.linalg.solve(np.diag(variances) + count, count).T
            curvature = gain @ count + np.diag(1 / scales[orders] ** 2)
            gradient = gain @ (noisy - records * mean) - theta / scales[orders] ** 2
            step = np.linalg.solve(curvature, gradient)
            theta = theta + step * min(1.0, 0.5 / np.abs(step).max())
            if np.abs(step).max() < 1e-3:
                break
        spread = np.diag(np.linalg.inv(curvature))
        for order in set(orders.tolist()):
            scales[order] = np.sqrt((theta**2 + spread)[orders == order].mean())
    return moments


def mean_distance(true: np.ndarray, learned: np.ndarray, triples: Sequence[tuple[int, ...]]) -> float:
    """The mean total variation of 3-way marginals, from interactions as shares."""
    signs = np.array([[(-1) ** (i & j).bit_count() for i in range(8)] for j in range(8)])
    found = []
    for bits in triples:
        subsets = [sum(bit for i, bit in enumerate(bits) if j >> i & 1) for j in range(8)]
        found.append(np.abs((true - learned)[subsets] @ signs).sum() / 16)
    return float(np.mean(found))


def summarize() -> str:
    """What the rows say, as a sentence's part."""
    with RESULTS.open() as file:
        rows = list(csv.DictReader(file))
    means = {e: np.mean([float(row["tv"]) for row in rows if float(row["epsilon"]) == e]) for e in EPSILONS}
    return "mean total variation " + ", ".join(f"{mean:.2g} at epsilon {e:g}" for e, mean in means.items())


def simulated() -> Iterator[tuple[str, int, list[tuple[str, ...]]]]:
    """Structures whose tables overlap, with the number of attributes."""
    for structure, size, counts in (("all pairs", 2, (12, 16)), ("all triples", 3, (10,))):
        for many in counts:
            yield structure, many, list(combinations([f"x{i}" for i in range(many)], size))
    yield ONE_ANSWER, 12, list(combinations([f"x{i}" for i in range(12)], 2))


def draw_potentials(structure: str, cliques: list[tuple[str, ...]], random: np.random.Generator) -> dict:
    """The true model: drawn alike for all cells, or one in which hardly two attributes are yes together."""
    if structure != ONE_ANSWER:
        return {c: np.log(random.dirichlet(np.ones(2 ** len(c)))).reshape((2,) * len(c)) / len(c) for c in cliques}
    likely = {name: random.normal(0, 0.5) / 11 for name in sorted({name for c in cliques for name in c})}
    return {(a, b): np.array([[0.0, likely[b]], [likely[a], -6.0]]) for a, b in cliques}


def simulate() -> None:
    """Write the rows of simulated attributes."""
    with SIMULATED.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["structure", "attributes", "apart", "epsilon", "repeat", "weights", "kl"])
        for (structure, many, cliques), epsilon in product(list(simulated()), EPSILONS):
            schema = qf.Schema({f"x{i}": 2 for i in range(many)})
            for repeat in range(REPEATS):
                random = np.random.default_rng([many, repeat])
                truth = qf.Model(schema.domain, draw_potentials(structure, cliques, random))
                people = truth.sample(RECORDS, seed=repeat).codes
                for weights in ("equal", None):
                    release = qf.release(
                        people, schema, cliques, epsilon=epsilon, delta=DELTA, noise="gaussian", unit=qf.Rows(1),
                        ledger=None, weights=weights,
                    )  # fmt: skip
                    kl = f"{truth.kl(qf.fit(release)):.5g}"
                    writer.writerow([structure, many, len(release.interactions), epsilon, repeat, weights, kl])
            file.flush()


def summarize_simulated() -> str:
    """The ratios of divergence where interactions are measured apart, as a sentence's part."""
    kept: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    apart = set()
    with SIMULATED.open() as file:
        for row in csv.DictReader(file):
            key = row["structure"], row["attributes"], row["epsilon"]
            kept.setdefault(key, {"equal": [], "": []})[row["weights"]].append(float(row["kl"]))
            apart.update([key] if int(row["apart"]) else [])
    ratios = {key: float(np.exp(np.mean(np.log(kept[key][""]) - np.log(kept[key]["equal"])))) for key in kept}
    told = [
        f"{structure} of {many} attributes "
        + ", ".join(f"{ratios[structure, many, e]:.2f}" for s, m, e in ratios if (s, m) == (structure, many))
        for structure, many in dict.fromkeys(key[:2] for key in ratios if key in apart)
    ]
    return "; ".join(told)


def main() -> None:
    """Write the rows."""
    codes = problem("nltcs").codes
    records, columns = codes.shape
    bits = [1 << i for i in range(columns)]
    counts = np.bincount(codes @ np.array(bits), minlength=2**columns).astype(float)
    true = transform(counts)
    chosen = [subset for order in (1, 2, 3) for subset in combinations(bits, order)]
    places = np.array([sum(subset) for subset in chosen])
    orders = np.array([len(subset) for subset in chosen])
    weights = np.sqrt([comb(columns - order, 3 - order) for order in orders])
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["data", "epsilon", "seed", "tv"])
        for epsilon in EPSILONS:
            rho = float(accounting.zcdp_rho(Fraction(str(epsilon)), DELTA))
            variances = weights.sum() / (2 * rho * weights)
            for seed in range(3):
                noise = np.random.default_rng(seed).normal(0, np.sqrt(variances))
                learned = learn(places, orders, true[places] + noise, variances, records, columns)
                distance = mean_distance(true / records, learned, [s for s in chosen if len(s) == 3])
                writer.writerow(["nltcs", epsilon, seed, f"{distance:.5f}"])
                file.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulated", action="store_true")
    (simulate if parser.parse_args().simulated else main)()
