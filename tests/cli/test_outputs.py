"""What is there stays: each command asks before its work, and --force replaces only what is ours."""

from pathlib import Path

import pytest

import quietfield as qf
from quietfield import learning
from quietfield.cli import main
from quietfield.study import comparison, rehearsal

DOMAIN = qf.Domain({"sex": ["f", "m"], "visits": 3})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a release, a model and a schema, where commands are run."""
    monkeypatch.chdir(tmp_path)
    tables = {("sex", "visits"): [[300.0, 150.0, 49.0], [210.0, 190.0, 101.0]]}
    qf.Release.from_tables(DOMAIN, tables, noise=qf.Laplace(2.0), total=1000).save("r.qfr")
    qf.Model(DOMAIN, {("sex", "visits"): [[0.3, 0, 0], [0, 0, 0.5]]}).save("m.qfm")
    qf.Model(DOMAIN, {("sex", "visits"): [[0.2, 0, 0], [0, 0, 0.9]]}).save("truth.qfm")
    DOMAIN.save("domain.json")
    return tmp_path


#: A command without its output, the option that names it, an output of its kind, and its work.
COMMANDS = {
    "fit": (["fit", "r.qfr"], "--out", "out.qfm", (learning, "fit")),
    "sample": (["sample", "m.qfm", "--rows", "5"], "--out", "out.csv", (qf.Model, "sample")),
    "report": (["report", "r.qfr", "--model", "m.qfm"], "--out", "out.html", None),
    "compare": (["compare", "m.qfm", "truth.qfm"], "--svg", "out.svg", (comparison, "compare")),
    "plan": (
        [
            "plan",
            "domain.json",
            "--rehearse",
            "--structure",
            "chain",
            "--records",
            "50",
            "--epsilon",
            "1",
            "--repeats",
            "1",
        ],
        "--svg",
        "out.svg",
        (rehearsal, "rehearse"),
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_there_stays_unless_forced(
    name: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words, option, out, work = COMMANDS[name]
    asked = [*words, option, out]
    assert main(asked) == 0
    first = Path(out).read_bytes()
    assert first
    with monkeypatch.context() as patched:
        if work is not None:  # refused before it begins, and not after minutes

            def never(*_: object, **__: object) -> None:
                raise AssertionError("the work was begun")

            patched.setattr(*work, never)
        capsys.readouterr()
        assert main(asked) == 1
        assert f"{out} is there already" in capsys.readouterr().err
    assert Path(out).read_bytes() == first
    earlier = Path("m.qfm").read_bytes() if name == "fit" else first + b"earlier"  # of its kind, and not what comes
    Path(out).write_bytes(earlier)
    assert main([*asked, "--force"]) == 0
    assert Path(out).read_bytes()[:8] == first[:8]
    assert not Path(out).read_bytes().startswith(earlier)


@pytest.mark.parametrize("name", ["fit", "report"])
def test_force_replaces_nothing_that_is_not_ours(name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, option, out, _ = COMMANDS[name]
    for content in (b"", b"years of work", Path("r.qfr").read_bytes()):
        Path(out).write_bytes(content)
        capsys.readouterr()
        assert main([*words, option, out, "--force"]) == 1
        assert f"{out} is not a quietfield {'model' if name == 'fit' else 'report'}" in capsys.readouterr().err
        assert Path(out).read_bytes() == content


def test_a_link_to_nowhere_is_there_too(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("out.qfm").symlink_to("elsewhere.qfm")
    assert main(["fit", "r.qfr", "--out", "out.qfm"]) == 1
    assert "is there already" in capsys.readouterr().err
    assert Path("out.qfm").is_symlink()


def test_records_go_where_their_ending_says(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sample", "m.qfm", "--rows", "5", "--out", "m.qfm", "--force"]) == 1
    assert "ends in .csv or .parquet" in capsys.readouterr().err
    qf.load("m.qfm").save("model.csv")
    assert main(["sample", "model.csv", "--rows", "5", "--out", "model.csv", "--force"]) == 1
    assert "which this command reads" in capsys.readouterr().err
    assert qf.load("model.csv").domain == DOMAIN


@pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
def test_force_replaces_no_records_of_other_columns(out: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["sample", "m.qfm", "--rows", "5", "--out", out, "--force"]
    assert main(asked) == 0
    assert main(asked) == 0
    other = qf.Model(qf.Domain({"age": 3}), {("age",): [0, 0, 1]})
    other.sample(3, seed=0).save(out)
    for content in (Path(out).read_bytes(), b"", b"\xff\xfe years of work", b'"sex,visits\n'):
        Path(out).write_bytes(content)
        capsys.readouterr()
        assert main(asked) == 1
        assert "has other columns than this model, so it stays" in capsys.readouterr().err
        assert Path(out).read_bytes() == content


def test_a_folder_and_no_folder_are_told_apart(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("folder").mkdir()
    for out, said in (
        ("folder", "folder is a folder. Name a file"),
        ("no/m.qfm", "no does not exist. Choose a path"),
        ("r.qfr/m.qfm", "r.qfr is a file, and no folder. Choose a path"),
    ):
        assert main(["fit", "r.qfr", "--out", out]) == 1
        assert said.replace("folder is a", "it is a", 1) in capsys.readouterr().err


def test_unknown_methods_are_refused_before_anything_is_read(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "absent.qfr", "--methods", "map,foo"]) == 1
    assert "'foo' is not a learning method; expected one of 'map', 'cgm'" in capsys.readouterr().err
    for words in (
        ["fit", "absent.qfr", "--out", "new.qfm", "--method", "foo"],
        ["compare", "a.qfr", "--inference", "foo"],
    ):
        assert main(words) == 2
        assert "'foo' is not one of" in capsys.readouterr().err
    assert main(["compare", "absent.qfr", "--methods", ","]) == 1
    assert "--methods names methods" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "r.qfr", "--out", "-"],
        ["fit", "-", "--out", "new.qfm"],
        ["sample", "m.qfm", "--rows", "5", "-o", "-"],
        ["report", "r.qfr", "--out", "-"],
        ["export", "m.qfm", "--out", "-"],
        ["compare", "m.qfm", "-"],
        ["compare", "m.qfm", "truth.qfm", "--svg", "-"],
        ["query", "-", "sex"],
        ["schema", "-"],
        ["schema", "people.csv", "--out", "-"],
        ["inspect", "-", "--schema", "s.json"],
        [
            "release",
            "-",
            "--schema",
            "s.json",
            "--structure",
            "chain",
            "--unit",
            "rows:1",
            "--epsilon",
            "1",
            "--dry-run",
        ],
        ["score", "m.qfm", "-", "--schema", "s.json", "--confidential"],
        ["key", "create", "-"],
        ["ledger", "create", "-", "--unit", "rows:1", "--epsilon", "1"],
        ["ledger", "show", "budget.db", "--against", "r.qfr", "-"],
        ["verify", "-", "--json"],
    ],
    ids=" ".join,
)
def test_a_dash_is_no_file(words: list[str], here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    qf.Schema({"sex": ["f", "m"], "visits": [0, 1, 2]}).save("s.json")
    Path("people.csv").write_text("sex,visits\nf,1\n")
    before = set(here.iterdir())
    assert main(words) == 1
    assert capsys.readouterr().err.startswith("Error: - is not taken for the standard input or output: name a file;")
    assert set(here.iterdir()) == before


def test_a_dash_elsewhere_is_what_it_says(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    qf.Model(qf.Domain({"-": ["-", "+"]}), {("-",): [0, 0]}).save("dash.qfm")
    assert main(["query", "dash.qfm", "-", "--json"]) == 0
    assert main(["query", str(here / "dash.qfm"), "-"]) == 0
