"""Schema: rules, labels, JSON, and errors that say what to write instead."""

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quietfield.errors import Error, FileError
from quietfield.models.values import describe_rule, draw_values
from quietfield.schema import Cuts, Dates, Labels, Schema, starter

POLICY = st.sampled_from(["drop", "none", "other"])
SHARED = st.fixed_dictionaries({"column": st.none() | st.text(min_size=1), "null": POLICY, "unknown": POLICY})
RULES = st.one_of(
    st.builds(
        lambda values, shared: Labels(tuple(values), **shared),
        st.lists(
            st.text(min_size=1).filter(lambda t: t not in ("drop", "FILL IN") and "\0" not in t),
            min_size=1,
            unique=True,
        ),
        SHARED,
    ),
    st.builds(
        lambda points, shared: Cuts(tuple(sorted(points)), **shared),
        st.sets(st.integers(-100, 100) | st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=6),
        SHARED,
    ),
    st.builds(
        lambda period, start, weeks, shared: Dates(
            period, str(start), str(start + datetime.timedelta(days=7 * weeks)), **shared
        ),
        st.sampled_from(["week", "day", "hour"]),
        st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)),
        st.integers(1, 60),
        SHARED,
    ),
    st.builds(
        lambda period, year, years, shared: Dates(period, f"{year}-01-01", f"{year + years}-01-01", **shared),
        st.sampled_from(["year", "month"]),
        st.integers(1900, 2100),
        st.integers(1, 30),
        SHARED,
    ),
)


@given(st.dictionaries(st.text(min_size=1), RULES, min_size=1, max_size=4))
def test_json_gives_the_same_schema(attributes: dict[str, Any]) -> None:
    schema = Schema(attributes)
    again = Schema.from_json(json.loads(json.dumps(schema.to_json())))
    assert again == schema
    assert again.domain == schema.domain
    assert hash(again) == hash(schema)


def test_a_file_and_back(tmp_path: Path) -> None:
    schema = Schema(
        {"age": Cuts([18, 40, 65]), "sex": ["f", "m"], "code": 3}, impossible=[{"sex": "m", "code": [1, 2]}]
    )
    schema.save(tmp_path / "schema.json")
    again = Schema.load(tmp_path / "schema.json")
    assert again == schema
    assert again.domain.impossible == schema.domain.impossible != ()
    assert again["age"].labels == ("<18", "18-40", "40-65", "65+")
    assert again.domain.labels("code") == (0, 1, 2)


def test_periods() -> None:
    assert Dates("year", "2023-01-01", "2025-01-01").labels == ("2023", "2024")
    assert Dates("month", "2024-12-01", "2025-02-01").labels == ("2024-12", "2025-01")
    assert Dates("week", "2024-01-01", "2024-01-15").labels == ("2024-01-01", "2024-01-08")
    assert Dates("hour", "2024-01-01", "2024-01-01T02:00").labels == ("2024-01-01 00:00", "2024-01-01 01:00")
    assert Dates("day", "1970-01-02", "1970-01-04").limits == (86400, 172800, 259200)


@pytest.mark.parametrize(
    ("period", "start", "end", "right"),
    [
        ("month", "2029-04-01", "2029-05-15", "end='2029-05-15' .* write end='2029-05-01' or end='2029-06-01'"),
        ("month", "2029-04-10", "2029-06-01", "start='2029-04-10' .* write start='2029-04-01' or start='2029-05-01'"),
        ("year", "2023-05-01", "2025-01-01", "start='2023-05-01' .* start='2023-01-01' or start='2024-01-01'"),
        ("year", "2023-01-01", "2023-07-01", r"inside a year, .* write end='2024-01-01'\."),
        ("week", "2024-01-01", "2024-01-09", "end='2024-01-08' or end='2024-01-15'"),
        ("day", "2024-01-01", "2024-01-02T12:00", "end='2024-01-02' or end='2024-01-03'"),
        ("hour", "2024-01-01", "2024-01-01T01:30", "end='2024-01-01T01:00:00' or end='2024-01-01T02:00:00'"),
        ("day", "2024-01-01T00:00:00.500000", "2024-01-03T00:00:00.500000", "start='2024-01-01' or"),
        ("year", "2024-01-01", "9999-12-31", "after the year 9999"),
    ],
)
def test_no_day_outside_start_and_end_is_counted(period: Any, start: str, end: str, right: str) -> None:
    with pytest.raises(Error, match=right):
        Dates(period, start, end)


def test_labels_of_nulls_and_unknown_values_are_appended_once() -> None:
    assert Labels(["f", "m"], null="none", unknown="none").labels == ("f", "m", "none")
    both = Labels(["f", "m"], null="none", unknown="m")
    assert (both.labels, both.null_code, both.unknown_code) == (("f", "m", "none"), 2, 1)
    assert Cuts([1]).null_code is None
    assert Schema({"a": Labels(["x"], null="n", unknown="u"), "b": Labels(["x"], null="n")}).drops == ("b",)


def test_cut_points_keep_their_digits() -> None:
    assert Cuts([0.1, 1234567, 2.5e9]).labels == ("<0.1", "0.1-1234567", "1234567-2500000000", "2500000000+")


