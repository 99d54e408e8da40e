"""One line of a CSV file is one record, and a broken one changes nothing else."""

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quietfield.cliques import Structure
from quietfield.curator.counting import count, lines, open_engine
from quietfield.curator.counting.csvfiles import CsvFile
from quietfield.errors import Error
from quietfield.privacy.units import Rows, statistics
from quietfield.schema import Labels, Schema

SCHEMA = Schema({"a": Labels(("x", "y"), null="none", unknown="other"), "b": Labels((0, 1), null=8, unknown=9)})
ASKED = statistics(Structure((("a", "b"),)), SCHEMA.domain, Rows(1), "add_remove", True)
BROKEN = [
    b'"x,0',
    b"x",
    b"x,0,1,2",
    b'x,"0',
    b"\xff\xfe,0",
    b'x"y"",1"',
    b"\x00,\x00",
    b'"',
    b"x\r,0",
    b'"x"y,0',
    b"x,0\r\r",
]


def rows(path: Path, wanted: list[str]) -> list[dict[str, Any]]:
    _, batches = lines.open_columns([str(path)], wanted, CsvFile(path))
    return [row for batch in batches() for row in batch.to_pylist()]


def tables(path: Path) -> Any:
    return count(path, SCHEMA, ASKED, Rows(1)).tables[0]


# Arrow prints what it cannot decode on the error stream, which pytest makes a warning: that would be a leak.
@pytest.mark.filterwarnings("error")
@given(
    st.lists(st.sampled_from([b"x,0", b"y,1", b'"x",1', b",0", b"z,", b'"y","0"']), max_size=8),
    st.integers(0, 8),
    st.sampled_from(BROKEN) | st.binary(max_size=12).filter(lambda line: b"\n" not in line and bool(line.strip(b"\r"))),
)
def test_a_broken_line_moves_one_record_at_most(
    tmp_path_factory: pytest.TempPathFactory, good: list[bytes], place: int, bad: bytes
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    (folder / "good.csv").write_bytes(b"\n".join([b"a,b", *good]) + b"\n")
    (folder / "bad.csv").write_bytes(b"\n".join([b"a,b", *good[:place], bad, *good[place:]]) + b"\n")
    change = tables(folder / "bad.csv") - tables(folder / "good.csv")
    assert change.min() == 0
    assert change.sum() <= 1
    assert change.sum() == 0 or bad not in BROKEN


FIELD = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\n\r\x00"), max_size=5)


@given(st.lists(st.tuples(FIELD, FIELD, FIELD), max_size=10), st.sampled_from([(".csv", ","), (".tsv", "\t")]))
def test_what_python_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, written: list[tuple[str, str, str]], form: tuple[str, str]
) -> None:
    suffix, separator = form
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=separator, lineterminator="\n").writerows([("a", 'b "c"', "d"), *written])
    path = tmp_path_factory.mktemp("lines") / f"rows{suffix}"
    path.write_text(buffer.getvalue(), encoding="utf-8", newline="")
    expected = [{"c0": d or None, "c1": a or None} for a, _, d in written]
    assert sorted(map(repr, rows(path, ["d", "a"]))) == sorted(map(repr, expected))


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".csv.zst"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_compressed_files_and_line_ends(tmp_path: Path, suffix: str, ending: str) -> None:
    import pyarrow as pa

    data = ("\ufeffa,b" + ending + ending.join(["x,0", "", "y,1", '"x",1'])).encode()
    path = tmp_path / f"rows{suffix}"
    if suffix.endswith(".gz"):
        data = gzip.compress(data)
    elif suffix.endswith(".zst"):
        data = pa.compress(data, codec="zstd", asbytes=True)
    path.write_bytes(data)
    assert tables(path)[:2, :2].tolist() == [[1, 1], [0, 1]]


def test_blocks_do_not_cut_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n" + "x,0\ny,1\n" * 500)
    whole = tables(path)
    for size in (1, 3, 64, 1000):
        monkeypatch.setattr(lines, "BLOCK", size)
        assert (tables(path) == whole).all()


def test_headers_are_read_and_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('a,"b, c","say ""d"""\n1,2,3\n')
    assert list(open_engine(path).columns()) == ["a", "b, c", 'say "d"']
    for text, message in [("a,a\n", "more than once"), ("\n", "is empty"), ('"a\n', "quotes match")]:
        path.write_text(text)
        with pytest.raises(Error, match=message):
            open_engine(path)
