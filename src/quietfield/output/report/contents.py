"""What a report says, worked out from a release and a model: plain values that the template lays out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from quietfield.domain import Clique
from quietfield.drawing.graph import structure_svg
from quietfield.errors import Error
from quietfield.learning.observation import Residuals, estimate_total, residuals, table_moments
from quietfield.models.intervals import intervals
from quietfield.models.verification import check_learned_from
from quietfield.output.report import associations, plots
from quietfield.output.report.heat import Heat, heat, only_noise
from quietfield.privacy import accounting
from quietfield.releases import description
from quietfield.releases.checks import check_same
from quietfield.study.goodness_of_fit import goodness_of_fit
from quietfield.text import plural

if TYPE_CHECKING:
    import numpy as np

    from quietfield.models.model import Model
    from quietfield.releases.release import Release

MOST_ROWS = 24  # labels of one attribute that are shown
MOST_MAPS = 12  # pairs with a heat map
MOST_PAIRS = 60  # pairs in the list
MOST_CELLS = 400  # of a pair's table, for intervals of its cells
MOST_APART = 4  # pairs that no clique joins, with intervals
MOST_ATTRIBUTES = 20  # of a model for which those are worked out: what is compiled for each grows with the model
MOST_TABLES = 60  # tables in the list of fits


@dataclass(frozen=True)
class ReportRow:
    """One label of an attribute: its share, and its interval where there is one."""

    label: object
    share: float
    low: float | None
    high: float | None
    bar: str


@dataclass(frozen=True)
class AttributeSection:
    """The distribution of one attribute. ``rest`` labels with ``rest_share`` together are not shown."""

    name: str
    size: int
    rows: list[ReportRow]
    rest: int
    rest_share: float
    measured: bool


@dataclass(frozen=True)
class PairSection:
    """Two attributes, how strongly they hang together, and whether any table holds both."""

    a: str
    b: str
    v: float
    low: float | None
    high: float | None
    bits: float
    joined: bool
    word: str
    bar: str
    heat: Heat | None


@dataclass(frozen=True)
class FitSection:
    """One table's line in the list of fits."""

    cliques: tuple[Clique, ...]
    cells: int
    rms: float
    bad: bool
    only_noise: int
    worst: str


def gather(release: "Release", model: "Model", title: str, level: float, names: tuple[str, str]) -> dict[str, Any]:
    """All that the report's template needs."""
    from quietfield import __version__

    check_inputs(release, model, level)
    total = estimate_total(release)
    errors = Intervals(model, level)
    errors.prepare((name,) for name in model.domain)
    fits = residuals(release, table_moments(release, model))
    pairs, left_out = _pairs(release, model, fits, errors)
    fit = _fit(release, model, fits, total)
    return {
        "title": title or "A private release, and what can be learned from it",
        "release": release,
        "model": model,
        "names": names,
        "version": __version__,
        "level": level,
        "total": total,
        "has_intervals": errors.there,
        "warnings": description.list_warnings(release),
        "facts": [*description.list_facts(release), ("Model", _describe_model(model))],
        "counted": description.describe_counted(release.promise),
        "graph": Markup(structure_svg(model.domain, model.structure)),
        "cliques": model.cliques,
        "attributes": [_attribute(model, name, errors) for name in model.domain],
        "pairs": pairs,
        "pairs_left_out": left_out,
        "fit": fit,
        "report": model.report,
        "epsilon": "" if release.promise is None else accounting.format_number(release.promise.epsilon),
        "delta": ""
        if release.promise is None or release.promise.delta is None
        else accounting.format_number(release.promise.delta),
        "any_inferred": any(not pair.joined for pair in pairs),
        "any_noise": any(pair.heat is not None and pair.heat.any_noise for pair in pairs),
        "commands": [
            f"quietfield verify {quote(names[0])}",
            f"quietfield fit {quote(names[0])} --out {quote(names[1])}",
            f"quietfield report {quote(names[0])} --model {quote(names[1])} --out report.html",
        ],
    }


