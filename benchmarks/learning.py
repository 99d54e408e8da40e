"""The default learner against the best that its peers can do, each peer's setting picked with the truth in hand::

    python -m benchmarks.learning --suite chain            # one suite; adds rows to docs/results/learning.csv
    python -m benchmarks.learning --suite random --populations 3
    python -m benchmarks.learning --page                   # docs/results/learning.md and .svg from the rows

KL(true || learned) in nats, N given to all. Methods: ``map`` (``qf.fit`` with no option set), ``cgm`` (with its own
stopping rule), ``naive*`` (best lambda of a grid), ``em*`` (CGM's EM at its best iteration), ``mbi*`` (mbi 2.0.0,
MirrorDescent with its L2 loss, at its best iteration) and ``mbi`` (its default of 1,000 iterations).

On a GPU all releases of one structure are fitted in batches; on a CPU one after the other, each by all methods in turn
(a batch would wait for its slowest). mbi's own step function is mapped over releases too; ``--check`` shows that this
gives what mbi's ``estimate`` gives.
"""

import argparse
import csv
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import quietfield as qf
from quietfield.domain import Domain
from quietfield.study.simulation import Simulation

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
FIELDS = ["suite", "population", "replication", "records", "epsilon", "method", "setting", "kl", "seconds"]
SIZES, EPSILONS = (1_000, 10_000, 100_000, 1_000_000), (0.1, 0.5, 1.0)
LAMBDAS = np.logspace(-7, 0.5, 31)  # per record


class Suite(NamedTuple):
    """One kind of problem."""

    structure: Any  # a name that qf.simulate knows, or cliques of attributes x0, x1, ...
    options: dict[str, Any]
    sizes: tuple[int, ...] = SIZES
    epsilons: tuple[float, ...] = EPSILONS
    replications: int = 2
    shared: bool = True  # all populations have the same structure, so they are fitted together
    sizes_of_attributes: tuple[int, ...] | None = None


def _pairs(*pairs: tuple[int, int]) -> list[tuple[str, str]]:
    return [(f"x{i}", f"x{j}") for i, j in pairs]


WHEEL = _pairs(*((0, i) for i in range(1, 8)), *((i, i % 7 + 1) for i in range(1, 8)))
TRIPLES = [(f"x{i}", f"x{i + 1}", f"x{i + 2}") for i in range(0, 8, 1)]
FEW = {"sizes": (3_000, 100_000), "epsilons": (0.1, 1.0)}
SUITES = {
    "chain": Suite("chain", {"states": 10}),
    "random": Suite("random", {"states": 10}, shared=False),
    "chain-20": Suite("chain", {"states": 20}, sizes=(10_000, 100_000, 1_000_000), epsilons=(0.1, 1.0)),
    "random-20": Suite("random", {"states": 20}, sizes=(100_000,), epsilons=(0.1, 1.0), shared=False),
    "chain-gaussian": Suite("chain", {"states": 10, "potentials": "gaussian", "strength": 1.5}, **FEW),
    "chain-peaked": Suite("chain", {"states": 10, "strength": 1 / 0.3}, **FEW),
    "tree": Suite("tree", {"states": 10, "attributes": 30}, **FEW, shared=False),
    "grid": Suite("grid", {"states": 5, "attributes": 12}, **FEW),
    "wheel": Suite(WHEEL, {"states": 6, "attributes": 8}, **FEW),
    "wheel-peaked": Suite(WHEEL, {"states": 6, "attributes": 8, "strength": 1 / 0.3}, **FEW),
    "triples": Suite(TRIPLES, {"states": 4, "attributes": 10}, **FEW),
    "triples-gaussian": Suite(
        TRIPLES, {"states": 4, "attributes": 10, "potentials": "gaussian", "strength": 1.5}, **FEW
    ),
    "unequal": Suite("chain", {}, **FEW, sizes_of_attributes=(2, 3, 12, 5, 2, 20, 7, 3, 9, 4)),
}  # fmt: skip


class Case(NamedTuple):
    population: int
    replication: int
    study: Simulation


