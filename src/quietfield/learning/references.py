"""What learners are compared with: maximum likelihood from true tables, and the paper's random estimator.

NOT PRIVATE: true tables are private unless the records were made up. Studies on simulated records need them; a model of
real people that was made here protects nobody.

    maximise  theta . mu  -  A(theta)  -  lambda |theta|^2      (per record; mu = n / N)

On trees and junction trees, and with belief propagation, the maximum at lambda = 0 is written down in closed form (see
decomposable.py); elsewhere Newton's method finds it.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from quietfield.cliques import Structure
from quietfield.domain import Clique, Domain
from quietfield.errors import CannotLearn, Error
from quietfield.learning.loop import drive
from quietfield.learning.naive import Naive
from quietfield.learning.nlbp import recipe_of
from quietfield.learning.problem import Data, Shape, problem_of
from quietfield.models.fit_report import FitReport
from quietfield.models.model import Model
from quietfield.models.sampling import check_whole
from quietfield.privacy.noise import Laplace
from quietfield.releases.release import Release

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_RIDGE = 1e-12  # a regularisation of "none": keeps Newton's equations regular, and changes nothing that can be seen
_DISAGREE = 1e-6  # of N: true tables of one population agree on what they share, up to rounding


@dataclass(frozen=True)
class MaximumLikelihood(Naive):
    """The tables taken as they are, which is right if they are true."""

    project: bool = False
    gain: float = 1e-13

    name = "maximum-likelihood"


def fit_true_tables(
    domain: Domain,
    tables: "Mapping[Any, ArrayLike]",
    *,
    regularisation: float = 0.0,
    pseudocount: float = 0.0,
    ties: Iterable[Iterable[Any]] | None = None,
    inference: str = "exact",
    closed_form: bool = True,
) -> Model:
    """NOT PRIVATE: the maximum-likelihood model of true tables, the best that any private learner could hope for.

    Without regularisation or pseudocount, a count of 0 asks for a probability of 0: its cell gets about exp(-100), or
    whatever Newton's method reached, and a divergence from a truth that allows the cell is large and means little. With
    either it is finite and means what it says.

    Args:
        domain: The attributes.
        tables: The counts of each clique, all of the same records. Tied cliques share one table, their sum, under the
            name of the first.
        regularisation: Lambda, per record.
        pseudocount: How many records to add, spread evenly over all that is possible.
        ties: Groups of cliques that share one table and one potential.
        inference: The kind of inference, one of :data:`quietfield.inference.KINDS`.
        closed_form: Whether to solve trees and junction trees in closed form, where they are not regularised.

    Returns:
        The model.

    Raises:
        Error: The tables cannot be true, or a number is not allowed.
        CannotLearn: The tables count no records.

    >>> import quietfield as qf
    >>> domain = qf.Domain({"a": 2, "b": 2})
    >>> qf.references.fit_true_tables(domain, {("a", "b"): [[50, 10], [10, 30]]}).marginal("a").round(3).tolist()
    [0.6, 0.4]
    """
    for what, value in (("regularisation", regularisation), ("pseudocount", pseudocount)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise Error(f"the {what} is a finite number that is not negative, not {value!r}.")
    release = _as_release(domain, tables, ties)
    shape, data = problem_of(release, inference, {})
    if pseudocount:
        release, data = _pad(release, shape, data, float(pseudocount))
    recipe = recipe_of(shape) if closed_form and not regularisation else None
    if recipe is None:
        learner = MaximumLikelihood(regularisation=max(float(regularisation), _RIDGE))
        return drive([release], learner, inference, False, None)[0]
    started = time.perf_counter()
    mu = np.asarray(data.y) / float(data.total)
    theta = recipe(mu)
    # In closed form theta adds up to log p, so A is 0, but for attributes that no clique holds.
    free = sum(np.log(domain.size(a)) for a in domain if a not in release.structure.attributes)
    objective, seconds = float(np.vdot(mu, theta) - free), time.perf_counter() - started
    report = FitReport(MaximumLikelihood.name, inference, 0, 0, objective, float(data.total), True, seconds)
    return Model(domain, shape.tables(theta), inference=inference, report=report)


def fit_random_tables(
    domain: Domain,
    cliques: Structure | Iterable[str | Iterable[str]],
    seed: int,
    *,
    regularisation: float = 1e-3,
    inference: str = "exact",
) -> Model:
    """The paper's random estimator: maximum likelihood of marginals that were drawn at random.

    Each table is one draw from a Dirichlet distribution with concentration 1, on its own, so the tables contradict
    each other about the attributes that they share; the fit matches what they have in common. It has seen no data: a
    learner that does no better has learned nothing.

    Args:
        domain: The attributes.
        cliques: The structure, or its cliques.
        seed: A whole number; the same one gives the same model.
        regularisation: Lambda, per record.
        inference: The kind of inference, one of :data:`quietfield.inference.KINDS`.

    Returns:
        The model.

    Raises:
        Error: An argument is not allowed.

    >>> import quietfield as qf
    >>> domain = qf.Domain({"a": 2, "b": 3, "c": 2})
    >>> qf.references.fit_random_tables(domain, [("a", "b"), ("b", "c")], seed=0).marginal("b").sum().round(6).item()
    1.0
    """
    structure = Structure.of(cliques, domain)
    random = np.random.default_rng(check_whole("a seed", seed, 0))
    tables = {}
    for group in structure.groups:
        possible = domain.mask_over(group[0]) if len(group) == 1 else np.ones(domain.table_shape(group[0]), bool)
        table = np.zeros(possible.shape)
        table[possible] = random.dirichlet(np.ones(int(possible.sum()))) * len(group)
        tables[group[0]] = table
    release = Release.from_tables(domain, tables, Laplace(1.0), total=1.0, ties=structure.ties or None)
    return drive([release], MaximumLikelihood(regularisation=regularisation), inference, False, None)[0]


def _as_release(domain: Domain, tables: Any, ties: Any) -> Release:
    """True tables in the form that learners take, or an error that says why they cannot be true."""
    release = Release.from_tables(domain, tables, Laplace(1.0), ties=ties)
    for part in release.parts:
        name = part.cliques[0]
        if (part.values < 0).any():
            raise Error(f"the table of {name} holds a negative count, which no true table does; {_INSTEAD}")
        if len(part.cliques) == 1 and part.values[~domain.mask_over(name)].any():
            raise Error(f"the table of {name} counts combinations that the domain declares impossible; change one.")
    totals = [float(part.values.sum()) / len(part.cliques) for part in release.parts]
    total = totals[0]
    if not total > 0:
        raise CannotLearn("the tables are empty: there are no records to learn from; give tables that count some.")
    if max(totals) - min(totals) > _DISAGREE * total:
        raise Error(f"the tables do not sum to the same number of records, so they are not true tables; {_INSTEAD}")
    alone = [(part.cliques[0], part.values) for part in release.parts if len(part.cliques) == 1]
    for (one, a), (two, b) in combinations(alone, 2):
        shared = tuple(name for name in one if name in two)
        if shared and np.abs(_margin(one, a, shared) - _margin(two, b, shared)).max() > _DISAGREE * total:
            raise Error(f"the tables of {one} and {two} disagree about {shared}, so they are not true; {_INSTEAD}")
    known = [(part.cliques[0], part.values) for part in release.parts]
    return Release.from_tables(domain, dict(known), Laplace(1.0), total=total, ties=ties)


_INSTEAD = "learn from noisy tables with qf.fit(qf.Release.from_tables(...))."


def _margin(clique: Clique, table: np.ndarray, kept: Clique) -> np.ndarray:
    summed = table.sum(axis=tuple(i for i, name in enumerate(clique) if name not in kept))
    left = [name for name in clique if name in kept]
    return summed.transpose([left.index(name) for name in kept])


def _pad(release: Release, shape: Shape, data: Data, pseudocount: float) -> tuple[Release, Data]:
    """The tables of the records and so many more, spread evenly."""
    with jax.enable_x64(True):
        even = np.asarray(jax.jit(shape.shares)(np.zeros(shape.size)))
    total = float(data.total) + pseudocount
    y = np.asarray(data.y) + pseudocount * even
    added = shape.tables(y)
    padded = Release.from_tables(
        release.domain,
        {part.cliques[0]: added[part.cliques[0]] for part in release.parts},
        Laplace(1.0),
        total=total,
        ties=release.structure.ties or None,
    )
    return padded, data._replace(y=y, total=total)
