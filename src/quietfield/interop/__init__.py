"""Other programs' terms: models as BIF and UAI files and pgmpy networks, and noisy tables measured by mbi or OpenDP.

Others know probabilities of zero, which a table of finite log-potentials does not hold: zeros that are read become
impossible combinations of the Domain, and impossible combinations that are written become zeros.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from math import isfinite, prod, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from quietfield.domain import Clique, Domain, Label
from quietfield.errors import Error, FileError, TooLarge
from quietfield.files import MANIFEST_LIMIT, read_bytes, write_atomically
from quietfield.inference.elimination import conditionals
from quietfield.inference.plan import plan_elimination
from quietfield.interop.bif import MOST_NUMBERS, format_bif, parse_bif
from quietfield.models.model import Model
from quietfield.privacy.noise import Gaussian, Laplace, Noise
from quietfield.releases.release import Release
from quietfield.text import type_name

if TYPE_CHECKING:
    from pgmpy.models import DiscreteMarkovNetwork

_LARGEST = 700.0  # exp of more than this overflows
Tables = list[tuple[Clique, np.ndarray]]


def from_factors(labels: Mapping[str, int | Sequence[Label]], tables: Iterable[tuple[Clique, np.ndarray]]) -> Model:
    """A model from non-negative tables: their product, normalised. Tables over the same attributes are multiplied.

    A constant changes no probability and is left out, so log Z may differ by it from that of the program that wrote it.

    Args:
        labels: The attributes, each with a size or its labels.
        tables: Cliques and their tables, with axes in the order of the clique.

    Returns:
        The model; where a table is 0, its combination is impossible.

    Raises:
        Error: A value is negative or not finite, or the tables do not fit the attributes.

    >>> from_factors({"a": ["no", "yes"]}, [(("a",), np.array([1.0, 3.0]))]).marginal("a").round(2).tolist()
    [0.25, 0.75]
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
        for box in _boxes(table == 0):
            zeros.append({n: [domain.labels(n)[i] for i in codes] for n, codes in zip(clique, box, strict=True)})
        potentials[clique] = np.log(np.where(table > 0, table, 1.0))
    return Model(Domain(labels, zeros), potentials)


def _boxes(zero: np.ndarray) -> Iterator[list[list[int]]]:
    """Where a table is True, as boxes: some codes of each axis. Slices that are alike share theirs."""
    if not zero.any():
        return
    if zero.ndim == 1:
        yield [np.flatnonzero(zero).tolist()]
        return
    alike: dict[bytes, list[int]] = {}
    for code, part in enumerate(zero):
        alike.setdefault(part.tobytes(), []).append(code)
    for codes in alike.values():
        for box in _boxes(zero[codes[0]]):
            yield [codes, *box]


def to_factors(model: Model) -> Tables:
    """A model as non-negative tables, impossible combinations as zeros; scaled only where they would overflow.

    Args:
        model: The model.

    Returns:
        Cliques and their tables; every attribute is in one of them.

    Raises:
        Error: The potentials of a clique span more than floats can hold.

    >>> model = Model(Domain({"a": 2}), {("a",): [0.0, 1.0]})
    >>> [(clique, table.round(2).tolist()) for clique, table in to_factors(model)]
    [(('a',), [1.0, 2.72])]
    """
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


def load_bif(path: str | Path) -> Model:
    """Read a Bayesian network in BIF, as it is or compressed (``.bif.gz``): one clique per variable, with its parents.

    Log-potentials are log-probabilities, scaled to rows that add up to 1 where the file rounds them. Properties are
    read past. Labels are text, also where they look like numbers.

    Args:
        path: The file.

    Returns:
        The model.

    Raises:
        FileError: It is missing or no such network; the message names the line.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/model.bif"
    >>> save_bif(Model(Domain({"a": 2, "b": 2}), {("a", "b"): [[0.0, 1.0], [1.0, 0.0]]}), path)
    >>> sorted(load_bif(path).domain)
    ['a', 'b']
    """
    data = read_bytes(path, MANIFEST_LIMIT)
    try:
        if data.startswith(b"\x1f\x8b"):
            with gzip.open(BytesIO(data)) as file:
                data = file.read(MANIFEST_LIMIT + 1)
        if len(data) > MANIFEST_LIMIT:
            raise FileError(f"{path} holds more than {MANIFEST_LIMIT} bytes, the most that such a file may have.")
        text = data.decode()
    except (OSError, EOFError, zlib.error):
        raise FileError(f"{path} is damaged: it cannot be decompressed; get a fresh copy.") from None
    except UnicodeDecodeError:
        raise FileError(f"{path} is not a network in BIF: it holds bytes that are no text in UTF-8.") from None
    labels, families = parse_bif(text, str(path))
    return from_factors(labels, families)


