"""Ed25519 keys and signatures, so that a reader can tell who published a release and that nobody changed it.

Keys are PEM files as OpenSSL writes them. A private key is written for its owner alone (mode 600), encrypted with a
passphrase if one is given. Keys neither expire nor are revoked here: ``docs/how-to/verify.md`` says what to do instead.
"""

import base64
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quietfield.archives import SIGNATURE
from quietfield.errors import FileError, NotSigned, OtherSigner, TooFewSignatures
from quietfield.files import MANIFEST, canonical_json, parse_json, read_bytes
from quietfield.releases.public_keys import KEY_LIMIT, fingerprint, load_public, parse_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

#: OpenSSL takes no longer passphrase.
PASSPHRASE_BYTES = 1023
#: What is signed starts with these bytes, so that a signature for one purpose never serves another.
CONTEXT = "quietfield {kind} signature 1\n"


def create_keys(path: str | Path, passphrase: str | None = None) -> tuple[Path, Path]:
    """Write a new private key to ``path`` (mode 600) and its public key beside it, as ``path`` with ``.pub.pem``.

    Neither file may exist: a lost private key cannot be made again, nor can a forgotten passphrase.

    Args:
        path: Where the private key goes.
        passphrase: What the private key is encrypted with; None leaves it as it is.

    Returns:
        The paths of the private and the public key.

    Raises:
        FileError: A file is there already or cannot be written, or the passphrase is empty or too long.

    >>> import tempfile
    >>> private, public = create_keys(tempfile.mkdtemp() + "/curator.pem", passphrase="correct horse")
    >>> is_encrypted(private), load_private(private, "correct horse").public_key() == load_public(public)
    (True, True)
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Path(path)
    if not private.name or private.is_dir():
        raise FileError(f"{path} is a folder; name a file for the private key, for instance curator.pem.")
    public = private.with_name((private.name.removesuffix(".pem") or "key") + ".pub.pem")
    for target in (private, public):
        if target.exists():
            raise FileError(f"{target} exists, and a key is never overwritten; choose another name.")
    key = Ed25519PrivateKey.generate()
    encoding = serialization.Encoding.PEM
    plain: serialization.KeySerializationEncryption = serialization.NoEncryption()
    how = plain if passphrase is None else serialization.BestAvailableEncryption(_passphrase_bytes(passphrase))
    secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, how)
    open_part = key.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
    _write_new(private, secret, 0o600)
    try:
        _write_new(public, open_part, 0o644)
    except FileError:
        private.unlink()  # half a pair is of no use
        raise
    return private, public


def is_encrypted(path: str | Path) -> bool:
    """Whether a PEM file holds a private key that needs a passphrase."""
    data = read_bytes(path, KEY_LIMIT)
    return b"BEGIN ENCRYPTED PRIVATE KEY" in data or b"Proc-Type: 4,ENCRYPTED" in data


def load_private(path: str | Path, passphrase: str | None = None) -> "Ed25519PrivateKey":
    """A private key from a PEM file.

    Args:
        path: The file.
        passphrase: What the key is encrypted with; it is not used for a key that is not.

    Returns:
        The key, for ``Release.save(path, key=...)``.

    Raises:
        FileError: The file holds no such key, or the passphrase is missing or wrong.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    data, secret = read_bytes(path, KEY_LIMIT), None
    if is_encrypted(path):
        if passphrase is None:
            raise FileError(
                f"{path} is encrypted, and no passphrase is given; with `quietfield`, type it at a terminal or name "
                "its file with --passphrase-file; in Python: quietfield.releases.keys.load_private(path, passphrase)."
            )
        secret = _passphrase_bytes(passphrase)
    key = parse_key(lambda: serialization.load_pem_private_key(data, secret))
    if key is None and secret is not None:
        raise FileError(f"{path} cannot be decrypted: the passphrase is wrong, or the file is damaged; try again.")
    if not isinstance(key, Ed25519PrivateKey):
        raise FileError(f"{path} is not an Ed25519 private key in PEM; make one with: quietfield key create.")
    return key


def sign(data: bytes, key: "Ed25519PrivateKey | str | Path", kind: str = "release") -> dict[str, str]:
    """A signature of some bytes, with the public key that checks it."""
    signer = load_private(key) if isinstance(key, str | Path) else key
    return {
        "algorithm": "ed25519",
        "public_key": base64.b64encode(signer.public_key().public_bytes_raw()).decode(),
        "signature": base64.b64encode(signer.sign(CONTEXT.format(kind=kind).encode() + data)).decode(),
    }


