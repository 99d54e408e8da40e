"""Files of SPSS, Stata and SAS are counted as the same records in CSV are, and tell as little."""

import contextlib
import datetime
import io
import struct
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quietfield as qf
from quietfield.cli import main
from quietfield.cliques import Structure
from quietfield.curator.counting import columns, count, statfiles
from quietfield.curator.counting.statfiles import StatFile
from quietfield.curator.inspection import inspect_records
from quietfield.errors import FileError
from quietfield.privacy.units import Person, Rows, Unit, statistics

pyreadstat = pytest.importorskip("pyreadstat")

ROW = Rows(1)
ENDINGS = [".sav", ".zsav", ".dta", ".xpt"]


def write(frame: pd.DataFrame, path: Path, **options: Any) -> Path:
    """A file of the kind that its name says."""
    if path.suffix == ".dta":
        pyreadstat.write_dta(frame, path, **options)
    elif path.suffix == ".xpt":
        pyreadstat.write_xport(frame, path, **options)
    else:
        pyreadstat.write_sav(frame, path, compress=path.suffix == ".zsav", **options)
    return path


def counted(source: Any, schema: qf.Schema, unit: Unit = ROW) -> list[Any]:
    """The table of all attributes together."""
    asked = statistics(Structure((tuple(schema),)), schema.domain, unit, "add_remove", total=True)
    found = count(source, schema, asked, unit)
    return [found.total, *found.tables[0].ravel().tolist()]


