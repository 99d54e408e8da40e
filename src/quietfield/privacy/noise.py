"""Laplace and Gaussian noise: its exact scale, its spread and its log-density. Nothing is drawn here."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import exp, expm1, fsum, isfinite, log, pi, sqrt
from typing import Any, ClassVar

from quietfield.errors import Error
from quietfield.privacy.accounting import parse_rational, write_rational
from quietfield.text import facts_html


@dataclass(frozen=True)
class _Noise:
    """A scale, kept as the float and as the exact rational, and the step of the grid that the noise lives on.

    ``step`` is 0 for continuous noise and 1/denominator for exact discrete noise.
    """

    scale: float
    step: Fraction = Fraction(0)
    exact: Fraction = field(init=False, repr=False)
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "exact", _exact(self.scale, f"the scale of {type(self).__name__} noise", zero=False))
        object.__setattr__(self, "scale", float(self.exact))
        object.__setattr__(self, "step", _exact(self.step, "the step of discrete noise", zero=True))
        if not 1e-150 < self.scale < 1e150:  # its square is a float too
            raise Error(f"the scale of {type(self).__name__} noise is out of range; scale the tables instead.")

    @property
    def std(self) -> float:
        """The standard deviation."""
        return sqrt(self.variance)

    @property
    def variance(self) -> float:
        """The variance, that of the discrete distribution where there is a step."""
        raise NotImplementedError

    def log_density(self, z: Any) -> Any:
        """The log-density at z; numbers, numpy and JAX arrays will do. Probabilities are divided by the step.

        Args:
            z: A number or an array of them.

        Returns:
            The logarithm of the density, of the same shape.
        """
        raise NotImplementedError

    def describe(self) -> str:
        """The noise in words.

        Returns:
            Its kind, its scale and its standard deviation.

        >>> Laplace(18, step=1).describe()
        'discrete Laplace of scale 18 (standard deviation 25.5)'
        """
        exact = "discrete " if self.step else ""
        return f"{exact}{self.kind.capitalize()} of scale {self.scale:.4g} (standard deviation {self.std:.3g})"

    def to_json(self) -> dict[str, str]:
        """A plain dictionary with the exact scale."""
        return {
            "kind": self.kind,
            "scale": write_rational(self.exact, "the scale of noise"),
            "step": write_rational(self.step, "the step of noise"),
        }

    def _repr_html_(self) -> str:
        step = str(self.step) if self.step else "none: continuous"
        facts = [("scale", f"{self.scale:.6g}"), ("standard deviation", f"{self.std:.6g}"), ("step", step)]
        return facts_html(f"{self.kind.capitalize()} noise", facts)

    def __repr__(self) -> str:
        grid = f", step={str(self.step)!r}" if self.step else ""
        return f"{type(self).__name__}(scale={self.scale:.6g}{grid})"


@dataclass(frozen=True, repr=False)
class Laplace(_Noise):
    """Laplace noise: density exp(-|z| / scale) / (2 scale), or in discrete steps with probabilities in proportion.

    >>> Laplace(scale=24.0).variance
    1152.0
    """

    kind = "laplace"

    @property
    def variance(self) -> float:
        h = float(self.step / self.exact)  # one step in units of the scale
        if h < 1e-6:  # or none; the discrete variance differs by h^2 / 12 of itself, and would divide by zero at last
            return 2 * self.scale**2
        return 2 * exp(-h) / expm1(-h) ** 2 * float(self.step) ** 2

    def log_density(self, z: Any) -> Any:
        if not self.step:
            return -abs(z) / self.scale - log(2 * self.scale)
        h = float(self.step / self.exact)
        return -abs(z) / self.scale + log(-expm1(-h) / (1 + exp(-h)) / float(self.step))


@dataclass(frozen=True, repr=False)
class Gaussian(_Noise):
    """Gaussian noise of standard deviation ``scale``, or in discrete steps with probabilities in proportion.

    >>> Gaussian(scale=3.0).std
    3.0
    """

    kind = "gaussian"

    @property
    def variance(self) -> float:
        if not self.step:
            return self.scale**2
        sigma, step = float(self.exact / self.step), float(self.step)
        if sigma > 2:  # the discrete variance differs by less than 1e-30 of itself
            return self.scale**2
        if sigma < 0.01:  # the chance of any other step than none is below 1e-2000
            return 0.0
        return step**2 * fsum(k * k * exp(-k * k / (2 * sigma**2)) for k in range(-80, 81)) / _mass(sigma)

    def log_density(self, z: Any) -> Any:
        if not self.step:
            return -(z * z) / (2 * self.scale**2) - log(self.scale * sqrt(2 * pi))
        return -(z * z) / (2 * self.scale**2) - log(_mass(float(self.exact / self.step)) * float(self.step))


Noise = Laplace | Gaussian


def describe_noises(noises: Sequence[Noise]) -> str:
    """The noise of several tables in one line: one scale, or the smallest and the largest of each kind.

    >>> describe_noises([Laplace(2.0), Laplace(2.0)])
    'Laplace of scale 2 (standard deviation 2.83)'
    >>> describe_noises([Gaussian(20.0), Gaussian(3.0), Gaussian(5.0)])
    'Gaussian of 3 scales from 3 to 20 (standard deviations 3 to 20)'
    """
    kinds: dict[tuple[str, bool], dict[str, Noise]] = {}
    for noise in sorted(noises, key=lambda one: one.exact):
        kinds.setdefault((noise.kind, bool(noise.step)), {})[noise.describe()] = noise
    said = []
    for (kind, discrete), found in kinds.items():
        first, last = next(iter(found.values())), next(reversed(found.values()))
        text = (
            f"{'discrete ' * discrete}{kind.capitalize()} of {len(found)} scales from {first.scale:.4g} to "
            f"{last.scale:.4g} (standard deviations {first.std:.3g} to {last.std:.3g})"
        )
        said.append(text if len(found) > 1 else first.describe())
    return "; ".join(said)


def noise_from_json(data: Any) -> Noise:
    """The inverse of ``to_json``."""
    kinds: dict[str, type[Laplace] | type[Gaussian]] = {"laplace": Laplace, "gaussian": Gaussian}
    if not isinstance(data, dict) or set(data) != {"kind", "scale", "step"} or data["kind"] not in kinds:
        raise Error('noise is written as {"kind": "laplace" or "gaussian", "scale": ..., "step": ...}.')
    scale, step = (parse_rational(data[name], f"the {name} of noise") for name in ("scale", "step"))
    return kinds[data["kind"]](scale, step)  # type: ignore[arg-type]


def _exact(value: Any, what: str, *, zero: bool) -> Fraction:
    """The exact rational of a number (a float is a binary fraction), refused unless positive (or zero) and finite."""
    try:
        if isinstance(value, bool) or (not isinstance(value, Fraction) and not isfinite(value)):
            raise ValueError
        result = value if isinstance(value, Fraction) else Fraction(value if isinstance(value, int) else float(value))
        float(result)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise Error(f"{what} must be a positive finite number, not {str(value)[:40]!r}.") from None
    if result < 0 or (result == 0 and not zero):
        raise Error(f"{what} must be greater than 0, not {str(value)[:40]}.")
    return result


def _mass(sigma: float) -> float:
    """The sum of exp(-k^2 / (2 sigma^2)) over all integers k."""
    if sigma > 2:  # Poisson summation: the next term is 2 exp(-2 pi^2 sigma^2), below 1e-34
        return sigma * sqrt(2 * pi)
    if sigma < 0.01:
        return 1.0
    return fsum(exp(-k * k / (2 * sigma**2)) for k in range(-80, 81))
