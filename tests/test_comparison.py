"""Models and methods side by side."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

import quietfield as qf
from quietfield.cli import main
from quietfield.study.comparison import explain_columns

DOMAIN = qf.Domain({"a": ["no", "yes"], "b": 3})


@pytest.fixture(scope="module")
def truth():
    return qf.Model(DOMAIN, {("a", "b"): [[1.0, 0.0, -0.5], [-0.3, 0.2, 0.9]]})


@pytest.fixture(scope="module")
def release(truth):
    noisy = 2000 * truth.marginal(("a", "b")) + np.random.default_rng(3).laplace(0, 20, (2, 3))
    return qf.Release.from_tables(DOMAIN, {("a", "b"): noisy}, noise=qf.Laplace(20.0), total=2000)


@pytest.fixture(scope="module")
def found(release, truth):
    return qf.compare(release, methods=["map", "naive"], models={"truth": truth})


def test_methods_and_models_stand_side_by_side(found, truth):
    assert [row.name for row in found.rows] == ["truth", "map", "naive"]
    first, learned, _ = found.rows
    assert (first.kl, first.distance, first.largest) == (0.0, 0.0, None)
    assert learned.kl == pytest.approx(truth.kl(found.models["map"]))
    assert found.kl["map"]["truth"] == pytest.approx(found.models["map"].kl(truth))
    gap = np.abs(found.models["map"].marginal(("a", "b")) - truth.marginal(("a", "b")))
    assert learned.largest.size == pytest.approx(gap.max())
    assert learned.distance == pytest.approx(gap.sum() / 2)
    assert learned.converged is True
    assert first.converged is None


def test_a_wrong_model_explains_the_release_worse(release, truth, found):
    wrong = qf.Model(DOMAIN, {("a", "b"): np.zeros((2, 3))})
    good, bad = explain_columns(release, truth), explain_columns(release, wrong)
    assert good[0] > bad[0] + 0.5
    assert good[2] == 0
    assert bad[2] == 1
    assert bad[1] > 3 > good[1]


def test_residuals_below_1_do_not_mean_that_noise_was_learned():
    study = qf.simulate("chain", attributes=3, states=3, records=20_000, epsilon=10, potentials="gaussian")
    best = qf.references.fit_true_tables(study.model.domain, study.tables)  # has seen no noise
    compared = qf.compare(study.release, models={"truth": study.model, "best": best})
    assert compared.rows[1].residual < 0.3 < compared.rows[0].residual
    assert any("below 1 are usual" in note for note in compared.notes)


def test_the_log_score_is_the_density_of_the_noisy_cells(release, truth):
    """Against a numerical convolution of the normal and the Laplace density."""
    n = np.linspace(-4000, 8000, 240_001)
    expected = 2000 * truth.marginal(("a", "b")).ravel()
    logs = []
    for y, mean in zip(release.tables["a", "b"].ravel(), expected, strict=True):
        v = mean * (1 - mean / 2000)
        normal = np.exp(-((n - mean) ** 2) / (2 * v)) / np.sqrt(2 * np.pi * v)
        logs.append(np.log(np.trapezoid(normal * np.exp(-np.abs(y - n) / 20) / 40, n)))
    assert explain_columns(release, truth)[0] == pytest.approx(np.mean(logs), abs=1e-3)


def test_models_alone(truth):
    other = qf.Model(DOMAIN, {("a",): [0.0, 0.0], ("b",): [0.0, 0.0, 0.0]})
    found = qf.compare(models={"truth": truth, "flat": other})
    assert found.rows[1].log_score is None
    assert found.rows[1].kl == pytest.approx(truth.kl(other))
    assert found.rows[1].largest.attributes == ("a", "b")
    assert "flat differs most from truth at a=" in repr(found)
    json.dumps(found.to_dict())


def test_approximate_models_have_no_divergence(truth):
    loopy = qf.Model(DOMAIN, dict(truth.potentials), inference="loopy")
    found = qf.compare(models={"truth": truth, "loopy": loopy})
    assert found.rows[1].kl is None
    assert found.rows[1].distance < 1e-6


def test_one_method_may_be_named_alone(release):
    assert [row.name for row in qf.compare(release, methods="naive").rows] == ["naive"]
    with pytest.raises(qf.Error, match="'magic' is not a learning method"):
        qf.compare(release, methods="magic")


def test_pictures(found):
    assert ET.fromstring(found.svg()).get("role") == "img"
    shown = found._repr_html_()
    assert shown.count("<tr>") == 4
    assert "truth" in shown


def test_columns_that_say_nothing_are_left_out(release, truth):
    alone = qf.compare(release, methods=(), models={"truth": truth})
    assert alone.lines()[0].split() == ["model", "log-score", "residuals", "missed"]
    assert "KL" not in alone._repr_html_()
    both = qf.compare(models={"truth": truth, "年齢": truth})
    assert both.lines()[0].split("  ") == ["model", "KL from first", "distance"]
    assert [line.count(" - ") for line in both.lines()] == [0, 0, 0]
    whole = qf.compare(release, methods=["map"], models={"truth": truth})
    assert whole.lines()[0].split()[-1] == "converged"
    assert whole.lines()[1].split()[-1] == "-"


def test_models_of_another_release_are_named(release, truth):
    noise = qf.Laplace(20.0)
    other = qf.Release.from_tables(DOMAIN, {("a", "b"): np.full((2, 3), 50.0)}, noise=noise)
    release = replace(release, id="one")
    ours = qf.fit(release)
    known = {"one": ours.report, "two": replace(ours.report, release_digest="0" * 64)}  # a digest tells more than an id
    models = {name: qf.Model(DOMAIN, dict(ours.potentials), report=report) for name, report in known.items()}
    both = qf.compare(release, models={**models, "truth": truth})
    assert "for models learned from them, residuals below 1 are usual" in both.notes[0]
    assert both.notes[1].startswith("'two' was learned from another release: here its log-score and residuals are of")
    assert len(qf.compare(release, models={"one": models["one"]}).notes) == 1
    alone = qf.compare(release, models={"two": models["two"], "too": models["two"]}).notes
    assert len(alone) == 1
    assert alone[0].startswith("'two', 'too' were learned from another release: here their")
    assert "learned from another release" in qf.compare(other, models={"one": models["one"]}).notes[0]
    old = qf.Model(DOMAIN, dict(ours.potentials), report=replace(ours.report, release_digest=""))  # as once written
    assert qf.compare(other, models={"old": old}).notes[0].startswith("log-score")  # nobody can tell


def test_differences_at_what_one_model_never_measured_are_marked():
    domain = qf.Domain({"a": 2, "b": 3, "one": ["value"]})
    whole = qf.Model(domain, {("a",): [0.0, 0.1], ("b",): [2.0, 0.0, 0.0], ("one",): [0.0]})
    part = qf.Model(domain, {("a",): [0.0, 0.2]})
    for models in ({"whole": whole, "part": part}, {"part": part, "whole": whole}):
        found = qf.compare(models=models)
        assert found.rows[1].largest.attributes == ("b",)
        assert found.lines()[-1].endswith("(in no clique of part: 'b')")
        assert [note for note in found.notes if note.startswith("no clique of")] == [
            "no clique of 'part' holds 'b': all values are taken as equally likely there, and its distances and "
            "differences tell of that too"
        ]
    same = qf.compare(models={"whole": whole, "flat": qf.Model(domain, {("a", "b"): np.zeros((2, 3))})})
    assert "in no clique" not in repr(same)
    assert same.notes == ()


def test_mistakes(release, truth):
    other = qf.Model(qf.Domain({"a": 2, "b": 3}), {("a", "b"): np.zeros((2, 3))})
    for asked, message in (
        ({}, "nothing to compare"),
        ({"models": {"x": truth}}, "'x' is one model alone, with nothing to compare it with"),
        ({"methods": ["map"]}, "learn from a release"),
        ({"models": {"x": 3}}, "'x' is an int"),
        ({"models": {"x": truth, "y": other}}, "'y' and the first one differ in 'a'"),
        ({"release": release, "models": {"y": other}}, "the release and the models differ in 'a'"),
        ({"release": release, "methods": ["map", "map"]}, "two models"),
        ({"release": release, "methods": ["magic"]}, "not a learning method"),
    ):
        with pytest.raises(qf.Error, match=message):
            qf.compare(**asked)


def test_the_command(release, truth, tmp_path, capsys):
    release.save(tmp_path / "r.qfr")
    truth.save(tmp_path / "truth.qfm")
    asked = ["compare", str(tmp_path / "r.qfr"), str(tmp_path / "truth.qfm"), "--methods", "map"]
    assert main([*asked, "--svg", str(tmp_path / "d.svg")]) == 0
    shown = capsys.readouterr().out
    assert "truth.qfm" in shown
    assert "map differs most from truth.qfm" in shown
    assert ET.parse(tmp_path / "d.svg").getroot().tag.endswith("svg")
    assert main([*asked, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in content["models"]] == ["truth.qfm", "map"]
    capsys.readouterr()
    assert main([*asked, str(tmp_path / "r.qfr")]) == 1
    assert "two releases" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "absent.qfm")]) == 1
    assert "cannot read" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "truth.qfm")]) == 1
    shown = capsys.readouterr()
    assert "truth.qfm is one model alone, with nothing to compare it with; add a second model" in shown.err
    assert shown.out == ""
    assert main(["compare", str(tmp_path / "r.qfr"), "--methods", "map", "--svg", str(tmp_path / "one.svg")]) == 1
    assert "there is one alone" in capsys.readouterr().err
    assert not (tmp_path / "one.svg").exists()


def test_how_far_each_model_is_from_the_truth(release, truth, tmp_path, capsys):
    blank = qf.Model(truth.domain, {clique: np.zeros(truth.domain.table_shape(clique)) for clique in truth.cliques})
    found = qf.compare(models={"truth": truth, "blank": blank}, truth=truth)
    right, wrong = (row.truth for row in found.rows)
    assert (right.kl, right.mean, right.p95, right.single, right.distance) == pytest.approx((0, 0, 0, 0, 0), abs=1e-12)
    gaps = [np.abs(truth.marginal(clique) - blank.marginal(clique)) for clique in truth.cliques]
    assert wrong.mean == pytest.approx(np.concatenate([gap.ravel() for gap in gaps]).mean())
    assert wrong.distance == pytest.approx(np.mean([gap.sum() / 2 for gap in gaps]))
    assert wrong.kl == pytest.approx(truth.kl(blank))
    truth.save(tmp_path / "truth.qfm")
    blank.save(tmp_path / "blank.qfm")
    asked = ["compare", str(tmp_path / "blank.qfm"), "--truth", str(tmp_path / "truth.qfm")]
    assert main(asked) == 0  # one model alone will do
    assert "KL from truth" in capsys.readouterr().out
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"][0]["truth"]["mean"] == pytest.approx(wrong.mean)
    with pytest.raises(qf.Error, match="the truth is a Model"):
        qf.compare(release, truth="truth.qfm")