def test_a_starter_names_what_is_to_be_filled_in(tmp_path: Path) -> None:
    made = starter([("name", "text"), ("size", "number"), ("seen", "time"), ("n", "integer")], "the file's own types")
    (tmp_path / "schema.json").write_text(json.dumps(made))
    with pytest.raises(FileError, match="'name', 'size', 'seen', 'n'"):
        Schema.load(tmp_path / "schema.json")
    made["attributes"] = [{**made["attributes"][0], "labels": ["FILL IN"]}]
    with pytest.raises(FileError, match="filled in for 'name'"):
        Schema.from_json(made)
    made["attributes"][0]["labels"] = ["a", "b"]
    assert Schema.from_json(made).domain.shape == (2,)


def attribute(**content: Any) -> dict[str, Any]:
    return {"format": "quietfield-schema", "version": 1, "attributes": [{"name": "x", **content}]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "not a schema"),
        ({"format": "quietfield-domain"}, "not a schema"),
        ({"format": "quietfield-schema", "version": 7}, "version 7"),
        (attribute(kind="tags", labels=["a"]), """attribute 'x': kind is "labels", "cuts" or "dates", not "tags\"."""),
        (attribute(kind="labels"), "attribute 'x': labels is missing"),
        (attribute(kind="labels", labels=[1.5]), "attribute 'x'"),
        (attribute(kind="labels", labels=["a", 1]), "'x': labels must be all strings or all integers"),
        (attribute(kind="labels", labels=["a", ""]), "'x': an empty text is a null"),
        (
            attribute(kind="labels", labels=["a"], lables=["b"]),
            "'x': 'lables' is not known here .did you mean 'labels'",
        ),
        (attribute(kind="cuts", cuts=[2, 1]), "'x': cut points must increase"),
        (attribute(kind="dates", period="decade", start="2024-01-01", end="2025-01-01"), "attribute 'x': period is"),
        (attribute(kind="dates", period="day", start="May", end="2025-01-01"), "'x': start='May' is not a date"),
        (attribute(kind="dates", period="day", start="2025-01-01", end="2025-01-01"), "'x': there is no day"),
    ],
)
def test_a_wrong_file_is_explained(data: Any, message: str) -> None:
    with pytest.raises(Error, match=message):
        Schema.from_json(data)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Schema({}), "maps names"),
        (lambda: Schema({"x": "abc"}), "attribute 'x': expected Labels"),
        (lambda: Schema({"x": [None]}), "attribute 'x': labels are texts or whole numbers"),
        (lambda: Labels("abc"), "expected a list"),  # type: ignore[arg-type]
        (lambda: Labels(["drop"]), "meaning of its own"),
        (lambda: Labels(["FILL IN"]), "meaning of its own"),
        (lambda: Cuts([]), "one or more finite"),
        (lambda: Cuts([float("nan")]), "one or more finite"),
        (lambda: Dates("day", "2024-01-01T00:00+01:00", "2025-01-01"), "time zone"),
        (lambda: Dates("hour", "1900-01-01", "2100-01-01"), "longer period"),
        (lambda: Schema({"x": ["a"]})["y"], "'y' is not an attribute"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, message: str) -> None:
    with pytest.raises(Error, match=message):
        make()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["f", "m", "f"], "'f' is listed more than once"),
        ([1, 2, 1], "1 is listed more than once"),
        ({"f", "m"}, "a list of labels"),
        (frozenset({1}), "a list of labels"),
        ({"f": 1, "m": 2}, "a list of labels"),
        ({"f": 1}.keys(), "a list of labels"),
        (b"fm", "a list of labels"),
        ([], "no labels"),
    ],
)
def test_labels_are_listed_once_and_in_order(labels: Any, message: str) -> None:
    with pytest.raises(Error, match=message):
        Labels(labels)
    with pytest.raises(Error, match=f"attribute 'a': .*{message}"):
        Schema({"a": labels})


@pytest.mark.parametrize("size", [0, -3])
def test_an_attribute_has_a_value(size: int) -> None:
    with pytest.raises(Error, match="attribute 'a': there are no labels"):
        Schema({"a": size})


@pytest.mark.parametrize(
    "points", [[], [10**400], [-(10**5000)], [float("inf")], [float("nan")], [None], ["1"], [True]]
)
def test_cut_points_are_numbers_that_a_float_can_hold(points: Any) -> None:
    with pytest.raises(Error, match="finite numbers"):
        Cuts(points)


def test_a_huge_cut_point_in_a_file_is_explained() -> None:
    with pytest.raises(FileError, match="attribute 'x': cut points are"):
        Schema.from_json(json.loads(json.dumps(attribute(kind="cuts", cuts=[10**400]))))


