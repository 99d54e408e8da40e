"""Read whatever quietfield has written: the file says what it is.

It stands here because a ledger may be in the file, and only the curator's code may know of ledgers. It reads no record.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from quietfield.domain import FORMAT as DOMAIN_FORMAT
from quietfield.domain import Domain
from quietfield.errors import Error, FileError
from quietfield.files import archive_kind, read_beginning, read_json
from quietfield.schema import FORMAT as SCHEMA_FORMAT
from quietfield.schema import Schema

if TYPE_CHECKING:
    from quietfield.curator.ledger import Ledger
    from quietfield.models.model import Model
    from quietfield.releases.release import Release


def load(
    path: str | Path, trust: "str | Path | Iterable[str | Path] | None" = None
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
        from quietfield.releases.release import Release

        kind = archive_kind(path)
        if kind == "release":
            return Release.load(path, trust)
        if kind == "model":
            return Model.load(path, trust)
        raise FileError(f"{path} is an archive, but no whole release or model; fetch it once more.")
    if trust is not None:
        raise Error(f"trust is for releases and models, which are signed; {path} is neither.")
    if beginning.startswith(b"SQLite format 3\0"):
        from quietfield.curator.ledger import Ledger

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
