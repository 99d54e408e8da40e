"""The questions of a discovery: exact counts of values, noise on all of them, and what is decided from noisy counts."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import isinf
from typing import Any

import numpy as np

from quietfield.curator import mechanism
from quietfield.curator.counting.coding import NAN, Column
from quietfield.curator.discovery import partitions
from quietfield.curator.discovery.plan import FIRST, REST, ColumnPlan, DiscoveryPlan
from quietfield.errors import Error
from quietfield.privacy.noise import Gaussian, Laplace
from quietfield.schema import DROP, FILL_IN, Attribute, Cuts, Labels

#: The first question's answers, in order.
CLASSES = ("missing", "plain", "spelled", "fraction", "date", "text")
#: A column holds numbers, or dates, if so many of its values are; it has labels if these cover so many.
MOST, COVERED = 0.9, 0.2
#: The most labels of a column, and the most characters of one: whatever is longer is an "other".
MOST_LABELS, MOST_CHARACTERS = 1000, 100
#: The most values that are handed to the mechanism at once.
BATCH = 50_000
#: A whole number as texts spell labels, and numbers that are codes, since they begin with zeros.
PLAIN, PADDED = "0|-?[1-9][0-9]{0,17}", r"[ \t]*[+-]?0[0-9].*"


class Values:
    """The values of one column, from a view of DuckDB that has each with its count. NOT PRIVATE."""

    def __init__(self, con: Any, column: Column) -> None:
        self._con, self._column, self._view = con, column, f"v{column.sql[1:]}"

    def classes(self) -> np.ndarray:
        """How many rows are of each of :data:`CLASSES`."""
        column, value = self._column, f"{self._column.sql}::VARCHAR"
        missing, padded, plain = column.is_null, "false", f"{column.integer} IS NOT NULL"
        if column.kind == "text":
            missing = f"({missing} OR regexp_full_match({value}, '{NAN}'))"
            padded, plain = (f"regexp_full_match({value}, '{pattern}')" for pattern in (PADDED, PLAIN))
        tests = (missing, plain, f"{column.integer} IS NOT NULL", f"{column.number} IS NOT NULL")
        cases = [f"WHEN {test} THEN {i}" for i, test in enumerate(tests)]
        cases.insert(2, f"WHEN {padded} THEN 5")
        cases.append(f"WHEN {column.seconds} IS NOT NULL THEN 4")
        query = f"SELECT CASE {' '.join(cases)} ELSE 5 END AS class, many FROM {self._view}"
        counts = np.zeros(len(CLASSES), np.int64)
        for number, many in self._con.execute(f"SELECT class, sum(many)::BIGINT FROM ({query}) GROUP BY 1").fetchall():
            counts[number] = many
        return counts

    def labels(self) -> Iterator[tuple[list[str], np.ndarray]]:
        """The values that may be labels and how many rows have each, some at a time."""
        column = self._column
        query = f"SELECT {column.text} AS x, many FROM {self._view} WHERE NOT {column.is_null}"
        found = self._con.execute(f"SELECT x, sum(many)::BIGINT FROM ({query}) WHERE x IS NOT NULL GROUP BY 1")
        while rows := found.fetchmany(BATCH):
            kept = [(text, many) for text, many in rows if is_label(text)]
            yield [text for text, _ in kept], np.array([many for _, many in kept], np.int64)

    def numbers(self) -> "Sorted":
        """The numbers, in order."""
        return self._sorted(self._column.number)

    def days(self) -> "Sorted":
        """The dates and times, in order, in days since 1970."""
        return self._sorted(f"floor({self._column.seconds} / 86400)::DOUBLE")

    def _sorted(self, value: str) -> "Sorted":
        query = f"SELECT {value} AS x, many FROM {self._view}"
        whole = f"SELECT x, sum(many)::BIGINT AS many FROM ({query}) WHERE x IS NOT NULL GROUP BY 1 ORDER BY 1"
        found = self._con.execute(whole).fetchnumpy()
        return Sorted(np.asarray(found["x"], float), np.asarray(found["many"], np.int64))


class Sorted:
    """Numbers in order and how many rows have each. NOT PRIVATE."""

    def __init__(self, values: np.ndarray, many: np.ndarray) -> None:
        self._values, self._below = values, np.concatenate([[0], np.cumsum(many)])

    def count(self, intervals: Sequence[partitions.Interval]) -> np.ndarray:
        """How many rows lie in each interval, from its lower end until before its upper end; no two may overlap."""
        if any(float(one[1]) > float(other[0]) for one, other in pairwise(intervals)):
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

    def find_rule(self, values: Values, column: ColumnPlan) -> Finding:
        """The rule of a column: first what it holds, then the cells of that."""
        counts = dict(zip(CLASSES, self._measure(self._first, values.classes()).tolist(), strict=True))
        std, evident = self._std(self._first), self._evident(self._first)
        present = sum(counts.values()) - counts["missing"]
        if present < partitions.LEAST_CELL * std:
            return Finding(None, "it has too few values for this epsilon; write its rule if it is wanted")
        missing = counts["missing"] >= evident
        numbers = counts["plain"] + counts["spelled"] + counts["fraction"]
        holds = column.holds
        if holds is None:
            is_numbers, is_dates = (many >= MOST * present for many in (numbers, counts["date"]))
            holds = "numbers" if is_numbers else "dates" if is_dates else "categories"
        facts = {"values": round(present), "missing": max(round(counts["missing"]), 0)}
        if holds == "categories":
            return self._find_labels(values, missing, present, facts)
        if holds == "dates":
            return self._find_dates(values, column, missing, facts)
        few = max(numbers / 100, evident)
        whole, plain = holds == "integers" or counts["fraction"] <= few, counts["spelled"] <= few
        return self._find_numbers(values, column, missing, facts, whole=whole, plain=plain)

    def _find_labels(self, values: Values, missing: bool, present: float, facts: dict[str, Any]) -> Finding:
        cutoff, published = self._plan.cutoff(self._labels), {}
        for labels, counts in values.labels():
            noisy = self._measure(self._labels, counts)
            published.update({labels[i]: int(noisy[i]) for i in np.flatnonzero(noisy >= cutoff)})
        ranked = sorted(published, key=lambda label: (-published[label], label))[:MOST_LABELS]
        covered = sum(published[label] for label in ranked)
        if covered < COVERED * present:
            said = "no value is common enough to be published" if not ranked else "nearly all of its values are rare"
            return Finding(
                None,
                f"{said}, as in free text and identifiers; name labels, or group its values, if it is wanted",
            )
        facts |= {"threshold": cutoff, "covered": round(min(covered / present, 1.0), 3)}
        return Finding(_with_others(Labels(tuple(sorted(ranked))), missing), facts=self._told(self._labels, facts))

    def _find_numbers(
        self, values: Values, column: ColumnPlan, missing: bool, facts: dict[str, Any], *, whole: bool, plain: bool
    ) -> Finding:
        std, evident = self._std(self._levels), self._evident(self._levels)
        leaves = partitions.grow_leaves(
            partitions.number_roots(whole, column.within),
            lambda leaf: partitions.split_number(leaf, whole),
            self._ask_levels(values.numbers(), self._levels, partitions.NUMBER_LEVELS),
            std,
            evident,
            partitions.NUMBER_LEVELS,
        )
        rule = partitions.number_rule(leaves, std, evident, plain=whole and plain)
        if rule is None:
            return Finding(None, "it has too few numbers for this epsilon; write cut points if it is wanted")
        points = rule.points if isinstance(rule, Cuts) else ()
        low, high = column.within or partitions.find_range(leaves, std, whole, points)
        facts |= {"range": [None if isinf(end) else partitions.plain_number(end) for end in (low, high)]}
        rule = partitions.bound_rule(replace(rule, type="integer" if whole else "number"), low, high)
        return Finding(_with_others(rule, missing), facts=self._told(self._levels, facts))

    def _find_dates(self, values: Values, column: ColumnPlan, missing: bool, facts: dict[str, Any]) -> Finding:
        std, evident = self._std(self._dates), self._evident(self._dates)
        leaves = partitions.grow_leaves(
            partitions.date_roots(),
            partitions.split_date,
            self._ask_levels(values.days(), self._dates, partitions.DATE_LEVELS),
            std,
            evident,
            partitions.DATE_LEVELS,
        )
        rule = partitions.date_rule(leaves, std, evident)
        if rule is None:
            return Finding(None, "it has too few dates for this epsilon; write a period if it is wanted")
        rule = replace(rule, type="time" if column.kind == "time" else "date")
        return Finding(_with_others(rule, missing), facts=self._told(self._dates, facts))

    def _ask_levels(self, values: "Sorted", scale: float, levels: int) -> partitions.Measure:
        """What measures intervals, as often as there are levels that were paid for and no more."""
        left = levels

        def measure(intervals: Sequence[partitions.Interval]) -> list[float]:
            nonlocal left
            left -= 1
            if left < 0:
                raise Error("more questions were asked than were paid for; report it.")
            return list(map(float, self._measure(scale, values.count(intervals))))

        return measure

    def _measure(self, scale: float, counts: np.ndarray) -> np.ndarray:
        return mechanism.measure(self._plan.noise, scale, counts)

    def _std(self, scale: float) -> float:
        return (Laplace if self._plan.noise == "laplace" else Gaussian)(scale, Fraction(1)).std

    def _evident(self, scale: float) -> float:
        return partitions.EVIDENT[self._plan.noise] * scale

    def _told(self, scale: float, facts: dict[str, Any]) -> dict[str, Any]:
        return {**facts, "noise_std": float(f"{self._std(scale):.4g}")}


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
