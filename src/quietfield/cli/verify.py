"""``quietfield verify``: is this release whole, from whom it should be, and as private as it says?"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from quietfield.releases import Release

app = typer.Typer()

NEIGHBOURS = {
    "add_remove": "add_remove (data sets with and without one unit)",
    "replace": "replace (data sets in which one unit is another; how many there are is public)",
    "paper": "paper (as published: with and without one unit, although the exact total is told)",
}


@app.command(epilog="Example: quietfield verify visits.qfr --trust curator.pub.pem")
def verify(
    path: Annotated[Path, typer.Argument(help="The release.")],
    trust: Annotated[
        list[Path] | None,
        typer.Option(help="A public key (PEM) to trust; refuses what none of these signed. May be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Check the signature, the shapes and the arithmetic of the privacy promise. Exit code 1 if anything is wrong."""
    from quietfield.releases import PAPER_NOTE, Release, printable

    release = Release.load(path, trust=trust or None)
    found = [
        "the file is whole and its tables fit its structure",
        f"signed by {release.signer}" + (", which is trusted" if trust else "; pass --trust to check who that is")
        if release.signed
        else "NOT SIGNED: anyone could have made or changed it",
    ]
    if release.claim is None:
        found.append("no promise is made: the tables were noised elsewhere")
    else:
        claim = release.claim
        found += [*release.check_claim(), sensitivity(release)]
        found += [f"protects {claim.protects}", f"neighbours: {NEIGHBOURS[claim.neighbours]}"]
        if claim.neighbours == "paper":
            found.append(PAPER_NOTE)
    found += [f"note: {note}" for note in release.notes if note != PAPER_NOTE]
    found = [printable(line) for line in found]
    if as_json:
        typer.echo(
            json.dumps(
                {"path": str(path), "signed": release.signed, "signer": release.signer, "findings": found}, indent=2
            )
        )
    else:
        for line in found:
            typer.echo(line)


def sensitivity(release: "Release") -> str:
    """Recompute the sensitivity from unit, structure and neighbours; an error unless the release states the same."""
    from quietfield.curator.units import from_json, statistics
    from quietfield.errors import FileError

    claim, total = release.claim, release.total_part
    assert claim is not None
    noisy = total is not None and total.noise is not None
    unit = from_json(claim.unit)
    counted = statistics(release.structure, release.domain, unit, claim.neighbours, noisy)  # type: ignore[arg-type]
    stated = [(p.l1, p.l2_squared, p.excluded) for p in release.parts]
    derived = [(t.l1, t.l2_squared, t.excluded) for t in counted.tables]
    checks: list[Callable[[], bool]] = [
        lambda: stated == derived,
        lambda: (claim.l1, claim.l2_squared) == (counted.l1, counted.l2_squared),
        lambda: release.denominator == counted.denominator,
        lambda: counted.total == noisy,
        lambda: not noisy or (total is not None and total.l1 == counted.total_l1),
        lambda: total is None or noisy or counted.known_total,
        lambda: claim.protects == unit.describe(),
    ]
    if not all(check() for check in checks):
        raise FileError("the promise does not hold: the sensitivity stated is not that of this unit and structure.")
    return "the sensitivity stated is that of the unit, the structure and the neighbours"
