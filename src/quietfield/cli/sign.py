"""``quietfield sign``: a signature for a release that has none, or the second of two."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from quietfield.cli import passphrases
from quietfield.cli.passphrases import PassphraseEnv, PassphraseFile
from quietfield.errors import Error
from quietfield.models.verification import verify
from quietfield.releases.release import Release
from quietfield.text import printable

app = typer.Typer()


@app.command(epilog="Example: quietfield sign visits.qfr --key second.pem")
def sign(
    path: Annotated[Path, typer.Argument(help="The release; its file is replaced by one with the signature.")],
    key: Annotated[Path | None, typer.Option(help="The private key (PEM) to sign with.")] = None,
    passphrase_file: PassphraseFile = None,
    passphrase_env: PassphraseEnv = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="At a terminal: sign without being asked.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be signed, and sign nothing.")] = False,
) -> None:
    """Sign a release: first, or as the second person whom a policy asks for.

    What is about to be signed is checked and shown as `quietfield verify` does; at a terminal you are asked then.
    """
    if key is None and not dry_run:
        raise Error("say whose signature it is: --key FILE, a private key; --dry-run shows the release without one.")
    signer = passphrases.load_key(key, passphrase_file, passphrase_env)
    shown = Release.load(path, complete=False)
    findings = verify(shown, complete=False)
    for name, text in shown._facts():
        if name != "note":  # the findings have them
            typer.echo(f"{name:<11} {printable(text)}")
    for finding in findings:
        typer.echo(f"checked     {printable(finding)}")
    if dry_run or signer is None:
        typer.echo("dry run     nothing was signed")
        return
    if not yes and sys.stdin is not None and sys.stdin.isatty():
        typer.confirm("Sign this release?", abort=True, err=True)
    signed = Release.add_signature(path, signer, digest=shown.digest)
    waits = "" if signed.complete else "; it waits for a second signature"
    typer.echo(f"written     {path}, signed by {' and '.join(signed.signers)}{waits}")
