"""The rules of attributes: how the values of a column become labels; see :mod:`quietfield.schema`."""

import datetime
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import inf, isfinite
from operator import index
from typing import Any, ClassVar, Literal, get_args

from quietfield.domain import Label
from quietfield.errors import Error
from quietfield.text import join_names

DROP = "drop"
FILL_IN = "FILL IN"
FORMAT = "quietfield-schema"
Period = Literal["year", "month", "week", "day", "hour"]
#: What a column holds, where the schema says it: synthetic records are written so. Counting does not look at it.
ColumnType = Literal["text", "integer", "number", "boolean", "date", "time"]
#: The types of Arrow that a column may be stored as, by their names.
STORED = re.compile(
    r"u?int(8|16|32|64)|float|double|decimal128\([0-9]{1,2}, [0-9]{1,2}\)|bool|date32\[day\]|date64\[ms\]|string|"
    r"large_string|timestamp\[(s|ms|us|ns)(, tz=[A-Za-z0-9_+:/-]{1,40})?\]",
    re.ASCII,
)
#: What stands before the decimal places of a number that is a text, and what may stand between its thousands.
Decimal = Literal[".", ","]
Thousands = Literal[",", ".", " ", "'"]
#: How a date that is a text is written; a time may follow.
DateForm = Literal[
    "yyyy-mm-dd", "dd.mm.yyyy", "dd/mm/yyyy", "dd-mm-yyyy", "mm/dd/yyyy", "yyyy/mm/dd", "yyyymmdd",
    "dd.mm.yy", "dd/mm/yy", "dd-mm-yy", "mm/dd/yy", "yy-mm-dd", "dd-mon-yy",
    "dd month yyyy", "month dd, yyyy", "dd mon yyyy", "mon dd, yyyy", "dd-mon-yyyy", "ddmonyyyy",
]  # fmt: skip
#: How many hours a day has as times are written: with 12, AM or PM follows.
Clock = Literal[24, 12]
#: How a time of day follows a date in a text; Z says that it is UTC.
TimeForm = Literal[
    " hh:mm:ss", "Thh:mm:ss", " hh:mm", "Thh:mm", " hh:mm:ssZ", "Thh:mm:ssZ", " hh:mmZ", "Thh:mmZ"
]  # fmt: skip
#: The first of the hundred years that years of two digits are of, unless a rule says so: as in POSIX.
YEARS_FROM = 1969
#: What may stand before or after a number: a sign of money, a unit. No digits, and nothing that numbers are made of.
_BESIDE = re.compile(r"[^\W\d_]|[%‰°/²³ $€£¥]")
#: Periods of one length, in seconds. Months and years are listed by their limits instead.
SECONDS = {"hour": 3600, "day": 86400, "week": 7 * 86400}


