"""Every type of column meets every kind of rule with its extreme values: no count fails, and none is wrong."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import extremes

from quietfield.curator.counting import count
from quietfield.privacy.units import Rows
from quietfield.schema import Attribute, Cuts, Dates, Labels, Schema


def found(source: Any, rule: Attribute) -> list[int]:
    schema = Schema({"a": rule})
    return count(source, schema, extremes.asked_of(schema, Rows(1)), Rows(1)).tables[0].tolist()


@pytest.mark.slow
def test_arrow() -> None:
    checks = extremes.Checks()
    for name, (array, values) in extremes.arrow_columns().items():
        checks.check(name, lambda array=array: pa.table({"a": array}), values, extremes.FEW[:1])  # type: ignore[misc]
    checks.end(55, 31_000)


@pytest.mark.parametrize("kind", ["int8", "int16", "uint8", "int32", "uint64"])
@pytest.mark.parametrize("run", [(-50, 101), (-200, 100), (100, 301), (-40_000, 40_001)])
def test_labels_wider_than_the_column(kind: str, run: tuple[int, int]) -> None:
    values = [value for value in (-128, -1, 0, 99, 100, 127, 200) if value >= 0 or kind[0] == "i"]
    values = [value for value in values if value < 128 or kind != "int8"]
    expected = [0] * (run[1] - run[0])
    for value in values:
        if value in range(*run):
            expected[value - run[0]] += 1
    for source in (pa.table({"a": pa.array(values, kind)}), {"a": np.array(values, kind)}):
        assert found(source, Labels(range(*run))) == expected


def test_cut_points_are_the_doubles_that_python_reads() -> None:
    # As a decimal, DuckDB rounds these to a double above or below, and the point itself falls into another bin.
    points = [0.9353088160706597, 0.22095507847245166, 0.00023072704267122258, 0.9852887080890421]
    for point in points:
        for source in ({"a": np.array([point])}, {"a": [repr(point)]}):
            assert found(source, Cuts([point])) == [0, 1]


def test_an_unknown_code_that_the_array_s_type_does_not_hold() -> None:
    rule = Labels([str(i) for i in range(300)], unknown="?")
    for kind in (np.int8, np.int16, np.int64):
        table = found(np.array([[0], [44], [-1]], kind), rule)
        assert (table[0], table[44], table[300]) == (1, 1, 1)


def test_days_that_arrow_cannot_hold_are_unknown() -> None:
    days = np.array([0, 2**32, 2**62, -(2**62), np.datetime64("NaT").astype(np.int64)], np.int64).view("M8[D]")
    assert found({"a": days}, Dates("day", "1970-01-01", "1970-01-02", null="N", unknown="U")) == [1, 1, 3]


def test_decimals_are_whole_by_all_their_digits() -> None:
    values = pa.array(["1.000000000000000000", "1.000000000000000001", "10000000000000000"]).cast(pa.decimal128(38, 18))
    assert found({"a": values}, Labels([1, 10**16], unknown=0)) == [1, 1, 1]


def test_decimals_of_a_negative_scale_are_refused_by_their_type() -> None:
    from quietfield.curator.counting.sources import check_columns
    from quietfield.errors import Error

    with pytest.raises(Error, match="column 'a' holds decimal"):
        check_columns(pa.table({"a": pa.nulls(1, pa.decimal128(20, -3))}), ["a"])
