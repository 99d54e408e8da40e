"""``quietfield key``: keys that sign releases."""

from pathlib import Path
from typing import Annotated

import typer

from quietfield.cli import passphrases
from quietfield.cli.passphrases import PassphraseEnv, PassphraseFile
from quietfield.releases import keys, public_keys

app = typer.Typer(
    no_args_is_help=True,
    help="Make the keys that sign releases.",
    epilog="Example: quietfield key create curator.pem",
)


@app.callback()
def root() -> None:
    """Make the keys that sign releases."""


@app.command(epilog="Example: quietfield key create curator.pem --encrypt")
def create(
    path: Annotated[
        Path, typer.Argument(help="Where the private key goes; the public one goes beside it as NAME.pub.pem.")
    ],
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="Encrypt the private key with a passphrase, asked for at the terminal.")
    ] = False,
    passphrase_file: PassphraseFile = None,
    passphrase_env: PassphraseEnv = None,
) -> None:
    """Make a pair of keys, private and public.

    Keep the private one to yourself, and give the public one to whoever reads your releases.
    """
    phrase = None
    if encrypt or passphrase_file is not None or passphrase_env is not None:
        phrase = passphrases.read(f"Passphrase for {path}", passphrase_file, passphrase_env, confirm=True)
    private, public = keys.create_keys(path, phrase)
    how = "encrypted" if phrase is not None else "not encrypted: whoever copies it can sign; see --encrypt"
    typer.echo(f"private key: {private} (keep it secret; {how})")
    typer.echo(
        f"public key:  {public} (publish it; fingerprint {public_keys.fingerprint(public_keys.load_public(public))})"
    )
