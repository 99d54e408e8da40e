"""The curator's own comparison of a model with the true records. NOT PRIVATE: nothing in it is noised.

It says how far the model and the noisy tables are from the truth, table by table and attribute by attribute. Whoever
chooses among models or epsilons by looking at it has spent privacy that no ledger knows of: the page says so at its
top, at its end and on every sheet of paper.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quietfield import __version__
from quietfield.cliques import Structure
from quietfield.curator import WARNING
from quietfield.curator.counting import count
from quietfield.domain import Clique
from quietfield.files import check_writable, write_atomically
from quietfield.output.report.contents import check_inputs, error_bars
from quietfield.output.report.plots import bar
from quietfield.privacy.units import Rows, statistics, unit_from_json
from quietfield.releases.checks import check_same

if TYPE_CHECKING:
    from quietfield.models.model import Model
    from quietfield.releases.release import Release
    from quietfield.schema import Schema

MOST_TABLES = 200
MOST_ROWS = 24


@dataclass(frozen=True)
class Compared:
    """One table: how far model and noisy table are from the true one, as total variation distances."""

    cliques: tuple[Clique, ...]
    cells: int
    model: float
    noisy: float | None  # None where the release tells an interaction alone, which makes no table
    inside: float | None  # the share of true cells inside the model's intervals
    worst: str


@dataclass(frozen=True)
class Line:
    """One label of an attribute, learned and true."""

    label: object
    learned: float
    true: float
    bar: str


def write_confidential_report(
    path: str | Path,
    records: Any,
    schema: "Schema",
    release: "Release",
    model: "Model",
    *,
    title: str = "",
    level: float = 0.9,
) -> None:
    """Write a comparison of a model with the records that its release was made from. NOT PRIVATE: do not pass it on.

    The records are counted again, as the release's unit says. The file can be read by its owner alone.

    Args:
        path: The HTML file to write; one that is there is replaced.
        records: The records, as :func:`quietfield.release` takes them.
        schema: How their columns become the attributes of the release.
        release: The release that was made from them.
        model: What was learned from it.
        title: The heading.
        level: The confidence of the intervals.

    Raises:
        FileError: The file cannot be written.
        Error: Schema, release and model have different attributes or labels, or the records cannot be counted.

    >>> import quietfield as qf
    >>> schema = qf.Schema({"sex": ["f", "m"], "smokes": ["no", "yes"]})
    >>> people = {"sex": ["f", "m"] * 500, "smokes": ["no", "no", "yes", "no"] * 250}
    >>> release = qf.release(people, schema, [("sex", "smokes")], epsilon=1, unit=qf.Rows(1), ledger=None)
    >>> qf.write_confidential_report("confidential.html", people, schema, release, qf.fit(release))
    """
    from quietfield.output.report.pages import render

    check_inputs(release, model, level)
    check_writable(path)
    page = compare(records, schema, release, model, level)
    html = render("confidential.html", {**page, "title": title or "Model and records compared"})
    write_atomically(path, html.encode(), confidential=True)


def compare(records: Any, schema: "Schema", release: "Release", model: "Model", level: float) -> dict[str, Any]:
    """All that the page needs. NOT PRIVATE."""
    tables, total = true_tables(records, schema, release)
    cells, _ = error_bars(model, level, [part.cliques[0] for part in release.parts if len(part.cliques) == 1], {})
    compared = [
        _compare_tables(release, model, part.cliques, true, cells.get(part.cliques[0]))
        for part, true in zip(release.parts, tables, strict=True)
    ]
    inside = [table.inside for table in compared if table.inside is not None]
    noisy = [table.noisy for table in compared if table.noisy is not None]
    return {
        "version": __version__,
        "warning": WARNING,
        "total": total,
        "protects": "any one row" if release.promise is None else release.promise.protects,
        "level": level,
        "model_error": float(np.mean([table.model for table in compared])),
        "noisy_error": float(np.mean(noisy)) if noisy else None,
        "inside": float(np.mean(inside)) if inside else None,
        "tables": sorted(compared, key=lambda table: -table.model)[:MOST_TABLES],
        "more": max(0, len(compared) - MOST_TABLES),
        "attributes": _attributes(release, model, tables),
    }


def true_tables(records: Any, schema: "Schema", release: "Release") -> tuple[list[np.ndarray], float]:
    """The true tables of a release's cliques as shares that sum to 1, and the true total. NOT PRIVATE."""
    check_same(schema.domain, release.domain, "the schema and the release")
    unit = Rows(1) if release.promise is None else unit_from_json(release.promise.unit)
    structure = Structure(release.structure.cliques, release.structure.ties)  # tables also of interactions
    wanted = statistics(structure, release.domain, unit, "add_remove", total=True)
    counts = count(records, schema, wanted, unit)
    # No records, or none in a table: equal shares of nothing, so that nothing here fails for what the records say.
    shares = [np.asarray(table, dtype=float) / max(float(table.sum()), 1.0) for table in counts.tables]
    return shares, float(counts.total or 0) / wanted.denominator


def _compare_tables(
    release: "Release", model: "Model", cliques: tuple[Clique, ...], true: np.ndarray, ends: Any
) -> Compared:
    learned = sum((model.marginal(c) for c in cliques), np.zeros(true.shape)) / len(cliques)
    distance = None
    if cliques[0] in release.tables:
        noisy = np.maximum(release.tables[cliques[0]], 0.0)
        distance = _distance(noisy / max(float(noisy.sum()), 1.0), true)
    inside = None if ends is None else float(((ends[0] <= true) & (true <= ends[1])).mean())
    cell = np.unravel_index(int(np.abs(learned - true).argmax()), true.shape)
    labels = ", ".join(str(release.domain.labels(a)[i]) for a, i in zip(cliques[0], cell, strict=True))
    worst = f"{labels}: {learned[cell]:.2%} learned, {true[cell]:.2%} true"
    return Compared(cliques, true.size, _distance(learned, true), distance, inside, worst)


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    return 0.5 * float(np.abs(one - other).sum())


def _attributes(release: "Release", model: "Model", tables: Sequence[np.ndarray]) -> list[tuple[str, int, list[Line]]]:
    """Every attribute that is in an untied table, with learned and true shares."""
    found = []
    for name in release.domain:
        held = [
            (part.cliques[0], table)
            for part, table in zip(release.parts, tables, strict=True)
            if len(part.cliques) == 1 and name in part.cliques[0] and part.excluded is None
        ]
        if not held:
            continue
        clique, table = min(held, key=lambda pair: pair[1].size)
        true = table.sum(axis=tuple(i for i, other in enumerate(clique) if other != name))
        learned, labels = model.marginal(name), release.domain.labels(name)
        order = sorted(range(len(labels)), key=lambda i: -true[i]) if len(labels) > MOST_ROWS else range(len(labels))
        top = max(float(true.max()), float(learned.max()))
        lines = [
            Line(labels[i], float(learned[i]), float(true[i]), bar(float(learned[i]), None, None, top, float(true[i])))
            for i in list(order)[:MOST_ROWS]
        ]
        found.append((name, len(labels), lines))
    return found
