"""Estimators of one's own: by decorator, by file, by entry point."""

import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import quietfield as qf
from experiments import estimator, estimators
from experiments.__main__ import main
from experiments.estimators import Request, added, find, get, load_module
from experiments.faults import EstimatorError
from experiments.storage import Store
from experiments.trials import Trial, simulation_of
from quietfield.errors import CannotLearn

TRIAL = Trial("x", "chain-3", 2, 100, 1.0, 0, 0, 0, "mine")


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    get("map")
    monkeypatch.setattr(estimators, "ESTIMATORS", dict(estimators.ESTIMATORS))


def flat(release: qf.Release) -> qf.Model:
    shapes = {c: release.domain.table_shape(c) for c in release.structure.cliques}
    import numpy as np

    return qf.Model(release.domain, {c: np.zeros(shape) for c, shape in shapes.items()})


def test_a_function_from_release_to_model() -> None:
    assert estimator("mine", label="my own")(flat) is flat
    one = get("mine")
    assert (one.label, one.sees, added()[-1]) == ("my own", "release", "mine")
    (model,) = one.call([Request(TRIAL, simulation_of(TRIAL))])
    assert model is not None
    assert simulation_of(TRIAL).model.kl(model) > 0


def test_a_function_from_releases_to_models() -> None:
    sizes = []

    @estimator("mine", batched=True)
    def all_at_once(releases: list[qf.Release]) -> list[qf.Model]:
        sizes.append(len(releases))
        return [flat(release) for release in releases]

    requests = [Request(TRIAL._replace(replication=i), simulation_of(TRIAL)) for i in range(3)]
    assert len(get("mine").call(requests)) == 3
    assert sizes == [3]


def test_models_must_be_as_many_as_releases() -> None:
    estimator("mine", batched=True)(lambda releases: [])
    with pytest.raises(qf.Error, match="0 models for 1 release"):
        get("mine").call([Request(TRIAL, simulation_of(TRIAL))])


@pytest.mark.parametrize("name", ["", "a,b", " a", 3])
def test_a_name_is_a_word(name: str) -> None:
    with pytest.raises(qf.Error, match="without commas"):
        estimator(name)


def test_built_in_names_are_taken() -> None:
    with pytest.raises(qf.Error, match="built in"):
        estimator("map")(flat)


def test_an_unknown_name_lists_the_known() -> None:
    assert find("nobody") is None
    with pytest.raises(qf.Error, match=r"'naive'.*--with"):
        get("nobody")


def test_what_needs_more_than_a_release_says_so() -> None:
    with pytest.raises(qf.Error, match="needs more than a release"):
        get("psgd").learn([])


def test_a_file_adds_estimators(tmp_path: Path) -> None:
    file = tmp_path / "theirs.py"
    file.write_text("from experiments import estimator\nestimator('theirs')(lambda release: None)\n")
    load_module(str(file))
    assert get("theirs").name == "theirs"


@pytest.mark.parametrize("name", ["no_such_module", "no/such/file.py"])
def test_a_module_that_is_not_there_is_told(name: str) -> None:
    with pytest.raises(qf.Error, match="--with"):
        load_module(name)


