"""Ten typical mistakes: each ends in one helpful sentence, a code that is not 0, and nothing half-written."""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

import quietfield as qf
from quietfield.archives import TABLES
from quietfield.cli import main
from quietfield.files import MANIFEST, canonical_json

pytest.importorskip("duckdb")
pytest.importorskip("opendp")

SCHEMA = {"age": qf.Cuts([18, 65]), "sex": ["f", "m"]}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data, schema, ledger, keys, a signed release and a model, where commands are run."""
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("age,sex\n" + "".join(f"{20 + i % 60},{'fm'[i % 2]}\n" for i in range(400)))
    schema = qf.Schema(SCHEMA)
    schema.save("schema.json")
    qf.Ledger.create("budget.db", epsilon=1, unit=qf.Rows(1))
    for name in ("mine", "yours"):
        assert main(["key", "create", f"{name}.pem"]) == 0
    release = qf.release("people.csv", schema, [("age", "sex")], epsilon=1, unit=qf.Rows(1), ledger=None)
    release.save("people.qfr", "mine.pem")
    qf.Model(schema.domain, {("age", "sex"): np.zeros((3, 2))}).save("people.qfm")
    return tmp_path


RELEASE = ["release", "people.csv", "--schema", "schema.json", "--structure", "chain", "--unit", "rows:1"]
REHEARSE = ["plan", "schema.json", "--rehearse", "--structure", "chain", "--records"]
PAID = [*RELEASE, "--ledger", "budget.db", "--out", "out.qfr"]


def mistaken(words: list[str], capsys: pytest.CaptureFixture[str], code: int = 1) -> str:
    """Run what is mistaken; its sentence. Nothing in the folder may change, and with --json the answer is an object."""
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main(words) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("Error: ")
    assert len(shown.err.splitlines()) == 1
    assert "Traceback" not in shown.err
    assert "unforeseen" not in shown.err
    assert shown.err.rstrip().endswith((".", "create"))
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    assert main(["--debug", *words]) == code
    debugged = capsys.readouterr().err
    assert "Traceback (most recent call last)" in debugged
    assert debugged.endswith(shown.err)
    assert sum(line.endswith(shown.err.removeprefix("Error").rstrip()) for line in debugged.splitlines()) == 1
    return shown.err.removeprefix("Error: ").strip()


def test_1_a_missing_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["verify", "absent.qfr"],
        ["fit", "absent.qfr", "--out", "m.qfm"],
        ["query", "absent.qfm", "age"],
        ["export", "absent.qfr", "--out", "tables"],
        ["compare", "absent.qfr"],
        ["compare", "people.qfm", "--truth", "absent.qfm"],
        ["plan", "absent.json", "--rehearse", "--structure", "chain", "--records", "10"],
        ["plan", "absent.json", "--structure", "chain"],
        ["schema", "absent.csv"],
        ["inspect", "absent.csv", "--schema", "schema.json"],
        ["release", "absent.csv", *PAID[2:], "--epsilon", "1"],
        [*RELEASE, "--epsilon", "1", "--ledger", "absent.db", "--out", "out.qfr"],
        ["score", "people.qfm", "absent.csv", "--schema", "schema.json", "--confidential"],
    ):
        assert "absent" in mistaken(words, capsys)
    assert not Path("tables").exists()


def test_2_a_missing_column(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    qf.Schema({**SCHEMA, "income": qf.Cuts([1000])}).save("wider.json")
    said = mistaken([*PAID, "--schema", "wider.json", "--epsilon", "1"], capsys)
    assert "has no column 'income'" in said
    assert qf.Ledger("budget.db").spent == 0
    assert "has no column 'income'" in mistaken(["inspect", "people.csv", "--schema", "wider.json"], capsys)


def test_3_a_label_or_attribute_that_does_not_exist(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "'x' is not a value of 'sex'" in mistaken(["query", "people.qfm", "age", "--given", "sex=x"], capsys)
    assert "'size' is not an attribute" in mistaken(["query", "people.qfm", "size"], capsys)
    assert "'size'" in mistaken([*PAID, "--structure", "star:size", "--epsilon", "1"], capsys)
    content = json.loads(Path("schema.json").read_text())
    content["impossible"] = [{"sex": "x", "age": "<18"}]
    Path("strange.json").write_text(json.dumps(content))
    assert "'x'" in mistaken([*PAID, "--schema", "strange.json", "--epsilon", "1"], capsys)
    assert "'size' is not an attribute" in mistaken(
        ["export", "people.qfm", "--table", "age,size", "--out", "tables"], capsys
    )
    assert not Path("tables").exists()


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "inf", "much"])
def test_4_an_epsilon_that_is_none(epsilon: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        [*PAID, "--epsilon", epsilon],
        [*REHEARSE, "10", "--epsilon", epsilon],
        ["plan", "schema.json", "--structure", "chain", "--epsilon", epsilon],
    ):
        said = mistaken(words, capsys)
        assert said.startswith("epsilon must be")
    assert qf.Ledger("budget.db").spent == 0


@pytest.mark.parametrize(("epsilon", "noise"), [("1e-300", []), ("1e-300", ["--noise", "gaussian", "--delta", "1e-6"])])
def test_4_an_epsilon_that_needs_more_noise_than_counts_can_hold(
    epsilon: str, noise: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (
        [*PAID, "--epsilon", epsilon, *noise],
        [*PAID, "--epsilon", epsilon, *noise, "--dry-run"],
        [*REHEARSE, "10", "--epsilon", epsilon, *noise],
        ["plan", "schema.json", "--structure", "chain", "--epsilon", epsilon, *noise],
    ):
        assert "that 64-bit counts can take; ask for a larger epsilon or fewer cliques" in mistaken(words, capsys)
    assert qf.Ledger("budget.db").spent == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plan", "schema.json", "--structure", "chain", "--epsilon", "1", "--records", str(10**30)], "from 1 to"),
        (["plan", "schema.json", "--structure", "chain", "--records", "0"], "from 1 to"),
        ([*REHEARSE, str(10**30)], "from 1 to"),
        ([*REHEARSE, "0"], "from 1 to"),
        ([*REHEARSE, "9", "--seconds", "inf"], "how long"),
        ([*REHEARSE, "9", "--error", "nan"], "a share such as"),
        (["plan", "schema.json", "--structure", "chain:9"], "write chain:1, or complete"),
        ([*REHEARSE, "9", "--epsilon", ","], "such as 0.1,1,10"),
        (
            [
                "score",
                "people.qfm",
                "people.csv",
                "--schema",
                "schema.json",
                "--epsilon",
                "1",
                "--no-ledger",
                "--clip",
                "3",
            ],
            "--clip is LOW,HIGH, two log-probabilities such as -20,0; it is not '3'",
        ),
        (["report", "people.qfr", "--model", "people.qfm", "--level", "nan"], "between 0 and 1"),
        (["report", "people.qfr", "--model", "people.qfm", "--level", "1"], "between 0 and 1"),
        (["export", "people.qfm", "--out", "tables", "--level", "0"], "between 0 and 1"),
        (["export", "people.qfm", "--out", "tables", "--level", "nan"], "between 0 and 1"),
        (["export", "people.qfm", "--out", "tables", "--total", "nan"], "a positive number"),
        (["export", "people.qfm", "--out", "tables", "--total", "-1"], "a positive number"),
    ],
)
def test_numbers_that_make_no_sense(
    words: list[str], said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in mistaken(words, capsys)


def test_5_a_budget_that_is_used_up(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = qf.Ledger("budget.db")
    ledger.charge("earlier", epsilon="0.75", unit=qf.Rows(1), neighbours="add_remove")
    said = mistaken([*PAID, "--epsilon", "0.5"], capsys, code=3)
    assert "0.25" in said
    said = mistaken([*PAID, "--epsilon", "0.5", "--dry-run"], capsys, code=3)
    assert float(ledger.spent) == 0.75
    score = ["score", "people.qfm", "people.csv", "--schema", "schema.json", "--ledger", "budget.db"]
    mistaken([*score, "--epsilon", "0.5"], capsys, code=3)


def test_6_a_model_that_is_too_large(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The sentence says how much is free, which other programs change between two runs of a command.
    monkeypatch.setattr("quietfield.inference.plan.available_memory", lambda: 8 * 10**9)
    domain = qf.Domain({f"x{i}": 10 for i in range(24)})
    pairs = qf.structures.complete(domain).cliques
    tables = {clique: np.zeros((10, 10)) for clique in pairs}
    qf.Release.from_tables(domain, tables, noise=qf.Laplace(1.0), total=1000).save("large.qfr")
    qf.Model(domain, tables).save("large.qfm")
    for words in (["fit", "large.qfr", "--out", "m.qfm"], ["query", "large.qfm", "x0", "x1", "x2"]):
        said = mistaken(words, capsys, code=4)
        assert "would need" in said
        assert "loopy" in said or "fewer attributes" in said
    qf.Schema({f"x{i}": list(range(100)) for i in range(6)}).save("large.json")
    Path("six.json").write_text(json.dumps([[f"x{i}" for i in range(6)]]))
    words = [*PAID, "--schema", "large.json", "--structure", "six.json", "--epsilon", "1"]
    assert "join fewer attributes" in mistaken(words, capsys, code=4)


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"PK\x03\x04 cut short"])
def test_7_a_file_that_is_no_release(content: bytes, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("other").write_bytes(content)
    for words in (["verify", "other"], ["fit", "other", "--out", "m.qfm"], ["export", "other", "--out", "tables"]):
        assert "other is not a quietfield release" in mistaken(words, capsys)
    assert "people.qfm" in mistaken(["fit", "people.qfm", "--out", "m.qfm"], capsys)
    assert "not a quietfield model" in mistaken(["query", "people.qfr", "age"], capsys)


def test_8_a_release_of_another_version(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from quietfield.archives import write_archive

    with zipfile.ZipFile("people.qfr") as archive:
        manifest, tables = json.loads(archive.read(MANIFEST)), archive.read(TABLES)
    write_archive("later.qfr", {MANIFEST: canonical_json({**manifest, "version": 99}), TABLES: tables})
    for words in (["verify", "later.qfr"], ["fit", "later.qfr", "--out", "m.qfm"]):
        said = mistaken(words, capsys)
        assert "version 99" in said
        assert "update" in said


def test_9_a_key_that_does_not_match(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trust = ["--trust", "yours.pub.pem"]
    for words in (
        ["verify", "people.qfr", *trust],
        ["fit", "people.qfr", "--out", "m.qfm", *trust],
    ):
        said = mistaken(words, capsys, code=11)
        assert "people.qfr" in said
        assert "key" in said
    assert "key" in mistaken([*PAID, "--epsilon", "1", "--key", "schema.json"], capsys)
    assert qf.Ledger("budget.db").spent == 0


def test_10_an_output_that_cannot_be_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("")
    for out in ("no/folder/out.qfr", "file/out.qfr", "."):
        words = [*RELEASE, "--epsilon", "1", "--ledger", "budget.db", "--out", out]
        assert "cannot write" in mistaken(words, capsys)
        assert qf.Ledger("budget.db").spent == 0
        assert "cannot write" in mistaken(["fit", "people.qfr", "--out", out], capsys)
    assert "cannot write" in mistaken(["sample", "people.qfm", "--rows", "5", "--out", "no/p.csv"], capsys)
    assert "cannot write" in mistaken(["schema", "people.csv", "--header", "--out", "no/s.json"], capsys)
    assert "cannot make the folder" in mistaken(["export", "people.qfm", "--out", "file/tables"], capsys)
    curve = [*REHEARSE, "10", "--svg"]
    assert "cannot write" in mistaken([*curve, "no/curve.svg"], capsys)


def test_nothing_that_is_read_is_overwritten(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.symlink("people.csv", "link.csv")
    for out in ("people.csv", "./people.csv", "link.csv", str(here / "people.csv")):
        assert "not overwritten" in mistaken(["schema", "people.csv", "--header", "--out", out, "--force"], capsys)
        assert "not overwritten" in mistaken(["schema", "peo*.csv", "--header", "--out", out, "--force"], capsys)
    assert "which this command reads" in mistaken(["fit", "people.qfr", "--out", "people.qfr", "--force"], capsys)
    assert "is there already" in mistaken(["sample", "people.qfm", "--rows", "9", "--out", "people.csv"], capsys)
    assert ".svg" in mistaken(["compare", "people.qfm", "--svg", "people.qfm"], capsys)
    assert ".svg" in mistaken([*REHEARSE, "9", "--svg", "schema.json"], capsys)


def test_with_json_errors_are_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["query", "absent.qfm", "age", "--json"]) == 1
    shown = capsys.readouterr()
    content = json.loads(shown.out)
    assert content["exit_code"] == 1
    assert shown.err == f"Error: {content['error']}\n"
    assert main([*PAID, "--epsilon", "9", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["exit_code"] == 3
    assert main(["query", "--json"]) == 2
    shown = capsys.readouterr()
    assert json.loads(shown.out)["exit_code"] == 2
    assert "model" in json.loads(shown.out)["error"]
    assert "Usage" in shown.err
    assert main(["query", "people.qfm", "--", "--json"]) == 1
    assert capsys.readouterr().out == ""


def test_debug_may_stand_anywhere(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["query", "absent.qfm", "age", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_huge_epsilon_is_warned_of_and_not_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    words = [*RELEASE, "--no-ledger", "--out", "weak.qfr", "--epsilon", "25", "--json"]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert shown.err.startswith("Warning: epsilon 25 promises next to nothing")
    assert json.loads(shown.out)["written"] == "weak.qfr"
    assert main(["plan", "schema.json", "--structure", "chain", "--epsilon", "25", "--records", "1000"]) == 0
    shown = capsys.readouterr()
    assert shown.err.startswith("Warning: epsilon 25")
    assert "age × sex" in shown.out
    assert main(["plan", "schema.json", "--structure", "chain", "--epsilon", "20"]) == 0
    assert capsys.readouterr().err == ""


def test_an_attribute_in_no_clique_is_warned_of(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lone, paid = '[["age"]]', [*PAID[: PAID.index("chain")], '[["age"]]', *PAID[PAID.index("chain") + 1 :]]
    warning = (
        "Warning: no clique holds 'sex', so nothing of it is released, and a model takes all its values as equally"
    )
    for words in (
        ["plan", "schema.json", "--structure", lone],
        ["plan", "schema.json", "--structure", lone, "--json"],
        [*paid, "--epsilon", "0.5", "--dry-run"],
        [*paid, "--epsilon", "0.5"],
    ):
        capsys.readouterr()
        assert main(words) == 0
        shown = capsys.readouterr()
        assert shown.err.startswith(warning)
        assert warning not in shown.out
    assert main(["plan", "schema.json", "--structure", "chain"]) == 0
    assert capsys.readouterr().err == ""


def test_a_dry_run_says_what_would_remain(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PAID, "--epsilon", "0.25", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "afterwards  after this, epsilon 0.75 of 1 would remain" in shown
    assert "tables      1, 6 cells" in shown  # the noisy total is no table
    assert qf.Ledger("budget.db").spent == 0
    assert main([*PAID, "--epsilon", "0.25", "--dry-run", "--json"]) == 0
    account = json.loads(capsys.readouterr().out)["ledger"]
    assert (account["accounting"], account["cost"], account["remaining"]) == ("pure", "1/4", "1")
    assert account["afterwards"] == {"spent": "1/4", "remaining": "3/4"}
    qf.Ledger.create("zcdp.db", epsilon=1, delta="1e-6", unit=qf.Rows(1))
    gaussian = ["--noise", "gaussian", "--delta", "1e-6", "--epsilon", "1"]
    assert main([*RELEASE, *gaussian, "--ledger", "zcdp.db", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "of 0.0" in shown.partition("after this, rho ")[2]
    assert "and epsilon 1 at delta 1e-06 would be spent" in shown
    more = {"age": qf.Cuts([*range(10, 90, 10)]), "a": [0, 1], "b": [0, 1], "c": [0, 1]}
    qf.Schema({**SCHEMA, **more}).save("schema.json")
    assert main([*RELEASE, *gaussian, "--ledger", "zcdp.db", "--dry-run"]) == 0
    assert "5, 39 cells; these attributes are also measured by themselves: 'age'" in capsys.readouterr().out


def test_completion_lists_commands_without_loading_them() -> None:
    import subprocess
    import sys

    code = (
        "import os, sys; os.environ.update(_QUIETFIELD_COMPLETE='complete_bash', COMP_WORDS='quietfield ins', "
        "COMP_CWORD='1', _TYPER_COMPLETE_ARGS='quietfield ins'); from quietfield.cli import main; code = main([]);"
        "sys.exit(code or bool([m for m in sys.modules if m.startswith('quietfield.cli.')]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["inspect"]
