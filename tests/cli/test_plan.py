"""``quietfield plan``."""

import json

import quietfield as qf
from quietfield.cli import main


def test_plan_prints_the_figures(tmp_path, capsys):
    (tmp_path / "domain.json").write_text('{"a": 10, "b": 10, "c": 10}')
    assert main(["plan", str(tmp_path / "domain.json"), "--structure", "complete"]) == 0
    out = capsys.readouterr().out
    assert "treewidth  at most 2" in out
    assert "1,000 cells" in out
    assert "Exact inference fits." in out


def test_plan_reads_a_schema_and_answers_programs(tmp_path, capsys):
    qf.Schema({"age": qf.Cuts([18, 65]), "sex": ["f", "m"]}).save(tmp_path / "schema.json")
    assert main(["plan", str(tmp_path / "schema.json"), "--structure", "chain", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["fits"] is True
    assert figures["largest_table_cells"] == 6


def test_plan_says_what_does_not_fit(tmp_path, capsys):
    (tmp_path / "domain.json").write_text(json.dumps({f"x{i}": 10 for i in range(30)}))
    assert main(["plan", str(tmp_path / "domain.json"), "--structure", "complete"]) == 0
    assert "Does not fit: exact inference would need" in capsys.readouterr().out


def test_mistakes_get_one_sentence(tmp_path, capsys):
    assert main(["plan", str(tmp_path / "absent.json"), "--structure", "chain"]) == 1
    assert capsys.readouterr().err.startswith("Error: cannot read")
    (tmp_path / "domain.json").write_text('{"a": 2}')
    assert main(["plan", str(tmp_path / "domain.json"), "--structure", "spiral"]) == 1
    assert "is not known" in capsys.readouterr().err