def test_a_module_that_misses_another_shows_that_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "needs.py").write_text("import not_installed_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EstimatorError, match=r"needs cannot be loaded .*line 1\): .*not_installed_at_all"):
        load_module("needs")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("x = 1\ndef broken(:\n", r"cannot be loaded \(.*mine\.py, line 2\): SyntaxError: invalid syntax"),
        ("import not_installed_at_all\n", r"mine\.py, line 1\): ModuleNotFoundError: .*'not_installed_at_all'"),
        ("from quietfield import nothing_like_it\n", r"mine\.py, line 1\): ImportError: cannot import name"),
        ("a = 1\nb = a / 0\n", r"mine\.py, line 2\): ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(3)\n", r"mine\.py, line 2\): SystemExit: 3"),
        ("x = 1\n", r"mine\.py adds no estimator; write @estimator"),
        ("x = 'a\x00b'\n", r"mine\.py cannot be loaded"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_told_as_the_users(tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(content)
    with pytest.raises(EstimatorError, match=told):
        load_module(str(file))


def test_a_file_may_define_dataclasses_and_use_what_stands_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", list(sys.path))
    (tmp_path / "beside_it.py").write_text("NAME = 'helped'\n")
    (tmp_path / "mine.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\nimport beside_it\n"
        "from experiments import estimator\n\n@dataclass\nclass A:\n    x: int = 1\n\n"
        "estimator(beside_it.NAME)(lambda release: None)\n"
    )
    load_module(str(tmp_path / "mine.py"))
    assert get("helped").name == "helped"


MISTAKE = """
import json
from experiments import estimator

@estimator("mine")
def mine(release):
    return json.loads("{")
"""


def test_an_error_in_a_function_names_its_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MISTAKE)
    load_module(str(file))
    with pytest.raises(EstimatorError, match=r"your estimator 'mine' in .*mine\.py, line 7, raised JSONDecodeError: E"):
        get("mine").call([Request(TRIAL, simulation_of(TRIAL))])


@pytest.mark.parametrize(
    ("result", "batched", "told"),
    [
        ({}, False, "'mine' returned a dict; an estimator returns a qf.Model"),
        (3, False, "'mine' returned an int; an estimator returns a qf.Model"),
        (None, False, "'mine' returned nothing; an estimator returns a qf.Model"),
        ([None], True, "'mine' returned nothing; an estimator returns a qf.Model"),
        (None, True, "returned nothing; with batched=True it returns a list of models"),
        (
            qf.Model(qf.Domain({"a": 2}), {("a",): [0.0, 1.0]}),
            False,
            "the model that your estimator 'mine' returned differ in 'x0', .* Make the model of release.domain",
        ),
    ],
)
def test_a_result_of_another_kind_is_told(result: object, batched: bool, told: str) -> None:
    estimator("mine", batched=batched)(lambda _: result)
    with pytest.raises(EstimatorError, match=told):
        get("mine").call([Request(TRIAL, simulation_of(TRIAL))])


def test_an_estimator_without_a_name_is_told_how_it_gets_one() -> None:
    with pytest.raises(qf.Error, match=r"an estimator needs a name: write @estimator\('mine'\) above the function"):

        @estimator  # type: ignore[arg-type]
        def mine(release: object) -> None: ...


def test_a_package_that_cannot_be_loaded_is_told_and_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_broken_package.py").write_text("import not_installed_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("any", "their_broken_package", "quietfield.estimators")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [point])
    monkeypatch.setattr(estimators, "_loaded", False)
    monkeypatch.setattr(estimators, "_broken", [])
    with pytest.warns(UserWarning, match=r"entry point any = their_broken_package cannot be loaded .*not_installed"):
        assert get("map").name == "map"
    with pytest.raises(qf.Error, match=r"no estimator is called 'theirs'.*Note: .*their_broken_package"):
        get("theirs")


def test_other_packages_add_estimators_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_package.py").write_text(
        "from experiments import estimator\nestimator('packaged')(lambda release: None)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("any", "their_package", "quietfield.estimators")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [point])
    monkeypatch.setattr(estimators, "_loaded", False)
    assert get("packaged").name == "packaged"


def test_a_release_that_cannot_be_learned_from_does_not_stop_the_others() -> None:
    from experiments.running import divergence, measured

    first = [float(simulation_of(TRIAL._replace(population=p)).release.tables["x0", "x1"][0, 0]) for p in range(8)]

    def low(release: qf.Release) -> bool:
        return float(release.tables["x0", "x1"][0, 0]) < sorted(first)[3]

    def moody(releases: list[qf.Release]) -> list[qf.Model]:
        if any(low(release) for release in releases):
            raise CannotLearn("it broke down.")
        return [flat(release) for release in releases]

    estimator("mine", batched=True)(moody)
    trials = [TRIAL._replace(population=p) for p in range(8)]
    broken = {t for t in trials if low(simulation_of(t).release)}
    assert len(broken) == 3
    with pytest.warns(UserWarning, match="it broke down"):
        rows = measured(trials, divergence)
    assert {row.trial for row in rows if row.measure == "failed"} == broken
    assert {row.trial for row in rows if row.measure == "kl"} == set(trials) - broken


