"""What a ledger says of itself: what is spent, what remains, and what all of it promises, in words."""

from fractions import Fraction

from quietfield.curator.ledger import Ledger
from quietfield.curator.ledger_file import add_costs, add_thresholds
from quietfield.privacy import accounting, promises

#: What a ledger's total is for, as the subject of a sentence.
SUBJECT = "all that this total pays for"


def describe_ledger(ledger: Ledger) -> str:
    """What the figures of a ledger mean, in words.

    Args:
        ledger: The ledger.

    Returns:
        Sentences, one per line.
    """
    charges, show = ledger.charges, accounting.format_number
    spent, taken = add_costs(charges), add_thresholds(charges)
    limit = ledger.limit_with(taken)
    what = "epsilon" if ledger.accounting == "pure" else "rho"
    figures = f"{what} {show(spent)} of {show(limit)} is spent, {show(limit - spent)} remains"
    most, rho, later = ledger.total, None, []
    if ledger.delta is not None:
        epsilon = accounting.zcdp_epsilon(spent, ledger.delta - taken) if spent else Fraction(0)
        most = ledger.promised_epsilon
        figures += f"; that is epsilon {show(epsilon)} of {show(most)} at delta {show(ledger.delta)}"
        if taken:
            figures += (
                f", of which thresholds have spent {promises.format_above(taken)} (without them rho "
                f"{show(ledger.total)} could be spent)"
            )
        else:  # what is zCDP but for a threshold is so for one unit, and for more of them it is (epsilon, delta)
            rho = ledger.total
            later = [
                "Should it pay for thresholds, below which discovered labels are not published, less is promised "
                "to two of them or more than is said here."
            ] * (ledger.version > 1)
    return "\n".join(
        [
            f"{figures}.",
            f"It protects: {ledger.protects}",
            promises.describe_promise(most, ledger.delta, rho, ledger.neighbours, SUBJECT),
            promises.describe_groups(ledger.unit, most, ledger.delta, rho, ledger.neighbours),
            *later,
            "It cannot know of a second ledger for the same data, of a copy of this one that was put back, "
            "of lines taken off its end (--against finds releases and anchors whose line is gone), "
            "or of releases made without it.",
        ]
    )


def describe_remaining(ledger: Ledger, cost: Fraction, threshold: Fraction | None = None) -> str:
    """What would remain after a release of this cost, in words."""
    charges, show = ledger.charges, accounting.format_number
    spent, taken = add_costs(charges) + cost, add_thresholds(charges) + (threshold or 0)
    limit = ledger.limit_with(taken)
    what = "epsilon" if ledger.accounting == "pure" else "rho"
    said = f"after this, {what} {show(limit - spent)} of {show(limit)} would remain"
    if threshold:  # the whole is smaller than a ledger's page says that it is before
        said += f" (of {show(ledger.limit)}; thresholds take a part of delta, which costs the rest)"
    if ledger.delta is not None:
        epsilon = accounting.zcdp_epsilon(spent, ledger.delta - taken)
        said += f", and epsilon {show(epsilon)} at delta {show(ledger.delta)} would be spent"
    return said
