"""Checks on a release: do its parts fit together, does its noise keep its promise, is that what a reader demands?

Plain Python, without OpenDP.
"""

from collections.abc import Iterable
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from quietfield.domain import Domain
from quietfield.errors import Error, FileError, NoLedger, NoPromise, OtherRelease, WeakPromise, names
from quietfield.files import TIME_FORMAT
from quietfield.privacy import accounting, units

if TYPE_CHECKING:
    from quietfield.models.model import Model
    from quietfield.releases.release import Release

PAPER_NOTE = "paper mode: not a differential privacy guarantee for N"
#: Which data sets are hard to tell apart, in words.
NEIGHBOURS = {
    "add_remove": "add_remove (data sets with and without one unit)",
    "replace": "replace (data sets in which one unit is another; how many there are is public)",
    "paper": "paper (as published: with and without one unit, although the exact total is told)",
}


def check_parts(release: "Release") -> None:
    """Refuse a release whose parts do not fit together."""
    import numpy as np

    release.structure.check(release.domain)
    groups = release.structure.groups
    if tuple(part.cliques for part in release.parts) != groups:
        there = {part.cliques for part in release.parts}
        missing = [group[0] for group in groups if group not in there]
        what = f"the table of {names(missing)} is missing" if missing else "there are tables that no clique asks for"
        raise FileError(f"this release does not fit together: {what}; expected one table a clique or tie, in order.")
    if not groups:
        raise Error("a release needs at least one table; name at least one clique.")
    if type(release.denominator) is not int or not 1 <= release.denominator <= 2**40:
        raise FileError(f"the denominator of a release is an integer from 1 to 2**40, not {release.denominator!r}.")
    for part in release.parts:
        expected = release.domain.table_shape(part.cliques[0])
        if part.values.shape != expected:
            raise FileError(f"the table of {part.cliques[0]} has shape {part.values.shape}; expected {expected}.")
        if part.values.dtype not in (np.int64, np.float64):
            raise FileError(
                f"the table of {part.cliques[0]} holds {part.values.dtype}; expected 64-bit integers or floats."
            )
        if part.values.dtype == np.float64 and not np.isfinite(part.values).all():
            raise FileError(f"the table of {part.cliques[0]} holds a value that is not a finite number.")
        if release.claim is not None and (part.values.dtype != np.int64 or part.l1 is None or part.l2_squared is None):
            raise FileError(
                f"the table of {part.cliques[0]} must hold integers and its sensitivity for a promise to be made."
            )
        cell = part.excluded
        if cell is not None and (
            len(cell) != len(expected) or not all(0 <= i < n for i, n in zip(cell, expected, strict=True))
        ):
            raise FileError(f"the table of {part.cliques[0]} leaves out the cell {cell}, which it does not have.")
        part.values.flags.writeable = False
    if release.total_part is not None and not np.isfinite(release.total_part.value):
        raise FileError("the total is not a finite number.")
    if release.claim is not None and release.claim.neighbours not in NEIGHBOURS:
        raise FileError(f"neighbours are {names(NEIGHBOURS)}, not {release.claim.neighbours!r}.")
    if release.claim is not None and release.total_part is not None and type(release.total_part.value) is not int:
        raise FileError("the total must be a whole number of steps for a promise to be made.")
    if release.created:
        try:
            datetime.strptime(release.created, TIME_FORMAT)
        except ValueError:
            raise FileError(
                f"the time of a release is written as 2024-05-01T12:00:00Z, not {release.created!r:.60}."
            ) from None
    paper = release.claim is not None and release.claim.neighbours == "paper"
    if (PAPER_NOTE in release.notes) != paper:
        raise FileError("the notes and the neighbours of this release disagree on whether it is in paper mode.")


