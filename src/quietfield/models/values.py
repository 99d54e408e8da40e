"""From codes to values: the columns of the source again, each value drawn uniformly within its cell.

A code stands for a cell: a label, the numbers between two cut points, the days or seconds of a period. What a cell
holds beyond that no release knows, so the rules are these (:func:`describe_rule`):

* a label is itself, in the type of its column where every label can be written so;
* numbers are uniform between the cut points: whole ones in columns of integers, and where no type is known and all cut
  points are whole; else with the decimal places that the schema says, or those of the cut points, so that a bin from 0
  to 0.01 holds zeros, and of money with cents;
* an open first or last bin reaches to the schema's public bound; without one it gives the number next to its limit;
* no number lies in one of the schema's gaps, as between -99, which stands for something else, and the least age;
* dates are uniform over the days of a period, times over its seconds;
* where the schema says as which type of Arrow the source stored a column, that type is kept, if it holds all values;
* what was missing is missing; an unknown value is its label in columns of text, also where it shares that with missing
  values, and missing in others.
"""

import os
import re
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor, inf, log10, nextafter
from typing import TYPE_CHECKING, Any

import numpy as np

from quietfield.domain import Domain, Label
from quietfield.errors import Error
from quietfield.models.frames import free_name
from quietfield.models.sampling import CHUNK
from quietfield.schema import Attribute, ColumnType, Cuts, Dates, Labels, NumberForm, Schema, is_short, strptime_form
from quietfield.text import join_names, type_name

if TYPE_CHECKING:
    import pyarrow as pa

DAY = 86_400
#: Whole numbers are drawn below this, where floats can tell them apart.
_WHOLE = 2**52
#: What makes the random numbers within cells others than those that drew the cells.
_STREAM = 1


def check_schema(schema: Schema, domain: Domain) -> None:
    """Refuse a schema of other attributes or labels than those of a domain."""
    if not isinstance(schema, Schema):
        raise Error(f"a schema is a Schema (see qf.Schema.load), not {type_name(schema)}.")
    names = sorted(set(schema) ^ set(domain))
    if names or (names := [name for name in domain if tuple(domain.labels(name)) != schema[name].labels]):
        raise Error(f"this schema has other attributes or labels than the model: {join_names(names)}.")


def draw_values(schema: Schema, codes: Mapping[str, np.ndarray], seed: int | None = None) -> "pa.Table":
    """Records as their source would hold them: its columns, in the order of the schema, with types.

    Args:
        schema: How columns became attributes.
        codes: One array of codes per attribute.
        seed: The same seed gives the same values.

    Returns:
        A table with one column per attribute. Attributes that were read from one column keep their own names.

    >>> schema = Schema({"age": Cuts([18, 65], column="AGE", least=0), "sex": Labels(["f", "m"], null="not said")})
    >>> table = draw_values(schema, {"age": np.array([0, 2]), "sex": np.array([1, 2])}, seed=0)
    >>> [str(field.type) for field in table.schema], table["AGE"][1].as_py(), table["sex"].to_pylist()
    (['int64', 'dictionary<values=string, indices=int32, ordered=0>'], 65, ['m', None])
    """
    import pyarrow as pa

    columns = record_columns(schema)
    starts = range(0, max((len(column) for column in codes.values()), default=0) or 1, CHUNK)
    root = np.random.SeedSequence(None if seed is None else [seed, _STREAM])

    def draw(start: int, sequence: np.random.SeedSequence) -> "pa.RecordBatch":
        random = np.random.Generator(np.random.SFC64(sequence))
        arrays = [_draw(schema[name], codes[name][start : start + CHUNK], random) for name in columns]
        return pa.record_batch(arrays, list(columns.values()))

    with ThreadPoolExecutor(min(len(starts), os.cpu_count() or 1)) as pool:
        return pa.Table.from_batches(pool.map(draw, starts, root.spawn(len(starts))))


def record_columns(schema: Schema) -> dict[str, str]:
    """The column that each attribute is written to: its own again, unless several were read from one.

    >>> record_columns(Schema({"age": Cuts([18], column="AGE"), "old": Cuts([65], column="AGE"), "sex": ["f", "m"]}))
    {'age': 'age', 'old': 'old', 'sex': 'sex'}
    """
    readers = Counter(schema.column(name) for name in schema)
    taken = [column for column, many in readers.items() if many == 1]
    found: dict[str, str] = {}
    for name in schema:
        column = schema.column(name)
        found[name] = column if readers[column] == 1 else free_name(name, [*taken, *found.values()])
    return found


