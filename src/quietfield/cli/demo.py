"""``quietfield demo``: the whole story on made-up people, by the commands that do it, with the truth beside it."""

import csv
import io
import random
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from quietfield.cli import main
from quietfield.curator.release import release
from quietfield.errors import FileError
from quietfield.files import write_atomically
from quietfield.learning import METHODS, fit
from quietfield.models.model import Model
from quietfield.privacy.units import Rows
from quietfield.releases.release import Release
from quietfield.schema import Cuts, Schema

app = typer.Typer()

AGES = (18, 40, 65)
ENDS = (5, *AGES, 95)  # of the made-up ages
LABELS: dict[str, list[str] | list[int]] = {
    "smokes": ["no", "yes"],
    "exercise": ["rarely", "weekly", "daily"],
    "health": ["poor", "fair", "good"],
    "visits": [0, 1, 2, 3],
}
CLIQUES = [("age", "smokes"), ("age", "exercise"), ("age", "health"), ("smokes", "health"), ("exercise", "health"),
           ("health", "visits")]  # fmt: skip
ASKED, GIVEN = "visits", {"age": "65+", "smokes": "yes"}
#: The methods that are shown where they exist, the default first.
SHOWN = ("map", "cgm", "cgm-nlbp", "naive")
LEVEL = 0.9
SURVEYS = 20  # of other people, to see whether what is promised holds


@app.command(epilog="Example: quietfield demo --rows 2000 --folder demo")
def demo(
    rows: Annotated[int, typer.Option(min=50, max=10_000_000, help="How many records to make up.")] = 5000,
    folder: Annotated[
        Path | None, typer.Option(help="Where the files go, a new or empty folder; a temporary one unless said.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws the made-up records. The noise takes no seed.")] = 0,
    open_report: Annotated[bool, typer.Option("--open", help="Open the report in a browser at the end.")] = False,
) -> None:
    """Show the way from records to a release, learned models, error bars and a report."""
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="quietfield-demo-"))
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileError(f"{folder} is there and not empty; name a new folder.")
    folder.mkdir(parents=True, exist_ok=True)
    truth = known_model()
    truth.save(folder / "truth.qfm")
    made = make_up(truth, folder / "survey.csv", rows, seed)
    known_schema().save(folder / "schema.json")
    say("A survey with a known truth")
    typer.echo(f"{rows:,} people were made up from a known model, {truth!r}.")
    typer.echo("Only because they are made up can this demonstration show how far each answer is from the truth.")
    out, names = publish(folder), {name: folder / f"{name}.qfm" for name in methods()}
    release = Release.load(out)
    compare(release, made)
    say("The analyst has the release alone, and learns models from it")
    for name, path in names.items():
        run("fit", str(out), "--method", name, "--out", str(path))
    learned = {name: Model.load(path) for name, path in names.items()}
    say("How far each is from the truth, which no analyst can know")
    judge(learned, release, truth)
    say("What the default promises about its own errors, beside its true ones")
    promise(learned[SHOWN[0]], truth)
    again(truth, rows, seed)
    say("Made-up people from the learned model, and a report that may be published")
    run("sample", str(names[SHOWN[0]]), "--rows", "1000", "--seed", "0", "--out", str(folder / "people.csv"))
    report = folder / "report.html"
    run("report", str(out), "--model", str(names[SHOWN[0]]), "--title", "Health survey", "--out", str(report))
    typer.echo(f"\nThe report is {report}; all files are in {folder}.")
    typer.echo("`quietfield --help` lists what else can be done with them.")
    if open_report:
        typer.launch(report.resolve().as_uri())


def known_schema() -> Schema:
    """What can occur in the survey, written down without looking at it."""
    return Schema({"age": Cuts(AGES), **LABELS})


def known_model() -> Model:
    """Who smokes, moves, is well and sees a doctor how often."""
    tables = [
        [[0.4, -3.6], [0.4, -0.3], [0.4, -0.2], [0.2, -1.5]],
        [[-0.8, 0.2, 0.9], [-0.1, 0.4, 0.0], [0.3, 0.3, -0.4], [0.8, 0.1, -0.9]],
        [[-1.6, -0.3, 0.9], [-0.9, 0.0, 0.7], [0.1, 0.3, 0.1], [0.8, 0.4, -0.6]],
        [[-0.4, 0.0, 0.4], [0.5, 0.1, -0.5]],
        [[0.5, 0.1, -0.6], [0.0, 0.1, 0.0], [-0.5, -0.1, 0.6]],
        [[-1.2, -0.2, 0.6, 1.0], [-0.3, 0.5, 0.3, -0.4], [0.9, 0.5, -0.5, -1.6]],
    ]
    return Model(known_schema().domain, dict(zip(CLIQUES, tables, strict=True)))


def make_up(model: Model, path: Path, rows: int, seed: int) -> np.ndarray:
    """Write records from the model as a file that a curator might hold; their codes."""
    draw = random.Random(seed)
    frame = model.sample(rows, seed=seed)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["age", *LABELS])
    for age, *rest in frame.codes.tolist():
        values = [labels[code] for labels, code in zip(LABELS.values(), rest, strict=True)]
        writer.writerow([draw.randrange(ENDS[age], ENDS[age + 1]), *values])
    write_atomically(path, text.getvalue().encode())
    return frame.codes


def methods() -> list[str]:
    """The methods of learning to show."""
    return [name for name in SHOWN if name in METHODS][:3]


