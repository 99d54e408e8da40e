"""The one place where money is spent: whatever reads records is charged first, and what fails afterwards stays charged.

Whether a read fails may depend on a record, which is a bit that could be asked for again and again if it cost nothing.
So :func:`charge_ledger` has the charge on the disk before the work begins, and nothing is ever paid back.
"""

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from quietfield.curator.ledger import Ledger
from quietfield.curator.ledger_file import now
from quietfield.curator.policy import read_policy
from quietfield.errors import STANDS, Error, TooLarge, Unreadable
from quietfield.privacy.units import Unit
from quietfield.releases.parts import Payment, PolicyInForce, ReleaseContent
from quietfield.text import type_name

Result = TypeVar("Result")
TERMS = ("epsilon", "delta", "rho", "threshold", "unit", "neighbours")


@dataclass(frozen=True)
class Price:
    """What is paid: the privacy loss of one result, whom it protects, and the noise that keeps the promise.

    ``threshold`` is the part of ``delta`` that thresholds spend: ``rho`` gives epsilon at the rest of it.
    """

    epsilon: Fraction
    delta: Fraction | None
    rho: Fraction | None
    unit: Unit
    neighbours: str
    noise: str
    signable: bool = False  # whether the result is a release, which can be signed
    threshold: Fraction | None = None

    def check(self, ledger: Ledger | None) -> Fraction | None:
        """What this costs a ledger; an error if the policy in force or the ledger does not allow it."""
        policy = read_policy()
        if policy is not None:
            policy.check(self, ledger)
        return None if ledger is None else ledger.check(**self._terms())

    def _terms(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in TERMS}


@dataclass(frozen=True)
class Receipt:
    """The name and time of a result, from before its records were read, the line that paid, and the policy in force."""

    id: str
    created: str
    payment: Payment | None
    policy: PolicyInForce | None


def open_ledger(ledger: Ledger | str | Path | None) -> Ledger | None:
    """The ledger that is meant: an open one, the path of one, or None for no ledger."""
    if isinstance(ledger, str | Path):
        return Ledger(ledger)
    if ledger is not None and not isinstance(ledger, Ledger):
        raise Error(f"ledger is a path, a Ledger or None, not {type_name(ledger)}.")
    return ledger


def charge_ledger(
    ledger: Ledger | None, price: Price, what: str, work: Callable[[Receipt], Result], id: str | None = None
) -> Result:
    """Ask the policy, charge a ledger, then do some work that may read records.

    Args:
        ledger: Who pays; None pays nothing, and leaves the sum over results to the curator.
        price: What it costs.
        what: What is paid for, in a few public words.
        work: What to do; it is given the receipt, for its result to carry.
        id: The name of the result, 32 hexadecimal digits that were drawn at random before; None draws them now. A
            ledger pays for a name once, so whoever asks again under one name is refused and not charged again.

    Returns:
        What the work returns.

    Raises:
        BudgetExceeded: The ledger does not hold as much. Nothing was charged, and no work was done.
        PolicyRefused: The policy in force does not allow it, likewise.
        Error: The work failed. Where a ledger was charged, the message says that the charge stands, and the message of
            an error that is not ours is withheld, since it may quote a record. An attribute ``release`` of any error,
            or of an interrupt, is what was published before: it is kept.

    >>> import quietfield as qf, tempfile
    >>> ledger = Ledger.create(tempfile.mkdtemp() + "/budget.db", epsilon=1, unit=qf.Rows(1))
    >>> price = Price(Fraction(1, 4), None, None, qf.Rows(1), "add_remove", "laplace")
    >>> charge_ledger(ledger, price, "an example", lambda receipt: receipt.payment.number)
    1
    """
    policy, in_force = read_policy(), None
    if policy is not None:
        policy.check(price, ledger)
        in_force = policy.in_force
    if id is not None and not re.fullmatch("[0-9a-f]{32}", id):
        raise Error("the id of a release is 32 hexadecimal digits, drawn at random: secrets.token_hex(16) gives one.")
    name, created = id or secrets.token_hex(16), now()
    if ledger is None:
        return work(Receipt(name, created, None, in_force))
    failure: BaseException
    published: ReleaseContent | None = None
    try:
        charge = ledger.charge(name, **price._terms(), what=what, time=created)
    except KeyboardInterrupt:
        if not any(charge.release == name for charge in ledger.charges):
            raise
        raise KeyboardInterrupt(STANDS) from None
    try:
        if policy is not None:
            policy.write_anchor(ledger)
        return work(Receipt(name, created, Payment(ledger.id, charge.number, charge.digest), in_force))
    except Error as error:
        failure, published = type(error)(f"{error} {STANDS}"), _published_before(error)
    except KeyboardInterrupt as stopped:
        failure, published = KeyboardInterrupt(STANDS), _published_before(stopped)
    except MemoryError as error:
        failure = TooLarge(f"the work ran out of memory; use fewer or smaller cliques. {STANDS}")
        published = _published_before(error)
    except Exception as error:  # noqa: BLE001  # whatever it is, it may quote a record
        failure = Unreadable(
            f"the work failed ({type(error).__name__}). What was said about it is not shown, since it may quote "
            f"records. {STANDS}"
        )
        published = _published_before(error)
    if published is not None:
        failure.release = published  # type: ignore[union-attr]
    raise failure  # outside of the handlers: one that is raised within carries the other error along as its context


def _published_before(error: BaseException) -> ReleaseContent | None:
    """What steps had published when an error ended them. Nothing else that an error carries goes on."""
    published = getattr(error, "release", None)
    return published if isinstance(published, ReleaseContent) else None