def check(data: bytes, signature: Any, kind: str = "release") -> "Ed25519PublicKey":
    """The public key that signed these bytes; an error if the signature is not right."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    expected = {"algorithm", "public_key", "signature"}
    if not isinstance(signature, dict) or set(signature) != expected or signature["algorithm"] != "ed25519":
        raise FileError("the signature is damaged or of an unknown kind; get a fresh copy of the file.")
    try:
        key = Ed25519PublicKey.from_public_bytes(_decode(signature["public_key"]))
        key.verify(_decode(signature["signature"]), CONTEXT.format(kind=kind).encode() + data)
    except (InvalidSignature, ValueError, TypeError):
        raise FileError(
            "the signature does not match: the file was altered after it was signed; do not use it."
        ) from None
    return key


def check_archive(
    members: Mapping[str, bytes], kind: str, path: str | Path, trust: str | Path | Iterable[str | Path] | None = None
) -> tuple[str, ...]:
    """The fingerprints of the keys that signed an archive: none, one or two.

    Raises:
        NotSigned: It is not signed, and ``trust`` is given.
        OtherSigner: None of the keys in ``trust`` signed it. What its second signature is worth, the caller decides.
        FileError: It has a signature that is not right, whether or not one is asked for.
    """
    signers: tuple[str, ...] = ()
    if SIGNATURE in members:
        try:
            signature = parse_json(members[SIGNATURE], SIGNATURE)
            if canonical_json(signature) != members[SIGNATURE]:
                raise FileError("the signature is not in canonical form; get a fresh copy of the file.")
            signers = check_all(members[MANIFEST], signature, kind)
        except FileError as error:
            raise FileError(f"{path}: {error}") from None
    if trust is not None:
        check_trust(signers, trust, path)
    return signers


def check_trust(
    signers: tuple[str, ...],
    trust: str | Path | Iterable[str | Path],
    path: str | Path,
    *,
    every: bool = False,
    least: int = 1,
) -> tuple[str, ...]:
    """Refuse a file that is not signed by a key that is trusted.

    Args:
        signers: The fingerprints of the keys that signed it.
        trust: Public key files.
        path: What messages call the file.
        every: Whether all that signed it have to be trusted; else one is enough, and the other is left to the caller.
        least: How many of the keys in ``trust`` must have signed it.

    Returns:
        The fingerprints of those that signed it and are trusted.

    Raises:
        NotSigned: It is not signed.
        OtherSigner: None of the keys in ``trust`` signed it, or with ``every`` another signed it too.
        TooFewSignatures: Fewer than ``least`` of them signed it.

    >>> check_trust((), [], "visits.qfr")
    Traceback (most recent call last):
    quietfield.errors.NotSigned: visits.qfr is not signed (or its signature was taken off), so it cannot be trusted; ...
    """
    named = {fingerprint(load_public(one)) for one in list_paths(trust)}
    trusted = tuple(one for one in signers if one in named)
    others = " and ".join(one for one in signers if one not in named)
    if not signers:
        raise NotSigned(
            f"{path} is not signed (or its signature was taken off), so it cannot be trusted; ask for a signed copy."
        )
    if not trusted:
        raise OtherSigner(f"{path} is signed by another key ({others}) than those that are trusted; do not use it.")
    if every and others:
        raise OtherSigner(
            f"{path} is also signed by {others}, which is not trusted, and the policy under which it was made has two "
            "persons sign; name the public keys of both with --trust if you trust both."
        )
    if len(trusted) < least:
        raise TooFewSignatures(
            f"{path} needs signatures by {least} trusted keys, and {len(trusted)} of the trusted keys signed it "
            f"({' and '.join(trusted)}); name the public keys of all who should have signed with --trust, or ask for a "
            "copy that they signed."
        )
    return trusted


def list_paths(trust: str | Path | Iterable[str | Path]) -> list[str | Path]:
    """Public key files as a list: one alone, or whatever can be iterated over, perhaps only once."""
    return [trust] if isinstance(trust, str | Path) else list(trust)


def check_all(data: bytes, signatures: Any, kind: str) -> tuple[str, ...]:
    """The fingerprints of the keys that signed these bytes: of one signature, or of a list of two by different keys."""
    listed = signatures if isinstance(signatures, list) else [signatures]
    found = tuple(fingerprint(check(data, one, kind)) for one in listed[:3])
    if isinstance(signatures, list) and (len(found) != 2 or len(set(found)) != 2):
        raise FileError("a file is signed once, or twice by different keys; use the key of somebody else.")
    return found


def _passphrase_bytes(passphrase: str) -> bytes:
    """A passphrase as it is used."""
    try:
        data = passphrase.encode()
    except UnicodeEncodeError:
        data = b""
    if not 0 < len(data) <= PASSPHRASE_BYTES:
        raise FileError(f"a passphrase has 1 to {PASSPHRASE_BYTES} bytes of text; choose another.")
    return data


def _decode(text: str) -> bytes:
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text:  # base64 has spare bits, and nothing may hide in them
        raise ValueError("not the one spelling of these bytes")
    return data


def _write_new(path: Path, data: bytes, mode: int) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise FileError(f"{path} exists, and a key is never overwritten; choose another name.") from None
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}; choose a path that you may write to.") from None
    try:
        with open(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:  # a full disk, say: half a key is of no use
        path.unlink(missing_ok=True)
        raise FileError(f"cannot write {path}: {error.strerror}; choose a path that you may write to.") from None