def cases(suite: Suite, population: int) -> Iterator[Case]:
    """One population model, all its sizes, epsilons and replications."""
    model = None
    if suite.sizes_of_attributes is not None:
        domain = Domain({f"x{i}": size for i, size in enumerate(suite.sizes_of_attributes)})
        random = np.random.default_rng([population, 5])
        cliques = qf.structures.chain(domain, order=3)
        model = qf.Model(domain, {c: np.log(_dirichlet(random, domain.table_shape(c))) for c in cliques})
    for replication in range(suite.replications):
        for records in suite.sizes:
            for epsilon in suite.epsilons:
                common = {"records": records, "epsilon": epsilon, "seed": 1000 * population + replication}
                if model is not None:
                    yield Case(population, replication, qf.simulate(model=model, **common))
                else:
                    study = qf.simulate(suite.structure, model_seed=population, **common, **suite.options)
                    yield Case(population, replication, study)


def _dirichlet(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return random.dirichlet(np.ones(int(np.prod(shape)))).reshape(shape)


class Side:
    """Releases of one structure side by side: their problems, and KL from their truths."""

    def __init__(self, found: list[Case]) -> None:
        from quietfield.learning.problem import problem_of

        self.cases = found
        self.releases = [case.study.release for case in found]
        problems = [problem_of(release, "exact", {}) for release in self.releases]
        self.shape = problems[0][0]
        assert all(shape is self.shape for shape, _ in problems)
        self.gather([data for _, data in problems])
        shares = np.stack([self.vector(case.study.model.marginals()) for case in found])
        self.score_by(shares, np.array([case.study.model.entropy() for case in found]))

    def gather(self, data: list[Any]) -> None:
        import jax

        self.data = jax.tree.map(lambda *parts: np.stack(parts), *data)

    def score_by(self, shares: np.ndarray, entropies: np.ndarray) -> None:
        """KL from distributions with these shares of cells, and their entropies."""
        self.shares, self.entropies = shares, entropies

    def vector(self, tables: Any) -> np.ndarray:
        """Tables by clique as one vector of the problem's layout."""
        return np.concatenate([np.asarray(tables[group[0]]).ravel() for group in self.shape.groups])

    def start(self, learner: Any) -> Any:
        """Where the learner starts, for all releases."""
        import jax

        each = (jax.tree.map(lambda x, i=i: x[i], self.data) for i in range(len(self.releases)))
        return jax.tree.map(lambda *parts: np.stack(parts), *(learner.init(self.shape, data) for data in each))

    def kl(self, theta: Any) -> np.ndarray:
        return np.asarray(_divergence(self.shape)(theta, self.shares, self.entropies))


@lru_cache(maxsize=8)
def _divergence(shape: Any) -> Callable[..., Any]:
    """KL from the true shares and entropy, compiled once a structure."""
    import jax
    import jax.numpy as jnp

    def kl(theta: Any, shares: Any, entropy: Any) -> Any:
        # In log space: a peer's small lambda gives potentials whose products leave the range of floats.
        log_partition = shape.engine.marginals_and_log_partition(theta[shape.places], kernel="log")[1]
        return log_partition - jnp.vdot(jnp.where(shares > 0, theta, 0.0), shares) - entropy

    return jax.jit(jax.vmap(kl))


class Best:
    """The lowest KL seen a release, and the setting that gave it."""

    def __init__(self, count: int) -> None:
        self.kl, self.setting, self.at = np.full(count, np.inf), np.zeros(count), 0.0

    def see(self, kl: np.ndarray, setting: float) -> None:
        kl = np.where(np.isfinite(kl), kl, np.inf)
        self.setting = np.where(kl < self.kl, setting, self.setting)
        self.kl = np.minimum(kl, self.kl)
        self.at = setting

    def over(self) -> bool:
        """All releases are well past their best."""
        return bool((self.at > 1.6 * self.setting + 100).all())


def ours(side: Side, method: str) -> tuple[np.ndarray, np.ndarray]:
    models = qf.fit(side.releases, method)
    theta = np.stack([side.vector(model.potentials) for model in models])
    return side.kl(theta), np.array([model.report.steps for model in models])


def naive(side: Side) -> Best:
    """The best lambda of the grid; small ones start from the fit of the next larger one."""
    from quietfield.learning.compiled import compile_step
    from quietfield.learning.naive import Naive

    best = Best(len(side.releases))
    state: Any = None
    for strength in LAMBDAS[::-1]:
        learner = Naive(regularisation=float(strength))
        if state is None:
            state = side.start(learner)
        target, _ = state.extra
        done = np.zeros(len(best.kl), bool)
        state = state._replace(extra=(target, np.full(len(best.kl), strength)), done=done, steps=0 * state.steps)
        step = compile_step(learner.shared(), side.shape, True)
        for _ in range(3):
            state = step(side.data, state)
            if np.all(state.done):
                break
        best.see(side.kl(state.theta), strength)
    return best


def em(side: Side, most: int) -> Best:
    """EM of the exact CGM, at its best iteration."""
    from quietfield.learning.cgm import Cgm
    from quietfield.learning.compiled import compile_step

    learner = Cgm(stop=False, stretch=4)
    best = Best(len(side.releases))
    state = side.start(learner)
    step = compile_step(learner, side.shape, True)
    while best.at < most and not best.over():
        state = step(side.data, state)
        best.see(side.kl(state.theta), best.at + learner.stretch)
    return best


def mbi(side: Side, most: int) -> tuple[Best, np.ndarray]:
    """mbi's mirror descent at its best iteration and after 1,000."""
    import jax

    step, state, losses, totals = _mbi_problem(side)
    best, default = Best(len(side.releases)), np.zeros(len(side.releases))
    while best.at < most and not (best.over() and best.at >= 1000):
        state = step(state, losses, totals)
        kl = side.kl(jax.vmap(lambda p: _mbi_vector(side, p))(state.potentials))
        best.see(kl, best.at + 10)
        if best.at == 1000:
            default = kl
    return best, default


def _mbi_problem(side: Side) -> Any:
    import jax
    import mbi as peer
    from mbi import estimation, marginal_loss

    domain = peer.Domain(tuple(side.shape.domain), side.shape.domain.shape)
    estimator = estimation.MirrorDescent()
    losses, states = [], []
    for release in side.releases:
        measurements = [
            peer.LinearMeasurement(
                np.asarray(table, float).ravel(), clique, stddev=release.noise[clique].variance ** 0.5
            )
            for clique, table in release.tables.items()
        ]
        loss = marginal_loss.from_linear_measurements(measurements, domain)
        losses.append(loss)
        states.append(estimator._init(domain, loss, float(release.total)))
    stacked = jax.tree.map(lambda *parts: np.stack([np.asarray(p, float) for p in parts]), *losses)
    state = jax.tree.map(lambda *parts: np.stack([np.asarray(p, float) for p in parts]), *states)
    return _mbi_step(), state, stacked, np.array([float(r.total) for r in side.releases])


@lru_cache(maxsize=1)
def _mbi_step() -> Callable[..., Any]:
    """Ten of mbi's steps on each release; compiled once a structure."""
    import jax
    from mbi import estimation

    estimator = estimation.MirrorDescent()

    @jax.jit
    def step(state: Any, losses: Any, totals: Any) -> Any:
        def one(state: Any, loss: Any, total: Any) -> Any:
            return jax.lax.scan(lambda s, _: (estimator._step(s, loss, total), None), state, None, length=10)[0]

        return jax.vmap(one)(state, losses, totals)

    return step


def _mbi_vector(side: Side, potentials: Any) -> Any:
    import jax.numpy as jnp

    parts = []
    for group in side.shape.groups:
        clique = next(c for c in potentials.cliques if set(c) == set(group[0]))
        table = potentials[clique].values
        parts.append(jnp.transpose(table, [clique.index(name) for name in group[0]]).ravel())
    return jnp.concatenate(parts)


def check() -> None:
    """mbi's step mapped over releases gives what its ``estimate`` gives."""
    import jax
    import mbi as peer
    from mbi import estimation

    with jax.enable_x64(True):
        side = Side([Case(0, r, qf.simulate("chain", states=5, attributes=6, seed=r)) for r in range(2)])
        _, default = mbi(side, 1000)
        for i, release in enumerate(side.releases):
            domain = peer.Domain(tuple(side.shape.domain), side.shape.domain.shape)
            measurements = [
                peer.LinearMeasurement(np.asarray(t, float).ravel(), c, stddev=release.noise[c].variance ** 0.5)
                for c, t in release.tables.items()
            ]
            found = estimation.MirrorDescent().estimate(domain, measurements, known_total=float(release.total))
            alone = side.kl(np.stack([np.asarray(_mbi_vector(side, found.potentials))] * len(side.releases)))[i]
            print(f"release {i}: side by side {default[i]:.6f}, alone {alone:.6f}")


def run(name: str, suite: Suite, populations: list[int], methods: list[str], out: Path, most: int) -> None:
    import jax

    groups = [populations] if suite.shared else [[population] for population in populations]
    for group in groups:
        found = [case for population in group for case in cases(suite, population)]
        batches = [[case] for case in found] if jax.devices()[0].platform == "cpu" else [found]
        for batch in batches:
            with jax.enable_x64(True):
                compare(name, Side(batch), methods, out, most)


def compare(name: str, side: Side, methods: list[str], out: Path, most: int) -> None:
    """All methods on these releases; their rows are kept as they come."""
    for method in methods:
        started = time.perf_counter()
        if method in ("map", "cgm"):
            rows = {method: ours(side, method)}
        elif method == "mbi*":
            best, default = mbi(side, most)
            rows = {"mbi*": (best.kl, best.setting), "mbi": (default, np.full(len(default), 1000.0))}
        else:
            best = naive(side) if method == "naive*" else em(side, most)
            rows = {method: (best.kl, best.setting)}
        seconds = (time.perf_counter() - started) / len(side.releases)
        studies = side.cases[0].study
        which = f"{studies.records:,} {studies.epsilon}" if len(side.cases) == 1 else f"{len(side.cases)} releases"
        print(f"{name} {side.cases[0].population} {which} {method}: {seconds:.2f} s a release", flush=True)
        write(name, side, rows, seconds, out)


def write(name: str, side: Side, rows: dict[str, tuple[np.ndarray, np.ndarray]], seconds: float, out: Path) -> None:
    fresh = not out.exists()
    with out.open("a", newline="") as file:
        writer = csv.writer(file)
        if fresh:
            writer.writerow(FIELDS)
        for method, (kl, setting) in rows.items():
            for case, value, at in zip(side.cases, kl, setting, strict=True):
                study = case.study
                writer.writerow(
                    [name, case.population, case.replication, study.records, study.epsilon, method, f"{at:.4g}",
                     f"{value:.6g}", f"{seconds:.3f}"]
                )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=sorted(SUITES), action="append")
    parser.add_argument("--populations", default="0,1,2,3,4")
    parser.add_argument("--methods", default="map,cgm,naive*,em*,mbi*")
    parser.add_argument("--out", type=Path, default=RESULTS / "learning.csv")
    parser.add_argument("--most", type=int, default=4000, help="iterations of EM and of mbi")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--sizes", help="records instead of the suite's, such as 1000000")
    parser.add_argument("--epsilons", help="instead of the suite's, such as 0.5,1")
    parser.add_argument("--replications", type=int, help="releases of each population instead of the suite's")
    asked = parser.parse_args()
    chosen = {
        "sizes": tuple(int(float(n)) for n in asked.sizes.split(",")) if asked.sizes else None,
        "epsilons": tuple(float(e) for e in asked.epsilons.split(",")) if asked.epsilons else None,
        "replications": asked.replications,
    }
    chosen = {name: value for name, value in chosen.items() if value}
    if asked.check:
        check()
    elif asked.page:
        from benchmarks._learning_page import page

        page(asked.out)
    else:
        for name in asked.suite or SUITES:
            suite = SUITES[name]._replace(**chosen)
            populations = [int(p) for p in asked.populations.split(",")]
            run(name, suite, populations, asked.methods.split(","), asked.out, asked.most)


if __name__ == "__main__":
    main()
