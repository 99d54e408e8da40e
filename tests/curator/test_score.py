"""A model against records: exact and marked, or noisy and paid for."""

import json
from dataclasses import replace

import numpy as np
import pytest

import quietfield as qf
from quietfield.cli import main
from quietfield.curator import score as scoring
from quietfield.privacy.units import GRID
from quietfield.releases.parts import Payment

pytest.importorskip("duckdb")
pytest.importorskip("opendp")

SCHEMA = qf.Schema({"a": ["x", "y"], "b": [0, 1, 2], "c": [0, 1]})
MODEL = qf.Model(
    SCHEMA.domain, {("b", "a"): [[1.0, 0.0], [0.3, 0.2], [-1.0, 0.5]], ("b", "c"): [[0, 1], [1, 0], [0, 0]]}
)


@pytest.fixture(scope="module")
def people():
    return MODEL.sample(3000, seed=4)


@pytest.fixture
def files(tmp_path, people):
    people.save(tmp_path / "people.csv")
    SCHEMA.save(tmp_path / "schema.json")
    MODEL.save(tmp_path / "model.qfm")
    return tmp_path


def test_the_log_likelihood_is_the_mean_over_records(people):
    for source in (people.codes, {name: people[name] for name in people.columns}):
        found = scoring.confidential_score(MODEL, source, SCHEMA)
        assert found.records == 3000
        assert found.mean_log_likelihood == pytest.approx(MODEL.log_prob(people.codes).mean(), abs=1e-9)


def test_a_right_model_is_off_by_chance_alone_and_a_wrong_one_by_more(people):
    right = scoring.confidential_score(MODEL, people.codes, SCHEMA)
    wrong = scoring.confidential_score(qf.Model(SCHEMA.domain, {("a", "b"): np.zeros((2, 3))}), people.codes, SCHEMA)
    for table in right.tables:
        assert table.distance < 3 * table.expected
    assert {table.attributes for table in wrong.tables} == {("a", "b"), ("c",)}
    assert max(table.distance / table.expected for table in wrong.tables) > 5
    assert wrong.mean_log_likelihood < right.mean_log_likelihood
    assert wrong.mean_error > right.mean_error


def test_it_is_marked_wherever_it_is_shown(people):
    found = scoring.confidential_score(MODEL, people.codes, SCHEMA)
    assert repr(found).count("NOT PRIVATE") == 2
    assert "NOT PRIVATE" in found.to_dict()["warning"]


def test_impossible_combinations_are_counted():
    domain = qf.Domain({"a": ["x", "y"], "b": [0, 1, 2], "c": [0, 1]}, impossible=[{"c": 1, "a": "y"}])
    strict = qf.Model(domain, {("a", "b"): np.zeros((2, 3))})
    codes = np.array([[0, 1, 0], [1, 2, 1], [1, 0, 1]])
    found = scoring.confidential_score(strict, codes, SCHEMA)
    assert found.impossible == 2
    assert found.mean_log_likelihood == -np.inf
    assert json.loads(json.dumps(found.to_dict()))["mean_log_likelihood"] is None


def test_a_noisy_score_is_right_on_average_and_as_spread_as_it_says(people):
    scores = [
        scoring.dp_score(MODEL, people.codes, SCHEMA, epsilon=0.5, unit=qf.Rows(2), ledger=None, clip=(-6, 0))
        for _ in range(300)
    ]
    truth = np.clip(MODEL.log_prob(people.codes), -6, 0).mean()
    means = np.array([score.mean_log_likelihood for score in scores])
    std = np.mean([score.std for score in scores])
    assert abs(means.mean() - truth) < 6 * std / np.sqrt(300)  # six standard errors: 2 in 10^9
    # The spread of 300 Laplace draws is itself off by 6.5%, and further upwards than downwards: these limits ring by
    # chance less than once in 10^9 times, and see a factor of 2.
    assert 0.6 < means.std() / std < 1.7
    totals = np.array([score.records for score in scores])
    # Two numbers of sensitivity 2 each at epsilon 0.5: Laplace noise of scale 8.
    assert 0.6 < totals.std() / (8 * np.sqrt(2)) < 1.7


