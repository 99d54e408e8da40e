"""How texts write numbers and dates: the classes of the first question, and what noisy counts of them tell.

Whatever a text is, it is of one class, which depends on that text alone, as does what else is told of it: how many
decimal places it has, for instance. So all of these together are one histogram, and that there are many costs nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, get_args

from quietfield.curator.counting.coding import BLANKS, MONTHS, NAN, Column, Parameters, number_pattern
from quietfield.curator.discovery.plan import Forms
from quietfield.schema import Clock, DateForm, Decimal, NumberForm, Thousands, TimeForm

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
#: What a value may look like: of dates, also by what follows.
CLASSES = (
    "missing", "mark", *NUMBERS, *(f"{name} {sign}" for sign in BESIDE for name in _DIGITS),
    *(f"{name}{clock}" for clock in CLOCKS for name in DATES), "unit", "padded", "text",
)  # fmt: skip
#: What is told of a value: its class, and what is told of that class.
Cell = tuple[str, Any]
#: Zeros fill decimal places up if so many of the numbers have the most places.
FILLED = 0.95
#: The most decimal places that are told apart; one more stands for all beyond, and for exponents.
MOST_PLACES = 6
#: The decimal places of a number, and whether all of them are zeros, which is told of one and two.
PLACES = (*((places, False) for places in range(MOST_PLACES + 2)), (1, True), (2, True))
#: The classes of numbers of which decimal places are told; others have none, or three.
PLACED = ("spelled", "fraction", "comma", *(name for name in GROUPED if name.endswith((" fraction", " comma"))))


def _list_details(name: str) -> tuple[Any, ...]:
    """What is told of the values of a class: of numbers their places, and if a blank stands beside them; of times how.

    >>> _list_details("plain %"), len(_list_details("comma")), _list_details("dd.mm.yyyy time")[1]
    ((((0, False), False), ((0, False), True)), 10, 'Thh:mm:ss')
    """
    if name.endswith(" time"):
        return get_args(TimeForm)[: 8 if name == "yyyy-mm-dd time" else 4]
    for number, sign in product(_DIGITS, BESIDE):
        if name == f"{number} {sign}":
            return tuple(product(_list_details(number), (False, True)))
    if name in PLACED:
        return PLACES
    return ((3 if name in ("either point", "either comma") else 0, False),) if name in NUMBERS else (None,)


#: The first question's answers, in order: a class, and what is told of its values.
CELLS = tuple((name, detail) for name in CLASSES for detail in _list_details(name))


def _place_cell(value: str, name: str, first: int) -> str:
    """The number of the cell that a value of a class is in, in SQL; ``first`` is that of the class."""
    details = _list_details(name)
    if len(details) == 1:
        return str(first)
    if isinstance(details[0], str):  # a time: by its T, by its seconds, and of ISO's by how far it is from UTC
        tests = ("[0-9]T[0-9]", "^[^:]*:[0-9]{2}([^:0-9]|$)", ":.*(Z|[+-])" if len(details) > 4 else "$^")
        bits = (f"{2**i} * regexp_matches({value}, '{test}')::INTEGER" for i, test in enumerate(tests))
        return f"{first} + {' + '.join(bits)}"
    digits = f"regexp_extract({value}, '[.,]([0-9]*)[^0-9.,]*$', 1)"
    more = MOST_PLACES + 1
    zeros = [(f"{digits} = '{'0' * places}'", str(PLACES.index((places, True)))) for places in (1, 2)]
    places = _cases([(f"contains(lower({value}), 'e')", str(more)), *zeros], f"least(length({digits}), {more})")
    if isinstance(details[0][0], int):
        return f"{first} + {places}"
    sign = f"[%$€£][{BLANKS}]|[{BLANKS}][%$€£]"
    blank = f"regexp_matches(trim({value}, ' \t'), '{sign}')::INTEGER"
    return f"{first} + {blank}" if len(details) == 2 else f"{first} + 2 * ({places}) + {blank}"


def classify(column: Column, null: str, parameters: Parameters) -> str:
    """The number of the cell among :data:`CELLS` that a value of a column is in, in SQL.

    Args:
        column: The column.
        null: Whether a value is a null.
        parameters: What travels beside the query.
    """
    # Decimals beyond their digits have no text.
    value, firsts = (
        f"coalesce(TRY({column.sql}::VARCHAR), '')",
        {cell[0]: i for i, cell in reversed([*enumerate(CELLS)])},
    )
    place = {name: f"({_place_cell(value, name, first)})" for name, first in firsts.items()}
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

    ``fractions`` is how many of the numbers are not whole, ``timed`` how many of the dates have a time, ``clock`` how
    many hours these times have, and ``time`` how they follow dates. ``is_guess`` says that nothing told whether dates
    begin with days or with years.
    """

    numbers: NumberForm
    many_numbers: float
    fractions: float
    dates: DateForm
    many_dates: float
    timed: float
    clock: Clock = 24
    time: TimeForm = " hh:mm:ss"
    is_guess: bool = False

    @classmethod
    def find(cls, cells: Mapping[Cell, float], known: Forms, others: Forms, significant: float) -> "Written":
        """What is said of the source, or what noisy counts of :data:`CELLS` tell, or else what other columns do."""
        counts = sum_classes(cells)
        sign, many = _beside(counts, significant)
        decimal = known.decimal or _find_decimal(many, others, significant)
        thousands = _find_thousands(many, decimal, known, others, significant)
        whole, fractions = _readable(decimal, thousands)
        shares = _sum_places(cells, sign, whole, fractions, counts["yyyymmdd"])
        numbers = sum(shares.values())
        parts = sum(share for (places, is_zero), share in shares.items() if places and not is_zero)
        few = max(numbers / 100, significant)
        places, zeros = _find_places(shares, numbers, few)
        if parts <= few and not zeros:  # whole numbers, of which most are written as such
            places, zeros = None, True
        form = NumberForm(decimal, thousands, *_find_blank(cells, sign), places, zeros)
        date, (days, times, halves), is_guess = _find_dates(counts, known, others, significant)
        clock: Clock = 12 if halves > times else 24
        time = _find_time(cells, date, clock)
        return cls(form, numbers, parts, date, days + times + halves, times + halves, clock, time, is_guess)

    def doubt(self, counts: Mapping[str, float], most: float, said: DateForm | None = None) -> str | None:
        """What there is to say of a column whose values can be read in two ways, of which nothing tells the right one.

        Or not in the one way that is ``said`` of its dates.

        >>> found = Written(NumberForm(), 0.0, 0.0, "yyyy-mm-dd", 0.0, 0.0)
        >>> found.doubt({name: 9.0 * (name == "either date") for name in CLASSES}, 8.0)
        'its dates could be dd/mm/yyyy or mm/dd/yyyy; say which with --dates'
        """
        dates: dict[str, float] = {
            form: _sum(counts, *(f"{form}{clock}" for clock in CLOCKS)) for form in get_args(DateForm)
        }
        for (one, other), names in EITHER.items():
            either = _sum(counts, *(f"{name}{clock}" for name in names for clock in CLOCKS))
            order = said and next((form for form in (one, other) if form[0] == said[0]), None)
            wrong = one if order == other else other
            if order and dates[wrong] > dates[order] and dates[one] + dates[other] + either >= most:
                return f"its dates look like {wrong} rather than {order}, as --dates says"
            order = order or (self.dates if self.dates in (one, other) else None)
            if order is None and either >= most:
                return f"its dates could be {one} or {other}; say which with --dates"
            dates[order or f"{one} or {other}"] = dates.get(order or "", 0.0) + either
        if sum(dates.values()) >= most:
            ranked = sorted(dates, key=lambda form: -dates[form])
            return f"its dates are written in several ways, {ranked[0]} and {ranked[1]} among them; write them in one"
        commas = sum(counts[f"either comma{sign}"] for sign in ("", *(f" {sign}" for sign in BESIDE)))
        if self.numbers.decimal == "." and self.many_numbers + commas >= most > self.many_numbers:
            return "its commas could stand before decimal places or between thousands; say --decimal , or --thousands ,"
        return None