@dataclass(frozen=True)
class Attribute:
    """What all rules share: the column that is read, and what becomes of nulls and unknown values.

    ``null`` and ``unknown`` are ``"drop"`` (a record with such a value is not counted at all) or a label, which is
    appended to the attribute's values unless it is one of them. ``missing`` lists texts that are nulls too, exactly as
    written, such as ``("-", "n/a")``. ``type`` says what the column holds, and ``stored`` as which type of Arrow its
    source had that (``"int8"``, ``"timestamp[ms, tz=UTC]"``): synthetic records are written so. They change no count.
    """

    column: str | None = field(default=None, kw_only=True)
    null: Label = field(default=DROP, kw_only=True)
    unknown: Label = field(default=DROP, kw_only=True)
    missing: tuple[str, ...] = field(default=(), kw_only=True)
    type: ColumnType | None = field(default=None, kw_only=True)
    stored: str | None = field(default=None, kw_only=True)

    kind: ClassVar[str]
    types: ClassVar[tuple[ColumnType, ...]]

    def __post_init__(self) -> None:
        if self.column is not None and not isinstance(self.column, str):
            raise Error(f"the column of an attribute is a name, not {self.column!r}.")
        if self.type is not None and self.type not in self.types:
            raise Error(f"the type of a column with {self.kind} is one of {join_names(self.types)}, not {self.type!r}.")
        object.__setattr__(self, "missing", check_marks(self.missing))
        if self.stored is not None and not is_stored(self.stored):
            raise Error(f"stored names a type of Arrow such as 'int8' or 'timestamp[ms]', not {self.stored!r:.60}.")

    @property
    def own(self) -> tuple[Label, ...]:
        """The labels that the rule itself gives, before those of nulls and unknown values."""
        raise NotImplementedError

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        """All labels, in order."""
        return tuple(dict.fromkeys((*self.own, *(policy for policy in (self.null, self.unknown) if policy != DROP))))

    @property
    def null_code(self) -> int | None:
        """The position that a null takes, or None where the record is dropped."""
        return None if self.null == DROP else self.labels.index(self.null)

    @property
    def unknown_code(self) -> int | None:
        """The position that an unknown value takes, or None where the record is dropped."""
        return None if self.unknown == DROP else self.labels.index(self.unknown)

    @property
    def compared(self) -> bool:
        """Whether an engine compares each value with every limit, one by one."""
        return False

    def content(self) -> dict[str, Any]:
        """The rule itself, for JSON."""
        raise NotImplementedError


@dataclass(frozen=True)
class Labels(Attribute):
    """Values listed one by one: all texts, or all integers.

    >>> Labels(["f", "m"], null="not said").labels
    ('f', 'm', 'not said')
    """

    values: tuple[Label, ...]
    kind: ClassVar[str] = "labels"
    types: ClassVar[tuple[ColumnType, ...]] = get_args(ColumnType)

    def __post_init__(self) -> None:
        super().__post_init__()
        values = self.values
        if isinstance(values, str | bytes | Set | Mapping) or not isinstance(values, Iterable):
            raise Error(f'expected a list of labels such as ["f", "m"], whose order is theirs, not {values!r}.')
        object.__setattr__(self, "values", tuple(v if isinstance(v, str | bool) else _integer(v) for v in values))
        if not self.values:
            raise Error('there are no labels; list at least one, for instance ["f", "m"].')
        if len(set(self.values)) < len(self.values):
            twice = [value for value, many in Counter(self.values).items() if many > 1]
            raise Error(f"{join_names(twice)} is listed more than once; list each label once.")
        for value in self.values:
            if not isinstance(value, str) and abs(value) >= 2**62:
                raise Error(f"the label {value} is too large; labels are whole numbers between -2**62 and 2**62.")
            if isinstance(value, str) and ("\x00" in value or any("\ud800" <= letter <= "\udfff" for letter in value)):
                raise Error(f"the label {value!r} has a character that no text of a record has; rename it.")
        if "" in self.values:
            raise Error("an empty text is a null, so it cannot be a label; the rule's null says what becomes of it.")
        for word in (DROP, FILL_IN):
            if word in self.values:
                raise Error(f"the label {word!r} has a meaning of its own here; rename it.")
        if both := [mark for mark in self.missing if mark in map(str, self.values)]:
            raise Error(f"{join_names(both)} is a label and a missing value; it can be one of them.")

    @property
    def own(self) -> tuple[Label, ...]:
        return self.values

    def content(self) -> dict[str, Any]:
        return {"labels": list(self.values)}