def _describe_model(model: "Model") -> str:
    """Who vouches for a model, beside the release whose promise the page quotes."""
    if model.signed:
        return f"{description.to_sentence(description.describe_signers(model.signers))}."
    return "Not signed. Whoever wants to be sure of it learns it again from the release, with the commands below."


def check_inputs(release: "Release", model: "Model", level: float) -> None:
    """Refuse a model of other attributes than the release's, and a level that is none."""
    if not isinstance(level, int | float) or not 0 < level < 1:
        raise Error(f"the level of intervals lies between 0 and 1, not at {level!r}; 0.9 is usual.")
    check_same(release.domain, model.domain, "the release and the model")
    check_learned_from(model, release)


class Intervals:
    """The intervals of a model's answers, or None for each where the model has none."""

    def __init__(self, model: "Model", level: float) -> None:
        self.model, self.level = model, level
        self.there = model.uncertainty is not None
        self.known: dict[Clique, tuple[np.ndarray, np.ndarray]] = {}

    def prepare(self, cliques: Iterable[Clique]) -> None:
        """Work out the intervals of many marginals at once, which is faster; those that cliques of the model hold."""
        held = [set(clique) for clique in self.model.cliques]
        wanted = [c for c in cliques if self.model.domain.cells(c) <= MOST_CELLS and any(set(c) <= one for one in held)]
        if not self.there or not wanted:
            return
        try:
            self.known.update(zip(wanted, intervals(self.model, wanted, self.level), strict=True))
        except Error:  # one of them has none: `of` asks one by one
            return

    def of(self, clique: Clique) -> "tuple[np.ndarray, np.ndarray] | None":
        """Lower and upper ends for every cell of a marginal."""
        if clique in self.known:
            return self.known[clique]
        try:
            return self.model.interval(clique, self.level)
        except Error:  # another method, too many cells, an attribute in no table: the report says that it knows none
            return None

    def associations(
        self, joints: "Mapping[tuple[str, str], np.ndarray]"
    ) -> "dict[tuple[str, str], tuple[tuple[float, float], tuple[np.ndarray, np.ndarray]]]":
        """The intervals of Cramér's V of pairs, and those of the cells of their tables, where there are any."""
        from scipy.special import ndtri

        self.prepare(joints)
        cells = {pair: ends for pair in joints if (ends := self.of(pair)) is not None}
        slopes = [{pair: associations.slopes(joints[pair])} for pair in cells]
        found = {}
        for pair, (low, high) in zip(cells, intervals(self.model, slopes, self.level) if cells else [], strict=True):
            ends = cells[pair]
            spreads = (ends[1] - ends[0]) / (2 * float(ndtri(0.5 + self.level / 2)))
            found[pair] = (associations.v_interval(joints[pair], (high - low) / 2, spreads), ends)
        return found


def _attribute(model: "Model", name: str, errors: Intervals) -> AttributeSection:
    shares = model.marginal(name)
    ends = errors.of((name,)) if errors.there else None
    labels = model.domain.labels(name)
    order = list(range(len(labels)))
    if len(labels) > MOST_ROWS:
        order = sorted(order, key=lambda i: -shares[i])[: MOST_ROWS - 1]
    top = max(float(shares.max()), 0.0 if ends is None else float(ends[1].max()))
    rows = []
    for i in order:
        low, high = (None, None) if ends is None else (float(ends[0][i]), float(ends[1][i]))
        share = float(shares[i])
        rows.append(ReportRow(labels[i], share, low, high, plots.bar(share, low, high, top)))
    rest = len(labels) - len(order)
    measured = any(name in clique for clique in model.cliques)
    return AttributeSection(
        name, len(labels), rows, rest, 1 - sum(row.share for row in rows) if rest else 0.0, measured
    )


