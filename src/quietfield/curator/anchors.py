"""Anchors: where a ledger ended at some time, kept outside of it, so that a ledger that was rolled back is found out.

An anchor names a ledger, a line and the digest of all lines up to it. Every release, score, discovered schema and model
of PSGD carries one (its payment); ``quietfield ledger anchor`` writes one on its own, to print, to sign or to commit.
It is no secret: it tells how many charges there were, as each release does, and its digest covers a salt that the
ledger keeps.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from quietfield.curator.ledger import PLACES, Ledger
from quietfield.curator.ledger_file import now
from quietfield.errors import FileError, RolledBack
from quietfield.files import canonical_json, check_writable, hold_lock, read_json, write_atomically
from quietfield.releases.parts import Payment

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
    """An anchor as :func:`write_anchor` writes it.

    Raises:
        FileError: The file is no anchor.
    """
    content = read_json(path)
    if isinstance(content, dict) and content.get("format") == FORMAT and content.get("version") == VERSION:
        if (payment := payment_from_json(content.get("ledger"))) is not None:
            return Anchor(payment)
    raise FileError(f"{path} is not an anchor; write one with: quietfield ledger anchor.")


def _check_replaceable(path: Path, ledger: Ledger) -> None:
    """Refuse to replace anything but an anchor of the ledger whose line the ledger still has."""
    try:
        earlier = read_anchor(path)
    except FileError:
        raise FileError(f"{path} exists and is not an anchor, so it is not replaced; choose another path.") from None
    place = ledger.place(earlier)
    if place == "another ledger":
        raise FileError(f"{path} is of another ledger; choose another path.")
    if place != "here":
        raise RolledBack(f"{ledger.path} lacks the line that {path} names, so that anchor stays. {PLACES[place]}.")


def payment_from_json(data: Any) -> Payment | None:
    """The line of a ledger that a file names, or None if it is not written as one."""
    if isinstance(data, dict) and set(data) == {"id", "number", "digest"}:
        if isinstance(data["id"], str) and type(data["number"]) is int and isinstance(data["digest"], str):
            return Payment(**data)
    return None
