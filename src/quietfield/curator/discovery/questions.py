"""The questions of a discovery: exact counts of values, noise on all of them, and what is decided from noisy counts."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import hypot, isinf
from typing import Any

import numpy as np

from quietfield.curator import mechanism
from quietfield.curator.counting.coding import Column, Parameters
from quietfield.curator.discovery import partitions, periods, tree
from quietfield.curator.discovery.plan import FIRST, REST, ColumnPlan, DiscoveryPlan, Forms
from quietfield.curator.discovery.writing import CELLS, MARKS, Cell, Written, agree_forms, classify, sum_classes
from quietfield.errors import Error
from quietfield.schema import DROP, FILL_IN, YEARS_FROM, Attribute, Cuts, DateForm, Labels, NumberForm, is_short

#: The part of all values that no answer depends on.
NEGLIGIBLE = 0.001
#: A column holds numbers, or dates, if so many of its values are; it has labels if these cover so many.
MOST, COVERED = 0.9, 0.2
#: It holds codes, which are texts, if so many of its values are digits that begin with a zero.
PADDED = 0.01
#: The most labels of a column, and the most characters of one: whatever is longer is an "other".
MOST_LABELS, MOST_CHARACTERS = 1000, 100
#: The most values that are handed to the mechanism at once.
BATCH = 50_000


class Values:
    """The values of one column, from a view of DuckDB that has each with its count. NOT PRIVATE."""

    def __init__(self, con: Any, column: Column, missing: Sequence[str] = ()) -> None:
        self._con, self._column, self._view = con, column, f"v{column.sql[1:]}"
        self._parameters = Parameters()
        self._null = column.is_null
        if missing:
            self._null = f"({self._null} OR {column.is_one_of(missing, self._parameters)})"

    def classes(self) -> np.ndarray:
        """How many rows are in each of :data:`writing.CELLS`."""
        parameters = Parameters(dict(self._parameters.values))
        found = classify(self._column, self._null, parameters)
        summed = f"SELECT {found} AS cell, sum(many)::BIGINT FROM {self._view} GROUP BY 1"
        counts = np.zeros(len(CELLS), np.int64)
        for number, many in self._con.execute(summed, parameters.values).fetchall():
            counts[number] = many
        return counts

    def missing(self) -> int:
        """How many rows have no value: none of them has a label."""
        query = f"SELECT coalesce(sum(many), 0)::BIGINT FROM {self._view} WHERE {self._null}"
        return int(self._con.execute(query, self._parameters.values).fetchone()[0])

    def labels(self) -> Iterator[tuple[list[str | None], np.ndarray]]:
        """The values that may be labels and how many rows have each, some at a time; first None, for no value."""
        column = self._column
        listed: list[str | None] = [None]
        counts = [self.missing()]  # whether there are any or not
        query = f"SELECT {column.text} AS x, many FROM {self._view} WHERE NOT {self._null}"
        summed = f"SELECT x, sum(many)::BIGINT FROM ({query}) WHERE x IS NOT NULL GROUP BY 1"
        found = self._con.execute(summed, self._parameters.values)
        while (rows := found.fetchmany(BATCH)) or listed:
            kept = [(text, many) for text, many in rows if is_label(text)]
            yield [*listed, *(text for text, _ in kept)], np.array([*counts, *(many for _, many in kept)], np.int64)
            listed, counts = [], []

    def numbers(self, form: NumberForm = NumberForm()) -> "Sorted":  # noqa: B008  # it is frozen
        """The numbers, in order."""
        return self._sorted(self._column.read_number(form))

    def days(self, form: DateForm = "yyyy-mm-dd", years_from: int = YEARS_FROM) -> "Sorted":
        """The dates and times, in order, in days since 1970."""
        return self._sorted(f"floor({self._column.read_seconds(form, years_from)} / 86400)::DOUBLE")

    def _sorted(self, value: str) -> "Sorted":
        query = f"SELECT {value} AS x, many FROM {self._view}"
        whole = f"SELECT x, sum(many)::BIGINT AS many FROM ({query}) WHERE x IS NOT NULL GROUP BY 1 ORDER BY 1"
        found = self._con.execute(whole).fetchnumpy()
        return Sorted(np.asarray(found["x"], float), np.asarray(found["many"], np.int64))


class Sorted:
    """Numbers in order and how many rows have each. NOT PRIVATE."""

    def __init__(self, values: np.ndarray, many: np.ndarray) -> None:
        self._values, self._below = values, np.concatenate([[0], np.cumsum(many)])

    def count(self, intervals: Sequence[tree.Interval]) -> np.ndarray:
        """How many rows lie in each interval, from its lower end until before its upper end; no two may overlap."""
        if any(low > high for low, high in pairwise(float(end) for interval in intervals for end in interval)):
            raise Error("intervals overlap, so that a row could count twice; report it.")
        lows, highs = (
            self._below[np.searchsorted(self._values, list(map(float, ends)))] for ends in zip(*intervals, strict=True)
        )
        return np.asarray(highs - lows)


@dataclass(frozen=True)
class Finding:
    """What was found of a column, from noisy counts: its rule and some facts, or why there is none."""

    rule: Attribute | None
    said: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


class Questions:
    """The questions of a plan, each with its noise. All that leaves this class is noisy."""

    def __init__(self, plan: DiscoveryPlan) -> None:
        self._plan = plan
        self._first, self._levels = plan.scale(FIRST), plan.scale(REST / partitions.NUMBER_LEVELS)
        self._labels, self._dates = plan.scale(REST), plan.scale(REST / partitions.DATE_LEVELS)

    def find_rules(self, columns: Mapping[ColumnPlan, Values]) -> dict[str, Finding]:
        """The rules of columns: first what each holds and how that is written, then the cells of that."""
        cells = {column: self._classify(values) for column, values in columns.items()}
        others = agree_forms(list(map(sum_classes, cells.values())), self._evident(self._first))
        return {one.name: self._find_rule(values, one, cells[one], others) for one, values in columns.items()}

    def _classify(self, values: Values) -> dict[Cell, float]:
        """How many values are in each cell; what does not stand out is taken for none: noise of many would add up."""
        least = tree.stand_out(self._std(self._first), self._evident(self._first))
        noisy = self._measure(self._first, values.classes()).tolist()
        least = max(least, NEGLIGIBLE * sum(many for many in noisy if many >= least))
        return {cell: many if many >= least else 0.0 for cell, many in zip(CELLS, noisy, strict=True)}

    def _find_rule(self, values: Values, column: ColumnPlan, cells: Mapping[Cell, float], others: Forms) -> Finding:
        std, evident = self._std(self._first), self._evident(self._first)
        counts = sum_classes(cells)
        present = sum(counts.values()) - counts["missing"]
        if present < partitions.LEAST_CELL * std:
            return Finding(None, "it has too few values for this epsilon; write its rule if it is wanted")
        found = Written.find(cells, self._plan.forms, others, evident)
        holds = column.holds
        if holds is None:
            valued = present - counts["mark"]
            is_numbers, is_dates = (
                valued > 0 and many >= MOST * valued for many in (found.many_numbers, found.many_dates)
            )
            is_numbers = is_numbers and counts["padded"] < max(PADDED * valued, evident)
            holds = "dates" if is_dates else "numbers" if is_numbers else "categories"
            if holds == "categories" and (said := found.doubt(counts, MOST * valued, self._plan.forms.dates)):
                return Finding(None, said)
        marks = MARKS if holds != "categories" and counts["mark"] >= evident else ()
        missing = counts["missing"] + (counts["mark"] if marks else 0.0)
        facts: dict[str, Any] = {"values": round(present + counts["missing"] - missing), "missing": round(missing)}
        null = bool(marks) or counts["missing"] >= evident
        if holds == "categories":
            finding = self._find_labels(values, present, facts, _advise(found, counts, present))
        elif holds == "dates":
            finding = self._find_dates(values, column, null, facts, found)
        else:
            few = max(found.many_numbers / 100, evident)
            whole = holds == "integers" or found.fractions <= few
            plain = found.many_numbers + counts["padded"] - counts["plain"] - counts["yyyymmdd"] <= few
            what = f"numbers and become 'other'; {_advise(found, counts, present)}"
            facts |= self._note_others(found.many_numbers + counts["padded"], facts["values"], 0.0, what)
            finding = self._find_numbers(values, column, null, facts, found.numbers, whole=whole, plain=plain)
        if finding.rule is None:
            return finding
        listed = tuple(dict.fromkeys((*self._plan.forms.missing, *marks)))
        rule = replace(finding.rule, missing=listed, stored=column.storage.type)
        if isinstance(rule, Cuts) and column.kind == "integer" and not column.storage.nullable:
            rule = replace(rule, null=rule.own[0], unknown=rule.own[0])  # neither occurs, and so neither has a cell
        return replace(finding, rule=rule)

    def _find_labels(self, values: Values, present: float, facts: dict[str, Any], advice: str) -> Finding:
        cutoff = self._plan.cutoff(self._labels)
        published: dict[str, int] = {}
        for labels, counts in values.labels():
            noisy = self._measure(self._labels, counts)
            if labels[:1] == [None]:  # a set like any other, but a public one: it takes no threshold
                facts["missing"] = int(noisy[0])
            published.update({label: int(noisy[i]) for i in np.flatnonzero(noisy >= cutoff) if (label := labels[i])})
        is_missing = facts["missing"] >= self._evident(self._labels)
        facts["missing"] *= is_missing
        ranked = sorted(published, key=lambda label: (-published[label], label))[:MOST_LABELS]
        covered = sum(published[label] for label in ranked)
        if covered < COVERED * present:
            said = "no value is common enough to be published" if not ranked else "nearly all of its values are rare"
            return Finding(None, f"{said}; {advice}")
        facts |= {"threshold": cutoff, "covered": round(min(covered / present, 1.0), 3)}
        if covered < MOST * present:
            facts |= {"note": f"{1 - covered / present:.0%} of its values are rare and become 'other'; {advice}"}
        return Finding(_with_others(Labels(tuple(sorted(ranked))), is_missing), facts=self._told(self._labels, facts))

    def _find_numbers(
        self,
        values: Values,
        column: ColumnPlan,
        missing: bool,
        facts: dict[str, Any],
        form: NumberForm,
        *,
        whole: bool,
        plain: bool,
    ) -> Finding:
        std, evident = self._std(self._levels), self._evident(self._levels)
        # The numbers of 32 bits lie a little beside the decimals that they stand for.
        exact = form.places is not None and column.storage.type not in ("float", "halffloat")
        step = Fraction(1) if whole else Fraction(1, 10 ** (form.places or 0)) if exact else None
        leaves = tree.grow_leaves(
            partitions.number_roots(step, column.within, column.storage.limits),
            lambda leaf: partitions.split_number(leaf, step),
            self._ask_levels(values.numbers(form), self._levels, partitions.NUMBER_LEVELS),
            std,
            evident,
            partitions.NUMBER_LEVELS,
        )
        std, evident = tree.noise_of(leaves, std, evident)
        rule = partitions.number_rule(leaves, std, evident, step, plain=whole and plain)
        if rule is None:
            said = "it has too few numbers for this epsilon, or too many of them alike; write its rule if it is wanted"
            return Finding(None, said)
        points = rule.points if isinstance(rule, Cuts) else ()
        low, high = column.within or partitions.find_range(leaves, std, step, points, evident)
        facts |= {"range": [None if isinf(end) else partitions.plain_number(end) for end in (low, high)]}
        gaps = partitions.find_gaps(leaves, std, evident, step)
        rule = partitions.bound_rule(replace(rule, type="integer" if whole else "number"), low, high, gaps)
        if isinstance(rule, Cuts):
            written = {"places": form.places, "zeros": form.places is None} if column.kind != "text" else vars(form)
            rule = replace(rule, **written)
        return Finding(_with_others(rule, missing), facts=self._told(self._levels, facts))

    def _find_dates(
        self, values: Values, column: ColumnPlan, missing: bool, facts: dict[str, Any], written: Written
    ) -> Finding:
        std, evident = self._std(self._dates), self._evident(self._dates)
        form = written.dates
        since = self._plan.forms.years_from if is_short(form) else YEARS_FROM
        leaves = tree.grow_leaves(
            periods.date_roots(since if is_short(form) else None),
            periods.split_date,
            self._ask_levels(values.days(form, since), self._dates, partitions.DATE_LEVELS),
            std,
            evident,
            partitions.DATE_LEVELS,
        )
        noise = tree.noise_of(leaves, std, evident)
        rule = periods.date_rule(leaves, *noise)
        if rule is None:
            return Finding(None, "it has too few dates for this epsilon; write a period if it is wanted")
        what = f"dates from {rule.start} until before {rule.end} and become 'other'; write periods if more are wanted"
        facts |= self._note_others(periods.count_covered(leaves, rule), facts["values"], std, what)
        if written.is_guess:
            guess = f"its dates are read as {form}; if they begin with years, say --dates yy-mm-dd"
            facts["note"] = "; ".join([guess, *filter(None, [facts.get("note")])])
        timed = column.kind == "time" or written.timed > written.many_dates / 2
        rule = replace(rule, type="time" if timed else "date", written=form, years_from=since, clock=written.clock)
        rule = replace(rule, time=written.time) if timed and column.kind == "text" else rule
        return Finding(_with_others(rule, missing), facts=self._told(self._dates, facts))

    def _note_others(self, covered: float, values: float, std: float, what: str) -> dict[str, str]:
        """A note where more than a tenth of the values, and more than noise, is not ``covered``, which is noisy."""
        lost = values - covered
        if lost <= max((1 - MOST) * values, tree.NEXT * hypot(self._std(self._first), std)):
            return {}
        return {"note": f"about {min(lost / values, 1.0):.0%} of its values are no {what}"}

    def _ask_levels(self, values: "Sorted", scale: float, levels: int) -> tree.Measure:
        """What measures intervals, as often as there are levels that were paid for and no more."""
        left = levels

        def measure(intervals: Sequence[tree.Interval]) -> list[float]:
            nonlocal left
            left -= 1
            if left < 0:
                raise Error("more questions were asked than were paid for; report it.")
            return list(map(float, self._measure(scale, values.count(intervals))))

        return measure

    def _measure(self, scale: float, counts: np.ndarray) -> np.ndarray:
        return mechanism.measure(self._plan.noise, scale, counts)

    def _std(self, scale: float) -> float:
        return self._plan.std(scale)

    def _evident(self, scale: float) -> float:
        return tree.EVIDENT[self._plan.noise] * scale

    def _told(self, scale: float, facts: dict[str, Any]) -> dict[str, Any]:
        return {**facts, "noise_std": float(f"{self._std(scale):.4g}")}


def _advise(found: Written, counts: Mapping[str, float], present: float) -> str:
    """What to do about a column whose values are mostly rare, by what they look like."""
    if counts["unit"] >= present / 2:
        return 'most look like numbers with a unit, which a rule in --known reads ("after": " kg", for instance)'
    if counts["padded"] > 0 and counts["padded"] + found.many_numbers >= present / 2:
        return "most are digits, of which some begin with a zero, as codes do; if they are numbers, say so (--known)"
    for what, many in (("numbers", found.many_numbers), ("dates", found.many_dates)):
        if many >= present / 2:
            return f"most are {what}: say what stands for missing ones (--missing), or write a rule (--known)"
    return "free text and identifiers look like this; name labels, or group its values, if it is wanted"


def is_label(text: str) -> bool:
    """Whether a text may be published as a label: short, in one line, visible, and without a meaning of its own here.

    >>> is_label("Zürich"), is_label(" "), is_label("a\\tb"), is_label("x" * 101), is_label("drop")
    (True, False, False, False, False)
    """
    if len(text) > MOST_CHARACTERS or not text.strip() or text in (DROP, FILL_IN):
        return False
    return not any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for letter in text)


def _with_others(rule: Attribute, missing: bool) -> Attribute:
    """A rule with a label for what it does not cover, and one for missing values where these are many."""
    other = _free_label("other", rule.own)
    return replace(rule, unknown=other, null=_free_label("missing", (*rule.own, other)) if missing else other)


def _free_label(word: str, taken: Sequence[Any]) -> str:
    """A word that is no label yet, in as many brackets as it takes."""
    while word in taken:
        word = f"({word})"
    return word