DAYS = [datetime.date(2024, 1, 31), datetime.date(2023, 12, 31), datetime.date(1959, 5, 1), None]
records = st.lists(
    st.tuples(
        st.sampled_from([1.0, 2.0, 2.5, -9.0, None]),
        st.sampled_from(["a", "ä b", "", "zz"]),
        st.sampled_from(DAYS),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=12,
)
SCHEMA = qf.Schema(
    {
        "n": qf.Labels([1, 2], null=0, unknown=-1),
        "s": qf.Labels(["a", "ä b"], null="none"),
        "d": qf.Dates("month", "2023-12-01", "2024-03-01", null="no date", unknown="outside"),
        "i": qf.Cuts([2]),
    }
)


@pytest.mark.parametrize("ending", ENDINGS)
@settings(max_examples=10)
@given(rows=records)
def test_the_same_counts_as_from_csv(ending: str, rows: list[Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("files")
    frame = pd.DataFrame(rows, columns=["n", "s", "d", "i"]).astype({"n": float})
    frame["d"] = frame["d"].astype(object)
    if frame["d"].isna().all():
        frame["d"] = pd.Series([DAYS[0]] * len(frame), dtype=object)  # a column of nulls alone has no type to write
    frame.to_csv(folder / "records.csv", index=False)
    file = write(frame, folder / f"records{ending}")
    assert counted(file, SCHEMA) == counted(folder / "records.csv", SCHEMA)
    person = Person("i", rows=2)
    assert counted(file, SCHEMA, person)[0] == counted(folder / "records.csv", SCHEMA, person)[0]


@pytest.mark.parametrize("ending", ENDINGS)
def test_files_are_read_in_parts(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"a": random.integers(0, 4, 1000).astype(float), "b": random.choice(["x", "y"], 1000)})
    file = write(frame, tmp_path / f"records{ending}")
    schema = qf.Schema({"a": 4, "b": ["x", "y"]})
    expected = pd.crosstab(frame["a"], frame["b"]).to_numpy().ravel().tolist()
    assert counted(file, schema) == [1000, *expected]
    read = []
    monkeypatch.setattr(statfiles, "max", lambda *_: 300, raising=False)
    monkeypatch.setattr(statfiles, "_read", lambda *a, _read=statfiles._read, **k: read.append(k) or _read(*a, **k))
    assert counted(file, schema) == [1000, *expected]
    assert [k["row_offset"] for k in read if "row_offset" in k] == [0, 300, 600, 900]
    assert all(k["row_limit"] == 300 and k["usecols"] == ["a", "b"] for k in read if "row_offset" in k)


def test_portable_files_of_spss(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"n": [1.0, 2.5, np.nan, 2.0], "s": ["a", "", "zz", "a"], "d": [DAYS[0], DAYS[3], DAYS[1], DAYS[2]]}
    )
    pyreadstat.write_por(frame, tmp_path / "records.por")
    frame.to_csv(tmp_path / "records.csv", index=False)
    schema = qf.Schema({name: SCHEMA[name] for name in ("n", "s", "d")})
    found = columns(tmp_path / "records.por")  # the format knows capital letters only
    named = {name: replace(SCHEMA[name], column=name.upper() if name.upper() in found else name) for name in schema}
    assert counted(tmp_path / "records.por", qf.Schema(named)) == counted(tmp_path / "records.csv", schema)


def test_several_files_and_no_column_at_all(tmp_path: Path) -> None:
    for i in range(3):
        write(pd.DataFrame({"a": [float(i), 1.0], "b": ["x", "y"]}), tmp_path / f"part{i}.sav")
    assert counted(tmp_path / "part*.sav", qf.Schema({"a": 3})) == [6, 1, 4, 1]
    write(pd.DataFrame({"a": ["1", "2"]}), tmp_path / "part3.sav")
    with pytest.raises(qf.Error, match="different types"):
        counted(tmp_path / "part*.sav", qf.Schema({"a": 3}))
    write(pd.DataFrame({"other": [1.0]}), tmp_path / "part3.sav")
    with pytest.raises(qf.Error, match="no column 'a'"):
        counted(tmp_path / "part*.sav", qf.Schema({"a": 3}))


LABELS = {"sex": {1.0: "female", 2.0: "male", 9.0: "refused"}}
PEOPLE = pd.DataFrame({"sex": [1.0, 2.0, 9.0, np.nan, 3.0, 1.0], "age": [20.0, 30.0, 40.0, 50.0, 60.0, 70.0]})


@pytest.mark.parametrize("ending", [".sav", ".dta"])
def test_codes_or_labels_as_the_curator_says(ending: str, tmp_path: Path) -> None:
    whole = PEOPLE.astype({"sex": "Int64"}) if ending == ".dta" else PEOPLE
    labels = {"sex": {int(k): v for k, v in LABELS["sex"].items()}} if ending == ".dta" else LABELS
    file = write(whole, tmp_path / f"people{ending}", variable_value_labels=labels)
    coded = qf.Schema({"sex": qf.Labels([1, 2], null=0, unknown=-1)})
    named = qf.Schema({"sex": qf.Labels(["female", "male", "3"], null="none", unknown="other")})
    assert counted(file, coded) == counted(StatFile(file), coded) == [6, 2, 1, 1, 2]
    assert counted(StatFile(file, values="labels"), named) == [6, 2, 1, 1, 1, 1]
    assert columns(file)["sex"] == "integer"  # codes of categories, as the dictionary says
    assert columns(StatFile(file, values="labels"))["sex"] == "text"
    assert columns(file)["age"] == "number"


def test_values_declared_missing_are_nulls(tmp_path: Path) -> None:
    rule = qf.Schema({"sex": qf.Labels([1, 2, 9], null=0, unknown=-1)})
    spss = write(PEOPLE, tmp_path / "people.sav", variable_value_labels=LABELS, missing_ranges={"sex": [9.0]})
    assert counted(spss, rule) == [6, 2, 1, 0, 2, 1]
    ranged = write(PEOPLE, tmp_path / "range.sav", missing_ranges={"sex": [{"lo": 3, "hi": 9}]})
    assert counted(ranged, rule) == [6, 2, 1, 0, 3, 0]
    named = qf.Schema({"sex": qf.Labels(["female", "refused"], null="none", unknown="other")})
    assert counted(StatFile(spss, values="labels"), named) == [6, 2, 0, 2, 2]
    words = pd.DataFrame({"s": ["a", "NA", "b"]})
    text = write(words, tmp_path / "text.sav", missing_ranges={"s": ["NA"]})
    assert counted(text, qf.Schema({"s": qf.Labels(["a", "b", "NA"], null="none")})) == [3, 1, 1, 0, 1]
    letters = pd.DataFrame({"n": pd.Series([1.0, 2.0, "a"], dtype=object)})
    stata = write(letters, tmp_path / "letters.dta", missing_user_values={"n": ["a"]})
    assert counted(stata, qf.Schema({"n": qf.Labels([1, 2], null=0)})) == [3, 1, 1, 1]


@pytest.mark.parametrize("ending", ENDINGS)
def test_moments_and_days(ending: str, tmp_path: Path) -> None:
    moments = pd.to_datetime(["2024-01-31 23:59:59.5", "1950-06-01 00:00:00", None], format="ISO8601")
    file = write(pd.DataFrame({"t": moments, "x": [1.0, 2.0, 3.0]}), tmp_path / f"times{ending}")
    rule = qf.Schema({"t": qf.Dates("hour", "2024-01-31", "2024-02-01", null="none", unknown="other")})
    found = counted(file, rule)
    assert (found[24], found[25], found[26]) == (1, 1, 1)
    assert columns(file)["t"] == "time"


def test_dates_that_no_calendar_has_are_unknown(tmp_path: Path) -> None:
    frame = pd.DataFrame({"d": [1e300, -1e300, 1e14, np.nan, 13926038400.0]})
    file = write(frame, tmp_path / "dates.sav", variable_format={"d": "DATE11"})
    rule = qf.Schema({"d": qf.Dates("month", "2024-01-01", "2024-02-01", null="none", unknown="other")})
    assert columns(file) == {"d": "date"}
    assert counted(file, rule) == [5, 1, 1, 3]


@pytest.mark.parametrize("name", ["people.sav", "people.dta", "people.sas7bdat", "people.xpt", "people.por"])
def test_a_damaged_file_is_told_in_a_sentence(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).write_bytes(b"SECRET" * 1000)
    with pytest.raises(qf.Error, match="cannot be read") as caught:
        counted(tmp_path / name, qf.Schema({"a": 2}))
    assert "SECRET" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "SECRET" not in "".join(capsys.readouterr())


def test_a_truncated_file_fails_after_the_charge_without_a_value(tmp_path: Path) -> None:
    file = write(pd.DataFrame({"a": ["SECRET"] * 5000}), tmp_path / "people.sav")
    file.write_bytes(file.read_bytes()[:-1000])
    schema = qf.Schema({"a": ["x"]})
    with pytest.raises(qf.Error) as caught:
        counted(file, schema)
    assert "SECRET" not in str(caught.value)


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(qf.Error, match="'codes' or 'labels'"):
        StatFile("a.sav", values="both")  # type: ignore[arg-type]
    with pytest.raises(qf.Error, match="no file of SPSS"):
        StatFile("a.csv")
    with pytest.raises(qf.Error, match="catalogue"):
        StatFile("a.xpt", values="labels")
    with pytest.raises(qf.Error, match="there is no file"):
        columns(tmp_path / "absent.sav")


def test_a_missing_column_costs_nothing(tmp_path: Path) -> None:
    file = write(PEOPLE, tmp_path / "people.sav")
    ledger = qf.Ledger.create(tmp_path / "budget.db", epsilon=1, unit=Rows(1))
    schema = qf.Schema({"sex": [1, 2], "income": [0, 1]})
    for source in (file, StatFile(file)):
        with pytest.raises(qf.Error, match="income"):
            qf.release(source, schema, [("sex", "income")], epsilon=1, unit=Rows(1), ledger=ledger)
    assert ledger.remaining == 1


def test_words_are_not_looked_for_among_codes(tmp_path: Path) -> None:
    file = write(PEOPLE, tmp_path / "people.sav", variable_value_labels=LABELS)
    ledger = qf.Ledger.create(tmp_path / "budget.db", epsilon=1, unit=Rows(1))
    words = qf.Schema({"sex": ["female", "male"]})
    with pytest.raises(qf.Error, match=r"codes for 'sex'.*--values labels"):
        qf.release(file, words, ["sex"], epsilon=1, unit=Rows(1), ledger=ledger)
    assert ledger.remaining == 1
    for source, schema in ((StatFile(file, values="labels"), words), (file, qf.Schema({"sex": ["1", "2"]}))):
        qf.release(source, schema, ["sex"], epsilon=1, unit=Rows(1), ledger=None)


def test_a_look_and_an_old_encoding(tmp_path: Path) -> None:
    file = write(PEOPLE, tmp_path / "people.sav", missing_ranges={"sex": [9.0]})
    found = inspect_records(file, qf.Schema({"sex": [1, 2]}))[0]
    assert (found.nulls, found.unknown, found.common) == (2, 1, (("3", 1),))
    spoken = StatFile(write(pd.DataFrame({"s": ["x"]}), tmp_path / "s.sav"), encoding="latin1")
    assert counted(spoken, qf.Schema({"s": ["x"]})) == [1, 1]


@pytest.mark.parametrize("ending", [".sav", ".dta", ".xpt"])
def test_no_text_makes_a_count_fail(ending: str, tmp_path: Path) -> None:
    """One record of broken bytes would otherwise decide whether there is a release at all."""
    file = write(pd.DataFrame({"s": ["aaaa", "QQQQ", "bbbb"], "n": [1.0, 2.0, 2.0]}), tmp_path / f"people{ending}")
    schema = qf.Schema({"s": qf.Labels(["aaaa", "bbbb"], unknown="other"), "n": [1, 2]})
    whole = counted(file, schema)
    assert file.read_bytes().count(b"QQQQ") == 1
    file.write_bytes(file.read_bytes().replace(b"QQQQ", b"\xff\xfe\xc3("))
    assert counted(file, schema) == whole
    assert inspect_records(file, schema)[0].unknown == 1


@pytest.mark.parametrize("ending", [".sav", ".dta"])
def test_no_label_of_a_value_makes_a_count_fail(ending: str, tmp_path: Path) -> None:
    """Labels may have been written from records: Stata's ``encode`` lists every text that occurs."""
    frame = pd.DataFrame({"Größe": [1.0, 2.0, 2.0]})
    file = write(frame, tmp_path / f"p{ending}", variable_value_labels={"Größe": {1: "klein", 2: "QQQQ"}})
    schema = qf.Schema({"Größe": [1, 2]})
    assert counted(file, schema) == [3, 1, 2]
    file.write_bytes(file.read_bytes().replace(b"QQQQ", b"Z\xff\xfe\xff"))
    assert counted(file, schema) == [3, 1, 2]
    words = qf.Schema({"Größe": qf.Labels(["klein"], unknown="other")})
    assert counted(StatFile(file, values="labels"), words) == [3, 1, 2]


def test_names_and_texts_of_old_and_new_encodings(tmp_path: Path) -> None:
    frame = pd.DataFrame({"Größe": ["süß", "groß", "süß"]})
    schema = qf.Schema({"Größe": ["groß", "süß"]})
    for name, options in (("a.sav", {}), ("b.zsav", {}), ("c.dta", {"version": 15}), ("d.dta", {"version": 14})):
        assert counted(write(frame, tmp_path / name, **options), schema) == [3, 1, 2], name
    # Before release 118 Stata wrote the code page of its machine.
    old = tmp_path / "old.dta"
    pyreadstat.write_dta(pd.DataFrame({"g": ["sXYZ", "gros"]}), old, version=12)
    old.write_bytes(old.read_bytes().replace(b"sXYZ", "süßt".encode("cp1252")))
    assert counted(old, qf.Schema({"g": ["gros", "süßt"]})) == [2, 1, 1]
    spoken = tmp_path / "spoken.sav"
    write(pd.DataFrame({"g": ["sXYZ", "gros"]}), spoken)
    spoken.write_bytes(spoken.read_bytes().replace(b"sXYZ", "süßt".encode("cp1252")))
    assert counted(StatFile(spoken, encoding="cp1252"), qf.Schema({"g": ["gros", "süßt"]})) == [2, 1, 1]
    with pytest.raises(qf.Error, match="there is no encoding 'hex'"):
        StatFile(spoken, encoding="hex")


def without_records(content: bytes, *subtypes: int) -> bytes:
    """An SPSS file without some extension records of its dictionary, cut out byte by byte."""
    for subtype in subtypes:
        start = content.index(struct.pack("<ii", 7, subtype))
        size, many = struct.unpack_from("<ii", content, start + 8)
        content = content[:start] + content[start + 16 + size * many :]
    return content


def without_encoding(folder: Path, text: bytes = b"") -> Path:
    """An SPSS file that declares no encoding, in which one person's free text is as given."""
    frame = pd.DataFrame({"s": ["é"] * 3 + ["x"], "t": ["A" * 40] * 3 + ["B" * 40]})
    pyreadstat.write_sav(frame, folder / "people.sav", row_compress=False)
    content = without_records((folder / "people.sav").read_bytes(), 20, 3)
    (folder / "people.sav").write_bytes(content.replace(b"B" * 40, text.ljust(40)))
    return folder / "people.sav"


TEXTS = [b"", *(struct.pack("<iiii", 7, 20, 1, len(name)) + name for name in (b"cp1252", b"utf-8", b"HIV-SMITH"))]


@pytest.mark.parametrize("text", TEXTS)
def test_no_record_chooses_or_names_the_encoding(
    text: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = without_encoding(tmp_path, text)
    schema = qf.Schema({"s": qf.Labels(["é", "x"], unknown="other")})
    ledger = qf.Ledger.create(tmp_path / "budget.db", epsilon=1, unit=ROW)
    with pytest.raises(FileError, match=r"does not say in which encoding") as refused:
        qf.release(file, schema, [("s",)], epsilon=1, unit=ROW, ledger=ledger)
    assert ledger.spent == 0
    assert "SMITH" not in str(refused.value)
    assert str(refused.value).count("cp1252") == 3
    assert counted(StatFile(file, encoding="utf-8"), schema) == [4, 3, 1, 0]
    schema.save(tmp_path / "schema.json")
    said = ["release", str(file), "--schema", str(tmp_path / "schema.json"), "--structure", '[["s"]]', "--epsilon", "1"]
    said += ["--unit", "rows:1", "--no-ledger", "--out", str(tmp_path / "people.qfr")]
    assert main(said) == 1
    assert "--encoding" in capsys.readouterr().err
    assert main([*said, "--encoding", "utf-8"]) == 0


def test_a_file_encoding_stands_whatever_the_records_say(tmp_path: Path) -> None:
    schema = qf.Schema({"s": qf.Labels(["é", "x"], unknown="other")})
    frame = pd.DataFrame({"s": ["é"] * 3 + ["x"], "t": ["A" * 40] * 3 + ["B" * 40]})
    for removed in ([], [20], [3]):  # either of the two records that tell it will do
        pyreadstat.write_sav(frame, tmp_path / "people.sav", row_compress=False)
        content = without_records((tmp_path / "people.sav").read_bytes(), *removed)
        (tmp_path / "people.sav").write_bytes(content.replace(b"B" * 40, TEXTS[1].ljust(40)))
        assert counted(tmp_path / "people.sav", schema) == [4, 3, 1, 0], removed


def test_the_whole_dictionary_is_walked(tmp_path: Path) -> None:
    """Past labels of variables and values, missing values, lines of notes and long names, in both kinds of file."""
    frame = pd.DataFrame({"sex": [1.0, 2.0], "Größe": ["süß", "groß"], "long": ["x" * 700, "y"]})
    described: dict[str, Any] = {
        "column_labels": ["s" * 7, "größer", "x" * 250],
        "variable_value_labels": {"sex": {i: "v" * i for i in range(1, 60)}, "Größe": {"süß": "sweet"}},
        "missing_ranges": {"sex": [9.0, {"lo": 3, "hi": 5}]},
        "note": ["a line of notes" * 5] * 3,
    }
    for name in ("a.sav", "b.zsav"):
        file = write(frame, tmp_path / name, **described)
        assert counted(file, qf.Schema({"Größe": ["groß", "süß"]})) == [2, 1, 1]
        assert statfiles._file_encoding(str(file)) == "UTF-8"


def test_a_dictionary_in_the_other_order_of_bytes() -> None:
    start = b"$FL2".ljust(64) + struct.pack(">i", 2) + bytes(108)
    variable = struct.pack(">iiiiii8s", 2, 0, 1, -2, 0, 0, b"AGE") + struct.pack(">i8s", 5, b"label") + bytes(16)
    labels = struct.pack(">ii", 3, 2) + (struct.pack(">dB", 1, 3) + b"one".ljust(7)) * 2 + struct.pack(">iii", 4, 1, 1)
    notes = struct.pack(">ii", 6, 2) + bytes(160)
    page = struct.pack(">iiii", 7, 3, 4, 8) + struct.pack(">8i", *range(7), 1251)
    name = struct.pack(">iiii", 7, 20, 1, 12) + b"windows-1252"
    end = struct.pack(">ii", 999, 0)
    for extra, expected in ((page + name, "windows-1252"), (page, "cp1251"), (b"", None)):
        whole = start + variable + labels + notes + extra + end
        assert statfiles._spss_encoding(io.BytesIO(whole + name), "a.sav") == expected
        for cut in range(len(whole) - 4):
            with pytest.raises(FileError, match="cannot be read"):
                statfiles._spss_encoding(io.BytesIO(whole[:cut]), "a.sav")


@settings(max_examples=150, deadline=None)
@given(changes=st.lists(st.tuples(st.integers(0, 800), st.binary(min_size=1, max_size=4)), min_size=1, max_size=4))
def test_a_hostile_dictionary_is_refused_in_our_words(
    changes: list[tuple[int, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("files")
    content = bytearray(write(PEOPLE, folder / "people.sav", variable_value_labels=LABELS).read_bytes())
    for place, made in changes:
        content[place : place + len(made)] = made
    (folder / "people.sav").write_bytes(bytes(content))
    with contextlib.suppress(qf.Error):
        statfiles.read_dictionary(StatFile(folder / "people.sav"), str(folder / "people.sav"))


@pytest.mark.parametrize("claimed", [2**31 - 1, -1])
def test_a_dictionary_that_claims_to_be_huge_is_not_read_into_memory(
    claimed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statfiles, "LONGEST_DICTIONARY", 2**16)
    content = write(PEOPLE, tmp_path / "people.sav", variable_value_labels=LABELS).read_bytes()
    for kind in (3, 6, 7):
        start = content[:176] + struct.pack("<iiii", kind, claimed, 1, claimed)
        (tmp_path / "people.sav").write_bytes(start + bytes(2**18))
        with pytest.raises(FileError, match="cannot be read"):
            statfiles._file_encoding(str(tmp_path / "people.sav"))


def test_an_unknown_encoding_of_sas_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "people.sas7bdat").write_bytes(b"")
    for told in (None, "HIV-SMITH"):
        monkeypatch.setattr(statfiles, "_read", lambda *_, told=told, **__: (None, SimpleNamespace(file_encoding=told)))
        with pytest.raises(FileError, match="does not say in which encoding") as refused:
            columns(tmp_path / "people.sas7bdat")
        assert "SMITH" not in str(refused.value)


def test_names_that_no_encoding_has_are_no_names(tmp_path: Path) -> None:
    """That a name is not in the encoding is public: it is refused before the charge and not after it."""
    file = write(pd.DataFrame({"Größe": ["a"], "b": ["x"]}), tmp_path / "people.dta", version=15)
    ledger = qf.Ledger.create(tmp_path / "budget.db", epsilon=1, unit=ROW)
    asked: dict[str, Any] = {"epsilon": 1, "unit": ROW, "ledger": ledger}
    with pytest.raises(qf.Error, match="no column 'Größe'"):
        qf.release(StatFile(file, encoding="ascii"), qf.Schema({"Größe": ["a"]}), [("Größe",)], **asked)
    assert ledger.spent == 0
    qf.release(StatFile(file, encoding="ascii"), qf.Schema({"b": ["x"]}), [("b",)], **asked)
    alone = statistics(Structure(()), qf.Schema({"b": ["x"]}).domain, ROW)  # the first column shows how many there are
    assert count(StatFile(file, encoding="ascii"), qf.Schema({"b": ["x"]}), alone, ROW).total == 1


def test_the_command_line_reads_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(write(PEOPLE, tmp_path / "people.sav", variable_value_labels=LABELS))
    assert main(["schema", file]) == 0
    assert '"column": "sex"' in capsys.readouterr().out
    path = tmp_path / "schema.json"
    qf.Schema({"sex": qf.Labels(["female", "male"], unknown="other", null="none"), "age": qf.Cuts([40])}).save(path)
    assert main(["inspect", file, "--schema", str(path), "--values", "labels"]) == 0
    assert "'refused' x 1" in capsys.readouterr().out
    out = str(tmp_path / "people.qfr")
    said = ["--structure", "chain", "--epsilon", "1000", "--unit", "rows:1", "--no-ledger", "--values", "labels"]
    assert main(["release", file, "--schema", str(path), *said, "--out", out]) == 0
    tables = qf.Release.load(out).tables
    np.testing.assert_allclose(tables["sex", "age"], [[1, 1], [1, 0], [0, 1], [0, 2]], atol=1.1)


def test_an_inspection_suggests_labels_where_the_schema_names_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.DataFrame({"sex": [1.0, 2.0, 1.0], "age": [20.0, 30.0, 40.0]})
    path, labels = tmp_path / "people.sav", {"sex": {1: "woman", 2: "man"}}
    pyreadstat.write_sav(frame, path, variable_value_labels=labels)
    words = qf.Schema({"sex": ["woman", "man"], "age": qf.Cuts([25])})
    codes = qf.Schema({"sex": [1, 2], "age": qf.Cuts([25])})
    for schema, values, expected in ((words, "codes", True), (words, "labels", False), (codes, "codes", False)):
        schema.save(tmp_path / "schema.json")
        for form in ([], ["--json"]):
            asked = ["inspect", str(path), "--schema", str(tmp_path / "schema.json"), "--values", values]
            assert main([*asked, *form]) == 0
            assert ("the schema of 'sex' names the labels: read those" in capsys.readouterr().out) == expected
