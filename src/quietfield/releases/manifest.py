"""How a release is written down: its manifest and tables to bytes, and back with every part checked."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quietfield.domain import Clique, Domain
from quietfield.errors import Error, FileError, Incomplete
from quietfield.files import (
    MANIFEST,
    MANIFEST_LIMIT,
    MISPLACED,
    SIGNATURE,
    TABLES,
    TABLES_LIMIT,
    canonical_json,
    content_digest,
    pack,
    parse_json,
    read_archive,
    unpack,
    write_archive,
)
from quietfield.privacy import units
from quietfield.privacy.accounting import parse_rational, write_rational
from quietfield.privacy.noise import noise_from_json
from quietfield.releases import keys
from quietfield.releases.release import Payment, PolicyInForce, Promise, Release, Table, Total
from quietfield.structures import Structure
from quietfield.text import join_names

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KIND, VERSION = "release", 1
#: Rationals in a manifest lie between 1 / REACH and REACH, so that floats can tell them.
REACH = 10**300


def write(release: Release, path: str | Path, key: "Ed25519PrivateKey | str | Path | None" = None) -> None:
    """Write a release to one file."""
    manifest, blob = pack(KIND, VERSION, to_json(release), [part.values for part in release.parts])
    members = {MANIFEST: manifest, TABLES: blob}
    if key is not None:
        members[SIGNATURE] = canonical_json(keys.sign(manifest, key))
    _check_signers(release, members)
    write_archive(path, members, time=release.created)


def sign(path: str | Path, key: "Ed25519PrivateKey | str | Path") -> Release:
    """Add a signature to the file of a release: the first, or the second by another key.

    Args:
        path: The release; its file is replaced, whole or not at all.
        key: A private key, or its PEM file.

    Returns:
        The release with both signatures.

    Raises:
        FileError: It has two signatures, or one by this key, or the policy under which it was made lists other keys.
    """
    release = read(path, complete=False)
    members = read_archive(path, "a quietfield release")
    signature: Any = keys.sign(members[MANIFEST], key, KIND)
    if SIGNATURE in members:
        signature = [parse_json(members[SIGNATURE], SIGNATURE), signature]
        keys.check_all(members[MANIFEST], signature, KIND)
    members[SIGNATURE] = canonical_json(signature)
    _check_signers(release, members)
    write_archive(path, members, time=release.created)
    return read(path, complete=False)


def _check_signers(release: Release, members: Mapping[str, bytes]) -> None:
    """Refuse to write a release without a signature, or with a stranger's, where a policy says who has to sign."""
    asked = () if release.policy is None else release.policy.signers
    found = keys.check_archive(members, KIND, "the release")
    if asked and not (found and set(found) <= set(asked)):
        raise FileError(
            f"the policy under which this release was made has it signed by two of {join_names(asked)}; save it with "
            "the "
            "private key of one of them."
        )


def check_room(domain: Domain, structure: Structure) -> None:
    """Refuse a release that no file takes. A curator asks before anything is charged.

    >>> check_room(Domain({"a": 2, "b": 2}), Structure((("a", "b"),)))
    """
    tables = len(structure.groups)
    cells = sum(domain.cells(group[0]) for group in structure.groups)
    words = len(canonical_json(domain.to_json())) + 3 * len(canonical_json(structure.cliques))  # and ties, and tables
    if words + 300 * tables + 2**16 > MANIFEST_LIMIT or 8 * cells + 100 * tables > TABLES_LIMIT:
        raise Error(
            f"a release of {tables:,} tables with {cells:,} cells, whose names and values take {words:,} bytes, is "
            "more than a file may hold; release fewer or smaller tables, or shorten names."
        )


