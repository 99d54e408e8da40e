"""How a fit went: a plain record, without JAX, so that a model file can hold it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from quietfield.errors import Error

#: The advice after an interrupt.
INTERRUPTED = "the fit was interrupted; this is the best so far. Run it again to let it end."


@dataclass(frozen=True)
class FitReport:
    """How a fit went. ``advice`` says what to do where it did not converge, learned nothing or was led astray, and
    is else empty.

    ``release`` is the id of the release that was fitted, where it has one, and ``release_digest`` its digest.
    """

    method: str
    inference: str
    rounds: int
    steps: int
    objective: float
    total: float
    converged: bool
    seconds: float
    advice: str = ""
    release: str = ""
    release_digest: str = ""

    @property
    def interrupted(self) -> bool:
        """Whether the fit was interrupted from the keyboard, and this is the best so far."""
        return INTERRUPTED in self.advice

    def to_json(self) -> dict[str, Any]:
        """The report as JSON can hold it: numbers that are not finite become null, a digest is there if it is known."""
        content = asdict(self)
        if not self.release_digest:
            del content["release_digest"]
        return {name: None if value != value or value in _INFINITE else value for name, value in content.items()}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "FitReport":
        """The report that :meth:`to_json` wrote down."""
        expected = {field.name: field.type for field in fields(cls)}
        if isinstance(content, Mapping) and "release_digest" not in content:
            content = {**content, "release_digest": ""}
        if not isinstance(content, Mapping) or set(content) != set(expected):
            raise Error(f"a fit report holds {', '.join(expected)}; this one does not.")
        return cls(**{name: _read(name, content[name], kind) for name, kind in expected.items()})


_INFINITE = (float("inf"), float("-inf"))


def _read(name: str, value: Any, kind: Any) -> Any:
    if kind is float:
        if value is None:
            return float("nan")
        if isinstance(value, int) and not isinstance(value, bool):
            return float(value)
    if type(value) is not kind:
        raise Error(f"a fit report's {name} is a {kind.__name__}, not {value!r}.")
    return value