def column_type(rule: Attribute) -> ColumnType:
    """What the column of an attribute holds in synthetic records.

    The schema's type, where the values can be written so; else what the rule reads. A column that keeps unknown values
    under a label of its own is one of text, unless the schema says otherwise.

    >>> [column_type(rule) for rule in (Cuts([18, 65]), Cuts([1.5, 1.8]), Cuts([18], unknown="?"), Labels([0, 1]))]
    ['integer', 'number', 'text', 'integer']
    """
    if isinstance(rule, Labels):
        read: ColumnType = "text" if isinstance(rule.values[0], str) else "integer"
        wanted = rule.type or read
        return wanted if all(_spell(label, wanted) is not None for label in rule.values) else read
    if rule.type == "text" or (rule.type is None and _unknown_label(rule) is not None):
        return "text"
    if isinstance(rule, Cuts):
        return "number" if _whole_bins(rule) is None else "integer"
    assert isinstance(rule, Dates)
    return "time" if _day_periods(rule) is None else "date"


def describe_rule(rule: Attribute) -> str:
    """How the values of a column are drawn, in words.

    >>> describe_rule(Cuts([18, 65], least=0, null="not said"))
    'integer: uniform within each bin; the first begins at 0, the last gives its limit; "not said" is missing'
    """
    said = f"{column_type(rule)}: "
    if isinstance(rule, Labels):
        said += "the labels"
    elif isinstance(rule, Cuts):
        said += "uniform within each bin; the first "
        said += "gives the number below its limit" if rule.least is None else f"begins at {rule.least}"
        said += f", the last {'gives its limit' if rule.most is None else f'ends at {rule.most}'}"
        if rule.gaps:
            said += f"; none is drawn between {' or '.join(f'{low} and {high}' for low, high in rule.gaps[:3])}"
            said += " and so on" if len(rule.gaps) > 3 else ""
    elif isinstance(rule, Dates):
        said += f"uniform over the {'seconds' if _day_periods(rule) is None else 'days'} of each {rule.period}"
    if written := describe_form(rule):
        said += f"; in CSV {written}"
    label = _unknown_label(rule)
    if rule.null_code is not None and rule.null_code >= len(rule.own) and rule.null != label:
        said += f'; "{rule.null}" is missing'
    if label is not None:
        said += f'; "{label}" is {"missing" if _spell(label, column_type(rule)) is None else "written so"}'
    return said


def describe_form(rule: Attribute) -> str:
    """How texts write the numbers or dates of a rule, in words; an empty text where that is the usual way.

    >>> describe_form(Cuts([18], thousands=",", before="$")), describe_form(Cuts([18]))
    ('written like $1,234.5', '')
    >>> describe_form(Dates("year", "2000-01-01", "2010-01-01", written="dd/mm/yy", years_from=1930))
    'written dd/mm/yy, of the years 1930 to 2029'
    >>> describe_form(Dates("day", "2024-01-15", "2024-01-16", type="time", time="Thh:mm"))
    'written yyyy-mm-ddThh:mm'
    """
    if isinstance(rule, Cuts) and rule.form not in (NumberForm(), NumberForm(places=rule.places, zeros=False)):
        form, number = rule.form, 1234 if rule.type == "integer" else 1234.5
        return f"written like {_write_number(form, number)}"
    if isinstance(rule, Dates) and (rule.written, rule.time) != ("yyyy-mm-dd", " hh:mm:ss"):
        years = f", of the years {rule.years_from} to {rule.years_from + 99}" if is_short(rule.written) else ""
        clock = rule.time if rule.time != " hh:mm:ss" else ""
        return f"written {rule.written}{clock}{years}{', with AM or PM' if rule.clock == 12 else ''}"
    return ""


def _unknown_label(rule: Attribute) -> Label | None:
    """The label of unknown values, where there is one of their own; of texts, also one that they share with nulls."""
    code = rule.unknown_code
    shared = code == rule.null_code and not (isinstance(rule, Labels) and isinstance(rule.values[0], str))
    return None if code is None or code < len(rule.own) or shared else rule.unknown


def _spell(label: Label, kind: ColumnType) -> Any:
    """A label as a value of some type, which is read as that label again; None where there is none."""
    text = str(label)
    if kind == "text":
        return text
    if kind == "boolean":
        return {"true": True, "false": False}.get(text)
    try:
        if kind == "date":
            return found if (found := date.fromisoformat(text)).isoformat() == text else None
        number = int(text)
    except ValueError:
        return None
    if kind not in ("integer", "number") or str(number) != text:
        return None
    return number if kind == "integer" else float(number) if abs(number) < _WHOLE else None