@dataclass(frozen=True)
class NumberForm:
    """How texts write numbers: what stands before decimal places, between thousands, before and after a number.

    What stands between thousands, before or after may also be missing. A blank between thousands may be of any width.
    ``places`` and ``zeros`` are for numbers that are written: how many decimal places, and if zeros fill them up.
    """

    decimal: Decimal = "."
    thousands: Thousands | None = None
    before: str = ""
    after: str = ""
    places: int | None = None
    zeros: bool = True

    @property
    def groups(self) -> Thousands | None:
        """What may stand between thousands; where commas stand before decimal places, that is a point unless said."""
        return "." if self.thousands is None and self.decimal == "," else self.thousands

    def check(self) -> None:
        """Refuse what is no form, or what could be read in two ways."""
        for name, value, known in (("decimal", self.decimal, Decimal), ("thousands", self.thousands, Thousands)):
            if value not in get_args(known) and not (name == "thousands" and value is None):
                raise Error(f"{name} is one of {join_names(get_args(known))}, not {value!r:.60}.")
        if self.decimal == self.thousands:
            raise Error(f"{self.decimal!r} cannot stand both before decimal places and between thousands.")
        for name, text in (("before", self.before), ("after", self.after)):
            if not isinstance(text, str) or len(text) > 10 or not all(map(_BESIDE.fullmatch, text)):
                raise Error(f"{name} is what stands {name} a number, such as '$', 'CHF ' or ' kg', not {text!r:.60}.")
        places = self.places
        if places is not None and (isinstance(places, bool) or not isinstance(places, int) or not 0 <= places <= 6):
            raise Error(f"places is a number of decimal places, a whole number from 0 to 6, not {places!r:.60}.")
        if not isinstance(self.zeros, bool):
            raise Error(f"zeros is whether zeros fill decimal places up, True or False, not {self.zeros!r:.60}.")


