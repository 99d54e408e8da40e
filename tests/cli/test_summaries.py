"""``quietfield release --json``: data, and no sentences to take apart."""

import json
from pathlib import Path
from typing import Any

import pytest

import quietfield as qf
from quietfield.cli import main
from quietfield.cli.summaries import PROMISE

pytest.importorskip("duckdb")
pytest.importorskip("opendp")

ASKED = ["release", "people.csv", "--schema", "schema.json", "--structure", '[["age", "sex"]]', "--unit", "rows:1"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with records, a schema and two ledgers; no clique holds one of the attributes."""
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("age,sex,spare\n" + "".join(f"{20 + i % 60},{'fm'[i % 2]},0\n" for i in range(400)))
    qf.Schema({"age": qf.Cuts([18, 65]), "sex": ["f", "m"], "spare": [0, 1]}).save("schema.json")
    qf.Ledger.create("pure.db", epsilon=1, unit=qf.Rows(1))
    qf.Ledger.create("zcdp.db", epsilon=2, delta="1e-6", unit=qf.Rows(1), accounting_by="zcdp")
    return tmp_path


def told(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*ASKED, *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_release(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = told(["--epsilon", "1/3", "--ledger", "pure.db", "--out", "r.qfr", "--total", "yes"], capsys)
    release = qf.Release.load("r.qfr")
    assert (content["written"], content["id"], content["epsilon"]) == ("r.qfr", release.id, "1/3")
    assert (content["delta"], content["neighbours"], content["unit"]) == (None, "add_remove", release.unit)
    assert content["total"]["value"] == release.total
    noise = release.noise["age", "sex"]
    expected = {"kind": "laplace", "scale": noise.scale, "std": noise.std}
    assert content["tables"] == [{"cliques": [["age", "sex"]], "cells": 6, "interaction": False, "noise": expected}]
    assert (content["signed"], content["signers"]) == (False, [])
    paid = {"id": qf.Ledger("pure.db").id, "number": 1, "cost": "1/3", "remaining": "2/3"}
    assert content["ledger"] == paid
    assert content["notes"] == list(release.notes)
    assert len(content["warnings"]) == 1
    assert "no clique holds 'spare'" in content["warnings"][0]


def test_verify_tells_the_same(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = told(["--epsilon", "1/3", "--no-ledger", "--out", "r.qfr"], capsys)
    assert main(["verify", "r.qfr", "--json"]) == 0
    verified = json.loads(capsys.readouterr().out)
    for name in (
        "id",
        "epsilon",
        "delta",
        "sensitivity",
        "neighbours",
        "unit",
        "protects",
        "signed",
        "signers",
        "notes",
    ):
        assert verified[name] == content[name]
    assert verified["trusted"] is False
    domain = qf.Domain({"a": 2})
    qf.Release.from_tables(domain, {"a": [3.0, 4.0]}, noise=qf.Laplace(1.0)).save("elsewhere.qfr")
    assert main(["verify", "elsewhere.qfr", "--json"]) == 0
    elsewhere = json.loads(capsys.readouterr().out)
    assert list(elsewhere) == list(verified)
    assert [elsewhere[name] for name in PROMISE] == [None] * len(PROMISE)
    assert set(PROMISE) <= set(verified)


@pytest.mark.parametrize(
    ("words", "accounting"),
    [
        (["--ledger", "pure.db"], "pure"),
        (["--ledger", "zcdp.db", "--noise", "gaussian", "--delta", "1e-6"], "zcdp"),
        (["--no-ledger"], None),
    ],
)
def test_a_dry_run_tells_what_the_release_then_is(
    words: list[str], accounting: str | None, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = told([*words, "--epsilon", "0.25", "--dry-run"], capsys)
    made = told([*words, "--epsilon", "0.25", "--out", "r.qfr"], capsys)
    assert planned.pop("dry_run") is True
    for name in ("epsilon", "delta", "rho", "sensitivity", "neighbours", "unit", "protects", "tables", "warnings"):
        assert planned[name] == made[name]
    assert (planned["total"]["noise"] is None) == (made["total"] is None)
    if accounting is None:
        assert planned["ledger"] is made["ledger"] is None
        return
    assert planned["ledger"]["accounting"] == accounting
    assert planned["ledger"]["spent"] == "0"
    assert planned["ledger"]["remaining"] == planned["ledger"]["total"]
    assert main(["ledger", "show", words[1], "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    for name in ("id", "accounting", "total"):
        assert planned["ledger"][name] == shown[name]
    assert planned["ledger"]["afterwards"] == {name: shown[name] for name in ("spent", "remaining")}
    (charge,) = shown["charges"]
    assert (planned["ledger"]["cost"], made["ledger"]["number"]) == (charge["cost"], charge["number"])
    assert shown["against"] == {}


def test_weighted_totals_are_told_in_the_unit_of_their_noise(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("rows.csv").write_text("who,age,sex\n" + "".join(f"{i // 2},20,f\n" for i in range(600)))
    qf.Schema({"age": qf.Cuts([18, 65]), "sex": ["f", "m"]}).save("two.json")
    words = ["release", "rows.csv", "--schema", "two.json", "--structure", '[["age", "sex"]]', "--epsilon", "9"]
    words += ["--unit", "person:who:normalise", "--one-line-per-record", "--total", "yes", "--no-ledger"]
    assert main([*words, "--out", "w.qfr"]) == 0
    shown = capsys.readouterr().out
    assert float(shown.partition("total ")[2].split()[0].replace(",", "")) == pytest.approx(300, abs=30)
    assert "records, weighted so that all those of one 'who' together weigh 1, as the noisy tables say" in shown


@pytest.mark.parametrize(("unknown", "drops"), [("drop", "the schema drops some (null or unknown: drop)"), ("z", "")])
@pytest.mark.parametrize(("ending", "lines"), [("csv", "lines of the file are no records"), ("parquet", "")])
def test_a_hint_at_dropped_records_names_what_may_drop_them(
    here: Path, capsys: pytest.CaptureFixture[str], unknown: str, drops: str, ending: str, lines: str
) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.csv.read_csv("people.csv"), "people.parquet")
    qf.Schema({"sex": qf.Labels(["f", "m"], null=unknown, unknown=unknown)}).save("sexes.json")
    words = ["release", f"people.{ending}", "--schema", "sexes.json", "--structure", '[["sex"]]', "--epsilon", "9"]
    assert main([*words, "--unit", "rows:1", "--no-ledger", "--out", "w.qfr"]) == 0
    counted = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("counted"))
    said = ", or ".join(filter(None, (drops, lines)))
    assert counted.partition("if many more were expected, ")[2].partition(": see")[0] == said
