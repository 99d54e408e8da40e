"""Claims of the paper beside what was found here."""

from typing import Literal, NamedTuple

Verdict = Literal["agrees", "partly", "differs", "not run"]


class Claim(NamedTuple):
    """A statement of the paper, what we found in numbers, whether the two agree, and why."""

    statement: str
    found: str
    verdict: Verdict
    why: str = ""


def share(good: int, cells: int) -> str:
    """A count of cells with its percentage."""
    return f"{good} of {cells} cells ({100 * good / cells:.0f}%)" if cells else "no cell was run"


def verdict(good: int, cells: int) -> Verdict:
    """Whether a statement about all cells agrees with what was found: in nearly all, in most, or not.

    >>> verdict(29, 32), verdict(20, 32), verdict(4, 32), verdict(0, 0)
    ('agrees', 'partly', 'differs', 'not run')
    """
    if not cells:
        return "not run"
    return "agrees" if good >= 0.9 * cells else "partly" if 2 * good > cells else "differs"
