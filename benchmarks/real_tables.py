"""Real tables: the default learner against mbi, in quality and in the time that a person waits::

    python -m benchmarks.real_tables --workers 2       # quality: rows of docs/results/real-tables.csv
    python -m benchmarks.real_tables --speed           # first fit, again, error bars, each in a fresh process
    python -m benchmarks.real_tables --structures      # a fit and its first error bar, for structures of many kinds
    python -m benchmarks.real_tables --page            # docs/results/real-tables.md from the rows

Adult, nltcs, titanic and msnbc are rows, and errors are against them; asia, sachs, child, insurance and alarm are
populations with a known truth, from which 20,000 records are drawn; the surveys are made up from a seed, with columns
of 2 to 700 values, skewed. All one-way tables are released, with a maximum spanning tree of pairs (``mst``) or with
some triples along it, too (``triples``); every table has the same share of epsilon (delta is 1e-9 for Gaussian noise).

``tv`` is the mean total variation of 3-way marginals (40 triples, the same for all), ``loglik`` the mean of records'
log-probabilities. mbi is 2.0.0, mirror descent: its default of 1,000 iterations, and ``mbi*`` at the best of several
stops, chosen with the truth in hand. Data that is not on this machine is left out.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import quietfield as qf

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("QUIETFIELD_DATA", ROOT.parent / "shared" / "data"))
RESULTS = ROOT / "docs" / "results" / "real-tables.csv"
FIELDS = ["data", "tables", "noise", "epsilon", "method", "setting", "tv", "loglik"]
ROWS = ("nltcs", "titanic", "adult", "msnbc")
NETWORKS = ("asia", "sachs", "child", "insurance", "alarm")
SURVEYS = {"survey-30": (30, 20_000, 1), "survey-110": (110, 19_000, 2)}
STOPS = (30, 100, 200, 400, 700, 1000)
EPSILONS = (0.1, 1.0, 10.0)


class Problem(NamedTuple):
    """Records, and what a learned model is held against."""

    domain: qf.Domain
    codes: np.ndarray
    scored: np.ndarray  # records whose log-probability is taken
    truth: Any  # attributes to their true joint distribution


def survey(columns: int, rows: int, seed: int, largest: int = 700) -> tuple[qf.Domain, np.ndarray]:
    """A made-up survey: a tree of columns of 2 to 700 values, skewed, each depending on an earlier one."""
    random = np.random.default_rng(seed)
    sizes = np.clip(np.exp(random.normal(1.8, 1.1, columns)).astype(int) + 2, 2, largest)
    sizes[random.permutation(columns)[: max(1, columns // 30)]] = largest
    domain = qf.Domain({f"q{i:03d}": int(size) for i, size in enumerate(sizes)})
    codes = np.zeros((rows, columns), int)
    order = random.permutation(columns)
    for i, v in enumerate(order):
        base = random.dirichlet(np.full(sizes[v], 0.3)) + 1e-4 / sizes[v]
        chances = (base / base.sum())[None]
        parent = np.zeros(rows, int)
        if i:
            u = order[random.integers(max(0, i - 6), i)]
            bend = np.outer(random.normal(size=sizes[u]), random.normal(size=sizes[v])) * random.uniform(0.5, 2.0)
            chances = base * np.exp(np.clip(bend, -6, 6))
            chances /= chances.sum(1, keepdims=True)
            parent = codes[:, u]
        steps = chances.cumsum(1)
        drawn = random.random(rows)
        for value in np.unique(parent):
            chosen = parent == value
            codes[chosen, v] = np.searchsorted(steps[value], drawn[chosen]).clip(0, sizes[v] - 1)
    return domain, codes


@lru_cache(maxsize=2)
def problem(name: str) -> Problem:
    """The records and the truth of one data set."""
    random = np.random.default_rng(2)
    if name in NETWORKS:
        from quietfield.interop import load_bif

        model = load_bif(next((DATA / "bif").glob(f"{name}.bif*")))
        drawn = [np.asarray(model.sample(20_000, seed).codes) for seed in (1, 2)]
        return Problem(model.domain, drawn[0], drawn[1], model.marginal)
    if name in SURVEYS:
        domain, codes = survey(*SURVEYS[name])
    else:
        import pyarrow.parquet as pq

        domain = qf.Domain(json.loads((DATA / f"{name}-domain.json").read_text()))
        table = pq.read_table(DATA / f"{name}.parquet")
        codes = np.stack([table.column(a).to_numpy() for a in domain], 1)
    scored = codes[random.permutation(len(codes))[:20_000]]
    return Problem(domain, codes, scored, lambda clique: count(domain, codes, clique) / len(codes))


def available() -> list[str]:
    """The data sets that this machine has."""
    rows = [name for name in ROWS if (DATA / f"{name}.parquet").exists()]
    return rows + [name for name in NETWORKS if list((DATA / "bif").glob(f"{name}.bif*"))] + list(SURVEYS)


def count(domain: qf.Domain, codes: np.ndarray, clique: tuple[str, ...]) -> np.ndarray:
    """A contingency table."""
    shape = domain.table_shape(clique)
    cells = np.ravel_multi_index([codes[:, domain.position(name)] for name in clique], shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape).astype(float)


def structures(found: Problem) -> dict[str, list[tuple[str, ...]]]:
    """All one-way tables with a tree of the strongest pairs, and the same with the six smallest triples along it."""
    domain, codes = found.domain, found.codes[:20_000]

    def strength(pair: tuple[str, str]) -> float:
        joint = count(domain, codes, pair) / len(codes)
        return float(np.abs(joint - np.outer(joint.sum(1), joint.sum(0))).sum())

    tree: list[tuple[str, ...]] = []
    part = {name: name for name in domain}

    def root(name: str) -> str:
        while part[name] != name:
            name = part[name]
        return name

    for a, b in sorted(combinations(domain, 2), key=strength, reverse=True):
        if root(a) != root(b):
            part[root(a)] = root(b)
            tree.append((a, b))
    beside: dict[str, set[str]] = {name: set() for name in domain}
    for a, b in tree:
        beside[a].add(b)
        beside[b].add(a)
    paths = {tuple(sorted((a, v, b))) for v in domain for a, b in combinations(sorted(beside[v]), 2)}
    mst = [*((name,) for name in domain), *tree]
    return {"mst": mst, "triples": mst + sorted(paths, key=lambda path: (domain.cells(path), path))[:6]}


def release(found: Problem, cliques: list[tuple[str, ...]], noise: str, epsilon: float, seed: int = 0) -> qf.Release:
    """Noisy tables, drawn from a seed (so that they can be drawn again: no promise is made)."""
    from quietfield.privacy import accounting

    random = np.random.default_rng(seed)
    if noise == "gaussian":
        rho = float(accounting.zcdp_rho(Fraction(str(epsilon)), Fraction("1e-9")))
        kind: Any = qf.Gaussian((len(cliques) / (2 * rho)) ** 0.5)
    else:
        kind = qf.Laplace(len(cliques) / epsilon)
    draw = random.normal if noise == "gaussian" else random.laplace
    tables = {c: count(found.domain, found.codes, c) for c in cliques}
    return qf.Release.from_tables(
        found.domain, {c: table + draw(0, kind.scale, table.shape) for c, table in tables.items()}, noise=kind
    )


def learn_mbi(given: qf.Release, iterations: int = 1000) -> qf.Model:
    """mbi's estimate from the same tables, as a model."""
    import jax

    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mbi
        from mbi import estimation

        domain = mbi.Domain(tuple(given.domain), given.domain.shape)
        measured = [
            mbi.LinearMeasurement(np.asarray(table).ravel(), clique, stddev=given.noise[clique].std)
            for clique, table in given.tables.items()
        ]
        found = estimation.MirrorDescent().estimate(domain, measured, iters=iterations)
        return qf.Model(given.domain, {c: np.asarray(found.potentials[c].values) for c in found.potentials.cliques})


