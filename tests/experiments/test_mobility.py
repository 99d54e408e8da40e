"""The simulated building, its segments and their weightings, beside what the curator's own code counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import fig3b, mobility
from experiments.building import HOURS, KINDS, START, Building
from experiments.trials import Row, Trial
from quietfield.curator.counting import count
from quietfield.curator.publish import plan_release
from quietfield.errors import CannotLearn, Error

TINY = Building(people=40, days=3, floors=2)


@pytest.fixture(scope="module")
def walks() -> mobility.Walks:
    return mobility.from_log(TINY, 0)


def test_the_log_follows_from_the_seed() -> None:
    assert TINY.log(1).equals(TINY.log(1))
    assert not TINY.log(1).equals(TINY.log(2))


def test_rooms_are_empty_when_closed_and_days_are_days() -> None:
    log = Building(people=300, days=2, hops=0.0).log(0)
    seconds = log["seen"].cast("int64").to_numpy() - START
    assert seconds.min() >= 0
    assert seconds.max() < 2 * 86_400
    kinds = np.array([place.split("-")[1] for place in log["place"].to_pylist()])
    for kind in KINDS:
        opens, closes = HOURS[kind]
        hours = seconds[kinds == kind] % 86_400 / 3600
        assert hours.min() >= opens
        # Who is inside when a room closes may stay on for a while.
        assert np.mean(hours >= closes) < 0.05


def test_the_default_building_is_as_large_as_the_papers() -> None:
    log = Building().log()
    day = (log["seen"].cast("int64").to_numpy() - START) // 86_400
    units = len(np.unique(log["user"].to_numpy() * 21 + day))
    assert units == pytest.approx(124_399, rel=0.01)


def test_our_tables_are_those_of_the_curator(walks: mobility.Walks) -> None:
    part = mobility.Split(walks, np.unique(walks.units), walks.segments)
    tables, total = mobility.tables(part, "ours")
    how = mobility.sequences(TINY)
    prepared = plan_release(how.schema, how.structure, epsilon=1, unit=how.unit, total=True)
    counted = count(how.log(walks.log), how.schema, prepared.statistics, how.unit)
    grid = prepared.statistics.denominator
    for mine, theirs in zip(tables.values(), counted.tables, strict=True):
        assert np.abs(mine - theirs / grid).max() < 1e-3
    assert total == pytest.approx(counted.total / grid, abs=1e-2)


def test_no_individual_is_on_both_sides(walks: mobility.Walks) -> None:
    part = mobility.split(walks, 3)
    held = np.setdiff1d(np.unique(walks.units), part.train)
    assert len(part.test) == np.isin(walks.units, held).sum()
    assert len(held) == len(np.unique(walks.individuals)) // 4
    assert len(mobility.split(walks, 3, 5).train) == 5


@given(st.data())
def test_one_unit_changes_our_tables_by_at_most_two(data: st.DataObject) -> None:
    states, slots = 4, 5
    segments = data.draw(st.lists(st.lists(st.integers(0, states - 1), min_size=slots, max_size=slots), max_size=6))
    codes = np.array(segments, dtype=np.int16).reshape(-1, slots)
    units = np.zeros(len(codes), int)
    found = mobility._nonempty("x", codes, units, np.zeros(1, int), states, 24)
    part = mobility.Split(found, np.zeros(1, int), found.segments)
    tables, total = mobility.tables(part, "ours")
    assert sum(np.abs(table).sum() for table in tables.values()) <= 2 + 1e-9
    assert total <= 1 + 1e-9


def test_sensitivities(walks: mobility.Walks) -> None:
    assert [mobility.sensitivity(walks, w) for w in mobility.WEIGHTINGS] == [2, 5, 144]
    assert mobility.sensitivity(walks, "unnormalised") * mobility.spent("building", "unnormalised") == 144


def test_a_unit_of_24_segments_changes_tables_of_equal_weights_by_all_that_is_planned() -> None:
    """In every table: the first slot, which was once left out, counts."""
    codes = np.zeros((24, 6), dtype=np.int16)
    found = mobility._nonempty("x", codes, np.zeros(24, int), np.zeros(1, int), 4, 24)
    part = mobility.Split(found, np.zeros(1, int), found.segments)
    change = sum(np.abs(table).sum() for table in mobility.tables(part, "equal")[0].values())
    assert change == mobility.sensitivity(found, "equal")
    assert change > mobility.sensitivity(found, "unnormalised")
    weighted = sum(np.abs(table).sum() for table in mobility.tables(part, "paper")[0].values())
    assert weighted <= mobility.sensitivity(found, "paper")


def test_a_model_that_knows_nothing_has_the_score_that_is_said(walks: mobility.Walks) -> None:
    from quietfield.models.model import Model

    part = mobility.split(walks, 0)
    assert mobility.shape_of("building") == (6, 21)
    slots, states = walks.segments.shape[1], walks.states
    assert mobility.score(part, Model(walks.domain, {})) == pytest.approx(-slots * np.log(states))
    assert mobility.know_nothing("msnbc") == pytest.approx(-16 * np.log(18))


def test_one_segment_of_each_unit_counts_one(walks) -> None:
    part = mobility.split(walks, 3)
    segments, weight = mobility.weights(part, "one")
    assert len(segments) == len(part.train)
    assert set(weight) == {1.0}
    assert (segments == mobility.one_each(part, 3)).all()  # what PSGD learns from
    assert len(mobility.weights(part, "equal")[0]) > len(segments)


def test_psgd_is_judged_where_units_weigh_as_much_as_segments() -> None:
    def row(structure: str, method: str, setting: str, value: float) -> Row:
        return Row(Trial("fig3b", structure, 0, 1000, 1.0, 0, 0, 0, method, setting), "holdout", value, 0.0)

    rows = [
        row(name, method, setting, value)
        for name, ahead in (("building", -1.0), ("msnbc", 1.0))
        for method, setting, value in (("naive", "equal", ahead), ("cgm-letter", "equal", ahead), ("psgd", "", 0.0))
    ]
    leads = [claim for claim in fig3b.claims(rows) if claim.statement.endswith("outperforms PSGD (figure 3b)")]
    assert [claim.verdict for claim in leads] == ["agrees", "agrees"]
    for claim in leads:
        assert "MSNBC: above in 1 of 1 cells" in claim.found
        assert "building, PSGD with a bias: above in 0 of 1 cells" in claim.found
        assert "flatters" in claim.why


def test_steps_go_to_the_next_size_or_epsilon() -> None:
    rows = [
        Row(Trial("fig3b", "building", 0, n, e, 0, 0, 0, "naive", "paper"), "holdout", n * e, 0.0)
        for n in (1000, 10_000, 1_000_000)
        for e in (0.1, 0.5, 1.0)
    ]
    claim = next(claim for claim in fig3b.claims(rows) if claim.statement.startswith("Performance"))
    assert "it rises in 12 of 12 steps" in claim.found


def test_sizes_that_are_the_same_units_are_one() -> None:
    trials = [t for t in fig3b.trials(fig3b.PLANS["full"]) if t.method != "random"]  # it has no size
    assert {t.records for t in trials if t.structure == "geolife"} == {1000, 10_000}
    assert {t.records for t in trials if t.structure == "msnbc"} == {1000, 10_000, 1_000_000}


def test_methods_are_held_against_the_random_estimator_and_cgm_ends_in_two_ways() -> None:
    def row(method: str, setting: str, value: float, records: int = 1000, epsilon: float = 1.0) -> Row:
        return Row(Trial("fig3b", "msnbc", 0, records, epsilon, 0, 0, 0, method, setting), "holdout", value, 0.0)

    uniform = mobility.know_nothing("msnbc")
    rows = [
        row("random", "", uniform - 10, 0, float("inf")), row("naive", "paper", uniform - 5),
        row("cgm-letter", "paper", uniform - 20), row("cgm-letter", "paper rounds=300", uniform + 1),
    ]  # fmt: skip
    found = {claim.statement: claim for claim in fig3b.claims(rows)}
    random = found["All methods perform better than the random estimator (figure 3b)"]
    assert random.verdict == "partly"
    for text in ("λ = 1e-3: above in 1 of 1", "CGM: above in 0 of 1", "300 EM iterations: above in 1 of 1"):
        assert text in random.found
    assert "naive MLE, λ = 1e-3 0 of 1, CGM 0 of 1, CGM, 300 EM iterations 1 of 1" in random.why
    lead = found["CGM improves upon naive MLE across all parameter regimes (figure 3b)"]
    assert lead.verdict == "partly"
    assert found["CGM, 300 EM iterations above naive MLE, λ = 1e-3"].verdict == "agrees"


def test_a_fit_that_broke_down_counts_and_what_has_no_claim_does_not() -> None:
    def row(structure: str, method: str, setting: str, value: float, records: int = 1000) -> Row:
        measure = "failed" if value != value else "holdout"
        return Row(Trial("fig3b", structure, 0, records, 1.0, 0, 0, 0, method, setting), measure, value, 0.0)

    rows = [
        row("building", "map", "ours", float("nan")), row("building", "cgm", "ours", -10.0),
        row("geolife", "map", "ours", -1.0), row("geolife", "cgm", "ours", -2.0),
        row("geolife", "map", "ours", -1.0, 1_000_000), row("geolife", "cgm", "ours", -2.0, 1_000_000),
    ]  # fmt: skip
    claim = next(c for c in fig3b.claims(rows) if c.statement == "(ours) the default above exact EM")
    assert claim.found.startswith("above in 0 of 1 cells")
    assert "GeoLife, not counted: 1 of 1" in claim.found
    assert claim.verdict == "differs"


def test_releases_have_the_noise_of_their_weighting(walks: mobility.Walks) -> None:
    part = mobility.split(walks, 0)
    for weighting in mobility.WEIGHTINGS:
        made = mobility.release(part, weighting, 0.5, 1)
        assert {noise.scale for noise in made.noise.values()} == {2 * mobility.sensitivity(walks, weighting)}
        assert made.total_is_public == (weighting != "ours")
    exact = mobility.release(part, "ours", None, 1)
    first, _ = mobility.tables(part, "ours")[0].values()
    assert (exact.parts[0].values == first).all()


def test_one_segment_of_each_unit(walks: mobility.Walks) -> None:
    part = mobility.split(walks, 0)
    assert len(mobility.one_each(part, 0)) == len(part.train)


def test_a_data_set_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv(mobility.DATA_VARIABLE, str(tmp_path))
    assert [name for name in ("building", "msnbc", "geolife") if mobility.is_available(name)] == ["building"]
    with pytest.raises(Error, match="--data"):
        mobility.walks("msnbc")
    with pytest.raises(Error, match="no data set"):
        mobility.walks("nowhere")


def test_the_null_cell_is_worked_out_from_the_rest(walks: mobility.Walks) -> None:
    part = mobility.split(walks, 0)
    null = walks.states - 1
    segments, weight = mobility.weights(part, "ours")
    both = ((segments[:, 1:] == null) & (segments[:, :-1] == null)).sum(1)
    whole = mobility.filled(mobility.release(part, "ours", None, 0))
    assert whole.parts[1].excluded is None
    assert whole.parts[1].values[null, null] == pytest.approx((both * weight).sum())
    noisy = mobility.filled(mobility.release(part, "ours", 1.0, 0))
    assert noisy.parts[1].values.sum() == pytest.approx(5 * noisy.parts[0].values.sum())
    plain = mobility.release(part, "equal", 1.0, 0)
    assert mobility.filled(plain) is plain


def test_the_gradient_baseline_is_tuned_once_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """And its replications differ, each from the split of its population."""
    from experiments import psgd

    calls = []
    real = psgd.psgd_grid

    def counted(rows, domain, structure, settings, **options):
        calls.append(len(list(settings)))
        return real(rows, domain, structure, settings, **options)

    monkeypatch.setattr(psgd, "psgd_grid", counted)
    fig3b._tuned.cache_clear()
    trials = [
        Trial("fig3b", "building-tiny", 0, 100, 1.0, 0, population, replication, "psgd-small")
        for population in (0, 1)
        for replication in (0, 1, 2)
    ]
    rows = [row for row in fig3b.run(trials) if row.measure == "holdout"]
    assert [row.trial for row in rows] == trials
    assert len({row.value for row in rows}) == 6
    assert calls == [2, 3, 3]


def test_replications_of_the_gradient_baseline_differ_when_they_are_learned_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from experiments import psgd

    seeds = []

    def noted(rows, domain, structure, settings, *, seed, **_):
        seeds.append(seed)
        raise CannotLearn("not learned here")

    monkeypatch.setattr(psgd, "psgd_grid", noted)
    monkeypatch.setattr(fig3b, "_tuned", lambda trial: psgd.Settings())
    trials = [
        Trial("fig3b", "building-tiny", 0, 100, 1.0, 0, population, replication, "psgd-small")
        for population in (0, 1)
        for replication in (0, 1, 2)
    ]
    for trial in trials:
        with pytest.warns(UserWarning, match="not learned here"):
            fig3b.run([trial])
    assert len(set(seeds)) == 6


@pytest.mark.filterwarnings("ignore:naive, building-tiny")
def test_a_release_that_is_refused_is_counted_and_stops_no_other() -> None:
    """At a tiny epsilon about half of the estimated totals are negative."""
    trials = [Trial("fig3b", "building-tiny", 0, 100, 1e-3, 0, 0, r, "naive", "ours") for r in range(6)]
    rows = fig3b.run(trials)
    failed = {row.trial for row in rows if row.measure == "failed"}
    assert 0 < len(failed) < 6
    assert {row.trial for row in rows if row.measure == "holdout"} == set(trials) - failed
