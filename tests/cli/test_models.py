"""``quietfield fit``, ``query`` and ``sample``."""

import json

import numpy as np
import pytest

import quietfield as qf
from quietfield.cli import main


@pytest.fixture
def release(tmp_path):
    domain = qf.Domain({"sex": ["f", "m"], "visits": 3})
    tables = {("sex", "visits"): [[300.0, 150.0, 49.0], [210.0, 190.0, 101.0]]}
    qf.Release.from_tables(domain, tables, noise=qf.Laplace(2.0), total=1000).save(tmp_path / "r.qfr")
    return tmp_path / "r.qfr"


def test_from_release_to_answers_and_records(release, tmp_path, capsys):
    model, people = tmp_path / "m.qfm", tmp_path / "people.csv"
    assert main(["fit", str(release), "--out", str(model)]) == 0
    assert "converged   yes" in capsys.readouterr().out
    assert main(["query", str(model), "visits", "--given", "sex=m", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    expected = qf.load(model).conditional("visits", {"sex": "m"})
    assert [cell["labels"] for cell in answer["cells"]] == [[0], [1], [2]]
    np.testing.assert_allclose([cell["probability"] for cell in answer["cells"]], expected)
    assert main(["query", str(model), "sex", "visits"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 8
    assert main(["query", str(model), "sex", "--given", "visits=2"]) == 0
    capsys.readouterr()
    assert main(["sample", str(model), "--rows", "500", "--out", str(people), "--seed", "1"]) == 0
    lines = people.read_text().splitlines()
    assert lines[0].replace('"', "") == "sex,visits"
    assert len(lines) == 501


def test_fit_answers_programs(release, tmp_path, capsys):
    assert main(["fit", str(release), "-o", str(tmp_path / "m.qfm"), "--method", "naive", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["method"] == "naive"
    assert report["converged"] is True


def test_mistakes_get_one_sentence_and_write_nothing(release, tmp_path, capsys):
    model = tmp_path / "m.qfm"
    mistakes = [
        (["fit", str(tmp_path / "absent.qfr"), "-o", str(model)], "cannot read"),
        (["fit", str(release), "-o", str(tmp_path / "no" / "m.qfm")], "cannot write"),
    ]
    for words, message in mistakes:
        assert main(words) == 1
        assert message in capsys.readouterr().err
    for option in ("--method", "--inference"):
        assert main(["fit", str(release), "-o", str(model), option, "magic"]) == 2
        assert "'magic' is not one of" in capsys.readouterr().err
    assert not model.exists()
    assert main(["fit", str(release), "-o", str(model)]) == 0
    more = [
        (["query", str(model), "size"], "'size' is not an attribute"),
        (["query", str(model), "sex", "--given", "visits"], "write ATTRIBUTE=LABEL"),
        (["query", str(model), "sex", "--given", "visits=9"], "'9' is not a value of 'visits'"),
        (["query", str(release), "sex"], "not a quietfield model"),
        (["sample", str(model), "--rows", "5", "--out", str(tmp_path / "p.xls")], ".csv or .parquet"),
    ]
    capsys.readouterr()
    for words, message in more:
        assert main(words) == 1
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["--labels"]])
def test_records_that_do_not_fit_into_memory_are_refused(words, tmp_path, capsys, monkeypatch):
    """A tiny epsilon may count billions of records: drawing them takes far more than a byte a code."""
    from quietfield.models import sampling

    schema = qf.Schema({"a": 2, "b": 3})
    tables = {("a", "b"): np.full((2, 3), 300_000_000.0)}
    made = qf.Model(schema.domain, {("a", "b"): np.zeros((2, 3))}, schema=schema)
    monkeypatch.setattr(qf.Model, "total", 1_900_000_000)
    made.save(tmp_path / "m.qfm")
    monkeypatch.setattr(sampling, "available_memory", lambda: 2 * 1_900_000_000 - 1 if words else 90 * 1_900_000_000)
    assert main(["sample", str(tmp_path / "m.qfm"), "--out", str(tmp_path / "x.csv"), *words]) != 0
    assert "say how many to draw (--rows, or n)" in capsys.readouterr().err
    assert not (tmp_path / "x.csv").exists()
    noisy = qf.Release.from_tables(schema.domain, tables, noise=qf.Laplace(1e9))
    from quietfield.cli import outputs

    with pytest.raises(qf.Error, match="that is noise"):
        outputs.check_counted(noisy, "m.qfm")
    outputs.check_counted(qf.Release.from_tables(schema.domain, tables, noise=qf.Laplace(1e3)), "m.qfm")
