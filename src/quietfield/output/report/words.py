"""What a release promises and how well a model fits it, in sentences for people who are no specialists."""

from typing import TYPE_CHECKING

from quietfield.errors import Error, many
from quietfield.privacy import accounting, promises
from quietfield.privacy.noise import Noise
from quietfield.releases.release import PAPER_NOTE

if TYPE_CHECKING:
    from quietfield.releases.release import Release


def warnings(release: "Release") -> list[str]:
    """What a reader must know before anything else."""
    found = []
    if release.claim is None:
        found.append(
            "No promise is made: these tables were noised elsewhere, and whether they protect anyone is for whoever "
            "noised them to say."
        )
    else:
        if release.claim.neighbours == "paper":
            found.append(f"{sentence(PAPER_NOTE)}. This release reproduces a published experiment.")
        try:
            release.check_claim()
        except Error as error:
            found.append(f"The arithmetic of the promise was checked and found wrong: {error}")
    return found


def privacy(release: "Release") -> list[tuple[str, str]]:
    """The facts of what was protected and what it cost."""
    claim = release.claim
    facts: list[tuple[str, str]] = []
    if claim is not None:
        facts.append(("Protected", f"{sentence(claim.protects)}."))
        facts.append(("Neighbouring data", f"{promises.NEIGHBOURS[claim.neighbours]}."))
        at = "" if claim.delta is None else f" at delta {accounting.shown(claim.delta)}"
        facts.append(("Cost", f"Epsilon {accounting.shown(claim.epsilon)}{at}. {meaning(release)}"))
        facts.append(
            (
                "Sensitivity",
                f"Between neighbouring data all counts together change by at most {accounting.shown(claim.l1)}"
                + (f" (squared L2: {accounting.shown(claim.l2_squared)})." if claim.delta is not None else "."),
            )
        )
        if not any("found wrong" in text for text in warnings(release)):
            facts.append(("Checked", f"{sentence('; '.join(release.check_claim()))}."))
    facts.append(("Noise", noise_words(release)))
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
    elif claim is not None:
        facts.append(("Paid from", "No ledger: nothing adds up what else was spent on the same people."))
    facts.append(
        ("Signed", f"By the key {release.signer}." if release.signed else "No: anyone could have made or changed it.")
    )
    facts += [
        ("Note", f"{sentence(note)}.")
        for note in release.notes
        if note != PAPER_NOTE and not note.startswith("no ledger")
    ]
    return facts


def sentence(text: str) -> str:
    """A text with a capital at its beginning, and without a full stop at its end."""
    return text[:1].upper() + text[1:].removesuffix(".")


def meaning(release: "Release") -> str:
    """What the promise of a release means for one unit; nothing where it is not kept."""
    claim = release.claim
    assert claim is not None
    try:
        release.check_claim()
    except Error:
        return "That is what the release states, and it does not keep it: nothing is promised."
    return promises.describe_promise(claim.epsilon, claim.delta, claim.rho, claim.neighbours)


def noise_words(release: "Release") -> str:
    """Kinds and sizes of the noise."""
    kinds = list(dict.fromkeys(_noise(part.noise) for part in release.parts))
    more = f"; and {many(len(kinds) - 4, 'other scale')}" if len(kinds) > 4 else ""
    return f"{sentence('; '.join(kinds[:4]))}{more}. A count is off by about that much, whatever its size."


def _noise(noise: Noise) -> str:
    exact = "discrete " if noise.step else ""
    return f"{exact}{noise.kind.capitalize()} of scale {noise.scale:.4g} (standard deviation {noise.std:.3g})"