def check_claim(release: "Release") -> tuple[str, ...]:
    """Recompute sensitivity and promise from structure, unit, neighbours and noise: findings in words, or an error."""
    claim, total = release.claim, release.total_part
    if claim is None:
        raise Error("there is no promise to check: these tables were noised elsewhere.")
    noisy = [(part.noise, part.l1, part.l2_squared) for part in release.parts]
    if total is not None and total.noise is not None:
        noisy.append((total.noise, total.l1, None if total.l1 is None else total.l1**2))
    elif total is not None and claim.neighbours == "add_remove":
        raise FileError("the promise does not hold: an exact total is published, which add_remove neighbours forbid.")
    check_sensitivity(release)
    noises = [noise for noise, _, _ in noisy]
    l1s = [l1 for _, l1, _ in noisy if l1 is not None]
    l2s = [l2 for _, _, l2 in noisy if l2 is not None]
    if len(l1s) < len(noisy) or len(l2s) < len(noisy):
        raise FileError("the promise cannot be checked: a table or the total has no sensitivity.")
    if any(noise.step != Fraction(1, release.denominator) for noise in noises):
        raise FileError("the promise does not hold: its noise is not on the grid of its tables.")
    kinds, scales = {noise.kind for noise in noises}, [noise.exact for noise in noises]
    if kinds == {"laplace"} and claim.delta is None:
        spent = accounting.laplace_epsilon(l1s, claim.l1, scales)
    elif kinds == {"gaussian"} and claim.delta is not None:
        rho = accounting.gaussian_rho(l2s, claim.l2_squared, scales)
        if claim.rho is None or rho > claim.rho:
            raise FileError("the promise does not hold: the noise costs more rho than the manifest says.")
        spent = accounting.zcdp_epsilon(rho, claim.delta)
    else:
        raise FileError("the promise does not hold: pure epsilon needs Laplace noise, and delta Gaussian.")
    if spent > claim.epsilon:
        raise FileError(
            f"the promise does not hold: the noise costs epsilon {accounting.shown(spent, 17)}, "
            f"and {accounting.shown(claim.epsilon, 17)} is promised."
        )
    at = "" if claim.delta is None else f" at delta {accounting.shown(claim.delta, 10)}"
    promised = accounting.shown(claim.epsilon, 10)
    return (
        f"the noise costs epsilon {accounting.shown(spent, 10)}{at}, and {promised} is promised",
        f"the sensitivity is {accounting.shown(claim.l1)} (L1), its square {accounting.shown(claim.l2_squared)} (L2)",
        "the sensitivity stated is that of the unit, the structure and the neighbours",
    )


def check_sensitivity(release: "Release") -> None:
    """Refuse a release that states another sensitivity than follows from unit, structure and neighbours."""
    claim, total = release.claim, release.total_part
    assert claim is not None
    noisy = total is not None and total.noise is not None
    unit = units.from_json(claim.unit)
    found = units.statistics(release.structure, release.domain, unit, claim.neighbours, noisy)  # type: ignore[arg-type]
    stated = [(part.l1, part.l2_squared, part.excluded) for part in release.parts]
    holds = (
        stated == [(table.l1, table.l2_squared, table.excluded) for table in found.tables]
        and (claim.l1, claim.l2_squared) == (found.l1, found.l2_squared)
        and release.denominator == found.denominator
        and noisy == found.total
        and (not noisy or (total is not None and total.l1 == found.total_l1))
        and (total is None or noisy or found.known_total)
        and claim.protects in (unit.describe(), unit.describe(lines=True))
    )
    if not holds:
        raise FileError("the promise does not hold: the sensitivity stated is not that of this unit and structure.")


