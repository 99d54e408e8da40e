"""``quietfield verify``: is this release whole, from whom it should be, and as private as it says?"""

import json
from pathlib import Path
from typing import Annotated

import typer

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
    from quietfield.cli import summaries
    from quietfield.releases import PAPER_NOTE, Release
    from quietfield.texts import shown

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
        found += release.check_claim()
        found += [f"protects {claim.protects}", f"neighbours: {NEIGHBOURS[claim.neighbours]}"]
        if claim.neighbours == "paper":
            found.append(PAPER_NOTE)
    found += [f"note: {note}" for note in release.notes if note != PAPER_NOTE]
    found = [shown(line) for line in found]
    if as_json:
        content = {"path": str(path), **summaries.of_promise(release), "trusted": bool(trust), "findings": found}
        typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        for line in found:
            typer.echo(line)