def save_bif(model: Model, path: str | Path) -> None:
    """Write a model as a Bayesian network in BIF: the same distribution, by the chain rule.

    Each attribute depends on those that a junction tree joins it with. In a decomposable model these are neighbours of
    it; loops without chords are filled with further parents. Labels become text.

    Args:
        model: The model.
        path: The file; one that is there is replaced.

    Raises:
        FileError: The file cannot be written.
        TooLarge: The tables would have more cells than a network may have.
        Error: Inference is approximate, a name cannot be written, or a probability is too small for a float.
    """
    model._need_exact("a Bayesian network")
    plan = plan_elimination(model.domain, model.cliques)
    cells = sum(plan.cells(step.bag) for step in plan.steps)
    if cells > MOST_NUMBERS:
        raise TooLarge(
            f"as a Bayesian network this model takes {float(min(cells, 10**300)):.3g} numbers, more than "
            f"{MOST_NUMBERS:,}: along the best order that was found, a family has up to {plan.treewidth + 1} "
            "attributes. Write it with save_uai, which keeps its cliques."
        )
    names = model.domain.attributes
    families: dict[str, tuple[Clique, np.ndarray]] = {}
    for v, given, log_p in conditionals(model.domain.shape, model._factors):
        clique = (names[v], *(names[u] for u in given))
        table = np.exp(log_p)
        if ((table == 0) & np.isfinite(log_p)).any():
            raise Error(
                f"a probability of {names[v]!r} is too small for a float, and a zero would mean impossible; such a "
                "model cannot be written as probabilities."
            )
        never = table.sum(0) == 0  # values of the parents that never occur: any row will do
        if not given and never:
            raise Error("no record is possible.")
        families[names[v]] = clique, np.where(never, 1 / len(table), table)
    for name in names:
        families.setdefault(name, ((name,), np.full(model.domain.size(name), 1 / model.domain.size(name))))
    write_atomically(path, format_bif(model.domain, [families[name] for name in names]).encode())


def save_uai(model: Model, path: str | Path) -> None:
    """Write a UAI file of type MARKOV. The format numbers attributes and values, so names and labels are not in it.

    Args:
        model: The model.
        path: The file; one that is there is replaced.

    Raises:
        FileError: It cannot be written.
        Error: The potentials of a clique span more than floats can hold.
    """
    tables = to_factors(model)
    lines = ["MARKOV", str(len(model.domain)), " ".join(map(str, model.domain.shape)), str(len(tables))]
    lines += [" ".join(map(str, [len(c), *(model.domain.position(name) for name in c)])) for c, _ in tables]
    for _, table in tables:
        lines += ["", str(table.size), " ".join(repr(float(value)) for value in table.ravel())]
    write_atomically(path, ("\n".join(lines) + "\n").encode())


