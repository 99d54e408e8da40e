"""Where the passphrase of a private key comes from: the terminal, a file, or the environment; never the command line.

What stands on a command line can be read by every user of the machine, and stays in the history of the shell.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quietfield.errors import Error
from quietfield.files import read_bytes
from quietfield.releases.keys import is_encrypted, load_private

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

LIMIT = 4096
PassphraseFile = Annotated[
    Path | None, typer.Option("--passphrase-file", help="A file whose first line is the passphrase of the private key.")
]
PassphraseEnv = Annotated[
    str | None, typer.Option("--passphrase-env", help="The name of an environment variable that holds the passphrase.")
]


def load_key(path: Path | None, file: Path | None, variable: str | None) -> "Ed25519PrivateKey | None":
    """The private key in a file, if one is named; the passphrase is asked for where the key needs one."""
    if path is None:
        if file is not None or variable is not None:
            raise Error("--passphrase-file and --passphrase-env are for a private key: name it with --key FILE.")
        return None
    return load_private(path, read(f"Passphrase of {path}", file, variable) if is_encrypted(path) else None)


def read(prompt: str, file: Path | None, variable: str | None, confirm: bool = False) -> str:
    """A passphrase from a file, from a variable, or from whoever sits at the terminal, without an echo."""
    if file is not None and variable is not None:
        raise Error("--passphrase-file and --passphrase-env are two places for one passphrase; name one.")
    if file is not None:
        try:
            return read_bytes(file, LIMIT).decode().partition("\n")[0].removesuffix("\r")
        except UnicodeDecodeError:
            raise Error(f"{file} is not UTF-8 text; a passphrase is the first line of a file of text.") from None
    if variable is not None:
        if variable not in os.environ:
            # What was written is not shown: it may be the passphrase itself.
            raise Error(
                "there is no environment variable of the name that --passphrase-env gives; it takes the name of one "
                "that is set, and never the passphrase itself."
            )
        return os.environ[variable]
    if sys.stdin is None or not sys.stdin.isatty():
        raise Error(
            "a passphrase is needed, and there is no terminal to ask for it; name a file with --passphrase-file, or an "
            "environment variable with --passphrase-env."
        )
    return str(typer.prompt(prompt, hide_input=True, confirmation_prompt=confirm, err=True))
