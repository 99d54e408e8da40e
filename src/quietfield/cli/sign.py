"""``quietfield sign``: a signature for a release that has none, or the second of two."""

from pathlib import Path
from typing import Annotated

import typer

from quietfield.cli.passphrases import PassphraseEnv, PassphraseFile

app = typer.Typer()


@app.command(epilog="Example: quietfield sign visits.qfr --key second.pem")
def sign(
    path: Annotated[Path, typer.Argument(help="The release; its file is replaced by one with the signature.")],
    key: Annotated[Path, typer.Option(help="The private key (PEM) to sign with.")],
    passphrase_file: PassphraseFile = None,
    passphrase_env: PassphraseEnv = None,
) -> None:
    """Sign a release: first, or as the second person whom a policy asks for. Look at it before you do."""
    from quietfield.cli import passphrases
    from quietfield.releases.release import Release

    signer = passphrases.load_key(key, passphrase_file, passphrase_env)
    assert signer is not None
    for name, text in Release.add_signature(path, signer)._facts():
        typer.echo(f"{name:<11} {text}")
