"""Times of ``python -m benchmarks.real_tables``: seconds that a person waits for a fit and for error bars.

Each row is a process of its own. ``first_s`` is from its start to the first model, imports and compilation included;
``again_s`` a second fit of the same tables; ``first_cpu_s`` and ``again_cpu_s`` are their CPU seconds, in all threads;
``first_bar_s`` the first error bar and ``all_bars_s`` those of all tables of up to 20,000 cells, the first included;
``peak_gb`` the most memory; ``load`` how many processes wanted a processor just before. Random trees are fitted one
after the other in one process, each tree once, as ``again_s``. What is not there was not reached; ``status`` says why.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import quietfield as qf
from benchmarks._pages import WHERE, replace_rows, where
from benchmarks.counting import peak_mb
from benchmarks.real_tables import ROOT, count, learn_mbi, problem, release, structures
from quietfield.models.intervals import MOST_CELLS, intervals

KEY = ["data", "structure", "method"]
SECONDS = ["first_s", "first_cpu_s", "again_s", "again_cpu_s", "first_bar_s", "all_bars_s"]
FIELDS = [*KEY, "tables", "cells", *SECONDS, "peak_gb", "rounds", "settled", "status", *WHERE]
MADE_UP = "made up"
FRESH = (
    "import sys, time; start = time.perf_counter(); "
    "from benchmarks._real_tables_times import time_here; time_here(start, *sys.argv[1:])"
)


def learn(given: qf.Release, method: str) -> qf.Model:
    """A model by one of the methods."""
    return qf.fit(given) if method == "map" else learn_mbi(given)


def time_again(given: qf.Release, method: str) -> dict[str, float]:
    """Seconds of a fit in this process, on the clock and of its processors."""
    start, used = time.perf_counter(), time.process_time()
    learn(given, method)
    return {"again_s": time.perf_counter() - start, "again_cpu_s": time.process_time() - used}


def time_here(start: float, path: str, method: str) -> None:
    """Print the figures of one release, each as soon as it is known."""

    def tell(name: str, value: object) -> None:
        print(name, f"{value:.3f}" if isinstance(value, float) else value, flush=True)

    given = qf.Release.load(path)
    model = learn(given, method)
    tell("first_s", time.perf_counter() - start)
    tell("first_cpu_s", time.process_time())
    for name, value in time_again(given, method).items():
        tell(name, value)
    if method == "map":
        assert model.report is not None
        tell("rounds", model.report.rounds)
        tell("settled", model.report.converged)
        start = time.perf_counter()
        model.interval(next(iter(given.domain)))
        tell("first_bar_s", time.perf_counter() - start)
        intervals(model, [clique for clique in given.tables if given.domain.cells(clique) <= MOST_CELLS])
        tell("all_bars_s", time.perf_counter() - start)
    tell("peak_gb", peak_mb() / 1024)


def time_release(given: qf.Release, method: str, limit: float) -> dict[str, str]:
    """The figures of one release, from a fresh process that is stopped after so many seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "given.qfr"
        given.save(path)
        command = [sys.executable, "-W", "ignore", "-c", FRESH, str(path), method]
        try:
            done = subprocess.run(command, capture_output=True, timeout=limit, cwd=ROOT, check=False)
            out = done.stdout
            last = (done.stderr.decode().strip().splitlines() or ["no message"])[-1]
            status = f"failed: {last[:200]}" if done.returncode else ""
        except subprocess.TimeoutExpired as stopped:
            out, status = stopped.stdout or b"", f"stopped after {limit:g} s"
    lines = [line.split() for line in out.decode().splitlines()]
    return {line[0]: line[1] for line in lines if len(line) == 2 and line[0] in FIELDS} | {"status": status}


def describe(given: qf.Release, data: str, structure: str, method: str) -> dict[str, Any]:
    """The fields of a row that need no clock."""
    named = dict(zip(KEY, (data, structure, method), strict=True))
    cells = sum(table.size for table in given.tables.values())
    return {**named, "tables": len(given.tables), "cells": cells, **where()}


def time_tables(names: Iterable[str], methods: Iterable[str], limit: float, path: Path) -> None:
    """Measure data sets, Gaussian noise at epsilon 1, and replace their rows."""
    for name in names:
        found = problem(name)
        structure, cliques = "tree of strongest pairs", structures(found)["mst"]
        if name == "survey-30":  # the column of most values joined with every other
            hub = max(found.domain, key=found.domain.size)
            structure, cliques = "star", [*((a,) for a in found.domain), *((hub, a) for a in found.domain if a != hub)]
        _time_all(release(found, cliques, "gaussian", 1.0), name, structure, methods, limit, path)


def time_structures(methods: Iterable[str], limit: float, path: Path) -> None:
    """Measure structures of many kinds, 20,000 records with Laplace noise of scale 20, and replace their rows."""
    for structure, domain, cliques in shapes():
        _time_all(draw_release(domain, cliques), MADE_UP, structure, methods, limit, path)


def _time_all(given: qf.Release, data: str, structure: str, methods: Iterable[str], limit: float, path: Path) -> None:
    """Measure one release by all methods, and replace its rows."""
    for method in methods:
        row = describe(given, data, structure, method) | time_release(given, method, limit)
        print(*row.values(), flush=True)
        replace_rows(path, FIELDS, [row], KEY)


def time_trees(name: str, methods: Iterable[str], path: Path, number: int = 30) -> None:
    """Measure random trees of a data set, each new to the process, and replace their rows."""
    found = problem(name)
    for method in methods:
        random = np.random.default_rng(0)
        for seed in range(number):
            order = [list(found.domain)[i] for i in random.permutation(len(found.domain))]
            tree = [(order[int(random.integers(i))], order[i]) for i in range(1, len(order))]
            given = release(found, [*((a,) for a in found.domain), *tree], "gaussian", 1.0, seed)
            taken = {field: f"{value:.3f}" for field, value in time_again(given, method).items()}
            row = describe(given, name, f"random tree {seed + 1}", method) | taken
            print(*row.values(), flush=True)
            replace_rows(path, FIELDS, [row], KEY)


def shapes() -> Iterator[tuple[str, qf.Domain, list[tuple[str, ...]]]]:
    """Structures of many kinds, drawn from a seed."""
    random = np.random.default_rng(0)

    def named(sizes: Any) -> qf.Domain:
        return qf.Domain({f"x{i}": int(size) for i, size in enumerate(sizes)})

    def clusters(number: int, width: int) -> list[tuple[str, ...]]:
        """Cliques of a random tree of that treewidth."""
        found = [tuple(range(width + 1))]
        for i in range(width + 1, number):
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
    alone = [(name,) for name in nested]
    yield "tree of 30 attributes of 8 values, and all of them alone", nested, [*alone, *clusters(30, 1)]


def draw_release(domain: qf.Domain, cliques: list[tuple[str, ...]], records: int = 20_000) -> qf.Release:
    """Noisy tables of made-up records: skewed, and half of the time what the attribute before is."""
    random = np.random.default_rng(1)
    codes = np.zeros((records, len(domain)), int)
    for i, size in enumerate(domain.shape):
        codes[:, i] = random.choice(size, records, p=random.dirichlet(np.full(size, 0.5)))
        if i:
            codes[:, i] = np.where(random.random(records) < 0.5, codes[:, i - 1] % size, codes[:, i])
    tables = {c: count(domain, codes, c) for c in cliques}
    noisy = {c: table + random.laplace(0, 20, table.shape) for c, table in tables.items()}
    return qf.Release.from_tables(domain, noisy, noise=qf.Laplace(20.0), total=records)
