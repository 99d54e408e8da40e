"""``quietfield schema`` and ``quietfield inspect``."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quietfield.cli import main
from quietfield.schema import Labels, Schema

pytest.importorskip("duckdb")


@pytest.fixture
def records(tmp_path: Path) -> Path:
    table = pa.table({"sex": ["f", "m", "Smith", None], "age": [17.0, 40.0, float("nan"), 3.0], 'o"dd': [1, 2, 3, 4]})
    pq.write_table(table, tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


def test_a_starter_has_names_and_types_and_no_value(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = records.with_name("schema.json")
    assert main(["schema", str(records), "--out", str(out)]) == 0
    made = json.loads(out.read_text())
    assert [(a["name"], a["kind"]) for a in made["attributes"]] == [
        ("sex", "labels"),
        ("age", "cuts"),
        ('o"dd', "labels"),
    ]
    assert "Smith" not in out.read_text() + capsys.readouterr().out
    assert main(["schema", str(records), "--out", str(out)]) == 1
    assert "--force" in capsys.readouterr().err
    assert main(["schema", str(records), "--out", str(out), "--force"]) == 0


def test_a_starter_is_the_same_whatever_the_records_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for rows in ("", "x,1\n", 'y,"2\n"""z,3,4\n'):
        (tmp_path / "rows.csv").write_text("a,b\n" + rows)
        assert main(["schema", str(tmp_path / "rows.csv"), "--header"]) == 0
        shown.append(capsys.readouterr().out)
    assert len(set(shown)) == 1
    assert [a["name"] for a in json.loads(shown[0])["attributes"]] == ["a", "b"]


RECORDS = ["17,SMITH,HIV", "JONES,,HIV", "SMITH,2024-01-31", "SMITH,31/1/24", "SMITH, -9 ", "SMITH,SMITH", "SMITH,1e5"]


