"""Claims of the paper beside what was found here, and the one rule by which they are judged."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

Verdict = Literal["agrees", "partly", "differs", "not run"]

#: The rule, in words, as the page prints it.
RULE = """A statement is judged by its *cells*: combinations of structure, number of values, N and epsilon (or what the
row names). We compare two methods on the releases both were run on. In a cell we average over releases, then
populations, then true models; the cell is *good* if the first method's average is better. A statement **agrees** if at
least 90% of its cells are good, is **partly** so if more than half are, and **differs** otherwise.
Where the paper itself says "most", more than half is enough to agree, and where it says "some", one cell is. What is no
comparison of two methods names the bound that it is held to. Words of strength ("much", "very") are not judged, which
favours the paper. The table that opens the page has the paper's statements
that trials can check. Further down, (paper) marks one reading of such a statement, or the paper's methods side by side;
(ours) our default, our exact EM or other software; (check) what else we looked at.
Where the paper leaves a choice open (the size of lambda, above all) each reading that ran in every cell is judged, and
a statement that fares differently under different readings is **partly** so. Beside the means, *clearly* counts cells
whose difference exceeds its 95% interval: Student's t over true models where there are several, and otherwise over
populations of the one there is, which says nothing of other models. A fit that broke down counts with the result of a
model that knows nothing."""


#: How statements about the paper's own methods begin, and those about ours that say so in no other way.
PAPERS = ("CGM", "naive MLE", "PSGD", "with projection")
OURS = ("exact EM", "quietfield")


class Claim(NamedTuple):
    """A statement of the paper, what we found in numbers, whether the two agree, and why.

    ``table`` is the heading under which it is told. ``lead`` says that it stands in the table that opens the page: one
    row a statement of the paper, with what was found and the reason in short, ``brief`` and ``reason``.
    """

    statement: str
    found: str
    verdict: Verdict
    why: str = ""
    table: str = ""
    lead: bool = False
    brief: str = ""
    reason: str = ""


def marked(claim: Claim) -> str:
    """The statement with a mark that says whose it is; statements of the paper as such have none.

    >>> marked(Claim("exact EM below naive MLE", "", "agrees")), marked(Claim("CGM below naive MLE", "", "agrees"))
    ('(ours) exact EM below naive MLE', '(paper) CGM below naive MLE')
    """
    if claim.lead or not claim.statement.startswith((*PAPERS, *OURS)):
        return claim.statement
    whose = "paper" if claim.statement.startswith(PAPERS) else "ours"
    return f"({whose}) {claim.statement.replace(' (ours)', '')}"


def share(good: int, cells: int) -> str:
    """A count of cells with its percentage."""
    return f"{good} of {cells} cells ({100 * good / cells:.0f}%)" if cells else "no cell was run"


def verdict(good: int, cells: int, *, most: bool = False) -> Verdict:
    """Whether a statement about all cells agrees with what was found: in nearly all, in most, or not.

    ``most`` marks a statement that the paper makes of most cells only: more than half is then all it says.

    >>> verdict(29, 32), verdict(20, 32), verdict(4, 32), verdict(0, 0)
    ('agrees', 'partly', 'differs', 'not run')
    >>> verdict(20, 32, most=True), verdict(16, 32, most=True)
    ('agrees', 'differs')
    """
    if not cells:
        return "not run"
    if most:
        return "agrees" if 2 * good > cells else "differs"
    return "agrees" if good >= 0.9 * cells else "partly" if 2 * good > cells else "differs"


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a statement from those under each of its readings.

    >>> together(["agrees", "agrees"]), together(["agrees", "differs"]), together(["not run"])
    ('agrees', 'partly', 'not run')
    """
    ran = {one for one in verdicts if one != "not run"}
    return ran.pop() if len(ran) == 1 else "partly" if ran else "not run"


def in_short(readings: Iterable[Claim], name: Callable[[Claim], str] = lambda claim: claim.statement) -> str:
    """The count of good cells of each reading.

    >>> in_short([Claim("CGM", "above in 3 of 4 cells, clearly in 2", "partly"), Claim("PSGD", "2 of 4", "differs")])
    '3 of 4 (CGM), 2 of 4 (PSGD)'
    """
    counts = {name(claim): re.search(r"\d+ of \d+", claim.found) for claim in readings}
    return ", ".join(f"{count[0]} ({words})" for words, count in counts.items() if count)


def lead_claim(
    statement: str,
    readings: Sequence[Claim],
    why: str,
    table: str,
    name: Callable[[Claim], str] = lambda claim: claim.statement,
    end: str = ";",
    *,
    brief: str = "",
    reason: str = "",
) -> Claim:
    """A statement of the paper from the claims under each of its readings: their names, and what they found up to end.

    >>> lead_claim("below", [Claim("below at 1", "3 of 3 cells (100%); clearly", "agrees")], "", "Figure").found
    'below at 1: 3 of 3 cells (100%)'
    """
    told = "; ".join(f"{name(claim)}: {claim.found.partition(end)[0]}" for claim in readings)
    judged = together(claim.verdict for claim in readings)
    return Claim(statement, told, judged, why, table, lead=True, brief=brief or in_short(readings, name), reason=reason)
