"""``quietfield demo``: a known model, records drawn from it, and their way to a release, by the commands that do it."""

import csv
import io
import random
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from quietfield.model import Model

app = typer.Typer()

AGES, SMOKES, VISITS = (18, 40, 65), ["no", "yes"], [0, 1, 2, 3]
ENDS = (5, *AGES, 95)  # of the made-up ages


@app.command(epilog="Example: quietfield demo --rows 2000 --folder demo")
def demo(
    rows: Annotated[int, typer.Option(min=50, max=10_000_000, help="How many records to make up.")] = 5000,
    folder: Annotated[
        Path | None, typer.Option(help="Where the files go, a new or empty folder; a temporary one unless said.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws the made-up records. The noise takes no seed.")] = 0,
) -> None:
    """Show the way from records to a release and a learned model."""
    from quietfield import drawing
    from quietfield.errors import FileError
    from quietfield.model import load

    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="quietfield-demo-"))
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileError(f"{folder} is there and not empty; name a new folder.")
    folder.mkdir(parents=True, exist_ok=True)
    records, schema, ledger, out = (folder / name for name in ("visits.csv", "schema.json", "budget.db", "visits.qfr"))
    known_model().save(folder / "truth.qfm")
    model = load(folder / "truth.qfm")
    typer.echo(f"# A known model, saved and loaded again: {folder / 'truth.qfm'}\n#   {model!r}")
    typer.echo("# Its visits, in all and of smokers over 65:\n")
    typer.echo(drawing.bars(VISITS, model.marginal("visits")) + "\n")
    typer.echo(drawing.bars(VISITS, model.conditional("visits", given={"age": "65+", "smokes": "yes"})) + "\n")
    truth = make_up(model, records, rows, seed)
    typer.echo(f"# Drew {rows} made-up people from it: {records}")
    write_schema(schema)
    typer.echo(f"# Wrote down, without looking at them, what can occur: {schema}")
    typer.echo("# The curator opens an account for these records, counts, pays, adds noise and publishes:")
    run("ledger", "create", str(ledger), "--epsilon", "4", "--unit", "rows:1")
    options = ["--schema", str(schema), "--structure", "chain", "--epsilon", "1", "--unit", "rows:1"]
    run("release", str(records), *options, "--ledger", str(ledger), "--out", str(out))
    typer.echo("\n# Anyone can check and read what was published:")
    run("verify", str(out))
    compare(out, truth)
    learn(out, model)
    typer.echo(f"\n# All files are in {folder}; `quietfield --help` lists what else can be done with them.")


def known_model() -> "Model":
    """Who smokes, by age, and how often they see a doctor; a child with three visits is declared impossible."""
    from quietfield.domain import Domain
    from quietfield.model import Model
    from quietfield.schema import Cuts, Schema

    domain = Schema({"age": Cuts(AGES), "smokes": SMOKES, "visits": VISITS}).domain
    return Model(
        Domain(domain, impossible=[{"age": "<18", "visits": 3}]),
        {
            ("age", "smokes"): [[0.0, -4.0], [0.7, -0.2], [0.7, -0.1], [0.2, -1.5]],
            ("smokes", "visits"): [[0.6, 0.6, -0.4, -2.0], [-0.6, 0.2, 0.5, 0.1]],
        },
    )


def make_up(model: "Model", path: Path, rows: int, seed: int) -> dict[tuple[str, int], int]:
    """Write records from the model; the true number by smoking and visits, which only a demonstration may show."""
    from quietfield.files import write_atomically

    draw = random.Random(seed)
    frame = model.sample(rows, seed=seed)
    truth = {(smokes, visits): 0 for smokes in SMOKES for visits in VISITS}
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["age", "smokes", "visits"])
    for age, smokes, visits in frame.codes.tolist():
        years = draw.randrange(ENDS[age], ENDS[age + 1])
        writer.writerow([years, SMOKES[smokes], VISITS[visits]])
        truth[SMOKES[smokes], VISITS[visits]] += 1
    write_atomically(path, text.getvalue().encode())
    return truth


def write_schema(path: Path) -> None:
    """The schema of the made-up records."""
    from quietfield.schema import Cuts, Schema

    Schema({"age": Cuts(AGES), "smokes": SMOKES, "visits": VISITS}).save(path)


def run(*words: str) -> None:
    """Show a command and run it; the demonstration ends where one fails."""
    from quietfield.cli import main

    typer.echo(f"\n$ quietfield {shlex.join(words)}")
    if code := main(words):
        raise typer.Exit(code)


def compare(path: Path, truth: dict[tuple[str, int], int]) -> None:
    """The published table next to the true one. Only made-up records may be shown like this."""
    from quietfield.releases import Release

    table = Release.load(path).tables["smokes", "visits"]
    typer.echo("\n# The noisy table of smokes and visits, next to the true one (the records are made up):")
    typer.echo(f"{'smokes':>8} {'visits':>8} {'noisy':>8} {'true':>8}")
    for (smokes, visits), noisy in zip(truth, table.ravel(), strict=True):
        typer.echo(f"{smokes:>8} {visits:>8} {noisy:>8g} {truth[smokes, visits]:>8}")


def learn(path: Path, truth: "Model") -> None:
    """Learn a model from the release alone, and show its answer beside the known one."""
    from quietfield import drawing
    from quietfield.learning import fit
    from quietfield.releases import Release

    learned = fit(Release.load(path))
    learned.save(path.with_name("learned.qfm"))
    asked = {"age": "65+", "smokes": "yes"}
    typer.echo("\n# The analyst learns a model from the release alone. Visits of smokers over 65, learned and known:\n")
    typer.echo(drawing.bars(VISITS, learned.conditional("visits", given=asked)) + "\n")
    typer.echo(drawing.bars(VISITS, truth.conditional("visits", given=asked)))
    typer.echo(f"\n# Divergence of the learned model from the known one: {truth.kl(learned):.4f} nats")
