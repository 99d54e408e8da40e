"""How texts write numbers and dates: the classes of the first question, and what noisy counts of them tell.

Whatever a text is, it is of one class, which depends on that text alone. So all classes together are one histogram, and
that there are many of them costs nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from quietfield.curator.counting.coding import BLANKS, NAN, Column, Parameters, number_pattern
from quietfield.curator.discovery.plan import Forms
from quietfield.schema import DateForm, Decimal, NumberForm, Thousands

#: What stands for a missing value in columns of numbers and dates. In others it is a label like any other.
MARKS = ("-", "--", ".", "..", "?", "NA", "N/A", "n/a", "n.a.", "na", "NULL", "null", "None", "#N/A", "(null)", "\\N")
#: A whole number as texts spell labels, and numbers that are codes, since they begin with zeros.
PLAIN, PADDED = "0|-?[1-9][0-9]{0,17}", r"[ \t]*[+-]?0[0-9].*"
#: Numbers with something between thousands, by class: what they match. "Either" is one that could be something else: a
#: comma or a point before three digits may stand before decimal places, and a blank may be part of a code.
_THREE = "[1-9][0-9]{{0,2}}{}[0-9]{{3}}"
_MORE = "[1-9][0-9]{{0,2}}({}[0-9]{{3}}){}"
_BLANK, _QUOTE = f"[{BLANKS}]", "['’]"
GROUPED = {
    "grouped": _MORE.format(",", "{2,60}"),
    "grouped fraction": _MORE.format(",", "{1,60}") + "[.][0-9]{0,200}",
    "either space": _THREE.format(_BLANK),
    "spaced": _MORE.format(_BLANK, "{2,60}"),
    "spaced fraction": _MORE.format(_BLANK, "{1,60}") + "[.][0-9]{0,200}",
    "spaced comma": _MORE.format(_BLANK, "{1,60}") + ",[0-9]{0,200}",
    "quoted": _MORE.format(_QUOTE, "{1,60}"),
    "quoted fraction": _MORE.format(_QUOTE, "{1,60}") + "[.][0-9]{0,200}",
    "pointed": _MORE.format("[.]", "{2,60}"),
    "pointed comma": _MORE.format("[.]", "{1,60}") + ",[0-9]{0,200}",
}
#: The classes of numbers that stand alone.
NUMBERS = ("plain", "spelled", "fraction", "either point", "comma", "either comma", *GROUPED)
#: What may stand before and after a number, by name; and what the digits beside it match, by class.
BESIDE = {"%": ("", "%"), "$": ("$", ""), "€": ("€", ""), "after €": ("", " €"), "£": ("£", "")}
_DIGITS = {
    "plain": "0|[1-9][0-9]{0,17}",
    "either point": _THREE.format("[.]"),
    "either comma": _THREE.format(","),
    "fraction": "[0-9]{1,200}([.][0-9]{0,200})?|[.][0-9]{1,200}",
    **GROUPED,
    "comma": "([0-9]{1,3}([.][0-9]{3}){1,60}|[0-9]{1,200})(,[0-9]{0,200})?|,[0-9]{1,200}",
}
#: The orders of dates that can be taken for each other, by what a date of both is called.
SLASHED: dict[str, tuple[DateForm, DateForm]] = {
    "either date": ("dd/mm/yyyy", "mm/dd/yyyy"),
    "either short date": ("dd/mm/yy", "mm/dd/yy"),
}
DATES = (*get_args(DateForm), *SLASHED)
#: How a text begins that may be a date.
DATE_LIKE = "^[0-9]{1,4}[./-][0-9]{1,2}[./-][0-9]{1,4}"
#: The first question's answers, in order: of dates, also by whether a time follows.
CLASSES = (
    "missing", "mark", *NUMBERS, *(f"{name} {sign}" for sign in BESIDE for name in _DIGITS),
    *DATES, *(f"{name} time" for name in DATES), "text",
)  # fmt: skip


def classify(column: Column, null: str, parameters: Parameters) -> str:
    """The number of the class among :data:`CLASSES` that a value of a column is of, in SQL.

    Args:
        column: The column.
        null: Whether a value is a null.
        parameters: What travels beside the query.
    """
    value, place = f"{column.sql}::VARCHAR", {name: str(number) for number, name in enumerate(CLASSES)}
    tests = {"missing": null}
    if column.kind == "text":
        matches = {name: _matches(value, rf"[ \t]*[+-]?({body})[ \t]*") for name, body in GROUPED.items()}
        tests |= {
            "missing": f"({null} OR {_matches(value, NAN)})",
            "mark": column.is_one_of(MARKS, parameters),
            # Before others, and looked at more closely only where need be.
            "date": f"regexp_matches({value}, '{DATE_LIKE}')",
            "text": _matches(value, PADDED),
            "plain": _matches(value, PLAIN),
            "either point": _matches(value, rf"[ \t]*[+-]?({_THREE.format('[.]')})[ \t]*"),
            "spelled": f"{column.integer} IS NOT NULL",
            "fraction": f"{column.number} IS NOT NULL",
            "either comma": _matches(value, rf"[ \t]*[+-]?({_THREE.format(',')})[ \t]*"),
            **matches,
            "comma": f"{column.read_number(NumberForm(','))} IS NOT NULL",
            "beside": f"regexp_matches({value}, '[%$€£]')",
        }
        place |= {"date": _classify_date(column, place), "beside": _classify_beside(value, place)}
    else:
        tests["plain"] = f"{column.integer} IS NOT NULL"
        if column.kind == "number":
            tests["fraction"] = f"{column.number} IS NOT NULL"
        elif column.kind in ("date", "time"):
            tests["yyyy-mm-dd"] = f"{column.seconds} IS NOT NULL"
    return _cases([(test, place[name]) for name, test in tests.items()], place["text"])


def _classify_date(column: Column, place: Mapping[str, str]) -> str:
    """Which class a text is of as a date; with slashes, of one order or of both."""
    tests = {form: f"{column.read_seconds(form)} IS NOT NULL" for form in get_args(DateForm)}
    every = [(f"{tests[one]} AND {tests[other]}", either) for either, (one, other) in SLASHED.items()]
    every += [(test, form) for form, test in tests.items()]
    timed = f"contains({column.sql}::VARCHAR, ':')"
    return _cases(
        [(test, f"CASE WHEN {timed} THEN {place[f'{name} time']} ELSE {place[name]} END") for test, name in every],
        place["text"],
    )


def _classify_beside(value: str, place: Mapping[str, str]) -> str:
    """Which class a text is of as a number with something before or after it."""
    every = []
    for sign, (before, after) in BESIDE.items():
        every += [
            (_matches(value, number_pattern(NumberForm(before=before, after=after), body)), place[f"{name} {sign}"])
            for name, body in _DIGITS.items()
        ]
    return _cases(every, place["text"])


def _matches(value: str, pattern: str) -> str:
    return f"regexp_full_match({value}, '{pattern.replace(chr(39), chr(39) * 2)}')"


def _cases(tests: Sequence[tuple[str, str]], otherwise: str) -> str:
    return f"CASE {' '.join(f'WHEN {test} THEN {found}' for test, found in tests)} ELSE {otherwise} END"


@dataclass(frozen=True)
class Written:
    """How a column writes numbers and dates, and how many of its values are numbers, or dates, if read so.

    ``fractions`` is how many of the numbers have decimal places, ``timed`` how many of the dates a time.
    """

    numbers: NumberForm
    many_numbers: float
    fractions: float
    dates: DateForm
    many_dates: float
    timed: float

    @classmethod
    def find(cls, counts: Mapping[str, float], known: Forms, others: Forms, significant: float) -> "Written":
        """What is said of the source, or what noisy counts of :data:`CLASSES` tell, or else what other columns do."""
        before, after, many = _beside(counts, significant)
        decimal = known.decimal or _find_decimal(many, others, significant)
        thousands = _find_thousands(many, decimal, known, others, significant)
        whole, fractions = _readable(decimal, thousands)
        parts = sum(many[name] for name in fractions)
        form = NumberForm(decimal, thousands, before, after)
        date, dates, timed = _find_dates(counts, known, others, significant)
        return cls(form, parts + sum(many[name] for name in whole), parts, date, dates, timed)

    def doubt(self, counts: Mapping[str, float], most: float) -> str | None:
        """What there is to say of a column whose values can be read in two ways, of which nothing tells the right one.

        >>> found = Written(NumberForm(), 0.0, 0.0, "yyyy-mm-dd", 0.0, 0.0)
        >>> found.doubt({name: 9.0 * (name == "either date") for name in CLASSES}, 8.0)
        'its dates could be day/month or month/day; say which (--dates dd/mm/yyyy or mm/dd/yyyy)'
        """
        for either, (one, other) in SLASHED.items():
            if self.many_dates + counts[either] + counts[f"{either} time"] >= most > self.many_dates:
                return f"its dates could be day/month or month/day; say which (--dates {one} or {other})"
        commas = sum(counts[f"either comma{sign}"] for sign in ("", *(f" {sign}" for sign in BESIDE)))
        if self.numbers.decimal == "." and self.many_numbers + commas >= most > self.many_numbers:
            return "its commas could stand before decimal places or between thousands; say --decimal , or --thousands ,"
        return None


def _beside(counts: Mapping[str, float], significant: float) -> tuple[str, str, dict[str, float]]:
    """What stands before and after the numbers of a column, and how many there are by class with and without it."""
    totals = {sign: sum(counts[f"{name} {sign}"] for name in _DIGITS) for sign in BESIDE}
    sign = max(totals, key=lambda sign: totals[sign])
    if totals[sign] < significant:
        return "", "", {name: counts[name] for name in NUMBERS}
    return *BESIDE[sign], {name: counts[name] + counts.get(f"{name} {sign}", 0.0) for name in NUMBERS}


def _find_decimal(many: Mapping[str, float], others: Forms, significant: float) -> Decimal:
    commas = _sum(many, "comma", "spaced comma", "pointed", "pointed comma")
    points = _sum(many, "fraction", "grouped", "grouped fraction")
    either = _sum(many, "either point", "either comma")
    as_others = others.decimal == "," and either >= significant > points
    return "," if as_others or (commas >= significant and commas > points) else "."


def _sum(many: Mapping[str, float], *names: str) -> float:
    return sum(many[name] for name in names)


def _find_thousands(
    many: Mapping[str, float], decimal: Decimal, known: Forms, others: Forms, significant: float
) -> Thousands | None:
    """What stands between thousands; a comma before three digits does where points stand before decimal places.

    What is said of the source holds for columns that have it: years, too, are numbers, and have no thousands.
    """
    blanks = many["spaced"] + many["spaced fraction" if decimal == "." else "spaced comma"]
    if blanks >= significant or many["plain"] >= significant:
        blanks += many["either space"]
    quotes, commas = _sum(many, "quoted", "quoted fraction"), _sum(many, "grouped", "grouped fraction")
    told = known.thousands == "," or "." in (known.decimal, others.decimal)
    told = told or max(commas, many["plain"], many["fraction"]) >= significant
    if told and many["comma"] < significant:
        commas += many["either comma"]
    points = _sum(many, "either point", "pointed", "pointed comma")
    found: dict[Thousands, float] = {" ": blanks, "'": quotes, **({",": commas} if decimal == "." else {".": points})}
    if known.thousands is not None:
        found = {known.thousands: found.get(known.thousands, 0.0)}
    best = max(found, key=lambda sign: found[sign])
    return best if found[best] >= significant else None


def _readable(decimal: Decimal, thousands: Thousands | None) -> tuple[list[str], list[str]]:
    """The classes of numbers that a form reads: whole ones, and those with decimal places."""
    whole, fractions = ["plain", "spelled"], ["fraction", "either point"]
    if decimal == ",":
        whole, fractions = [*whole, *fractions, "pointed"], ["comma", "either comma", "pointed comma"]
    if thousands == "," and decimal == ".":
        whole, fractions = [*whole, "either comma", "grouped"], [*fractions, "grouped fraction"]
    if thousands == " ":
        whole = [*whole, "either space", "spaced"]
        fractions = [*fractions, "spaced fraction" if decimal == "." else "spaced comma"]
    if thousands == "'":
        whole, fractions = [*whole, "quoted"], [*fractions, "quoted fraction"]
    return whole, fractions


def _find_dates(
    counts: Mapping[str, float], known: Forms, others: Forms, significant: float
) -> tuple[DateForm, float, float]:
    """The form of the dates of a column, how many there are, and how many of them with a time."""
    forms: tuple[DateForm, ...] = get_args(DateForm)
    many = {name: (counts[name] + counts[f"{name} time"], counts[f"{name} time"]) for name in DATES}
    for either, orders in SLASHED.items():
        certain = max(orders, key=lambda form: many[form][0])
        order = certain if many[certain][0] >= significant else None
        order = known.dates or order or (others.dates and _same_order(others.dates, orders))
        if order in orders:
            many[order] = (many[order][0] + many[either][0], many[order][1] + many[either][1])
    best = max(forms, key=lambda form: many[form][0]) if known.dates is None else known.dates
    return best, *many[best]


def _same_order(form: DateForm, orders: Sequence[DateForm]) -> DateForm | None:
    """The one of two orders that a form of either length has."""
    return next((order for order in orders if order[:5] == form[:5]), None)


def agree_forms(columns: Sequence[Mapping[str, float]], significant: float) -> Forms:
    """What columns that can be read in one way only say, with one voice, of those that can be read in two."""
    signs = [(_sum(counts, "comma", "pointed", "pointed comma"), counts["fraction"]) for counts in columns]
    commas = any(comma >= significant and comma > point for comma, point in signs)
    points = any(point >= significant and point > comma for comma, point in signs)
    decimal: Decimal | None = None if commas == points else "," if commas else "."

    def is_said(form: DateForm) -> bool:
        return any(counts[form] + counts[f"{form} time"] >= significant for counts in columns)

    orders = {order[:5]: order for pair in SLASHED.values() for order in pair if is_said(order)}
    return Forms(decimal, next(iter(orders.values())) if len(orders) == 1 else None)
