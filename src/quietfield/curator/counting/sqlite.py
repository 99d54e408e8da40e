"""Functions that SQLite lacks, in Python: a database in a file of this machine calls them for each of its values."""

import hashlib
import re
from datetime import UTC, datetime
from typing import Any, get_args

from quietfield.curator.counting.coding import FIRST, LAST, MONTHS, TIME, date_pattern
from quietfield.schema import DateForm, is_short

#: As what SQLite, whose types are hints, keeps the values of a kind.
TYPES = {"text": ["text"], "integer": ["integer"], "number": ["integer", "real"], "boolean": ["integer"]}
_FORMS = {form: date_pattern(form) for form in get_args(DateForm) if form != "yyyy-mm-dd"}


def add_functions(connection: Any) -> None:
    """Give a connection of :mod:`sqlite3` the functions ``md5`` and ``quietfield_seconds``."""
    connection.create_function("md5", 1, hash_text, deterministic=True)
    connection.create_function("quietfield_seconds", 3, read_seconds, deterministic=True)


def hash_text(text: str | None) -> str | None:
    """The MD5 of a text, as 32 hexadecimal digits."""
    return None if text is None else hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def read_seconds(text: str | None, form: str, years_from: int) -> int | None:
    """The seconds since 1970 UTC that a text tells, by the rules of ``coding.py``; None where it tells none.

    >>> read_seconds("1970-01-01T01:00:59.9+01:00", "yyyy-mm-dd", 1969), read_seconds("2.1.70", "dd.mm.yy", 1969)
    (59, 86400)
    """
    if not isinstance(text, str):
        return None
    iso = text if form == "yyyy-mm-dd" else _write_iso(text, form, years_from)
    if iso is None or not re.fullmatch(TIME, iso):
        return None
    whole = re.sub(r"\.[0-9]+", "", iso)  # a part of a second is cut off
    moment = datetime.fromisoformat(whole)
    ahead = moment.utcoffset()
    seconds = int(moment.replace(tzinfo=UTC).timestamp()) - (0 if ahead is None else int(ahead.total_seconds()))
    return seconds if FIRST <= seconds <= LAST else None


def _write_iso(text: str, form: str, years_from: int) -> str | None:
    """A text of another form than ISO's in that; None where it is none."""
    pattern, order = _FORMS[form]
    match = re.fullmatch(pattern, text)
    if match is None:
        return None
    year, month, day = (match[1 + order.index(part)] for part in "ymd")
    if is_short(form):  # type: ignore[arg-type]
        century, begins = divmod(years_from, 100)
        year = f"{century + (int(year) < begins):02}{year}"
    if "mon" in form:
        month = str(1 + next(i for i, name in enumerate(MONTHS) if name[:3] == month[:3].lower()))
    hour, rest, half, half_rest, letter = match.groups()[3:8]
    clock = ""
    if hour is not None:
        clock = f" {int(hour):02}{rest}"
    elif half is not None:
        clock = f" {int(half) % 12 + (12 if letter in 'Pp' else 0):02}{half_rest}"
    return f"{year}-{int(month):02}-{int(day):02}{clock}"
