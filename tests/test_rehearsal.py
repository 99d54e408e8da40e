"""Previews: rehearsals as a real release would be, and what is read off their curves."""

import json
import math
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import quietfield as qf
from quietfield.cli import main
from quietfield.drawing import charts
from quietfield.privacy import planning
from quietfield.privacy.calibration import choose_statistics
from quietfield.privacy.units import GRID
from quietfield.study import trials

DOMAIN = qf.Domain({"age": 3, "smokes": ["no", "yes"], "visits": 3})
CHAIN = qf.structures.chain(DOMAIN)


@pytest.fixture(scope="module")
def seen():
    return qf.rehearse(DOMAIN, CHAIN, records=4000, epsilons=[10, 0.05, 0.5], repeats=2, seconds=600)


def test_the_error_falls_with_epsilon_to_that_of_the_sample(seen):
    assert seen.epsilons == (0.05, 0.5, 10.0)
    errors = [row["mean"] for row in seen.table]
    assert errors[0] > 2 * errors[1] > 2 * 0.8 * errors[2]
    assert errors[2] < 2 * seen.sampling["mean"]
    for row in seen.table:
        assert row["rehearsals"] == 6
        assert 0 < row["mean_low"] <= row["mean"] <= row["mean_high"]
        assert row["mean"] < row["p95"] < row["distance"] * 2
        assert row["cell_std"] == pytest.approx(max(t.std for t in seen.tables(row["epsilon"])))


def test_which_epsilon_for_this_error_inverts_the_curve(seen):
    middle = seen.table[1]
    answer = seen.epsilon_for(middle["mean"])
    assert answer.epsilon == pytest.approx(0.5)
    assert answer.low <= answer.epsilon <= answer.high
    assert seen.epsilon_for(0.9).epsilon == 0.05
    nothing = seen.epsilon_for(1e-6)
    assert nothing.epsilon == math.inf
    assert "only more would do" in nothing.note
    assert nothing.to_dict()["epsilon"] is None
    assert seen.epsilon_for(middle["p95"], "p95").epsilon == pytest.approx(0.5)


def test_the_same_seed_gives_the_same_rehearsal(seen):
    again = qf.rehearse(DOMAIN, CHAIN, records=4000, epsilons=[0.05, 0.5, 10], repeats=1, seconds=600)
    assert again.trials == tuple(t for t in seen.trials if t.repeat == 0)


def test_pictures_and_data(seen):
    picture = ET.fromstring(seen.svg(error=0.02))
    assert picture.get("role") == "img"
    assert sum(1 for _ in picture.iter("{http://www.w3.org/2000/svg}circle")) == 3
    assert seen.plot().count("o") >= 3
    assert json.loads(json.dumps(seen.to_dict()))["records"] == 4000
    shown = seen._repr_html_()
    assert shown.count("<tr>") == 4
    assert "guessed" in shown
    assert "4,000 (guessed)" in repr(seen)


def test_too_little_time_is_said():
    short = qf.rehearse(DOMAIN, CHAIN, records=4000, epsilons=[1], seconds=1e-9)
    assert short.trials == ()
    assert any("nothing was rehearsed in the 1e-09 s" in note for note in short.notes)
    assert short.tables(1)[0].cells == 6
    with pytest.raises(qf.Error, match="nothing was rehearsed"):
        short.epsilon_for(0.1)
    assert short.table[0]["mean"] is None


def test_a_model_that_does_not_fit_still_shows_its_tables():
    domain = qf.Domain({f"x{i}": 10 for i in range(24)})
    large = qf.rehearse(domain, qf.structures.complete(domain), records=1000, epsilons=[1])
    assert any("exact inference would need" in note for note in large.notes)
    assert len(large.tables(1)) == 276


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"records": 0}, "guessed number of records"),
        ({"epsilons": []}, "at least one epsilon"),
        ({"epsilons": [0]}, "greater than 0"),
        ({"noise": "gaussian"}, "needs a delta"),
        ({"noise": "pink"}, "'laplace' or 'gaussian'"),
        ({"strengths": [-1]}, "strengths"),
        ({"delta": 1e-6}, "leave delta out"),
    ],
)
def test_mistakes(asked, message):
    with pytest.raises(qf.Error, match=message):
        qf.rehearse(DOMAIN, CHAIN, **{"records": 10, "epsilons": [1], **asked})


@pytest.mark.filterwarnings("ignore:epsilon .* promises next to nothing")
@pytest.mark.parametrize("unit", [qf.Rows(1), qf.Person("who", rows=2), qf.Person("who", normalise=True, null=0)])
def test_made_up_people_are_counted_as_a_release_counts_them(unit):
    """With hardly any noise, the curator's own count of the same records gives the same tables."""
    pytest.importorskip("opendp")
    domain = qf.Domain({"a": 3, "b": 3, "c": 3})
    schema = qf.Schema({name: [0, 1, 2] for name in domain})
    structure = qf.structures.chain(domain)
    statistics, _ = choose_statistics(structure, domain, unit, "add_remove", True, "laplace")
    truth = trials.draw_plausible_model(domain, structure, 1.0, np.random.default_rng(1))
    random = np.random.default_rng(2)
    found = trials.populate(truth, structure, statistics, unit, 3000, 2, random)
    codes = truth.sample(3000, seed=int(np.random.default_rng(2).integers(2**62))).codes
    rows = {name: codes[:, i] for i, name in enumerate(domain)}
    rows["who"] = np.arange(3000) // 2
    real = qf.release(rows, schema, structure, epsilon=10**8, unit=unit, total=True, ledger=None)
    for part, table in zip(real.parts, found.tables, strict=True):
        counted = np.ones(table.shape, bool)
        if part.excluded is not None:
            counted[part.excluded] = False
        assert np.abs((part.values - table)[counted]).max() <= (GRID * 1e-4 if real.denominator > 1 else 0)
    assert abs(real.total_part.value - found.total) <= (GRID * 1e-4 if real.denominator > 1 else 0)


