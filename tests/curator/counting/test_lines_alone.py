"""What a line of a CSV file means depends on nothing but its own bytes."""

import tracemalloc
from pathlib import Path
from typing import Any

import ibis
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv

from quietfield.cliques import Structure
from quietfield.curator.counting import count, lines, open_engine
from quietfield.curator.counting.csvfiles import CsvFile
from quietfield.curator.release import release
from quietfield.errors import Error
from quietfield.privacy.units import Rows, statistics
from quietfield.schema import Labels, Schema

Row = tuple[str | None, ...]
SCHEMA = Schema({"a": Labels(("x", "y"), null="none", unknown="other"), "b": Labels((0, 1), null=8, unknown=9)})


def tables(path: Path, neighbours: Any = "add_remove") -> Any:
    asked = statistics(Structure((("a",), ("b",))), SCHEMA.domain, Rows(1), neighbours, True)
    return [table.tolist() for table in count(path, SCHEMA, asked, Rows(1)).tables]


def written(folder: Path, content: bytes, first: bytes = b"a,b\n") -> Path:
    path = folder / "rows.csv"
    path.write_bytes(first + content)
    return path


def plainly(line: bytes, width: int, separator: str = ",") -> list[Row]:
    """One line by the rules of the documentation, character by character: one record, or none."""
    line = line.removesuffix(b"\r")
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return []
    if not text or "\r" in text or "\0" in text:
        return []
    fields, place = [], 0
    while True:
        value = ""
        if text[place : place + 1] == '"':
            place += 1
            while text[place : place + 1] not in ('"', "") or text[place : place + 2] == '""':
                value += text[place]
                place += 2 if text[place] == '"' else 1
            if text[place : place + 1] != '"':
                return []
            place += 1
        else:
            while text[place : place + 1] not in ('"', separator, ""):
                value += text[place]
                place += 1
        fields.append(value or None)
        if place == len(text):
            break
        if text[place] != separator:
            return []
        place += 1
    return [tuple(fields)] if len(fields) == width else []


def read(path: Path, width: int) -> list[Row]:
    _, batches = lines.open_columns([str(path)], [f"h{i}" for i in range(width)], CsvFile(path))
    return [tuple(row.values()) for batch in batches() for row in batch.to_pylist()]


PIECE = st.sampled_from(
    [
        b'"',
        b'""',
        b",",
        b"\t",
        b"x",
        b"0",
        b" ",
        b"\r",
        b"\xef\xbb\xbf",
        b"\xff",
        b"\0",
        b"\xc3\xa4",
        b"\x1a",
        b"\\",
        b"'",
        *(sign.encode() for sign in "\v\f\x1c\x85\u2028\u2029"),  # where some readers end a line
        b"\x85",
    ]
)
LINE = st.lists(PIECE, max_size=9).map(b"".join) | st.sampled_from([b"x,0", b"y,1", b'"x",1', b'"y","0"', b'x","y'])


