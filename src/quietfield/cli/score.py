"""``quietfield score``: a model on records, exactly for the curator alone, or with noise that is paid for."""

from pathlib import Path
from typing import Annotated, Any

import typer

from quietfield.cli import arguments, outputs
from quietfield.curator import score as scoring
from quietfield.curator.ledger import Ledger
from quietfield.errors import Error
from quietfield.models.model import Model

app = typer.Typer()

EXAMPLE = "Example: quietfield score visits.qfm heldout.csv --schema schema.json --epsilon 0.5 --ledger budget.db"


@app.command(epilog=EXAMPLE)
def score(
    model: Annotated[Path, typer.Argument(help="The model.")],
    data: arguments.DataArgument,
    schema: arguments.SchemaOption,
    confidential: Annotated[
        bool, typer.Option("--confidential", help="Show exact results, for the curator's eyes only: NOT PRIVATE.")
    ] = False,
    epsilon: Annotated[str | None, arguments.EPSILON] = None,
    delta: arguments.DeltaOption = None,
    noise: arguments.NoiseOption = "laplace",
    unit: Annotated[str, arguments.UNIT] = "rows:1",
    ledger: arguments.LedgerOption = None,
    no_ledger: arguments.NoLedgerOption = False,
    clip: Annotated[
        str | None, typer.Option(help="LOW,HIGH: log-probabilities are cut to these; chosen without the records.")
    ] = None,
    values: arguments.ValuesOption = "codes",
    delimiter: arguments.DelimiterOption = None,
    encoding: arguments.EncodingOption = None,
    one_line_per_record: arguments.OneLinePerRecordOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the result as JSON.")] = False,
) -> None:
    """Score a model on records: exactly, for the curator alone (NOT PRIVATE), or with noise that is paid for.

    --confidential shows exact results. --epsilon pays from a ledger for the mean log-likelihood of the records with
    noise, which may be published.
    """
    if confidential == (epsilon is not None):
        raise Error(
            "say how: --confidential shows exact results to the curator alone; --epsilon pays for a noisy score that "
            "may be published (and not both)."
        )
    if confidential and (ledger is not None or no_ledger or delta is not None or clip is not None):
        raise Error("--ledger, --no-ledger, --delta and --clip are for a noisy score: they go with --epsilon.")
    records = arguments.records(data, values, delimiter, encoding, one_line_per_record)
    asked, known = Model.load(model), arguments.schema(schema)
    content: dict[str, Any]
    if epsilon is None:
        exact = scoring.confidential_score(asked, records, known)
        content, lines = exact.to_dict(), exact.lines()
    else:
        arguments.check_payer(ledger, no_ledger)
        ends = None if clip is None else tuple(clip.split(","))
        if ends is not None and len(ends) != 2:
            raise Error(f"--clip is LOW,HIGH, two log-probabilities such as -20,0; it is not {clip!r}.")
        with arguments.tell_charge():
            paid = scoring.dp_score(
                asked,
                records,
                known,
                epsilon=epsilon,
                delta=delta,
                noise=noise,
                unit=arguments.unit(unit),
                ledger=None if ledger is None else Ledger(ledger),
                clip=ends,  # type: ignore[arg-type]  # checked there
            )
        content, lines = paid.to_dict(), paid.lines()
    if as_json:
        outputs.show_json(content)
        return
    for line in lines:
        typer.echo(line)
