"""The questions of a discovery: exact counts of values, noise on all of them, and what is decided from noisy counts."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import isinf
from typing import Any, get_args

import numpy as np

from quietfield.curator import mechanism
from quietfield.curator.counting.coding import NAN, Column, Parameters
from quietfield.curator.discovery import partitions
from quietfield.curator.discovery.plan import FIRST, REST, ColumnPlan, DiscoveryPlan, Forms
from quietfield.errors import Error
from quietfield.schema import DROP, FILL_IN, Attribute, Cuts, DateForm, Decimal, Labels

#: The first question's answers, in order: of numbers by how they are written, of dates likewise. A comma or a point
#: before three digits, and a date whose day could be its month, can be read in two ways.
CLASSES = (
    "missing", "mark", "plain", "spelled", "fraction", "either point", "comma", "either comma", "date",
    "dd.mm.yyyy", "dd-mm-yyyy", "yyyy/mm/dd", "dd/mm/yyyy", "mm/dd/yyyy", "either date", "text",
)  # fmt: skip
#: What stands for a missing value in columns of numbers and dates. In others it is a label like any other.
MARKS = ("-", "--", ".", "..", "?", "NA", "N/A", "n/a", "n.a.", "na", "NULL", "null", "None", "#N/A", "(null)", "\\N")
#: An answer of fewer standard deviations of its noise is taken for none: noise of many would add up.
AUDIBLE = 3
#: A column holds numbers, or dates, if so many of its values are; it has labels if these cover so many.
MOST, COVERED = 0.9, 0.2
#: The most labels of a column, and the most characters of one: whatever is longer is an "other".
MOST_LABELS, MOST_CHARACTERS = 1000, 100
#: The most values that are handed to the mechanism at once.
BATCH = 50_000
#: A whole number as texts spell labels, and numbers that are codes, since they begin with zeros.
PLAIN, PADDED = "0|-?[1-9][0-9]{0,17}", r"[ \t]*[+-]?0[0-9].*"
#: How a text begins that may be a date.
DATE_LIKE = "^[0-9]{1,4}[./-][0-9]{1,2}[./-][0-9]{1,4}"
#: A sign before three digits that could be thousands, and the orders of dates that can be taken for each other.
THOUSANDS = r"[ \t]*[+-]?[1-9][0-9]{{0,2}}{sign}[0-9]{{3}}[ \t]*"
SLASHED: tuple[DateForm, ...] = ("dd/mm/yyyy", "mm/dd/yyyy")


class Values:
    """The values of one column, from a view of DuckDB that has each with its count. NOT PRIVATE."""

    def __init__(self, con: Any, column: Column, missing: Sequence[str] = ()) -> None:
        self._con, self._column, self._view = con, column, f"v{column.sql[1:]}"
        self._parameters = Parameters()
        self._null = column.is_null
        if missing:
            self._null = f"({self._null} OR {column.is_one_of(missing, self._parameters)})"

    def classes(self) -> np.ndarray:
        """How many rows are of each of :data:`CLASSES`."""
        column, value, more = self._column, f"{self._column.sql}::VARCHAR", Parameters(dict(self._parameters.values))
        tests = {"missing": self._null, "plain": f"{column.integer} IS NOT NULL"}
        if column.kind == "text":
            tests = {
                "missing": f"({self._null} OR regexp_full_match({value}, '{NAN}'))",
                "mark": column.is_one_of(MARKS, more),
                "date": f"regexp_matches({value}, '{DATE_LIKE}')",  # first: dates are told apart only where need be
                "text": f"regexp_full_match({value}, '{PADDED}')",
                "plain": f"regexp_full_match({value}, '{PLAIN}')",
                "either point": f"regexp_full_match({value}, '{THOUSANDS.format(sign='[.]')}')",
                "spelled": f"{column.integer} IS NOT NULL",
                "fraction": f"{column.number} IS NOT NULL",
                "either comma": f"regexp_full_match({value}, '{THOUSANDS.format(sign=',')}')",
                "comma": f"{column.read_number(',')} IS NOT NULL",
            }
        elif column.kind == "number":
            tests["fraction"] = f"{column.number} IS NOT NULL"
        elif column.kind in ("date", "time"):
            tests["date"] = f"{column.seconds} IS NOT NULL"
        numbers = {name: str(CLASSES.index(name)) for name in CLASSES}
        if column.kind == "text":
            numbers["date"] = f"CASE {self._date_cases()} ELSE {CLASSES.index('text')} END"
        cases = " ".join(f"WHEN {test} THEN {numbers[name]}" for name, test in tests.items())
        query = f"SELECT CASE {cases} ELSE {CLASSES.index('text')} END AS class, many FROM {self._view}"
        counts = np.zeros(len(CLASSES), np.int64)
        summed = f"SELECT class, sum(many)::BIGINT FROM ({query}) GROUP BY 1"
        for number, many in self._con.execute(summed, more.values).fetchall():
            counts[number] = many
        return counts

    def _date_cases(self) -> str:
        """Which of :data:`CLASSES` a text is as a date; with slashes, of one order or of both."""
        tests = {form: f"{self._column.read_seconds(form)} IS NOT NULL" for form in get_args(DateForm)}
        both = f"WHEN {tests['dd/mm/yyyy']} AND {tests['mm/dd/yyyy']} THEN {CLASSES.index('either date')}"
        names = {form: "date" if form == "yyyy-mm-dd" else form for form in tests}
        return " ".join([both, *(f"WHEN {test} THEN {CLASSES.index(names[form])}" for form, test in tests.items())])

    def labels(self) -> Iterator[tuple[list[str], np.ndarray]]:
        """The values that may be labels and how many rows have each, some at a time."""
        column = self._column
        query = f"SELECT {column.text} AS x, many FROM {self._view} WHERE NOT {self._null}"
        summed = f"SELECT x, sum(many)::BIGINT FROM ({query}) WHERE x IS NOT NULL GROUP BY 1"
        found = self._con.execute(summed, self._parameters.values)
        while rows := found.fetchmany(BATCH):
            kept = [(text, many) for text, many in rows if is_label(text)]
            yield [text for text, _ in kept], np.array([many for _, many in kept], np.int64)

    def numbers(self, decimal: Decimal = ".") -> "Sorted":
        """The numbers, in order."""
        return self._sorted(self._column.read_number(decimal))

    def days(self, form: DateForm = "yyyy-mm-dd") -> "Sorted":
        """The dates and times, in order, in days since 1970."""
        return self._sorted(f"floor({self._column.read_seconds(form)} / 86400)::DOUBLE")

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


@dataclass(frozen=True)
class Written:
    """How a column writes numbers and dates, and how many of its values are numbers, or dates, if read so."""

    decimal: Decimal
    numbers: float
    form: DateForm
    dates: float

    @classmethod
    def find(cls, counts: Mapping[str, float], known: Forms, others: Forms, significant: float) -> "Written":
        """What is said of the source, or what noisy counts of :data:`CLASSES` tell, or else what other columns do."""
        either = counts["either point"] + counts["either comma"]
        as_others = others.decimal == "," and either >= significant > counts["fraction"]
        commas = counts["comma"] >= significant and counts["comma"] > counts["fraction"]
        decimal: Decimal = known.decimal or ("," if commas or as_others else ".")
        numbers = counts["plain"] + counts["spelled"] + counts["fraction"] + counts["either point"]
        numbers += counts["comma"] + counts["either comma"] if decimal == "," else 0.0
        certain = max(SLASHED, key=lambda form: counts[form])
        forms: tuple[DateForm, ...] = get_args(DateForm)
        many = {form: counts["date" if form == "yyyy-mm-dd" else form] for form in forms}
        order = known.dates or (certain if counts[certain] >= significant else others.dates)
        if order is not None and order in SLASHED:
            many[order] += counts["either date"]
        best = max(many, key=lambda form: many[form]) if known.dates is None else known.dates
        return cls(decimal, numbers, best, many[best])

    def doubt(self, counts: Mapping[str, float], most: float) -> str | None:
        """What there is to say of a column whose values can be read in two ways, of which nothing tells the right one.

        >>> Written(".", 0.0, "yyyy-mm-dd", 0.0).doubt({"either date": 9.0, "either comma": 0.0}, 8.0)
        'its dates could be day/month or month/day; say which (--dates dd/mm/yyyy or mm/dd/yyyy)'
        """
        if self.dates + counts["either date"] >= most > self.dates:
            return "its dates could be day/month or month/day; say which (--dates dd/mm/yyyy or mm/dd/yyyy)"
        if self.decimal == "." and self.numbers + counts["either comma"] >= most > self.numbers:
            return (
                "its commas could stand before decimal places or thousands; say --decimal , for the former, and write "
                "thousands without them"
            )
        return None


def agree_forms(columns: Sequence[Mapping[str, float]], significant: float) -> Forms:
    """What columns that can be read in one way only say, with one voice, of those that can be read in two."""
    commas, points = (
        any(counts[one] >= significant and counts[one] > counts[other] for counts in columns)
        for one, other in (("comma", "fraction"), ("fraction", "comma"))
    )
    orders = [form for form in SLASHED if any(counts[form] >= significant for counts in columns)]
    return Forms("," if commas and not points else None, orders[0] if len(orders) == 1 else None)


class Questions:
    """The questions of a plan, each with its noise. All that leaves this class is noisy."""

    def __init__(self, plan: DiscoveryPlan) -> None:
        self._plan = plan
        self._first, self._levels = plan.scale(FIRST), plan.scale(REST / partitions.NUMBER_LEVELS)
        self._labels, self._dates = plan.scale(REST), plan.scale(REST / partitions.DATE_LEVELS)

    def find_rules(self, columns: Mapping[ColumnPlan, Values]) -> dict[str, Finding]:
        """The rules of columns: first what each holds and how that is written, then the cells of that."""
        counts = {column: self._classify(values) for column, values in columns.items()}
        others = agree_forms(list(counts.values()), self._evident(self._first))
        return {one.name: self._find_rule(values, one, counts[one], others) for one, values in columns.items()}

    def _classify(self, values: Values) -> dict[str, float]:
        """How many values are of each class, as far as noise lets it be told."""
        least = AUDIBLE * self._std(self._first)
        noisy = self._measure(self._first, values.classes()).tolist()
        return {name: many if many >= least else 0.0 for name, many in zip(CLASSES, noisy, strict=True)}

    def _find_rule(self, values: Values, column: ColumnPlan, counts: Mapping[str, float], others: Forms) -> Finding:
        std, evident = self._std(self._first), self._evident(self._first)
        present = sum(counts.values()) - counts["missing"]
        if present < partitions.LEAST_CELL * std:
            return Finding(None, "it has too few values for this epsilon; write its rule if it is wanted")
        found = Written.find(counts, self._plan.forms, others, evident)
        holds = column.holds
        if holds is None:
            valued = present - counts["mark"]
            is_numbers, is_dates = (valued > 0 and many >= MOST * valued for many in (found.numbers, found.dates))
            holds = "numbers" if is_numbers else "dates" if is_dates else "categories"
            if holds == "categories" and (said := found.doubt(counts, MOST * valued)):
                return Finding(None, said)
        marks = MARKS if holds != "categories" and counts["mark"] >= evident else ()
        missing = counts["missing"] + (counts["mark"] if marks else 0.0)
        facts = {"values": round(present + counts["missing"] - missing), "missing": round(missing)}
        null = bool(marks) or counts["missing"] >= evident
        if holds == "categories":
            finding = self._find_labels(values, null, present, facts)
        elif holds == "dates":
            finding = self._find_dates(values, column, null, facts, found.form)
        else:
            few = max(found.numbers / 100, evident)
            kinds = ("fraction", "either point") if found.decimal == "." else ("comma", "either comma")
            fractions = sum(counts[kind] for kind in kinds)
            whole = holds == "integers" or fractions <= few
            plain = found.numbers - counts["plain"] <= few
            finding = self._find_numbers(values, column, null, facts, found.decimal, whole=whole, plain=plain)
        if finding.rule is None:
            return finding
        listed = tuple(dict.fromkeys((*self._plan.forms.missing, *marks)))
        rule = replace(finding.rule, missing=listed, stored=column.storage.type)
        if isinstance(rule, Cuts) and column.kind == "integer" and not column.storage.nullable:
            rule = replace(rule, null=rule.own[0], unknown=rule.own[0])  # neither occurs, and so neither has a cell
        return replace(finding, rule=rule)

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
        self,
        values: Values,
        column: ColumnPlan,
        missing: bool,
        facts: dict[str, Any],
        decimal: Decimal,
        *,
        whole: bool,
        plain: bool,
    ) -> Finding:
        std, evident = self._std(self._levels), self._evident(self._levels)
        leaves = partitions.grow_leaves(
            partitions.number_roots(whole, column.within),
            lambda leaf: partitions.split_number(leaf, whole),
            self._ask_levels(values.numbers(decimal), self._levels, partitions.NUMBER_LEVELS),
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
        if isinstance(rule, Cuts):
            rule = replace(rule, decimal=decimal)
        return Finding(_with_others(rule, missing), facts=self._told(self._levels, facts))

    def _find_dates(
        self, values: Values, column: ColumnPlan, missing: bool, facts: dict[str, Any], form: DateForm
    ) -> Finding:
        std, evident = self._std(self._dates), self._evident(self._dates)
        leaves = partitions.grow_leaves(
            partitions.date_roots(),
            partitions.split_date,
            self._ask_levels(values.days(form), self._dates, partitions.DATE_LEVELS),
            std,
            evident,
            partitions.DATE_LEVELS,
        )
        rule = partitions.date_rule(leaves, std, evident)
        if rule is None:
            return Finding(None, "it has too few dates for this epsilon; write a period if it is wanted")
        rule = replace(rule, type="time" if column.kind == "time" else "date", written=form)
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
        return self._plan.std(scale)

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
