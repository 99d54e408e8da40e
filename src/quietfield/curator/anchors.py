"""Anchors: where a ledger ended at some time, kept outside of it, so that a ledger that was rolled back is found out.

An anchor names a ledger, a line and the digest of all lines up to it. Every release, score, discovered schema and model
of PSGD carries one (its payment); ``quietfield ledger anchor`` writes one on its own, to print, to sign or to commit.
It is no secret: it tells how many charges there were, as each release does, and its digest covers a salt that the
ledger keeps.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from quietfield import schema
from quietfield.curator.ledger import PLACES, Ledger
from quietfield.curator.ledger_file import now
from quietfield.errors import FileError, RolledBack
from quietfield.files import archive_kind, canonical_json, check_writable, hold_lock, read_json, write_atomically
from quietfield.releases.parts import Payment
from quietfield.releases.release import Release

FORMAT, VERSION = "quietfield-anchor", 1


@dataclass(frozen=True)
class Anchor:
    """The line of a ledger that a file names: its end when an anchor was made, or the charge of the result ``id``."""

    ledger: Payment | None
    id: str = ""


def write_anchor(ledger: Ledger, path: str | Path) -> Anchor:
    """Write down where a ledger ends now.

    Args:
        ledger: The ledger.
        path: The JSON file to write, best on another machine or medium than the ledger.

    Returns:
        What was written.

    Raises:
        FileError: Another file is at ``path``, or the anchor of another ledger: it stays.
        RolledBack: An anchor of this ledger is at ``path``, and the ledger lacks its line: that anchor stays.

    >>> import quietfield as qf, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> ledger = Ledger.create(folder + "/budget.db", epsilon=1, unit=qf.Rows(1))
    >>> write_anchor(ledger, folder + "/anchor.json") == read_anchor(folder + "/anchor.json")
    True
    """
    path = Path(path)
    check_writable(path)
    # Several processes may charge and then write: each reads the end of the ledger after the anchor that it replaces.
    with hold_lock(path.with_name(f".{path.name[:60]}.lock")):
        if path.exists():
            _check_replaceable(path, ledger)
        head = ledger.head
        content = {"format": FORMAT, "version": VERSION, "made": now(), "ledger": asdict(head)}
        write_atomically(path, canonical_json(content))
    return Anchor(head)


def read_anchor(path: str | Path) -> Anchor:
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
    try:
        if content.get("format") == FORMAT and content["version"] == VERSION:
            return Anchor(_payment(content["ledger"]))
        paid = content["discovered"] if content.get("format") == schema.FORMAT else content
        if isinstance(paid["id"], str) and ("mean_log_likelihood" in paid or paid is not content):
            return Anchor(None if paid["ledger"] is None else _payment(paid["ledger"]), paid["id"])
    except (AttributeError, KeyError, TypeError):
        pass  # told below, as are files of another form
    raise FileError(
        f"{path} is neither an anchor, nor a release, a score or a schema that was discovered; give what a ledger has "
        "paid for."
    )


def _check_replaceable(path: Path, ledger: Ledger) -> None:
    """Refuse to replace anything but an anchor of the ledger whose line the ledger still has."""
    content = None if archive_kind(path) else read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise FileError(f"{path} exists and is not an anchor, so it is not replaced; choose another path.")
    earlier = read_anchor(path)
    place = ledger.place(earlier)
    if place == "another ledger":
        raise FileError(f"{path} is of another ledger; choose another path.")
    if place != "here":
        raise RolledBack(f"{ledger.path} lacks the line that {path} names, so that anchor stays. {PLACES[place]}.")


def _payment(data: Any) -> Payment:
    found = Payment(**data)
    if not isinstance(found.id, str) or type(found.number) is not int or not isinstance(found.digest, str):
        raise TypeError
    return found
