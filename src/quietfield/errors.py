"""The errors that quietfield raises: every one says what was wrong, what was expected and what to do next."""


class Error(Exception):
    """The base of every error that quietfield raises on purpose."""

    #: What the command ends with, given in the first line of a class; docs/how-to/command-line.md lists them all.
    exit_code = 1

    def __init_subclass__(cls, exit_code: int | None = None) -> None:
        if exit_code is not None:
            cls.exit_code = exit_code


class TooLarge(Error, MemoryError, exit_code=4):
    """Work that would not fit in memory; the message gives its figures and the way out."""


class BudgetExceeded(Error, exit_code=3):
    """A charge that would spend more than the ledger's total. Nothing was charged."""


class PolicyRefused(Error, exit_code=5):
    """What the policy in force does not allow, or a policy that cannot be read. Nothing was charged."""


class RolledBack(Error, exit_code=6):
    """A ledger without a line that was published or anchored: lines were taken off, or an old copy was put back."""


#: Ends every message about work that failed after it was charged.
STANDS = "It was charged before the data were read, and the charge stands."


class Unreadable(Error):
    """An engine failed while it read records; what it said is withheld, since it may quote them."""


class CannotLearn(Error):
    """A release whose numbers allow no model, such as one with more noise than data; another might do."""


class FileError(Error):
    """A file that is missing, truncated, altered, foreign or of another version."""


class Incomplete(FileError, exit_code=7):
    """A release that waits for its second signature."""


# What somebody who reads a file may demand of it (see models/verification.py), with an exit code for each.


class NotSigned(FileError, exit_code=10):
    """A file without a signature, or from which one was taken off, where a trusted one is demanded."""


class OtherSigner(FileError, exit_code=11):
    """A file that is signed, by a key that is not trusted."""


class NoPromise(Error, exit_code=12):
    """Tables that promise no privacy, where a promise is demanded."""


class WeakPromise(Error, exit_code=13):
    """A promise with a larger epsilon or delta than is accepted."""


class NoLedger(Error, exit_code=14):
    """A release that no ledger paid for, where one is demanded."""


class OtherRelease(Error, exit_code=15):
    """A model that was learned from another release than the one it is said to come from."""


class TooFewSignatures(FileError, exit_code=16):
    """A file that fewer trusted keys signed than are demanded."""
