"""Exports replace exports, whole, and nothing else; what is wrong is told before any work."""

import csv
import json
import sys
import unicodedata
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quietfield as qf
from quietfield.cli import main
from quietfield.models.spreadsheets import defuse_formulas
from quietfield.output import exports

DOMAIN = qf.Domain({"a": ["no", "yes"], "b": 3, "c": 2})
TABLES = {("a", "b"): [[30.0, 15.0, 4.0], [21.0, 19.0, 10.0]], ("b", "c"): [[26.0, 25.0], [20.0, 14.0], [4.0, 10.0]]}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a release of two tables and a model, where commands are run."""
    monkeypatch.chdir(tmp_path)
    qf.Release.from_tables(DOMAIN, TABLES, noise=qf.Laplace(2.0), total=100).save("r.qfr")
    qf.Model(DOMAIN, {clique: [[0.0] * len(row) for row in table] for clique, table in TABLES.items()}).save("m.qfm")
    return tmp_path


def names(folder: str) -> set[str]:
    return {path.name for path in Path(folder).iterdir()}


def test_an_earlier_export_is_replaced_whole_and_only_with_force(here, capsys):
    assert main(["export", "m.qfm", "--out", "t"]) == 0
    assert len(names("t")) == 8
    Path("t/mine.csv").write_text("mine")
    Path("t/table-99.csv").write_text("mine too, whatever its name")
    before = {path: path.read_bytes() for path in Path("t").iterdir()}
    for words in (["m.qfm", "--table", "a"], ["r.qfr"], ["r.qfr", "--format", "parquet"]):
        capsys.readouterr()
        assert main(["export", *words, "--out", "t"]) == 1
        assert "t holds an earlier export of 8 files; choose another folder, or say --force" in capsys.readouterr().err
        assert {path: path.read_bytes() for path in Path("t").iterdir()} == before
    kept = {"mine.csv", "table-99.csv"}
    assert main(["export", "m.qfm", "--table", "a", "--out", "t", "--force"]) == 0
    assert names("t") == {"table-0001.csv", "dictionary.csv", "privacy.txt", "index.csv"} | kept
    assert main(["export", "r.qfr", "--format", "parquet", "--out", "t", "--force"]) == 0  # of another kind
    assert names("t") == {"table-0001.parquet", "table-0002.parquet", "index.csv"} | kept
    assert Path("t/table-99.csv").read_text() == "mine too, whatever its name"


def test_an_index_that_was_edited_removes_nothing_else(here, capsys):
    assert main(["export", "r.qfr", "--out", "t"]) == 0
    Path("t/notes.txt").write_text("mine")
    with open("t/index.csv", "a") as file:
        file.write("notes.txt,,,,,\n../r.qfr,,,,,\n/etc/hostname,,,,,\n,,,,,\n\n")
    assert main(["export", "r.qfr", "--out", "t", "--force"]) == 0
    assert Path("t/notes.txt").read_text() == "mine"
    assert qf.Release.load("r.qfr").total == 100


def test_force_does_not_take_the_name_of_a_file_of_others(here, capsys):
    Path("t").mkdir()
    for name in ("table-0002.csv", "index.csv"):
        Path("t", name).write_text("mine")
        assert main(["export", "r.qfr", "--out", "t", "--force"]) == 1
        assert f"t holds '{name}', which no index of an export lists" in capsys.readouterr().err
        assert names("t") == {name}
        Path("t", name).unlink()


def test_files_that_could_be_taken_for_an_exports_are_refused_before_the_work(here, capsys, monkeypatch):
    def never(*_, **__):
        raise AssertionError("the work was begun")

    monkeypatch.setattr("quietfield.cli.export.people_tables", never)
    Path("t").mkdir()
    for name in ("table-0001.csv", "table-0099.parquet", "privacy.txt", "index.csv"):
        Path("t", name).write_text("mine")
        for words in ([], ["--force"]):
            assert main(["export", "m.qfm", "--table", "a", "--out", "t", *words]) == 1
            assert f"t holds '{name}', which no index of an export lists" in capsys.readouterr().err
        assert names("t") == {name}
        Path("t", name).unlink()


def contents(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@pytest.mark.parametrize("nth", [1, 3, 8])
def test_an_export_that_finds_no_room_leaves_the_earlier_one_whole(nth, here, capsys, monkeypatch):
    assert main(["export", "m.qfm", "--out", "t"]) == 0
    before, calls, sync = contents("t"), [], exports.os.fsync

    def full(number):
        calls.append(number)
        if len(calls) == nth:
            raise OSError(28, "No space left on device")
        sync(number)

    monkeypatch.setattr(exports.os, "fsync", full)
    assert main(["export", "m.qfm", "--total", "50", "--out", "t", "--force"]) == 1
    assert "cannot write the export to the folder t: No space left on device" in capsys.readouterr().err
    assert len(calls) == nth
    assert contents("t") == before
    assert main(["export", "m.qfm", "--total", "50", "--out", "t", "--force"]) == 0
    assert contents("t") != before


@pytest.mark.parametrize("nth", range(1, 4))
def test_no_index_stands_beside_tables_that_it_does_not_describe(nth, here, capsys, monkeypatch):
    """A failure while files take their places: some are new, some old, and no index vouches for either."""
    assert main(["export", "r.qfr", "--out", "t"]) == 0
    before, calls, replace = contents("t"), [], exports.os.replace
    release = qf.Release.from_tables(DOMAIN, TABLES, noise=qf.Laplace(5.0), total=100)
    release.save("other.qfr")

    def fails(old, new):
        calls.append(new)
        if len(calls) == nth:
            raise PermissionError(13, "Permission denied")
        replace(old, new)

    with monkeypatch.context() as patched:
        patched.setattr(exports.os, "replace", fails)
        assert main(["export", "other.qfr", "--out", "t", "--force"]) == 1
        assert "cannot write the export" in capsys.readouterr().err
    assert set(contents("t")) == set(before) - {"index.csv"}
    assert main(["export", "other.qfr", "--out", "t", "--force"]) == 1
    assert "if an export was interrupted there, remove what it left" in capsys.readouterr().err


def test_a_workbook_is_replaced_with_force_if_it_is_ours(here, capsys):
    asked = ["export", "m.qfm", "--format", "xlsx", "--table", "a", "--out", "t.xlsx"]
    assert main(asked) == 0
    first = Path("t.xlsx").read_bytes()
    assert main([*asked, "--level", "0.5", "--total", "9"]) == 1
    assert "is there already" in capsys.readouterr().err
    assert Path("t.xlsx").read_bytes() == first
    assert main([*asked, "--total", "9", "--force"]) == 0
    assert Path("t.xlsx").read_bytes() != first
    for content in (b"mine", Path("m.qfm").read_bytes()):
        Path("t.xlsx").write_bytes(content)
        assert main([*asked, "--force"]) == 1
        assert "is not a workbook that quietfield exported" in capsys.readouterr().err
        assert Path("t.xlsx").read_bytes() == content


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "t", "--format", "pdf"], "--format is csv, parquet or, from a model, xlsx; not 'pdf'"),
        (["--out", "t", "--format", "xlsx"], "a workbook is one file whose name ends in .xlsx"),
        (["--out", "t.xlsx"], "t.xlsx is the name of a file; say --format xlsx, or name a folder"),
        (["--out", "t.csv"], "t.csv is the name of a file; name a folder"),
        (["--out", "r.qfr/t"], "cannot make the folder r.qfr/t"),
    ],
)
def test_mistakes_are_told_before_anything_is_read(words, said, here, capsys):
    for path in ("absent.qfm", "m.qfm"):
        assert main(["export", path, *words]) == 1
        assert said in capsys.readouterr().err
    assert names(".") == {"r.qfr", "m.qfm"}


def test_what_cannot_be_removed_of_an_earlier_export_is_told(here, capsys, monkeypatch):
    assert main(["export", "m.qfm", "--out", "t"]) == 0
    unlink = Path.unlink

    def held(path, missing_ok=False):
        if path.name == "privacy.txt":
            raise PermissionError(13, "Permission denied")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", held)
    assert main(["export", "r.qfr", "--out", "t", "--force"]) == 1
    assert "t is whole, but privacy.txt of an earlier one cannot be removed: Permission" in capsys.readouterr().err
    assert exports.find_earlier(Path("t")) == ("table-0001.csv", "table-0002.csv", "index.csv")


@pytest.mark.parametrize("words", [["--level", "0.5"], ["--level", "7"], ["--total", "9"], ["--table", "a"]])
def test_what_is_for_models_is_refused_for_a_release(words, here, capsys):
    assert main(["export", "r.qfr", "--out", "t", *words]) == 1
    assert "--table, --level, --total and --release are for a model" in capsys.readouterr().err
    assert not Path("t").exists()


def test_a_table_that_is_asked_for_twice_is_written_once(here):
    assert main(["export", "m.qfm", "--table", "a,b", "--table", "a,b", "--table", "b", "--out", "t"]) == 0
    assert names("t") == {"table-0001.csv", "table-0002.csv", "dictionary.csv", "privacy.txt", "index.csv"}


def test_an_attribute_whose_name_holds_a_comma_has_its_table(here):
    domain = qf.Domain({"Ort": 2, "Einkommen, netto": 2})
    qf.Model(domain, {tuple(domain): [[0.0, 1.0], [0.0, 0.0]]}).save("comma.qfm")
    for number, text in enumerate(("Ort,Einkommen, netto", 'Ort,"Einkommen, netto"')):
        assert main(["export", "comma.qfm", "--table", text, "--out", f"t{number}"]) == 0
        assert Path(f"t{number}", "table-0001.csv").read_text().startswith('Ort,"Einkommen, netto",share')


LIVE = qf.Domain({'=HYPERLINK("x")': ["-5", "@cmd", "'=1", "no"], "b": ["+49 30", "=1", "-2.5e3", "5-9"], "c": [-1, 2]})
TOLD = "the apostrophe is no part of the text"


def cells(path: str) -> list[list[str]]:
    with open(path, newline="") as file:
        return list(csv.reader(file))


def test_no_text_in_csv_is_a_formula(here, capsys):
    first, second, third = LIVE
    qf.Model(LIVE, {(first, second): np.zeros((4, 4)), (third,): [0.0, 0.0]}).save("live.qfm")
    values = {(first, second): np.full((4, 4), -3.0), (third,): [-1.0, 9.0]}
    qf.Release.from_tables(LIVE, values, noise=qf.Laplace(2.0), total=9).save("live.qfr")
    assert main(["export", "live.qfm", "--table", f'"{first.replace(chr(34), chr(34) * 2)}",b', "--out", "m"]) == 0
    assert main(["export", "live.qfr", "--out", "r"]) == 0
    assert TOLD in capsys.readouterr().out
    for path in ("m/table-0001.csv", "r/table-0001.csv"):
        head, *rows = cells(path)
        assert head[:2] == ["'" + first, "b"]
        assert list(dict.fromkeys(row[0] for row in rows)) == ["-5", "'@cmd", "''=1", "no"]
        assert list(dict.fromkeys(row[1] for row in rows)) == ["'+49 30", "'=1", "-2.5e3", "5-9"]
    assert {row[2] for row in cells("r/table-0001.csv")[1:]} == {"-3.0"}
    assert cells("r/table-0002.csv")[1:] == [["-1", "-1.0"], ["2", "9.0"]]
    assert cells("m/index.csv")[1][1] == f"'{first} × b"
    dictionary = cells("m/dictionary.csv")
    assert ["'" + first, "'@cmd", "a value of the attribute"] in dictionary
    assert TOLD in dictionary[-1][2]
    assert TOLD in cells("r/index.csv")[-1][-1]
    every = [row for folder in ("m", "r") for file in Path(folder).glob("*.csv") for row in cells(str(file))]
    for text in (text for row in every for text in row if text[:1] in ("=", "+", "-", "@", "\t", "\r")):
        assert float(text) < 0  # else it is no number: ValueError
    for source in ("live.qfm", "live.qfr"):
        assert main(["export", source, "--format", "parquet", "--out", source + ".p"]) == 0
        held = pq.read_table(Path(source + ".p", "table-0001.parquet")).column_names
        assert held[0] == first
    for source in ("m.qfm", "r.qfr"):
        assert main(["export", source, "--out", source + ".csv-tables"]) == 0
        assert not any(TOLD in path.read_text() for path in Path(source + ".csv-tables").iterdir())


#: Texts that a spreadsheet could run, however it takes the file apart, and what people get.
DEFUSED = {
    "=1+1": "'=1+1",
    "x;=1+1": "x;'=1+1",
    "x,=1+1": "x,'=1+1",
    "x|@SUM(1)": "x|'@SUM(1)",
    "x\t-1-1": "x\t'-1-1",
    "\n=1": "'\n'=1",
    "\r=1": "'\r'=1",
    "\tx": "'\tx",
    "\0x": "'\0x",
    "x\n=1": "x\n'=1",
    " =1": "' =1",
    "\xa0=1": "'\xa0=1",
    "\ufeff=1": "'\ufeff=1",
    '"=1': "'\"=1",
    'x";"=1': 'x";\'"=1',
    "\uff1d1": "'\uff1d1",
    "x;\uff0b1": "x;'\uff0b1",
    "\ufe631": "'\ufe631",
    "'=1": "''=1",
    "x;'=1": "x;''=1",
    "+49 30": "'+49 30",
}
#: Texts that are as they are.
HARMLESS = ("", "-5", "-2.5e3", " -5", "1;-5", "5-9", "a=b", "a, b", "it's", "'tis", "x;y", "65+", "a -b", "日本語")


@pytest.mark.parametrize("text", [*DEFUSED, *HARMLESS], ids=repr)
def test_formulas_are_defused_wherever_a_cell_may_begin(text):
    assert defuse_formulas(text) == DEFUSED.get(text, text)
    for separator in ",;|\t\n":  # as a spreadsheet would take it apart: no cell begins a formula, but for numbers
        for cell in defuse_formulas(text).split(separator):
            start = unicodedata.normalize("NFKC", cell.strip(' \t\r\n\0\xa0\ufeff"'))
            assert start[:1] not in ("=", "+", "-", "@") or float(start) < 0


def test_signs_of_every_width_and_size_are_known():
    signs = [chr(i) for i in range(sys.maxunicode + 1) if unicodedata.normalize("NFKC", chr(i)) in ("=", "+", "-", "@")]
    assert len(signs) == 17
    assert [sign for sign in signs if defuse_formulas(f"{sign}A1") != f"'{sign}A1"] == []


@given(st.lists(st.text("'\"=+-@＝\t\r\n;, 5.ea", max_size=6), unique=True))
def test_texts_stay_apart(texts):
    assert len({defuse_formulas(text) for text in texts}) == len(texts)
    for text in texts:
        left = iter(defuse_formulas(text))
        assert all(c in left for c in text)  # apostrophes come in, and nothing is lost or moved
        assert len(defuse_formulas(text).replace("'", "")) == len(text.replace("'", ""))


ODD = qf.Domain({"x;=1": [*DEFUSED, "no"], '"@': ["\r", "a\rb", 'a"b', "a,b", "a;b", "-5-10"], "n": [-1, 2]})


@pytest.fixture
def odd(here):
    """A model and a release of attributes with odd names and labels."""
    qf.Model(ODD, {tuple(ODD): np.zeros(ODD.shape)}).save("odd.qfm")
    values = {tuple(ODD): np.full(ODD.shape, -3.0)}
    qf.Release.from_tables(ODD, values, noise=qf.Laplace(2.0), total=9).save("odd.qfr")
    return here


@pytest.mark.parametrize("source", ["odd.qfm", "odd.qfr"])
def test_programs_get_every_text_as_it_is(odd, source, capsys):
    asked = ["--table", ",".join('"' + name.replace('"', '""') + '"' for name in ODD)] if source == "odd.qfm" else []
    for form, options in (("people", []), ("programs", ["--for-programs"])):
        assert main(["export", source, *asked, "--out", form, *options]) == 0
        assert (TOLD in capsys.readouterr().out) == (form == "people" and source == "odd.qfr")
        change = defuse_formulas if form == "people" else str
        head, *rows = cells(f"{form}/table-0001.csv")
        assert head[:3] == [change(name) for name in ODD]
        expected = [tuple(str(change(label)) for label in labels) for labels in product(*map(ODD.labels, ODD))]
        assert [tuple(row[:3]) for row in rows] == expected
        told = "".join(path.read_text() for path in Path(form).iterdir())
        assert (TOLD in told) == (form == "people")


def test_records_are_for_people_unless_programs_are_named(odd, capsys):
    asked = ["sample", "odd.qfm", "--rows", "4000", "--seed", "1", "--out"]
    assert main([*asked, "people.csv"]) == 0
    assert TOLD in capsys.readouterr().out
    assert main([*asked, "people.csv", "--force"]) == 0  # it knows its own columns again
    assert main([*asked, "programs.csv", "--for-programs"]) == 0
    assert main([*asked, "people.csv", "--for-programs", "--force"]) == 0
    assert main([*asked, "people.csv", "--force"]) == 0
    capsys.readouterr()
    assert main([*asked, "records.parquet"]) == 0
    assert TOLD not in capsys.readouterr().out
    head, *rows = cells("people.csv")
    assert head == [defuse_formulas(name) for name in ODD]
    for i, name in enumerate(ODD):
        assert {row[i] for row in rows} == {str(defuse_formulas(label)) for label in ODD.labels(name)}
    head, *plain = cells("programs.csv")
    assert head == list(ODD)
    assert [[str(defuse_formulas(text)) for text in row] for row in plain] == rows
    table = pq.read_table("records.parquet")
    assert [list(map(str, row.values())) for row in table.to_pylist()] == plain
    read = pyarrow.csv.read_csv("programs.csv", parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True))
    assert qf.load("odd.qfm").log_prob(read) == pytest.approx(qf.load("odd.qfm").log_prob(table))


def test_python_is_told_when_texts_are_changed(here):
    frame = qf.Model(ODD, {(name,): np.zeros(len(ODD.labels(name))) for name in ODD}).sample(20, seed=0)
    with pytest.warns(UserWarning, match=TOLD) as told:
        frame.save("odd.csv")
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame.save("odd.csv", for_programs=True)
        frame.save("odd.parquet")


def test_a_workbook_holds_texts_as_texts(here):
    openpyxl = pytest.importorskip("openpyxl")
    first = next(iter(LIVE))
    qf.people_tables(qf.Model(LIVE, {(first,): np.zeros(4)}), [first]).save("live.xlsx", "xlsx")
    sheet = openpyxl.load_workbook("live.xlsx")["Table 1"]
    column = [sheet.cell(row, 1) for row in range(1, 6)]
    assert [cell.value for cell in column] == [first, *LIVE.labels(first)]
    assert {cell.data_type for cell in column} <= {"s", "inlineStr"}
    # Whoever edits such a cell, or types Enter in it, would make it a formula if it were not marked as a text.
    assert [cell.quotePrefix for cell in column] == [True, False, True, True, False]
    assert [cell.font.bold for cell in column] == [True, False, False, False, False]


def test_the_index_of_a_release_can_be_read_by_programs(here):
    domain = qf.Domain({"a": ["no", "yes"], "b, c": ["no", "yes"], "d": ["no", "yes"]})
    tied = [("a", "b, c"), ("b, c", "d")]
    tables = {tied[0]: [[1.0, 2.0], [3.0, 4.0]]}
    release = qf.Release.from_tables(domain, tables, noise=qf.Laplace(2.0), total=9.5, ties=[tied])
    release.save("tied.qfr")
    assert main(["export", "tied.qfr", "--out", "t"]) == 0
    with open("t/index.csv", newline="") as file:
        table, total, *remarks = csv.DictReader(file)
    assert json.loads(table["cliques"]) == [list(clique) for clique in tied]
    assert (table["file"], table["noise"], float(table["scale"]), table["value"]) == (
        "table-0001.csv",
        "laplace",
        2,
        "",
    )
    assert (total["file"], total["cliques"], total["noise"], float(total["value"])) == ("total", "", "public", 9.5)
    assert [(row["file"], row["cliques"]) for row in remarks] == [("remark", "")] * 2
    assert all(row["value"] for row in remarks)


def test_an_index_of_the_older_kind_is_known(here):
    assert main(["export", "r.qfr", "--out", "t"]) == 0
    rows = cells("t/index.csv")
    with open("t/index.csv", "w", newline="") as file:
        csv.writer(file).writerows(row[:-1] for row in rows)
    assert exports.find_earlier(Path("t")) == ("table-0001.csv", "table-0002.csv", "index.csv")
    assert main(["export", "r.qfr", "--out", "t", "--force"]) == 0
    assert cells("t/index.csv") == rows


def test_what_is_no_export():
    assert exports.find_earlier(Path("nowhere")) is None
