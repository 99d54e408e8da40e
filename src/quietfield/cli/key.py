"""``quietfield key``: keys that sign releases."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    help="Make the keys that sign releases.",
    epilog="Example: quietfield key create curator.pem",
)


@app.callback()
def root() -> None:
    """Make the keys that sign releases."""


@app.command(epilog="Example: quietfield key create curator.pem")
def create(
    path: Annotated[
        Path, typer.Argument(help="Where the private key goes; the public one goes beside it as NAME.pub.pem.")
    ],
) -> None:
    """Make a pair of keys, private and public.

    Keep the private one to yourself, and give the public one to whoever reads your releases.
    """
    from quietfield import keys

    private, public = keys.create_keys(path)
    typer.echo(f"private key: {private} (keep it secret)")
    typer.echo(f"public key:  {public} (publish it; fingerprint {keys.fingerprint(keys.load_public(public))})")
