"""How a model is written down and read again: one file, without pickle, every part of it checked."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quietfield.archives import MISPLACED, SIGNATURE, TABLES, pack, read_archive, unpack, write_archive
from quietfield.domain import Domain
from quietfield.errors import Error, FileError
from quietfield.files import MANIFEST, canonical_json
from quietfield.learning.covariance import Draws
from quietfield.models.fit_report import FitReport
from quietfield.models.uncertainty import Uncertainty
from quietfield.releases import keys
from quietfield.schema import Schema

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from quietfield.models.model import Model

KIND, VERSION = "model", 1


def write_model(model: "Model", path: str | Path, key: "Ed25519PrivateKey | str | Path | None") -> None:
    """Write a model to a file, signed if a key is given; see :meth:`Model.save`."""
    drawn = model._drawn or ()
    manifest, tables = pack(KIND, VERSION, list_content(model), [*model.potentials.values(), *drawn])
    members = {MANIFEST: manifest, TABLES: tables}
    if key is not None:
        members[SIGNATURE] = canonical_json(keys.sign(manifest, key, KIND))
    write_archive(path, members)


def list_content(model: "Model") -> dict[str, Any]:
    """What the manifest of a model's file says."""
    return {
        "domain": model.domain.to_json(),
        "cliques": [list(clique) for clique in model.cliques],
        "method": model.inference,
        "options": dict(model.options),
        "report": None if model.report is None else model.report.to_json(),
        "uncertainty": None if model.uncertainty is None else model.uncertainty.to_json(),
        # Models without one are written as they always were.
        **({} if model.schema is None else {"rules": model.schema.list_rules()}),
        **({} if model._drawn is None else {"errors": True}),
    }


def read_model(kind: "type[Model]", path: str | Path, trust: str | Path | Iterable[str | Path] | None) -> "Model":
    """A model from a file; see :meth:`Model.load`."""
    members = read_archive(path, "a quietfield model")
    manifest, tables = unpack(members, KIND, VERSION, path)
    signers = keys.check_archive(members, KIND, path, trust)
    if len(signers) > 1:
        raise FileError(f"{path} has two signatures, and a model has one; get a fresh copy of the file.")
    report, uncertainty = manifest.get("report"), manifest.get("uncertainty")
    try:
        cliques = [tuple(clique) for clique in manifest["cliques"]]
        drawn = len(Draws._fields) if "errors" in manifest else 0
        if len(cliques) + drawn != len(tables):
            raise FileError(f"it lists {len(cliques)} cliques and holds {len(tables) - drawn} tables.")
        tables, errors = tables[: len(cliques)], tables[len(cliques) :]
        if any(table.dtype != "float64" for table in tables):
            raise FileError("its log-potentials are not 64-bit floats.")
        domain = Domain.from_json(manifest["domain"])
        model = kind(
            domain,
            dict(zip(cliques, tables, strict=True)),
            inference=manifest["method"],
            options=manifest["options"],
            report=None if report is None else FitReport.from_json(report),
            uncertainty=None if uncertainty is None else Uncertainty.from_json(uncertainty),
            schema=Schema.from_rules(manifest["rules"], domain) if "rules" in manifest else None,
        )
        if model.uncertainty is not None:
            model.uncertainty.check(model.domain, model.cliques)
        if errors:
            model._drawn = Draws(*errors)
            if model.uncertainty is None or not model._drawn.fits(model.uncertainty.parameters(domain)):
                raise FileError("the errors that it keeps for intervals are not those of its log-potentials.")
        # Written once more, it must be the same: nothing can be hidden, or spelled in another way.
        if canonical_json({**list_content(model), "kind": KIND, "version": VERSION}) != canonical_json(manifest):
            raise FileError("its manifest holds something that no model has, or holds it in another form.")
    except (*MISPLACED, Error) as error:
        raise FileError(f"{path} is damaged or was altered: {error}") from None
    model.signer = signers[0] if signers else None
    return model