@dataclass(frozen=True)
class Cuts(Attribute):
    """Numbers, cut into half-open bins: ``Cuts([18, 40])`` gives below 18, 18 to under 40, and 40 or more.

    >>> Cuts([18, 40, 65]).labels
    ('<18', '18-40', '40-65', '65+')

    ``least`` and ``most`` are public bounds of the numbers, where there are any: synthetic records keep to them in the
    first and last bin. ``gaps`` are pairs of numbers between which there are none: ``(-99, 18)``, where -99 stands for
    something else. Each reaches over a cut point, or to one, and leaves no bin empty. They change no count.

    ``decimal=","`` reads texts with a decimal comma, in which a point may stand between thousands: ``3,5``,
    ``1.234,50``. ``thousands=","`` reads ``1,234.50``; ``before`` and ``after`` are what may stand beside a number, as
    in ``$5``, ``12 %``. ``places=2`` gives synthetic records two decimal places, ``12.50``; with ``zeros=False``
    they are as short as they can be, ``12.5``. These change no count.
    """

    points: tuple[float, ...]
    decimal: Decimal = field(default=".", kw_only=True)
    thousands: Thousands | None = field(default=None, kw_only=True)
    before: str = field(default="", kw_only=True)
    after: str = field(default="", kw_only=True)
    places: int | None = field(default=None, kw_only=True)
    zeros: bool = field(default=True, kw_only=True)
    least: float | None = field(default=None, kw_only=True)
    most: float | None = field(default=None, kw_only=True)
    gaps: tuple[tuple[float, float], ...] = field(default=(), kw_only=True)
    kind: ClassVar[str] = "cuts"
    types: ClassVar[tuple[ColumnType, ...]] = ("text", "integer", "number")

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.points, str) or not isinstance(self.points, Iterable):
            raise Error(f"expected a list of cut points such as [18, 40, 65], not {self.points!r}.")
        points = tuple(self.points)
        if not points or not all(_is_finite(p) for p in points):
            raise Error(
                "cut points are one or more finite numbers, none beyond 1.7e308; write for instance [18, 40, 65]."
            )
        self.form.check()
        points = tuple(p if isinstance(p, int) else float(p) for p in points)
        if any(a >= b for a, b in pairwise(points)):
            raise Error(f"cut points must increase, unlike {list(points)!r}; sort them and keep each once.")
        object.__setattr__(self, "points", points)
        for name, bound in (("least", self.least), ("most", self.most)):
            if bound is None:
                continue
            if not _is_finite(bound) or (bound >= points[0] if name == "least" else bound < points[-1]):
                raise Error(
                    f"{name}={bound!r} is no bound of the numbers: least is below the first cut point and most not "
                    "below the last."
                )
            object.__setattr__(self, name, bound if isinstance(bound, int) else float(bound))
        object.__setattr__(self, "gaps", tuple((low, high) for low, high in self.gaps))
        if not all(_is_finite(end) for gap in self.gaps for end in gap) or not self._fits():
            raise Error(
                "gaps are pairs of numbers in order, such as [[-99, 18]]; each reaches over a cut point or to one, "
                "lies between least and most, and leaves no bin empty. Take them out if cut points change."
            )

    def _fits(self) -> bool:
        """Whether gaps lie one after the other, each over a cut point, and leave something of every bin."""
        if not self.gaps:
            return True
        first, last = self.points[0] if self.least is None else self.least, self.points[-1]
        ends = [first, *(end for gap in self.gaps for end in gap), last if self.most is None else self.most]
        over = all(any(low < point <= high for point in self.points) for low, high in self.gaps)
        open_bins = [low < high or high != point for (low, high), point in zip(self.bins, self.points, strict=False)]
        filled = all(low <= high for low, high in self.bins) and all(open_bins)
        return over and filled and all(low < high for low, high in self.gaps) and ends == sorted(ends)

    @cached_property
    def bins(self) -> list[tuple[float, float]]:
        """Where the numbers of each bin lie: from one end to before the other, or at the one if both are the same.

        The upper end of the last bin, and that of one that a gap ends, are part of it. Unknown ends are infinite.

        >>> Cuts([0, 100], least=-99, most=100, gaps=[(-99, 20), (79, 100)]).bins
        [(-99, -99), (20, 79), (100, 100)]
        """
        least, most = -inf if self.least is None else self.least, inf if self.most is None else self.most
        found = []
        for low, high in pairwise((least, *self.points, most)):
            first = next((until for since, until in self.gaps if since < low < until), low)
            last = next((since for since, until in self.gaps if low <= since < high <= until), high)
            found.append((first, last))
        return found

    @property
    def form(self) -> NumberForm:
        """How texts write the numbers."""
        return NumberForm(self.decimal, self.thousands, self.before, self.after, self.places, self.zeros)

    @cached_property
    def own(self) -> tuple[Label, ...]:
        text = [str(int(p)) if p == int(p) and abs(p) < 1e15 else repr(p) for p in self.points]
        middle = (f"{a}-{b}" for a, b in pairwise(text))
        return (f"<{text[0]}", *middle, f"{text[-1]}+")

    @property
    def compared(self) -> bool:
        return True

    def content(self) -> dict[str, Any]:
        bounds = {"least": self.least, "most": self.most, "gaps": [list(gap) for gap in self.gaps] or None}
        form = {name: value for name, value in vars(self.form).items() if value != getattr(NumberForm, name)}
        return {"cuts": list(self.points), **{k: bound for k, bound in bounds.items() if bound is not None}, **form}


