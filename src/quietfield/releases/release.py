"""Release: noisy tables and everything that is needed to use them. It holds nothing private and needs no OpenDP.

One file holds a release: a manifest in canonical JSON and the tables as integers, in a zip (see ``files.py``), with an
Ed25519 signature of the manifest if the curator wants one. The manifest carries a digest of the tables.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quietfield.archives import MISPLACED, SIGNATURE, TABLES, content_digest, pack, read_archive, unpack, write_archive
from quietfield.cliques import Structure
from quietfield.domain import Clique, Domain
from quietfield.errors import Error, FileError, Incomplete
from quietfield.files import MANIFEST, canonical_json, parse_json
from quietfield.privacy import accounting
from quietfield.privacy.noise import Gaussian, Laplace, Noise, describe_noises
from quietfield.releases import keys, manifest
from quietfield.releases.checks import check_promise
from quietfield.releases.parts import ReleaseContent, Table, Total
from quietfield.releases.tables import Tables
from quietfield.text import facts_html, join_names, plural, printable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


KIND, VERSION = "release", 1


@dataclass(frozen=True, eq=False, repr=False)
class Release(ReleaseContent):
    """Noisy tables, safe to publish.

    ``tables[clique]`` is a noisy table as an array, ``total`` the noisy number of records (or None, or the public
    number), ``noise[clique]`` the noise of a table. ``epsilon``, ``delta``, ``unit`` and ``neighbours`` say what is
    promised; they are None for tables that were noised elsewhere. ``schema`` says how columns became attributes, where
    that is known: it is public, and synthetic records are written by it.

    >>> domain = Domain({"a": 2, "b": 2})
    >>> release = Release.from_tables(domain, {("a", "b"): [[3.2, 1.0], [0.4, 9.9]]}, noise=Laplace(scale=2.0))
    >>> float(release.tables["b", "a"][0, 1])
    0.4
    """

    signer: str | None = None
    second_signer: str | None = None

    @classmethod
    def of(cls, content: ReleaseContent) -> "Release":
        """The release of what a curator has made.

        Args:
            content: Noisy or public numbers, and what is said of them.

        Returns:
            The release, which nobody has signed.
        """
        return cls(**{part.name: getattr(content, part.name) for part in fields(ReleaseContent)})

    @classmethod
    def from_tables(
        cls,
        domain: Domain,
        tables: Mapping[Any, Any],
        noise: Noise | Mapping[Any, Noise],
        total: float | None = None,
        total_noise: Noise | None = None,
        ties: Iterable[Iterable[Any]] | None = None,
    ) -> "Release":
        """A release of tables that were noised elsewhere; whether they are private is for whoever noised them to say.

        Args:
            domain: The attributes and their values.
            tables: Noisy arrays by clique.
            noise: One noise for all tables, or noises by clique.
            total: The number of records; without ``total_noise`` it counts as public and exact.
            total_noise: The noise of the total.
            ties: Groups of cliques that share one table, given under the first clique of its group.

        Returns:
            The release, which promises nothing.

        Raises:
            Error: Tables, noise, ties and domain do not fit together.
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
        return Tables(self.parts, self.denominator, self.total)

    @cached_property
    def interactions(self) -> dict[Clique, float]:
        """The noisy interactions that were measured apart: see :class:`quietfield.Structure`."""
        return {part.cliques[0]: float(part.values) / self.denominator for part in self.parts if part.interaction}

    @property
    def noise(self) -> dict[Clique, Noise]:
        """The noise of each table, by its first clique; of an interaction measured apart, that of its number."""
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
        return content_digest(KIND, VERSION, manifest.to_json(self), [part.values for part in self.parts])

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

    def check_complete(self, name: str | Path = "this release") -> None:
        """Refuse a release that waits for a signature which the policy asked for under which it was made.

        Args:
            name: What the message calls the release: the path of its file, if it has one.

        Raises:
            Incomplete: It waits for a signature.

        >>> from quietfield.releases.parts import PolicyInForce
        >>> domain = Domain({"a": 2})
        >>> release = Release.from_tables(domain, {"a": [5, 7]}, noise=Laplace(2.0))
        >>> replace(release, policy=PolicyInForce("office", "", ("anna", "ben"))).check_complete("visits.qfr")
        Traceback (most recent call last):
        quietfield.errors.Incomplete: visits.qfr waits for its two signatures: ...
        """
        if self.complete:
            return
        waits, first = "its two signatures", "Save it with the private key of one of its signers, and have another sign"
        if self.signed:
            waits, first = "a second signature", "Have another of its signers add it"
        raise Incomplete(
            f"{name} waits for {waits}: the policy under which it was made has two persons sign. {first} with: "
            f"quietfield sign {name if self.signed else 'FILE'} --key SECOND.pem."
        )

    def save(self, path: str | Path, key: "Ed25519PrivateKey | str | Path | None" = None) -> None:
        """Write the release to one file, whole or not at all.

        One that was loaded from a signed file is not written without a key: that would take its signature off.

        Args:
            path: The file; one that is there is replaced.
            key: A private key, or its PEM file, that signs it.

        Raises:
            FileError: The file cannot be written, or the policy under which the release was made asks for another key.
            Error: It was signed, and no key is given.
        """
        if self.signed and key is None:
            raise Error(
                f"this release is signed by {' and '.join(self.signers)}, and a file written without a key would not "
                "be; copy the file as it is, sign again with key=..., or say release.with_signer(None) to leave the "
                "signature out."
            )
        content, tables = pack(KIND, VERSION, manifest.to_json(self), [part.values for part in self.parts])
        members = {MANIFEST: content, TABLES: tables}
        if key is not None:
            members[SIGNATURE] = canonical_json(keys.sign(content, key, KIND))
        self._write(path, members)

    @classmethod
    def load(
        cls, path: str | Path, trust: str | Path | Iterable[str | Path] | None = None, *, complete: bool = True
    ) -> "Release":
        """Read a release and check that its parts fit, and its signature if it has one.

        Args:
            path: The file.
            trust: Public key files: only a release that one of these keys signed is read. Where the policy under which
                it was made has two persons sign, both have to be among them.
            complete: Whether a release that waits for its second signature is refused.

        Returns:
            The release.

        Raises:
            NotSigned: It is not signed, and ``trust`` is given.
            OtherSigner: None of the keys in ``trust`` signed it, or one of two persons is not among them.
            Incomplete: It waits for its second signature.
            FileError: The file is missing, damaged, foreign or of another version.
        """
        return cls._read(read_archive(path, "a quietfield release"), path, trust, complete)

    @classmethod
    def _read(
        cls,
        members: Mapping[str, bytes],
        path: str | Path,
        trust: str | Path | Iterable[str | Path] | None = None,
        complete: bool = False,
    ) -> "Release":
        """The release in an archive; see :meth:`load`."""
        trust = None if trust is None else keys.list_paths(trust)
        content, tables = unpack(members, KIND, VERSION, path)
        signers = keys.check_archive(members, KIND, path, trust)
        try:
            release = cls(**manifest.fields_from_json(content, tables)).with_signer(*signers or (None,))
            # Written once more, it must be the same: no field can be hidden anywhere, and no number spelled otherwise.
            if canonical_json({**manifest.to_json(release), "kind": KIND, "version": VERSION}) != canonical_json(
                content
            ):
                raise FileError("its manifest holds something that no release has, or holds it in another form.")
        except Error as error:
            raise FileError(f"{path}: {error}") from None
        except MISPLACED as error:
            raise FileError(f"{path} is damaged: its manifest lacks or misplaces something ({error!r:.100}).") from None
        release.check_trust(trust, path)
        if complete:
            release.check_complete(path)
        return release

    @classmethod
    def add_signature(
        cls, path: str | Path, key: "Ed25519PrivateKey | str | Path", *, digest: str | None = None
    ) -> "Release":
        """Add a signature to the file of a release: the first, or the second by another key.

        Args:
            path: The release; its file is replaced, whole or not at all.
            key: A private key, or its PEM file.
            digest: The :attr:`digest` of the release that the signer looked at; another is not signed.

        Returns:
            The release with its signatures.

        Raises:
            FileError: It has two signatures, or one by this key, or the policy under which it was made lists others; or
                it is not the release of this digest.

        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> private, public = keys.create_keys(folder + "/curator.pem")
        >>> release = Release.from_tables(Domain({"a": 2}), {"a": [5, 7]}, noise=Laplace(2.0))
        >>> release.save(folder + "/r.qfr")
        >>> Release.add_signature(folder + "/r.qfr", private, digest=release.digest).signed
        True
        """
        members = dict(read_archive(path, "a quietfield release"))  # once: what is checked is what is signed
        release = cls._read(members, path)
        if digest is not None and release.digest != digest:
            raise FileError(f"{path} was replaced since it was shown: look at it again before you sign.")
        if len(release.signers) > 1:
            raise FileError(
                f"{path} has both its signatures, by {' and '.join(release.signers)}; there is nothing left to sign."
            )
        signature: Any = keys.sign(members[MANIFEST], key, KIND)
        if SIGNATURE in members:
            signature = [parse_json(members[SIGNATURE], SIGNATURE), signature]
            keys.check_all(members[MANIFEST], signature, KIND)
        members[SIGNATURE] = canonical_json(signature)
        release._write(path, members)
        return cls._read(members, path)

    def _write(self, path: str | Path, members: dict[str, bytes]) -> None:
        """Write an archive, unless it lacks a signature, or has a stranger's, where a policy says who has to sign."""
        asked = () if self.policy is None else self.policy.signers
        found = keys.check_archive(members, KIND, "the release")
        if asked and not (found and set(found) <= set(asked)):
            raise FileError(
                f"the policy under which this release was made has it signed by two of {join_names(asked)}; save it "
                "with the private key of one of them."
            )
        write_archive(path, members, time=self.created)

    def check_trust(
        self, trust: str | Path | Iterable[str | Path] | None, name: str | Path = "this release", least: int = 1
    ) -> tuple[str, ...]:
        """Refuse a release that these keys did not sign.

        One trusted signature is enough, unless the policy under which it was made has two persons sign: then both have
        to be trusted.

        Args:
            trust: Public key files; None asks for nothing.
            name: What messages call the release.
            least: How many of the keys must have signed it.

        Returns:
            The fingerprints of the trusted keys that signed it.

        Raises:
            NotSigned, OtherSigner, TooFewSignatures: It is not signed so.
        """
        if trust is None:
            return ()
        two_persons = self.policy is not None and bool(self.policy.signers)
        return keys.check_trust(self.signers, trust, name, every=two_persons, least=least)

    def check_promise(self) -> tuple[str, ...]:
        """Recompute the promise from noise and sensitivity; the findings in words, or an error if it does not hold."""
        return check_promise(self)

    def with_signer(self, signer: str | None, second: str | None = None) -> "Release":
        """The same release, marked as signed by a key, or by two.

        Args:
            signer: The fingerprint of the key; None leaves signatures out.
            second: That of a second key.

        Returns:
            A copy.
        """
        return replace(self, signer=signer, second_signer=second)

    def _facts(self) -> list[tuple[str, str]]:
        cells = sum(part.values.size for part in self.parts if not part.interaction)
        numbers = len(self.structure.interactions)
        facts = [
            (
                "tables",
                f"{len(self.parts) - numbers} of {plural(len(self.structure) - numbers, 'clique')}, "
                f"{plural(cells, 'cell')}, {plural(len(self.domain), 'attribute')}"
                + (f", and {plural(numbers, 'interaction')} measured apart" if numbers else "")
                if cells
                else f"{plural(numbers, 'interaction')} measured apart, {plural(len(self.domain), 'attribute')}",
            ),
            ("noise", describe_noises([part.noise for part in self.parts])),
        ]
        if self.total is None:
            facts.append(("total", "not released"))
        else:
            how = "public" if self.total_noise is None else f"noisy, {self.total_noise.describe()}"
            value = float(self.total)
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
