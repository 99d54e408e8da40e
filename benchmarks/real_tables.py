"""Real tables: the default learner against mbi, in quality and in the time that a person waits::

    python -m benchmarks.real_tables --workers 2       # quality: rows of docs/results/real-tables.csv
    python -m benchmarks.real_tables --releases 1 2 3  # the same on other draws of the noise; 0 is the first
    python -m benchmarks.real_tables --speed           # fits and error bars: rows of real-tables-times.csv
    python -m benchmarks.real_tables --structures      # the same for structures of many kinds
    python -m benchmarks.real_tables --commands        # commands as people run them: rows of real-tables-commands.csv
    python -m benchmarks.real_tables --coverage        # how often intervals hold: rows of real-tables-coverage.csv
    python -m benchmarks.real_tables --page            # docs/results/real-tables.md from all these rows

Rows of what is measured again are replaced; ``--data`` and ``--methods`` choose.

Adult, nltcs, titanic and msnbc are rows, and errors are against them; asia, sachs, child, insurance and alarm are
populations with a known truth, from which 20,000 records are drawn; the surveys are made up from a seed, with columns
of 2 to 700 values, skewed. All one-way tables are released, with a maximum spanning tree of pairs (``mst``) or with
some triples along it, too (``triples``); every table has the same share of epsilon (delta is 1e-9 for Gaussian noise).

``tv`` is the mean total variation of 3-way marginals (40 triples, the same for all), ``loglik`` the mean of records'
log-probabilities. mbi is 2.0.0, mirror descent: its default of 1,000 iterations, and ``mbi*`` at the best of several
stops, chosen with the truth in hand. Data that is not on this machine is left out.
"""

import argparse
import json
import os
import warnings
from contextlib import nullcontext
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import quietfield as qf
from benchmarks._pages import RESULTS, replace_rows, write_page

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("QUIETFIELD_DATA", ROOT.parent / "shared" / "data"))
FIELDS = ["data", "tables", "noise", "epsilon", "release", "method", "setting", "tv", "loglik"]
ROWS = ("nltcs", "titanic", "adult", "msnbc")
NETWORKS = ("asia", "sachs", "child", "insurance", "alarm")
SURVEYS = {"survey-30": (30, 20_000, 1), "survey-110": (110, 19_000, 2)}
STOPS = (50, 100, 200, 400, 700, 1000)
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


class Task(NamedTuple):
    """One data set, structure and kind of noise; on which draws of the noise, and by which methods."""

    data: str
    tables: str
    noise: str
    releases: tuple[int, ...]
    methods: tuple[str, ...]


def compare(task: Task) -> list[dict[str, Any]]:
    """Some methods on one data set, structure and kind of noise."""
    name, tables, noise, releases, methods = task
    found = problem(name)
    cliques = structures(found)[tables]
    rows = []
    for epsilon, seed in product(EPSILONS, releases):
        given = release(found, cliques, noise, epsilon, seed)
        common = {"data": name, "tables": tables, "noise": noise, "epsilon": epsilon, "release": seed}
        settings: list[tuple[str, Any, qf.Model]] = [("map", "", qf.fit(given))] if "map" in methods else []
        if "map" in methods and name not in NETWORKS:  # errors are against the records
            settings.append(("map", "records", qf.fit(given, of="records")))
        stops = (STOPS if name != "survey-110" else STOPS[-1:]) if "mbi" in methods else ()
        settings += [("mbi", stop, learn_mbi(given, stop)) for stop in stops]
        for method, setting, model in settings:
            tv, loglik = score(model, found)
            row = {"method": method, "setting": setting, "tv": round(tv, 5), "loglik": round(loglik, 4)}
            rows.append({**common, **row})
    return rows


def run(workers: int, names: list[str], releases: tuple[int, ...], methods: tuple[str, ...], path: Path) -> None:
    """Measure quality, and replace the rows; the same releases are drawn every time."""
    from multiprocessing import get_context

    kinds = product(reversed(names), ("mst", "triples"), ("gaussian", "laplace"))  # the largest first
    planned = [Task(*kind, releases, methods) for kind in kinds]
    with get_context("spawn").Pool(workers) if workers > 1 else nullcontext() as pool:
        for rows in pool.imap_unordered(compare, planned) if pool else map(compare, planned):
            replace_rows(path, FIELDS, rows, FIELDS[:7])
            print(*rows[0].values(), flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--data", nargs="*", default=None, help="some of the data sets")
    parser.add_argument("--releases", type=int, nargs="+", default=[0], help="which draws of the noise, by their seeds")
    parser.add_argument("--methods", nargs="+", choices=["map", "mbi"], default=["map", "mbi"])
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of the rows and of the page")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a process that is timed ends")
    for command in ("speed", "structures", "commands", "coverage", "page"):
        parser.add_argument(f"--{command}", action="store_true")
    asked = parser.parse_args(arguments)
    names, methods = asked.data or available(), tuple(asked.methods)
    if asked.page:
        write_page("real-tables", asked.out)
    elif asked.speed or asked.structures:
        from benchmarks import _real_tables_times as times

        path = asked.out / "real-tables-times.csv"
        if asked.speed:
            times.time_tables(names, methods, asked.limit, path)
            if "adult" in names:
                times.time_trees("adult", methods, path)
        else:
            times.time_structures(methods, asked.limit, path)
    elif asked.commands:
        from benchmarks._real_tables_commands import time_commands

        time_commands(asked.data or ["adult", *SURVEYS], asked.out / "real-tables-commands.csv")
    elif asked.coverage:
        from benchmarks._real_tables_coverage import measure_coverage

        for name in asked.data or ["adult"]:
            measure_coverage(name, asked.out / "real-tables-coverage.csv")
    else:
        run(asked.workers, names, tuple(asked.releases), methods, asked.out / "real-tables.csv")


if __name__ == "__main__":
    main()
