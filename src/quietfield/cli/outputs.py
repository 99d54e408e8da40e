"""What commands write: JSON or facts to the terminal, and files, which replace others with --force alone and only ours.

Files are named: ``-``, which elsewhere is the standard input or output, is refused wherever a file is expected.
"""

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from quietfield.archives import put_in_place
from quietfield.errors import STANDS, Error, FileError
from quietfield.files import archive_kind, check_writable, read_beginning, temporary_neighbour
from quietfield.releases.release import Release

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def show_json(content: Any) -> None:
    """Print what ``--json`` asks for: one object, for a program."""
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))


def show_facts(facts: Mapping[str, Any]) -> None:
    """Print facts for people: their names in a column, texts beside them."""
    for name, text in facts.items():
        typer.echo(f"{name:<11} {text}".replace("\n", "\n" + " " * 12))


#: What --force replaces, by its name in messages, and how such a file is recognised. Pictures and records bear no mark
#: of ours: there the ending must do, and for records the :func:`columns`.
KINDS: dict[str, Callable[[Path], bool]] = {
    "model": lambda path: archive_kind(path) == "model",
    "release": lambda path: archive_kind(path) == "release",
    "report": lambda path: b'<meta name="generator" content="quietfield ' in read_beginning(path),
    "anchor": lambda path: b'"format":"quietfield-anchor"' in read_beginning(path),
    "data card": lambda path: read_beginning(path).startswith(b"# Data card: synthetic records by quietfield"),
    "picture": lambda path: path.suffix.lower() == ".svg",
    "file of records": lambda path: path.suffix.lower() in (".csv", ".parquet"),
}


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths are one file, under whatever names, through links too."""
    try:
        return one.samefile(other)
    except OSError:
        return one.resolve() == other.resolve()


def check_named(path: object) -> None:
    """Refuse ``-`` for a file.

    >>> check_named(Path("-"))
    Traceback (most recent call last):
    quietfield.errors.FileError: - is not taken for the standard input or output: name a file; ...
    """
    if isinstance(path, Path | str) and str(path) == "-":
        raise FileError(
            "- is not taken for the standard input or output: name a file; what a command prints, as JSON with --json, "
            "can be redirected."
        )


def check(out: Path, what: str, force: bool, reads: Iterable[Path] = ()) -> None:
    """Refuse a path that cannot be written, that is being read, or where something is that may not be replaced.

    ``what`` is one of :data:`KINDS`. Ask before the work: nobody wants to learn this after a long fit.

    >>> import tempfile
    >>> out = Path(tempfile.mkdtemp()) / "visits.qfm"
    >>> check(out, "model", force=False)
    >>> _ = out.write_text("not a model")
    >>> check(out, "model", force=True)
    Traceback (most recent call last):
    quietfield.errors.FileError: ...visits.qfm is not a quietfield model, and --force replaces nothing else; ...
    """
    for path in reads:
        if same_file(out, path):
            raise FileError(f"--out {out} is {path}, which this command reads; choose another path.")
    check_writable(out)
    if not os.path.lexists(out):
        return
    if not force:
        raise FileError(f"{out} is there already; choose another path, or say --force to replace a {what}.")
    if not KINDS[what](out):
        raise FileError(f"{out} is not a quietfield {what}, and --force replaces nothing else; choose another path.")


def picture(path: Path | None, force: bool) -> None:
    """The same for a picture, where one is asked for."""
    if path is None:
        return
    if path.suffix.lower() != ".svg":
        raise Error(f"--svg writes a picture, a file whose name ends in .svg, not {path}.")
    check(path, "picture", force)


def columns(path: Path, delimiter: str = ",") -> tuple[str, ...] | None:
    """The names of the columns of a CSV or Parquet file, or None. No record is looked at: they may be somebody's."""
    try:
        if path.suffix.lower() == ".parquet":
            from pyarrow import ArrowInvalid, parquet

            try:
                return tuple(parquet.read_schema(path).names)
            except ArrowInvalid:
                return None
        with open(path, encoding="utf-8", newline="") as file:
            return tuple(next(csv.reader(file, delimiter=delimiter), ()))
    except (OSError, UnicodeDecodeError, csv.Error):
        return None


def check_counted(release: Release, model: Path) -> None:
    """Refuse to draw as many records as a release counted where noise says how many those are.

    Raises:
        Error: The standard error of their number is as large as the number.
    """
    from quietfield.learning.observation import estimate_records

    found = estimate_records(release)
    if found.variance >= found.value**2:
        raise Error(
            f"the release counted about {found.value:,.0f} records, with a standard error of {found.variance**0.5:,.0f}"
            f": that is noise. Say how many to draw: quietfield sample {model} --rows."
        )


def keep_release(found: "Release", out: Path, signer: "Ed25519PrivateKey | None", force: bool, paid: bool) -> "Release":
    """Write a release and read it back. Where its path is taken or lost meanwhile, it is kept under another name.

    It is paid for, and its noise cannot be drawn a second time: whatever happens, it must not be lost.
    """
    try:
        return _write_release(found, out, signer, force)
    except (Error, OSError) as error:
        said = str(error).rstrip(".")
        reason = said.rpartition(";")[0] or said  # without its advice: another follows
    except BaseException as error:  # noqa: BLE001  # out of memory, or an interrupt: once more, under another name
        reason = "Interrupted" if isinstance(error, KeyboardInterrupt) else f"writing {out} failed"
    stands = (
        "the charge stands, and a second run would be charged again" if paid else "a second run spends as much again"
    )
    name = f"{out.name[:40]}.{found.id}.qfr"  # a name has at most 255 bytes
    for other in (out.parent / name, Path(name)):
        try:
            _write_release(found, other, signer, force=False)
        except (Error, OSError, MemoryError):
            continue
        raise FileError(
            f"{reason}. The release is made and {stands}; it is kept in {other}: move it where you want it."
        )
    raise FileError(
        f"{reason}. The release was made and {stands}, but it could not be written to {name} either: it is lost."
    )


#: Ends the message of a command that failed after its charge and before anything was measured.
NOTHING_KEPT = (
    "No table was kept, and the same --id gets nothing back: what was paid is spent. Mend what was wrong and run the "
    "command again, which is charged again. "
    "Before that, quietfield inspect reads the whole of a source at no charge, for your eyes alone."
)


@contextmanager
def keep_measured(out: Path, signer: "Ed25519PrivateKey | None", force: bool, paid: bool) -> Iterator[None]:
    """Keep what was measured before work that is paid for failed or was interrupted, as a release of its own."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as stopped:
        if (found := getattr(stopped, "release", None)) is not None:
            keep_release(Release.of(found), out, signer, force, paid)
            typer.echo(f"What was measured until then is kept in {out}; see its notes.", err=True)
        elif isinstance(stopped, Error) and STANDS in str(stopped):
            stopped.args = (f"{stopped} {NOTHING_KEPT}",)
        raise


def _write_release(found: "Release", out: Path, signer: "Ed25519PrivateKey | None", force: bool) -> "Release":
    """A release in a file, as it reads from there: under another name until it is whole."""
    check_writable(out)
    with temporary_neighbour(out) as made:
        found.save(made, signer)
        loaded = type(found).load(made, complete=False)
        put_in_place(made, out, replace=force, time=found.created)
    return loaded
