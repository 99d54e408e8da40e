"""The demonstration tells the whole story by commands that work, and refuses a folder with something in it."""

import re
import shlex
from pathlib import Path

import pytest

import quietfield as qf
from quietfield.cli import demo, main


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder and the words of one demonstration."""
    folder = tmp_path_factory.mktemp("demo") / "a folder"
    with pytest.MonkeyPatch.context() as patch:
        said: list[str] = []
        patch.setattr("typer.echo", lambda text="", **_: said.append(str(text)))
        patch.setattr("typer.secho", lambda text="", **_: said.append(str(text)))
        assert main(["demo", "--rows", "1000", "--folder", str(folder)]) == 0
    return folder, "\n".join(said)


@pytest.mark.slow
def test_it_shows_commands_that_work(told: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    folder, shown = told
    commands = [shlex.split(line)[2:] for line in shown.splitlines() if line.startswith("$ quietfield")]
    verbs = [words[0] for words in commands]
    fits = ["fit"] * len(demo.methods())
    assert verbs == ["key", "ledger", "release", "ledger", "verify", *fits, "sample", "report"]
    assert main(commands[verbs.index("verify")]) == 0
    assert main(["ledger", "show", str(folder / "budget.db")]) == 0
    assert "epsilon 1 of 4 is spent" in capsys.readouterr().out


@pytest.mark.slow
def test_what_it_shows_is_what_it_made(told: tuple[Path, str]) -> None:
    folder, shown = told
    release = qf.Release.load(folder / "survey.qfr", trust=folder / "curator.pub.pem")
    assert release.epsilon == 1
    assert list(release.tables) == demo.CLIQUES
    rows = re.findall(r"^ +(no|yes) +(\w+) +(-?\d+) +(\d+)$", shown, re.MULTILINE)
    assert [float(noisy) for _, _, noisy, _ in rows] == release.tables["smokes", "health"].ravel().tolist()
    assert sum(int(true) for *_, true in rows) == 1000
    truth = qf.load(folder / "truth.qfm")
    for name in demo.methods():
        divergence = truth.kl(qf.load(folder / f"{name}.qfm"))
        assert re.search(rf"^ +{name} +{divergence:.4f} ", shown, re.MULTILINE)
    learned = qf.load(folder / "map.qfm")
    for label, share in zip(truth.domain.labels("visits"), learned.conditional("visits", demo.GIVEN), strict=True):
        assert re.search(rf"^ +{label} +{share:.1%} +[\d.]+% to +[\d.]+% .*(inside|OUTSIDE)$", shown, re.MULTILINE)
    assert f"The same for {demo.SURVEYS} more surveys of other people: " in shown
    assert "Health survey" in (folder / "report.html").read_text()
    assert f"The report is {folder / 'report.html'}" in shown
    assert len((folder / "people.csv").read_text().splitlines()) == 1001


def test_a_perfect_model_is_judged_to_be_one(capsys: pytest.CaptureFixture[str]) -> None:
    truth = demo.known_model()
    exact = {clique: 5000 * truth.marginal(clique) for clique in demo.CLIQUES}
    release = qf.Release.from_tables(truth.domain, exact, noise=qf.Laplace(1.0), total=5000)
    uniform = qf.Model(truth.domain, {clique: 0 * truth.potentials[clique] for clique in demo.CLIQUES})
    demo.judge({"map": truth, "flat": uniform}, release, truth)
    found = re.findall(r"^ +([a-z ]+?) +([\d.]*) +([\d.]+)%$", capsys.readouterr().out, re.MULTILINE)
    assert found[:2] == [("noisy tables", "", "0.00"), ("map", "0.0000", "0.00")]
    assert found[2][:2] == ("flat", f"{truth.kl(uniform):.4f}")


def test_made_up_records_follow_the_seed(tmp_path: Path) -> None:
    model = demo.known_model()
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        demo.make_up(model, tmp_path / name, 50, seed)
    records = [(tmp_path / name).read_bytes() for name in "abc"]
    assert records[0] == records[1] != records[2]


def test_the_noise_follows_no_seed(tmp_path: Path) -> None:
    demo.make_up(demo.known_model(), tmp_path / "survey.csv", 50, 7)
    demo.known_schema().save(tmp_path / "schema.json")
    noisy = []
    for _ in range(2):
        noisy.append(qf.Release.load(demo.publish(tmp_path)).tables)
        for name in ("survey.qfr", "budget.db", "curator.pem", "curator.pub.pem"):
            (tmp_path / name).unlink()
    # All 59 cells agree by chance with probability below (1/10)**59: each of two Laplace draws of scale 7.
    assert any((noisy[0][clique] != noisy[1][clique]).any() for clique in noisy[0])


def test_a_folder_in_use_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["demo", "--folder", str(tmp_path)]) == 1
    assert "not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_it_ends_where_a_command_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("quietfield.cli.release.charge_and_publish", fails)
    folder = tmp_path / "demo"
    assert main(["demo", "--folder", str(folder)]) == 1
    assert not (folder / "survey.qfr").exists()
    assert not (folder / "map.qfm").exists()