@pytest.mark.parametrize("record", [*RECORDS, "SMITH,HIV"])
def test_a_record_is_not_published_as_names(record: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, data = tmp_path / "schema.json", tmp_path / "rows.csv"
    data.write_text(f"{record}\nMILLER,x,y\n")
    asked = ["schema", str(data), "--out", str(out)]
    assert main(asked) == 1
    said = [capsys.readouterr()]
    assert "say --header" in said[0].err
    if record in RECORDS:  # a mistaken word is no excuse where the line shows what it is
        assert main([*asked, "--header"]) == 1
        said.append(capsys.readouterr())
        assert "of names above it" in said[1].err or "its own name" in said[1].err
    assert not out.exists()
    told = " ".join(shown for text in said for shown in text).replace(str(tmp_path), "")  # whose name has digits too
    assert not any(word in told for word in ("SMITH", "JONES", "HIV", "17", "2024"))
    data.write_text("name,date 2024,Größe\n" + record)
    assert main([*asked, "--header"]) == 0
    assert json.loads(out.read_text())["columns_from"].startswith("the first line of the file, which holds names by")


def test_whether_names_are_asked_for_does_not_depend_on_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = set()
    for content in (b"a,b\n", b"17,SMITH\n", b"", b"\xff\n", b'"a\n'):
        (tmp_path / "rows.csv").write_bytes(content)
        assert main(["schema", str(tmp_path / "rows.csv")]) == 1
        shown.add(capsys.readouterr().err)
    assert len(shown) == 1


def test_a_header_is_for_lines(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", str(records), "--header"]) == 1
    assert "--header is for CSV files" in capsys.readouterr().err
    assert main(["schema", str(records)]) == 0
    assert json.loads(capsys.readouterr().out)["columns_from"] == "the file's own types"


def test_a_check_is_marked_and_writes_no_file(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = records.with_name("schema.json")
    Schema({"sex": ["f", "m"], "age": [17, 40]}).save(schema)
    before = sorted(records.parent.iterdir())
    assert main(["inspect", str(records), "--schema", str(schema)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("NOT PRIVATE") == 2
    assert "'Smith' x 1" in shown
    assert "nulls  25.00%" in shown
    assert main(["inspect", str(records), "--schema", str(schema), "--json", "--common", "0"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "NOT PRIVATE" in found["warning"]
    assert [(a["null_share"], a["unknown_share"]) for a in found["attributes"]] == [(0.25, 0.25), (0.25, 0.25)]
    # Each of two records has a null in one column and an unknown value in the other: it is dropped once.
    assert (found["records"], found["dropped_records"]) == (4, 2)
    assert "In all, 2 of 4 records (50.00%) would be dropped" in shown
    assert sorted(records.parent.iterdir()) == before
    Schema({"sex": Labels(("f", "m"), null="none"), "age": Labels((17, 40), null=0, unknown=0)}).save(schema)
    assert main(["inspect", str(records), "--schema", str(schema)]) == 0
    assert "In all, 1 of 4 records (25.00%) would be dropped" in capsys.readouterr().out


def test_inspect_takes_the_schema_of_a_release_or_a_model(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema, made, learned = (str(records.with_name(name)) for name in ("schema.json", "made.qfr", "made.qfm"))
    Schema({"sex": ["f", "m"], "age": [17, 40]}).save(schema)
    asked = ["--structure", "chain", "--epsilon", "100", "--unit", "rows:1", "--no-ledger", "--out", made]
    assert main(["release", str(records), "--schema", schema, *asked]) == 0
    assert main(["fit", made, "--out", learned]) == 0
    capsys.readouterr()
    shown = {}
    for file in (schema, made, learned):
        assert main(["inspect", str(records), "--schema", file]) == 0
        shown[file] = capsys.readouterr().out
    assert shown[schema] == shown[made] == shown[learned]
    for words, said in (
        ([str(records)], "To start one: quietfield schema"),
        ([made], "is a release and holds no records to inspect; quietfield verify"),
        ([learned], "is a model and holds no records"),
    ):
        assert main(["inspect", *words]) == 1
        assert said in capsys.readouterr().err


def test_an_unfilled_schema_is_named(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = records.with_name("schema.json")
    main(["schema", str(records), "--out", str(out)])
    assert main(["inspect", str(records), "--schema", str(out)]) == 1
    assert "'sex', 'age'" in capsys.readouterr().err


def test_a_check_tells_broken_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.csv").write_text('a,b\nx,1\n"x,1\nx\n')
    Schema({"a": ["x"]}).save(tmp_path / "schema.json")
    asked = ["inspect", str(tmp_path / "rows.csv"), "--schema", str(tmp_path / "schema.json")]
    assert main(asked) == 0
    assert "2 of 3 lines are broken" in capsys.readouterr().out
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["broken_lines"] == 2


@pytest.mark.parametrize("damage", ["cut short", "not compressed"])
@pytest.mark.parametrize("rows", [3, 200_000])
def test_a_damaged_file_is_told_in_a_sentence(
    damage: str, rows: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = b"a,b\n" + b"".join(b"x,%d\n" % (row * 7919 % 10_007) for row in range(rows))
    packed = gzip.compress(whole)
    data, schema = tmp_path / "rows.csv.gz", tmp_path / "schema.json"
    data.write_bytes(packed[: len(packed) * 9 // 10] if damage == "cut short" else whole)
    Schema({"a": ["x"]}).save(schema)
    out = str(tmp_path / "rows.qfr")
    release = ["release", str(data), "--schema", str(schema), "--structure", "chain", "--epsilon", "1"]
    release += ["--unit", "rows:1", "--no-ledger", "--out", out]
    for asked in (["inspect", str(data), "--schema", str(schema)], release, ["schema", str(data), "--header"]):
        code, shown = main(asked), capsys.readouterr().err
        if code:
            assert "unforeseen" not in shown
            assert "cannot read" in shown or "could not be read" in shown
        else:  # the names of the columns stand in the part that is there
            assert (asked[0], damage, rows) == ("schema", "cut short", 200_000)
    assert not Path(out).exists()


def test_a_folder_is_not_overwritten(
    records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(records.parent)
    assert main(["schema", str(records), "--out", ".", "--force"]) == 1
    assert "cannot write ." in capsys.readouterr().err