def publish(folder: Path) -> Path:
    """What the curator does: a key, an account, a release. And what anyone can do: check it."""
    key, ledger, out = folder / "curator.pem", folder / "budget.db", folder / "survey.qfr"
    cliques = folder / "cliques.json"
    write_atomically(cliques, (str([list(c) for c in CLIQUES]).replace("'", '"') + "\n").encode())
    say("The curator opens an account for these records, counts, pays, adds noise, signs and publishes")
    run("key", "create", str(key))
    run("ledger", "create", str(ledger), "--epsilon", "4", "--unit", "rows:1")
    options = ["--schema", str(folder / "schema.json"), "--structure", str(cliques), "--epsilon", "1"]
    options += ["--unit", "rows:1", "--ledger", str(ledger), "--key", str(key), "--out", str(out)]
    run("release", str(folder / "survey.csv"), *options)
    run("ledger", "show", str(ledger))
    say("Anyone can check what was published")
    run("verify", str(out), "--trust", str(key.with_suffix(".pub.pem")))
    return out


def say(text: str) -> None:
    """A heading."""
    typer.secho(f"\n# {text}\n", bold=True)


def run(*words: str) -> None:
    """Show a command and run it; the demonstration ends where one fails."""
    typer.echo(f"$ quietfield {shlex.join(words)}")
    if code := main(words):
        raise typer.Exit(code)
    typer.echo()


def compare(release: Release, codes: np.ndarray) -> None:
    """A published table next to the true one. Only made-up records may be shown like this."""
    clique = ("smokes", "health")
    table, places = release.tables[clique], [release.domain.position(name) for name in clique]
    true = np.zeros(table.shape, dtype=int)
    np.add.at(true, tuple(codes[:, place] for place in places), 1)
    typer.echo("A published table next to the true one:\n")
    typer.echo(f"{'smokes':>8} {'health':>8} {'noisy':>8} {'true':>8}")
    for cell in np.ndindex(table.shape):
        labels = [release.domain.labels(name)[i] for name, i in zip(clique, cell, strict=True)]
        typer.echo(f"{labels[0]:>8} {labels[1]:>8} {table[cell]:>8g} {true[cell]:>8}")


def judge(learned: dict[str, Model], release: Release, truth: Model) -> None:
    """Each model's divergence from the truth, and the share of its tables that lies in the wrong cell."""

    def wrong(tables: Mapping[tuple[str, str], np.ndarray]) -> float:
        gaps = [0.5 * float(np.abs(tables[c] - truth.marginal(c)).sum()) for c in CLIQUES]
        return sum(gaps) / len(gaps)

    noisy = {c: np.maximum(release.tables[c], 0) / max(float(np.maximum(release.tables[c], 0).sum()), 1.0)
             for c in CLIQUES}  # fmt: skip
    typer.echo(f"{'':>14} {'KL (nats)':>10} {'in wrong cell':>14}")
    typer.echo(f"{'noisy tables':>14} {'':>10} {wrong(noisy):>14.2%}")
    for name, model in learned.items():
        typer.echo(f"{name:>14} {truth.kl(model):>10.4f} {wrong({c: model.marginal(c) for c in CLIQUES}):>14.2%}")


def promise(model: Model, truth: Model) -> None:
    """Answers with their intervals beside the truth, and how many of all cells of all tables lie inside theirs."""
    answer, true = model.conditional(ASKED, given=GIVEN), truth.conditional(ASKED, given=GIVEN)
    low, high = model.interval(ASKED, LEVEL, given=GIVEN)
    typer.echo(f"Doctor's visits of smokers over 65: learned, its {LEVEL:.0%} interval, and the truth")
    for i, label in enumerate(truth.domain.labels(ASKED)):
        mark = "inside" if low[i] <= true[i] <= high[i] else "OUTSIDE"
        typer.echo(f"{label:>8} {answer[i]:>8.1%}   {low[i]:>6.1%} to {high[i]:>6.1%} {true[i]:>8.1%}  {mark}")
    inside, half, error = cells(model, truth)
    typer.echo(
        f"\nOf all {inside.size} cells of the tables, {inside.mean():.0%} lie inside their {LEVEL:.0%} intervals.\n"
        f"Promised: errors of at most about {half.mean():.2%}, nine times of ten. "
        f"True: at most {np.quantile(error, LEVEL):.2%}, nine times of ten."
    )


def again(truth: Model, rows: int, seed: int) -> None:
    """The same with other people: nine times in ten is about many surveys, and the cells of one err together."""
    found = []
    for other in range(1, SURVEYS + 1):
        people = truth.sample(rows, seed=seed + other).codes
        found.append(cells(fit(release(people, known_schema(), CLIQUES, epsilon=1, unit=Rows(1), ledger=None)), truth))
    inside, half, error = (np.concatenate(part) for part in zip(*found, strict=True))
    shares = [one[0].mean() for one in found]
    typer.echo(
        f"The same for {SURVEYS} more surveys of other people: {inside.mean():.0%} inside (from {min(shares):.0%} to "
        f"{max(shares):.0%} a survey).\nPromised: at most about {half.mean():.2%}. "
        f"True: at most {np.quantile(error, LEVEL):.2%}, nine times of ten."
    )


def cells(model: Model, truth: Model) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of every cell of every table: whether the truth is inside its interval, half its width, and its true error."""
    inside, half, error = [], [], []
    for clique in CLIQUES:
        low, high = model.interval(clique, LEVEL)
        share = truth.marginal(clique)
        inside.append(((low <= share) & (share <= high)).ravel())
        half.append(((high - low) / 2).ravel())
        error.append(np.abs(model.marginal(clique) - share).ravel())
    return np.concatenate(inside), np.concatenate(half), np.concatenate(error)