def _draw(rule: Attribute, codes: np.ndarray, random: np.random.Generator) -> "pa.Array":
    """The values of a column, in the type that its source had where that holds all of them."""
    array, stored = _draw_plain(rule, codes, random), _stored_type(rule)
    if stored is None or stored == array.type:
        return array
    if isinstance(rule, Cuts) and str(stored) == "float":
        bins = _single_bins(rule)
        assert bins is not None
        return _clip_single(array, codes, *bins)
    return write_column(rule, array).cast(stored) if "string" in str(stored) else array.cast(stored)


def _stored_type(rule: Attribute) -> "pa.DataType | None":
    """The type of Arrow that the source had, where it holds all values of a rule; else None."""
    import pyarrow as pa

    name, kind = rule.stored or "", column_type(rule)
    if kind == "text" or name in ("string", "large_string"):  # whatever they spell
        return {"string": pa.string(), "large_string": pa.large_string()}.get(name)
    listed = rule.labels if isinstance(rule, Labels) else ()
    labels = [number for label in listed if (number := _spell(label, "integer")) is not None]
    if kind == "integer" and re.fullmatch("u?int[0-9]+", name):
        bins = _whole_bins(rule) if isinstance(rule, Cuts) else (np.array(labels), np.array(labels))
        assert bins is not None
        limits = np.iinfo(name)
        return pa.type_for_alias(name) if limits.min <= bins[0].min() and bins[1].max() <= limits.max else None
    if kind == "number" and name == "float":
        fits = _single_bins(rule) is not None if isinstance(rule, Cuts) else max(map(abs, labels)) < 2**24
        return pa.float32() if fits else None
    if kind == "number" and (digits := _decimal_type(rule)) is not None:
        whole = 10 ** (digits[0] - digits[1])
        fits = _decimal_bins(rule) is not None if isinstance(rule, Cuts) else max(map(abs, labels)) < whole
        return pa.decimal128(*digits) if fits else None
    if kind == "date" and name == "date64[ms]":
        return pa.date64()
    if kind == "time" and (match := re.fullmatch(r"timestamp\[(s|ms|us|ns)(?:, tz=(.*))?\]", name)):
        assert isinstance(rule, Dates)
        fits = match[1] != "ns" or max(map(abs, rule.limits)) < 2**63 // 10**9
        return pa.timestamp(match[1], match[2]) if fits else None
    return None


def _decimal_type(rule: Attribute) -> tuple[int, int] | None:
    """How many digits the source's decimals have, and how many of them are places; None where it has none, or many."""
    match = re.fullmatch(r"decimal128\(([0-9]+), ([0-6])\)", rule.stored or "")
    return None if match is None else (int(match[1]), int(match[2]))


def _single_bins(rule: Cuts) -> tuple[np.ndarray, np.ndarray] | None:
    """The first and last float of 32 bits in each bin, or None where a bin has none."""
    lows = [float(low) for low, _ in rule.bins]
    highs = [float(high) for _, high in rule.bins]
    closed = [*(high != point for high, point in zip(highs, rule.points, strict=False)), rule.most is not None]
    highs = [nextafter(high, inf) if end else high for high, end in zip(highs, closed, strict=True)]
    with np.errstate(over="ignore"):
        firsts, lasts = (np.array(ends).astype(np.float32) for ends in (lows, highs))
    firsts = np.where(firsts < lows, np.nextafter(firsts, np.float32(inf)), firsts)
    lasts = np.where(lasts >= highs, np.nextafter(lasts, np.float32(-inf)), lasts)
    return (firsts, lasts) if (firsts <= lasts).all() else None


def _clip_single(array: "pa.Array", codes: np.ndarray, firsts: np.ndarray, lasts: np.ndarray) -> "pa.Array":
    """Numbers as floats of 32 bits that stay in their bins."""
    import pyarrow as pa

    places = np.minimum(codes, len(firsts) - 1)  # those beside the bins are missing
    with np.errstate(over="ignore"):
        single = array.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float32)
    drawn = np.clip(single, firsts.take(places), lasts.take(places))
    return pa.array(drawn, mask=array.is_null().to_numpy(zero_copy_only=False))


