"""From a column of any type to codes, in DuckDB's SQL. No value and no name is ever written into the text of a query.

Columns are known by position (``c0``, ``c1``, ...), labels travel as parameters, and numbers are formatted by Python.
No expression here can fail on a value: casts are tried, and texts are matched before they are read. ``databases.py``
has the same rules in Ibis, which takes twice the time on DuckDB; its first lines have the figures.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from quietfield.errors import Error
from quietfield.schema import (
    SECONDS,
    YEARS_FROM,
    Attribute,
    Cuts,
    DateForm,
    Dates,
    Labels,
    NumberForm,
    is_short,
    strptime_form,
)

#: A number as text, of a size that a double can hold for certain: some databases fail on a text that it cannot.
_SMALL = r"([0-9]{1,200}(\.[0-9]{0,200})?|\.[0-9]{1,200})([eE][+-]?[0-9]{1,2})?"
_LARGE = r"[1-9]([.][0-9]{0,200})?[eE][+-]?([12][0-9]{2}|30[0-7])"
NUMBER = rf"[ \t]*[+-]?({_SMALL}|{_LARGE})[ \t]*"
#: The same with a decimal comma, and points between thousands or none.
_GROUPED = r"([0-9]{1,3}(\.[0-9]{3}){1,60}|[0-9]{1,200})"
_SMALL_COMMA = rf"({_GROUPED}(,[0-9]{{0,200}})?|,[0-9]{{1,200}})([eE][+-]?[0-9]{{1,2}})?"
COMMA_NUMBER = rf"[ \t]*[+-]?({_SMALL_COMMA}|{_LARGE.replace('[.]', ',')})[ \t]*"
#: Blanks between thousands and beside a number: some programs write such as do not break a line.
BLANKS = " \u00a0\u2009\u202f"
_GROUP_SIGNS = {",": ",", ".": "[.]", " ": f"[{BLANKS}]", "'": "['’]"}
#: What is taken off a number of another form; what stands between thousands, as far as it is a comma or a point, too.
NOT_IN_NUMBERS = "[^0-9.,+-]"
INTEGER = r"[ \t]*[+-]?[0-9]{1,18}(\.0{0,200})?[ \t]*"
#: What is not a number, as text: a null to the rules that read numbers, as NaN itself is.
NAN = r"[ \t]*[+-]?[nN][aA][nN][ \t]*"
_YEAR = r"(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_LEAP = r"([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
_DAY = (
    rf"({_YEAR}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
    rf"|{_LEAP}-02-29)"
)
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_CLOCK = r"([01][0-9]|2[0-3])"
#: The parts of dates in other forms. No flag for capitals is one that every database knows.
_NAMES = "|".join(
    "".join(f"[{letter}{letter.upper()}]" for letter in name) for name in (*MONTHS, *(m[:3] for m in MONTHS))
)
_DATE_PARTS = {
    "yyyy": _YEAR, "yy": "[0-9]{2}", "month": _NAMES, "mon": _NAMES, "mm": "0?[1-9]|1[0-2]",
    "dd": "0?[1-9]|[12][0-9]|3[01]",
}  # fmt: skip
_MINUTES = "(:[0-5][0-9](?::[0-5][0-9])?)"
_TIME_OF_DAY = rf"(?:[ T](?:([01]?[0-9]|2[0-3]){_MINUTES}|(0?[1-9]|1[0-2]){_MINUTES} ?([AaPp])[Mm]))?"
#: A valid date, with or without a time, which may say how far it is from UTC.
TIME = rf"{_DAY}([ T]{_CLOCK}:[0-5][0-9](:[0-5][0-9](\.[0-9]{{1,9}})?)?(Z|[+-]{_CLOCK}(:?[0-5][0-9])?)?)?"
#: Hours and minutes of the distance from UTC, in what follows a time's own minutes.
OFFSET_HOURS, OFFSET_MINUTES = "[+-]([0-9]{2})", "[+-][0-9]{2}:?([0-9]{2})"
WHOLE = 1e15
#: The first second of the year 1 and the last of the year 9999, counted from 1970: other times are unknown.
FIRST, LAST = -62_135_596_800, 253_402_300_799


def number_pattern(form: NumberForm, body: str | None = None) -> str:
    """What a number of a form other than the usual one matches as a text; exponents are of the usual one alone.

    Args:
        form: The form. It is public, and made of a few harmless signs.
        body: What the digits match, in place of all that the form allows.

    >>> import re
    >>> pattern = number_pattern(NumberForm(thousands=",", before="$"))
    >>> [text for text in ("1,234.5", "-$5", "$ 1,234,567", "1,23", "$") if re.fullmatch(pattern, text)]
    ['1,234.5', '-$5', '$ 1,234,567']
    """
    point = "[.]" if form.decimal == "." else ","
    between = "" if form.groups is None else rf"[0-9]{{1,3}}({_GROUP_SIGNS[form.groups]}[0-9]{{3}}){{1,60}}|"
    body = body or rf"({between}[0-9]{{1,200}})({point}[0-9]{{0,200}})?|{point}[0-9]{{1,200}}"
    blank = f"[{BLANKS}\t]*"
    before, after = (text.strip().replace("$", "[$]") for text in (form.before, form.after))
    start = rf"([+-]?({before}{blank})?|{before}{blank}[+-])" if before else "[+-]?"
    return rf"[ \t]*{start}({body}){f'({blank}{after})?' if after else ''}[ \t]*"


def date_pattern(form: DateForm) -> tuple[str, str]:
    """What a text of a form other than ISO's matches, and the order of the parts of its date, which have a group each.

    Five more groups have hours and the rest of a time with 24 hours; and those of one with 12, and "A" or "P".

    >>> date_pattern("dd.mm.yyyy")[1]
    'dmy'
    """
    parts = re.findall("yyyy|yy|month|mon|mm|dd|[^a-z]", form)
    day = "".join(f"({_DATE_PARTS[part]})" if part in _DATE_PARTS else f"[{part}]" for part in parts)
    if form.isalpha():  # nothing stands between its parts
        day = day.replace("0?", "0")
    return f"{day}{_TIME_OF_DAY}", "".join(part[0] for part in parts if part in _DATE_PARTS)


@dataclass
class Parameters:
    """The values that travel beside a query."""

    values: dict[str, Any] = field(default_factory=dict)

    def add(self, value: Any) -> str:
        """Take a value along and return how the query calls it."""
        name = f"p{len(self.values)}"
        self.values[name] = value
        return f"${name}"


@dataclass(frozen=True)
class Column:
    """A column by its position in the query, and what it holds.

    ``ticks`` says that a date or time is given as a whole number of so many a second, since 1970 UTC, so that no value
    can fail to be one; ``zoned`` that it knew its time zone; ``exact`` that numbers are decimals.
    """

    sql: str
    kind: str
    ticks: int | None = None
    zoned: bool = False
    exact: bool = False

    def read_as(self, kind: str | None) -> "Column":
        """The same column as it is, or read as whole numbers, with NULL where that fails: what tells persons apart.

        Texts that could not be read are NULL as well: they would make one person of many.
        """
        if kind == "integer" and self.kind != "integer":
            return Column(f"({self.integer})", "integer")
        return Column(f"nullif({self.sql}::VARCHAR, chr(0))", "text") if self.kind == "text" else self

    @property
    def is_null(self) -> str:
        """Whether a value counts as missing."""
        if self.kind == "text":
            return f"({self.sql} IS NULL OR {self.sql}::VARCHAR = '')"
        if self.kind == "number":
            return f"({self.sql} IS NULL OR isnan({self.sql}::DOUBLE))"
        return f"({self.sql} IS NULL)"

    def is_missing(self, rule: Attribute, parameters: "Parameters") -> str:
        """Whether a value is a null to a rule: of texts, also those that say "not a number" where numbers are read."""
        tests = [self.is_null]
        if self.kind == "text" and reads_numbers(rule):
            tests.append(f"regexp_full_match({self.sql}::VARCHAR, '{NAN}')")
        if rule.missing:
            tests.append(self.is_one_of(rule.missing, parameters))
        return f"({' OR '.join(tests)})" if len(tests) > 1 else self.is_null

    def is_one_of(self, texts: Sequence[str], parameters: "Parameters") -> str:
        """Whether a value is one of some texts; false where it has none."""
        return f"coalesce(list_contains({parameters.add(list(texts))}::VARCHAR[], {self.text}), false)"

    @property
    def text(self) -> str:
        """The value as a text, or NULL where it has no text of its own."""
        if self.kind == "number":
            return f"{self.integer}::VARCHAR"
        if self.ticks:
            micros = f"make_timestamp({self._kept} * {max(10**6 // self.ticks, 1)})"
            time = micros if self.ticks <= 10**6 else f"make_timestamp_ns({self._kept})"
            zone = " || '+00'" if self.zoned else ""
            return f"CASE WHEN {self._inside} THEN {time}{'::DATE' if self.kind == 'date' else ''}::VARCHAR{zone} END"
        return f"TRY_CAST({self.sql} AS VARCHAR)"

    @property
    def identity(self) -> str:
        """A text that tells persons apart, also by numbers that are not whole."""
        if self.kind == "number" or self.ticks:
            return f"coalesce({self.text}, TRY({self.sql}::VARCHAR), '')"  # decimals beyond their digits have no text
        return f"coalesce({self.text}, '')"

    @property
    def integer(self) -> str:
        """The value as a whole number, or NULL."""
        if self.kind == "text":
            text = f"{self.sql}::VARCHAR"
            digits = f"regexp_extract({text}, '-?[0-9]+')"
            return f"CASE WHEN regexp_full_match({text}, '{INTEGER}') THEN TRY_CAST({digits} AS BIGINT) END"
        if self.exact:
            return f"CASE WHEN TRY({self.sql} = trunc({self.sql})) THEN TRY_CAST({self.sql} AS BIGINT) END"
        if self.kind == "number":
            number = f"{self.sql}::DOUBLE"
            whole = f"abs({number}) < {WHOLE!r} AND {number} = trunc({number})"
            return f"CASE WHEN {whole} THEN TRY_CAST({number} AS BIGINT) END"
        return f"TRY_CAST({self.sql} AS BIGINT)" if self.kind == "integer" else "NULL::BIGINT"

    @property
    def number(self) -> str:
        """The value as a number, or NULL."""
        return self.read_number(NumberForm())

    def read_number(self, form: NumberForm) -> str:
        """The value as a number, or NULL; of texts, written in this form."""
        if self.kind == "text":
            text = f"{self.sql}::VARCHAR"
            if form.thousands or form.before or form.after:
                pattern = number_pattern(form).replace("'", "''")
                digits = f"regexp_replace({text}, '{NOT_IN_NUMBERS}', '', 'g')"
                points = f"replace(replace({digits}, '{'.' if form.decimal == ',' else ','}', ''), ',', '.')"
                return f"CASE WHEN regexp_full_match({text}, '{pattern}') THEN TRY_CAST({points} AS DOUBLE) END"
            if form.decimal == ",":
                plain = f"replace(replace(trim({text}, ' \t'), '.', ''), ',', '.')"
                return f"CASE WHEN regexp_full_match({text}, '{COMMA_NUMBER}') THEN TRY_CAST({plain} AS DOUBLE) END"
            return f"CASE WHEN regexp_full_match({text}, '{NUMBER}') THEN TRY_CAST(trim({text}, ' \t') AS DOUBLE) END"
        if self.kind == "number":
            return f"CASE WHEN isfinite({self.sql}::DOUBLE) THEN {self.sql}::DOUBLE END"
        return f"TRY_CAST({self.sql} AS DOUBLE)" if self.kind == "integer" else "NULL::DOUBLE"

    @property
    def seconds(self) -> str:
        """The value as whole seconds since 1970 UTC, or NULL."""
        return self.read_seconds("yyyy-mm-dd")

    def read_seconds(self, form: DateForm, years_from: int = YEARS_FROM) -> str:
        """The value as whole seconds since 1970 UTC, or NULL; of texts, written in this form."""
        if self.ticks:
            kept = self._kept
            rest = f"({kept} % {self.ticks} + {self.ticks}) % {self.ticks}"  # of a floor: % keeps the sign
            return f"CASE WHEN {self._inside} THEN ({kept} - {rest}) // {self.ticks} END"
        if self.kind == "text" and form != "yyyy-mm-dd":
            pattern, _ = date_pattern(form)
            text = f"{self.sql}::VARCHAR"
            if is_short(form):  # the century is put before the two digits of the year
                century, begins = divmod(years_from, 100)
                short = "^()([0-9]{2})" if form.startswith("yy") else "^([0-9]+[./-][0-9A-Za-z]+[./-])([0-9]{2})"
                later = f"regexp_extract({text}, '{short}', 2) < '{begins:02}'"
                hundreds = f"CASE WHEN {later} THEN '{century + 1:02}' ELSE '{century:02}' END"
                text = rf"regexp_replace({text}, '{short}', '\1' || {hundreds} || '\2')"
            day = strptime_form(form).replace("%y", "%Y")
            days = {day, day.replace("%b", "%B"), day.replace("%B", "%b")}
            clocks = ("", " %H:%M", " %H:%M:%S", " %I:%M%p", " %I:%M:%S%p")
            forms = ", ".join(f"'{day}{clock}'" for day in sorted(days) for clock in clocks)
            text = rf"regexp_replace(regexp_replace({text}, '([0-9])T', '\1 '), ' ([AaPp][Mm])$', '\1')"
            read = f"try_strptime({text}, [{forms}])"
            return f"CASE WHEN regexp_full_match({self.sql}::VARCHAR, '{pattern}') THEN epoch({read})::BIGINT END"
        if self.kind == "text":
            text, tail = f"{self.sql}::VARCHAR", f"substr({self.sql}::VARCHAR, 17)"
            local = f"substr({text}, 1, CASE WHEN {tail} LIKE ':%' THEN 19 ELSE 16 END)"
            time = f"TRY_CAST(CASE WHEN regexp_full_match({text}, '{TIME}') THEN {local} END AS TIMESTAMP)"
            hours, minutes = (
                f"coalesce(TRY_CAST(regexp_extract({tail}, '{part}', 1) AS BIGINT), 0)"
                for part in (OFFSET_HOURS, OFFSET_MINUTES)
            )
            ahead = f" - CASE WHEN {tail} LIKE '%-%' THEN -60 ELSE 60 END * ({hours} * 60 + {minutes})"
        elif self.kind in ("date", "time"):
            time, ahead = self.sql, ""
        else:
            return "NULL::BIGINT"
        whole = f"(CASE WHEN isfinite({time}) THEN TRY_CAST(floor(epoch({time})) AS BIGINT) END{ahead})"
        return f"CASE WHEN {whole} BETWEEN {FIRST} AND {LAST} THEN {whole} END"

    @property
    def _limits(self) -> tuple[int, int]:
        """The first and last tick that is a time to us: of the years 1 to 9999, and of those that 64 bits can hold."""
        ticks = self.ticks or 1
        return max(FIRST * ticks, -(2**63) + 2 * ticks), min((LAST + 1) * ticks, 2**63 - ticks) - 1

    @property
    def _inside(self) -> str:
        return f"{self.sql} BETWEEN {self._limits[0]} AND {self._limits[1]}"

    @property
    def _kept(self) -> str:
        """Ticks within the limits, so that no arithmetic overflows, whichever rows it is done for."""
        return f"least(greatest({self.sql}, {self._limits[0]}), {self._limits[1]})"


@dataclass(frozen=True)
class CodeSql:
    """How an attribute's code is made, in three steps, so that no conversion is done twice for a record.

    ``value`` and ``null`` come from the column, ``code`` from those two (as ``v`` and ``n`` with the attribute's
    number). Records are kept where ``early`` holds (None: always) and, if ``late``, where the code is not NULL.
    """

    value: str
    null: str
    code: str
    early: str | None
    late: bool


def code_column(rule: Attribute, column: Column, number: int, parameters: Parameters) -> CodeSql:
    """The code of an attribute, from its column."""
    run = _integer_run(rule)
    bare = rule.null_code is None and rule.unknown_code is None and not rule.missing
    if bare and run is not None and column.kind == "integer":
        low, high = run  # the common case of small integers: clamped and widened, so that no value overflows, and quick
        code = f"(least(greatest(v{number}, {low}), {high})::BIGINT - {low})::{code_type(rule)}"
        return CodeSql(column.sql, "NULL", code, f"{column.sql} BETWEEN {low} AND {high}", False)
    value, place = place_value(rule, column, f"v{number}", parameters)
    null = "NULL" if rule.null_code is None else str(rule.null_code)
    unknown = place if rule.unknown_code is None else f"coalesce({place}, {rule.unknown_code})"
    code = f"TRY_CAST(CASE WHEN n{number} THEN {null} ELSE {unknown} END AS {code_type(rule)})"
    return CodeSql(
        value, column.is_missing(rule, parameters), code, None, rule.null_code is None or rule.unknown_code is None
    )


def code_type(rule: Attribute) -> str:
    """The smallest type of DuckDB that holds the codes of a rule."""
    size = len(rule.labels)
    return "UTINYINT" if size <= 2**8 else "USMALLINT" if size <= 2**16 else "UINTEGER"


def reads_numbers(rule: Attribute) -> bool:
    """Whether a rule reads its column as numbers."""
    return isinstance(rule, Cuts) or (isinstance(rule, Labels) and isinstance(rule.values[0], int))


def _integer_run(rule: Attribute) -> tuple[int, int] | None:
    """The first and last of labels that are integers in a row, if they are."""
    if not isinstance(rule, Labels) or not isinstance(rule.values[0], int) or abs(rule.values[0]) > 2**31:
        return None
    low = rule.values[0]
    return (low, low + len(rule.values) - 1) if rule.values == tuple(range(low, low + len(rule.values))) else None


def place_value(rule: Attribute, column: Column, value: str, parameters: Parameters) -> tuple[str, str]:
    """The value that a rule looks at, and the position that it gives it among its own labels (NULL for none)."""
    if isinstance(rule, Labels):
        if isinstance(rule.values[0], int):
            return column.integer, f"list_position({parameters.add(list(rule.values))}::BIGINT[], {value}) - 1"
        return column.text, f"list_position({parameters.add(list(rule.values))}::VARCHAR[], {value}) - 1"
    if isinstance(rule, Cuts):
        return column.read_number(rule.form), f"CASE WHEN {value} IS NOT NULL THEN {_bins(value, rule.points)} END"
    if isinstance(rule, Dates):
        limits, seconds = rule.limits, column.read_seconds(rule.written, rule.years_from)
        inside = f"{value} >= {limits[0]} AND {value} < {limits[-1]}"
        if rule.period in SECONDS:
            return seconds, f"CASE WHEN {inside} THEN ({value} - {limits[0]}) // {SECONDS[rule.period]} END"
        return seconds, f"CASE WHEN {inside} THEN {_bins(value, limits[1:-1])} END"
    raise Error(f"a {type(rule).__name__} cannot be counted; expected Labels, Cuts or Dates.")


def _bins(value: str, points: tuple[float, ...], first: int = 0) -> str:
    """The number of points at or below a value, as a balanced tree of comparisons."""
    if not points:
        return str(first)
    middle = len(points) // 2
    below, above = _bins(value, points[:middle], first), _bins(value, points[middle + 1 :], first + middle + 1)
    # As a text: DuckDB takes a number with a point for a decimal, and rounds that to another double than Python does.
    return f"CASE WHEN {value} < '{float(points[middle])!r}'::DOUBLE THEN {below} ELSE {above} END"