def triples(domain: qf.Domain, most: int = 40) -> list[tuple[str, ...]]:
    """The triples that errors are taken over."""
    small = [c for c in combinations(domain, 3) if domain.cells(c) <= 2_000_000]
    order = np.random.default_rng(1).permutation(len(small))
    return [small[i] for i in order[:most]]


def score(model: qf.Model, found: Problem) -> tuple[float, float]:
    """(mean total variation of 3-way marginals, mean log-probability)."""
    errors = [0.5 * np.abs(model.marginal(c) - found.truth(c)).sum() for c in triples(found.domain)]
    return float(np.mean(errors)), float(np.mean(model.log_prob(found.scored)))


def compare(task: tuple[str, str, str, tuple[str, ...]]) -> list[dict[str, Any]]:
    """Some methods on one data set, structure and kind of noise."""
    name, tables, noise, methods = task
    found = problem(name)
    cliques = structures(found)[tables]
    rows = []
    for epsilon in EPSILONS:
        given = release(found, cliques, noise, epsilon)
        common = {"data": name, "tables": tables, "noise": noise, "epsilon": epsilon}
        settings: list[tuple[str, Any, qf.Model]] = [("map", "", qf.fit(given))] if "map" in methods else []
        stops = (STOPS if name != "survey-110" else STOPS[-1:]) if "mbi" in methods else ()
        settings += [("mbi", stop, learn_mbi(given, stop)) for stop in stops]
        for method, setting, model in settings:
            tv, loglik = score(model, found)
            row = {"method": method, "setting": setting, "tv": round(tv, 5), "loglik": round(loglik, 4)}
            rows.append({**common, **row})
    return rows


