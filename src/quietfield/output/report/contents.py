"""What a report says, worked out from a release and a model: plain values that the template lays out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from quietfield import __version__
from quietfield.domain import Clique
from quietfield.drawing.graph import structure_svg
from quietfield.errors import Error
from quietfield.learning.observation import Residuals, estimate_total, residuals, table_moments
from quietfield.models.intervals import MOST_CELLS, intervals
from quietfield.models.verification import check_learned_from
from quietfield.output.report import associations, limits, plots
from quietfield.output.report.heat import Heat, heat, only_noise
from quietfield.privacy import accounting
from quietfield.releases import description
from quietfield.releases.checks import check_same
from quietfield.study.goodness_of_fit import goodness_of_fit
from quietfield.text import plural

if TYPE_CHECKING:
    from quietfield.models.model import Model
    from quietfield.releases.release import Release


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
    """The distribution of one attribute.

    ``rest`` labels with ``rest_share`` together are not in sight; ``more`` of them, the most common, are folded.
    ``partners`` are the attributes that it hangs together with most: (position, name, V, whether a table joins them).
    """

    name: str
    size: int
    rows: list[ReportRow]
    rest: int
    rest_share: float
    more: list[ReportRow]
    measured: bool
    common: ReportRow
    partners: list[tuple[int, str, float, bool]]


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


def gather(
    release: "Release",
    model: "Model",
    title: str,
    level: float,
    names: tuple[str, str],
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """All that the report's template needs; ``say`` is told what is being done."""
    check_inputs(release, model, level)
    total = estimate_total(release)
    many = len(model.domain) > limits.MANY
    say(f"report: associations of {plural(len(model.domain), 'attribute')} ...")
    joined = set(associations.joined_pairs(model))
    strengths = _strengths(model, joined, many)
    joints = _choose_pairs(model, joined, strengths, many)
    say("report: intervals ...")
    cells, ends = error_bars(
        model, level, [(name,) for name in model.domain], list_with_intervals(joints, joined, many)
    )
    say("report: goodness of fit ...")
    fits = residuals(release, table_moments(release, model))
    fit = _fit(release, model, fits, total)
    say("report: the page ...")
    pairs = _pairs(release, fits, joints, joined, cells, ends, many)
    matrix = _matrix(model, strengths) if many else None
    long = [size for size in model.domain.shape if size > limits.MOST_ROWS]
    most_folded = limits.MOST_FOLDED_ROWS // (1 if sum(long) <= limits.MOST_FOLDED_ROWS else len(long))
    return {
        "title": title or "A private release, and what can be learned from it",
        "release": release,
        "model": model,
        "names": names,
        "version": __version__,
        "level": level,
        "total": total,
        "has_intervals": model.uncertainty is not None,
        "many": many,
        "warnings": description.list_warnings(release),
        "facts": [*description.list_facts(release), ("Model", _describe_model(model))],
        "counted": description.describe_counted(release.promise),
        "graph": Markup(structure_svg(model.domain, model.structure)),
        "cliques": model.cliques,
        "attributes": [
            _attribute(model, name, cells.get((name,)), most_folded, _partners(model, matrix, joined, i))
            for i, name in enumerate(model.domain)
        ],
        "matrix": _draw_matrix(model, matrix, joined),
        "pairs": pairs[: limits.MOST_PAIRS],
        "more_pairs": pairs[limits.MOST_PAIRS :],
        "pairs_left_out": len(model.domain) * (len(model.domain) - 1) // 2 - len(pairs),
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


def error_bars(
    model: "Model", level: float, tables: Iterable[Clique], joints: Mapping[tuple[str, str], np.ndarray]
) -> tuple[dict[Clique, tuple[np.ndarray, np.ndarray]], dict[Clique, tuple[float, float]]]:
    """The intervals of all cells of some tables and joint distributions, and of Cramér's V of the latter; in one call.

    What has none is left out: a model of another method, too many cells, an attribute in no table.
    """
    from scipy.special import ndtri

    if model.uncertainty is None:
        return {}, {}
    held = {name for clique in model.cliques for name in clique}
    wanted = [
        c for c in dict.fromkeys([*tables, *joints]) if held.issuperset(c) and model.domain.cells(c) <= MOST_CELLS
    ]
    pairs = [pair for pair in joints if pair in wanted]
    questions: list[Any] = [*wanted, *({pair: associations.slopes(joints[pair])} for pair in pairs)]

    def alone(question: Any) -> Any:
        try:
            return intervals(model, [question], level)[0]
        except Error:
            return None

    try:
        found: list[Any] = intervals(model, questions, level)
    except Error:  # one of them has none
        found = [alone(question) for question in questions]
    cells = {clique: ends for clique, ends in zip(wanted, found, strict=False) if ends is not None}
    strengths: dict[Clique, tuple[float, float]] = {}
    for pair, ends in zip(pairs, found[len(wanted) :], strict=True):
        if pair in cells and ends is not None:
            low, high = cells[pair]
            spreads = (high - low) / (2 * float(ndtri(0.5 + level / 2)))
            strengths[pair] = associations.v_interval(joints[pair], (ends[1] - ends[0]) / 2, spreads)
    return cells, strengths


def _attribute(
    model: "Model",
    name: str,
    ends: tuple[np.ndarray, np.ndarray] | None,
    most_folded: int,
    partners: list[tuple[int, str, float, bool]],
) -> AttributeSection:
    shares, labels = model.marginal(name), model.domain.labels(name)
    top = max(float(shares.max()), 0.0 if ends is None else float(ends[1].max()))

    def row(i: int, drawn: bool = True) -> ReportRow:
        low, high = (None, None) if ends is None else (float(ends[0][i]), float(ends[1][i]))
        share = float(shares[i])
        return ReportRow(labels[i], share, low, high, plots.bar(share, low, high, top) if drawn else "")

    order = np.argsort(-shares, kind="stable").tolist()
    cut = len(labels) if len(labels) <= limits.MOST_ROWS else limits.MOST_ROWS - 1
    rows = [row(i) for i in (range(cut) if cut == len(labels) else order[:cut])]
    rest = len(labels) - cut
    return AttributeSection(
        name,
        len(labels),
        rows,
        rest,
        1 - sum(row.share for row in rows) if rest else 0.0,
        [row(i, drawn=False) for i in order[cut : cut + most_folded]] if rest else [],
        any(name in clique for clique in model.cliques),
        row(order[0], drawn=False),
        partners,
    )


def _partners(
    model: "Model", matrix: np.ndarray | None, joined: set[tuple[str, str]], i: int
) -> list[tuple[int, str, float, bool]]:
    if matrix is None:
        return []
    names = list(model.domain)
    order = np.argsort(-np.nan_to_num(matrix[i]), kind="stable")[: limits.MOST_PARTNERS].tolist()
    return [
        (j + 1, names[j], float(matrix[i, j]), (names[min(i, j)], names[max(i, j)]) in joined)
        for j in order
        if matrix[i, j] >= plots.STRENGTHS[0]
    ]


def _strengths(model: "Model", joined: set[tuple[str, str]], many: bool) -> dict[tuple[str, str], float]:
    """Cramér's V of pairs: of all where there are many attributes, or of those that are close to each other."""
    names = list(model.domain)
    if many and (found := associations.all_strengths(model)) is not None:
        return {(a, b): float(found[i, i + 1 + j]) for i, a in enumerate(names) for j, b in enumerate(names[i + 1 :])}
    strength = {
        pair: associations.cramers_v(p) for pair in joined if (p := associations.joint(model, pair)) is not None
    }
    near = associations.inferred_pairs(model, strength)
    return strength | {
        pair: associations.cramers_v(p) for pair in near if (p := associations.joint(model, pair)) is not None
    }


def _choose_pairs(
    model: "Model", joined: set[tuple[str, str]], strengths: Mapping[tuple[str, str], float], many: bool
) -> dict[tuple[str, str], np.ndarray]:
    """The joint distributions of the pairs that are listed, strongest first; in a large report, of all joined ones."""
    place = model.domain.position
    order = sorted(strengths, key=lambda pair: (-strengths[pair], pair not in joined, place(pair[0]), place(pair[1])))
    order = [pair for pair in order if pair in joined or not many or strengths[pair] >= 0.005]
    rest = [pair for pair in order[limits.MOST_PAIRS :] if many and pair in joined]
    chosen = [*order[: limits.MOST_PAIRS], *rest[: limits.MOST_FOLDED_TABLES]]
    return {pair: p for pair in chosen if (p := associations.joint(model, pair)) is not None}


def list_with_intervals(
    joints: Mapping[tuple[str, str], np.ndarray], joined: set[tuple[str, str]], many: bool
) -> dict[tuple[str, str], np.ndarray]:
    """The pairs with intervals. Where no clique joins a pair, they take an inference of their own."""
    apart = [pair for pair in joints if pair not in joined][: 0 if many else limits.MOST_APART]
    found, cells = {}, 0
    for pair, p in joints.items():
        if (pair in joined or pair in apart) and cells + p.size <= limits.MOST_INTERVALS:
            found[pair] = p
            cells += p.size
    return found


def _pairs(
    release: "Release",
    fits: Sequence[Residuals],
    joints: Mapping[tuple[str, str], np.ndarray],
    joined: set[tuple[str, str]],
    cells: Mapping[Clique, Any],
    ends: Mapping[Clique, tuple[float, float]],
    many: bool,
) -> list[PairSection]:
    """The pairs, the strongest with a heat map."""
    found, numbers = [], 0
    for i, (pair, p) in enumerate(joints.items()):
        v = associations.cramers_v(p)
        low, high = ends.get(pair, (None, None))
        numbers += p.size if max(p.shape) <= limits.MOST_LABELS else limits.MOST_TELLING
        drawn = i < (limits.MOST_FOLDED_MAPS if many else limits.MOST_MAPS) and min(p.shape) > 1
        found.append(
            PairSection(
                *pair,
                v,
                low,
                high,
                associations.mutual_information(p),
                pair in joined,
                associations.name_strength(v),
                plots.bar(v, low, high, 1.0),
                heat(release, fits, pair, p, cells.get(pair)) if drawn and numbers <= limits.MOST_NUMBERS else None,
            )
        )
    return found


def _matrix(model: "Model", strengths: Mapping[tuple[str, str], float]) -> np.ndarray:
    """Cramér's V of all pairs, NaN where it was not worked out."""
    found = np.full((len(model.domain), len(model.domain)), np.nan)
    for (a, b), v in strengths.items():
        i, j = model.domain.position(a), model.domain.position(b)
        found[i, j] = found[j, i] = v
    return found


def _draw_matrix(model: "Model", matrix: np.ndarray | None, joined: set[tuple[str, str]]) -> Markup | None:
    if matrix is None or len(model.domain) > limits.MOST_IN_MATRIX:
        return None

    names = list(model.domain)
    return plots.matrix(names, matrix, np.array([[(b, a) in joined for b in names] for a in names]))


def _fit(release: "Release", model: "Model", fits: Sequence[Residuals], total: float) -> dict[str, Any]:
    z = np.concatenate([fit.z.ravel() for fit in fits])
    z = z[np.isfinite(z)]
    rms = float(np.sqrt((z**2).mean())) if len(z) else 0.0
    # Few simulated releases where each would take long.
    draws = 199 if total * len(model.domain) < 10**6 and model.inference == "exact" else 49
    found = goodness_of_fit(release, model, draws=draws)
    wrong = {table.clique for table in found.tables if found.p_value <= 0.05 and table.p_value <= 0.05}
    within = float((np.abs(z) <= 2).mean()) if len(z) else 1.0
    description = f"{plural(len(z), 'cell')}; {within:.0%} within two standard deviations; root mean square {rms:.2f}."
    listed = sorted(fits, key=lambda fit: -fit.rms)[: limits.MOST_TABLES + limits.MOST_FOLDED_TABLES]
    tables = [
        FitSection(
            fit.cliques,
            fit.cells,
            fit.rms,
            fit.cliques[0] in wrong,
            int(only_noise(fit).sum()),
            _worst(release, fit),
        )
        for fit in listed
    ]
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
        "tables": tables[: limits.MOST_TABLES],
        "more_tables": tables[limits.MOST_TABLES :],
        "more": len(fits) - len(tables),
    }


def _worst(release: "Release", fit: Residuals) -> str:
    if not fit.cells:
        return "no cell was counted"
    if fit.interaction:
        return f"interaction: {fit.noisy[0]:,.4g} against {fit.expected[0]:,.4g} ({fit.z[0]:+.1f})"
    cell = np.unravel_index(int(np.nanargmax(np.abs(fit.z))), fit.z.shape)
    labels = (str(release.domain.labels(name)[i]) for name, i in zip(fit.cliques[0], cell, strict=True))
    return f"{', '.join(labels)}: {fit.noisy[cell]:,.4g} against {fit.expected[cell]:,.4g} ({fit.z[cell]:+.1f})"
