"""How a release is written down: its manifest and tables to bytes, and back with every part checked."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from math import prod
from typing import Any

from quietfield.cliques import Structure
from quietfield.domain import Clique, Domain
from quietfield.errors import Error, FileError
from quietfield.files import MANIFEST_LIMIT, TABLES_LIMIT, canonical_json
from quietfield.privacy import units
from quietfield.privacy.accounting import parse_rational, write_rational
from quietfield.privacy.noise import Gaussian, Laplace, noise_from_json
from quietfield.releases.parts import (
    Discovery,
    Payment,
    PolicyInForce,
    Promise,
    ReleaseContent,
    Replaced,
    Selection,
    Table,
    Total,
)
from quietfield.schema import Schema

#: Rationals in a manifest lie between 1 / REACH and REACH, so that floats can tell them.
REACH = 10**300


def check_room(schema: Schema, tables: Sequence[units.CountedTable]) -> None:
    """Refuse a release that no file takes. A curator asks before paying.

    >>> schema = Schema({"a": 2, "b": 2})
    >>> check_room(schema, units.statistics(Structure((("a", "b"),)), schema.domain, units.Rows(1)).tables)
    """
    domain, rules = schema.domain, schema.list_rules()
    cells = sum(prod(table.shape) for table in tables)
    words = sum(len(canonical_json(content)) for content in (domain.to_json(), rules))
    words += 3 * len(canonical_json([table.cliques for table in tables]))  # and ties, and tables
    if words + 300 * len(tables) + 2**16 > MANIFEST_LIMIT or 8 * cells + 100 * len(tables) > TABLES_LIMIT:
        raise Error(
            f"a release of {len(tables):,} tables with {cells:,} cells, whose names and values take {words:,} bytes, "
            "is more than a file may hold; release fewer or smaller tables, or shorten names."
        )
    if Schema.from_rules(rules, domain) != schema:
        raise Error("this schema is not what its JSON says; write its rules as Labels, Cuts and Dates.")


def to_json(release: ReleaseContent) -> dict[str, Any]:
    """The manifest of a release. The exact number of units is in it only where that number is public."""
    total = release.total_part
    # Releases without one of these are written as they always were.
    later = {name: getattr(release, name) for name in ("policy", "selections", "replaced", "discovery")}
    return {
        "id": release.id,
        "created": release.created,
        "package": release.package,
        "domain": release.domain.to_json(),
        "cliques": _plain(release.structure.cliques),
        "ties": _plain(release.structure.ties),
        **({"interactions": _plain(release.structure.interactions)} if release.structure.interactions else {}),
        "denominator": release.denominator,
        "tables": [
            {name: _plain(getattr(part, name)) for name in ("cliques", "noise", "l1", "l2_squared", "excluded")}
            for part in release.parts
        ],
        "total": None if total is None else {**_plain(total), "public": total.noise is None},
        "privacy": _plain(release.promise),
        "ledger": _plain(release.ledger),
        "notes": list(release.notes),
        **{name: _plain(part) for name, part in later.items() if part},
        **({} if release.schema is None else {"rules": release.schema.list_rules()}),
    }


def _plain(value: Any) -> Any:
    """A part of a release for JSON: its fields by name, tuples as lists, rationals as texts."""
    if isinstance(value, Laplace | Gaussian):
        return value.to_json()
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Fraction):
        return write_rational(value, "a rational of the release")
    return dict(value) if isinstance(value, Mapping) else value


def fields_from_json(manifest: Mapping[str, Any], tables: list[Any]) -> dict[str, Any]:
    """The fields of a release from its manifest and arrays, each checked for its form."""
    structure = Structure(
        tuple(_clique(c) for c in manifest["cliques"]),
        tuple(tuple(_clique(c) for c in tie) for tie in manifest["ties"]),
        tuple(_clique(c) for c in manifest.get("interactions", ())),
    )
    numbers = {(clique,) for clique in structure.interactions}
    listed = manifest["tables"]
    if len(listed) != len(tables):
        raise FileError(f"the manifest lists {len(listed)} tables, and {len(tables)} are there.")
    parts = tuple(
        Table(
            tuple(_clique(c) for c in entry["cliques"]),
            values,
            noise_from_json(entry["noise"]),
            _fraction(entry["l1"]),
            _fraction(entry["l2_squared"]),
            None if entry["excluded"] is None else tuple(_whole(i) for i in entry["excluded"]),
            tuple(_clique(c) for c in entry["cliques"])[:1] in numbers,
        )
        for entry, values in zip(listed, tables, strict=True)
    )
    domain = Domain.from_json(manifest["domain"])
    total = manifest["total"]
    privacy = manifest["privacy"]
    return {
        "domain": domain,
        "structure": structure,
        "parts": parts,
        "total_part": None if total is None else _total(total),
        "denominator": manifest["denominator"],
        "promise": None if privacy is None else _promise(privacy),
        "notes": tuple(_string(note) for note in manifest["notes"]),
        "id": _string(manifest["id"]),
        "created": _string(manifest["created"]),
        "package": _string(manifest["package"]),
        "ledger": None if manifest["ledger"] is None else _payment(manifest["ledger"]),
        "policy": _policy(manifest["policy"]) if "policy" in manifest else None,
        "selections": tuple(_selection(one) for one in manifest.get("selections", ())),
        "replaced": tuple(_replaced(one) for one in manifest.get("replaced", ())),
        "discovery": _discovery(manifest["discovery"]) if "discovery" in manifest else None,
        "schema": Schema.from_rules(manifest["rules"], domain) if "rules" in manifest else None,
    }


def _total(data: Mapping[str, Any]) -> Total:
    value, noise = data["value"], None if data["noise"] is None else noise_from_json(data["noise"])
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FileError("the total is not a number.")
    if data["public"] is not (noise is None):
        raise FileError("the total is either public or noisy; the manifest says both or neither.")
    return Total(value, noise, _fraction(data["l1"]))


def _promise(data: Mapping[str, Any]) -> Promise:
    epsilon, l1, l2_squared = (_fraction(data[name]) for name in ("epsilon", "l1", "l2_squared"))
    delta, rho = _fraction(data["delta"]), _fraction(data["rho"])
    if epsilon is None or l1 is None or l2_squared is None or (delta is not None and delta >= 1):
        raise FileError("the promise lacks epsilon or its sensitivity, or its delta is not below 1.")
    if (delta is None) != (rho is None):
        raise FileError("a promise has delta and rho, or neither of them.")
    unit = data["unit"]
    if not isinstance(unit, dict) or canonical_json(units.unit_from_json(unit).to_json()) != canonical_json(unit):
        raise FileError("the promise does not say what it protects, or says it in another form than quietfield does.")
    return Promise(epsilon, delta, rho, l1, l2_squared, unit, _string(data["protects"]), _string(data["neighbours"]))


def _payment(data: Mapping[str, Any]) -> Payment:
    return Payment(_string(data["id"]), _whole(data["number"]), _string(data["digest"]))


def _policy(data: Mapping[str, Any]) -> PolicyInForce:
    return PolicyInForce(_string(data["name"]), _string(data["digest"]), tuple(_string(one) for one in data["signers"]))


def _discovery(data: Mapping[str, Any]) -> Discovery:
    cost = _fraction(data["cost"])
    if cost is None:
        raise FileError("the discovery of the schema lacks its cost.")
    return Discovery(cost, _fraction(data["threshold"]))


def _selection(data: Mapping[str, Any]) -> Selection:
    sensitivity, scale = _fraction(data["sensitivity"]), _fraction(data["scale"])
    if sensitivity is None or scale is None:
        raise FileError("a selection lacks its sensitivity or its scale.")
    return Selection(_clique(data["chosen"]), _whole(data["candidates"]), _whole(data["measured"]), sensitivity, scale)


def _replaced(data: Mapping[str, Any]) -> Replaced:
    l1, l2_squared = _fraction(data["l1"]), _fraction(data["l2_squared"])
    if l1 is None or l2_squared is None:
        raise FileError("a table that was measured again lacks its sensitivity.")
    return Replaced(_clique(data["clique"]), noise_from_json(data["noise"]), l1, l2_squared)


def _clique(value: Any) -> Clique:
    if not isinstance(value, list):
        raise FileError("a clique is written as a list of attribute names.")
    return tuple(_string(name) for name in value)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise FileError(f"text was expected in the manifest, not {value!r:.60}.")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise FileError(f"a whole number was expected in the manifest, not {value!r:.60}.")
    return value


def _fraction(value: Any) -> Fraction | None:
    if value is None:
        return None
    result = parse_rational(value, "a rational in the manifest")
    if not Fraction(1, REACH) <= result <= REACH:
        raise FileError(f"{value:.60} was found in the manifest where a positive number of usual size was expected.")
    return result
