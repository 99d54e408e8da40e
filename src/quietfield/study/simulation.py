"""Studies without anything private: models, populations, true tables and noisy releases, all from seeds.

A simulation is one true model and one population drawn from it. Its noise is drawn by numpy from a seed, so its
releases promise nothing and say so; what protects people is :func:`quietfield.release`.

As in the paper, by default: ten attributes, a chain of order 3, potentials from a Dirichlet distribution, Laplace noise
of scale |C| / epsilon and the number of records known.

Glossary: C cliques, n true tables, y = n + noise, N records.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import Any, Literal, get_args

import numpy as np

from quietfield import structures
from quietfield.cliques import Structure
from quietfield.domain import Clique, Domain
from quietfield.errors import Error
from quietfield.learning.observation import count_codes, draw_noise
from quietfield.models.frames import Frame
from quietfield.models.model import Model
from quietfield.models.sampling import check_whole
from quietfield.privacy import accounting
from quietfield.privacy.noise import Gaussian, Laplace, Noise
from quietfield.releases.release import Release
from quietfield.text import join_names, plural, type_name

Potentials = Literal["dirichlet", "gaussian", "peaked"]
STRUCTURES = ("chain", "random", "tree", "grid")
NOTE = "simulated: made-up records and noise from a seed, so nothing is promised"
CHUNK = 2**20  # records drawn and counted at a time

# What a seed draws; each kind of thing has a stream of its own, so that asking for one never changes another.
_GRAPH, _MODEL, _PEOPLE, _NOISE = range(4)


def simulate(
    structure: str | Structure | Iterable[str | Iterable[str]] = "chain",
    *,
    records: int = 10_000,
    epsilon: accounting.Number = 1.0,
    delta: accounting.Number | None = None,
    attributes: int = 10,
    states: int = 10,
    potentials: Potentials = "dirichlet",
    strength: float = 1.0,
    model: Model | None = None,
    seed: int = 0,
    model_seed: int | None = None,
) -> "Simulation":
    """A known model, a population from it, its tables, and releases of them with simulated noise.

    The same seed gives the same numbers.

    Args:
        structure: ``"chain"`` (of order 3), ``"random"`` (a connected random graph of treewidth at most 3), ``"tree"``,
            ``"grid"``, or any Structure over attributes x0, x1, ...
        records: How many records the population has.
        epsilon: The epsilon of the noise.
        delta: With one the noise is Gaussian (by zCDP), otherwise Laplace.
        attributes: How many attributes the model has.
        states: How many values each of them has.
        potentials: ``"dirichlet"``, each table one draw with concentration 1 / ``strength``; ``"gaussian"``,
            log-potentials of standard deviation ``strength``; ``"peaked"``, Gaussian ones plus 3 times ``strength`` in
            one cell of each row.
        strength: How strong the potentials are.
        model: A model of your own to draw the population from, in place of a random one.
        seed: Draws the population and the noise.
        model_seed: Draws structure and potentials; 0 unless given.

    Returns:
        The model, its population, its tables and a release.

    Raises:
        Error: An argument is out of range, or a model is given together with a structure or a ``model_seed``.

    >>> import quietfield as qf
    >>> study = qf.simulate("chain", attributes=4, states=3, records=5000, epsilon=2)
    >>> int(study.tables["x0", "x1"].sum()), len(study.population), study.release.noise["x0", "x1"]
    (5000, 5000, Laplace(scale=3))
    >>> learned = qf.fit(study.release)
    >>> study.model.kl(learned) < 0.1
    True
    """
    records = check_whole("the number of records", records, 1)
    seed = check_whole("a seed", seed, 0)
    accounting.to_rational(epsilon, "epsilon")
    if delta is not None:
        accounting.to_probability(delta)
    if model is None:
        origin = 0 if model_seed is None else check_whole("a seed", model_seed, 0)
        model = random_model(
            structure, attributes=attributes, states=states, potentials=potentials, strength=strength, seed=origin
        )
    elif not isinstance(model, Model):
        raise Error(f"model is a Model to draw people from, not {type_name(model)}.")
    elif structure != "chain" or model_seed is not None:
        raise Error("a model of your own brings its structure; leave structure and model_seed out.")
    return Simulation(model, records, epsilon, delta, seed)


def random_model(
    structure: str | Structure | Iterable[str | Iterable[str]] = "chain",
    *,
    attributes: int = 10,
    states: int = 10,
    potentials: Potentials = "dirichlet",
    strength: float = 1.0,
    seed: int = 0,
) -> Model:
    """A model with random potentials, as :func:`simulate` draws it.

    >>> random_model("tree", attributes=5, states=2, seed=3).cliques
    (('x0', 'x1'), ('x0', 'x2'), ('x1', 'x3'), ('x3', 'x4'))
    """
    attributes, states = check_whole("attributes", attributes, 1), check_whole("states", states, 2)
    if potentials not in get_args(Potentials):
        raise Error(f"potentials are one of {join_names(get_args(Potentials))}, not {potentials!r}.")
    if isinstance(strength, bool) or not isinstance(strength, int | float) or not 0 < strength < 100:
        raise Error(f"strength is a number between 0 and 100, not {strength!r}.")
    domain = Domain({f"x{i}": states for i in range(attributes)})
    cliques = _structure(structure, domain, seed)
    random = _random(seed, _MODEL)
    return Model(domain, {c: _potential(domain.table_shape(c), potentials, strength, random) for c in cliques})


@dataclass(frozen=True, eq=False)
class Simulation:
    """One true model, one population from it and what can be released of it. Get one from :func:`simulate`."""

    model: Model
    records: int
    epsilon: accounting.Number
    delta: accounting.Number | None
    seed: int

    @cached_property
    def population(self) -> Frame:
        """The made-up records; drawn when first asked for."""
        parts = [self._chunk(i, n)._columns for i, n in enumerate(self._chunks)]
        columns = parts[0] if len(parts) == 1 else [np.concatenate(column) for column in zip(*parts, strict=True)]
        return Frame(self.model.domain, columns)

    @cached_property
    def tables(self) -> dict[Clique, np.ndarray]:
        """The true tables n of the population, counted chunk by chunk: the population is not kept for them."""
        domain, cliques = self.model.domain, self.model.cliques
        counts = {c: np.zeros(domain.table_shape(c), np.int64) for c in cliques}
        drawn = "population" in self.__dict__
        for i, n in enumerate(self._chunks):
            part = self.population if drawn else self._chunk(i, n)
            for clique, count in counts.items():
                count += count_codes(domain, clique, part._columns)
            if drawn:
                break
        return counts

    @cached_property
    def noise(self) -> Noise:
        """The noise of each table: Laplace of scale |C| / epsilon, or Gaussian for (epsilon, delta)."""
        cliques, epsilon = len(self.model.cliques), accounting.to_rational(self.epsilon, "epsilon")
        if self.delta is None:
            return Laplace(float(cliques / epsilon))
        rho = accounting.zcdp_rho(epsilon, accounting.to_probability(self.delta))
        return Gaussian(sqrt(Fraction(cliques) / (2 * rho)))

    @property
    def release(self) -> Release:
        """The first release: the tables with noise, and the known number of records."""
        return self.releases(1)[0]

    def releases(self, count: int, start: int = 0) -> list[Release]:
        """Several releases of the same population, which differ in their noise; number j is the same in every call."""
        return [self._release(j) for j in range(start, start + check_whole("the number of releases", count, 0))]

    def with_epsilon(self, epsilon: accounting.Number, delta: accounting.Number | None = None) -> "Simulation":
        """The same population at another level of privacy. Its noise has the same shape and another scale."""
        found = replace(self, epsilon=epsilon, delta=delta)
        for name in ("population", "tables"):
            if name in self.__dict__:
                found.__dict__[name] = self.__dict__[name]
        return found

    def _release(self, number: int) -> Release:
        random, noise = _random(self.seed, _NOISE, number), self.noise
        noisy = {c: n + draw_noise(noise, n.shape, random) for c, n in self.tables.items()}
        made = Release.from_tables(self.model.domain, noisy, noise=noise, total=self.records)
        return replace(made, notes=(NOTE,))

    @property
    def _chunks(self) -> list[int]:
        full, rest = divmod(self.records, CHUNK)
        return [CHUNK] * full + ([rest] if rest else [])

    def _chunk(self, number: int, records: int) -> Frame:
        return self.model.sample(records, seed=int(_random(self.seed, _PEOPLE, number).integers(2**62)))

    def __repr__(self) -> str:
        return f"Simulation of {plural(self.records, 'record')} from a {self.model!r}, {self.noise!r}"


def _structure(structure: Any, domain: Domain, seed: int) -> Structure:
    if not isinstance(structure, str):
        return Structure.of(structure, domain)
    builders = {
        "chain": lambda: structures.chain(domain, order=min(3, max(len(domain) - 1, 1))),
        "random": lambda: structures.erdos_renyi(domain, 0.3, seed=seed, max_treewidth=3),
        "tree": lambda: structures.tree(domain, seed=seed),
        "grid": lambda: structures.grid(domain, columns=max(round(sqrt(len(domain))), 1)),
    }
    if structure not in STRUCTURES:
        raise Error(f"structure is one of {join_names(STRUCTURES)}, or a Structure of your own, not {structure!r}.")
    return builders[structure]()


def _potential(shape: tuple[int, ...], kind: Potentials, strength: float, random: np.random.Generator) -> Any:
    cells = int(np.prod(shape))
    if kind == "dirichlet":
        # The logarithm of a gamma draw, formed so that no tiny one becomes log 0: G(a) = G(a + 1) U^(1/a).
        a = 1 / strength
        log_gamma = np.log(random.gamma(a + 1, size=cells)) + np.log(random.random(cells)) / a
        return (log_gamma - np.logaddexp.reduce(log_gamma)).reshape(shape)
    table = random.normal(0.0, strength, shape)
    if kind == "peaked":
        rows = table.reshape(-1, shape[-1])
        rows[np.arange(len(rows)), random.integers(shape[-1], size=len(rows))] += 3 * strength
    return table


def _random(seed: int, *stream: int) -> np.random.Generator:
    return np.random.default_rng([seed, *stream])
