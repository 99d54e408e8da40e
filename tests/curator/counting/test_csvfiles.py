"""CSV files of other separators and encodings: read right, hinted at where not, and still one line one record."""

import encodings
import gzip
import json
import pkgutil
import random
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import quietfield as qf
from quietfield.cli import main
from quietfield.cliques import Structure
from quietfield.curator.counting import columns, count, lines
from quietfield.curator.counting.csvfiles import CsvFile, encoding_name, find_coding
from quietfield.curator.counting.statfiles import StatFile
from quietfield.errors import Error, FileError
from quietfield.privacy.units import Rows, statistics
from quietfield.schema import Labels, Schema

SCHEMA = Schema({"âge": Labels(("jeune", "âgé"), null="none", unknown="other"), "b": Labels((0, 1), unknown=9)})
ASKED = statistics(Structure((("âge", "b"),)), SCHEMA.domain, Rows(1), "add_remove", True)
TEXT = 'âge{0}b\njeune{0}0\n"âgé"{0}1\nâgé{0}1\r\n{0}0\nvieux{0}2\n'
TRUE = [[1, 0, 0], [0, 2, 0], [1, 0, 0], [0, 0, 1]]
PLAIN = Schema({"a": Labels(("x", "é"), unknown="other"), "b": Labels((0, 1), unknown=9)})
ENCODINGS = ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be", "gb18030", "utf-8-sig", "iso8859-15", "mac-roman"]


def tables(source: Any, schema: Schema = SCHEMA) -> Any:
    first, second = schema
    asked = statistics(Structure(((first, second),)), schema.domain, Rows(1), "add_remove", True)
    return count(source, schema, asked, Rows(1)).tables[0]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("sign", [",", ";", "\t", "|", "^", "-", " "])
