"""Private stochastic gradient descent (PSGD), the paper's baseline: DP-SGD of Abadi et al. (2016) for random fields.

It maximises the log-likelihood by noisy gradient steps. Each step takes a Poisson sample of the records, clips the
gradient of each to length c, adds Gaussian noise to the sum and moves the parameters:

    w <- w + eta ( (sum_i min(1, c/|g_i|) g_i + sigma c z) / (q N) - lambda w ),      g_i = n_i - m(w)

where n_i counts the cells that record i is in and m = E[n] under the model. No gradient is ever laid out record by
record: |g_i|^2 = |n_i|^2 - 2 n_i.m + |m|^2 takes one look-up a clique.

This is a *research baseline*. Its noise is drawn from the operating system's entropy but in floating point, which in
principle leaks (Mironov 2012), unlike the exact noise of :func:`quietfield.release`; its promise is (epsilon, delta).

Glossary: w parameters (one per cell of each untied table), theta = w laid out for inference, q rate, N population.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import product
from math import isfinite, nextafter
from pathlib import Path
from typing import Any

from experiments.psgd_accounting import Accountant, noise_multiplier, zcdp_price
from quietfield.cliques import Structure
from quietfield.curator.charging import Price, Receipt, charge_ledger, open_ledger
from quietfield.curator.ledger import Ledger
from quietfield.curator.policy import read_policy
from quietfield.curator.request import check_size
from quietfield.domain import Domain
from quietfield.errors import Error
from quietfield.models.model import Model
from quietfield.privacy import accounting
from quietfield.privacy.planning import MOST_RECORDS
from quietfield.privacy.units import Rows, statistics
from quietfield.releases.parts import PAPER_NOTE, Payment
from quietfield.text import join_names, plural

FLOAT_NOTE = "research baseline: the noise is floating point, not exact"
SEED_NOTE = "NOT PRIVATE: the noise came from a seed"


@dataclass(frozen=True)
class Settings:
    """How a run goes. All of it is public and must be chosen without looking at the records.

    ``clip`` is the length that a record's gradient is cut to (no gradient is longer than sqrt(2 |C|)), ``rate`` the
    chance of a record to be in a step's batch, ``l2`` the weight lambda of (lambda/2) |w|^2 *per record*. With
    ``average`` the result is the mean of the second half of the iterates instead of the last.

    >>> len(Settings.grid(learning_rate=[0.3, 1, 3], clip=[1, 2]))
    6
    """

    learning_rate: float = 1.0
    clip: float = 2.0
    rate: float = 0.01
    steps: int = 1000
    l2: float = 0.0
    average: bool = False

    def __post_init__(self) -> None:
        for name, low, high in (("learning_rate", 0, None), ("clip", 0, None), ("rate", 0, 1), ("steps", 0, None)):
            value = getattr(self, name)
            if not _number(value) or not value > low or (high is not None and value > high):
                most = "" if high is None else f" and at most {high}"
                raise Error(f"{name} is a number greater than {low}{most}, not {value!r}.")
        if int(self.steps) != self.steps:
            raise Error(f"steps is a whole number, not {self.steps!r}.")
        if not _number(self.l2) or self.l2 < 0 or self.l2 * self.learning_rate >= 2:
            raise Error(f"l2 is 0 or more, and less than 2 / learning_rate lest the steps diverge, not {self.l2!r}.")

    @classmethod
    def grid(cls, **choices: Sequence[Any]) -> "tuple[Settings, ...]":
        """Every combination of some choices; what is not named keeps its default."""
        known = [field.name for field in fields(cls)]
        for name, values in choices.items():
            if name not in known:
                raise Error(f"{name!r} is not a setting; expected some of {', '.join(known)}.")
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise Error(f"{name} lists the values to try, for instance {name}=[{values!r}].")
        return tuple(cls(**dict(zip(choices, row, strict=True))) for row in product(*choices.values()))


@dataclass(frozen=True)
class Learned:
    """A model learned by PSGD, and what it cost."""

    model: Model
    settings: Settings
    sigma: float  # noise multiplier: the noise's standard deviation divided by the clip
    epsilon: Fraction  # of this run alone; a grid costs the sum over its runs
    delta: Fraction
    accountant: Accountant
    notes: tuple[str, ...]
    id: str  # of the charge: all runs of a grid are paid for at once
    ledger: Payment | None

    @property
    def is_dp(self) -> bool:
        """Whether the promise of differential privacy was made at all (neither paper mode nor a seed)."""
        return not {PAPER_NOTE, SEED_NOTE}.intersection(self.notes)


def psgd(
    records: Any,
    domain: Domain,
    cliques: "Structure | Iterable[str | Iterable[str]]",
    settings: Settings | None = None,
    *,
    epsilon: accounting.Number,
    delta: accounting.Number | None = None,
    population: int | None = None,
    ledger: "Ledger | str | Path | None",
    accountant: Accountant = "pld",
    paper: bool = False,
    seed: int | None = None,
) -> Learned:
    """Learn a model from records by private gradient descent, with (epsilon, delta)-privacy for any one row.

    ``records`` is an array of codes, or a frame or mapping of columns with labels, which are read as in a count;
    records with a value outside the domain are left out. ``population`` is a public guess of their number: it scales
    the steps, and ``delta`` is 1/population unless you ask for less, which you should. It is not compared with the true
    number, which is private.
    ``ledger`` pays before noise is drawn; it must count by zCDP, and is charged steps / (2 sigma^2): zCDP knows no gain
    from sampling, so that ``rate=1`` gives the most for a ledger's money.

    ``paper=True`` takes the exact number of records as public, as the paper does; only then may a ``seed`` be given.
    Such results say that they are not private.

    >>> import numpy as np, quietfield as qf
    >>> domain = qf.Domain({"smokes": ["no", "yes"], "coughs": ["no", "yes"]})
    >>> people = np.array([[0, 0], [1, 1]] * 500)
    >>> full = Settings(learning_rate=4, rate=1, steps=20)
    >>> out = psgd(people, domain, [("smokes", "coughs")], full, epsilon=2, delta=1e-6, population=1000, ledger=None)
    >>> bool(out.model.conditional("coughs", given={"smokes": "yes"})[1] > 0.8), out.is_dp
    (True, True)
    """
    chosen = Settings() if settings is None else settings
    return psgd_grid(
        records, domain, cliques, [chosen], epsilon=epsilon, delta=delta, population=population, ledger=ledger,
        accountant=accountant, paper=paper, seed=seed,
    )[0]  # fmt: skip


def psgd_grid(
    records: Any,
    domain: Domain,
    cliques: "Structure | Iterable[str | Iterable[str]]",
    settings: Iterable[Settings],
    *,
    epsilon: accounting.Number,
    delta: accounting.Number | None = None,
    population: int | None = None,
    ledger: "Ledger | str | Path | None",
    accountant: Accountant = "pld",
    paper: bool = False,
    seed: int | None = None,
) -> list[Learned]:
    """Many runs of :func:`psgd` at once, in the order of ``settings``; runs of equal length share their steps.

    ``epsilon`` and ``delta`` are those of *each* run. Publishing, or choosing by, several of them costs their sum, and
    that is what the ledger is charged. The paper's grid search, chosen with the truth in hand, costs nothing only
    because it is a simulation.
    """
    wanted = list(settings)
    if not wanted or not all(isinstance(one, Settings) for one in wanted):
        raise Error("settings are one or more Settings; make a list of them with Settings.grid(clip=[1, 2]).")
    if not isinstance(domain, Domain):
        raise Error(f"psgd needs a Domain, not a {type(domain).__name__}; a schema's is schema.domain.")
    structure = Structure.of(cliques, domain)
    if not structure.cliques:
        raise Error("there is nothing to learn without cliques; name at least one.")
    check_size(statistics(structure, domain, Rows(1)))
    asked = accounting.to_rational(epsilon, "epsilon")
    book = _book(ledger, paper, seed)
    codes: Any = None
    if paper:
        if population is not None:
            raise Error("in paper mode the exact number of records is used; leave population= out.")
        _ask_policy(asked, delta, len(wanted), book)
        codes = codes_inside(domain, records)
        population = max(len(codes), 2)
    elif (
        population is None
        or isinstance(population, bool)
        or not hasattr(population, "__index__")
        or not 2 <= population <= MOST_RECORDS
    ):
        raise Error(
            f"population is a public guess of the number of records, from 2 to {MOST_RECORDS:,}, not "
            f"{population!r:.40}; it must not be counted from them. To simulate with the exact number, say paper=True."
        )
    chance = Fraction(1, population) if delta is None else accounting.to_probability(delta)
    sigmas = [
        noise_multiplier(_down(asked), _down(chance), float(one.rate), int(one.steps), accountant) for one in wanted
    ]
    price = Price(
        epsilon=asked * len(wanted),
        delta=chance * len(wanted),
        rho=sum((zcdp_price(sigma, int(one.steps)) for sigma, one in zip(sigmas, wanted, strict=True)), Fraction(0)),
        unit=Rows(1),
        neighbours="paper" if paper else "add_remove",
        noise="psgd",
    )
    price.check(book)

    from experiments.psgd_steps import Draws, field, run

    field(domain, structure).exact.plan.check_memory(rows=len(wanted))  # compiled, and refused, before anything is paid
    read = None if paper else reading(domain, records)

    def work(receipt: Receipt) -> list[Learned]:
        found = read() if read else codes
        models = run(domain, structure, found, wanted, sigmas, population, Draws(seed))
        notes = [FLOAT_NOTE]
        if paper:
            notes.insert(0, PAPER_NOTE)
        if seed is not None:
            notes.insert(0, SEED_NOTE)
        if book is None:
            notes.append("no ledger was charged")
        return [
            Learned(model, one, sigma, asked, chance, accountant, tuple(notes), receipt.id, receipt.payment)
            for model, one, sigma in zip(models, wanted, sigmas, strict=True)
        ]

    return charge_ledger(book, price, f"{plural(len(wanted), 'run')} of PSGD, Gaussian noise", work)


def codes_inside(domain: Domain, records: Any) -> Any:
    """Records as an array of codes, without those that hold a value outside the domain. Nothing is said about them."""
    return reading(domain, records)()


def reading(domain: Domain, records: Any) -> Callable[[], Any]:
    """What reads the records as :func:`codes_inside` says. What can be refused without a look is refused here.

    Frames and columns cannot be opened without a look at their values, so that waits until it is paid for. Values are
    read one by one, as in a count: no record changes how another is read.
    """
    import numpy as np

    from quietfield.curator.counting import is_in_database, open_engine
    from quietfield.curator.counting.csvfiles import CsvFile
    from quietfield.curator.counting.statfiles import StatFile

    if isinstance(records, np.ndarray):
        if records.ndim != 2 or records.shape[1] != len(domain) or records.dtype.kind not in "iu":
            raise Error(f"records as an array are whole numbers of shape (records, {len(domain)}): codes by attribute.")
        return lambda: records[((records >= 0) & (records < np.array(domain.shape))).all(axis=1)]
    if isinstance(records, str | Path | list | tuple | CsvFile | StatFile):
        raise Error(
            f"records are an array of whole numbers, a mapping of columns or a frame, not a {type(records).__name__}; "
            "make an array of rows of codes with np.array(rows)."
        )
    from quietfield.models.frames import Frame
    from quietfield.schema import Labels, Schema

    if is_in_database(records):
        raise Error(f"PSGD cannot read a {type(records).__name__}; give an array, a mapping of columns or a frame.")
    if isinstance(records, Mapping) and (absent := [name for name in domain if name not in records]):
        raise Error(
            f"the records have no column {join_names(absent)}; expected a column for each of {join_names(domain)}."
        )
    schema = Schema({name: Labels(domain.labels(name)) for name in domain})

    def read() -> Any:
        found: Any = open_engine(records.to_arrow() if isinstance(records, Frame) else records)
        return found.codes(schema)

    return read


def _ask_policy(epsilon: Fraction, delta: accounting.Number | None, runs: int, book: Ledger | None) -> None:
    """Ask the policy in force for the paper's setting, before any record is read.

    There delta is one in the number of records, unless it is given; the policy is asked for the largest that can be,
    so that a refusal tells nothing of the records.
    """
    policy = read_policy()
    if policy is not None:
        chance = Fraction(1, 2) if delta is None else accounting.to_probability(delta)
        policy.check(Price(epsilon * runs, chance * runs, None, Rows(1), "paper", "psgd"), book)


def _book(ledger: "Ledger | str | Path | None", paper: bool, seed: int | None) -> Ledger | None:
    if seed is not None and not paper:
        raise Error("a seed makes the noise known, so it goes with paper=True (a simulation, not private) only.")
    if seed is not None and ledger is not None:
        raise Error("a run with a seed is not private, so no ledger can pay for it; say ledger=None.")
    book = open_ledger(ledger)
    if book is not None and book.accounting == "pure":
        raise Error(
            "this ledger counts pure epsilon and cannot pay for PSGD, which promises (epsilon, delta); "
            "use a ledger with zcdp accounting, or qf.release with Laplace noise."
        )
    return book


def _number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and isfinite(value)


def _down(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) <= value else nextafter(near, 0.0)