def _draw_plain(rule: Attribute, codes: np.ndarray, random: np.random.Generator) -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, label = column_type(rule), _unknown_label(rule)
    if isinstance(rule, Labels):
        values = [_spell(one, kind) for one in rule.values]
        for code in range(len(values), len(rule.labels)):
            values.append(None if code != rule.unknown_code or label is None else _spell(label, kind))
        if kind != "text":
            kinds = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "date": pa.date32()}
            return pa.array(values, kinds[kind]).take(pa.array(codes))
        missing = np.array([value is None for value in values])
        places = pa.array(codes.astype(np.int32), mask=missing[codes] if missing.any() else None)
        return pa.DictionaryArray.from_arrays(places, pa.array([value or "" for value in values], pa.string()))
    beside = len(rule.labels) - len(rule.own)
    outside = codes >= len(rule.own) if beside else None
    uniform = random.random(len(codes))
    if isinstance(rule, Cuts):
        whole = _whole_bins(rule)
        array = pa.array(
            _draw_numbers(rule, codes, uniform) if whole is None else _draw_whole(*whole, beside, codes, uniform),
            mask=outside,
        )
    else:
        assert isinstance(rule, Dates)
        days, limits = _day_periods(rule), np.array(rule.limits)
        if days is None:
            array = pa.array(_draw_whole(limits[:-1], limits[1:] - 1, beside, codes, uniform), mask=outside)
            array = array.view(pa.timestamp("s"))
        else:
            drawn = _draw_whole(*days, beside, codes, uniform).astype(np.int32)
            array = pa.array(drawn, mask=outside).view(pa.date32())
    if kind != "text":
        return array
    array = write_column(rule, array).cast(pa.string())
    return array if label is None else pc.if_else(pa.array(codes == rule.unknown_code), str(label), array)


