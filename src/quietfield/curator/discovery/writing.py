"""How texts write numbers and dates: the classes of the first question, and what noisy counts of them tell.

Whatever a text is, it is of one class, which depends on that text alone. So all classes together are one histogram, and
that there are many of them costs nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from quietfield.curator.counting.coding import BLANKS, MONTHS, NAN, Column, Parameters, number_pattern
from quietfield.curator.discovery.plan import Forms
from quietfield.schema import Clock, DateForm, Decimal, NumberForm, Thousands

#: What stands for a missing value in columns of numbers and dates. In others it is a label like any other.
MARKS = ("-", "--", ".", "..", "?", "NA", "N/A", "n/a", "n.a.", "na", "NULL", "null", "None", "#N/A", "(null)", "\\N")
#: A whole number as texts spell labels; digits that are a code, since they begin with a zero; what else begins so.
PLAIN, PADDED, ZERO = "0|-?[1-9][0-9]{0,17}", "0[0-9]+", r"[ \t]*[+-]?0[0-9].*"
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
#: Whether the first and the last part of 24-01-15 is beyond 15, by what a date that may begin with either is called.
_HALVES = {f"either year {first}{last}": (first, last) for first in "<>" for last in "<>"}
#: A number with what may be a unit or a currency beside it, which only the curator can tell.
UNIT = "[+-]?[0-9][0-9.,''’ ]{0,20}[A-Za-zµ°/²³]{1,8}|[A-Z]{3} [0-9][0-9.,''’ ]{0,20}"
#: The orders of dates that can be taken for each other, with what dates of both are called.
EITHER: dict[tuple[DateForm, DateForm], tuple[str, ...]] = {
    ("dd/mm/yyyy", "mm/dd/yyyy"): ("either date",),
    ("dd/mm/yy", "mm/dd/yy"): ("either short date",),
    ("dd-mm-yy", "yy-mm-dd"): tuple(_HALVES),
}
DATES = (*get_args(DateForm), *(name for names in EITHER.values() for name in names))
#: What follows dates: nothing, a time with 24 hours, one with 12.
CLOCKS = ("", " time", " am time")
#: How a text begins that may be a date; and one that may also be a number.
_MONTH = f"(?i:{'|'.join(name[:3] for name in MONTHS)})"
DATE_LIKE = f"^([0-9]{{1,4}}[./-][0-9]{{1,2}}[./-][0-9]{{1,4}}|[0-9]{{1,2}}[ -]?{_MONTH}|{_MONTH})"
DATE_OF_DIGITS = "^(19|20)[0-9]{6}([ T]|$)"
#: The first question's answers, in order: of dates, also by what follows.
CLASSES = (
    "missing", "mark", *NUMBERS, *(f"{name} {sign}" for sign in BESIDE for name in _DIGITS),
    *(f"{name}{clock}" for clock in CLOCKS for name in DATES), "unit", "padded", "text",
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
            "digits": f"regexp_matches({value}, '{DATE_OF_DIGITS}') AND {column.read_seconds('yyyymmdd')} IS NOT NULL",
            "padded": _matches(value, PADDED),
            "text": _matches(value, ZERO),
            "plain": _matches(value, PLAIN),
            "either point": _matches(value, rf"[ \t]*[+-]?({_THREE.format('[.]')})[ \t]*"),
            "spelled": f"{column.integer} IS NOT NULL",
            "fraction": f"{column.number} IS NOT NULL",
            "either comma": _matches(value, rf"[ \t]*[+-]?({_THREE.format(',')})[ \t]*"),
            **matches,
            "comma": f"{column.read_number(NumberForm(','))} IS NOT NULL",
            "beside": f"regexp_matches({value}, '[%$€£]')",
            "unit": f"regexp_full_match({value}, '{UNIT}')",
        }
        place |= {
            "date": _classify_date(column, place),
            "digits": _classify_clock(value, "yyyymmdd", place),
            "beside": _classify_beside(value, place),
        }
    else:
        tests["plain"] = f"{column.integer} IS NOT NULL"
        if column.kind == "number":
            tests["fraction"] = f"{column.number} IS NOT NULL"
        elif column.kind in ("date", "time"):
            tests["yyyy-mm-dd"] = f"{column.seconds} IS NOT NULL"
    return _cases([(test, place[name]) for name, test in tests.items()], place["text"])


def _classify_date(column: Column, place: Mapping[str, str]) -> str:
    """Which class a text is of as a date, of one order or of both; names of months that are whole come first."""
    value = f"{column.sql}::VARCHAR"
    tests = {form: f"{column.read_seconds(form)} IS NOT NULL" for form in get_args(DateForm)}
    tests |= {form: f"{test} AND {value} ~ '.*[A-Za-z]{{4}}.*'" for form, test in tests.items() if "month" in form}
    every = []
    for (one, other), names in EITHER.items():
        for name in names:
            sides = zip(
                (f"left({value}, 2)", f"left(split_part({value}, '-', 3), 2)"), _HALVES.get(name, ()), strict=False
            )
            halves = [f"{part} {'<' if side == '<' else '>='} '16'" for part, side in sides]
            every.append((" AND ".join((tests[one], tests[other], *halves)), name))
    every += [(test, form) for form, test in tests.items()]
    return _cases([(test, _classify_clock(value, name, place)) for test, name in every], place["text"])


def _classify_clock(value: str, date: str, place: Mapping[str, str]) -> str:
    """Which class a text with a date of some name is of, by what follows that."""
    none, day, half = (place[f"{date}{clock}"] for clock in CLOCKS)
    return _cases([(f"{value} ~ '.*[AaPp][Mm]'", half), (f"contains({value}, ':')", day)], none)


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

    ``fractions`` is how many of the numbers have decimal places, ``timed`` how many of the dates a time, and ``clock``
    how many hours these times have. ``is_guess`` says that nothing told whether dates begin with days or with years.
    """

    numbers: NumberForm
    many_numbers: float
    fractions: float
    dates: DateForm
    many_dates: float
    timed: float
    clock: Clock = 24
    is_guess: bool = False

    @classmethod
    def find(cls, counts: Mapping[str, float], known: Forms, others: Forms, significant: float) -> "Written":
        """What is said of the source, or what noisy counts of :data:`CLASSES` tell, or else what other columns do."""
        before, after, many = _beside(counts, significant)
        decimal = known.decimal or _find_decimal(many, others, significant)
        thousands = _find_thousands(many, decimal, known, others, significant)
        whole, fractions = _readable(decimal, thousands)
        parts = sum(many[name] for name in fractions)
        form = NumberForm(decimal, thousands, before, after)
        date, (days, times, halves), is_guess = _find_dates(counts, known, others, significant)
        clock: Clock = 12 if halves > times else 24
        numbers = parts + sum(many[name] for name in whole) + counts["yyyymmdd"]
        return cls(form, numbers, parts, date, days + times + halves, times + halves, clock, is_guess)

    def doubt(self, counts: Mapping[str, float], most: float) -> str | None:
        """What there is to say of a column whose values can be read in two ways, of which nothing tells the right one.

        >>> found = Written(NumberForm(), 0.0, 0.0, "yyyy-mm-dd", 0.0, 0.0)
        >>> found.doubt({name: 9.0 * (name == "either date") for name in CLASSES}, 8.0)
        'its dates could be dd/mm/yyyy or mm/dd/yyyy; say which with --dates'
        """
        for (one, other), names in EITHER.items():
            either = _sum(counts, *(f"{name}{clock}" for name in names for clock in CLOCKS))
            if self.many_dates + either >= most > self.many_dates:
                return f"its dates could be {one} or {other}; say which with --dates"
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
) -> tuple[DateForm, Sequence[float], bool]:
    """The form of the dates of a column, how many there are, by what follows them, and if days first is a guess."""
    forms: tuple[DateForm, ...] = get_args(DateForm)
    many: dict[str, Sequence[float]] = {name: [counts[f"{name}{clock}"] for clock in CLOCKS] for name in DATES}

    def find_most(listed: Sequence[DateForm]) -> DateForm:
        return max(listed, key=lambda form: sum(many[form]))

    def add(*listed: str) -> None:
        many[listed[0]] = [sum(counted) for counted in zip(*(many[name] for name in listed), strict=True)]

    guess: DateForm | None = None
    for orders, names in EITHER.items():
        certain = find_most(orders)
        order = certain if sum(many[certain]) >= significant else _tell_day(counts, orders, names)
        order = known.dates or order or (others.dates and _same_order(others.dates, orders))
        if order is None and len(names) > 1:
            order = guess = orders[0]
        if order in orders:
            add(order, *names)
    for long in forms:
        if "month" in long:  # which May is as well
            short = long.replace("month", "mon")
            add(*sorted((long, short), key=lambda form: -sum(many[form])))
    best = known.dates or find_most(forms)
    return best, many[best], best == guess


def _tell_day(counts: Mapping[str, float], orders: Sequence[DateForm], names: Sequence[str]) -> DateForm | None:
    """Which part of dates such as 24-01-15 is the day: about half of all days are beyond 15, and few years on one side.

    None where this does not tell: where years are on both sides.
    """
    many = {name: _sum(counts, *(f"{name}{clock}" for clock in CLOCKS)) for name in names}
    total = sum(many.values())
    if len(many) == 1 or not total:
        return None
    first, last = (abs(sum(many[name] for name in names if _HALVES[name][i] == ">") / total - 0.5) for i in (0, 1))
    return orders[0] if first < 0.2 and last > 0.3 else orders[1] if last < 0.2 and first > 0.3 else None


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
        return any(_sum(counts, *(f"{form}{clock}" for clock in CLOCKS)) >= significant for counts in columns)

    orders = {order[:5]: order for pair in EITHER for order in pair if "/" in order and is_said(order)}
    return Forms(decimal, next(iter(orders.values())) if len(orders) == 1 else None)
