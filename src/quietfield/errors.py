"""The errors that quietfield raises: every one says what was wrong, what was expected and what to do next."""


class Error(Exception):
    """The base of every error that quietfield raises on purpose."""

    #: What the command ends with; docs/how-to/command-line.md lists them all.
    exit_code = 1


class TooLarge(Error, MemoryError):
    """Work that would not fit in memory; the message gives its figures and the way out."""

    exit_code = 4


class BudgetExceeded(Error):
    """A charge that would spend more than the ledger's total. Nothing was charged."""

    exit_code = 3


class PolicyRefused(Error):
    """What the policy in force does not allow, or a policy that cannot be read. Nothing was charged."""

    exit_code = 5


class RolledBack(Error):
    """A ledger without a line that was published or anchored: lines were taken off, or an old copy was put back."""

    exit_code = 6


#: Ends every message about work that failed after it was charged.
STANDS = "It was charged before the data were read, and the charge stands."


class Unreadable(Error):
    """An engine failed while it read records; what it said is withheld, since it may quote them."""


class CannotLearn(Error):
    """A release whose numbers allow no model, such as one with more noise than data; another might do."""


class FileError(Error):
    """A file that is missing, truncated, altered, foreign or of another version."""


class Incomplete(FileError):
    """A release that waits for its second signature."""

    exit_code = 7


# What somebody who reads a file may demand of it (see models/verification.py), with an exit code for each.


class NotSigned(FileError):
    """A file without a signature, or from which one was taken off, where a trusted one is demanded."""

    exit_code = 10


class OtherSigner(FileError):
    """A file that is signed, by a key that is not trusted."""

    exit_code = 11


class NoPromise(Error):
    """Tables that promise no privacy, where a promise is demanded."""

    exit_code = 12


class WeakPromise(Error):
    """A promise with a larger epsilon or delta than is accepted."""

    exit_code = 13


class NoLedger(Error):
    """A release that no ledger paid for, where one is demanded."""

    exit_code = 14


class OtherRelease(Error):
    """A model that was learned from another release than the one it is said to come from."""

    exit_code = 15


class TooFewSignatures(FileError):
    """A file that fewer trusted keys signed than are demanded."""

    exit_code = 16
