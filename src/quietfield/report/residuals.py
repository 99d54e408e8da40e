"""How a model's expected tables differ from the noisy ones, against the noise that was added.

A noisy cell y has mean N m and variance v + N m (1 - m), with v the variance of its noise and m the model's share
(summed over tied cliques); z is the difference in units of that standard deviation.
"""

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

from quietfield.domain import Clique

if TYPE_CHECKING:
    import numpy as np

    from quietfield.model import Model
    from quietfield.releases import Release


@dataclass(frozen=True, eq=False)
class TableFit:
    """One noisy table beside the model: expected counts, residuals in standard deviations (NaN where not counted)."""

    cliques: tuple[Clique, ...]
    noisy: "np.ndarray"
    expected: "np.ndarray"
    z: "np.ndarray"
    std: float

    @property
    def cells(self) -> int:
        import numpy as np

        return int(np.isfinite(self.z).sum())

    @property
    def rms(self) -> float:
        import numpy as np

        return float(np.sqrt(np.nanmean(self.z**2))) if self.cells else 0.0


def residuals(release: "Release", model: "Model", total: float) -> list[TableFit]:
    """Every noisy table beside what the model expects of it."""
    import numpy as np

    found = []
    for part in release.parts:
        clique = part.cliques[0]
        share = sum((model.marginal(c) for c in part.cliques), np.zeros(part.values.shape))
        noisy = release.tables[clique]
        variance = part.noise.variance + total * share * np.clip(1 - share, 0, 1)
        z = (noisy - total * share) / np.sqrt(variance)
        if part.excluded is not None:
            z[part.excluded] = np.nan
        if len(part.cliques) == 1:
            z = np.where(release.domain.mask_over(clique), z, np.nan)
        found.append(TableFit(part.cliques, noisy, total * share, z, part.noise.std))
    return found


def worse_than_noise(fit: TableFit) -> bool:
    """Whether a table's residuals are larger than noise and sampling explain, with three standard errors of leeway.

    The square of a normalised Laplace draw has variance 5, that of a normal one 2; the larger is taken. For a p-value,
    see :func:`quietfield.evaluation.goodness_of_fit`.
    """
    return fit.cells > 0 and fit.rms**2 > 1 + 3 * sqrt(5 / fit.cells)