def sum_classes(cells: Mapping[Cell, float]) -> dict[str, float]:
    """How many values are of each of :data:`CLASSES`, from how many are in each of :data:`CELLS`."""
    counts = dict.fromkeys(CLASSES, 0.0)
    for (name, _), many in cells.items():
        counts[name] += many
    return counts


def _beside(counts: Mapping[str, float], significant: float) -> tuple[str | None, dict[str, float]]:
    """What stands beside the numbers of a column, and how many there are by class with and without it."""
    totals = {sign: sum(counts[f"{name} {sign}"] for name in _DIGITS) for sign in BESIDE}
    sign = max(totals, key=lambda sign: totals[sign])
    if totals[sign] < significant:
        return None, {name: counts[name] for name in NUMBERS}
    return sign, {name: counts[name] + counts.get(f"{name} {sign}", 0.0) for name in NUMBERS}


def _find_blank(cells: Mapping[Cell, float], sign: str | None) -> tuple[str, str]:
    """What stands before and after numbers, with a blank or without, by which of these are more."""
    if sign is None:
        return "", ""
    beside = [(detail[1], many) for (name, detail), many in cells.items() if name in _signed(sign)]
    blank = " " if sum(many if is_blank else -many for is_blank, many in beside) > 0 else ""
    before, after = (text.strip() for text in BESIDE[sign])
    return before and before + blank, after and blank + after