@dataclass(frozen=True)
class Dates(Attribute):
    """Dates or times, by period from ``start`` until before ``end``; anything outside is unknown.

    Periods are whole: months and years begin where the calendar has them, weeks, days and hours at ``start``. A
    ``start`` or an ``end`` inside a period is refused. ``written`` says how texts write dates: ``dd.mm.yyyy``. Years of
    two digits, as in ``dd.mm.yy``, are of the hundred years from ``years_from`` on. ``mon`` and ``month`` are English
    names, short or not. With ``clock=12``, synthetic records have times such as ``03:05:00 PM``, and ``time``
    says how a time follows a date there: ``"Thh:mm:ss"``, ``" hh:mm"``. All of these are read.

    >>> Dates(period="month", start="2024-11-01", end="2025-02-01").labels
    ('2024-11', '2024-12', '2025-01')
    """

    period: Period = "month"
    start: str = ""
    end: str = ""
    written: DateForm = field(default="yyyy-mm-dd", kw_only=True)
    years_from: int = field(default=YEARS_FROM, kw_only=True)
    clock: Clock = field(default=24, kw_only=True)
    time: TimeForm = field(default=" hh:mm:ss", kw_only=True)
    kind: ClassVar[str] = "dates"
    types: ClassVar[tuple[ColumnType, ...]] = ("text", "date", "time")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.period not in get_args(Period):
            raise Error(f"a period is one of {join_names(get_args(Period))}, not {self.period!r}.")
        if self.written not in get_args(DateForm):
            raise Error(f"dates are written as one of {join_names(get_args(DateForm))}, not as {self.written!r}.")
        check_years_from(self.years_from)
        if self.clock not in get_args(Clock):
            raise Error(f"a clock has 24 hours or 12, not {self.clock!r}.")
        if self.time not in get_args(TimeForm):
            raise Error(f"a time is written as one of {join_names(get_args(TimeForm))}, not as {self.time!r:.60}.")
        if self.time.endswith("Z") and (self.written != "yyyy-mm-dd" or self.clock == 12):
            raise Error("a Z follows times of 24 hours after dates that are written yyyy-mm-dd, and no others.")
        for name in ("start", "end"):
            try:
                moment = datetime.datetime.fromisoformat(str(getattr(self, name)))
            except ValueError:
                raise Error(f"{name}={getattr(self, name)!r} is not a date; write it as 2024-01-31.") from None
            if moment.tzinfo is not None:
                raise Error(f"{name}={getattr(self, name)!r} has a time zone; times are read as UTC, so leave it out.")
            object.__setattr__(self, name, _write_moment(moment))
        if len(self.limits) < 2:
            raise Error(f"there is no {self.period} between start={self.start!r} and end={self.end!r}.")
        if len(self.limits) > 100_000:
            raise Error(f"that makes {len(self.limits) - 1} periods; take a longer period or a shorter time.")
        first, last = self.moments[0], self.moments[-1]
        self._check_whole("start", first, self._after(first))
        self._check_whole("end", self.moments[-2], last)

    def _check_whole(self, name: str, before: datetime.datetime, after: datetime.datetime) -> None:
        """Refuse a start or an end inside a period, which is counted whole: it would count what is not meant."""
        text = getattr(self, name)
        if datetime.datetime.fromisoformat(text) in (before, after):
            return
        several = name == "start" or len(self.moments) > 2
        right = [f"{name}={_write_moment(moment)!r}" for moment in ((before, after) if several else (after,))]
        raise Error(
            f"{name}={text!r} lies inside a {self.period}, and periods are counted whole; write {' or '.join(right)}."
        )

    @cached_property
    def moments(self) -> tuple[datetime.datetime, ...]:
        """The limits of the periods: one more than there are periods."""
        start, end = (datetime.datetime.fromisoformat(text) for text in (self.start, self.end))
        if self.period in ("year", "month"):
            start = start.replace(month=1 if self.period == "year" else start.month, day=1, hour=0, minute=0, second=0)
        moments = [start.replace(microsecond=0)]
        while moments[-1] < end and len(moments) <= 100_001:
            moments.append(self._after(moments[-1]))
        return tuple(moments)

    def _after(self, moment: datetime.datetime) -> datetime.datetime:
        """The end of the period that begins at a moment."""
        try:
            if self.period in SECONDS:
                return moment + datetime.timedelta(seconds=SECONDS[self.period])
            months = moment.year * 12 + moment.month - 1 + (12 if self.period == "year" else 1)
            return moment.replace(year=months // 12, month=months % 12 + 1)
        except (ValueError, OverflowError):
            raise Error(f"the last {self.period} would end after the year 9999; choose an earlier end.") from None

    @cached_property
    def limits(self) -> tuple[int, ...]:
        """The limits of the periods, in seconds since 1970 UTC."""
        return tuple(int(m.replace(tzinfo=datetime.UTC).timestamp()) for m in self.moments)

    @cached_property
    def own(self) -> tuple[Label, ...]:
        forms = {"year": "%Y", "month": "%Y-%m", "week": "%Y-%m-%d", "day": "%Y-%m-%d", "hour": "%Y-%m-%d %H:%M"}
        return tuple(moment.strftime(forms[self.period]) for moment in self.moments[:-1])

    @property
    def compared(self) -> bool:
        return self.period not in SECONDS

    def content(self) -> dict[str, Any]:
        form: dict[str, Any] = {} if self.written == "yyyy-mm-dd" else {"written": self.written}
        form |= {"years_from": self.years_from} if is_short(self.written) or self.years_from != YEARS_FROM else {}
        form |= {"clock": self.clock} if self.clock != 24 else {}
        form |= {"time": self.time} if self.time != " hh:mm:ss" else {}
        return {"period": self.period, "start": self.start, "end": self.end, **form}


def is_short(form: DateForm) -> bool:
    """Whether a form of dates has years of two digits.

    >>> is_short("dd.mm.yy"), is_short("yyyy-mm-dd")
    (True, False)
    """
    return "yyyy" not in form


def strptime_form(form: DateForm) -> str:
    """A form of dates as ``strptime`` and ``strftime`` have it.

    >>> strptime_form("dd.mm.yy"), strptime_form("month dd, yyyy")
    ('%d.%m.%y', '%B %d, %Y')
    """
    codes = {"yyyy": "%Y", "yy": "%y", "month": "%B", "mon": "%b", "mm": "%m", "dd": "%d"}
    return re.sub("|".join(codes), lambda part: codes[part[0]], form)


def check_years_from(year: Any) -> None:
    """Refuse what is not the first of a hundred years."""
    if not isinstance(year, int) or isinstance(year, bool) or not 1 <= year <= 9899:
        raise Error(f"years_from is the first of the hundred years that are meant, such as 1930, not {year!r:.60}.")


def is_stored(name: Any) -> bool:
    """Whether a text names a type of Arrow that synthetic records can be stored as.

    >>> is_stored("uint8"), is_stored("timestamp[us, tz=Europe/Berlin]"), is_stored("list<int8>")
    (True, True, False)
    """
    return isinstance(name, str) and STORED.fullmatch(name) is not None


def check_marks(marks: Any) -> tuple[str, ...]:
    """Texts that stand for missing values, refused unless each is one that a record may hold.

    >>> check_marks(["-", "n/a"])
    ('-', 'n/a')
    """
    if isinstance(marks, str) or not isinstance(marks, Iterable):
        raise Error(f'expected a list of texts such as ["-", "n/a"] for missing values, not {marks!r}.')
    found = tuple(marks)
    if not all(isinstance(mark, str) and mark and "\x00" not in mark for mark in found):
        raise Error("what stands for a missing value is a text that is not empty; an empty one does so anyway.")
    if any("\ud800" <= letter <= "\udfff" for mark in found for letter in mark) or len(set(found)) < len(found):
        raise Error("what stands for a missing value is a text of Unicode, listed once.")
    return found


def rule_from_json(item: Mapping[str, Any]) -> Attribute:
    """The rule of an attribute, from its JSON."""
    kinds: dict[str, type[Attribute]] = {kind.kind: kind for kind in (Labels, Cuts, Dates)}
    arguments = {"labels": "values", "cuts": "points"}
    made = kinds[item["kind"]]
    return made(**{arguments.get(key, key): value for key, value in item.items() if key not in ("name", "kind")})


def _write_moment(moment: datetime.datetime) -> str:
    return moment.isoformat() if moment.time() != datetime.time() else str(moment.date())


def _is_finite(point: Any) -> bool:
    try:
        return not isinstance(point, bool | str | bytes) and isfinite(point)
    except (TypeError, ValueError, OverflowError):  # no number, or a whole number that no float can hold
        return False


def _integer(value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        raise Error(f"labels are texts or whole numbers, not {value!r}.") from None
