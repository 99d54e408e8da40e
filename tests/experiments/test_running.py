"""Trials are run once, whatever happens: resumed, stopped by time, interrupted, on several processes."""

from multiprocessing import get_context
from pathlib import Path

import pytest

from experiments import storage
from experiments.__main__ import main
from experiments.registry import Figure
from experiments.running import grouped, run
from experiments.storage import COLUMNS, Store, log_run, merge, runs
from experiments.trials import NO_NOISE, Plan, Row, Trial, curve, pick, simulation_of, summary
from quietfield.errors import FileError
from tests.experiments.counted import write_and_gather

MODULE = "tests.experiments.counted"
PLAN = Plan(sizes=(100, 1000), epsilons=(0.1, 1.0), methods=("naive", "map"), populations=3, replications=2)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path, "counted")


def test_a_plan_has_every_trial_once() -> None:
    trials = PLAN.chosen(methods=("random", "nonprivate", "naive")).trials("x")
    assert len(set(trials)) == len(trials) == 3 * 2 + 2 * 3 + 2 * 2 * 3 * 2
    assert {t.epsilon for t in trials if t.method == "nonprivate"} == {NO_NOISE}
    assert {t.records for t in trials if t.method == "random"} == {0}


def test_groups_share_a_call_and_hold_every_trial(store: Store) -> None:
    trials = PLAN.chosen(methods=("naive", "psgd")).trials("x")
    groups = grouped(trials, 10)
    assert sorted(t for group in groups for t in group) == sorted(trials)
    for group in groups:
        assert len({(t.structure, t.states, t.method, t.setting) for t in group}) == 1
        if group[0].method == "psgd":
            assert len(group) == 6
            assert len({(t.records, t.epsilon) for t in group}) == 1
        else:
            assert len(group) <= 10


def test_a_run_is_whole_and_the_next_one_has_nothing_to_do(store: Store) -> None:
    trials = PLAN.trials("counted")
    outcome = run(store, trials, MODULE, batch=7, show=False)
    assert (outcome.finished, outcome.left, outcome.stopped) == (len(trials), 0, "")
    assert sorted(row.trial for row in store.read()) == sorted(trials)
    assert not store.parts.exists()
    again = run(store, trials, MODULE, batch=7, show=False)
    assert (again.finished, again.left) == (0, 0)


def test_a_time_limit_stops_between_groups_and_the_next_run_goes_on(store: Store) -> None:
    trials = PLAN.trials("counted")
    assert run(store, trials, MODULE, time_limit=0.0, show=False).finished == 0
    some = run(store, trials[:5], MODULE, show=False)
    rest = run(store, trials, MODULE, show=False)
    assert some.finished + rest.finished == len(trials)
    assert len(store.read()) == len(trials)


