"""Public keys (Ed25519, in PEM), and the fingerprints that releases and policies name them by."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quietfield.errors import FileError
from quietfield.files import read_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

KEY_LIMIT = 64 * 1024


def load_public(path: str | Path) -> "Ed25519PublicKey":
    """A public key from a PEM file."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    data = read_bytes(path, KEY_LIMIT)
    key = parse_key(lambda: serialization.load_pem_public_key(data))
    if not isinstance(key, Ed25519PublicKey):
        hint = " (this is a private key: give the .pub.pem file)" if b"PRIVATE KEY" in data else ""
        raise FileError(f"{path} is not an Ed25519 public key in PEM{hint}.")
    return key


def fingerprint(key: "Ed25519PublicKey") -> str:
    """A short name of a public key: the first 32 hexadecimal digits of the SHA-256 of its raw bytes."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:32]


def parse_key(load: Callable[[], Any]) -> Any:
    """What a reader of PEM returns, or None if it is no key that the library knows."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return load()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None  # the caller says which kind of key was expected
