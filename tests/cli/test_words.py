"""One of a thing is said as one, in whatever the commands and the report show."""

import re
from pathlib import Path

import numpy as np
import pytest

import quietfield as qf
from quietfield.cli import main
from quietfield.text import plural
from tests.report.reading import read

pytest.importorskip("duckdb")
pytest.importorskip("opendp")

WRONG = re.compile(
    r"(?<![\d.,])1 (?:[a-z]+ )?(?:attributes|tables|records|cells|values|cliques|rows|steps|lines|pairs|models|"
    r"rehearsals|log-potentials)\b|row\(s\)"
)


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 tables"), (1, "1 table"), (2, "2 tables"), (1200, "1,200 tables"), (-1, "-1 tables")]
)
def test_a_number_and_its_noun(count: int, said: str) -> None:
    assert plural(count, "table") == said
    assert plural(count, "table", "tables") == said


def test_one_table_of_one_attribute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    schema = qf.Schema({"sex": ["f"]})
    schema.save("schema.json")
    Path("one.csv").write_text('sex\n"f\n')
    release = ["release", "one.csv", "--schema", "schema.json", "--structure", "chain", "--epsilon", "9", "--unit"]
    model = qf.Model(schema.domain, {("sex",): np.zeros(1)})
    model.save("one.qfm")
    for words in (
        ["inspect", "one.csv", "--schema", "schema.json"],
        ["plan", "schema.json", "--structure", "chain", "--epsilon", "1", "--records", "1"],
        [
            "plan",
            "schema.json",
            "--rehearse",
            "--structure",
            "chain",
            "--records",
            "1",
            "--epsilon",
            "1",
            "--repeats",
            "1",
        ],
        ["ledger", "create", "budget.db", "--epsilon", "20", "--unit", "rows:1"],
        [*release, "rows:1", "--ledger", "budget.db", "--dry-run"],
        [*release, "rows:1", "--ledger", "budget.db", "--out", "one.qfr"],
        ["ledger", "show", "budget.db"],
        ["export", "one.qfr", "--out", "noisy"],
        ["export", "one.qfm", "--out", "tables", "--total", "1"],
        ["sample", "one.qfm", "--rows", "1", "--out", "sample.csv"],
        ["verify", "one.qfr"],
    ):
        assert main(words) == 0, words
        shown = capsys.readouterr()
        assert WRONG.search(shown.out + shown.err) is None, words
    for found in (model, qf.Release.load("one.qfr"), model.sample(1, seed=0)):
        assert WRONG.search(repr(found) + found._repr_html_()) is None
    public = qf.Release.from_tables(schema.domain, {("sex",): [1]}, noise=qf.Laplace(1.0), total=1)
    qf.write_report("one.html", public, model)
    page = read(Path("one.html").read_text())
    assert "1 noisy table of about 1 record was published; the model in this report was learned from it alone" in (
        " ".join(page.text.split())
    )
    assert WRONG.search(" ".join(page.text.split())) is None
