"""Several models, or several methods on one release, side by side. Nothing here sees a record.

How well a model explains a release is told by its log-score, the mean log-density of the noisy cells

    log p(y_i | model),    y_i = n_i + noise,    n_i about normal with the mean and variance of observation.py

and by its residuals in units of their standard deviation. Where both look at tables that the model was learned from, a
method that follows the noise looks better than it is, and residuals below 1 are usual: chance is followed too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from quietfield.domain import Clique
from quietfield.drawing.columns import pad_left, quote_label, text_width
from quietfield.drawing.distributions import Distribution, bars_svg
from quietfield.errors import Error
from quietfield.learning import check_methods, fit
from quietfield.learning.likelihood import noisy_normal
from quietfield.learning.observation import residuals, table_moments
from quietfield.models.model import Model
from quietfield.models.verification import learned_elsewhere
from quietfield.privacy.noise import Gaussian
from quietfield.privacy.planning import format_points
from quietfield.releases.checks import check_same
from quietfield.status import show_status
from quietfield.study.trials import measure_errors
from quietfield.text import join_names, printable, table_html, type_name

if TYPE_CHECKING:
    from quietfield.releases.release import Release

#: What is compared where nothing is said.
DEFAULT_METHODS = ("map", "naive")


@dataclass(frozen=True)
class Difference:
    """The cell where two models differ most."""

    attributes: Clique
    labels: tuple[Any, ...]
    share: float
    reference: float

    @property
    def size(self) -> float:
        return abs(self.share - self.reference)

    def describe(self) -> str:
        """The cell and both shares, in words."""
        cell = zip(self.attributes, self.labels, strict=True)
        where = ", ".join(f"{quote_label(name)}={quote_label(label)}" for name, label in cell)
        return f"{where}: {self.share:.2%} against {self.reference:.2%}"


@dataclass(frozen=True)
class TruthErrors:
    """How far a model is from one that is known to be true, over the tables of that one.

    ``kl`` is KL(truth || model) in nats, None where inference is approximate; the rest is as in a rehearsal: the mean
    and the 95th percentile of the absolute error of a share, the mean for single attributes, the mean total variation.
    """

    kl: float | None
    mean: float
    p95: float
    single: float
    distance: float


@dataclass(frozen=True)
class ComparisonRow:
    """One model: how it was learned, how well it explains the release, how far it is from the first model.

    ``log_score`` is in nats per cell, ``residual`` the root mean square of residuals in standard deviations (below 1
    is usual), ``missed`` the number of tables that noise does not explain. None without a release.
    ``kl`` is KL(first || this) in nats, None where inference is approximate. ``truth`` tells how far it is from a model
    that is known to be true, None without one. ``method`` is the learner, None where the model was not learned here.
    """

    name: str
    method: str | None
    converged: bool | None
    seconds: float | None
    log_score: float | None
    residual: float | None
    missed: int | None
    kl: float | None
    distance: float
    largest: Difference | None
    truth: "TruthErrors | None" = None

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary for JSON."""
        found = {key: getattr(self, key) for key in self.__dataclass_fields__ if key not in ("largest", "truth")}
        found["kl"] = _finite(self.kl)
        found["truth"] = None if self.truth is None else {**asdict(self.truth), "kl": _finite(self.truth.kl)}
        if self.largest is None:
            return {**found, "largest_difference": None}
        cell = self.largest
        where = {"attributes": list(cell.attributes), "labels": list(cell.labels)}
        return {**found, "largest_difference": {**where, "share": cell.share, "first": cell.reference}}


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` found: ``rows`` (one per model, the first is what the others are compared with), ``models``,
    and ``kl[a][b]``, KL(a || b) between all of them in nats."""

    rows: tuple[ComparisonRow, ...]
    models: Mapping[str, Model] = field(repr=False)
    kl: Mapping[str, Mapping[str, float | None]] = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def table(self) -> list[dict[str, Any]]:
        """One plain dictionary a model."""
        return [row.to_dict() for row in self.rows]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data for JSON; what is infinite or cannot be computed is None."""
        kl = {a: {b: _finite(value) for b, value in others.items()} for a, others in self.kl.items()}
        return {"models": self.table, "kl": kl, "notes": list(self.notes)}

    def lines(self) -> list[str]:
        """The comparison in words, for a terminal."""
        wide = [(max(map(text_width, (head, *texts))), head, texts) for head, texts in self._list_columns()]
        said = []
        for cells in zip(*((head, *texts) for _, head, texts in wide), strict=True):
            first = cells[0] + " " * (wide[0][0] - text_width(cells[0]))
            rest = [pad_left(cell, width) for cell, (width, _, _) in zip(cells[1:], wide[1:], strict=True)]
            said.append("  ".join([first, *rest]))
        said += [
            printable(
                f"{row.name} differs most from {self.rows[0].name} at {row.largest.describe()}{self._unheld(row)}"
            )
            for row in self.rows[1:]
            if row.largest is not None and row.largest.size > 0
        ]
        return said

    def _unheld(self, row: ComparisonRow) -> str:
        """Which of the two models, if any, has no clique with the attributes at which they differ most."""
        assert row.largest is not None
        without = [
            f"in no clique of {name}: {join_names(missing)}"
            for name in (self.rows[0].name, row.name)
            if (missing := list_unheld(self.models[name], row.largest.attributes))
        ]
        return f" ({'; '.join(without)})" if without else ""

    def _list_columns(self) -> list[tuple[str, list[str]]]:
        """The columns for people: their heads and texts. One without a value says nothing and is left out."""
        rows = self.rows
        found: dict[str, list[str | None]] = {
            "model": [printable(row.name) for row in rows],
            "log-score": [_number(row.log_score, ".4f") for row in rows],
            "residuals": [_number(row.residual, ".3f") for row in rows],
            "missed": [_number(row.missed, "d") for row in rows],
            "seconds": [_number(row.seconds, ".2f") for row in rows],
        }
        if len(rows) > 1:
            found["KL from first"] = [_number(row.kl, ".4g") for row in rows]
            found["distance"] = [format_points(row.distance) for row in rows]
        if rows[0].truth is not None:
            errors = [row.truth for row in rows if row.truth is not None]
            found["KL from truth"] = [_number(error.kl, ".4g") for error in errors]
            found["mean error"] = [format_points(error.mean) for error in errors]
            found["19 of 20 below"] = [format_points(error.p95) for error in errors]
            found["one attribute"] = [format_points(error.single) for error in errors]
            found["distance from truth"] = [format_points(error.distance) for error in errors]
        found["converged"] = [None if row.converged is None else "yes" if row.converged else "no" for row in rows]
        return [
            (head, ["-" if text is None else text for text in texts])
            for head, texts in found.items()
            if any(text is not None for text in texts)
        ]

    def svg(self) -> str:
        """How far each model is from the first, as bars."""
        distances = Distribution("distance", [row.distance for row in self.rows[1:]])
        title = f"Distance from {self.rows[0].name}: mean total variation of a table"
        return bars_svg([row.name for row in self.rows[1:]], [distances], title)

    def __repr__(self) -> str:
        return "\n".join(["Comparison", *self.lines(), *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        table = self._list_columns()
        rows = zip(*(texts for _, texts in table), strict=True)
        picture = self.svg() if len(self.rows) > 1 else ""
        return table_html("Comparison", [head for head, _ in table], rows, self.notes, picture)


def compare(
    release: "Release | None" = None,
    *,
    methods: str | Sequence[str] | None = None,
    models: Mapping[str, Model] | None = None,
    truth: Model | None = None,
    inference: str = "exact",
    progress: bool = False,
) -> Comparison:
    """Compare methods on one release, models with it, with a known truth, or with each other.

    Args:
        release: The release that models are learned from and compared with.
        methods: How to learn from it, one name or several; "map" and "naive" (which needs tables, so not where
            interactions were measured apart) where neither methods nor models are
            given.
        models: Models by name. They come first, and the first of all is what the others are compared with.
        truth: A model that is known to be true, as in a simulation: every row then tells how far it is from that.
        inference: The kind of inference with which models are learned.
        progress: Whether a line on the error stream shows what is learned.

    Returns:
        One row per model, the models, and the divergences between them.

    Raises:
        Incomplete: The release waits for a signature.
        Error: There is nothing to compare, a method is not known, or models and release do not fit together.

    >>> import quietfield as qf
    >>> domain = qf.Domain({"a": 2, "b": 2})
    >>> tables = {("a", "b"): [[500, 90], [110, 300]]}
    >>> release = qf.Release.from_tables(domain, tables, noise=qf.Laplace(2.0), total=1000)
    >>> found = qf.compare(release, methods=["map", "naive"])
    >>> [row.name for row in found.rows], found.rows[1].kl < 0.01
    (['map', 'naive'], True)
    >>> qf.compare(models={"naive": found.models["naive"]}, truth=found.models["map"]).rows[0].truth.mean < 0.01
    True
    """
    methods = [methods] if isinstance(methods, str) else methods
    given = dict(models or {})
    strange = next((name for name, model in given.items() if not isinstance(model, Model)), None)
    if strange is not None:
        raise Error(f"models map names to Models; {strange!r} is {type_name(given[strange])}.")
    if truth is not None and not isinstance(truth, Model):
        raise Error(f"the truth is a Model, not {type_name(truth)}.")
    if release is None and methods:
        raise Error("methods learn from a release; give one, or give models alone.")
    wanted = tuple(methods) if methods is not None else () if given or release is None else DEFAULT_METHODS
    if methods is None and release is not None and release.structure.interactions:
        wanted = wanted[:1]  # naive maximum likelihood learns from tables alone
    check_methods(wanted, inference)
    double = [name for name in wanted if name in given or wanted.count(name) > 1]
    if double:
        raise Error(f"{join_names(dict.fromkeys(double))} would stand for two models; give each a name of its own.")
    if not given and release is None:
        raise Error("there is nothing to compare; give a release, or models by name.")
    if release is None and truth is None and len(given) == 1:
        raise Error(
            f"{next(iter(given))!r} is one model alone, with nothing to compare it with; give a second model, a truth, "
            "or the release that it was learned from."
        )
    if release is not None:
        for method in wanted:
            given[method] = fit(release, method, inference=inference, progress=progress)
    first = next(iter(given.values()))
    for name, model in given.items():
        check_same(first.domain, model.domain, f"the model {name!r} and the first one")
    if release is not None:
        release.check_complete()
        check_same(release.domain, first.domain, "the release and the models")
    if truth is not None:
        check_same(truth.domain, first.domain, "the truth and the models")
    cliques = tuple(dict.fromkeys(_tables_of(release, given)))
    with show_status("comparison: scores, distances and differences ...", progress):
        rows = tuple(_row(name, model, first, cliques, release, truth) for name, model in given.items())
        kl = {a: {b: _kl(one, other) for b, other in given.items()} for a, one in given.items()}
    return Comparison(rows, given, kl, tuple(_notes(release, given, cliques)))


def _notes(release: "Release | None", models: Mapping[str, Model], cliques: Sequence[Clique]) -> list[str]:
    """What must be known to read the figures."""
    notes = []
    if release is not None:
        strangers = [name for name, model in models.items() if learned_elsewhere(model, release)]
        if len(strangers) < len(models):
            notes.append(
                "log-score and residuals are of the tables of this release: for models learned from them, residuals "
                "below 1 are usual, since a model follows the chance in who was counted"
            )
        if strangers:
            was, its, it_has = ("was", "its", "it has") if len(strangers) == 1 else ("were", "their", "they have")
            notes.append(
                f"{join_names(strangers)} {was} learned from another release: here {its} log-score and residuals are "
                f"of tables that {it_has} not seen, and are not comparable with those of models that have"
            )
    tables = tuple(dict.fromkeys(name for clique in cliques for name in clique))
    notes += [
        f"no clique of {name!r} holds {join_names(missing)}: all values are taken as equally likely there, and its "
        "distances and differences tell of that too"
        for name, model in models.items()
        if (missing := list_unheld(model, tables))
    ]
    return notes


def list_unheld(model: Model, attributes: Sequence[str]) -> list[str]:
    """Of some attributes, those that no clique of a model holds: nothing was learned of them."""
    held = set(model.structure.attributes)
    return [name for name in attributes if name not in held and model.domain.size(name) > 1]


def _tables_of(release: "Release | None", models: Mapping[str, Model]) -> list[Clique]:
    """The tables that differences are looked for in: those of the release, or of every model."""
    if release is not None:
        return list(release.structure.cliques)
    found: dict[frozenset[str], Clique] = {}
    for model in models.values():
        for clique in model.cliques:
            found.setdefault(frozenset(clique), clique)
    return list(found.values())


def _row(
    name: str,
    model: Model,
    first: Model,
    cliques: Sequence[Clique],
    release: "Release | None",
    truth: Model | None,
) -> ComparisonRow:
    largest, distances = None, []
    for clique in cliques:
        share, reference = model.marginal(clique), first.marginal(clique)
        gap = np.abs(share - reference)
        distances.append(0.5 * float(gap.sum()))
        cell = tuple(int(i) for i in np.unravel_index(gap.argmax(), gap.shape))
        if largest is None or gap[cell] > largest.size:
            labels = tuple(model.domain.labels(a)[i] for a, i in zip(clique, cell, strict=True))
            largest = Difference(clique, labels, float(share[cell]), float(reference[cell]))
    report = model.report
    score = (None, None, None) if release is None else explain_columns(release, model)
    return ComparisonRow(
        name=name,
        method=None if report is None else report.method,
        converged=None if report is None else report.converged,
        seconds=None if report is None else report.seconds,
        log_score=score[0],
        residual=score[1],
        missed=score[2],
        kl=_kl(first, model),
        distance=float(np.mean(distances)) if distances else 0.0,
        largest=None if model is first else largest,
        truth=None if truth is None else _errors(truth, model),
    )


def _errors(truth: Model, model: Model) -> TruthErrors:
    return TruthErrors(kl=_kl(truth, model), **asdict(measure_errors(model, truth)))  # over the truth's tables


def explain_columns(release: "Release", model: Model) -> tuple[float, float, int]:
    """How well a model explains a release: log-score per cell, root mean square residual, tables beyond their noise."""
    fits = residuals(release, table_moments(release, model))
    logs, squares = [], []
    for part, found in zip(release.parts, fits, strict=True):
        counted = np.isfinite(found.z)
        # A floor far below the noise: the density is not defined without any sampling error.
        v = found.sampling[counted] + 1e-4 * part.noise.variance
        b, gaussian = np.full_like(v, part.noise.scale), np.full(v.shape, isinstance(part.noise, Gaussian))
        logs.append(noisy_normal((found.noisy - found.expected)[counted], v, b, gaussian).log)
        squares.append(found.z[counted] ** 2)
    missed = sum(fit.exceeds_noise for fit in fits)
    return float(np.concatenate(logs).mean()), float(np.sqrt(np.concatenate(squares).mean())), missed


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _kl(one: Model, other: Model) -> float | None:
    if one is other:
        return 0.0
    return one.kl(other) if one.inference == other.inference == "exact" else None


def _number(value: float | None, form: str) -> str | None:
    return None if value is None else format(value, form)