def _signed(sign: str | None) -> dict[str, str]:
    """The classes of numbers with a sign beside them, and what each is called without."""
    return {} if sign is None else {f"{name} {sign}": name for name in _DIGITS}


def _sum_places(
    cells: Mapping[Cell, float], sign: str | None, whole: Sequence[str], fractions: Sequence[str], days: float
) -> dict[tuple[int, bool], float]:
    """How many numbers have how many decimal places, which may all be zeros; ``days`` are whole numbers besides."""
    shares, signed = {(0, False): days}, _signed(sign)
    for (name, detail), many in cells.items():
        number, told = (signed[name], detail[0]) if name in signed else (name, detail)
        if number == "spelled":  # which is a whole number, whatever places it has
            told = told[0], True
        elif number not in fractions:
            told = 0, False
        if number in (*whole, *fractions):
            shares[told] = shares.get(told, 0.0) + many
    return shares


def _find_places(shares: Mapping[tuple[int, bool], float], numbers: float, few: float) -> tuple[int | None, bool]:
    """The decimal places of all numbers but a few, and whether zeros fill them up; None for none, or for too many."""
    by_places = [shares.get((n, False), 0.0) + shares.get((n, True), 0.0) for n in range(MOST_PLACES + 2)]
    most = max((places for places, many in enumerate(by_places) if many >= few), default=0)
    if most == 0 or most > MOST_PLACES:
        return None, True
    return most, by_places[most] >= FILLED * numbers


def _find_time(cells: Mapping[Cell, float], date: DateForm, clock: Clock) -> TimeForm:
    """How times follow dates of a form, by which way is the most common."""
    # What may be of two orders is of the one that was found, and ISO's dates are of no other form.
    dates = [name for name in DATES if (name == "yyyy-mm-dd") == (date == "yyyy-mm-dd")]
    classes = {f"{name}{CLOCKS[2 if clock == 12 else 1]}" for name in dates}
    forms: dict[TimeForm, float] = dict.fromkeys(get_args(TimeForm), 0.0)
    for (name, detail), many in cells.items():
        if name in classes:
            forms[detail] += many
    return max(forms, key=lambda form: forms[form])


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
        given = known.dates and next((order for order in orders if order[0] == known.dates[0]), known.dates)
        order = given or order or (others.dates and _same_order(others.dates, orders))
        if order is None and len(names) > 1:
            order = guess = orders[0]
        if order in orders:
            add(order, *names)
    for long in forms:
        if "month" in long:  # which May is as well
            short = long.replace("month", "mon")
            add(*sorted((long, short), key=lambda form: -sum(many[form])))
    best = find_most(forms)
    # What is said of the source holds for columns that have it: others may have ISO's dates beside.
    best = known.dates if known.dates is not None and sum(many[best]) < significant else best
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