def test_an_interrupt_keeps_what_is_finished(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    trials = PLAN.trials("counted")
    monkeypatch.setenv("COUNTED_INTERRUPTS", "1")
    outcome = run(store, trials, MODULE, batch=4, show=False)
    assert outcome.stopped == "interrupted"
    assert outcome.finished == 4
    monkeypatch.delenv("COUNTED_INTERRUPTS")
    assert run(store, trials, MODULE, batch=4, show=False).finished == len(trials) - 4
    assert sorted(row.trial for row in store.read()) == sorted(trials)


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command that runs the counted trials. Name the methods: other tests may have added some."""
    figure = Figure("counted", "Counted", {"tiny": PLAN}, lambda p: p.trials("counted"), *3 * (lambda *_: [],), MODULE)
    monkeypatch.setattr("experiments.registry.figure", lambda _: figure)
    return ["counted", "--tiny", "--out", str(tmp_path), "--no-figures"]


def test_an_interrupt_in_the_last_group_leaves_nothing_to_go_on_with(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COUNTED_INTERRUPTS", "1")
    asked = [*command, "--methods", "naive"]
    assert main([*asked, "--batch", "7"]) == 130
    assert "Stopped (interrupted); run the same command again to go on." in capsys.readouterr().out
    assert main([*asked, "--batch", "100"]) == 0
    assert "Stopped" not in (said := capsys.readouterr().out)
    assert "17 trials run in " in said
    assert " s, 0 left\n" in said


def test_several_processes_give_the_same(store: Store, tmp_path: Path) -> None:
    trials = PLAN.trials("counted")
    outcome = run(store, trials, MODULE, jobs=2, batch=5, show=False)
    assert (outcome.finished, outcome.left) == (len(trials), 0)
    alone = Store(tmp_path / "alone", "counted")
    run(alone, trials, MODULE, show=False)
    assert sorted(store.read()) == sorted(alone.read())


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_of_ours_ends_its_method_and_the_others_go_on(
    store: Store, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = PLAN.trials("counted")
    monkeypatch.setenv("COUNTED_RAISES", "TooLarge")
    outcome = run(store, trials, MODULE, jobs=jobs, batch=12, show=False)
    assert [str(fault) for fault in outcome.faults] == ["the method 'naive' ended on 'chain': a table is too large."]
    assert (outcome.finished, outcome.left, outcome.broken, outcome.stopped) == (24, 24, 24, "")
    assert {row.trial.method for row in store.read()} == {"map"}
    assert not store.parts.exists()


@pytest.mark.parametrize(("jobs", "kept"), [(1, 24), (2, 12)])
def test_any_other_error_ends_the_run_and_what_was_at_work_is_kept(
    store: Store, jobs: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one process the trials before it; with two, the group beside it, which ends later, and no other is begun."""
    trials = PLAN.chosen(methods=("map", "naive")).trials("counted")
    if jobs == 2:
        trials = [t for t in trials if t.method == "map" and t.records == 100] + [
            t for t in trials if t.method == "naive"
        ]
    monkeypatch.setenv("COUNTED_RAISES", "RuntimeError")
    with pytest.raises(RuntimeError, match="a mistake"):
        run(store, trials, MODULE, jobs=jobs, batch=12, show=False)
    assert len(store.read()) == kept
    assert not store.parts.exists()


def test_a_method_that_ends_is_told_by_name_and_the_command_ends_with_1(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COUNTED_RAISES", "TooLarge")
    assert main([*command, "--methods", ",".join(PLAN.methods)]) == 1
    said = capsys.readouterr()
    assert "24 trials run in " in said.out
    assert " s, 24 left\n" in said.out
    assert "the method 'naive' ended on 'chain': a table is too large." in said.err


def test_parts_left_behind_are_read_and_gathered_once(store: Store) -> None:
    rows = [Row(trial, "kl", 1.0, 0.5) for trial in PLAN.trials("counted")]
    store.add(rows[:3])
    store.gather()
    store.add(rows[:5])  # as if a run had been stopped between gathering and taking away
    assert sorted(store.read()) == sorted(rows[:5])
    store.gather()
    assert sorted(store.read()) == sorted(rows[:5])


def test_what_a_killed_run_or_the_system_left_does_not_stop_gathering(store: Store, tmp_path: Path) -> None:
    rows = [Row(trial, "kl", 1.0, 0.5) for trial in PLAN.trials("counted")]
    store.add(rows[:3])
    (store.parts / ".20260101000000-ab.parquet.0123abcd.tmp").write_bytes(b"PAR1")
    (tmp_path / ".counted.parquet.0123abcd.tmp").write_bytes(b"PAR1")
    (tmp_path / ".other.parquet.0123abcd.tmp").write_bytes(b"PAR1")  # another figure's, which has a lock of its own
    (store.parts / ".DS_Store").write_bytes(b"mine")
    store.gather()
    assert sorted(store.read()) == sorted(rows[:3])
    assert [path.name for path in store.parts.iterdir()] == [".DS_Store"]
    assert {path.name for path in tmp_path.glob("*.tmp")} == {".other.parquet.0123abcd.tmp"}
    store.add(rows[3:5])
    store.gather()
    assert sorted(store.read()) == sorted(rows[:5])
    (store.parts / ".DS_Store").unlink()
    store.gather()  # with nothing left to gather, what was in the way of the folder is gone
    assert not store.parts.exists()


@pytest.mark.slow
def test_processes_that_gather_in_one_folder_lose_and_double_nothing(store: Store, tmp_path: Path) -> None:
    context, times = get_context("spawn"), 40
    others = [context.Process(target=write_and_gather, args=(str(tmp_path), p, times)) for p in range(3)]
    for process in others:
        process.start()
    while any(process.is_alive() for process in others):
        before = len(store.read())
        assert len(store.read()) >= before
    for process in others:
        process.join()
    assert [process.exitcode for process in others] == [0, 0, 0]
    found = [(row.trial.population, row.trial.replication) for row in store.read()]
    assert sorted(found) == [(p, i) for p in (0, 1, 2, 99) for i in range(times)]
    assert [path.name for path in tmp_path.iterdir()] == ["counted.parquet"]
    assert len(storage._read(store.file) or ()) == len(found)


def test_values_survive_the_disk(store: Store) -> None:
    trial = Trial("counted", "chain", 10, 10**7, NO_NOISE, 0, 1, 2, "naive", "lambda=1e-3")
    store.add([Row(trial, "kl", 0.1234567890123, 0.5), Row(trial, "absent", float("nan"), 0.5)])
    kl, absent = sorted(store.read(), key=lambda row: -len(row.measure))[::-1]
    assert kl == Row(trial, "kl", 0.1234567890123, 0.5)
    assert absent.value != absent.value


@pytest.mark.parametrize("content", [b"", b"PAR1 no", b"a,b\n1,2\n"])
def test_a_damaged_file_is_told(store: Store, content: bytes) -> None:
    store.file.write_bytes(content)
    with pytest.raises(FileError, match="remove it"):
        store.read()


def test_runs_are_logged_without_naming_the_machine(tmp_path: Path) -> None:
    import socket

    log_run(tmp_path, "fig2", "python -m experiments fig2", 12, 3.2, 2)
    log_run(tmp_path, "fig2", "python -m experiments fig2", 3, 1.0, 2)
    assert [line["trials"] for line in runs(tmp_path)] == [12, 3]
    host = socket.gethostname()
    assert len(host) < 4 or host not in (tmp_path / "runs.jsonl").read_text()


def test_methods_see_the_same_release_and_sizes_different_people() -> None:
    naive = Trial("x", "chain-4", 3, 100, 1.0, 0, 1, 2, "naive")
    one, other = simulation_of(naive), simulation_of(naive._replace(method="map"))
    clique = one.model.cliques[0]
    assert (one.releases(1, 2)[0].tables[clique] == other.releases(1, 2)[0].tables[clique]).all()
    assert (simulation_of(naive._replace(population=0)).tables[clique] != one.tables[clique]).any()
    assert one.model is simulation_of(naive._replace(population=0)).model


def test_errors_come_from_populations_not_from_releases() -> None:
    found = summary({0: [1.0, 3.0], 1: [2.0, 2.0]})
    assert (found.mean, found.error, found.trials) == (2.0, 0.0, 4)
    assert summary({0: [1.0], 1: [3.0]}).error == pytest.approx(1.0)
    trial = Trial("x", "chain", 10, 100, 1.0, 0, 0, 0, "naive")
    rows = [Row(trial._replace(records=n, population=p), "kl", n + p, 0.0) for n in (1000, 100) for p in (0, 1)]
    assert {x: point.mean for x, point in curve(rows, "records").items()} == {100: 100.5, 1000: 1000.5}
    assert len(pick(rows, "kl", records=100)) == 2
    assert pick(rows, "mse") == []


def test_folders_that_were_run_apart_are_merged_without_loss_or_repeats(tmp_path: Path) -> None:
    trials = PLAN.trials("counted")
    rows = [Row(trial, measure, 1.0, 0.5) for trial in trials for measure in ("kl", "mse")]
    here, one, two = (Store(tmp_path / name, "counted") for name in ("here", "one", "two"))
    here.add(rows[:4])
    one.add([row._replace(value=2.0) for row in rows[:10]])  # the first two trials are here already
    one.gather()
    two.add(rows[8:])  # left in parts, as by a run that was stopped; its first trial is in the other one too
    log_run(here.folder, "counted", "first", 2, 1.0, 1)
    log_run(one.folder, "counted", "second", 5, 1.0, 1)
    assert merge(here.folder, [one.folder, two.folder], ["counted"]) == len(trials) - 2
    found = here.read()
    assert sorted((row.trial, row.measure) for row in found) == sorted((row.trial, row.measure) for row in rows)
    assert {row.value for row in found if row.trial in set(trials[:2])} == {1.0}
    assert {row.value for row in found if row.trial in set(trials[2:5])} == {2.0}
    assert merge(here.folder, [one.folder, two.folder, here.folder], ["counted"]) == 0
    assert [line["command"] for line in runs(here.folder)] == ["first", "second"]
    with pytest.raises(FileError, match="--from"):
        merge(here.folder, [tmp_path / "nowhere"], ["counted"])
    (tmp_path / "empty").mkdir()
    assert merge(tmp_path / "new", [tmp_path / "empty"], ["counted"]) == 0
    assert not (tmp_path / "new").exists()
    assert merge(tmp_path / "new", [two.folder], ["counted"]) == len(trials) - 4
    assert not (tmp_path / "new" / "runs.jsonl").exists()


def test_without_pyarrow_results_are_csv_and_become_parquet_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = PLAN.trials("counted")
    rows = [Row(trial, "kl", 1 / 3, 0.5) for trial in trials]
    rows[0] = rows[0]._replace(trial=trials[0]._replace(epsilon=NO_NOISE, setting="lambda=1e-3"))
    with monkeypatch.context() as without:
        without.setattr(storage, "find_spec", lambda name: None)
        there = Store(tmp_path, "counted")
        there.add(rows[:5])
        there.gather()
        there.add([*rows[3:], Row(trials[0], "absent", float("nan"), 0.5)])
        assert {path.suffix for path in (tmp_path, *tmp_path.rglob("*.*")) if path.is_file()} == {".csv"}
        assert len(there.done()) == len(rows) + 1
    here = Store(tmp_path, "counted")
    here.gather()
    assert [path.name for path in tmp_path.iterdir()] == ["counted.parquet"]
    assert sorted(row for row in here.read() if row.measure == "kl") == sorted(rows)
    monkeypatch.setattr(storage, "find_spec", lambda name: None)
    with pytest.raises(FileError, match="needs pyarrow"):
        Store(tmp_path, "counted").read()


@pytest.mark.parametrize("content", ["", "a,b\n1,2\n", ",".join(COLUMNS) + "\nfig2,chain\n", "a" * 140_000])
def test_a_damaged_csv_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "counted.csv").write_text(content)
    with pytest.raises(FileError, match="remove it"):
        Store(tmp_path, "counted").read()


def test_times_are_taken_in_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments import drive, registry, running

    seen = {}
    monkeypatch.setattr(
        running, "run", lambda store, *_, jobs, **__: seen.update({store.figure: jobs}) or running.Outcome(0, 0, 0.0)
    )
    for name in ("timing", "fig1b"):
        drive.reproduce(registry.figure(name), "tiny", {}, drive.Settings(tmp_path, jobs=2), say=lambda _: None)
    assert seen == {"timing": 1, "fig1b": 2}


def test_the_least_of_several_times_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments import timing

    clock, lasts = [0.0], iter([0.25, 0.5, 0.125, 0.5])  # the first is the one that compiles

    def learn() -> None:
        clock[0] += next(lasts)

    monkeypatch.setattr(timing, "_task", lambda trial: learn)
    monkeypatch.setattr(timing.time, "process_time", lambda: clock[0])
    (row,) = timing.run([Trial("timing", "chain", 10, 100, 0.5, 0, 0, 0, "naive")])
    assert row.value == 0.125


def test_a_population_is_counted_once_for_all_its_releases() -> None:
    trial = Trial("x", "chain-4", 3, 100, 1.0, 0, 1, 2, "naive")
    one, other = simulation_of(trial), simulation_of(trial._replace(epsilon=0.1, replication=0))
    assert one.tables is other.tables
