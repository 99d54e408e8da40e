"""What an answer of a model rests on: a published table, the model's inference from others, or nothing measured."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quietfield.models.model import Model

COUNTED = "learned from published noisy tables of these attributes"
INFERRED = "the model's inference: no published table joins these attributes"
UNMEASURED = "not measured: no published table holds one of these attributes, its values are taken as equally likely"


def describe_basis(model: "Model", attributes: Iterable[str]) -> str:
    """What the joint distribution of some attributes rests on: ``COUNTED``, ``INFERRED`` or ``UNMEASURED``.

    What follows from it, such as a distribution of some of them given the others, rests on the same.
    """
    wanted = set(attributes)
    held = set(model.structure.attributes)
    if any(model.domain.size(name) > 1 for name in wanted - held):
        return UNMEASURED
    joined = len(wanted) == 1 or model.structure.joins(wanted)
    return COUNTED if joined else INFERRED