def test_one_row_changes_the_sum_by_no_more_than_is_planned_for(monkeypatch, people):
    """What goes into the mechanism, for every possible row added: at most GRID steps and one row."""
    seen = []

    def look(plan, tables, total):
        seen.append((int(tables[0][0]), total))
        return [tables[0]], total

    monkeypatch.setattr(scoring.mechanism, "draw_noise", look)
    few = people.codes[:20]
    rows = [np.array([[a, b, c]]) for a in range(2) for b in range(3) for c in range(2)]
    for data in [few, *(np.concatenate([few, row]) for row in rows)]:
        scoring.dp_score(MODEL, data, SCHEMA, epsilon=1, unit=qf.Rows(1), ledger=None, clip=(-2, -1.5))
    for summed, total in seen[1:]:
        assert 0 <= summed - seen[0][0] <= GRID
        assert total - seen[0][1] == GRID
    planned = scoring._summed(3)
    assert (planned.l1, planned.l2_squared, planned.denominator) == (6, 18, GRID)


@pytest.mark.filterwarnings("ignore:epsilon .* promises next to nothing")
@pytest.mark.filterwarnings("ignore:no clique holds 'b', 'c'")
def test_one_person_changes_the_sum_by_no_more_than_is_planned_for(monkeypatch, people):
    """With at most 2 rows of each person: the rows that a release counts, whatever their order, and 2 GRID at most."""
    seen = []

    def look(plan, tables, total):
        seen.append((int(tables[0][0]), total, plan))
        return [tables[0]], max(total, 1)

    monkeypatch.setattr(scoring.mechanism, "draw_noise", look)
    unit = qf.Person("who", rows=2)
    others = {name: people[name][:60].tolist() for name in "abc"} | {"who": [i // 4 for i in range(60)]}
    asked = {"epsilon": 1, "unit": unit, "ledger": None, "clip": (-2, -1.5)}
    random = np.random.default_rng(0)
    scoring.dp_score(MODEL, others, SCHEMA, **asked)
    for rows in (1, 2, 3, 9):
        extra = MODEL.sample(rows, seed=rows)
        both = {name: others[name] + extra[name].tolist() for name in "abc"} | {"who": others["who"] + [99] * rows}
        order = random.permutation(len(both["who"]))
        for data in (both, {name: [values[i] for i in order] for name, values in both.items()}):
            scoring.dp_score(MODEL, data, SCHEMA, **asked)
        assert seen[-1][:2] == seen[-2][:2]
        assert 0 <= seen[-1][0] - seen[0][0] <= 2 * GRID
        assert seen[-1][1] - seen[0][1] == min(rows, 2) * GRID
    assert seen[0][1] == 30 * GRID
    assert seen[0][2].scales == scoring.mechanism.plan_noise(scoring._summed(2), epsilon=1).scales
    released = qf.release(others, SCHEMA, [("a",)], epsilon=10**6, unit=unit, ledger=None, total=True)
    assert released.total == 30


def test_scores_of_persons_are_charged_to_their_ledger(files, people, capsys):
    text = (files / "people.csv").read_text().splitlines()
    (files / "persons.csv").write_text(
        "\n".join([f"{text[0]},who", *(f"{t},{i // 3}" for i, t in enumerate(text[1:]))])
    )
    ledger = qf.Ledger.create(files / "p.db", epsilon=1, unit=qf.Person("who", rows=1))
    model, schema, data, book = (str(files / name) for name in ("model.qfm", "schema.json", "persons.csv", "p.db"))
    asked = ["score", model, data, "--schema", schema, "--epsilon", "0.5", "--ledger", book]
    assert main([*asked, "--unit", "person:who:2"]) == 1
    assert "--one-line-per-record" in capsys.readouterr().err
    assert ledger.spent == 0
    assert main([*asked, "--unit", "person:who:2", "--one-line-per-record"]) == 0
    shown = capsys.readouterr().out
    assert "any one 'who', of whom at most 2 rows are counted, provided that every record is one line" in shown
    assert float(ledger.spent) == 0.5
    assert main([*asked, "--unit", "rows:1"]) == 1
    assert main([*asked, "--unit", "person:who:normalise"]) == 1
    assert "person:who:k" in capsys.readouterr().err
    assert float(ledger.spent) == 0.5


def test_unknown_codes_are_scored_as_they_are_counted():
    schema = qf.Schema({"a": qf.Labels([0, 1], unknown=1), "b": [0, 1]})
    model = qf.Model(schema.domain, {("a", "b"): np.zeros((2, 2))})
    codes = np.array([[0, 1], [7, 1], [1, 5], [-1, 0]])
    assert scoring._array_codes(codes, schema).tolist() == [[0, 1], [1, 1], [1, 0]]
    assert scoring.confidential_score(model, codes, schema).records == 3


def test_the_default_clip_knows_nothing_of_the_records(people):
    first = scoring.dp_score(MODEL, people.codes, SCHEMA, epsilon=5, unit=qf.Rows(1), ledger=None)
    second = scoring.dp_score(MODEL, people.codes[:100], SCHEMA, epsilon=5, unit=qf.Rows(1), ledger=None)
    assert (first.low, first.high) == (second.low, second.high)
    assert first.low < first.mean_log_likelihood < first.high


def test_the_ledger_pays_first_and_mistakes_cost_nothing(files, people):
    ledger = qf.Ledger.create(files / "b.db", epsilon=1, unit=qf.Rows(1))
    (files / "short.csv").write_text("a,b\nx,0\n")
    asked = {"epsilon": "0.4", "unit": qf.Rows(1), "ledger": ledger}
    for source, more, message in (
        (files / "short.csv", {}, "has no column 'c'"),
        (people.codes, {"clip": (0, 1)}, "clip is an interval"),
        (people.codes, {"unit": qf.Person("a", rows=1)}, "no column that names persons"),
        (files / "people.csv", {"unit": qf.Person("a", normalise=True)}, r"Person\('a', rows=k\)"),
        (files / "people.csv", {"unit": qf.Person("who", rows=1)}, "line by line"),
        (
            qf.CsvFile(files / "people.csv", one_line_per_record=True),
            {"unit": qf.Person("who", rows=1)},
            "has no column 'who'",
        ),
        (files / "people.csv", {"unit": "rows:1"}, "a unit is Rows"),
        (people.codes, {"epsilon": 0}, "greater than 0"),
        (people.codes, {"noise": "gaussian"}, "needs a delta"),
    ):
        with pytest.raises(qf.Error, match=message):
            scoring.dp_score(MODEL, source, SCHEMA, **{**asked, **more})
    assert ledger.spent == 0
    found = scoring.dp_score(MODEL, files / "people.csv", SCHEMA, **asked)
    (charge,) = ledger.charges
    assert (found.id, found.ledger) == (charge.release, Payment(ledger.id, 1, charge.digest))
    assert found.to_dict()["ledger"] == {"id": ledger.id, "number": 1, "digest": charge.digest}
    assert ledger.missing([found]) == ()
    assert ledger.missing([replace(found, id="another")])
    assert float(ledger.spent) == pytest.approx(0.4)
    scoring.dp_score(MODEL, files / "people.csv", SCHEMA, **asked)
    with pytest.raises(qf.Error, match=r"[Bb]udget|remain|left"):
        scoring.dp_score(MODEL, files / "people.csv", SCHEMA, **asked)
    assert len(ledger.charges) == 2


def test_no_value_is_looked_at_before_the_ledger_has_paid(files):
    """Whether a frame or a list can be opened at all may depend on a record."""
    ledger = qf.Ledger.create(files / "b.db", epsilon=1, unit=qf.Rows(1))
    spent = []

    class Column(list):
        def __iter__(self):
            spent.append(float(ledger.spent))
            return super().__iter__()

    columns = {"a": Column(["x", "y"]), "b": Column([0, 1, 2]), "c": Column([0, 1])}
    with pytest.raises(qf.Error, match="differ in length"):
        scoring.dp_score(MODEL, columns, SCHEMA, epsilon="0.4", unit=qf.Rows(1), ledger=ledger)
    assert spent
    assert set(spent) == {0.4}


def test_a_model_that_is_too_large_is_refused_before_the_charge(tmp_path):
    ledger = qf.Ledger.create(tmp_path / "b.db", epsilon=1, unit=qf.Rows(1))
    schema = qf.Schema({f"a{i}": 4 for i in range(45)})
    model = qf.Model(schema.domain, {pair: np.zeros((4, 4)) for pair in qf.structures.complete(schema.domain)})
    codes = np.zeros((9, 45), int)
    with pytest.raises(qf.Error, match="exact inference"):
        scoring.dp_score(model, codes, schema, epsilon=1, unit=qf.Rows(1), ledger=ledger, clip=(-9, 0))
    assert ledger.spent == 0


def test_a_score_that_fails_says_that_it_was_charged(people, tmp_path, monkeypatch):
    ledger = qf.Ledger.create(tmp_path / "b.db", epsilon=1, unit=qf.Rows(1))

    def fails(*_):
        raise qf.Error("the noise failed.")

    monkeypatch.setattr(scoring.mechanism, "draw_noise", fails)
    with pytest.raises(qf.Error, match=r"the noise failed\. .*the charge stands"):
        scoring.dp_score(MODEL, people.codes, SCHEMA, epsilon="0.4", unit=qf.Rows(1), ledger=ledger)
    assert len(ledger.charges) == 1


def test_gaussian_scores_are_charged_by_rho(people, tmp_path):
    ledger = qf.Ledger.create(tmp_path / "b.db", epsilon=2, delta=1e-6, unit=qf.Rows(1), accounting_by="zcdp")
    found = scoring.dp_score(
        MODEL, people.codes, SCHEMA, epsilon=1, delta=1e-6, noise="gaussian", unit=qf.Rows(1), ledger=ledger
    )
    assert found.delta is not None
    assert 0 < ledger.spent < ledger.total


def test_a_schema_of_other_labels_is_refused(people):
    with pytest.raises(qf.Error, match="differ in 'a'"):
        scoring.confidential_score(MODEL, people.codes, qf.Schema({"a": ["y", "x"], "b": [0, 1, 2], "c": [0, 1]}))


def test_the_command(files, capsys):
    model, schema, data = (str(files / name) for name in ("model.qfm", "schema.json", "people.csv"))
    before = sorted(path.name for path in files.iterdir())
    assert main(["score", model, data, "--schema", schema, "--confidential"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("NOT PRIVATE")
    assert shown.rstrip().endswith("do not pass it on.")
    assert sorted(path.name for path in files.iterdir()) == before
    assert main(["score", model, data, "--schema", schema, "--confidential", "--json"]) == 0
    assert "NOT PRIVATE" in json.loads(capsys.readouterr().out)["warning"]
    paid = ["score", model, data, "--schema", schema, "--epsilon", "1", "--no-ledger"]
    assert main(paid) == 0
    assert "NOT PRIVATE" not in capsys.readouterr().out
    assert main([*paid, "--clip=-6,0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["clipped_to"] == [-6, 0]
    for words, message in (
        ([], "say how"),
        (["--confidential", "--epsilon", "1"], "say how"),
        (["--confidential", "--no-ledger"], "go with --epsilon"),
        (["--confidential", "--clip=-6,0"], "go with --epsilon"),
        (["--epsilon", "1"], "say who pays"),
    ):
        assert main(["score", model, data, "--schema", schema, *words]) == 1
        assert message in capsys.readouterr().err