def read(path: str | Path, trust: str | Path | Iterable[str | Path] | None = None, *, complete: bool = True) -> Release:
    """Read a release, check that its parts fit, and its signature if it has one (it must, where trust is asked for).

    One that still waits for a signature is refused, unless it need not be ``complete``.
    """
    members = read_archive(path, "a quietfield release")
    manifest, tables = unpack(members, KIND, VERSION, path)
    signers = keys.check_archive(members, KIND, path, trust)
    try:
        release = from_json(manifest, tables).with_signer(*signers or (None,))
        # Written once more, it must be the same: no field can be hidden anywhere, and no number spelled in another way.
        if canonical_json({**to_json(release), "kind": KIND, "version": VERSION}) != canonical_json(manifest):
            raise FileError("its manifest holds something that no release has, or holds it in another form.")
        if complete and not release.complete:
            raise Incomplete(
                f"{path} waits for a second signature, which the policy asks for under which it was made; have another "
                f"of its signers add it with: quietfield sign {path} --key SECOND.pem."
            )
        return release
    except Incomplete:
        raise
    except Error as error:
        raise FileError(f"{path}: {error}") from None
    except MISPLACED as error:
        raise FileError(f"{path} is damaged: its manifest lacks or misplaces something ({error!r:.100}).") from None


def digest(release: Release) -> str:
    """The SHA-256 in the manifest of a release's file, whether or not it has been written."""
    return content_digest(KIND, VERSION, to_json(release), [part.values for part in release.parts])


def to_json(release: Release) -> dict[str, Any]:
    """The manifest of a release. The exact number of units is in it only where that number is public."""
    promise, total = release.promise, release.total_part
    return {
        "id": release.id,
        "created": release.created,
        "package": release.package,
        "domain": release.domain.to_json(),
        "cliques": [list(clique) for clique in release.structure.cliques],
        "ties": [[list(clique) for clique in tie] for tie in release.structure.ties],
        "denominator": release.denominator,
        "tables": [
            {
                "cliques": [list(clique) for clique in part.cliques],
                "noise": part.noise.to_json(),
                "l1": _text(part.l1),
                "l2_squared": _text(part.l2_squared),
                "excluded": None if part.excluded is None else list(part.excluded),
            }
            for part in release.parts
        ],
        "total": None
        if total is None
        else {
            "value": total.value,
            "public": total.noise is None,
            "noise": None if total.noise is None else total.noise.to_json(),
            "l1": _text(total.l1),
        },
        "privacy": None
        if promise is None
        else {
            "epsilon": _text(promise.epsilon),
            "delta": _text(promise.delta),
            "rho": _text(promise.rho),
            "l1": _text(promise.l1),
            "l2_squared": _text(promise.l2_squared),
            "unit": dict(promise.unit),
            "protects": promise.protects,
            "neighbours": promise.neighbours,
        },
        "ledger": None
        if release.ledger is None
        else {"id": release.ledger.id, "number": release.ledger.number, "digest": release.ledger.digest},
        "notes": list(release.notes),
        **_policy_json(release.policy),  # releases without one are written as they always were
    }


def _policy_json(policy: PolicyInForce | None) -> dict[str, Any]:
    if policy is None:
        return {}
    return {"policy": {"name": policy.name, "digest": policy.digest, "signers": list(policy.signers)}}


def from_json(manifest: Mapping[str, Any], tables: list[Any]) -> Release:
    """A release from its manifest and arrays."""
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
        )
        for entry, values in zip(listed, tables, strict=True)
    )
    structure = Structure(
        tuple(_clique(c) for c in manifest["cliques"]),
        tuple(tuple(_clique(c) for c in tie) for tie in manifest["ties"]),
    )
    total = manifest["total"]
    privacy = manifest["privacy"]
    return Release(
        Domain.from_json(manifest["domain"]),
        structure,
        parts,
        None if total is None else _total(total),
        manifest["denominator"],
        None if privacy is None else _promise(privacy),
        tuple(_string(note) for note in manifest["notes"]),
        _string(manifest["id"]),
        _string(manifest["created"]),
        _string(manifest["package"]),
        None if manifest["ledger"] is None else _payment(manifest["ledger"]),
        policy=_policy(manifest["policy"]) if "policy" in manifest else None,
    )


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


def _clique(value: Any) -> Clique:
    if not isinstance(value, list):
        raise FileError("a clique is written as a list of attribute names.")
    return tuple(_string(name) for name in value)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise FileError(f"text was expected in the manifest, not {value!r:.60}.")
    return value


def _text(value: Fraction | None) -> str | None:
    return None if value is None else write_rational(value, "a rational of the release")


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
