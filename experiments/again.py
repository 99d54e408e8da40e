"""Some published trials of our default, and of exact EM, whose stopping rule uses it, learned again with today's code.

``python -m experiments.again`` (about ten minutes) writes ``docs/results/paper/again.csv``: the trial, what was
published, what today's code gives. The sample is all trials of the default in figure 3b and in networks that had not
converged, the first release of figure 3b's cells at epsilon 0.1 and 1, and the first release of two networks. Figure 2
was run again whole. The page's Limits are written from the file.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from experiments.comparing import with_failures
from experiments.trials import Row, Trial, pick

FILE = Path(__file__).parent.parent / "docs" / "results" / "paper" / "again.csv"
COLUMNS = (*Trial._fields, "before", "now", "had_converged", "build")
NAMES = {"fig3b": "figure 3b", "networks": "networks"}
FIGURES = {"fig3b": "holdout", "networks": "kl"}


class Again(NamedTuple):
    """A trial, what was published, what today's code gives, and whether the published fit had converged."""

    trial: Trial
    before: float
    now: float
    had_converged: bool
    build: str


def read(path: Path = FILE) -> list[Again]:
    """The trials that were learned again; none where there is no file."""
    if not path.exists():
        return []
    kinds = {"states": int, "records": int, "epsilon": float, "model": int, "population": int, "replication": int}
    with open(path, encoding="utf-8", newline="") as file:
        return [
            Again(
                Trial(**{name: kinds.get(name, str)(line[name]) for name in Trial._fields}),  # type: ignore[arg-type]
                float(line["before"]), float(line["now"]), line["had_converged"] == "True", line["build"],
            )
            for line in csv.DictReader(file)
        ]  # fmt: skip


def told(path: Path = FILE) -> str:
    """How many trials today's code learns the same, and how far the others go; those that had not converged apart."""
    found = read(path)
    if not found:
        return "No trial was learned again"
    parts = []
    for method, label in (("map", "the default"), ("cgm", "exact EM")):
        for figure, words in NAMES.items():
            for converged in (True, False):
                some = [
                    one
                    for one in found
                    if (one.trial.method, one.trial.figure, one.had_converged) == (method, figure, converged)
                ]
                if some:
                    ended = "" if converged else ", fits that had not converged"
                    parts.append(f"{label} in {words}{ended}: {_change(some, FIGURES[figure])}")
    return (
        f"{len(found)} trials were learned again with build {found[0].build}. The same to a thousandth are, of "
        f"{'; '.join(parts)}"
    )


def _change(some: list[Again], measure: str) -> str:
    """How many are the same, and the others' changes: ratios of KLs, or differences of log-likelihoods."""
    changes = [one.now / one.before - 1 if measure == "kl" else one.now - one.before for one in some]
    same = sum(abs(change) < 1e-3 for change in changes)
    ends = (min(changes), sum(changes) / len(changes), max(changes))
    low, mean, high = (f"{one:+.1%}" if measure == "kl" else f"{one:+.2f}" for one in ends)
    unit = "of KL" if measure == "kl" else "nats per segment"
    return f"{same} of {len(some)} ({low} to {high} {unit}, on average {mean})"


def chosen(results: Mapping[str, Iterable[Row]]) -> list[Trial]:
    """The sample, by the rule above."""
    found: list[Trial] = []
    for name in FIGURES:
        rows = list(results[name])
        found += [row.trial for row in pick(rows, "unconverged", method="map")]
        first = [row.trial for row in rows if row.trial.population == row.trial.replication == 0]
        if name == "fig3b":
            found += [
                trial
                for trial in dict.fromkeys(first)
                if trial.structure in ("building", "msnbc")
                and trial.epsilon in (0.1, 1.0)
                and (trial.method, trial.setting)
                in (("map", "ours"), ("map", "paper"), ("map", "equal"), ("cgm", "paper"))
            ]
        if name == "networks":
            found += [
                trial
                for trial in dict.fromkeys(first)
                if trial.structure in ("child", "insurance") and trial.method == "map" and trial.records >= 10_000
            ]
    return list(dict.fromkeys(found))


def main(folder: Path = FILE.parent) -> None:
    """Learn the sample again, one trial after the other, and write the file."""
    from experiments import fig3b, registry, storage

    results = {name: storage.Store(folder, name).read() for name in FIGURES}
    lines: list[Sequence[object]] = []
    for trial in chosen(results):
        measure = FIGURES[trial.figure]
        rows = results[trial.figure]
        if trial.figure == "fig3b":
            rows = fig3b.counted(rows)
        (before,) = (row.value for row in rows if row.trial == trial and row.measure == measure)
        ended = any(row.trial == trial and row.measure == "unconverged" for row in rows)
        made = registry.figure(trial.figure).run([trial])
        if trial.figure == "fig3b":
            made = with_failures(made, measure, lambda one: fig3b.mobility.know_nothing(one.structure))
        (now,) = (row.value for row in made if row.measure == measure)
        lines.append((*trial, f"{before:.8g}", f"{now:.8g}", not ended, storage.learners()))
    with open(folder / FILE.name, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(lines)


if __name__ == "__main__":
    main()
