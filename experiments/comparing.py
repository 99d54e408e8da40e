"""Two methods side by side, cell by cell, on the trials that both have: they saw the same populations and releases."""

from collections.abc import Callable, Iterable, Mapping
from math import exp, log
from statistics import median
from typing import Any, NamedTuple

from experiments.claims import Verdict, share, verdict
from experiments.trials import Row, Summary, Trial, curve, pick

Kind = tuple[str, str]  # a method and its setting


class Cell(NamedTuple):
    """What the first has in a cell, what the second has, and the first less the second."""

    one: Summary
    other: Summary
    difference: Summary


class Comparison(NamedTuple):
    """Cells by name; ``sign`` is -1 where less is better (KL) and 1 where more is (log-likelihood)."""

    cells: Mapping[Any, Cell]
    sign: int

    @property
    def good(self) -> list[Any]:
        """The cells in which the first is better."""
        return [key for key, cell in self.cells.items() if self.sign * cell.difference.mean > 0]

    @property
    def bad(self) -> list[Any]:
        """The other cells, the worst first."""
        good = set(self.good)
        return sorted((key for key in self.cells if key not in good), key=lambda key: -self.loss(key))

    def clearly(self, sign: int) -> int:
        """In how many cells the first is better (1) or worse (-1) by more than the interval of the difference."""
        return sum(self.sign * sign * cell.difference.mean > cell.difference.half for cell in self.cells.values())

    def loss(self, key: Any) -> float:
        """By how much the first is worse: a ratio of KLs, or a difference of log-likelihoods."""
        cell = self.cells[key]
        return cell.one.mean / cell.other.mean if self.sign < 0 else -cell.difference.mean

    @property
    def verdict(self) -> Verdict:
        return verdict(len(self.good), len(self.cells))

    @property
    def ratio(self) -> float:
        """The geometric mean of the ratios."""
        return exp(sum(log(self.loss(key)) for key in self.cells) / len(self.cells))

    @property
    def gain(self) -> float:
        """The median difference."""
        return median(cell.difference.mean for cell in self.cells.values())

    def __str__(self) -> str:
        if not self.cells:
            return share(0, 0)
        size = f"ratio of KLs {self.ratio:.3g}" if self.sign < 0 else f"median gain {self.gain:.3g} nats per segment"
        word = ("below", "above") if self.sign < 0 else ("above", "below")
        models = [cell.difference.models for cell in self.cells.values() if cell.difference.models > 1]
        several = ""
        if models:
            count = f"{min(models)}" if min(models) == max(models) else f"{min(models)} to {max(models)}"
            several = f"; {count} true models in {len(models)} of the cells, one in the others"
            if len(models) == len(self.cells):
                several = f"; {count} true models per cell"
        return (
            f"{word[0]} in {share(len(self.good), len(self.cells))}, clearly in {self.clearly(1)}, "
            f"clearly {word[1]} in {self.clearly(-1)}; {size}{several}"
        )


def compare(
    rows: Iterable[Row], measure: str, one: Kind, other: Kind, cell: Callable[[Trial], Any], sign: int = -1
) -> Comparison:
    """Two methods over the cells and trials that both have.

    >>> trial = Trial("x", "chain", 10, 100, 1.0, 0, 0, 0, "a")
    >>> rows = [Row(trial, "kl", 1.0, 0.0), Row(trial._replace(method="b"), "kl", 2.0, 0.0)]
    >>> compare(rows, "kl", ("a", ""), ("b", ""), lambda trial: trial.structure).ratio
    0.5
    """
    listed = [row for row in rows if row.measure == measure]
    mine, theirs = ({_which(row.trial): row for row in pick(listed, method=m, setting=s)} for m, s in (one, other))
    both = [key for key in mine if key in theirs]
    curves = (
        curve([mine[key] for key in both], cell),
        curve([mine[key]._replace(value=theirs[key].value) for key in both], cell),
        curve([mine[key]._replace(value=mine[key].value - theirs[key].value) for key in both], cell),
    )
    return Comparison({key: Cell(*(found[key] for found in curves)) for key in curves[0]}, sign)


