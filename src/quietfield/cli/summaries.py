"""What ``release --json`` and ``verify --json`` write: data, no sentences to take apart; exact numbers as texts.

What a ledger holds has the names that ``ledger show --json`` gives it. A key is always there, with null for nothing.
"""

from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quietfield.curator.steps import StepPlan
from quietfield.errors import Error
from quietfield.privacy.units import Person, Rows, unit_from_json
from quietfield.releases.description import describe_counted
from quietfield.releases.release import Release
from quietfield.text import plural

if TYPE_CHECKING:
    from quietfield.curator.ledger import Ledger
    from quietfield.curator.publish import ReleasePlan
    from quietfield.models.model import Model
    from quietfield.privacy.noise import Noise

#: What a promise says.
PROMISE = ("epsilon", "delta", "rho", "sensitivity", "neighbours", "unit", "protects")


def of_payment(release: Release, book: "Ledger | None") -> dict[str, Any] | None:
    """What a release cost and what remained after it, whatever was charged since; None where no ledger paid."""
    if book is None or release.ledger is None:
        return None
    charges = book.charges[: release.ledger.number]
    left = book.remaining_after(charges)
    return {"id": book.id, "number": release.ledger.number, "cost": str(charges[-1].cost), "remaining": str(left)}


def of_release(release: Release, out: Path, warnings: tuple[str, ...], paid: dict[str, Any] | None) -> dict[str, Any]:
    """A release that was made and written, and what :func:`of_payment` says of it."""
    return {
        "written": str(out),
        **of_promise(release),
        "tables": [_table(part.cliques, part.values.size, part.noise, part.interaction) for part in release.parts],
        "total": None
        if release.total_part is None
        else {"value": release.total, "public": release.total_is_public, "noise": _noise(release.total_noise)},
        "choices": len(release.selections),
        "noisier_measurements": len(release.replaced),
        "ledger": paid,
        "warnings": list(warnings),
    }


def of_promise(release: Release) -> dict[str, Any]:
    """Who signed a release and what it promises; null for the latter where its tables were noised elsewhere."""
    promise = release.promise
    promised: dict[str, Any] = dict.fromkeys(PROMISE)
    if promise is not None:
        promised = {
            **_promise(promise.epsilon, promise.delta, promise.rho, promise.l1, promise.l2_squared),
            "neighbours": promise.neighbours,
            "unit": dict(promise.unit),
            "protects": promise.protects,
        }
    said = {
        "signed": release.signed,
        "signers": list(release.signers),
        "complete": release.complete,
        "policy": None if release.policy is None else asdict(release.policy),
        "notes": list(release.notes),
    }
    return {"id": release.id, **promised, **said}


def of_verified(file: "Release | Model", source: Release | None) -> dict[str, Any]:
    """A release that was checked; or a model, with the promise of the release that it was learned from, if given."""
    release = file if isinstance(file, Release) else source
    report = None if isinstance(file, Release) else file.report
    paid = None if release is None else release.ledger
    nothing = dict.fromkeys((*PROMISE, "complete", "policy"))
    promised: dict[str, Any] = {"id": report.release if report else None, **nothing, "notes": []}
    return {
        "kind": "release" if isinstance(file, Release) else "model",
        **(promised if release is None else of_promise(release)),
        "digest": release.digest if release is not None else (report.release_digest or None) if report else None,
        "ledger": None if paid is None else {"id": paid.id, "number": paid.number, "digest": paid.digest},
        "signed": file.signed,
        "signers": list(file.signers),
    }


def of_plan(
    prepared: "ReleasePlan | StepPlan", book: "Ledger | None", protects: str, warnings: Sequence[str]
) -> dict[str, Any]:
    """A dry run: what would be released, and what would be paid."""
    price, counted = prepared.price, prepared.statistics
    account = None
    if book is not None:
        cost = book.cost(price.epsilon, price.delta, price.rho)
        spent, remaining = book.spent, book.remaining
        account = {
            "id": book.id,
            "accounting": book.accounting,
            "total": str(book.total),
            "spent": str(spent),
            "remaining": str(remaining),
            "cost": str(cost),
            "afterwards": {"spent": str(spent + cost), "remaining": str(remaining - cost)},
        }
    tables: dict[str, Any]
    if isinstance(prepared, StepPlan):
        tables = {
            **_promise(price.epsilon, price.delta, price.rho, None, None),
            "tables": None,
            "candidates": len(counted.tables),
            "total": {"public": counted.known_total, "noise": None, "reason": None},
        }
    else:
        plan = prepared.noise
        pairs = zip(counted.tables, plan.noises, strict=False)  # one more noise is that of the total
        tables = {
            **_promise(price.epsilon, price.delta, price.rho, counted.l1, counted.l2_squared),
            "tables": [_table(table.cliques, prod(table.shape), noise, table.interaction) for table, noise in pairs],
            "candidates": None,
            "total": {
                "public": counted.known_total,
                "noise": _noise(plan.noises[-1]) if counted.total else None,
                "reason": prepared.total_reason,
            },
        }
    return {
        "dry_run": True,
        **tables,
        "neighbours": counted.neighbours,
        "unit": prepared.unit.to_json(),
        "protects": protects,
        "ledger": account,
        "warnings": list(warnings),
    }


def _promise(
    epsilon: Fraction, delta: Fraction | None, rho: Fraction | None, l1: Fraction | None, l2_squared: Fraction | None
) -> dict[str, Any]:
    return {
        "epsilon": str(epsilon),
        "delta": None if delta is None else str(delta),
        "rho": None if rho is None else str(rho),
        "sensitivity": None if l1 is None else {"l1": str(l1), "l2_squared": str(l2_squared)},
    }


def _table(cliques: tuple[tuple[str, ...], ...], cells: int, noise: "Noise", interaction: bool) -> dict[str, Any]:
    names = [list(clique) for clique in cliques]
    return {"cliques": names, "cells": cells, "interaction": interaction, "noise": _noise(noise)}


def _noise(noise: "Noise | None") -> dict[str, Any] | None:
    return None if noise is None else {"kind": noise.kind, "scale": noise.scale, "std": noise.std}


def describe_count(release: Release, is_lines: bool) -> str:
    """About how many records a release counts, from its noisy numbers alone, and what to do if there are more."""
    from quietfield.learning.observation import estimate_records

    unit = None if release.promise is None else unit_from_json(release.promise.unit)
    try:
        found = max(1, round(estimate_records(release).value))
        weighted = isinstance(unit, Person) and unit.rows is None
        said = f"{found:,} {describe_counted(release.promise)}" if weighted else plural(found, "record")
        many = f"about {said}, as the noisy tables say"
    except Error:
        many = "fewer records than noise lets be told"
    if not isinstance(unit, Rows):  # of persons, rows are chosen
        return many
    schema = release.schema
    drops = schema is not None and any("drop" in (schema[name].null, schema[name].unknown) for name in schema)
    reasons = ["the schema drops some (null or unknown: drop)"] * drops
    reasons += ["lines of the file are no records"] * is_lines
    if not reasons:
        return many
    return f"{many}; if many more were expected, {', or '.join(reasons)}: see quietfield inspect --help"
