"""Whether a release or a model is what a reader demands: signed by whom, promising what, paid by a ledger."""

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

from quietfield.errors import Error, NoLedger, NoPromise, OtherRelease, WeakPromise
from quietfield.files import archive_kind
from quietfield.models.model import Model
from quietfield.privacy import accounting, promises
from quietfield.privacy.planning import HUGE_DELTA
from quietfield.privacy.promises import HUGE_EPSILON
from quietfield.releases import keys
from quietfield.releases.description import describe_signers, summarize_promise
from quietfield.releases.parts import PAPER_NOTE
from quietfield.releases.release import Release


def verify(
    file: Release | Model | str | Path,
    *,
    trust: str | Path | Iterable[str | Path] | None = None,
    max_epsilon: accounting.Number | None = None,
    max_delta: accounting.Number | None = None,
    require_promise: bool | None = None,
    require_ledger: bool = False,
    require_signatures: int = 1,
    release: Release | str | Path | None = None,
    complete: bool = True,
) -> tuple[str, ...]:
    """Check a release, or a model and the release that it was learned from, and what a reader demands of it.

    Whoever names keys to trust wants to rely on what they signed, and a signature alone says nothing of privacy: exact
    tables can be signed too. So ``trust`` demands a promise as well, unless ``require_promise=False`` is said. Where a
    promise is demanded, an epsilon above 20 or a delta above 1e-4, of which a curator is warned, is refused unless
    ``max_epsilon`` or ``max_delta`` allow it. The paper's setting is no promise.

    Args:
        file: A release or a model, or the path of one.
        trust: Public key files, of which one must have signed it (and the release of a model). Where the policy under
            which a release was made has two persons sign, both have to be among them.
        max_epsilon: The largest epsilon that is accepted. It demands a promise.
        max_delta: The largest delta that is accepted; 0 takes pure differential privacy alone. It demands a promise.
        require_promise: Whether a promise is demanded; None demands one if any of the above is given.
        require_ledger: Whether the release must name the line of a ledger that paid for it.
        require_signatures: How many of the keys in ``trust`` must have signed the release: 1 or 2. A model has one
            signature at most, so of a model this is asked of its release.
        release: Of a model, the release that it was learned from, whose promise is the model's.
        complete: Whether a release that waits for its second signature is refused.

    Returns:
        The findings in words. The first says what is promised.

    Raises:
        NotSigned: It is not signed, and ``trust`` is given.
        OtherSigner: None of the keys in ``trust`` signed it, or one of two persons is not among them.
        TooFewSignatures: Fewer of the keys in ``trust`` signed the release than ``require_signatures``.
        Incomplete: It waits for its second signature.
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
    trust = None if trust is None else keys.list_paths(trust)
    if type(require_signatures) is not int or require_signatures not in (1, 2):
        raise Error(f"a file has at most two signatures, so 1 or 2 can be demanded, not {require_signatures!r}.")
    if require_signatures > 1 and trust is None:
        raise Error("signatures count where their keys are trusted, since anyone can make a key; name two (--trust).")
    name: str | Path = f"this {type(file).__name__.lower()}"
    if isinstance(file, str | Path):
        name = file
        file = Model.load(name, trust) if archive_kind(name) == "model" else Release.load(name, trust, complete=False)
    if isinstance(file, Release):
        trusted = file.check_trust(trust, name, require_signatures)
    else:
        trusted = () if trust is None else keys.check_trust(file.signers, trust, name)
    if require_promise is None:
        require_promise = any(demand is not None for demand in (trust, max_epsilon, max_delta))
    signed = describe_signers(file.signers)
    if file.signed and trust is None:
        signed += "; name a key to trust to check who"
    elif file.signed:
        unknown = [one for one in file.signers if one not in trusted]
        signed = f"{describe_signers(trusted)}, which {'is' if len(trusted) == 1 else 'are'} trusted"
        signed += f"; also signed by {unknown[0]}, which is unknown: it is no key to trust" if unknown else ""
    if isinstance(file, Release):
        if release is not None:
            raise Error("a release is given beside a release; it goes with a model that was learned from it.")
        found = [summarize_promise(file), "the file is whole and its tables fit its structure", signed]
        if file.promise is not None:
            found += file.check_promise()
            found += [
                f"protects {file.promise.protects}",
                f"neighbours: {file.promise.neighbours} ({promises.NEIGHBOURS[file.promise.neighbours]})",
            ]
        check_demands(file, max_epsilon, max_delta, require_promise, require_ledger)
        if complete:
            file.check_complete(name)
        if file.ledger is not None:
            found.append(f"charged to line {file.ledger.number} of the ledger {file.ledger.id}")
        return (*found, *(note if note == PAPER_NOTE else f"note: {note}" for note in file.notes))
    digest = "" if file.report is None else file.report.release_digest
    source = f"learned from the release with the digest {digest}" if digest else "does not say what it was learned from"
    found = ["the file is whole and its tables fit its cliques", signed, source]
    if release is None:
        if require_promise or require_ledger or require_signatures > 1:
            raise NoPromise(
                "a promise, a ledger or two signatures are demanded, and a model has none but those of the release "
                "that it was learned from; give that release too (--release), or allow that nothing is promised "
                "(--allow-no-promise)."
            )
        return ("NO PROMISE of its own: a model has that of the release that it was learned from", *found)
    known = release if isinstance(release, Release) else Release.load(release, trust)
    promise, *more = verify(
        known,
        trust=trust,
        max_epsilon=max_epsilon,
        max_delta=max_delta,
        require_promise=require_promise,
        require_ledger=require_ledger,
        require_signatures=require_signatures,
        complete=complete,
    )
    if not digest:
        raise OtherRelease("this model does not say by a digest which release it was learned from; learn it again.")
    check_learned_from(file, known)
    return (promise, *found, "that is this release", *(f"release: {line}" for line in more))


def check_demands(
    release: Release,
    max_epsilon: accounting.Number | None = None,
    max_delta: accounting.Number | None = None,
    require_promise: bool = True,
    require_ledger: bool = False,
) -> None:
    """Refuse a release whose promise, as it is stated, is not what is demanded; :func:`verify` says how."""
    largest, chance = Fraction(HUGE_EPSILON), HUGE_DELTA
    if max_epsilon is not None:
        largest = accounting.to_rational(max_epsilon, "the largest epsilon")
    if max_delta is not None:
        none = str(max_delta).strip("0.") == ""
        chance = Fraction(0) if none else accounting.to_probability(max_delta, "the largest delta")
    promise = release.promise
    if promise is None or promise.neighbours == "paper":
        if require_promise:
            missing = summarize_promise(release).removeprefix("NO PROMISE: ")
            raise NoPromise(
                f"a promise is demanded, and there is none: {missing}. Ask for a release that makes one, or allow that "
                "nothing is promised (--allow-no-promise)."
            )
    else:
        if (require_promise or max_epsilon is not None) and promise.epsilon > largest:
            raise WeakPromise(
                f"epsilon {accounting.format_number(promise.epsilon)} is promised, and at most "
                f"{accounting.format_number(largest)} is accepted; ask for a release with a smaller one, or accept "
                "more (--max-epsilon)."
            )
        if (require_promise or max_delta is not None) and promise.delta is not None and promise.delta > chance:
            raise WeakPromise(
                f"delta {accounting.format_number(promise.delta)} is promised, and at most "
                f"{accounting.format_number(chance)} is accepted; ask for a release with a smaller one, or accept more "
                "(--max-delta)."
            )
    if require_ledger and release.ledger is None:
        raise NoLedger(
            "a ledger is demanded, and none was charged for this release: nothing adds up what else was spent on the "
            "same people. Ask for a release that a ledger paid for."
        )


def check_learned_from(model: Model, release: Release) -> None:
    """Refuse to speak of a model in the name of a release that waits for a signature, or that it was not learned from.

    Raises:
        Incomplete: The release waits for its second signature.
        OtherRelease: The model was learned from another, as far as the two tell.
    """
    release.check_complete()
    if learned_elsewhere(model, release):
        assert model.report is not None
        raise OtherRelease(
            f"this model was learned from the release {model.report.release or model.report.release_digest}, not from "
            f"this one ({release.id or release.digest}), whose promise is another; give the release that it was "
            "learned from, or learn a model from this one."
        )


def learned_elsewhere(model: Model, release: Release) -> bool:
    """Whether a model was learned from another release than this, as far as the two tell."""
    report = model.report
    if report is None:
        return False
    if report.release_digest:
        return report.release_digest != release.digest
    return bool(report.release and release.id and report.release != release.id)