def verify(
    file: "Release | Model | str | Path",
    *,
    trust: "str | Path | Iterable[str | Path] | None" = None,
    max_epsilon: accounting.Number | None = None,
    max_delta: accounting.Number | None = None,
    require_promise: bool | None = None,
    require_ledger: bool = False,
    release: "Release | str | Path | None" = None,
) -> tuple[str, ...]:
    """Check a release, or a model and the release that it was learned from, and what a reader demands of it.

    Whoever names keys to trust wants to rely on what they signed, and a signature alone says nothing of privacy: exact
    tables can be signed too. So ``trust`` demands a promise as well, unless ``require_promise=False`` is said. Where a
    promise is demanded, an epsilon above 20 or a delta above 1e-4, of which a curator is warned, is refused unless
    ``max_epsilon`` or ``max_delta`` allow it. The paper's setting is no promise.

    Args:
        file: A release or a model, or the path of one.
        trust: Public key files, of which one must have signed it (and the release of a model).
        max_epsilon: The largest epsilon that is accepted. It demands a promise.
        max_delta: The largest delta that is accepted; 0 takes pure differential privacy alone. It demands a promise.
        require_promise: Whether a promise is demanded; None demands one if any of the above is given.
        require_ledger: Whether the release must name the line of a ledger that paid for it.
        release: Of a model, the release that it was learned from, whose promise is the model's.

    Returns:
        The findings in words. The first says what is promised.

    Raises:
        NotSigned: It is not signed, and ``trust`` is given.
        OtherSigner: None of the keys in ``trust`` signed it.
        NoPromise: A promise is demanded and none is made; of a model, also where its release is not given.
        WeakPromise: Its epsilon or delta is larger than what is accepted.
        NoLedger: A ledger is demanded, and none was charged.
        OtherRelease: The model was learned from another release, or does not say from which.
        FileError: A file is damaged, or the promise does not hold.

    >>> import quietfield as qf
    >>> release = qf.Release.from_tables(qf.Domain({"a": 2}), {"a": [5, 7]}, noise=qf.Laplace(2.0))
    >>> verify(release)[0]
    'NO PROMISE: these tables were noised elsewhere, or not at all'
    >>> verify(release, require_promise=True)
    Traceback (most recent call last):
    quietfield.errors.NoPromise: a promise is demanded, and there is none: these tables were noised elsewhere, ...
    """
    from quietfield.files import archive_kind
    from quietfield.models.model import Model
    from quietfield.releases import keys
    from quietfield.releases.release import Release

    if isinstance(file, str | Path):
        file = (Model if archive_kind(file) == "model" else Release).load(file, trust)
    elif trust is not None:
        keys.check_trust(file.signers, trust, f"this {type(file).__name__.lower()}")
    if require_promise is None:
        require_promise = any(demand is not None for demand in (trust, max_epsilon, max_delta))
    signed = "NOT SIGNED: anyone could have made or changed it"
    if file.signed:
        who = " and ".join(file.signers)
        signed = f"signed by {who}" + (", which is trusted" if trust else "; name a key to trust to check who")
    if isinstance(file, Release):
        if release is not None:
            raise Error("a release is given beside a release; it goes with a model that was learned from it.")
        found = [describe_promise(file), "the file is whole and its tables fit its structure", signed]
        if file.claim is not None:
            found += file.check_claim()
            found += [f"protects {file.claim.protects}", f"neighbours: {NEIGHBOURS[file.claim.neighbours]}"]
        check_demands(file, max_epsilon, max_delta, require_promise, require_ledger)
        if file.ledger is not None:
            found.append(f"charged to line {file.ledger.number} of the ledger {file.ledger.id}")
        return (*found, *(note if note == PAPER_NOTE else f"note: {note}" for note in file.notes))
    digest = "" if file.report is None else file.report.release_digest
    source = f"learned from the release with the digest {digest}" if digest else "does not say what it was learned from"
    found = ["the file is whole and its tables fit its cliques", signed, source]
    if release is None:
        if require_promise or require_ledger:
            raise NoPromise(
                "a promise or a ledger is demanded, and a model has none but that of the release that it was learned "
                "from; give that release too (--release), or allow that nothing is promised (--allow-no-promise)."
            )
        return ("NO PROMISE of its own: a model has that of the release that it was learned from", *found)
    known = release if isinstance(release, Release) else Release.load(release)
    promise, *more = verify(
        known,
        trust=trust,
        max_epsilon=max_epsilon,
        max_delta=max_delta,
        require_promise=require_promise,
        require_ledger=require_ledger,
    )
    if not digest:
        raise OtherRelease("this model does not say by a digest which release it was learned from; learn it again.")
    check_learned_from(file, known)
    return (promise, *found, "that is this release", *(f"release: {line}" for line in more))