def test_many_records_keep_their_sampling_error(monkeypatch):
    """Above the limit fewer are drawn, and their error is scaled: its variance is that of all of them."""
    monkeypatch.setattr(trials, "MOST_RECORDS", 500)
    statistics, _ = choose_statistics(CHAIN, DOMAIN, qf.Rows(1), "add_remove", True, "laplace")
    truth = trials.draw_plausible_model(DOMAIN, CHAIN, 0.5, np.random.default_rng(1))
    tables = []
    for i in range(400):
        found = trials.populate(truth, CHAIN, statistics, qf.Rows(1), 5000, 1, np.random.default_rng(i))
        assert found.total == 5000
        tables.append(found.tables[0])
    share = truth.marginal(CHAIN.cliques[0])
    ratio = np.var(tables, axis=0) / (5000 * share * (1 - share))
    assert 0.85 < ratio.mean() < 1.15


def test_noise_that_drowns_the_people_counts_as_knowing_nothing():
    drowned = qf.rehearse(
        DOMAIN, CHAIN, records=2, epsilons=[0.001, 0.002, 0.003], strengths=[1.0], repeats=3, seconds=600
    )
    assert drowned.table[0]["not_learned"] >= 1
    assert any("no positive number of records" in note for note in drowned.notes)


def test_ticks_lie_in_range():
    for low, high in ((0.03, 0.9), (1, 1000), (0.5, 0.6), (1e-6, 1e6)):
        assert all(low * 0.95 <= tick <= high * 1.05 for tick in charts.ticks(low, high))
        assert len(charts.ticks(low, high)) >= 2


def test_the_command(tmp_path, capsys):
    (tmp_path / "s.json").write_text(json.dumps(DOMAIN.to_json()))
    asked = ["plan", str(tmp_path / "s.json"), "--rehearse", "--structure", "chain", "--records", "4000"]
    asked += ["--epsilon", "0.05,0.5,10"]
    picture = tmp_path / "curve.svg"
    assert main([*asked, "--error", "2%", "--svg", str(picture), "--seconds", "600"]) == 0
    shown = capsys.readouterr().out
    assert "laplace      about epsilon" in shown or "the smallest tried" in shown
    assert "(guessed)" in shown
    assert ET.parse(picture).getroot().tag.endswith("svg")
    assert main([*asked, "--error", "0.02", "--json", "--repeats", "1", "--seconds", "600"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["needed"]["laplace"]["epsilon"] > 0
    assert [row["epsilon"] for row in found["epsilons"]] == [0.05, 0.5, 10]
    for wrong, message in (
        (["--error", "two"], "--error is a share"),
        (["--measure", "size"], "'--measure'"),
        (["--svg", str(tmp_path / "no" / "curve.svg")], "cannot write"),
        (["--total", "maybe"], "'--total'"),
    ):
        assert main([*asked, *wrong]) in (1, 2)
        assert message in capsys.readouterr().err


def test_planning_is_light(root):
    modules = "quietfield.privacy.calibration, quietfield.study.rehearsal"
    code = f"import sys, {modules}; sys.exit(bool({{'jax', 'opendp'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=root).returncode == 0
    assert planning.HUGE_EPSILON == 20


def test_both_kinds_of_noise_and_units_are_planned_as_released():
    """Without rehearsals: the noise that each kind and unit would get."""
    asked = {"records": 1000, "epsilons": [1], "seconds": 1e-9}
    both = qf.rehearse(DOMAIN, CHAIN, noise="both", delta=1e-6, **asked)
    assert [row["noise"] for row in both.table] == ["laplace", "gaussian"]
    assert {type(both.tables(1, kind)[0].noise) for kind in both.noise} == {qf.Laplace, qf.Gaussian}
    one, three = (qf.rehearse(DOMAIN, CHAIN, unit=qf.Rows(k), **asked).tables(1)[0] for k in (1, 3))
    assert three.noise.scale == pytest.approx(3 * one.noise.scale)
    shared = qf.rehearse(DOMAIN, CHAIN, unit=qf.Person("id", normalise=True), rows_each=5, **asked).tables(1)[0]
    assert shared.share_std == pytest.approx(shared.std / (1000 / (2 * 5)))
    with pytest.raises(qf.Error, match="'pink' noise was not rehearsed"):
        both.epsilon_for(0.1, noise="pink")
    with pytest.raises(qf.Error, match="was not rehearsed"):
        both.tables(2)
