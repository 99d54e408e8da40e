"""``quietfield verify``: is this release whole, from whom it should be, and as private as is demanded?"""

from pathlib import Path
from typing import Annotated

import typer

from quietfield.cli import arguments, outputs, summaries
from quietfield.errors import Error, Incomplete
from quietfield.files import archive_kind
from quietfield.models.model import Model
from quietfield.models.verification import verify as check
from quietfield.releases.keys import check_trust
from quietfield.releases.release import Release
from quietfield.text import printable

app = typer.Typer()


@app.command(epilog="Example: quietfield verify visits.qfr --trust curator.pub.pem --max-epsilon 2 --require-ledger")
def verify(
    path: Annotated[Path, typer.Argument(help="The release, or a model.")],
    trust: arguments.Trust = None,
    require_signatures: arguments.RequireSignatures = 1,
    max_epsilon: arguments.MaxEpsilon = None,
    max_delta: Annotated[
        str | None, typer.Option(help="Refuse a larger delta, and no promise; 0 takes pure epsilon alone.")
    ] = None,
    require_promise: Annotated[
        bool, typer.Option("--require-promise", help="Refuse a release that promises nothing; --trust does too.")
    ] = False,
    allow_no_promise: arguments.AllowNoPromise = False,
    require_ledger: Annotated[
        bool, typer.Option("--require-ledger", help="Refuse a release that no ledger paid for.")
    ] = False,
    release: Annotated[
        Path | None, typer.Option(help="Of a model: the release that it should have been learned from.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Check the signature, the shapes and the arithmetic of the privacy promise, which the first line tells.

    Exit codes: 1 if the file or its arithmetic is wrong, 7 if it waits for its second signature (whoever is to sign it
    sees what was found), 10 not signed, 11 signed by another key, 12 no promise, 13 epsilon or delta too large, 14 no
    ledger, 15 a model of another release, 16 too few trusted signatures.
    """
    if require_promise and allow_no_promise:
        raise Error("--require-promise and --allow-no-promise contradict each other; say one of them.")
    file: Model | Release
    if archive_kind(path) == "model":
        file = Model.load(path, trust or None)
    else:
        file = Release.load(path, trust or None, complete=False)
    source = None if release is None else Release.load(release, trust or None)
    found = check(
        file,
        trust=trust or None,
        max_epsilon=max_epsilon,
        max_delta=max_delta,
        require_promise=False if allow_no_promise else require_promise or None,
        require_ledger=require_ledger,
        require_signatures=require_signatures,
        release=source,
        complete=False,
    )
    lines = [printable(line) for line in found]
    if as_json:
        trusted = check_trust(file.signers, trust, path) if trust else ()
        content = {
            "path": str(path),
            **summaries.of_verified(file, source),
            "trusted": bool(trust),
            "trusted_signers": list(trusted),
            "findings": lines,
        }
        outputs.show_json(content)
    else:
        typer.echo("\n".join(lines))
    if isinstance(file, Release):
        try:
            file.check_complete(path)
        except Incomplete as waiting:  # told after the findings: whoever is to sign has to see them
            typer.echo(f"Error: {waiting}", err=True)
            raise typer.Exit(waiting.exit_code) from None