def _which(trial: Trial) -> Trial:
    return trial._replace(method="", setting="")


def with_failures(rows: Iterable[Row], measure: str, nothing: Callable[[Trial], float]) -> list[Row]:
    """The rows, with a fit that broke down counted as a model that knows nothing."""
    return [row._replace(measure=measure, value=nothing(row.trial)) if row.measure == "failed" else row for row in rows]


def better(
    rows: Iterable[Row], measure: str, methods: Iterable[str], name: str, cell: Callable[[Trial], Any], sign: int = -1
) -> list[Row]:
    """The rows of whichever method has the better mean in each cell, or of the only one there, under another name.

    They are held against each other on the trials that all of them have, where there are such.

    >>> trial = Trial("x", "chain", 10, 100, 1.0, 0, 0, 0, "a")
    >>> rows = [Row(trial, "kl", 1.0, 0.0), Row(trial._replace(method="b"), "kl", 2.0, 0.0)]
    >>> [(row.trial.method, row.value) for row in better(rows, "kl", ["a", "b"], "best", lambda trial: trial.records)]
    [('best', 1.0)]
    """
    groups: dict[Any, dict[str, list[Row]]] = {}
    wanted = set(methods)
    for row in rows:
        if row.measure == measure and row.trial.method in wanted:
            groups.setdefault(cell(row.trial), {}).setdefault(row.trial.method, []).append(row)
    found = []
    for key, some in groups.items():
        shared = set.intersection(*({_which(row.trial) for row in listed} for listed in some.values()))
        fair = {m: [row for row in listed if _which(row.trial) in shared] or listed for m, listed in some.items()}
        best = max(fair, key=lambda method: sign * curve(fair[method], cell)[key].mean)
        found += [row._replace(trial=row.trial._replace(method=name)) for row in some[best]]
    return found


def where(result: Comparison, told: Callable[[Any, float], str]) -> str:
    """How many cells the first is not better in, and the worst three."""
    most = result.bad
    listed = "; ".join(told(key, result.loss(key)) for key in most[:3])
    word = "below" if result.sign < 0 else "above"
    return f"not {word} in {len(most)}: {listed}{'; ...' if len(most) > 3 else ''}"


def kinds(rows: Iterable[Row], measure: str) -> list[Kind]:
    """The methods and settings that have a measure."""
    return sorted({(row.trial.method, row.trial.setting) for row in rows if row.measure == measure})


class Standing(NamedTuple):
    """How one method did: its trials, its cells, its mean over them, and how it compares with a reference."""

    kind: Kind
    trials: int
    cells: int
    mean: float
    beside: Comparison | None  # None for the reference itself, and where the two share no trial


#: What others are compared with: the first that is there.
REFERENCES = (("map", ""), ("map", "ours"), ("naive", ""), ("naive", "paper"))


def standings(
    rows: Iterable[Row], measure: str, cell: Callable[[Trial], Any], sign: int = -1
) -> tuple[Kind | None, list[Standing]]:
    """Every method that has a measure, added ones included, and the reference that each is compared with.

    The mean is geometric where less is better, so that no cell drowns the others.
    """
    listed = [row for row in rows if row.measure == measure]
    there = kinds(listed, measure)
    reference = next((kind for kind in REFERENCES if kind in there), there[0] if there else None)
    found = []
    for kind in there:
        points = curve(pick(listed, method=kind[0], setting=kind[1]), cell)
        means = [point.mean for point in points.values()]
        beside = (
            None if reference is None or kind == reference else compare(listed, measure, kind, reference, cell, sign)
        )
        found.append(
            Standing(
                kind,
                sum(point.trials for point in points.values()),
                len(points),
                sum(means) / len(means) if sign > 0 or min(means) <= 0 else exp(sum(map(log, means)) / len(means)),
                beside if beside is not None and beside.cells else None,
            )
        )
    return reference, found