def describe_promise(release: "Release") -> str:
    """What a release promises, in one line."""
    claim = release.claim
    if claim is None:
        return "NO PROMISE: these tables were noised elsewhere, or not at all"
    delta = "" if claim.delta is None else f", delta {accounting.shown(claim.delta)}"
    said = f"epsilon {accounting.shown(claim.epsilon)}{delta}"
    if claim.neighbours == "paper":
        return f"NO PROMISE: {said} is meant as in the paper, and the exact total is told"
    return f"PROMISE: {said}, for {claim.protects} ({claim.neighbours})"


def check_demands(
    release: "Release",
    max_epsilon: accounting.Number | None = None,
    max_delta: accounting.Number | None = None,
    require_promise: bool = True,
    require_ledger: bool = False,
) -> None:
    """Refuse a release whose promise, as it is stated, is not what is demanded; :func:`verify` says how."""
    from quietfield.privacy.calibration import HUGE_DELTA, HUGE_EPSILON

    largest, chance = Fraction(HUGE_EPSILON), HUGE_DELTA
    if max_epsilon is not None:
        largest = accounting.rational(max_epsilon, "the largest epsilon")
    if max_delta is not None:
        none = str(max_delta).strip("0.") == ""
        chance = Fraction(0) if none else accounting.probability(max_delta, "the largest delta")
    claim = release.claim
    if claim is None or claim.neighbours == "paper":
        if require_promise:
            missing = describe_promise(release).removeprefix("NO PROMISE: ")
            raise NoPromise(
                f"a promise is demanded, and there is none: {missing}. Ask for a release that makes one, or allow that "
                "nothing is promised (--allow-no-promise)."
            )
    else:
        if (require_promise or max_epsilon is not None) and claim.epsilon > largest:
            raise WeakPromise(
                f"epsilon {accounting.shown(claim.epsilon)} is promised, and at most {accounting.shown(largest)} is "
                "accepted; ask for a release with a smaller one, or accept more (--max-epsilon)."
            )
        if (require_promise or max_delta is not None) and claim.delta is not None and claim.delta > chance:
            raise WeakPromise(
                f"delta {accounting.shown(claim.delta)} is promised, and at most {accounting.shown(chance)} is "
                "accepted; ask for a release with a smaller one, or accept more (--max-delta)."
            )
    if require_ledger and release.ledger is None:
        raise NoLedger(
            "a ledger is demanded, and none was charged for this release: nothing adds up what else was spent on the "
            "same people. Ask for a release that a ledger paid for."
        )


def check_same(one: Domain, other: Domain, which: str, more: bool = False) -> None:
    """Refuse two things of different attributes or labels; with ``more``, the other may have further attributes.

    >>> check_same(Domain({"a": 2}), Domain({"a": 3}), "the release and the model")
    Traceback (most recent call last):
    quietfield.errors.Error: the release and the model differ in 'a': both need the same attributes, ...
    """
    mine, theirs = ({name: domain.labels(name) for name in domain} for domain in (one, other))
    differing = [name for name in (mine if more else {**mine, **theirs}) if mine.get(name) != theirs.get(name)]
    if differing:
        raise Error(
            f"{which} differ in {names(differing)}: both need the same attributes, with the same labels in the same "
            "order; give two that belong together."
        )


def check_learned_from(model: "Model", release: "Release") -> None:
    """Refuse to speak of a model in the name of a release that it was not learned from, as far as the two tell."""
    if learned_elsewhere(model, release):
        assert model.report is not None
        raise OtherRelease(
            f"this model was learned from the release {model.report.release or model.report.release_digest}, not from "
            f"this one ({release.id or release.digest}), whose promise is another; give the release that it was "
            "learned from, or learn a model from this one."
        )


def learned_elsewhere(model: "Model", release: "Release") -> bool:
    """Whether a model was learned from another release than this, as far as the two tell."""
    report = model.report
    if report is None:
        return False
    if report.release_digest:
        return report.release_digest != release.digest
    return bool(report.release and release.id and report.release != release.id)