def load_uai(path: str | Path) -> Model:
    """Read a UAI file (MARKOV or BAYES). Attributes are named x0, x1, ... and values numbered.

    Args:
        path: The file.

    Returns:
        The model.

    Raises:
        FileError: It is missing, or is not a complete UAI file.
        Error: A table holds a negative or non-finite value.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/model.uai"
    >>> save_uai(Model(Domain({"a": 2}), {("a",): [0.0, 1.0]}), path)
    >>> load_uai(path).cliques
    (('x0',),)
    """
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
    """The model as a pgmpy network, labels as state names.

    Args:
        model: The model.

    Returns:
        A pgmpy ``DiscreteMarkovNetwork``.

    Raises:
        Error: The potentials of a clique span more than floats can hold.
    """
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
    """A model from a pgmpy Bayesian or Markov network.

    Args:
        network: A network of pgmpy.

    Returns:
        The model.

    Raises:
        Error: A node has no table, or a value is negative or not finite.
    """
    factors = [cpd.to_factor() for cpd in network.get_cpds()] if hasattr(network, "get_cpds") else network.get_factors()
    labels: dict[str, list[Label]] = {str(node): [] for node in network.nodes()}
    for factor in factors:
        for name in factor.variables:
            labels[str(name)] = list(factor.state_names[name])
    absent = [name for name, values in labels.items() if not values]
    if absent:
        raise Error(f"the network has no table for {absent[0]!r}; give every node a factor.")
    return from_factors(labels, [(tuple(map(str, f.variables)), np.asarray(f.values, dtype=float)) for f in factors])


def from_mbi(
    domain: Any, measurements: Iterable[Any], *, noise: Literal["gaussian", "laplace"], skip_others: bool = False
) -> Release:
    """A release from measurements made with mbi (private-pgm).

    Repeated Gaussian measurements of a table are averaged by their precision, which loses nothing. Repeated Laplace
    ones are refused, since their mean is not Laplace. Whether all this is private is for whoever measured it to say.

    Args:
        domain: mbi's Domain, ours, or ``{attribute: size}``.
        measurements: A list of mbi's ``LinearMeasurement``. One of the empty clique is the noisy total.
        noise: ``"gaussian"`` or ``"laplace"``: mbi keeps the standard deviation of the noise and not its kind.
        skip_others: Whether measurements of anything but whole tables (mbi's default query) are left out, not refused.

    Returns:
        The release, which promises nothing.

    Raises:
        Error: There is no table, or a measurement cannot be read.

    >>> from types import SimpleNamespace
    >>> table = SimpleNamespace(clique=("a", "b"), noisy_measurement=[9.0, 1.5, -0.5, 7.0], stddev=2.0)
    >>> release = from_mbi({"a": 2, "b": 2}, [table], noise="gaussian")
    >>> release.tables["a", "b"].tolist(), release.noise["a", "b"]
    ([[9.0, 1.5], [-0.5, 7.0]], Gaussian(scale=2))
    """
    if noise not in ("gaussian", "laplace"):
        raise Error(f"say which noise was added, 'gaussian' or 'laplace', not {noise!r}: mbi keeps only its spread.")
    known = _mbi_domain(domain)
    found: dict[frozenset[str], list[tuple[Clique, np.ndarray, float]]] = {}
    for one in measurements:
        clique, values, spread = _read_measurements(known, one)
        cells = known.cells(clique) if clique else 1
        if not _is_identity(one, cells):
            if skip_others:
                continue
            raise Error(
                f"the measurement of {clique} is not of a whole table ({type(one.query).__name__}); only mbi's default "
                "query can be read. Measure the table itself, or leave such measurements out with skip_others=True."
            )
        if values.size != cells:
            raise Error(f"the measurement of {clique} has {values.size} values and its table {cells} cells.")
        found.setdefault(frozenset(clique), []).append((clique, values, spread))
    merged = [_merge(known, same, noise) for same in found.values()]
    tables = {clique: table for clique, table, _ in merged if clique}
    if not tables:
        raise Error("there is no measurement of a table; measure at least one clique.")
    noises = {clique: _noise(noise, spread) for clique, _, spread in merged if clique}
    total, total_noise = None, None
    for clique, value, spread in merged:
        if not clique:
            total, total_noise = float(value.sum()), _noise(noise, spread)
    return Release.from_tables(known, tables, noises, total, total_noise)


def from_opendp(table: Any, *, noise: Literal["gaussian", "laplace"], skip_others: bool = False) -> Release:
    """A release from a ``ContingencyTable`` of OpenDP (``opendp.extras.mbi``): its keys, cuts and measurements.

    Keys become labels; the key for everything else (null) becomes the label "null".

    Args:
        table: The table.
        noise: ``"laplace"`` where it was made under pure differential privacy, ``"gaussian"`` under zCDP.
        skip_others: Whether tables of a part of the keys are left out, not refused.

    Returns:
        The release, which promises nothing.

    Raises:
        Error: It is no such table, or a measurement cannot be read.
    """
    if not all(hasattr(table, name) for name in ("keys", "marginals")):
        raise Error(f"expected OpenDP's ContingencyTable, with keys and marginals, not {type_name(table)}.")
    domain = Domain({str(name): _labels(list(keys)) for name, keys in table.keys.items()})
    return from_mbi(domain, table.marginals.flatten(), noise=noise, skip_others=skip_others)