def write_column(rule: Attribute, array: Any) -> Any:
    """Numbers and dates as texts where their rule reads them in a form of its own; all others as they are.

    >>> import pyarrow as pa
    >>> write_column(Cuts([0.5], decimal=","), pa.array([0.25, None])).to_pylist()
    ['0,25', None]
    >>> write_column(Dates("day", "2024-01-30", "2024-02-01", written="dd.mm.yyyy"), pa.array([date(2024, 1, 31)]))[0]
    <pyarrow.StringScalar: '31.01.2024'>
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    # Decimal places are in the numbers themselves: without zeros after them no text is needed.
    if isinstance(rule, Cuts) and rule.form not in (NumberForm(), NumberForm(places=rule.places, zeros=False)):
        kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
        return _write_numbers(rule.form, array) if any(is_kind(array.type) for is_kind in kinds) else array
    if isinstance(rule, Dates) and describe_form(rule) and pa.types.is_temporal(array.type):
        form, clock = strptime_form(rule.written), rule.time.replace("mm", "%M").replace("ss", "%S")
        clock = clock.replace("hh", "%H") if rule.clock == 24 else f"{clock.replace('hh', '%I')} %p"
        return pc.strftime(array, form if pa.types.is_date(array.type) else f"{form}{clock}")
    return array


def _write_numbers(form: NumberForm, array: Any) -> Any:
    """Numbers as texts in a form; thousands are apart where it says by what, and what is missing stays so.

    >>> import pyarrow as pa
    >>> _write_numbers(NumberForm(",", " ", after=" €"), pa.array([-1234567, 12, None])).to_pylist()
    ['-1 234 567 €', '12 €', None]
    >>> _write_numbers(NumberForm(places=2), pa.array([12.5, 3.0])).to_pylist()
    ['12.50', '3.00']
    """
    import pyarrow as pa

    return pa.array(
        [None if number is None else _write_number(form, number) for number in array.to_pylist()], pa.string()
    )


def _write_number(form: NumberForm, number: Any) -> str:
    sign, size = "-" if number < 0 else "", abs(number)
    digits = np.format_float_positional(size, trim="-") if isinstance(size, float) else str(size)  # never 1e-05
    whole, _, rest = digits.partition(".")
    if form.thousands is not None:
        whole = f"{int(whole):,}".replace(",", form.thousands)
    rest = rest.ljust(form.places or 0, "0") if form.zeros else rest
    return f"{sign}{form.before}{whole}{form.decimal + rest if rest else ''}{form.after}"


def _whole_bins(rule: Cuts) -> tuple[np.ndarray, np.ndarray] | None:
    """The first and last whole number of each bin, or None where the numbers are not whole, or a bin has none."""
    points = rule.points
    if rule.type is None and rule.places:
        return None
    if rule.type == "number" or (rule.type != "integer" and any(point != int(point) for point in points)):
        return None
    below, above = ceil(points[0]) - 1, ceil(points[-1])
    firsts = [below if rule.least is None else ceil(rule.least), *(ceil(low) for low, _ in rule.bins[1:])]
    ends = zip(rule.bins, points, strict=False)
    lasts = [ceil(high) - 1 if high == point else floor(high) for (_, high), point in ends]
    lasts.append(above if rule.most is None else floor(rule.most))
    possible = all(-_WHOLE < first <= last < _WHOLE for first, last in zip(firsts, lasts, strict=True))
    return (np.array(firsts), np.array(lasts)) if possible else None


def _decimal_bins(rule: Cuts) -> tuple[np.ndarray, np.ndarray, int] | None:
    """The first and last multiple of a decimal place in each bin, and the place; None where no cut point has any.

    The place is that of the source's decimals, if it has these; else the rule's own, or that of the cut points.
    """
    points = [Fraction(repr(float(point))) for point in rule.points]
    exact = [*points, *(Fraction(repr(float(end))) for gap in rule.gaps for end in gap)]
    digits = _decimal_type(rule)
    places = next((n for n in range(1, 7) if all((10**n * point).denominator == 1 for point in exact)), None)
    if digits is not None or rule.places is not None:
        places = digits[1] if digits is not None else rule.places
    elif places is None or all(point.denominator == 1 for point in exact):
        return None
    assert places is not None
    least, most = (None if end is None else Fraction(repr(float(end))) for end in (rule.least, rule.most))
    scale, steps = 10**places, [ceil(10**places * point) for point in points]
    lows = [Fraction(repr(float(low))) for low, _ in rule.bins[1:]]
    highs = [Fraction(repr(float(high))) for _, high in rule.bins[:-1]]
    firsts = [steps[0] - 1 if least is None else ceil(scale * least), *(ceil(scale * low) for low in lows)]
    ends = zip(highs, points, strict=True)
    lasts = [ceil(scale * high) - 1 if high == point else floor(scale * high) for high, point in ends]
    lasts.append(steps[-1] if most is None else floor(scale * most))
    limit = _WHOLE if digits is None else min(_WHOLE, 10 ** digits[0])
    possible = all(-limit < first <= last < limit for first, last in zip(firsts, lasts, strict=True))
    return (np.array(firsts), np.array(lasts), places) if possible else None


def _day_periods(rule: Dates) -> tuple[np.ndarray, np.ndarray] | None:
    """The first and last day of each period, counted from 1970, or None where these are times, or one has no day."""
    limits = np.array(rule.limits)
    if rule.type == "time" or (rule.type != "date" and (limits % DAY).any()):
        return None
    begins = -(-limits // DAY)
    return (begins[:-1], begins[1:] - 1) if (np.diff(begins) > 0).all() else None


def _draw_whole(
    firsts: np.ndarray, lasts: np.ndarray, beside: int, codes: np.ndarray, uniform: np.ndarray
) -> np.ndarray:
    """Whole numbers, uniform from the first to the last of their cells; anything for the labels beside these."""
    counts = np.append(lasts - firsts + 1.0, np.ones(beside))
    return np.append(firsts, np.zeros(beside, firsts.dtype)).take(codes) + (counts.take(codes) * uniform).astype(
        np.int64
    )


def _draw_numbers(rule: Cuts, codes: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Numbers, uniform within their bins, with the decimal places that the rule says, or those of the cut points.

    Where all of these are whole, rounded to about a thousandth of the narrowest bin's width; money, to cents.
    """
    beside = len(rule.labels) - len(rule.own)
    if (grid := _decimal_bins(rule)) is not None:
        firsts, lasts, places = grid
        return _draw_whole(firsts, lasts, beside, codes, uniform) / 10.0**places
    points = [float(point) for point in rule.points]
    narrow = min([1.0, *(b - a for a, b in pairwise(points))])
    digits = min(3 - floor(log10(narrow)), 15 if {rule.before.strip(), rule.after.strip()}.isdisjoint("$€£¥") else 2)
    below = min(round(points[0] - 10.0**-digits, digits), nextafter(points[0], -inf))
    lows, highs = ([float(end) for end in ends] for ends in zip(*rule.bins, strict=True))
    if rule.least is None:
        lows[0] = highs[0] = below
    if rule.most is None:
        highs[-1] = points[-1]
    low, high = (np.array([*ends, *[0.0] * beside]).take(codes) for ends in (lows, highs))
    values = high * uniform
    values += low * (1 - uniform)
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers so large that there is nothing to round
        rounded = np.round(values, digits)
    strayed = np.flatnonzero(~((low <= rounded) & (rounded < high)))  # by rounding: these stay as they were drawn
    low, high = low[strayed], high[strayed]
    rounded[strayed] = np.clip(values[strayed], low, np.nextafter(high, low))
    return rounded
