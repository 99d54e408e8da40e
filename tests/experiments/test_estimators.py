"""Estimators of one's own: by decorator, by file, by entry point."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import quietfield as qf
from quietfield.experiments import estimator, estimators
from quietfield.experiments.estimators import Request, added, find, get, load_module
from quietfield.experiments.trials import Trial, simulation_of

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
    with pytest.raises(qf.Error, match="0 models for 1 releases"):
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
    file.write_text("from quietfield.experiments import estimator\nestimator('theirs')(lambda release: None)\n")
    load_module(str(file))
    assert get("theirs").name == "theirs"


@pytest.mark.parametrize("name", ["no_such_module", "no/such/file.py"])
def test_a_module_that_is_not_there_is_told(name: str) -> None:
    with pytest.raises(qf.Error, match="--with"):
        load_module(name)


def test_a_module_that_misses_another_shows_that_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "needs.py").write_text("import not_installed_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_installed_at_all"):
        load_module("needs")


def test_other_packages_add_estimators_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_package.py").write_text(
        "from quietfield.experiments import estimator\nestimator('packaged')(lambda release: None)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("any", "their_package", "quietfield.estimators")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [point])
    monkeypatch.setattr(estimators, "_loaded", False)
    assert get("packaged").name == "packaged"


def test_a_release_that_cannot_be_learned_from_does_not_stop_the_others() -> None:
    from quietfield.experiments.running import divergence, measured

    first = [float(simulation_of(TRIAL._replace(population=p)).release.tables["x0", "x1"][0, 0]) for p in range(8)]

    def low(release: qf.Release) -> bool:
        return float(release.tables["x0", "x1"][0, 0]) < sorted(first)[3]

    def moody(releases: list[qf.Release]) -> list[qf.Model]:
        if any(low(release) for release in releases):
            raise qf.Error("it broke down.")
        return [flat(release) for release in releases]

    estimator("mine", batched=True)(moody)
    trials = [TRIAL._replace(population=p) for p in range(8)]
    broken = {t for t in trials if low(simulation_of(t).release)}
    assert len(broken) == 3
    with pytest.warns(UserWarning, match="it broke down"):
        rows = measured(trials, divergence)
    assert {row.trial for row in rows if row.measure == "failed"} == broken
    assert {row.trial for row in rows if row.measure == "kl"} == set(trials) - broken
