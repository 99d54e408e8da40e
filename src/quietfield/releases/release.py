"""Release: noisy tables and everything that is needed to use them. It holds nothing private and needs no OpenDP.

One file holds a release: a manifest in canonical JSON and the tables as integers, in a zip (see ``files.py``), with an
Ed25519 signature of the manifest if the curator wants one. The manifest carries a digest of the tables.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quietfield.domain import Clique, Domain
from quietfield.errors import Error
from quietfield.privacy import accounting
from quietfield.privacy.noise import Gaussian, Laplace, Noise
from quietfield.releases.checks import PAPER_NOTE as PAPER_NOTE
from quietfield.releases.checks import check_parts, check_promise
from quietfield.structures import Structure
from quietfield.text import facts_html, join_names, plural, printable

if TYPE_CHECKING:
    import numpy as np
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True, eq=False)
class Table:
    """One noisy table: the cliques that it sums (tied cliques share one), its values in steps, its noise, its share of
    the sensitivity (None if noised elsewhere), and the cell that was not counted, if any: it holds noise alone."""

    cliques: tuple[Clique, ...]
    values: "np.ndarray"
    noise: Noise
    l1: Fraction | None = None
    l2_squared: Fraction | None = None
    excluded: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Total:
    """The number of records, in steps. ``noise`` is None where the number is public."""

    value: int | float
    noise: Noise | None
    l1: Fraction | None = None


@dataclass(frozen=True)
class Promise:
    """What is promised: epsilon alone (pure) or epsilon and delta (by rho-zCDP), and the sensitivity behind it."""

    epsilon: Fraction
    delta: Fraction | None
    rho: Fraction | None
    l1: Fraction
    l2_squared: Fraction
    unit: Mapping[str, Any]
    protects: str
    neighbours: str


@dataclass(frozen=True)
class Payment:
    """The line of a ledger that paid: which ledger, which line, and the digest of all lines up to it."""

    id: str
    number: int
    digest: str


@dataclass(frozen=True)
class PolicyInForce:
    """The policy under which a release was made: its name, the SHA-256 of its file, and of whom two have to sign."""

    name: str
    digest: str
    signers: tuple[str, ...] = ()


class Tables(Mapping[Clique, "np.ndarray"]):
    """The tables by clique, as floats, axes in the order asked for.

    Iterating gives the first clique of each table; any tied clique and any order of its attributes can be looked up.
    """

    def __init__(self, parts: tuple[Table, ...], denominator: int) -> None:
        self._parts, self._denominator = parts, denominator
        self._places = {frozenset(c): (i, c) for i, part in enumerate(parts) for c in part.cliques}

    def __getitem__(self, clique: str | Iterable[str]) -> "np.ndarray":
        wanted = (clique,) if isinstance(clique, str) else tuple(clique)
        if frozenset(wanted) not in self._places or len(set(wanted)) != len(wanted):
            raise Error(f"there is no table of {wanted}; expected one of {join_names(self)}.")
        i, stored = self._places[frozenset(wanted)]
        table = self._parts[i].values / self._denominator
        return table.transpose([stored.index(name) for name in wanted])

    def __contains__(self, clique: object) -> bool:
        return (
            isinstance(clique, str | tuple)
            and frozenset((clique,) if isinstance(clique, str) else clique) in self._places
        )

    def __iter__(self) -> Iterator[Clique]:
        return (part.cliques[0] for part in self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __repr__(self) -> str:
        return f"Tables({join_names(self)})"


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """Noisy tables, safe to publish.

    ``tables[clique]`` is a noisy table as an array, ``total`` the noisy number of records (or None, or the public
    number), ``noise[clique]`` the noise of a table. ``epsilon``, ``delta``, ``unit`` and ``neighbours`` say what is
    promised; they are None for tables that were noised elsewhere.

    >>> domain = Domain({"a": 2, "b": 2})
    >>> release = Release.from_tables(domain, {("a", "b"): [[3.2, 1.0], [0.4, 9.9]]}, noise=Laplace(scale=2.0))
    >>> float(release.tables["b", "a"][0, 1])
    0.4
    """

    domain: Domain
    structure: Structure
    parts: tuple[Table, ...]
    total_part: Total | None = None
    denominator: int = 1
    promise: Promise | None = None
    notes: tuple[str, ...] = ()
    id: str = ""
    created: str = ""
    package: str = ""
    ledger: Payment | None = None
    signer: str | None = field(default=None)
    second_signer: str | None = field(default=None)
    policy: PolicyInForce | None = None

    def __post_init__(self) -> None:
        check_parts(self)

    @classmethod
    def from_tables(
        cls,
        domain: Domain,
        tables: "Mapping[Any, Any]",
        noise: "Noise | Mapping[Any, Noise]",
        total: float | None = None,
        total_noise: Noise | None = None,
        ties: Iterable[Iterable[Any]] | None = None,
    ) -> "Release":
        """A release of tables that were noised elsewhere; whether they are private is for whoever noised them to say.

        ``noise`` is one noise for all tables or a mapping of cliques to noise. A tie is a group of cliques that share
        one table, given under its first clique. Without ``total_noise``, ``total`` counts as public and exact.
        """
        import numpy as np

        if not isinstance(tables, Mapping):
            raise Error("tables must map cliques to arrays, for instance {('a', 'b'): array}.")
        given = {((c,) if isinstance(c, str) else tuple(c)): y for c, y in tables.items()}
        groups = tuple(tuple((c,) if isinstance(c, str) else tuple(c) for c in tie) for tie in ties or ())
        tied = {group[0]: group for group in groups if group}
        for name in tied:
            if name not in given:
                raise Error(f"the tie of {name} has no table; give its table under its first clique.")
        structure = Structure(tuple(c for name in given for c in tied.get(name, (name,))), groups)
        structure.check(domain)
        parts = []
        for clique, y in given.items():
            one = _noise_of(noise, clique)
            try:
                values = np.asarray(y)
                if np.iscomplexobj(values):
                    raise TypeError
                values = np.array(values, dtype=np.float64)
            except (TypeError, ValueError):
                raise Error(f"the table of {clique} is not an array of numbers.") from None
            parts.append(Table(tied.get(clique, (clique,)), values, one))
        if isinstance(noise, Mapping):
            unknown = [c for c in noise if ((c,) if isinstance(c, str) else tuple(c)) not in given]
            if unknown:
                raise Error(f"noise names {join_names(unknown)}, which have no table; name cliques of the tables.")
        if total is None and total_noise is not None:
            raise Error("total_noise is given without a total; give both, or neither.")
        count = None if total is None else Total(float(total), total_noise)
        if count is not None and count.noise is None and count.value < 0:
            raise Error(f"a public total is 0 or more, not {count.value:g}; give total_noise if it is a noisy one.")
        return cls(domain, structure, tuple(parts), count, notes=("noised elsewhere: nothing is promised here",))

    @cached_property
    def tables(self) -> Tables:
        """The noisy tables by clique, as float arrays."""
        return Tables(self.parts, self.denominator)

    @property
    def noise(self) -> dict[Clique, Noise]:
        """The noise of each table, by its first clique."""
        return {part.cliques[0]: part.noise for part in self.parts}

    @property
    def total(self) -> float | None:
        """The noisy number of records, weighted as the unit weighs them; exact where public; None if not released."""
        return None if self.total_part is None else self.total_part.value / self.denominator

    @property
    def total_noise(self) -> Noise | None:
        """The noise of the total; None where there is none or it is public."""
        return None if self.total_part is None else self.total_part.noise

    @property
    def total_is_public(self) -> bool:
        """Whether the total is an exact and public number."""
        return self.total_part is not None and self.total_part.noise is None

    @property
    def epsilon(self) -> float | None:
        """The epsilon that is promised (``promise.epsilon`` is exact), or None if nothing is."""
        return None if self.promise is None else float(self.promise.epsilon)

    @property
    def delta(self) -> float | None:
        """The delta that is promised, or None for pure differential privacy."""
        return None if self.promise is None or self.promise.delta is None else float(self.promise.delta)

    @property
    def unit(self) -> dict[str, Any] | None:
        """Who or what is protected, as ``to_json`` of the unit writes it."""
        return None if self.promise is None else dict(self.promise.unit)

    @property
    def neighbours(self) -> str | None:
        """Which data sets are hard to tell apart: add_remove, replace or paper."""
        return None if self.promise is None else self.promise.neighbours

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the manifest and all tables, which the file carries: models name their release by it."""
        from quietfield.releases import manifest as manifests

        return manifests.digest(self)

    @property
    def signed(self) -> bool:
        """Whether the release was loaded from a file with a valid signature."""
        return self.signer is not None

    @property
    def signers(self) -> tuple[str, ...]:
        """The fingerprints of the keys that signed the file it was read from."""
        return tuple(one for one in (self.signer, self.second_signer) if one is not None)

    @property
    def complete(self) -> bool:
        """Whether it has the signatures that the policy asked for under which it was made."""
        asked = () if self.policy is None else self.policy.signers
        return not asked or {self.signer, self.second_signer} <= set(asked)

    def save(self, path: str | Path, key: "Ed25519PrivateKey | str | Path | None" = None) -> None:
        """Write the release to one file, whole or not at all, signed if a private key (or its PEM file) is given.

        One that was loaded from a signed file is not written without a key: that would take its signature off.
        """
        from quietfield.releases import manifest as manifests

        if self.signed and key is None:
            raise Error(
                f"this release is signed by {self.signer}, and a file written without that key would not be; copy the "
                "file as it is, sign again with key=..., or say release.with_signer(None) to leave the signature out."
            )
        manifests.write(self, path, key)

    @classmethod
    def load(cls, path: str | Path, trust: str | Path | Iterable[str | Path] | None = None) -> "Release":
        """Read a release. With ``trust`` (public key files), only one that is signed by one of these keys."""
        from quietfield.releases import manifest as manifests

        return manifests.read(path, trust)

    def check_promise(self) -> tuple[str, ...]:
        """Recompute the promise from noise and sensitivity; the findings in words, or an error if it does not hold."""
        return check_promise(self)

    def with_signer(self, signer: str | None, second: str | None = None) -> "Release":
        """The same release, marked as signed by a key, or by two."""
        return replace(self, signer=signer, second_signer=second)

    def _facts(self) -> list[tuple[str, str]]:
        cells = sum(part.values.size for part in self.parts)
        facts = [
            (
                "tables",
                f"{len(self.parts)} of {plural(len(self.structure), 'clique')}, {plural(cells, 'cell')}, "
                f"{plural(len(self.domain), 'attribute')}",
            ),
            (
                "noise",
                ", ".join(dict.fromkeys(repr(part.noise) for part in self.parts[:20]))
                + (" ..." if len(self.parts) > 20 else ""),
            ),
        ]
        if self.total_part is None:
            facts.append(("total", "not released"))
        else:
            how = "public" if self.total_is_public else f"noisy, {self.total_noise!r}"
            value = float(self.total_part.value)
            facts.append(("total", f"{value:{',.0f' if abs(value) >= 100 else '.4g'}} ({how})"))
        if self.promise is not None:
            delta = "" if self.promise.delta is None else f", delta {accounting.format_number(self.promise.delta)}"
            facts.append(
                (
                    "promise",
                    f"epsilon {accounting.format_number(self.promise.epsilon)}{delta}, {self.promise.neighbours}",
                )
            )
            facts.append(("protects", self.promise.protects))
        both = "by " + " and ".join(self.signers)
        facts.append(("signed", (both if self.signed else "no") + ("" if self.complete else ", NOT COMPLETE")))
        if self.policy is not None:
            facts.append(("policy", self.policy.name or self.policy.digest))
        return facts + [("note", note) for note in self.notes]

    def __repr__(self) -> str:
        return "Release\n" + "\n".join(f"  {name:<9} {printable(text)}" for name, text in self._facts())

    def _repr_html_(self) -> str:
        return facts_html("Release", self._facts())


def _noise_of(noise: object, clique: Clique) -> Noise:
    if isinstance(noise, Mapping):
        found = {((c,) if isinstance(c, str) else tuple(c)): one for c, one in noise.items()}
        if clique not in found:
            raise Error(f"no noise is given for {clique}; name every clique, or give one noise for all.")
        noise = found[clique]
    if not isinstance(noise, Laplace | Gaussian):
        raise Error(f"noise must be Laplace(scale=...) or Gaussian(scale=...), not {noise!r}.")
    return noise
