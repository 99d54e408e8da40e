"""What an office allows: a small TOML file, named by the variable QUIETFIELD_POLICY, that every charge obeys.

It guards against mistakes and haste, not against a curator who controls their own environment. Whatever cannot be read
or understood refuses everything: a policy that is named is in force.
"""

import hashlib
import os
import tomllib
from dataclasses import dataclass, fields
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from quietfield.curator import anchors
from quietfield.curator.ledger import Ledger
from quietfield.errors import Error, PolicyRefused
from quietfield.files import check_writable, read_bytes
from quietfield.privacy.accounting import format_number, to_probability, to_rational
from quietfield.privacy.units import Neighbours, Person, Unit
from quietfield.releases import public_keys
from quietfield.releases.parts import PolicyInForce
from quietfield.text import join_names, type_name

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from quietfield.curator.charging import Price

VARIABLE = "QUIETFIELD_POLICY"
LIMIT = 2**16
NOISES = ("laplace", "gaussian", "psgd")


@dataclass(frozen=True)
class Policy:
    """What a policy file says; the fields are its keys, and those that it leaves out allow what they have here.

    ``max_epsilon`` and ``max_delta`` are for one release; where epsilon is limited and no ``max_delta`` is named, noise
    has to be pure. ``units`` are written ``rows``, ``rows:1``, ``person`` or ``person:user+day``, whose columns stand
    in any order; one whose name has a colon or a plus is allowed by ``person`` alone. ``signers`` are the files
    of public keys, two of which have to sign each release. In the folder ``anchors`` the end of each ledger is checked
    before a charge and written down after it.
    """

    name: str = ""
    max_epsilon: Fraction | None = None
    max_delta: Fraction | None = None
    require_ledger: bool = False
    units: tuple[str, ...] | None = None
    neighbours: tuple[str, ...] = ("add_remove", "replace")
    noise: tuple[str, ...] = NOISES
    signers: tuple[str, ...] = ()
    anchors: Path | None = None
    digest: str = ""

    @property
    def in_force(self) -> PolicyInForce:
        """What a release says of it."""
        return PolicyInForce(self.name, self.digest, self.signers)

    def check(self, price: "Price", ledger: Ledger | None) -> None:
        """Refuse what the policy does not allow; nothing is read or charged."""
        limit = self.max_epsilon
        if limit is not None and price.epsilon > limit:
            raise self._refusal(
                f"epsilon is at most {format_number(limit)}, and {format_number(price.epsilon)} is asked for"
            )
        if price.delta is not None and self.max_delta is None and limit is not None:
            raise self._refusal("it limits epsilon and names no max_delta, so that noise has to be pure (laplace)")
        if price.delta is not None and self.max_delta is not None and price.delta > self.max_delta:
            raise self._refusal(
                f"delta is at most {format_number(self.max_delta)}, and {format_number(price.delta)} is asked for"
            )
        if self.require_ledger and ledger is None:
            raise self._refusal("a ledger has to pay; name one with --ledger or ledger=")
        if self.units is not None and not any(_allows(text, price.unit) for text in self.units):
            raise self._refusal(f"units are {join_names(self.units)}, and what is protected here is {price.unit.who}")
        if price.neighbours not in self.neighbours:
            raise self._refusal(f"neighbours are {join_names(self.neighbours)}, not {price.neighbours!r}")
        if price.noise not in self.noise:
            raise self._refusal(f"noise is {join_names(self.noise)}, not {price.noise!r}")
        if self.signers and not price.signable:
            raise self._refusal("two have to sign, which only releases can carry; make a release")
        if self.anchors is not None and ledger is not None:
            path = self.anchors / f"{ledger.id}.json"
            check_writable(path)
            if path.exists():
                ledger.check_against({str(path): anchors.read_anchor(path)})
            elif ledger.charges:
                raise self._refusal(
                    f"{path} should tell where this ledger ends, and it is not there; find out why, then write it with "
                    "`quietfield ledger anchor`"
                )

    def check_signer(self, key: "Ed25519PrivateKey | None") -> None:
        """Refuse a release that nobody signs, or somebody who is not listed, where two have to sign."""
        if not self.signers:
            return
        if key is None:
            raise self._refusal("two of its signers have to sign; name the private key of one with --key")
        if (mark := public_keys.fingerprint(key.public_key())) not in self.signers:
            raise self._refusal(
                f"the key that --key names ({mark}) is not one of its signers; name the private key of one of them"
            )

    def write_anchor(self, ledger: Ledger) -> None:
        """Write down where a ledger ends after a charge, if the policy says where."""
        if self.anchors is not None:
            anchors.write_anchor(ledger, self.anchors / f"{ledger.id}.json")

    def _refusal(self, why: str) -> PolicyRefused:
        return PolicyRefused(
            f"the policy {self.name or os.environ[VARIABLE]!r} refuses this: {why}. Nothing was charged."
        )


