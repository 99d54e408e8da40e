"""The ledger: what one data set may cost in all, and what has been spent of it.

A ledger is an SQLite file with a total, in exact rationals. Every release is charged *before* its noise is drawn, and
nothing is ever paid back: a crash after the charge costs budget, never privacy. A charge is one transaction that is on
the disk before it returns.

Triggers and a chain of digests guard against accidents and careless edits, not against whoever may write the file: the
last lines can be taken out so that the file alone does not show it. Each release carries the number and digest of its
line, and :meth:`Ledger.missing` finds those whose line is gone; anchors (``anchors.py``) serve where there is none yet.

Some mechanisms are zCDP but for a small probability: a *threshold* below which labels are not published fails with it.
They are delta-approximate zCDP (Bun and Steinke 2016, section 8), whose rhos add up, and whose deltas add up too. Such
a charge names the delta that its thresholds spend, and all charges together must satisfy
``sum of rho <= zcdp_rho(epsilon, delta - sum of thresholds)``: then all that was paid for is (epsilon, delta)-DP.

What it cannot know by itself: a second ledger for the same data, a copy of this one that was put back, a release made
without it.
"""

import json
import secrets
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, get_args

from quietfield.curator.ledger_file import Charge as Charge
from quietfield.curator.ledger_file import (
    add_costs,
    add_thresholds,
    create_file,
    damaged_error,
    digest,
    is_intact,
    now,
    open_connection,
    read_charges,
    read_version,
)
from quietfield.errors import BudgetExceeded, Error, FileError, RolledBack
from quietfield.files import TIME_FORMAT, canonical_json
from quietfield.privacy import accounting
from quietfield.privacy.units import Neighbours, protected_part, unit_from_json, unit_json
from quietfield.releases.parts import Payment

Accounting = Literal["pure", "zcdp"]
#: What is found about the line of a ledger that a release or an anchor names.
Place = Literal["here", "rolled back", "forked", "another ledger", "no ledger"]
PLACES: dict[Place, str] = {
    "here": "its charge is here",
    "rolled back": "ITS CHARGE IS MISSING: lines were taken off the end of the ledger, or an old copy was put back; "
    "count it as spent",
    "forked": "ITS CHARGE IS MISSING: another one has its place, so the ledger was altered, or an old copy was put "
    "back and charged anew; count it as spent",
    "another ledger": "charged to another ledger",
    "no ledger": "charged to no ledger",
}
#: Costs with a larger denominator are rounded up to 30 decimal places.
MOST_DENOMINATOR = 1000
#: The most characters of a name or a description in a ledger.
MOST_CHARACTERS = 1000


Paid = TypeVar("Paid", bound="_Paid")


class _Paid(Protocol):
    """What carries its payment."""

    @property
    def id(self) -> str: ...
    @property
    def ledger(self) -> Payment | None: ...


