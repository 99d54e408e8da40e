"""Models in other programs' terms: UAI files and pgmpy networks.

Both know probabilities of zero, which a table of finite log-potentials does not hold: zeros that are read become
impossible combinations of the Domain, and impossible combinations that are written become zeros.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quietfield.domain import Clique, Domain, Label
from quietfield.errors import Error, FileError
from quietfield.files import read_bytes, write_atomically
from quietfield.model import Model

if TYPE_CHECKING:
    from pgmpy.models import DiscreteMarkovNetwork

_LARGEST = 700.0  # exp of more than this overflows
Tables = list[tuple[Clique, np.ndarray]]


def from_factors(labels: Mapping[str, int | Sequence[Label]], tables: Iterable[tuple[Clique, np.ndarray]]) -> Model:
    """A model from non-negative tables: their product, normalised. Tables over the same attributes are multiplied.

    A constant changes no probability and is left out, so log Z may differ by it from that of the program that wrote it.
    """
    merged: dict[frozenset[str], tuple[Clique, np.ndarray]] = {}
    for clique, table in tables:
        if not np.isfinite(table).all() or (table < 0).any():
            raise Error(f"the table of {clique} holds a negative or non-finite value; expected non-negative numbers.")
        if not clique:
            continue  # a constant cancels
        first, sofar = merged.get(frozenset(clique), (clique, np.ones(())))
        merged[frozenset(clique)] = (first, sofar * table.transpose([clique.index(name) for name in first]))
    domain = Domain(labels)
    zeros: list[dict[str, Any]] = []
    potentials = {}
    for clique, table in merged.values():
        for row in product(*(range(n) for n in table.shape[:-1])):
            gone = np.flatnonzero(table[row] == 0)
            if len(gone):
                names = {name: domain.labels(name)[i] for name, i in zip(clique[:-1], row, strict=True)}
                zeros.append({**names, clique[-1]: [domain.labels(clique[-1])[i] for i in gone]})
        potentials[clique] = np.log(np.where(table > 0, table, 1.0))
    return Model(Domain(labels, zeros), potentials)


def to_factors(model: Model) -> Tables:
    """A model as non-negative tables, impossible combinations as zeros; scaled only where they would overflow."""
    tables: dict[Clique, np.ndarray] = {}
    for clique, theta in model.potentials.items():
        shift = theta.max() if np.abs(theta).max() > _LARGEST else 0.0
        tables[clique] = np.exp(theta - shift)
        if (tables[clique] == 0).any():
            raise Error(
                f"the potentials of {clique} span {np.ptp(theta):.0f}, and their exponentials do not fit into floats; "
                "a zero would mean impossible. Such a model cannot be written as probabilities."
            )
    for clique, mask in model.domain.masks:
        held = next((c for c in tables if set(c) == set(clique)), None)
        if held is None:
            tables[clique] = mask.astype(float)
        else:
            tables[held] = tables[held] * model.domain.mask_over(held)
    mentioned = {name for clique in tables for name in clique}
    for name in model.domain:  # both formats want every attribute in some table
        if name not in mentioned:
            tables[(name,)] = np.ones(model.domain.size(name))
    return list(tables.items())


def save_uai(model: Model, path: str | Path) -> None:
    """Write a UAI file of type MARKOV. The format numbers attributes and values, so names and labels are not in it."""
    tables = to_factors(model)
    lines = ["MARKOV", str(len(model.domain)), " ".join(map(str, model.domain.shape)), str(len(tables))]
    lines += [" ".join(map(str, [len(c), *(model.domain.position(name) for name in c)])) for c, _ in tables]
    for _, table in tables:
        lines += ["", str(table.size), " ".join(repr(float(value)) for value in table.ravel())]
    write_atomically(path, ("\n".join(lines) + "\n").encode())


def load_uai(path: str | Path) -> Model:
    """Read a UAI file (MARKOV or BAYES). Attributes are named x0, x1, ... and values numbered."""
    words = iter(read_bytes(path).decode("ascii", errors="replace").split())
    try:
        kind = next(words)
        if kind not in ("MARKOV", "BAYES"):
            raise FileError(f"{path} is not a UAI model: it starts with {kind[:20]!r}, not with MARKOV or BAYES.")
        sizes = [int(next(words)) for _ in range(int(next(words)))]
        names = [f"x{i}" for i in range(len(sizes))]
        scopes = [[int(next(words)) for _ in range(int(next(words)))] for _ in range(int(next(words)))]
        tables: Tables = []
        for scope in scopes:
            if len(set(scope)) != len(scope) or not all(0 <= v < len(sizes) for v in scope):
                raise ValueError
            shape = [sizes[v] for v in scope]
            if int(next(words)) != prod(shape):
                raise FileError(
                    f"{path} is damaged: a table's length differs from the product of its attributes' sizes."
                )
            values = np.array([float(next(words)) for _ in range(prod(shape))]).reshape(shape)
            tables.append((tuple(names[v] for v in scope), values))
        if next(words, None) is not None:
            raise ValueError
    except (StopIteration, ValueError, IndexError, RuntimeError):
        raise FileError(f"{path} is not a complete UAI file: a number is missing or out of place.") from None
    return from_factors(dict(zip(names, sizes, strict=True)), tables)


def to_pgmpy(model: Model) -> "DiscreteMarkovNetwork":
    """The model as a pgmpy network, labels as state names."""
    from pgmpy.factors.discrete import DiscreteFactor
    from pgmpy.models import DiscreteMarkovNetwork

    network = DiscreteMarkovNetwork()
    network.add_nodes_from(model.domain.attributes)
    for clique, table in to_factors(model):
        network.add_edges_from((a, b) for i, a in enumerate(clique) for b in clique[i + 1 :])
        states = {name: list(model.domain.labels(name)) for name in clique}
        network.add_factors(DiscreteFactor(list(clique), list(table.shape), table.ravel(), state_names=states))
    return network


def from_pgmpy(network: Any) -> Model:
    """A model from a pgmpy Bayesian or Markov network."""
    factors = [cpd.to_factor() for cpd in network.get_cpds()] if hasattr(network, "get_cpds") else network.get_factors()
    labels: dict[str, list[Label]] = {str(node): [] for node in network.nodes()}
    for factor in factors:
        for name in factor.variables:
            labels[str(name)] = list(factor.state_names[name])
    absent = [name for name, values in labels.items() if not values]
    if absent:
        raise Error(f"the network has no table for {absent[0]!r}; give every node a factor.")
    return from_factors(labels, [(tuple(map(str, f.variables)), np.asarray(f.values, dtype=float)) for f in factors])