def tasks(names: list[str], methods: tuple[str, ...]) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    for name in reversed(names):  # the largest first
        for tables in ("mst", "triples"):
            for noise in ("gaussian", "laplace"):
                yield name, tables, noise, methods


def run(workers: int, names: list[str], methods: tuple[str, ...]) -> None:
    """Measure quality, and replace the rows of these data sets and methods; the same releases are drawn every time."""
    from multiprocessing import get_context

    kept: list[dict[str, Any]] = []
    if RESULTS.exists():
        with RESULTS.open() as file:
            kept = [row for row in csv.DictReader(file) if row["data"] not in names or row["method"] not in methods]
    with get_context("spawn").Pool(workers) as pool:
        for rows in pool.imap_unordered(compare, list(tasks(names, methods))):
            kept += rows
            print(*rows[0].values(), flush=True)
            with RESULTS.open("w", newline="") as file:
                writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(sorted(kept, key=lambda r: tuple(str(r[f]) for f in FIELDS[:6])))


FRESH = """
import sys, time
start = time.perf_counter()
import quietfield as qf
from benchmarks import real_tables as bench
given = qf.Release.load(sys.argv[1])
method = sys.argv[2]
learn = qf.fit if method == "map" else bench.learn_mbi
model = learn(given)
first = time.perf_counter() - start
start = time.perf_counter()
learn(given)
again = time.perf_counter() - start
bar = every = float("nan")
if method == "map":
    from quietfield.models.intervals import intervals
    start = time.perf_counter()
    model.interval(next(iter(given.domain)))
    bar = time.perf_counter() - start
    intervals(model, model.cliques)
    every = time.perf_counter() - start
import resource
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
print(f"{first:.2f} {again:.2f} {bar:.2f} {every:.2f} {peak:.2f}")
"""


def speed(names: list[str], folder: Path) -> None:
    """Seconds of a first fit in a fresh process, imports included, of a second one, and of error bars."""
    print("data, cells | method: first, again, first error bar, all cells (s), peak (GB)")
    for name in names:
        found = problem(name)
        cliques = structures(found)["mst"]
        if name == "survey-30":  # a star: the column of most values joined with every other
            hub = max(found.domain, key=found.domain.size)
            cliques = [*((a,) for a in found.domain), *((hub, a) for a in found.domain if a != hub)]
        path = folder / f"{name}.qfr"
        release(found, cliques, "gaussian", 1.0).save(path)
        cells = sum(found.domain.cells(c) for c in cliques)
        for method in ("map", "mbi"):
            command = [sys.executable, "-W", "ignore", "-c", FRESH, str(path), method]
            out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
            print(f"{name}, {cells:,} | {method}: {out.strip().splitlines()[-1]}", flush=True)
    if "adult" in names:
        found = problem("adult")
        random = np.random.default_rng(0)
        times = []
        for seed in range(30):
            order = [list(found.domain)[i] for i in random.permutation(len(found.domain))]
            tree = [(order[int(random.integers(i))], order[i]) for i in range(1, len(order))]
            given = release(found, [*((a,) for a in found.domain), *tree], "gaussian", 1.0, seed)
            start = time.perf_counter()
            qf.fit(given)
            times.append(time.perf_counter() - start)
        print(f"30 different trees of adult in turn: {np.mean(times):.2f} s each, at most {max(times):.2f} s")