class Ledger:
    """An open ledger file. Make one with :meth:`create`; a path will do wherever a ledger is asked for.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "budget.db")
    >>> ledger = Ledger.create(path, epsilon=1, unit={"kind": "rows", "rows": 1})
    >>> charge = ledger.charge("r1", epsilon=0.25, unit={"kind": "rows", "rows": 1}, neighbours="add_remove")
    >>> ledger.remaining
    Fraction(3, 4)
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise FileError(
                f"there is no ledger at {self.path}; make one with: quietfield ledger create {self.path} "
                "--epsilon TOTAL --unit rows:1, and --delta 1e-6 where labels are discovered or noise is Gaussian."
            )
        with open_connection(self.path) as connection:
            self.version = read_version(connection)
            if not is_intact(connection):
                raise damaged_error(self.path)
            account = connection.execute("SELECT * FROM account").fetchone()
            if account is None or connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise damaged_error(self.path)
            row = dict(account)
            try:
                self.id, self.created, self.name = row["id"], row["created"], row["name"]
                self.unit: dict[str, Any] = json.loads(row["unit"])
                self.protects, self.neighbours, self.accounting = row["protects"], row["neighbours"], row["accounting"]
                self.total = accounting.parse_rational(row["total"], "the total")
                self.epsilon = None if row["epsilon"] is None else accounting.parse_rational(row["epsilon"], "epsilon")
                self.delta = None if row["delta"] is None else accounting.parse_rational(row["delta"], "delta")
            except (FileError, ValueError, KeyError, IndexError, TypeError):
                raise damaged_error(self.path) from None
            self._account = row["digest"]
            if self._account != digest("", row):
                raise damaged_error(self.path)
            self._read(connection)

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        epsilon: accounting.Number | None = None,
        delta: accounting.Number | None = None,
        rho: accounting.Number | None = None,
        unit: Any,
        neighbours: str = "add_remove",
        accounting_by: Accounting | None = None,
        name: str = "",
    ) -> "Ledger":
        """Make a ledger; what it protects and how it counts never changes afterwards.

        A pure ledger takes ``epsilon``. A zCDP ledger takes ``epsilon`` and ``delta``, or ``rho`` and ``delta``;
        pure releases cost epsilon^2/2 there, Gaussian releases their rho.

        Args:
            path: The file to make. One that is there is never overwritten.
            epsilon: The budget of a pure ledger, or of a zCDP ledger at ``delta``.
            delta: The delta of a zCDP ledger.
            rho: The budget of a zCDP ledger, in place of ``epsilon``.
            unit: Whom it protects: ``Rows(k)``, ``Person(column, ...)``, or the JSON of one.
            neighbours: ``"add_remove"``, ``"replace"`` or ``"paper"``, as in :func:`quietfield.release`.
            accounting_by: ``"pure"``, which adds up epsilon, or ``"zcdp"``, which adds up rho. By default ``"zcdp"``
                with ``delta`` or ``rho``, else ``"pure"``.
            name: What people call it.

        Returns:
            The ledger, open.

        Raises:
            FileError: The file is there already or cannot be written.
            Error: Budget and accounting do not go together, or the unit or neighbours are not known.
        """
        target = Path(path)
        promised = None if epsilon is None else accounting.to_rational(epsilon, "epsilon")
        chance = None if delta is None else accounting.to_probability(delta)
        if accounting_by is None:
            accounting_by = "pure" if chance is None and rho is None else "zcdp"
        if accounting_by == "pure":
            if promised is None or chance is not None or rho is not None:
                raise Error(
                    "a pure ledger has a total epsilon, and neither delta nor rho; those go with zcdp accounting."
                )
            total = promised
        elif accounting_by == "zcdp":
            if chance is None or (promised is None) == (rho is None):
                raise Error("a zCDP ledger has a delta and a total, written either as epsilon or as rho.")
            if promised is not None:
                total = accounting.zcdp_rho(promised, chance)
            else:
                total = accounting.to_rational(rho, "rho")  # type: ignore[arg-type]  # one of the two is given
        else:
            raise Error(f"a ledger counts by 'pure' or 'zcdp', not {accounting_by!r}.")
        if neighbours not in get_args(Neighbours):
            raise Error(f"neighbours are one of {', '.join(get_args(Neighbours))}, not {neighbours!r}.")
        row = {
            "one": 1,
            "id": secrets.token_hex(16),
            "created": now(),
            "name": _check_text(name, "the name of a ledger"),
            "unit": canonical_json(unit_json(unit)).decode(),
            "protects": unit_from_json(unit_json(unit)).who,
            "neighbours": neighbours,
            "accounting": accounting_by,
            "epsilon": None if promised is None else str(promised),
            "delta": None if chance is None else str(chance),
            "total": str(total),
        }
        create_file(target, row)
        return cls(target)

    @property
    def charges(self) -> tuple[Charge, ...]:
        """All charges, in order, read from the file."""
        with open_connection(self.path) as connection:
            return tuple(self._read(connection)[0])

    @property
    def spent(self) -> Fraction:
        """What has been spent: epsilon, or rho in a zCDP ledger."""
        return add_costs(self.charges)

    @property
    def thresholds(self) -> Fraction:
        """The part of delta that thresholds have spent."""
        return add_thresholds(self.charges)

    @property
    def limit(self) -> Fraction:
        """What may be spent in all: the total, or the rho that is left of it by what thresholds took of delta."""
        return self.limit_with(self.thresholds)

    @property
    def remaining(self) -> Fraction:
        """What can still be spent: epsilon, or rho in a zCDP ledger."""
        return self.remaining_after(self.charges)

    def remaining_after(self, charges: Sequence[Charge]) -> Fraction:
        """What could be spent after some of the charges, the first ones of this ledger.

        Args:
            charges: The charges up to one of them.

        Returns:
            Epsilon, or rho in a zCDP ledger.
        """
        return self.limit_with(add_thresholds(charges)) - add_costs(charges)

    def cost(
        self,
        epsilon: accounting.Number,
        delta: accounting.Number | None = None,
        rho: accounting.Number | None = None,
    ) -> Fraction:
        """What a release costs here: its epsilon, or in a zCDP ledger its rho (epsilon^2/2 if it is pure).

        Decimals of up to 30 places and fractions with a denominator of up to 1,000 are exact; others are rounded up.

        Args:
            epsilon: The epsilon of the release.
            delta: Its delta, if its noise is Gaussian.
            rho: Its rho, if its noise is Gaussian.

        Returns:
            The cost, in epsilon or rho.

        Raises:
            Error: The numbers do not go together, or a pure ledger is to pay for Gaussian noise.
        """
        asked = accounting.to_rational(epsilon, "epsilon")
        if (delta is None) != (rho is None):
            raise Error("a release with a delta is charged by its rho; give both or neither.")
        # A rho that was computed may have more digits than a person would write.
        paid = rho if rho is None or isinstance(rho, Fraction) else accounting.to_rational(rho, "rho")
        if paid is not None and not 0 < paid <= accounting.LARGEST:
            raise Error("rho must be greater than 0 and of usual size; give the rho of the noise that is drawn.")
        if self.accounting == "pure":
            if rho is not None:
                raise Error(
                    "this ledger counts pure epsilon and cannot pay for Gaussian noise; use laplace noise, "
                    "or a ledger with zcdp accounting from the start."
                )
            return _round_cost(asked)
        return _round_cost(paid if paid is not None else asked * asked / 2)

    def check(
        self,
        *,
        epsilon: accounting.Number,
        delta: accounting.Number | None = None,
        rho: accounting.Number | None = None,
        threshold: accounting.Number | None = None,
        unit: Any,
        neighbours: str,
    ) -> Fraction:
        """The cost of a release, or an error if it does not match this ledger or is more than remains.

        Args:
            epsilon: The epsilon of the release.
            delta: Its delta, if its noise is Gaussian.
            rho: Its rho, if its noise is Gaussian.
            threshold: The part of its delta that thresholds spend.
            unit: Whom it protects.
            neighbours: Its neighbours.

        Returns:
            The cost, as :meth:`cost` gives it.

        Raises:
            BudgetExceeded: It costs more than remains.
            Error: The ledger is for another unit or other neighbours, or cannot pay for such noise.
        """
        self._match(unit, neighbours)
        taken, cost = self._check_threshold(threshold, delta), self.cost(epsilon, delta, rho)
        self._afford(cost, taken, self.charges, epsilon)
        return cost

    def charge(
        self,
        release: str,
        *,
        epsilon: accounting.Number,
        delta: accounting.Number | None = None,
        rho: accounting.Number | None = None,
        threshold: accounting.Number | None = None,
        unit: Any,
        neighbours: str,
        what: str = "",
        time: str | None = None,
    ) -> Charge:
        """Pay for one release. When this returns, the charge is on the disk; when it raises, nothing was charged.

        An error while the charge is being written may leave it paid: that errs on the side of privacy.

        Args:
            release: The id of the release, which no earlier charge has.
            epsilon: Its epsilon.
            delta: Its delta, if its noise is Gaussian.
            rho: Its rho, if its noise is Gaussian.
            threshold: The part of its delta that thresholds spend; its rho then gives its epsilon at the rest of delta.
            unit: Whom it protects.
            neighbours: Its neighbours.
            what: What is paid for, in words.
            time: When, in UTC, such as 2030-01-31T12:00:00Z; None means now.

        Returns:
            The charge: its number, its cost and the digest of its line.

        Raises:
            BudgetExceeded: It costs more than remains.
            FileError: The file is damaged, or cannot be written.
            Error: It does not match this ledger, or was charged before.
        """
        self._match(unit, neighbours)
        taken, cost = self._check_threshold(threshold, delta), self.cost(epsilon, delta, rho)
        if time is not None and not _is_time(time):
            raise Error(f"the time of a charge is in UTC, such as 2030-01-31T12:00:00Z, not {time!r:.60}.")
        row: dict[str, Any] = {
            "release": _check_text(release, "the name of a release", least=1),
            "time": time if time is not None else now(),
            "epsilon": str(accounting.to_rational(epsilon, "epsilon")),
            "delta": None if delta is None else str(accounting.to_probability(delta)),
            "cost": str(cost),
            "what": _check_text(what, "what is paid for"),
        }
        if self.version > 1:
            row["threshold"] = None if taken is None else str(taken)
        with open_connection(self.path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                charges, last = self._read(connection)
                if any(charge.release == release for charge in charges):  # first: "ask for less" would mislead
                    raise Error(
                        "this release was already charged, and is not charged again: look for the file that was made "
                        "then, or ask for a new release under a new id."
                    )
                self._afford(cost, taken, charges, epsilon)
                row["number"] = len(charges) + 1
                row["digest"] = digest(last, row)
                marks = ", ".join(f":{key}" for key in row)
                connection.execute(f"INSERT INTO charges ({', '.join(row)}) VALUES ({marks})", row)
                # Whatever could not be read later would close the ledger for good: it is rolled back.
                try:
                    (charge,) = read_charges(connection, self.path, last, len(charges))
                except FileError:
                    raise Error("this charge cannot be read back as written, so it was not made; report it.") from None
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        return charge

    @property
    def head(self) -> Payment:
        """Where the ledger ends now: its last line and the digest of all lines, for an anchor outside of it."""
        charges = self.charges
        return Payment(self.id, len(charges), charges[-1].digest if charges else self._account)

    def place(self, result: "_Paid", charges: Sequence[Charge] | None = None) -> Place:
        """Where the charge of a result stands, or what happened to it; see :data:`Place`.

        A result is whatever carries its payment: a release, a score, a model learned by PSGD, an anchor.

        Args:
            result: What was paid for.
            charges: The charges of this ledger, where they are at hand; None reads them.

        Returns:
            A key of :data:`PLACES`.
        """
        paid = result.ledger
        if paid is None:
            return "no ledger"
        if paid.id != self.id:
            return "another ledger"
        lines = self.charges if charges is None else charges
        if paid.number > len(lines):
            return "rolled back"
        line = lines[paid.number - 1] if paid.number > 0 else None
        same = paid.digest == (line.digest if line else self._account) and paid.number >= 0
        return "here" if same and result.id in ("", line.release if line else "") else "forked"

    def missing(self, results: "Iterable[Paid]") -> "tuple[Paid, ...]":
        """Of some results (see :meth:`place`), those that were charged here and whose line is gone or is another.

        Args:
            results: What was paid for.

        Returns:
            Those of the results, in their order.
        """
        charges = self.charges
        return tuple(one for one in results if self.place(one, charges) in ("rolled back", "forked"))

    def check_against(self, results: "Mapping[str, _Paid]") -> None:
        """Refuse to charge a ledger that is not the one that results or anchors were charged to.

        Args:
            results: Releases, scores, models of PSGD or anchors, each of which names a line (see :meth:`place`), by
                what people call them, such as the path of a file.

        Raises:
            RolledBack: A line is gone or is another one now, or is of another ledger or of none.
        """
        charges = self.charges
        for name, one in results.items():
            if (place := self.place(one, charges)) != "here":
                raise RolledBack(f"{name}, held against the ledger {self.path}: {PLACES[place]}. Nothing was charged.")

    def _match(self, unit: Any, neighbours: str) -> None:
        ours, theirs = unit_from_json(self.unit), unit_from_json(unit_json(unit))
        if protected_part(ours) != protected_part(theirs):
            raise Error(
                f"this ledger protects {ours.who}, and the release {theirs.who}; costs of different units do not add "
                "up. Use the same unit, or another ledger."
            )
        if neighbours != self.neighbours:
            raise Error(
                f"this ledger counts {self.neighbours} neighbours and the release {neighbours}; costs do not add up. "
                "Use the same neighbours, or another ledger."
            )

    @property
    def promised_epsilon(self) -> Fraction:
        """The epsilon that a zCDP ledger keeps to at its delta, whatever is charged to it."""
        assert self.delta is not None
        return self.epsilon if self.epsilon is not None else accounting.zcdp_epsilon(self.total, self.delta)

    def limit_with(self, thresholds: Fraction) -> Fraction:
        """What may be spent in all, if thresholds take so much of delta.

        Args:
            thresholds: What all thresholds together spend of delta.

        Returns:
            Epsilon, or rho in a zCDP ledger; 0 where thresholds leave nothing.
        """
        if not thresholds:
            return self.total
        if self.delta is None or thresholds >= self.delta:
            return Fraction(0)
        try:
            return min(self.total, accounting.zcdp_rho(self.promised_epsilon, self.delta - thresholds))
        except Error:  # no rho is small enough
            return Fraction(0)

    def _check_threshold(self, threshold: accounting.Number | None, delta: accounting.Number | None) -> Fraction | None:
        """The part of delta that thresholds spend, as it is charged: rounded up if it is long."""
        if threshold is None:
            return None
        taken = accounting.to_probability(threshold, "the delta of thresholds")
        if delta is None or taken > accounting.to_probability(delta):
            raise Error("what thresholds spend is a part of delta; give a delta that is at least as large.")
        if self.accounting == "pure":
            raise Error(
                "this ledger counts pure epsilon and cannot pay for a threshold, which fails with a probability of "
                "delta; name all labels beforehand, or use a ledger that was made with a delta."
            )
        if self.version < 2:
            raise Error(
                "this ledger was made by an earlier quietfield and has no place for what thresholds spend of delta; "
                "name all labels beforehand. A new ledger may pay only if its total and what is spent here are "
                "together what the data may cost."
            )
        return _round_cost(taken)

    def _afford(self, cost: Fraction, threshold: Fraction | None, charges: Sequence[Charge], epsilon: Any) -> None:
        spent, taken = add_costs(charges), add_thresholds(charges)
        limit, show = self.limit_with(taken + (threshold or 0)), accounting.format_number
        if spent + cost > limit:
            what = "epsilon" if self.accounting == "pure" else "rho"
            asked = "" if what == "epsilon" else f" (epsilon {show(accounting.to_rational(epsilon, 'epsilon'))})"
            now_left = self.limit_with(taken) - spent
            lowered = (
                ""
                if threshold is None
                else f" The thresholds of this would take {show(threshold)} of delta {show(self.delta)}, which leaves "
                f"{what} {show(limit)} in all, {show(spent)} of it spent."
            )
            raise BudgetExceeded(
                f"the budget does not allow this: {what} {show(cost)}{asked} is asked for, {show(spent)} of "
                f"{show(self.limit_with(taken))} is spent and {show(now_left)} remains.{lowered} Nothing was charged; "
                "ask for less."
            )

    def _read(self, connection: sqlite3.Connection) -> tuple[list[Charge], str]:
        """All charges and the last digest, with the triggers and the chain of digests checked."""
        if not is_intact(connection):
            raise damaged_error(self.path)
        charges = read_charges(connection, self.path, self._account)
        return charges, charges[-1].digest if charges else self._account


def _round_cost(cost: Fraction) -> Fraction:
    """A cost as it is, or rounded up where sums of such costs would grow longer with each: what was spent is printed.

    The sum of any number of costs has a denominator that divides 10^30 times the least common multiple of 1 to 1,000,
    which has 433 digits.
    """
    return cost if cost.denominator <= MOST_DENOMINATOR else accounting.round_up_decimal(cost)


def _is_time(text: object) -> bool:
    """Whether a text is a time as ledgers write it, of a day that exists."""
    try:
        return isinstance(text, str) and datetime.strptime(text, TIME_FORMAT).strftime(TIME_FORMAT) == text
    except ValueError:
        return False


def _check_text(value: Any, what: str, least: int = 0) -> str:
    """A text that a ledger takes and gives back as it is."""
    if not isinstance(value, str) or not least <= len(value) <= MOST_CHARACTERS:
        raise Error(f"{what} is a text of {least} to {MOST_CHARACTERS:,} characters, not {value!r:.60}.")
    canonical_json(value)  # half a surrogate pair, say, has no bytes
    return value
