"""``quietfield evaluate``: a model against a known truth, another release, or records."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quietfield.cli.arguments import AllowNoPromise, MaxEpsilon, Trust, load_release

if TYPE_CHECKING:
    from quietfield.models.model import Model
    from quietfield.releases.release import Release

app = typer.Typer()


@app.command(epilog="Example: quietfield evaluate visits.qfm --release heldout.qfr")
def evaluate(
    model: Annotated[Path, typer.Argument(help="The model.")],
    truth: Annotated[
        Path | None, typer.Option(help="A model that is known to be true, in a simulation. Public.")
    ] = None,
    release: Annotated[
        Path | None, typer.Option(help="A release, best of records that the model has not seen. Public.")
    ] = None,
    trust: Trust = None,
    max_epsilon: MaxEpsilon = None,
    allow_no_promise: AllowNoPromise = False,
    records: Annotated[
        str | None, typer.Option(help="Records: needs --schema, and either --not-private or --epsilon.")
    ] = None,
    schema: Annotated[Path | None, typer.Option(help="The schema of the records, a JSON file.")] = None,
    values: Annotated[str, typer.Option(help="Of SPSS and Stata files, read codes or labels.")] = "codes",
    delimiter: Annotated[str | None, typer.Option(help="Of CSV files, what separates fields: ';', '|' or tab.")] = None,
    encoding: Annotated[str | None, typer.Option(help="Of texts that are not UTF-8, such as cp1252 or utf-16.")] = None,
    one_line_per_record: Annotated[
        bool,
        typer.Option("--one-line-per-record", help="Affirm that every record of a CSV file is one line; for persons."),
    ] = False,
    not_private: Annotated[
        bool, typer.Option("--not-private", help="Show exact results, for the curator's eyes only.")
    ] = False,
    epsilon: Annotated[str | None, typer.Option(help="Pay this for a noisy score of the records.")] = None,
    delta: Annotated[str | None, typer.Option(help="The delta of Gaussian noise, such as 1e-6.")] = None,
    noise: Annotated[str, typer.Option(help="laplace (pure) or gaussian (needs --delta).")] = "laplace",
    unit: Annotated[str, typer.Option(help="Who is protected by a noisy score: rows:1, person:COLUMN:3.")] = "rows:1",
    ledger: Annotated[Path | None, typer.Option(help="The ledger that pays for a noisy score.")] = None,
    no_ledger: Annotated[
        bool, typer.Option("--no-ledger", help="A noisy score without a ledger: nothing adds up what is spent.")
    ] = False,
    clip: Annotated[
        str | None, typer.Option(help="LOW,HIGH: log-probabilities are cut to these; chosen without the records.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the result as JSON.")] = False,
) -> None:
    """Evaluate a model against a true model, another release (both public), or records (NOT PRIVATE, or paid for).

    Records are compared exactly with --not-private, for the curator alone; or --epsilon pays from a ledger for their
    mean log-likelihood with noise, which may be published.
    """
    from quietfield.cli import arguments
    from quietfield.errors import Error
    from quietfield.models.model import load

    if sum(choice is not None for choice in (truth, release, records)) != 1:
        raise Error("say what to evaluate against: exactly one of --truth, --release and --records.")
    if records is None and (not_private or epsilon is not None or schema is not None):
        raise Error("--schema, --not-private and --epsilon go with --records.")
    if release is None and (trust or max_epsilon is not None or allow_no_promise):
        raise Error("--trust, --max-epsilon and --allow-no-promise go with --release.")
    source = arguments.optional_records(records, values, delimiter, encoding, one_line_per_record)
    asked = load(model)
    if truth is not None:
        content, lines = _against_truth(asked, load(truth))
    elif release is not None:
        content, lines = _against_release(asked, load_release(release, trust, max_epsilon, allow_no_promise))
    else:
        content, lines = _against_records(
            asked, source, schema, not_private, epsilon, delta, noise, unit, ledger, no_ledger, clip
        )
    if as_json:
        typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
        return
    for line in lines:
        typer.echo(line)


def _against_truth(model: "Model", truth: "Model") -> tuple[dict[str, Any], list[str]]:
    from dataclasses import asdict
    from math import isfinite

    from quietfield.study.comparison import compare
    from quietfield.study.rehearsal import measure_errors

    kl = compare(models={"truth": truth, "model": model}).kl["truth"]["model"]
    found = measure_errors(model, truth)  # over the truth's tables
    content = {"kl": kl if kl is not None and isfinite(kl) else None, **asdict(found)}
    return content, [
        f"KL(truth || model)  {'not defined for approximate inference' if kl is None else f'{kl:.4g} nats'}",
        f"error of a share    {found.mean:.3%} on average, {found.p95:.3%} is above 19 of 20 cells",
        f"one attribute       {found.single:.3%} on average",
        f"distance            {found.distance:.3%} total variation of a table on average",
    ]


def _against_release(model: "Model", release: "Release") -> tuple[dict[str, Any], list[str]]:
    from quietfield.study.comparison import compare

    row = compare(release, methods=(), models={"model": model}).rows[0]
    content = {"log_score": row.log_score, "residual": row.residual, "missed_tables": row.missed}
    return content, [
        f"log-score       {row.log_score:.4f} nats a noisy cell",
        f"residuals       {row.residual:.3f} standard deviations of noise and chance: about 1 if the model is "
        "right, less on the tables that it was learned from",
        f"missed tables   {row.missed}, beyond what noise and chance explain",
    ]


def _against_records(
    model: "Model",
    records: Any,
    schema: Path | None,
    not_private: bool,
    epsilon: str | None,
    delta: str | None,
    noise: str,
    unit: str,
    ledger: Path | None,
    no_ledger: bool,
    clip: str | None,
) -> tuple[dict[str, Any], list[str]]:
    from quietfield.cli import arguments
    from quietfield.curator import score as evaluation
    from quietfield.curator.ledger import Ledger
    from quietfield.errors import Error
    from quietfield.schema import Schema

    if schema is None:
        raise Error("records need --schema FILE, which says how columns become attributes.")
    if not_private == (epsilon is not None):
        raise Error(
            "say how: --not-private shows exact results to the curator alone; --epsilon pays for a noisy score that "
            "may be published (and not both)."
        )
    known = Schema.load(schema)
    if epsilon is None:
        found = evaluation.evaluate(model, records, known)
        return found.to_dict(), found.lines()
    arguments.check_payer(ledger, no_ledger)
    ends = None if clip is None else tuple(clip.split(","))
    if ends is not None and len(ends) != 2:
        raise Error(f"--clip is LOW,HIGH, two log-probabilities such as -20,0; it is not {clip!r}.")
    with arguments.tell_charge():
        score = evaluation.private_score(
            model,
            records,
            known,
            epsilon=epsilon,
            delta=delta,
            noise=noise,  # type: ignore[arg-type]  # checked there
            unit=arguments.unit(unit),
            ledger=None if ledger is None else Ledger(ledger),
            clip=ends,  # type: ignore[arg-type]  # checked there
        )
    chance = "" if score.delta is None else f", delta {float(score.delta):g}"
    return score.to_dict(), [
        f"log-likelihood  {score.mean_log_likelihood:.4f} nats a record, give or take {score.std:.2g} (the noise's "
        "standard deviation)",
        f"records         about {score.records:.0f}",
        f"clipped to      {score.low:.4g} .. {score.high:.4g}",
        f"promise         epsilon {float(score.epsilon):g}{chance}",
        f"protects        {score.protects}",
    ]