def _labels(keys: list[Any]) -> list[Label]:
    if all(isinstance(key, int) and not isinstance(key, bool) for key in keys):
        return keys
    return ["null" if key is None else str(key) for key in keys]


def _mbi_domain(domain: Any) -> Domain:
    if isinstance(domain, Domain):
        return domain
    if isinstance(domain, Mapping):
        return Domain(domain)
    if not (hasattr(domain, "attributes") and hasattr(domain, "shape")):
        raise Error(f"expected mbi's Domain, a quietfield Domain or {{attribute: size}}, not {type_name(domain)}.")
    labels = getattr(domain, "labels", None)
    values = [int(size) for size in domain.shape] if labels is None else [_labels(list(one)) for one in labels]
    return Domain(dict(zip(map(str, domain.attributes), values, strict=True)))  # type: ignore[arg-type]


def _read_measurements(domain: Domain, one: Any) -> tuple[Clique, np.ndarray, float]:
    """The parts of a measurement, by the names that mbi gives them: mbi itself is not needed."""
    if not all(hasattr(one, name) for name in ("clique", "noisy_measurement", "stddev")):
        raise Error(
            "a measurement has a clique, a noisy_measurement and a stddev, as mbi's LinearMeasurement; "
            f"{type_name(one)} has not."
        )
    clique = domain.clique([str(name) for name in one.clique]) if len(one.clique) else ()
    values, spread = np.asarray(one.noisy_measurement, dtype=float).ravel(), float(one.stddev)
    if not (isfinite(spread) and spread > 0):
        raise Error(f"the measurement of {clique} has the standard deviation {spread}; expected a positive number.")
    if not np.isfinite(values).all():
        raise Error(f"the measurement of {clique} holds a value that is no finite number.")
    return clique, values, spread


class _Probe:
    """Stands in for a table where a query is tried: each cell holds its own number."""

    def __init__(self, size: int) -> None:
        self.values = np.arange(1.0, size + 1)

    def datavector(self, flatten: bool = True) -> np.ndarray:
        return self.values


def _is_identity(one: Any, size: int) -> bool:
    """Whether a query gives back the table cell by cell: tried out, since versions of mbi name it differently."""
    query = getattr(one, "query", None)
    if query is None or getattr(query, "__qualname__", "") == "Factor.datavector":
        return True
    try:
        answer = np.asarray(query(_Probe(size)))
    except Exception:  # noqa: BLE001  # a query that wants more than a vector of cells is not the identity
        return False
    return answer.shape == (size,) and bool((answer == _Probe(size).values).all())


def _merge(
    domain: Domain, same: list[tuple[Clique, np.ndarray, float]], noise: str
) -> tuple[Clique, np.ndarray, float]:
    """One table from all measurements of the same attributes, axes as in the first."""
    first = same[0][0]
    if len(same) > 1 and noise == "laplace":
        raise Error(
            f"{first or 'the total'} was measured {len(same)} times with Laplace noise, and a mean of those is not "
            "Laplace; keep the measurement with the smallest stddev."
        )
    if len(same) == 1:
        return first, same[0][1].reshape(domain.table_shape(first) if first else (1,)), same[0][2]
    precision = sum(1 / spread**2 for _, _, spread in same)
    total = np.zeros(domain.table_shape(first) if first else (1,))
    for clique, values, spread in same:
        table = values.reshape(domain.table_shape(clique)) if clique else values
        total += table.transpose([clique.index(name) for name in first] if first else None) / spread**2
    return first, total / precision, 1 / sqrt(precision)


def _noise(kind: str, spread: float) -> Noise:
    return Gaussian(spread) if kind == "gaussian" else Laplace(spread / sqrt(2))
