"""Read whatever quietfield has written: the file says what it is.

It stands here because a ledger may be in the file, and only the curator's code may know of ledgers. It reads no record.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from quietfield.curator.anchors import FORMAT as ANCHOR_FORMAT
from quietfield.curator.anchors import VERSION as ANCHOR_VERSION
from quietfield.curator.anchors import Anchor, payment_from_json
from quietfield.curator.ledger import Ledger
from quietfield.domain import FORMAT as DOMAIN_FORMAT
from quietfield.domain import Domain
from quietfield.errors import Error, FileError
from quietfield.files import archive_kind, read_beginning, read_json
from quietfield.releases.release import Release
from quietfield.schema import FORMAT as SCHEMA_FORMAT
from quietfield.schema import Schema

if TYPE_CHECKING:
    from quietfield.models.model import Model


def load(
    path: str | Path, trust: str | Path | Iterable[str | Path] | None = None
) -> "Release | Model | Schema | Domain | Ledger":
    """Read a release, a model, a schema, a domain or a ledger; the content decides, whatever the file is called.

    ``Release.load``, ``Model.load`` and so on read one kind and refuse the others.

    Args:
        path: The file.
        trust: A public key (PEM), or several: a release or a model that none of them signed is refused. Nothing else
            is signed.

    Returns:
        What is in the file.

    Raises:
        NotSigned: It is not signed, and ``trust`` is given.
        OtherSigner: It is signed by a key that is not in ``trust``.
        FileError: It is missing, damaged, altered, or nothing that quietfield has written.

    >>> import quietfield as qf, tempfile
    >>> path = tempfile.mkdtemp() + "/people.json"
    >>> qf.Schema({"sex": ["f", "m"]}).save(path)
    >>> type(qf.load(path)).__name__
    'Schema'
    """
    beginning = read_beginning(path, 16)
    if beginning.startswith(b"PK"):
        from quietfield.models.model import Model

        kind = archive_kind(path)
        if kind == "release":
            return Release.load(path, trust)
        if kind == "model":
            return Model.load(path, trust)
        raise FileError(f"{path} is an archive, but no whole release or model; fetch it once more.")
    if trust is not None:
        raise Error(f"trust is for releases and models, which are signed; {path} is neither.")
    if beginning.startswith(b"SQLite format 3\0"):
        return Ledger(path)
    if not beginning.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        raise FileError(f"{path} is not a release, a model, a schema, a domain or a ledger.")
    content = read_json(path)
    written = content.get("format")
    if written == SCHEMA_FORMAT:
        return Schema.load(path)
    if isinstance(written, str) and written != DOMAIN_FORMAT:
        raise FileError(f"{path} is in the format {written[:80]!r}; expected a schema or a domain.")
    return Domain.load(path)


def read_payment(path: str | Path) -> Anchor:
    """The line of a ledger that a file names.

    Args:
        path: An anchor, a release, a schema that was discovered, or a score as ``quietfield score --json`` writes it.

    Returns:
        The line; its ``ledger`` is None if no ledger paid for the release or the score.

    Raises:
        FileError: The file is none of these.
    """
    if archive_kind(path) == "release":
        release = Release.load(path, complete=False)  # it is paid for, whoever has yet to sign it
        return Anchor(release.ledger, release.id)
    content = read_json(path)
    written = content.get("format") if isinstance(content, dict) else None
    paid = content.get("discovered") if written == SCHEMA_FORMAT else content
    if isinstance(paid, dict) and "ledger" in paid:
        line = payment_from_json(paid["ledger"])
        if written == ANCHOR_FORMAT and paid.get("version") == ANCHOR_VERSION and line is not None:
            return Anchor(line)
        if isinstance(paid.get("id"), str) and (written == SCHEMA_FORMAT or "mean_log_likelihood" in paid):
            if line is not None or paid["ledger"] is None:
                return Anchor(line, paid["id"])
    raise FileError(
        f"{path} is neither an anchor, nor a release, a score or a schema that was discovered; give what a ledger has "
        "paid for."
    )