# Arrow prints what it cannot decode on the error stream, which pytest makes a warning: that would be a leak.
@pytest.mark.filterwarnings("error")
@given(
    st.lists(LINE, max_size=12),
    st.integers(1, 3),
    st.sampled_from([(".csv", ","), (".tsv", "\t")]),
    st.sampled_from([1, 3, 7, 2**22]),
    st.booleans(),
)
def test_a_file_is_the_sum_of_its_lines(
    tmp_path_factory: pytest.TempPathFactory, rows: list[bytes], width: int, form: tuple[str, str], size: int, end: bool
) -> None:
    suffix, separator = form
    names = separator.join(f"h{i}" for i in range(width)).encode()
    path = tmp_path_factory.mktemp("lines") / f"rows{suffix}"
    path.write_bytes(b"\n".join([names, *rows]) + b"\n" * end)
    expected = [row for line in rows for row in plainly(line, width, separator)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK", size)
        assert read(path, width) == expected


@given(st.lists(LINE, max_size=6), st.integers(1, 12), st.sampled_from([1, 2, 5, 2**22]))
def test_a_line_is_too_long_by_itself(
    tmp_path_factory: pytest.TempPathFactory, rows: list[bytes], longest: int, size: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "rows.csv"
    path.write_bytes(b"\n".join([b"h0,h1", *rows]))
    expected = [row for line in rows if len(line) <= longest for row in plainly(line, 2)]
    with pytest.MonkeyPatch.context() as patch:
        _, batches = lines.open_columns([str(path)], ["h0", "h1"], CsvFile(path))
        patch.setattr(lines, "BLOCK", size)
        patch.setattr(lines, "LONGEST", longest)
        assert [tuple(row.values()) for batch in batches() for row in batch.to_pylist()] == expected


def test_long_fields_stay_beside_a_broken_line(tmp_path: Path) -> None:
    good = b"".join(b'x,"' + b"1" * 140_000 + b'"\n' for _ in range(20))
    assert tables(written(tmp_path, good))[0] == [20, 0, 0, 0]
    assert tables(written(tmp_path, good + b"y,\xff\n"))[0] == [20, 0, 0, 0]


def test_byte_order_marks_are_characters_wherever_they_stand(tmp_path: Path) -> None:
    marked = b"\xef\xbb\xbfx,0\n" * 10
    for first in (b"", b"x,0\n", b"x,\xff\n", b'x,"0"\n'):
        assert tables(written(tmp_path, first + marked))[0][2] == 0
        assert tables(written(tmp_path, first + marked))[0][3] == 10  # other: U+FEFF and x


def test_a_broken_line_is_no_record_whatever_a_null_becomes(tmp_path: Path) -> None:
    for line in (b'x","y', b'"x,0', b"x", b"x,0,1", b"x,\xff", b"\0,0", b"x\r,0", b' "x",0', b'x"y",0'):
        assert tables(written(tmp_path, line + b"\n" + b"x,0\n")) == [[1, 0, 0, 0], [1, 0, 0, 0]]
    assert tables(written(tmp_path, b",\n")) == [[0, 0, 1, 0], [0, 0, 1, 0]]  # two missing values are a record


def test_a_value_with_line_breaks_is_one_record_for_each_well_formed_line(tmp_path: Path) -> None:
    """What the documentation warns of: the pieces at both ends are broken, the lines between them are lines."""
    path = written(tmp_path, b'x,0,"my text\nx,0,-\nx,0,-\nend"\ny,1,-\n', b"a,b,text\n")
    assert tables(path) == [[2, 1, 0, 0], [2, 1, 0, 0]]


def test_each_of_several_files_ends_its_last_line_and_begins_with_names(tmp_path: Path) -> None:
    marked = b"\xef\xbb\xbf"
    for i, content in enumerate((b"a,b\nx,0", marked + b"b,a\r\n0,x\r\n1,y", b"a,b", marked + b"a,b\nx,1\ny,0")):
        (tmp_path / f"part{i}.csv").write_bytes(content)
    assert tables(tmp_path / "part*.csv") == [[3, 2, 0, 0], [3, 2, 0, 0]]


def test_a_public_number_of_records_is_not_taken_from_lines(tmp_path: Path) -> None:
    path = written(tmp_path, b"x,0\n")
    with pytest.raises(Error, match="Parquet"):
        tables(path, "replace")
    with pytest.raises(Error, match="Parquet"):
        tables(tmp_path / "*.csv", "replace")


def test_a_total_alone_is_counted(tmp_path: Path) -> None:
    path = written(tmp_path, b"x,0\nx\n,\ny,1\n")
    asked = statistics(Structure(()), SCHEMA.domain, Rows(1), "add_remove", True)
    assert count(path, SCHEMA, asked, Rows(1)).total == 3


def test_broken_lines_are_told_to_the_curator(tmp_path: Path) -> None:
    assert lines.count_lines(written(tmp_path, b'x,0\n\n"x,0\ny,1,2\n\r\ny,1\r\n')) == (2, 0, 1, 4)
    assert lines.count_lines(written(tmp_path, b"x,0\n\xe9,0\ny,1,2\n\xff\r\ny,1\r\n")) == (3, 2, 0, 5)


def test_a_huge_line_is_passed_over_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    with path.open("wb") as file:
        file.write(b"a,b\nx,0\nx,")
        for _ in range(60):
            file.write(b"1" * 2**20)
        file.write(b"\ny,1\n")
    tracemalloc.start()
    try:
        assert tables(path) == [[1, 1, 0, 0], [1, 1, 0, 0]]
        assert tracemalloc.get_traced_memory()[1] < 4 * lines.LONGEST
    finally:
        tracemalloc.stop()
    assert lines.count_lines(path) == (1, 0, 0, 3)


def test_no_source_lists_its_columns(tmp_path: Path) -> None:
    """A table that was made from a file without names has somebody's record for its names."""
    duckdb = pytest.importorskip("duckdb")
    written(tmp_path, b"Smith,HIV+\nJones,HIV-\n", b"")
    table = csv.read_csv(tmp_path / "rows.csv")
    pq.write_table(table, tmp_path / "rows.parquet")
    relation = duckdb.read_csv(str(tmp_path / "rows.csv"), header=True)
    sources = [table, table.to_pandas(), tmp_path / "rows.parquet", relation, {"Smith": [1], "HIV+": [2]}]
    sources += [tmp_path / "rows.csv", polars.from_arrow(table), table.to_batches()[0], ibis.memtable(table)]
    for source in sources:
        with pytest.raises(Error, match="no column 'a', 'b'") as refused:
            release(source, SCHEMA, [("a", "b")], epsilon=1, unit=Rows(1), ledger=None)
        assert "Smith" not in str(refused.value), type(source)
        assert "HIV" not in str(refused.value), type(source)
    spelled = pa.table({" A": ["x"], "b": [0], "Smith": [1]})
    with pytest.raises(Error, match=r"no column 'a'; .* It has ' A', which is spelled otherwise") as refused:
        release(spelled, SCHEMA, [("a", "b")], epsilon=1, unit=Rows(1), ledger=None)
    assert "Smith" not in str(refused.value)


@pytest.mark.parametrize("content", [b"Smith,HIV+\nJones,HIV-\n", b"Smith,Smith\n", b"Smith,\xff\n", b'Smith,"HIV\n'])
def test_a_file_without_names_shows_nobody(tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path, content, b"")
    with pytest.raises(Error, match="the first line of") as caught:
        tables(path)
    assert "Smith" not in str(caught.value)
    assert "HIV" not in str(caught.value)
    named = written(tmp_path, b"x,0\n", 'ä,"say ""b"", twice",\n'.encode())
    assert list(open_engine(named).columns()) == ["ä", 'say "b", twice', ""]