def _pairs(
    release: "Release", model: "Model", fits: Sequence[Residuals], errors: Intervals
) -> tuple[list[PairSection], int]:
    """The pairs by strength, the strongest with a heat map; and how many more there are."""
    joints: dict[tuple[str, str], np.ndarray] = {}
    for pair in associations.joined_pairs(model):
        p = associations.joint(model, pair)
        if p is not None:
            joints[pair] = p
    strength = {pair: associations.cramers_v(p) for pair, p in joints.items()}
    joined = set(joints)
    for pair in associations.inferred_pairs(model, strength):
        p = associations.joint(model, pair)
        if p is not None:
            joints[pair], strength[pair] = p, associations.cramers_v(p)
    order = sorted(joints, key=lambda pair: -strength[pair])
    order = order[:MOST_PAIRS]
    # An interval of a pair that no clique joins needs an inference of its own, compiled for it alone.
    apart = [pair for pair in order if pair not in joined][: MOST_APART if len(model.domain) <= MOST_ATTRIBUTES else 0]
    worth = {p: joints[p] for p in order if (p in joined or p in apart) and joints[p].size <= MOST_CELLS}
    known = errors.associations(worth) if errors.there else {}
    found = []
    for i, pair in enumerate(order):
        p, v = joints[pair], strength[pair]
        (low, high), ends = known.get(pair, ((None, None), None))
        drawn = heat(release, fits, pair, p, ends) if i < MOST_MAPS and min(p.shape) > 1 else None
        bits = associations.mutual_information(p)
        bar = plots.bar(v, low, high, 1.0)
        found.append(PairSection(*pair, v, low, high, bits, pair in joined, associations.name_strength(v), bar, drawn))
    every = len(model.domain) * (len(model.domain) - 1) // 2
    return found, every - len(found)


def _fit(release: "Release", model: "Model", fits: Sequence[Residuals], total: float) -> dict[str, Any]:
    import numpy as np

    z = np.concatenate([fit.z.ravel() for fit in fits])
    z = z[np.isfinite(z)]
    rms = float(np.sqrt((z**2).mean())) if len(z) else 0.0
    # Few simulated releases where each would take long.
    draws = 199 if total * len(model.domain) < 10**6 and model.method == "exact" else 49
    found = goodness_of_fit(release, model, draws=draws)
    wrong = {table.clique for table in found.tables if found.p_value <= 0.05 and table.p_value <= 0.05}
    within = float((np.abs(z) <= 2).mean()) if len(z) else 1.0
    description = f"{plural(len(z), 'cell')}; {within:.0%} within two standard deviations; root mean square {rms:.2f}."
    listed = sorted(fits, key=lambda fit: -fit.rms)[:MOST_TABLES]
    return {
        "word": "well" if found.p_value > 0.05 else "not well",
        "sentence": found.verdict,
        "blind": found.blind,
        "rms": rms,
        "within": within,
        "cells": len(z),
        "only_noise": sum(int(only_noise(fit).sum()) for fit in fits),
        "all_cells": sum(fit.noisy.size for fit in fits),
        "plot": plots.histogram(z, "Differences between the noisy tables and the model", description),
        "tables": [
            FitSection(
                fit.cliques,
                fit.cells,
                fit.rms,
                fit.cliques[0] in wrong,
                int(only_noise(fit).sum()),
                _worst(release, fit),
            )
            for fit in listed
        ],
        "more": len(fits) - len(listed),
    }


def _worst(release: "Release", fit: Residuals) -> str:
    import numpy as np

    if not fit.cells:
        return "no cell was counted"
    cell = np.unravel_index(int(np.nanargmax(np.abs(fit.z))), fit.z.shape)
    labels = (str(release.domain.labels(name)[i]) for name, i in zip(fit.cliques[0], cell, strict=True))
    return f"{', '.join(labels)}: {fit.noisy[cell]:,.4g} against {fit.expected[cell]:,.4g} ({fit.z[cell]:+.1f})"