def read_policy() -> Policy | None:
    """The policy in force: that of the file which QUIETFIELD_POLICY names, or None if the variable is not set.

    Returns:
        The policy, read anew each time.

    Raises:
        PolicyRefused: The file cannot be read, or says something that is not understood.
    """
    named = os.environ.get(VARIABLE)
    if named is None:
        return None
    if not named:
        raise PolicyRefused(
            f"{VARIABLE} is set and empty, so nothing may be released: name the file of a policy, or unset it."
        )
    try:
        data = read_bytes(named, LIMIT)
        content = tomllib.loads(data.decode(), parse_float=str)
        known = [field.name for field in fields(Policy) if field.name != "digest"]
        for key in content:
            if key not in known:
                near = get_close_matches(key, known, 1)
                meant = f"did you mean {near[0]!r}?" if near else f"expected some of {join_names(known, 20)}."
                raise Error(f"it says {key!r:.60}, which is not known here; {meant}")
        values = {key: _read_value(key, value, Path(named).parent) for key, value in content.items()}
        return Policy(**values, digest=hashlib.sha256(data).hexdigest())
    except (Error, ValueError, RecursionError) as error:  # TOML raises the latter two, UTF-8 the second
        raise PolicyRefused(
            f"the policy {named!r}, which {VARIABLE} names, cannot be used, so nothing may be released: {error}"
        ) from None


def _read_value(key: str, value: Any, folder: Path) -> Any:
    if key in ("max_epsilon", "max_delta"):
        if type(value) not in (int, str):  # decimals are read as texts, digit by digit
            raise Error(f"{key} is a number, not {type_name(value)}.")
        return to_rational(value, key) if key == "max_epsilon" else to_probability(value, key)
    if key == "require_ledger":
        if not isinstance(value, bool):
            raise Error(f"{key} is true or false, not {type_name(value)}.")
        return value
    if key in ("name", "anchors"):
        if not isinstance(value, str) or "\0" in value:
            raise Error(f"{key} is a text without a zero character, not {type_name(value)}.")
        return folder / value if key == "anchors" else value
    if type(value) is not list or not all(type(one) is str for one in value):
        raise Error(f"{key} is a list of texts, not {type_name(value)}.")
    known = {"neighbours": get_args(Neighbours), "noise": NOISES}.get(key)
    if known is not None and (other := [one for one in value if one not in known]):
        raise Error(f"{key} lists {join_names(other)}; expected some of {join_names(known)}.")
    if key == "units":
        for text in value:
            _parse_unit(text)
    if key == "signers":
        signers = tuple(dict.fromkeys(public_keys.fingerprint(public_keys.load_public(folder / one)) for one in value))
        if len(signers) < 2:
            raise Error("signers lists the public keys of two persons or more, of whom two have to sign.")
        return signers
    return tuple(value)


def _parse_unit(text: str) -> tuple[str, int | frozenset[str] | None]:
    """The kind of unit that a policy names, and the number of rows or the columns of a person; None for any."""
    kind, colon, rest = text.partition(":")
    if kind in ("rows", "person") and not colon:
        return kind, None
    if kind == "rows" and rest.isascii() and rest.isdigit() and not rest.startswith("0"):
        return kind, int(rest)
    if kind == "person" and ":" not in rest and all(columns := rest.split("+")):
        return kind, frozenset(columns)
    raise Error(f"units lists {text!r:.60}; expected some of rows, rows:1, person, person:user, person:user+day.")


def _allows(text: str, unit: Unit) -> bool:
    """Whether a unit is one of those that a policy names by a text."""
    kind, which = _parse_unit(text)
    if isinstance(unit, Person):
        return kind == "person" and which in (None, frozenset(unit.columns))
    return kind == "rows" and which in (None, unit.rows)