def test_a_release_with_more_noise_than_data_counts_as_failed() -> None:
    """The error that a fit raises for such numbers is the one that counts, and not a mistake in whoever called it."""
    from experiments.running import measured

    def hopeless(release: qf.Release) -> qf.Model:
        tables = {clique: -table for clique, table in release.tables.items()}
        return qf.fit(qf.Release.from_tables(release.domain, tables, noise=qf.Laplace(1.0)))

    estimator("mine")(hopeless)
    with pytest.warns(UserWarning, match="the number of records is estimated as .*, which is not positive"):
        (row,) = measured([TRIAL], lambda study, model: {"kl": 0.0})
    assert (row.trial, row.measure) == (TRIAL, "failed")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("qf.fit(release, 'mpa')", "raised Error: 'mpa' is not a learning method"),
        ("qf.fit(release, round=2)", "raised Error: the method 'map' has no option 'round'"),
        (
            "qf.Model(release.domain, {('nobody',): [0.0]})",
            "raised Error: clique ('nobody',): 'nobody' is not an attribute",
        ),
        ("qf.Release.load('absent.qfr')", "raised FileError: cannot read absent.qfr"),
        ("sys.exit('done')", "raised SystemExit: done"),
        ("sys.exit()", "raised SystemExit"),
    ],
)
def test_a_mistake_is_told_and_no_trial_counts_as_failed_for_it(
    tmp_path: Path, line: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file, results = tmp_path / "mine.py", tmp_path / "results"
    written = MISTAKE.replace('json.loads("{")', line).replace("import json", "import sys, quietfield as qf")
    file.write_text(written)
    asked = ["fig1b", "--tiny", "--with", str(file), "--populations", "1", "--sizes", "100"]
    asked += ["--no-figures", "--methods", "mine", "--out", str(results)]
    assert main(asked) == 1
    said = capsys.readouterr().err
    assert "Error: your estimator 'mine' in" in said
    assert f"mine.py, line 7, {told}" in said
    assert Store(results, "fig1b").read() == []
    file.write_text(written.replace(line, "qf.fit(release, 'naive')"))
    assert main(asked) == 0
    assert "0 trials run" not in capsys.readouterr().out
    assert {row.measure for row in Store(results, "fig1b").read()} == {"kl"}


def test_a_mistake_in_what_is_built_in_is_no_failed_trial_either(monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments.running import called

    def mistaken(requests: Sequence[object]) -> list[object]:
        raise qf.Error("a setting that there is not.")

    with pytest.raises(qf.Error, match="a setting that there is not"):
        called(mistaken, [1, 2], "mistaken")


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_mistake_in_one_estimator_loses_nothing_of_the_others(
    tmp_path: Path, jobs: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(MISTAKE)
    results = tmp_path / "results"
    asked = ["--tiny", "--with", str(tmp_path / "mine.py"), "--populations", "2", "--sizes", "100", "--no-figures"]
    chosen = ["--out", str(results), "--methods", "mine,naive", "--jobs", str(jobs)]
    assert main(["fig1b", *asked, *chosen]) == 1
    said = capsys.readouterr()
    assert "Error: your estimator 'mine' in" in said.err
    assert "mine.py, line 7, raised JSONDecodeError" in said.err
    assert "fault in quietfield" not in said.err
    assert "Stopped" not in said.out
    kept = {row.trial.method for row in Store(results, "fig1b").read()}
    assert kept == {"naive"}
    (tmp_path / "mine.py").write_text(
        MISTAKE.replace('json.loads("{")', "__import__('quietfield').fit(release, 'naive')")
    )
    assert main(["fig1b", *asked, *chosen]) == 0
    assert {row.trial.method for row in Store(results, "fig1b").read()} == {"naive", "mine"}


def test_a_mistake_leaves_no_folder_behind_and_debug_shows_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(MISTAKE)
    asked = ["fig1b", "--tiny", "--with", str(tmp_path / "mine.py"), "--no-figures"]
    assert main(["--debug", *asked, "--methods", "mine", "--out", str(tmp_path / "a" / "b")]) == 1
    said = capsys.readouterr().err
    assert "return json.loads" in said
    assert "JSONDecodeError: Expecting property name" in said
    assert main([*asked, "--methods", "mine,nobody", "--out", str(tmp_path / "c")]) == 1
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == ["mine.py"]
