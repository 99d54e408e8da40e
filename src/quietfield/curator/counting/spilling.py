"""The folder in which rows may lie while a count gathers each person's: only this user's, and gone afterwards.

A count that is killed cannot tidy up, so the next one does. A lock tells a folder in use from one left behind; unlike
the number of a process, it means the same in every container that shares the temporary folder.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from quietfield.files import TEMPORARY

PREFIX = "quietfield-spill-"
LOCK = "lock"


def note() -> str:
    """What a plan says about the disk where a unit is a person."""
    return (
        f"while each person's rows are gathered, some may be written to {tempfile.gettempdir()} (TMPDIR says where), "
        "encrypted with a key that is never written, in a folder that only you can read; it is removed afterwards, or "
        "by the next count if this one is killed"
    )


@contextmanager
def spill_folder() -> Iterator[Path]:
    """A folder for rows, after those that killed counts of this user left behind were removed."""
    remove_left_behind()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    held = -1
    TEMPORARY.add(folder)
    try:
        made = folder / "new"
        held = os.open(made, os.O_CREAT | os.O_RDWR, 0o600)
        _lock(held)
        made.rename(folder / LOCK)  # a lock that others can see is held already
        yield folder / "rows"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        TEMPORARY.discard(folder)
        if held >= 0:
            os.close(held)


def remove_left_behind() -> None:
    """Remove the folders of this user that no count holds any more."""
    if not hasattr(os, "getuid"):
        return  # without owners and such locks nothing can be told apart
    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).iterdir():
            if re.fullmatch(PREFIX + r"\w+", folder.name):
                with suppress(OSError):  # somebody else's, in use, or gone meanwhile
                    _remove(folder)


def _remove(folder: Path) -> None:
    found = folder.lstat()
    if found.st_uid != os.getuid() or folder.is_symlink() or not folder.is_dir():
        return
    held = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        _lock(held)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(held)


def _lock(file: int) -> None:
    """Take a lock that ends with this process, or fail with OSError if another has it."""
    if os.name == "posix":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
