"""Model: a discrete Markov random field, and what can be asked of it.

    p(x) = exp( sum over cliques C of theta_C(x_C)  -  A(theta) )      where x is possible, 0 elsewhere

Axes follow each clique as given; values along an axis follow the Domain.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import isnan
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from quietfield.cliques import Structure
from quietfield.domain import Clique, Domain, Label
from quietfield.drawing.graph import model_html
from quietfield.errors import Error
from quietfield.inference import Inference, NotConverged, check_options, infer
from quietfield.inference.elimination import Factor, list_factors, most_probable, restrict_factors
from quietfield.inference.layout import IMPOSSIBLE, check_values, plain_layout
from quietfield.inference.tree import Calibrated, calibrate_given
from quietfield.learning.covariance import Draws, covariance_of
from quietfield.models import gibbs, model_file, sampling
from quietfield.models.basis import describe_basis
from quietfield.models.fit_report import FitReport
from quietfield.models.frames import Frame, encode_records, label_cells
from quietfield.models.intervals import QUICK_MODEL, Cells, check_errors_known, interval
from quietfield.models.uncertainty import Uncertainty
from quietfield.models.values import check_schema, draw_values
from quietfield.schema import Schema
from quietfield.text import join_names, plural, type_name

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from numpy.typing import ArrayLike

    from quietfield.learning.covariance import Covariance


class Model:
    """A model from log-potentials, one table per clique.

    >>> import quietfield as qf
    >>> domain = qf.Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> model = qf.Model(domain, {("rain", "wet"): [[1.0, -1.0], [-1.0, 1.0]]})
    >>> model.conditional("wet", given={"rain": "yes"}).round(3).tolist()
    [0.119, 0.881]

    ``inference`` is its kind (see :data:`quietfield.inference.KINDS`), ``options`` are passed to it. Where it is
    approximate, probabilities and answers are approximations.
    """

    def __init__(
        self,
        domain: Domain,
        potentials: "Mapping[Any, ArrayLike]",
        *,
        inference: str = "exact",
        options: Mapping[str, Any] | None = None,
        report: FitReport | None = None,
        uncertainty: Uncertainty | None = None,
        schema: Schema | None = None,
    ) -> None:
        if not isinstance(domain, Domain):
            raise Error(f"a Model's first argument is a Domain, not {type_name(domain)}.")
        if not isinstance(potentials, Mapping):
            raise Error(f"potentials map cliques to tables; expected a mapping, not {type_name(potentials)}.")
        self.domain = domain
        self.structure = Structure.of(potentials, domain)
        #: The name of the kind of inference that answers.
        self.inference = inference
        self.options = MappingProxyType(dict(options or {}))
        #: How the model was learned, if it was.
        self.report = report
        #: What intervals need, if the model was learned by a method that gives them.
        self.uncertainty = uncertainty
        #: How columns became attributes, if that is known: synthetic records are written by it.
        self.schema = schema
        if schema is not None and (not isinstance(schema, Schema) or schema.domain != domain):
            raise Error("the schema of a model gives its domain: pass schema.domain first, and the Schema itself.")
        #: The fingerprint of the key that signed the file that the model was loaded from, or None.
        self.signer: str | None = None
        self._drawn: Draws | None = None  # errors for intervals, where a file keeps them
        check_options(inference, self.options)
        layout = plain_layout(domain, self.structure.cliques)
        flat = layout.pack(dict(zip(self.structure.cliques, potentials.values(), strict=True)))
        #: The log-potentials, one read-only array a clique.
        self.potentials: Mapping[Clique, np.ndarray] = MappingProxyType(layout.unpack(flat))
        check_values(flat, self.potentials)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return self.structure.cliques

    @property
    def parameters(self) -> int:
        """The number of log-potentials."""
        return sum(table.size for table in self.potentials.values())

    @cached_property
    def inference_result(self) -> Inference:
        """Marginals and log Z as inference found them, with its residual; computed once."""
        return infer(self.domain, self.potentials, self.inference, **self.options)

    def marginals(self) -> dict[Clique, np.ndarray]:
        """The marginal table of every clique."""
        self._warn()
        return dict(self.inference_result.marginals)

    def marginal(self, attributes: str | Iterable[str]) -> np.ndarray:
        """The joint distribution of any attributes, inside a clique or not; axes in the order given.

        Where inference is approximate and no clique holds them together, it is estimated from a Gibbs sample, always
        the same; :meth:`query` gives its Monte Carlo errors, too.

        Args:
            attributes: One name, or several.

        Returns:
            An array of probabilities, one axis per attribute.

        Raises:
            Error: A name is not an attribute.
            TooLarge: Exact inference would not fit in memory.
        """
        wanted = self.domain.clique(attributes)
        inside = self._inside(wanted)
        if inside is not None:
            return inside
        if self.inference != "exact":
            return self._estimate(wanted, {}).shares
        return self._calibration.joint([self.domain.position(name) for name in wanted])

    def conditional(self, attributes: str | Iterable[str], given: Mapping[str, Label | Sequence[Label]]) -> np.ndarray:
        """The joint distribution of attributes where others are known.

        Estimated from a Gibbs sample where inference is approximate and no clique holds all of them: see
        :meth:`marginal`.

        Args:
            attributes: One name, or several.
            given: The known attributes: a label each, or a list of possible labels.

        Returns:
            An array of probabilities, one axis per attribute asked for.

        Raises:
            Error: A name or label is not known, an attribute is both asked for and given, or what is given has
                probability 0.
        """
        wanted = self.domain.clique(attributes)
        known = self._known(given)
        both = [name for name in known if name in wanted]
        if both:
            raise Error(f"{join_names(both)} is both asked for and given; name each attribute once.")
        if self.inference != "exact":
            return self._approximate(wanted, known)
        found = calibrate_given(self.domain, self.potentials, known)
        if found.log_z < IMPOSSIBLE / 10:
            raise Error(f"the given values {dict(given)!r} have probability 0 in this model.")
        return found.joint([self.domain.position(name) for name in wanted])

    def interval(
        self,
        query: "str | Iterable[str] | Mapping[Any, ArrayLike]",
        level: float = 0.9,
        given: Mapping[str, Label | Sequence[Label]] | None = None,
        of: str = "source",
    ) -> tuple[Any, Any]:
        """(low, high) around an answer, for a model learned by ``map``; conditional on its structure.

        The intervals account for privacy noise, the sample of people and the estimation, an estimated number of records
        included. What they cannot know is whether the structure holds: they are right if the truth is such a field. On
        simulated models, 90% intervals held 90 to 99% of all cells and at least 87% of small, middling and large ones.

        Args:
            query: Names of attributes, for their joint distribution; or a mapping from attributes to weights, for the
                sum of weights times probabilities.
            level: The level of confidence, between 0 and 1.
            given: The known attributes, as in :meth:`conditional`; None for none.
            of: ``"source"`` for the distribution that the records came from, ``"records"`` for the records.

        Returns:
            The lower and the upper ends: two arrays with axes as given, or two numbers where there are weights.

        Raises:
            Error: The model has no record of its errors, or a name, label or level is not allowed.

        >>> import quietfield as qf
        >>> domain = qf.Domain({"a": 2, "b": 2})
        >>> tables = {("a", "b"): [[500, 90], [110, 300]]}
        >>> model = qf.fit(qf.Release.from_tables(domain, tables, noise=qf.Laplace(2.0), total=1000))
        >>> low, high = model.interval("a", 0.9)
        >>> bool(low[0] < 0.59 < high[0] < 0.64)
        True
        """
        return interval(self, query, level, given, of)

    def query(
        self,
        attributes: str | Iterable[str],
        given: Mapping[str, Label | Sequence[Label]] | None = None,
        level: float | None = None,
    ) -> "pandas.DataFrame":
        """The joint distribution of attributes as a pandas frame with labels: one row per cell, ready to plot.

        Args:
            attributes: One name, or several.
            given: The known attributes, as in :meth:`conditional`; None for none.
            level: The level of confidence of intervals; None for no intervals.

        Returns:
            The attributes, ``probability`` and, with a ``level``, the ends ``low`` and ``high``. ``attrs["basis"]``
            says what the answer rests on: published tables, or the model's inference from others. An answer that was
            estimated from a Gibbs sample, for want of exact inference, has a column ``monte_carlo_error``, too, and
            ``attrs["estimate"]`` says how it was made.

        Raises:
            Error: As :meth:`marginal`, :meth:`conditional` and :meth:`interval` do.

        >>> import quietfield as qf
        >>> domain = qf.Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
        >>> model = qf.Model(domain, {("rain", "wet"): [[1.0, -1.0], [-1.0, 1.0]]})
        >>> print(model.query("wet", given={"rain": "yes"}).round(3))
           wet  probability
        0   no        0.119
        1  yes        0.881
        """
        wanted = self.domain.clique(attributes)
        numbers = {"probability": self.conditional(wanted, given) if given else self.marginal(wanted)}
        if level is not None:
            numbers["low"], numbers["high"] = self.interval(wanted, level, given)
        estimate = self.estimate(wanted, given)
        if estimate is not None:
            numbers["monte_carlo_error"] = estimate.errors
        frame = label_cells(self.domain, wanted, numbers)
        frame.attrs["basis"] = describe_basis(self, (*wanted, *(given or {})))
        if estimate is not None:
            frame.attrs["estimate"] = str(estimate)
        return frame

    def estimate(
        self, attributes: str | Iterable[str], given: Mapping[str, Label | Sequence[Label]] | None = None
    ) -> gibbs.Estimate | None:
        """An answer with its Monte Carlo errors, where it is estimated from a Gibbs sample.

        Args:
            attributes: One name, or several.
            given: The known attributes, as in :meth:`conditional`; None for none.

        Returns:
            ``shares`` and ``errors``, one axis per attribute; or None where inference answers without a sample.

        Raises:
            Error: As :meth:`conditional` does.
        """
        wanted, known = self.domain.clique(attributes), self._known(given or {})
        if self.inference == "exact" or self._inside((*known, *wanted)) is not None:
            return None
        return self._estimate(wanted, known)

    def log_prob(self, records: Any) -> np.ndarray:
        """The log-probability of each record.

        Args:
            records: An array of codes, or any frame or mapping of columns with labels.

        Returns:
            One number per record, in nats; minus infinity for an impossible one.

        Raises:
            Error: A column is missing, or a value is no label of its attribute.
        """
        codes = encode_records(self.domain, records)
        total = np.full(len(codes), -self.log_partition())
        for scope, table in self._factors:
            total += table[tuple(codes[:, v] for v in scope)]
        return total

    def log_partition(self) -> float:
        """A(theta) = log Z; an estimate where inference is approximate (an upper bound with ``convex``)."""
        self._warn()
        return float(self.inference_result.log_z)

    def entropy(self) -> float:
        """The entropy in nats, A(theta) - theta . mu."""
        found = self.inference_result.marginals
        return self.log_partition() - sum(float((self.potentials[c] * found[c]).sum()) for c in self.cliques)

    def mode(self, given: Mapping[str, Label | Sequence[Label]] | None = None) -> dict[str, Label]:
        """A most probable record, exactly, by max-product. Among equally probable ones the choice is always the same.

        Args:
            given: The known attributes: a label each, or a list of possible labels; None for none.

        Returns:
            A label for each attribute.

        Raises:
            Error: A name or label is not known, what is given has probability 0, or inference is approximate.

        >>> import quietfield as qf
        >>> domain = qf.Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
        >>> model = qf.Model(domain, {("rain", "wet"): [[2.0, -1.0], [-1.0, 1.0]]})
        >>> model.mode(), model.mode(given={"wet": "yes"})
        ({'rain': 'no', 'wet': 'no'}, {'rain': 'yes', 'wet': 'yes'})
        """
        given = {} if given is None else given
        factors = restrict_factors(self.domain, self._factors, self._known(given))
        self._need_exact("the most probable record")
        best, largest = most_probable(self.domain.shape, factors)
        if largest == float("-inf"):
            refusal = f"the given values {dict(given)!r} have probability 0 in this model."
            raise Error(refusal if given else "no record is possible.")
        known = {self.domain.position(name): self.domain.codes(name, value) for name, value in given.items()}
        best |= {v: codes[0] for v, codes in known.items() if v not in best}
        return {name: self.domain.labels(name)[best.get(v, 0)] for v, name in enumerate(self.domain)}

    def kl(self, other: "Model") -> float:
        """KL(self || other) in nats, exact also where the two have different cliques.

        Args:
            other: A model of the same attributes and labels.

        Returns:
            The divergence; infinite where the other model rules out what this one allows.

        Raises:
            Error: The attributes or labels differ, or inference is approximate.
        """
        if not isinstance(other, Model):
            raise Error(f"a divergence is from a Model, not from {type_name(other)}.")
        mine, theirs = self.domain, other.domain
        if {a: mine.labels(a) for a in mine} != {a: theirs.labels(a) for a in theirs}:
            raise Error(
                "the two models have different attributes or labels; a divergence needs the same on both sides."
            )
        self._need_exact("a divergence")
        other._need_exact("a divergence")
        for clique, mask in other.domain.masks:
            if (self.marginal(clique)[~mask] > 0).any():
                return float("inf")
        cross = sum(float((self.marginal(c) * table).sum()) for c, table in other.potentials.items())
        value = -self.entropy() - cross + other.log_partition()
        return value if isnan(value) else max(0.0, value)  # rounding may leave it a hair below 0

    @property
    def total(self) -> int | None:
        """The number of records that the model was learned from, as far as its release tells; None if it was not."""
        return None if self.report is None or isnan(self.report.total) else max(round(self.report.total), 0)

    def records(
        self,
        n: int | None = None,
        seed: int | None = None,
        schema: Schema | None = None,
        *,
        even: bool = False,
        **options: int,
    ) -> "pyarrow.Table":
        """Synthetic records as the source holds its own: the same columns, types, dates, numbers and missing values.

        Values are uniform within their cells; see :mod:`quietfield.models.values` for the rules, and
        :func:`quietfield.write_records` for a file with a data card. Read with the schema again, the records are those
        of ``sample`` with the same seed.

        Args:
            n: How many; by default as many as the release counted, as far as it tells.
            seed: The same seed gives the same records.
            schema: How columns became attributes; by default the schema of the release.
            even: As for :meth:`sample`.
            options: As for :meth:`sample`.

        Returns:
            An Arrow table: pandas, polars and DuckDB read it. Where sampling is not exact, the metadata of its schema
            hold the ``diagnostics``.

        Raises:
            Error: The model has no schema and none is given, or it has no number of records.

        >>> import quietfield as qf
        >>> schema = qf.Schema({"age": qf.Cuts([18, 65], least=0, most=99), "sex": ["f", "m"]})
        >>> model = qf.Model(schema.domain, {("age", "sex"): [[0, 0], [1, 1], [0, 0]]}, schema=schema)
        >>> model.records(3, seed=0).to_pylist()[0]
        {'age': 60, 'sex': 'm'}
        """
        schema = self.schema if schema is None else schema
        if schema is None:
            raise Error(
                "this model does not know the columns of its source: its release is of an older version, or of tables "
                "that were noised elsewhere. Give schema=qf.Schema.load(...), or draw labels with model.sample(n)."
            )
        check_schema(schema, self.domain)
        n = self.total if n is None else n
        if n is None:
            raise Error("this model was not learned from a release that tells a number of records; say how many: n.")
        sampling.check_memory(self.domain, sampling.check_whole("the number of records", n, 0), even=even, values=True)
        frame = self.sample(n, seed, even=even, **options)
        table = draw_values(schema, frame.code_columns, seed)
        told = None if frame.diagnostics is None else {"diagnostics": str(frame.diagnostics)}
        return table.replace_schema_metadata(told)

    def draws(self, count: int, seed: int | None = None) -> "list[Model]":
        """Models that are drawn from around this one, with expected counts as far off as its own may be.

        Noise, sample and estimation count, as for :meth:`interval` (normal in counts, to first order). Records of such
        models are synthetic data sets for inference: analyse each, and combine with
        :func:`quietfield.combine_estimates`.

        Args:
            count: How many.
            seed: The same seed gives the same models.

        Returns:
            The models.

        Raises:
            Error: The model was not learned by ``map``, so that its errors are not known.

        >>> import quietfield as qf
        >>> tables = {("a", "b"): [[500, 90], [110, 300]]}
        >>> release = qf.Release.from_tables(qf.Domain({"a": 2, "b": 2}), tables, noise=qf.Laplace(2.0), total=1000)
        >>> [bool(0.5 < drawn.marginal("a")[0] < 0.7) for drawn in qf.fit(release).draws(2, seed=0)]
        [True, True]
        """
        check_errors_known(self)
        count = sampling.check_whole("the number of models", count, 1)
        if seed is not None:
            seed = sampling.check_whole("a seed", seed, 0)
        covariance = self._covariance
        found = covariance.draw_parameters(count, np.random.default_rng(seed))
        return [
            Model(
                self.domain, covariance.shape.tables(theta), inference=self.inference, options=self.options,
                report=self.report, schema=self.schema,
            )
            for theta in found
        ]  # fmt: skip

    def sample(self, n: int, seed: int | None = None, *, even: bool = False, **options: int) -> Frame:
        """Draw records: exactly where inference is exact, else by Gibbs sampling from many chains.

        :meth:`records` gives them the columns and types of their source.

        Args:
            n: The number of records.
            seed: A whole number; the same one gives the same records. None draws new ones each time.
            even: Whether records are spread evenly instead of independent: each has the same distribution, but together
                they follow the model more closely than chance would have it. Where inference is exact.
            options: Of Gibbs sampling: ``chains``, ``burn_in``, ``thin``.

        Returns:
            The records. With Gibbs sampling, their ``diagnostics`` give the effective sample size and the agreement
            with the model.

        Raises:
            Error: A number is negative, an option is not known, or no record is possible.
        """
        n = sampling.check_whole("the number of records", n, 0)
        if seed is not None:
            seed = sampling.check_whole("a seed", seed, 0)
        if self.inference == "exact":
            if options:
                raise Error(
                    f"{join_names(options)} apply to Gibbs sampling; this model is sampled exactly and needs none."
                )
            self.log_partition()  # refuses a model without possible records
            return Frame(self.domain, sampling.sample_ancestral(self.domain, self._factors, n, seed, even=even))
        if even:
            raise Error("records are spread evenly where inference is exact; Gibbs sampling cannot.")
        strange = [name for name in options if name not in ("chains", "burn_in", "thin")]
        if strange:
            raise Error(f"{join_names(strange)}: Gibbs sampling takes 'chains', 'burn_in' and 'thin'.")
        self._warn()
        start = [self.inference_result.attributes[name] for name in self.domain]
        drawn = gibbs.sample_gibbs(self.domain, self._factors, start, n, seed, **options)
        report = gibbs.check_gibbs(self.domain, drawn, self.inference_result.marginals) if n else None
        if report is not None and report.stuck:
            warnings.warn(str(report), NotConverged, stacklevel=2)
        return Frame(self.domain, [column[:n] for column in drawn.columns], report)

    @property
    def signed(self) -> bool:
        """Whether the model was loaded from a file with a valid signature."""
        return self.signer is not None

    @property
    def signers(self) -> tuple[str, ...]:
        """The fingerprints of the keys that signed the file it was read from."""
        return () if self.signer is None else (self.signer,)

    def keep_errors(self) -> None:
        """Draw now what intervals of this model need, for :meth:`save` to keep: then they answer at once from a file.

        Large models draw errors of their parameters, in seconds, for the first interval. In a file these take a few
        dozen times the room of the model, so that models of more than 100,000 log-potentials keep none; small models
        need none.

        Raises:
            Error: The model was not learned by ``map``, so that its errors are not known, or its inference is
                approximate and gives its cells no proper covariance.

        >>> import quietfield as qf
        >>> study = qf.simulate(attributes=3, states=20, records=2000)
        >>> model = qf.fit(study.release)
        >>> model.keep_errors()
        >>> model.save("model.qfm")
        >>> low, high = qf.Model.load("model.qfm").interval("x0")
        """
        check_errors_known(self)
        if not self._covariance.dense and self.parameters <= QUICK_MODEL:
            self._drawn = self._covariance.draws

    def save(self, path: str | Path, key: "Ed25519PrivateKey | str | Path | None" = None) -> None:
        """Write the model to a file: versioned, without pickle, whole or not at all; signed if a key is given.

        One that was loaded from a signed file is not written without a key: that would take its signature off.

        Args:
            path: Where it goes. Another model or release there is replaced, and nothing else.
            key: A private key, or the PEM file that holds one.

        Raises:
            FileError: It cannot be written there.
            Error: It was loaded from a signed file, and no key is given.
        """
        if self.signed and key is None:
            raise Error(
                f"this model is signed by {self.signer}, and a file written without that key would not be; copy the "
                "file as it is, sign again with key=..., or say model.signer = None to leave the signature out."
            )
        model_file.write_model(self, path, key)

    @classmethod
    def load(cls, path: str | Path, trust: str | Path | Iterable[str | Path] | None = None) -> "Model":
        """Read a file that :meth:`save` wrote. With ``trust`` (public key files), only one that one of them signed.

        Args:
            path: The file.
            trust: A public key (PEM), or several; None reads any model.

        Returns:
            The model; ``signer`` says who signed it.

        Raises:
            NotSigned: It is not signed, and ``trust`` is given.
            OtherSigner: It is signed by a key that is not in ``trust``.
            FileError: It is missing, damaged, altered or no model.
        """
        return model_file.read_model(cls, path, trust)

    def _inside(self, wanted: Clique) -> np.ndarray | None:
        """A marginal that some clique's table holds, or None."""
        holders = list(self.structure.holders(wanted))
        if holders:
            clique = min(holders, key=self.domain.cells)
            self._warn()
            table = self.inference_result.marginals[clique]
            table = table.sum(axis=tuple(i for i, name in enumerate(clique) if name not in wanted))
            left = [name for name in clique if name in wanted]
            return table.transpose([left.index(name) for name in wanted])
        if len(wanted) == 1 and wanted[0] in self.inference_result.attributes:
            self._warn()
            return self.inference_result.attributes[wanted[0]]
        known = set(self.structure.attributes) | {n for c, _ in self.domain.masks for n in c}
        if not known.intersection(wanted):
            return np.full(self.domain.table_shape(wanted), 1.0 / self.domain.cells(wanted))
        return None

    @cached_property
    def _covariance(self) -> "Covariance":
        """The errors of the parameters; factorised once."""
        return covariance_of(self, self._drawn)

    @cached_property
    def _moved(self) -> np.ndarray:
        """What each error that was drawn of the parameters adds to the shares of all cells."""
        return Cells.of(self).moved(self._covariance.draws.directions)

    @cached_property
    def _factors(self) -> list[Factor]:
        """Potentials and impossible combinations, for elimination."""
        return list_factors(self.domain, self.potentials)

    def _known(self, given: Mapping[str, Label | Sequence[Label]]) -> dict[str, Sequence[int]]:
        """The codes that each of some attributes may have."""
        if not isinstance(given, Mapping):
            raise Error(f'given maps attributes to labels, for instance {{"sex": "f"}}; it is not {given!r}.')
        return {name: self.domain.codes(name, given[name]) for name in self.domain.clique(given)}

    def _approximate(self, wanted: Clique, known: Mapping[str, Sequence[int]]) -> np.ndarray:
        """A conditional distribution from a clique that holds all attributes, or from a Gibbs sample."""
        table = self._inside((*known, *wanted))
        if table is None:
            return self._estimate(wanted, known).shares
        table = table[np.ix_(*known.values())] if known else table
        table = table.sum(axis=tuple(range(len(known))))
        if not table.sum() > 0:
            raise Error(f"the given values of {join_names(known)} have probability 0 in this model.")
        return table / table.sum()

    @cached_property
    def _gibbs(self) -> gibbs.GibbsAnswers:
        """What answers where inference is approximate and no clique holds what is asked."""
        return gibbs.GibbsAnswers(self.domain, self._factors, self.inference_result.attributes)

    def _estimate(self, wanted: Clique, known: Mapping[str, Sequence[int]]) -> gibbs.Estimate:
        self._warn()
        return self._gibbs.joint(wanted, known)

    @cached_property
    def _calibration(self) -> Calibrated:
        """Exact inference where nothing is known."""
        self.log_partition()  # refuses a model without possible records
        return calibrate_given(self.domain, self.potentials, {})

    def _need_exact(self, what: str) -> None:
        if self.inference != "exact":
            raise Error(
                f"this model uses {self.inference!r} inference, and {what} needs exact inference; estimate it from a "
                "sample (model.sample), or use exact inference if it fits (inference='exact' in qf.Model and "
                "qf.fit)."
            )

    def _warn(self) -> None:
        if not self.inference_result.converged:
            warnings.warn(self.inference_result.advice, NotConverged, stacklevel=3)

    def __repr__(self) -> str:
        return (
            f"Model of {plural(len(self.domain), 'attribute')} and {plural(len(self.cliques), 'clique')} "
            f"({plural(self.parameters, 'log-potential')}, {self.inference} inference)"
        )

    def _repr_html_(self) -> str:
        return model_html(self)