PYDANTIC = (
    "Input",
    "Field",
    "validation",
    "discriminator",
    "Extra inputs",
    "String should",
    "List should",
    ".str",
    ".int",
)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"kind": "label"}, """attribute 'x': kind is "labels", "cuts" or "dates", not "label"."""),
        ({"kind": None}, "attribute 'x': kind is "),
        ({"labels": "f"}, """attribute 'x': labels is a list of texts or whole numbers, not "f"."""),
        ({"labels": ["f", 1.5]}, "attribute 'x': labels is a list of texts or whole numbers, and holds 1.5."),
        ({"labels": []}, "attribute 'x': labels is a list of texts or whole numbers, not []."),
        ({"nulls": "drop"}, "attribute 'x': 'nulls' is not known here (did you mean 'null'?)."),
        ({"null": 2.5}, """attribute 'x': null is a label, or "drop", not 2.5."""),
        ({"name": ""}, "attribute number 1: name is a text that is not empty"),
        ({"kind": "dates", "period": "monthly"}, "attribute 'x': start is missing, which is a date such as"),
    ],
)
def test_a_wrong_field_is_named_in_plain_words(changed: dict[str, Any], said: str) -> None:
    data = {"format": "quietfield-schema", "version": 1, "attributes": [
        {"name": "x", "kind": "labels", "labels": ["f", "m"], **changed}
    ]}  # fmt: skip
    with pytest.raises(FileError) as caught:
        Schema.from_json(data)
    message = str(caught.value)
    assert said in message
    assert message.count(said) == 1
    assert message.count("Write for instance {") == 1
    assert not any(word in message for word in PYDANTIC)


@pytest.mark.parametrize("attributes", [None, "x", {}, [], [3], [{}], [{"name": "x"}]])
@pytest.mark.parametrize("impossible", [[], 3, [3], [{"x": None}]])
def test_whatever_is_written_is_explained_without_the_words_of_a_library(attributes: Any, impossible: Any) -> None:
    data = {"format": "quietfield-schema", "version": 1, "attributes": attributes, "impossible": impossible}
    with pytest.raises(FileError, match="this schema cannot be used: ") as caught:
        Schema.from_json(data)
    assert not any(word in str(caught.value) for word in PYDANTIC)


def test_gaps_are_where_no_number_is_drawn() -> None:
    rule = Cuts([0, 40, 999], least=-99, most=999, gaps=[(-99, 18), (79, 999)], type="integer")
    assert rule.bins == [(-99, -99), (18, 40), (40, 79), (999, 999)]
    schema = Schema({"age": rule})
    assert Schema.from_json(schema.to_json()) == schema
    drawn = draw_values(schema, {"age": np.arange(4000) % 4}, seed=0)["age"].to_numpy().reshape(-1, 4)
    assert [sorted(set(column)) for column in drawn.T.tolist()] == [[-99], [*range(18, 40)], [*range(40, 80)], [999]]
    for stored in ("float", None):  # with decimal places, and as floats of 32 bits
        parts = Cuts([0.5, 40, 999], least=-99, most=999, gaps=rule.gaps, type="number", stored=stored)
        drawn = draw_values(Schema({"age": parts}), {"age": np.arange(4000) % 4}, seed=0)["age"].to_numpy()
        low, first, second, high = drawn.reshape(-1, 4).T
        assert (set(low.tolist()), set(high.tolist())) == ({-99}, {999})
        assert 18 <= first.min() < first.max() < 40 <= second.min() < second.max() <= 79
    assert "none is drawn between -99 and 18 or 79 and 999" in describe_rule(rule)


@pytest.mark.parametrize(
    "gaps",
    [
        [(18, -99)],
        [(-99, 45)],  # nothing is left of a bin
        [(-99, 40)],
        [(50, 60)],  # inside one
        [(-100, 18)],  # below the least
        [(79, 1000)],  # above the most
        [(50, 999), (20, 40)],
        [(-99, 18), (10, 40)],
        [(0, float("nan"))],
    ],
)
def test_gaps_that_leave_nothing_or_lie_elsewhere_are_refused(gaps: Any) -> None:
    with pytest.raises(Error, match="gaps are pairs of numbers"):
        Cuts([0, 40, 999], least=-99, most=999, gaps=gaps)


def test_gaps_need_the_bounds_of_the_bins_that_they_cut() -> None:
    for gap in ((-99, 18), (79, 1000)):
        with pytest.raises(Error, match="gaps are pairs of numbers"):
            Cuts([0, 40, 999], gaps=[gap])


@pytest.mark.parametrize(
    "rule",
    [
        {"kind": "cuts", "cuts": [18, 65], "labels": "FILL IN"},
        {"kind": "dates", "period": "month", "start": "2024-01-01", "end": "FILL IN"},
        {"kind": "labels", "labels": ["a", "FILL IN"]},
    ],
)
def test_what_is_filled_in_by_half_is_not_left_out_without_a_word(rule: dict[str, Any]) -> None:
    from quietfield.schema.form import take_filled

    whole = {"name": "b", "kind": "labels", "labels": ["x", "y"]}
    draft = {"name": "c", "kind": "dates", "period": "month", "start": "FILL IN", "end": "FILL IN"}
    assert take_filled({"attributes": [draft, whole]}) == {"attributes": [whole]}
    with pytest.raises(FileError, match="'a' is filled in by half"):
        take_filled({"attributes": [{"name": "a", **rule}, draft, whole]})
