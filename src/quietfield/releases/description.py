"""What a release says of itself: its promise, its noise, who paid and who signed, in words for everyone."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quietfield.errors import Error
from quietfield.privacy import accounting, promises
from quietfield.privacy.noise import describe_noises
from quietfield.privacy.units import Person, unit_from_json
from quietfield.releases.parts import PAPER_NOTE
from quietfield.text import plural

if TYPE_CHECKING:
    from quietfield.releases.parts import Promise
    from quietfield.releases.release import Release


def summarize_promise(release: "Release") -> str:
    """What a release promises, in one line."""
    promise = release.promise
    if promise is None:
        return "NO PROMISE: these tables were noised elsewhere, or not at all"
    delta = "" if promise.delta is None else f", delta {accounting.format_number(promise.delta)}"
    said = f"epsilon {accounting.format_number(promise.epsilon)}{delta}"
    if promise.neighbours == "paper":
        return f"NO PROMISE: {said} is meant as in the paper, and the exact total is told"
    return f"PROMISE: {said}, for {promise.protects} ({promise.neighbours})"


def list_warnings(release: "Release") -> list[str]:
    """What a reader must know before anything else."""
    found = []
    if release.promise is None:
        found.append(
            "No promise is made: these tables were noised elsewhere, and whether they protect anyone is for whoever "
            "noised them to say."
        )
    else:
        if release.promise.neighbours == "paper":
            found.append(f"{to_sentence(PAPER_NOTE)}. This release reproduces a published experiment.")
        try:
            release.check_promise()
        except Error as error:
            found.append(f"The arithmetic of the promise was checked and found wrong: {error}")
    return found


def list_facts(release: "Release") -> list[tuple[str, str]]:
    """The facts of what was protected and what it cost."""
    promise = release.promise
    facts: list[tuple[str, str]] = []
    if promise is not None:
        facts.append(("Protected", f"{to_sentence(promise.protects)}."))
        facts.append(("Neighbouring data", f"{to_sentence(promises.NEIGHBOURS[promise.neighbours])}."))
        at = "" if promise.delta is None else f" at delta {accounting.format_number(promise.delta)}"
        facts.append(("Cost", f"Epsilon {accounting.format_number(promise.epsilon)}{at}. {explain_promise(release)}"))
        squared = f" (squared L2: {accounting.format_number(promise.l2_squared)})" if promise.delta is not None else ""
        most = f"{accounting.format_number(promise.l1)}{squared}"
        facts.append(("Sensitivity", f"Between neighbouring data all counts together change by at most {most}."))
        if not any("found wrong" in text for text in list_warnings(release)):
            facts.append(("Checked", f"{to_sentence('; '.join(release.check_promise()))}."))
    if release.selections:
        among = max(one.candidates for one in release.selections)
        facts.append(
            (
                "Choice of tables",
                f"The tables were chosen privately: {plural(len(release.selections), 'choice')}, each by a noisy "
                f"maximum among up to {among:,} tables. The choices are a part of the cost.",
            )
        )
    facts.append(("Noise", describe_noise(release)))
    if release.total is None:
        facts.append(("Number of records", "Not released; it is estimated from the sums of the tables."))
    elif release.total_is_public:
        facts.append(("Number of records", f"{release.total:,.6g}, public and exact."))
    else:
        noise = release.total_noise
        assert noise is not None
        facts.append(("Number of records", f"{release.total:,.6g} after noise of standard deviation {noise.std:,.3g}."))
    if release.ledger is not None:
        facts.append(("Paid from", f"Line {release.ledger.number} of the ledger {release.ledger.id}."))
    elif promise is not None:
        facts.append(("Paid from", "No ledger: nothing adds up what else was spent on the same people."))
    facts.append(("Signed", f"{to_sentence(describe_signers(release.signers))}."))
    if (policy := release.policy) is not None:
        two = ", which has two persons sign each release" if policy.signers else ""
        facts.append(("Policy", f"Made under {policy.name or 'the policy'} (SHA-256 {policy.digest}){two}."))
    facts += [
        ("Note", f"{to_sentence(note)}.")
        for note in release.notes
        if note != PAPER_NOTE and not note.startswith("no ledger")
    ]
    return facts


def describe_signers(signers: Sequence[str]) -> str:
    """Whose keys signed a file, in words.

    >>> describe_signers(["3b4c", "99fe"])
    'signed by 3b4c and 99fe'
    """
    if not signers:
        return "NOT SIGNED: anyone could have made or changed it"
    return f"signed by {' and '.join(signers)}"


def describe_counted(promise: "Promise | None") -> str:
    """What the numbers of a release count, in words.

    >>> describe_counted(None)
    'records that were counted'
    """
    unit = None if promise is None else unit_from_json(promise.unit)
    if not isinstance(unit, Person):
        return "records that were counted"
    whom = unit.who.removeprefix("any one ")
    if unit.rows is None:
        return f"records, weighted so that all those of one {whom} together weigh 1"
    return f"records that were counted (at most {unit.rows} per {whom})"


def to_sentence(text: str) -> str:
    """A text with a capital at its beginning, and without a full stop at its end."""
    return text[:1].upper() + text[1:].removesuffix(".")


def explain_promise(release: "Release") -> str:
    """What the promise of a release means for one unit; nothing where it is not kept."""
    promise = release.promise
    assert promise is not None
    try:
        release.check_promise()
    except Error:
        return "That is what the release states, and it does not keep it: nothing is promised."
    found = release.discovery
    # What is zCDP but for a threshold is so for one unit; for two of them it is twice (epsilon, delta).
    rho = promise.rho if found is None or found.threshold is None else None
    return promises.describe_promise(promise.epsilon, promise.delta, rho, promise.neighbours)


def describe_noise(release: "Release") -> str:
    """Kinds and sizes of the noise."""
    said = describe_noises([part.noise for part in release.parts])
    number = "A count, or an interaction," if release.structure.interactions else "A count"
    return f"{to_sentence(said)}. {number} is off by about that much, whatever its size."
