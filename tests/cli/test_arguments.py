"""Units and structures as they are typed, and what is said of those that are mistyped."""

import json
from pathlib import Path

import pytest

import quietfield as qf
from quietfield.cli import arguments, main

DOMAIN = qf.Domain({"age": 3, "sex": ["f", "m"], "smoker": 2, "visits": 4})


@pytest.mark.parametrize(
    "text", arguments.STRUCTURES.replace("CENTRE", "smoker").replace("grid:4", "grid:2").split(", ")
)
def test_every_name_that_help_lists_is_a_structure(text: str) -> None:
    domain = qf.Domain(dict.fromkeys(DOMAIN, 2))  # homogeneous needs equal sizes
    found = arguments.structure(text, domain)
    assert isinstance(found, qf.Choice) if text == "auto" else found.cliques


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nope.json", "there is no file nope.json; --structure is auto, chain, chain:2, "),
        ("no/structure", "there is no file no/structure; "),
        (".", ". is a folder; "),
        ("chain:0", "--structure chain:0: a whole number from 1 to 999,999,999 was expected, not '0'."),
        ("complete:x", "--structure complete:x: a whole number"),
        ("grid:-1", "--structure grid:-1: a whole number"),
        ("grid", "needs its number of columns, for instance grid:4"),
        ("chian", "'chian' is not known; did you mean chain?"),
        ("homogeneous:2", "'homogeneous:2' is not known; --structure is auto"),
        ("tree", "'tree' is not known"),
        ("star:smoke", "'smoke' is not an attribute; did you mean 'smoker'?"),
    ],
)
def test_structures_that_are_none(text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(qf.Error) as raised:
        arguments.structure(text, DOMAIN)
    assert said in str(raised.value)


def test_a_structure_in_a_file_or_as_json(tmp_path: Path) -> None:
    cliques = [["age", "sex"], ["sex", "visits"]]
    (tmp_path / "s.json").write_text(json.dumps(cliques))
    for text in (str(tmp_path / "s.json"), json.dumps(cliques), json.dumps({"cliques": cliques})):
        assert arguments.structure(text, DOMAIN).cliques == (("age", "sex"), ("sex", "visits"))


def test_records_are_no_schema(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("age,sex\n")
    with pytest.raises(qf.Error, match=r"holds records, and a schema was expected; start one with: quietfield schema"):
        arguments.domain(tmp_path / "people.csv")


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("rows", qf.Rows(1)),
        ("rows:1", qf.Rows(1)),
        ("rows:3", qf.Rows(3)),
        ("person:COLUMN:3", qf.Person("COLUMN", rows=3)),
        ("person:COLUMN+COLUMN:3", qf.Person(("COLUMN", "COLUMN2"), rows=3)),
        ("person:COLUMN:normalise", qf.Person("COLUMN", normalise=True)),
        ('{"kind":"person","column":"user","rows":3}', qf.Person("user", rows=3)),
    ],
)
def test_every_form_of_a_unit_is_listed_in_help_and_messages(
    text: str, unit: qf.Rows | qf.Person, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert arguments.unit(text.replace("+COLUMN", "+COLUMN2")) == unit
    with pytest.raises(qf.Error) as raised:
        arguments.unit("people")
    assert f" {text}" in str(raised.value)
    monkeypatch.setenv("COLUMNS", "1000")
    for command in ("synthesize", "release", "plan", "score", "schema"):
        assert main([command, "--help"]) == 0
        assert text in capsys.readouterr().out, command


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rows:0", "--unit rows:0: a whole number from 1 to 999,999,999"),
        ("rows:1000000000000", "a whole number from 1 to 999,999,999 was expected, not '1000000000000'."),
        ("person:id:many", "--unit person:id:many: a whole number"),
        ("people", "the unit 'people' is not understood; write rows:1"),
    ],
)
def test_units_that_are_none(text: str, said: str) -> None:
    with pytest.raises(qf.Error) as raised:
        arguments.unit(text)
    assert said in str(raised.value)