def shapes() -> Iterator[tuple[str, qf.Domain, list[tuple[str, ...]]]]:
    """Structures of many kinds, drawn from a seed."""
    random = np.random.default_rng(0)

    def named(sizes: Any) -> qf.Domain:
        return qf.Domain({f"x{i}": int(size) for i, size in enumerate(sizes)})

    def clusters(count: int, width: int) -> list[tuple[str, ...]]:
        """Cliques of a random tree of that treewidth."""
        found = [tuple(range(width + 1))]
        for i in range(width + 1, count):
            old = found[int(random.integers(len(found)))]
            found.append((*sorted(random.choice(old, width, replace=False).tolist()), i))
        return [tuple(f"x{v}" for v in clique) for clique in found]

    for size in (2, 5):
        yield f"tree of 1,000 attributes of {size} values", named([size] * 1000), clusters(1000, 1)
    grid = named([3] * 150)
    yield "grid of 3 x 50 attributes of 3 values", grid, list(qf.structures.grid(grid, 3).cliques)
    wide = named([1000, 30, 1000, 30, 1000])
    yield "chain of attributes of 1,000 and 30 values in turn", wide, list(qf.structures.chain(wide).cliques)
    for width in (1, 2, 3, 4):
        sizes = (2, 3, 8, 20) if width < 3 else (2, 3, 4, 8)
        text = ", ".join(map(str, sizes[:-1]))
        name = f"treewidth {width}, 40 attributes of {text} or {sizes[-1]} values"
        yield name, named(random.choice(sizes, 40)), clusters(40, width)
    nested = named([8] * 30)
    yield (
        "tree of 30 attributes of 8 values, and all of them alone",
        nested,
        [*((a,) for a in nested), *clusters(30, 1)],
    )


def time_structures() -> None:
    """CPU seconds of a fit and of its first error bar, as rows of a table."""
    print("| structure | tables | cells | fit | first error bar | rounds |\n|---|---|---|---|---|---|")
    for name, domain, cliques in shapes():
        random = np.random.default_rng(1)
        codes = np.zeros((20_000, len(domain)), int)
        for i, size in enumerate(domain.shape):  # skewed, and half of the time what the attribute before it is
            codes[:, i] = random.choice(size, len(codes), p=random.dirichlet(np.full(size, 0.5)))
            if i:
                codes[:, i] = np.where(random.random(len(codes)) < 0.5, codes[:, i - 1] % size, codes[:, i])
        tables = {c: count(domain, codes, c) for c in cliques}
        noisy = {c: table + random.laplace(0, 20, table.shape) for c, table in tables.items()}
        given = qf.Release.from_tables(domain, noisy, noise=qf.Laplace(20.0), total=len(codes))
        start = time.process_time()
        model = qf.fit(given)
        learned = time.process_time()
        model.interval(next(iter(domain)))
        bar = time.process_time() - learned
        cells = sum(domain.cells(c) for c in cliques)
        report = model.report
        assert report is not None
        rounds = f"{report.rounds}{'' if report.converged else ', not settled'}"
        print(f"| {name} | {len(cliques)} | {cells:,} | {learned - start:.1f} s | {bar:.1f} s | {rounds} |", flush=True)


def page() -> None:
    """The table of docs/results/real-tables.md, for the rows that are there."""
    with RESULTS.open() as file:
        rows = list(csv.DictReader(file))
    cells: dict[tuple[str, ...], dict[str, list[tuple[float, float, str]]]] = {}
    for row in rows:
        key = (row["data"], row["tables"], row["noise"], row["epsilon"])
        found = (float(row["tv"]), float(row["loglik"]), row["setting"])
        cells.setdefault(key, {}).setdefault(row["method"], []).append(found)
    print("| data | tables | noise | epsilon | tv: map | mbi | mbi* | map / mbi | loglik: map | mbi |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    ratios, starred, better = [], [], []
    for key, found in sorted(cells.items(), key=lambda item: (item[0][:3], float(item[0][3]))):
        (ours,) = found["map"]
        default = next(one for one in found["mbi"] if one[2] == "1000")
        best = min(found["mbi"])
        ratios.append(ours[0] / default[0])
        starred.append(ours[0] / best[0])
        better.append(ours[1] > default[1])
        figures = (
            f"{ours[0]:.4f} | {default[0]:.4f} | {best[0]:.4f} | {ratios[-1]:.3f} | {ours[1]:.3f} | {default[1]:.3f}"
        )
        print(f"| {' | '.join(key)} | {figures} |")
    print(
        f"\nGeometric mean of map / mbi: {np.exp(np.mean(np.log(ratios))):.3f}; above 1 in "
        f"{sum(r > 1 for r in ratios)} of {len(ratios)} (worst {max(ratios):.3f}); at most 1.02 of mbi* in "
        f"{sum(r <= 1.02 for r in starred)}; log-likelihood above mbi's in {sum(better)}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--data", nargs="*", default=None, help="some of the data sets")
    parser.add_argument("--methods", nargs="+", choices=["map", "mbi"], default=["map", "mbi"])
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--structures", action="store_true")
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    names = asked.data or available()
    if asked.page:
        page()
    elif asked.structures:
        time_structures()
    elif asked.speed:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            speed(names, Path(folder))
    else:
        run(asked.workers, names, tuple(asked.methods))


if __name__ == "__main__":
    main()