def test_any_separator_and_encoding(tmp_path: Path, encoding: str, sign: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(TEXT.format(sign).encode(encoding))
    source = CsvFile(path, sign, encoding)
    assert tables(source).tolist() == TRUE
    assert dict(columns(source)) == {"âge": "text", "b": "text"}
    assert lines.count_lines(source) == (0, 0, 0, 5)


def test_any_name_and_compressed(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_bytes(TEXT.format(",").encode())
    assert tables(CsvFile(tmp_path / "rows.txt")).tolist() == TRUE
    (tmp_path / "rows.tsv.gz").write_bytes(gzip.compress(TEXT.format("\t").encode("utf-16")))
    assert tables(CsvFile(tmp_path / "rows.tsv.gz", encoding="utf-16")).tolist() == TRUE
    (tmp_path / "more.tsv.gz").write_bytes(gzip.compress(TEXT.format("\t").encode("utf-16")))
    assert tables(CsvFile(str(tmp_path / "*.tsv.gz"), encoding="utf-16")).sum() == 2 * 5


@pytest.mark.parametrize("encoding", ["utf-16-le", "cp932", "latin-1"])
def test_blocks_may_end_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    path, text = tmp_path / "rows.csv", "a,b\n" + "".join(f"{'xé'[i % 2]},{i % 2}\n" for i in range(40))
    text = text.replace("é", "ア") if encoding == "cp932" else text
    schema = Schema({"a": Labels(("x", "ア" if encoding == "cp932" else "é")), "b": [0, 1]})
    path.write_bytes(text.encode(encoding))
    for block in (6, 8, 10, 22, 64):
        monkeypatch.setattr(lines, "BLOCK", block)
        assert tables(CsvFile(path, encoding=encoding), schema).tolist() == [[20, 0], [0, 20]]


@given(
    st.sampled_from(["utf-16-le", "utf-16-be", "cp1252", "cp932", "gb18030", "utf-8"]),
    st.lists(st.sampled_from(["x,0", "x,1", '"x",1', ",0"]), max_size=6),
    st.integers(0, 6),
    st.binary(max_size=12),
)
@example("utf-16-le", ["x,0", "x,1"], 1, b"\x00\xd8")
@example("utf-16-be", ["x,0", "x,1"], 1, b"\xd8\x00")
@example("cp932", ["x,0", "x,1"], 1, b"x,0\x81")
@example("cp1252", ["x,0", "x,1"], 1, b"\x81")
def test_a_line_changes_nothing_but_itself(
    tmp_path_factory: pytest.TempPathFactory, encoding: str, good: list[str], place: int, bad: bytes
) -> None:
    """Where characters are pairs of bytes, a line is made of pairs too: that is what a writer can write."""
    end = "\n".encode(encoding)
    if len(end) == 2:
        bad = bad[: len(bad) // 2 * 2]
        if any(bad[i : i + 2] == end for i in range(0, len(bad), 2)):
            return
    elif b"\n" in bad:
        return
    folder = tmp_path_factory.mktemp("lines")
    whole = [line.encode(encoding) for line in ("a,b", *good)]
    (folder / "good.csv").write_bytes(end.join(whole) + end)
    (folder / "bad.csv").write_bytes(end.join([*whole[: place + 1], bad, *whole[place + 1 :]]) + end)
    before, after = (tables(CsvFile(folder / f"{name}.csv", encoding=encoding), PLAIN) for name in ("good", "bad"))
    assert (after - before).min() == 0
    assert (after - before).sum() <= 1


@pytest.mark.parametrize("encoding", ["utf-16-le", "latin-1", "cp932"])
def test_a_line_that_is_too_long_is_no_record_wherever_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setattr(lines, "LONGEST", 64)
    path, end = tmp_path / "rows.csv", "\n".encode(encoding)
    for size in (29, 30, 31, 61, 62, 63):
        for ahead in (0, 3):
            good, long = "x,0".encode(encoding), ("x," + "0" * size).encode(encoding)
            path.write_bytes(end.join(["a,b".encode(encoding), *[good] * ahead, long, good]) + end)
            monkeypatch.setattr(lines, "BLOCK", 32)
            found = tables(CsvFile(path, encoding=encoding), PLAIN)
            assert found.sum() == ahead + 1 + (len(long) <= 64), (size, ahead)


@pytest.mark.parametrize("name", sorted(module.name for module in pkgutil.iter_modules(encodings.__path__)))
def test_no_text_makes_an_encoding_fail_or_speak(name: str) -> None:
    try:
        codec = encoding_name(name)
    except Error:
        return
    draw = random.Random(1)
    texts = [draw.randbytes(draw.randrange(1, 9)) for _ in range(500)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in (*texts, b"\xff" * 300, b"xn--\xff", b"\\N{", b"\\x", b"\\d\\q", b"\\ud800"):
            text.decode(codec, "replace")


@pytest.mark.parametrize("name", ["unicode_escape", "raw_unicode_escape", "idna", "punycode", "undefined"])
def test_codecs_that_are_no_encodings_of_files_are_refused(name: str) -> None:
    with pytest.raises(Error, match="there is no encoding"):
        encoding_name(name)
    with pytest.raises(Error, match="there is no encoding"):
        StatFile("survey.sav", encoding=name)


@pytest.mark.parametrize("encoding", ["utf-7", "iso2022_jp", "hz", "cp037", "base64", "utf-32", "nothing", 3])
def test_encodings_with_a_memory_are_refused(encoding: Any) -> None:
    with pytest.raises(Error, match=r"convert it to UTF-8|no encoding"):
        CsvFile("rows.csv", encoding=encoding)
    with pytest.raises(Error):
        find_coding(encoding)


@pytest.mark.parametrize("sign", ["", ";;", "a", "0", '"', "\n", "\0", "é", 3])
def test_what_no_delimiter_is(sign: Any) -> None:
    with pytest.raises(Error, match="a delimiter is one sign"):
        CsvFile("rows.csv", sign)


def test_a_path_is_a_path() -> None:
    with pytest.raises(Error, match="not by a int"):
        CsvFile(3)  # type: ignore[arg-type]


# Hints


def ask(source: Any, ledger: Any = None, schema: Schema = PLAIN) -> qf.Release:
    return qf.release(source, schema, [tuple(schema)], epsilon=1, unit=qf.Rows(1), ledger=ledger)


@pytest.fixture
def ledger(tmp_path: Path) -> qf.Ledger:
    return qf.Ledger.create(tmp_path / "budget.db", epsilon=1, unit=qf.Rows(1))


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b"a;b\nx;0\n", "--delimiter ';'"),
        (b"a\tb\nx\t0\n", "--delimiter tab"),
        (b"a|b\nx|0\n", "--delimiter '|'"),
        (b"a;c\nx;0\n", "delimiter=';'"),
        (b'"a";"b"\n"x";"0"\n', "--delimiter ';'"),
        ("a,b\nx,0\n".encode("utf-16"), "encoding='utf-16'"),
        ("a,b\nx,0\n".encode("utf-16-le"), "--encoding"),
        ("é,b\nx,0\n".encode("latin-1"), "--encoding cp1252"),
        (b"A,b\nx,0\n", "capital letters and spaces count"),
        (b"a,b\rx,0\r", "carriage return alone"),
        (b"sep=;\na;b\nx;0\n", "a note to Excel"),
    ],
)
def test_a_first_line_of_another_kind_is_hinted_at_before_the_charge(
    tmp_path: Path, ledger: qf.Ledger, content: bytes, hint: str
) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(Error) as caught:
        ask(path, ledger)
    assert hint in str(caught.value)
    assert ledger.spent == 0
    assert "'x'" not in str(caught.value)


def test_folders_and_files_of_other_kinds_are_told(tmp_path: Path) -> None:
    (tmp_path / "year").mkdir()
    with pytest.raises(FileError, match=r"is a folder; name the files in it, such as .*year/\*\.csv"):
        ask(tmp_path / "year")
    for name, why in (("a.parquet", "check that it is whole"), ("a.txt", "delimiter=','"), ("a.db", "from Python")):
        (tmp_path / name).write_bytes(b"a,b\nx,0\n")
        with pytest.raises(FileError, match=why):
            ask(tmp_path / name)


def test_what_a_hint_says_works(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a;b\nx;0\n")
    assert ask(CsvFile(path, delimiter=";")).tables["a", "b"].shape == (3, 3)
    path.write_bytes("a,b\nx,0\n".encode("utf-16"))
    assert ask(CsvFile(path, encoding="utf-16")).tables["a", "b"].shape == (3, 3)
    path.write_bytes("a,b\nx,0\n".encode("utf-16-le"))
    with pytest.raises(FileError, match="utf-16-le or utf-16-be"):
        ask(CsvFile(path, encoding="utf-16"))


def test_messages_do_not_depend_on_records(tmp_path: Path) -> None:
    said = set()
    for value in (b"x", b"HIV+", b"\xff", b'"', b"a;b"):
        for head in (b"a;b\n", b"p,q\n", b"\xe9\n"):
            (tmp_path / "rows.csv").write_bytes(head + value + b";0\n")
            with pytest.raises(Error) as caught:
                ask(tmp_path / "rows.csv")
            said.add(str(caught.value))
    assert len(said) == 3


@pytest.mark.parametrize(("encoding", "head"), [
    ("utf-8", "âge,b"), ("utf-8", "p,q"), ("cp1252", "âge,b"), ("shift_jis", "a,b"), ("utf-16", "a,b"),
    ("utf-16-be", "a,\u0d00\u0a0d"),
])  # fmt: skip
def test_nor_where_lines_end_with_a_carriage_return_alone(encoding: str, head: str, tmp_path: Path) -> None:
    """Without a line feed the whole file looks like its first line, records and all."""
    said = set()
    returned = "\r".encode("utf-16-le" if encoding == "utf-16" else encoding)  # without a byte order mark
    start = head.encode(encoding) + returned
    values = (b"", b"x,0\r", b"\xff,0", b"x\0,0", b"\x81\x8d,0", b'"x,0', b"\r\r", b"x" * 2**17, b"x,0\r" * 2 + b"y\n")
    for value in values:
        (tmp_path / "rows.csv").write_bytes(start + value)
        with pytest.raises(Error) as caught:
            ask(qf.CsvFile(tmp_path / "rows.csv", encoding=encoding))
        said.add(str(caught.value))
    assert len(said) == 1
    assert "carriage return alone" in said.pop()


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16", "utf-16-be"])
def test_carriage_returns_before_line_feeds_are_part_of_the_end(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes("âge,b\r\njeune,0\r\nâgé,1\r\n".encode(encoding))
    assert ask(qf.CsvFile(tmp_path / "rows.csv", encoding=encoding), schema=SCHEMA).tables


def test_records_of_another_encoding_do_not_show_in_a_release(tmp_path: Path) -> None:
    """That they are not UTF-8 is private; `check` tells the curator."""
    (tmp_path / "rows.csv").write_bytes(b"a,b\nx,0\n\xe9,0\n")
    (tmp_path / "clean.csv").write_bytes(b"a,b\nx,0\n")
    assert ask(tmp_path / "rows.csv").notes == ask(tmp_path / "clean.csv").notes


# The command line


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    SCHEMA.save("schema.json")
    Path("rows.csv").write_bytes(TEXT.format(";").encode("cp1252"))
    qf.Ledger.create("budget.db", epsilon=4, unit=qf.Rows(1))
    return tmp_path


ASKED_FOR = ["--schema", "schema.json", "--structure", "chain", "--epsilon", "1", "--unit", "rows:1"]
SAID = ["--delimiter", ";", "--encoding", "cp1252"]


def test_the_command_line_takes_both(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["release", "rows.csv", *ASKED_FOR, "--ledger", "budget.db"]
    assert main([*asked, "--out", "x.qfr"]) == 1
    assert "--encoding cp1252" in capsys.readouterr().err
    assert main([*asked, "--out", "x.qfr", "--encoding", "cp1252"]) == 1
    assert "--delimiter ';'" in capsys.readouterr().err
    assert qf.Ledger("budget.db").spent == 0
    assert main([*asked, "--out", "x.qfr", *SAID]) == 0
    assert qf.Ledger("budget.db").spent == 1
    Path("r.toml").write_text('data = "rows.csv"\ndelimiter = ";"\nencoding = "cp1252"\nout = "y.qfr"\n')
    assert main(["release", "--config", "r.toml", *ASKED_FOR, "--ledger", "budget.db"]) == 0


def test_check_counts_lines_of_another_encoding(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("plain.csv").write_bytes(b"\xc3\xa2ge,b\njeune,0\n\xe2g\xe9,1\n")
    assert main(["inspect", "plain.csv", "--schema", "schema.json"]) == 0
    said = capsys.readouterr().out
    assert "1 of 2 lines is broken" in said
    assert "1 of them is not UTF-8: name the encoding" in said
    assert main(["inspect", "rows.csv", "--schema", "schema.json", *SAID]) == 0
    assert "broken" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("encoding", "foreign"), [("utf-8", b"\xe9"), ("cp1252", b"\x81"), ("shift_jis", b"\x81\x20"), ("latin-1", None)]
)
def test_lines_with_nuls_are_broken_and_their_encoding_is_not_blamed(
    encoding: str, foreign: bytes | None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = qf.Schema({"a": ["x"]})
    schema.save("a.json")
    Path("nuls.csv").write_bytes(b"a,b\nx,0\nx\0,0\n\0\nx\rx,0\n")
    for more, blamed in ((b"", 0), (b"" if foreign is None else foreign + b",0\n", 0 if foreign is None else 1)):
        with open("nuls.csv", "ab") as file:
            file.write(more)
        assert main(["inspect", "nuls.csv", "--schema", "a.json", "--encoding", encoding, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["broken_lines"], found["not_in_encoding"]) == (3 + blamed, blamed)


def test_a_schema_of_one_column_makes_one_wonder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "rows.csv", "--header", "--encoding", "cp1252"]) == 0
    said = capsys.readouterr()
    assert "Warning: the first line of rows.csv is one name." in said.err
    assert "--delimiter ';'" in said.err
    assert main(["schema", "rows.csv", "--header", *SAID]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert '"âge"' in said.out
    Path("one.csv").write_text("only\n1\n")
    assert main(["schema", "one.csv", "--header"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("data", "extra", "why"),
    [
        ("rows.parquet", ["--delimiter", ";"], "files of text"),
        ("rows.sav", ["--delimiter", ";"], "for CSV files"),
        ("rows.csv", ["--delimiter", "xx"], "a delimiter is one sign"),
        ("rows.csv", ["--encoding", "klingon"], "no encoding"),
    ],
)
def test_what_does_not_fit_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], data: str, extra: list[str], why: str
) -> None:
    assert main(["release", data, *ASKED_FOR, "--no-ledger", "--out", "x.qfr", *extra]) == 1
    assert why in capsys.readouterr().err


def test_whatever_reads_records_is_told_how(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A hint at an option is of use only where the command has it."""
    head, _, rows = Path("rows.csv").read_bytes().rstrip(b"\n").partition(b"\n")
    many = b"\n".join([head, *[rows] * 300])  # so many that no noise is larger than their number
    Path("rows.csv").write_bytes(many + b"\n")
    release = qf.release(
        qf.CsvFile("rows.csv", ";", "cp1252"), SCHEMA, [tuple(SCHEMA)], epsilon=1, unit=qf.Rows(1), ledger=None
    )
    release.save("r.qfr")
    qf.Model(SCHEMA.domain, {}).save("m.qfm")
    named = ["--records", "rows.csv", "--schema", "schema.json"]
    for asked in (
        ["score", "m.qfm", *named[1:], "--confidential"],
        ["report", "r.qfr", "--model", "m.qfm", *named, "--confidential"],
        ["score", "m.qfm", *named[1:], "--epsilon", "1", "--ledger", "budget.db"],
    ):
        assert main(asked) == 1
        assert "--encoding cp1252" in capsys.readouterr().err
        assert main([*asked, "--encoding", "cp1252"]) == 1
        assert "--delimiter ';'" in capsys.readouterr().err
        before = qf.Ledger("budget.db").spent
        assert main([*asked, *SAID]) == 0, capsys.readouterr().err
        assert (before, qf.Ledger("budget.db").spent) == (0, 1 if "--epsilon" in asked else 0)
    for alone in (SAID[:2], SAID[2:], ["--values", "labels"]):
        capsys.readouterr()
        assert main(["report", "r.qfr", "--model", "m.qfm", *alone]) == 1
        assert "they go with --records" in capsys.readouterr().err
